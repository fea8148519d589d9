"""The text side of DRGD's processor."""

from collections.abc import Sequence

from .text_documents import WASHINGS, washed
from .text_processing_base import TextProcessor
from .text_words import FIRST_POINTER, decode_pointed, pointed_words


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

    def batch_decode(
        self,
        sequences,
        skip_special_tokens: bool = False,
        documents: Sequence[str] | Sequence[Sequence[str]] | None = None,
        **kwargs,
    ) -> list[str]:
        """As `SummarizationProcessor.batch_decode`.

        With `replace_unk`, rows may point to words of the `documents`; without `documents` these words are omitted.
        """
        texts = super().batch_decode(sequences, skip_special_tokens, documents, **kwargs)
        if documents is None:
            return texts
        for row, sequence in enumerate(sequences):
            ids = [int(token) for token in sequence]
            if any(token >= FIRST_POINTER for token in ids):
                words = self._pointed_words(documents[row * len(documents) // len(texts)], ids)
                texts[row] = decode_pointed(self.tokenizer, ids, words, skip_special_tokens)
        return texts

    def _pointed_words(self, document: str | Sequence[str], ids: list[int]) -> dict[int, tuple[str, bool]]:
        """The words of an example that ids point to."""
        # truncation does not move the tokens of a single document, but several share the length
        length = None if isinstance(document, str) or len(document) == 1 else self.max_source_length
        example, row, encoded = self.read_source(document, length)
        words = {}
        for text, offsets, (start, number) in zip(example, encoded["offset_mapping"], row.spans, strict=True):
            words |= pointed_words(text, offsets[:number], ids, start)
        return words
