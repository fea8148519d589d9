"""What SAGCopy's processor does with texts."""

from .text_processing_base import CopyingTextProcessor


class SagCopyTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of SAGCopy; `SagCopyProcessor` describes the settings."""

    def _special_ids(self) -> tuple[list[int], list[int]]:
        before, _ = super()._special_ids()
        return before, [self.eos_token_id]
