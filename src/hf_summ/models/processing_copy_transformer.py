"""Processor of CopyTransformer: BERT's subwords, with `[CLS]` before the source."""

from .processing_base import CopyingProcessor


class CopyTransformerProcessor(CopyingProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`; see `CopyingProcessor`.

    Args:
        tokenizer: a fast tokenizer; BERT's if the model is built on BERT.
        max_source_length: number of subwords to which documents are truncated, including `[CLS]`.
        max_target_length: the same for summaries, including the end token.
        document_separator, restore_case, chat_template: as for `SummarizationProcessor`.
    """

    def __init__(
        self,
        tokenizer,
        max_source_length=512,
        max_target_length=512,
        document_separator=None,
        restore_case=False,
        chat_template=None,
    ):
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    def align(self, config) -> None:
        """Set the vocabulary size, special tokens and mask token of a new config to this processor's.

        Raises:
            ValueError: the model's BERT has another vocabulary.
        """
        super().align(config)
        config.mask_token_id = self.tokenizer.mask_token_id
        config.check()


__all__ = ["CopyTransformerProcessor"]
