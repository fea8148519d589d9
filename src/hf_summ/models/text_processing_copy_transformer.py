"""What the processor of CopyTransformer does with texts."""

from .text_processing_base import CopyingTextProcessor


class CopyTransformerTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of CopyTransformer; `CopyTransformerProcessor` describes the settings."""

    def __init__(
        self,
        tokenizer,
        max_source_length=512,
        max_target_length=512,
        document_separator=None,
        restore_case=False,
        chat_template=None,
        unknown_ids=0,
    ):
        super().__init__(
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )
