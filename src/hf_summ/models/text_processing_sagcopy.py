"""The text side of SAGCopy's processor."""

from .text_processing_base import CopyingTextProcessor


class SagCopyTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of SAGCopy; see `SagCopyProcessor`."""

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return [] if first is None else [first], [self.eos_token_id]
