"""Processor of the pointer-generator."""

from .processing_base import SummarizationProcessor
from .text_processing_pointing import PointerGeneratorTextProcessor


class PointerGeneratorProcessor(PointerGeneratorTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    With a vocabulary of words, each word that it lacks gets an id behind the vocabulary, equal in documents and
    summaries, by which the model copies it.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of tokens to which documents are truncated, including the end token.
        max_target_length: the same for summaries.
        document_separator, restore_case, chat_template: as for `SummarizationProcessor`.

    Raises:
        ValueError: as `SummarizationProcessor`.
    """

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config to this processor's."""
        super().align(config)
        config.unk_token_id, config.unknown_ids = self.tokenizer.unk_token_id, self.unknown_ids


__all__ = ["PointerGeneratorProcessor"]
