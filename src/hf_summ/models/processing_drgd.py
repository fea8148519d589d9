"""Processor of DRGD: words, subwords or characters, whichever its tokenizer has."""

from .processing_base import SummarizationProcessor
from .text_washing import WASHINGS, washed


class DrgdProcessor(SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of tokens to which documents are cut, including the end token.
        max_target_length: the same for summaries.
        washing: None reads texts as they are. `lcsts` puts documents and summaries in lower case and deletes their
            white space, digits, and ASCII and Chinese punctuation, as DRGD's program does for LCSTS: no number is left,
            and Latin words run together.
        document_separator: as for `SummarizationProcessor`.
        chat_template: stored and saved as in every transformers processor, but not used.

    Raises:
        ValueError: an unknown `washing`, or as `SummarizationProcessor`.
    """

    def __init__(
        self,
        tokenizer,
        max_source_length=100,
        max_target_length=50,
        washing=None,
        document_separator=None,
        chat_template=None,
    ):
        if washing not in (None, *WASHINGS):
            raise ValueError(f"`washing` is {washing!r}, but must be None or one of {', '.join(WASHINGS)}")
        self.washing = washing
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, chat_template=chat_template
        )

    def clean(self, text: str) -> str:
        """`text` as `washing` leaves it."""
        return washed(super().clean(text), self.washing)

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config; summaries start with padding, a zero vector."""
        super().align(config)
        config.decoder_start_token_id = self.tokenizer.pad_token_id


__all__ = ["DrgdProcessor"]
