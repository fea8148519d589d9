"""The text side of DRGD's processor."""

from .text_documents import WASHINGS, washed
from .text_processing_base import TextProcessor


class DrgdTextProcessor(TextProcessor):
    """The `TextProcessor` of DRGD; see `DrgdProcessor`."""

    def __init__(
        self,
        tokenizer,
        max_source_length=100,
        max_target_length=50,
        washing=None,
        document_separator=None,
        restore_case=False,
        chat_template=None,
    ):
        if washing not in (None, *WASHINGS):
            raise ValueError(f"`washing` is {washing!r:.80}, but must be None or one of {', '.join(WASHINGS)}")
        self.washing = washing
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    def clean(self, text: str, is_document: bool = False) -> str:
        """Clean and wash `text`, a document (`is_document`) or a summary."""
        return washed(super().clean(text), self.washing, is_document)
