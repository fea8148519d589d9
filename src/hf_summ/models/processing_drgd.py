"""Processor of DRGD: words, subwords or characters, whichever its tokenizer has."""

from .processing_base import SummarizationProcessor


class DrgdProcessor(SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of tokens to which documents are cut, including the end token.
        max_target_length: the same for summaries.
        chat_template: stored and saved as in every transformers processor, but not used.
    """

    def __init__(self, tokenizer, max_source_length=100, max_target_length=50, chat_template=None):
        super().__init__(tokenizer, max_source_length, max_target_length, chat_template=chat_template)

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config; summaries start with padding, a zero vector."""
        super().align(config)
        config.decoder_start_token_id = self.tokenizer.pad_token_id


__all__ = ["DrgdProcessor"]
