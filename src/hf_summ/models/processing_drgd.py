"""Processor of DRGD: words, subwords or characters, depending on its tokenizer."""

from .processing_base import SummarizationProcessor
from .text_processing_recurrent import DrgdTextProcessor


class DrgdProcessor(DrgdTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of tokens to which documents are truncated, including the end token.
        max_target_length: the same for summaries.
        washing: None leaves texts unchanged. `lcsts` lower-cases texts and deletes white space, digits and punctuation
            as DRGD's program does for LCSTS; see `washed`. Numbers are lost, Latin words run together, and documents,
            but not summaries, lose `。！？，；`.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.

    Raises:
        ValueError: `washing` is unknown, or as `SummarizationProcessor`.
    """

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config; summaries start with padding, a zero vector."""
        super().align(config)
        config.decoder_start_token_id = self.tokenizer.pad_token_id


__all__ = ["DrgdProcessor"]
