"""The text side of processors whose summaries may point to words of their documents: of DRGD and the pointer-generator.

A pointer is an id from `FIRST_POINTER` on: it stands for the word at a position of the source.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import combining
from zlib import crc32

import numpy as np

from .text_documents import WASHINGS, washed, word_marks
from .text_processing_base import TextProcessor, texts_per_document

# ids from here on point to positions of the source; larger than any vocabulary, and small enough for 32 bits
FIRST_POINTER = 2**30
# enough that two unknown words of a document rarely have the same
_UNKNOWN_IDS = 2**16


def replace_unknown(
    sequences: np.ndarray, attentions: np.ndarray, source_ids: np.ndarray, unknown: int, special: Sequence[int]
) -> np.ndarray:
    """Replace unknown words by the source words with the most attention (Luong et al. 2015).

    A source word that is unknown as well has a text, but no id: `FIRST_POINTER` plus its position replaces it, which
    processors look up in the document and plain tokenizers omit. If the source has no words, `unknown` stays.

    Args:
        sequences: (R, L), R = B · n.
        attentions: (R, L - 1, S), the attention of each token after the first.
        source_ids: (B, S).
        unknown, special: the id of unknown words, and ids that are not words, such as padding and the end.
    """
    source_ids = source_ids.repeat(len(sequences) // len(source_ids), axis=0)
    is_word = ~np.isin(source_ids, special)
    positions = np.where(is_word[:, None], attentions, -1.0).argmax(-1)
    words = np.take_along_axis(source_ids, positions, 1)
    words = np.where(words == unknown, FIRST_POINTER + positions, words)
    is_replaced = (sequences[:, 1:] == unknown) & is_word.any(-1, keepdims=True)
    return np.concatenate((sequences[:, :1], np.where(is_replaced, words, sequences[:, 1:])), axis=1)


def pointed_words(
    document: str, offsets: Sequence[tuple[int, int]], ids: Sequence[int], start: int = 0
) -> dict[int, tuple[str, bool]]:
    """Pointer -> the word of the document, and whether a space precedes it.

    Args:
        offsets: the [start, end) characters of each token, in the order of the source.
        start: the position in the source of the document's first token.
    """
    words, first = {}, FIRST_POINTER + start
    for token in ids:
        if first <= token < first + len(offsets):
            begin, end = offsets[token - first]
            # tokenizers that compose characters count only the first one
            while end < len(document) and combining(document[end]):
                end += 1
            word = document[begin:end].strip()
            before = document[: end - len(document[begin:end].lstrip())][-1:]
            # a word directly after a letter belongs to a script without spaces
            words[token] = word, not before or before.isspace() or before.isalnum()
    return words


def decode_pointed(
    tokenizer, ids: Sequence[int], words: Mapping[int, tuple[str, bool]], skip_special_tokens: bool
) -> str:
    """Decode ids with pointers to a text; pointers without a word are omitted."""
    marks = word_marks(tokenizer)
    skipped = set(tokenizer.all_special_ids) if skip_special_tokens else ()
    tokens = []
    for token in ids:
        if token in words:
            word, opens = words[token]
            tokens.append(word if opens != marks.opens else f"{marks.prefix}{word}")
        elif token < FIRST_POINTER and token not in skipped:
            tokens.append(tokenizer.convert_ids_to_tokens(token))
    return tokenizer.backend_tokenizer.decoder.decode(tokens)


class PointingTextProcessor(TextProcessor):
    """A `TextProcessor` that decodes pointers to words of the documents."""

    def batch_decode(
        self,
        sequences,
        skip_special_tokens: bool = False,
        documents: Sequence[str] | Sequence[Sequence[str]] | None = None,
        **kwargs,
    ) -> list[str]:
        """Decode token ids to texts.

        Args:
            sequences: rows of ids.
            skip_special_tokens: whether to omit special tokens.
            documents: the summarized texts, or lists of several, each with the same number of rows. Rows may point to
                their words; without `documents`, these words are omitted.
            kwargs: as for the tokenizer's `batch_decode`.

        Raises:
            ValueError: the rows are not a multiple of the documents.
        """
        texts = super().batch_decode(sequences, skip_special_tokens, **kwargs)
        if documents is None:
            return texts
        documents, number = list(documents), texts_per_document(texts, documents)
        for row, sequence in enumerate(sequences):
            ids = [int(token) for token in sequence]
            if any(token >= FIRST_POINTER for token in ids):
                words = self._pointed_words(documents[row // number], ids)
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


class DrgdTextProcessor(PointingTextProcessor):
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


class PointerGeneratorTextProcessor(PointingTextProcessor):
    """The `TextProcessor` of the pointer-generator; see `PointerGeneratorProcessor`."""

    def __init__(
        self,
        tokenizer,
        max_source_length=400,
        max_target_length=100,
        document_separator=None,
        restore_case=False,
        chat_template=None,
    ):
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    @property
    def unknown_ids(self) -> int:
        """The number of ids behind the vocabulary that tell unknown words apart; 0 for subwords."""
        unknown = self.tokenizer.unk_token_id
        return 0 if unknown is None or not word_marks(self.tokenizer).is_whole else _UNKNOWN_IDS

    def _tokenize(self, texts: list[str], **settings) -> Mapping[str, Any]:
        if not self.unknown_ids:
            return super()._tokenize(texts, **settings)
        encoded = super()._tokenize(texts, **{**settings, "return_offsets_mapping": True})
        unknown, size = self.tokenizer.unk_token_id, len(self.tokenizer)
        for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            for position, token in enumerate(ids):
                if token == unknown:
                    start, end = offsets[position]
                    word = self._normalized(text[start:end]).strip()
                    ids[position] = size + crc32(word.encode()) % _UNKNOWN_IDS
        return encoded
