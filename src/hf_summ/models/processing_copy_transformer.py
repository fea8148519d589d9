"""Processor of CopyTransformer: BERT's subwords, with `[CLS]` before the source."""

from .processing_base import SummarizationProcessor
from .text_processing_copy_transformer import CopyTransformerTextProcessor


class CopyTransformerProcessor(CopyTransformerTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    With `[CLS]`, documents begin with it and have no end token; see `CopyingTextProcessor`.

    Args:
        tokenizer: a fast tokenizer; BERT's if the model is built on BERT.
        max_source_length: number of subwords to which documents are truncated, including `[CLS]`.
        max_target_length: the same for summaries, including the end token.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.
    """

    def align(self, config) -> None:
        """Set the vocabulary size, special tokens and mask token of a new config to this processor's.

        Raises:
            ValueError: the model's BERT has another vocabulary.
        """
        super().align(config)
        config.mask_token_id = self.tokenizer.mask_token_id
        config.check()


__all__ = ["CopyTransformerProcessor"]
