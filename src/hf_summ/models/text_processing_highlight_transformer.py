"""The text side of Highlight-Transformer's processor: subwords, and the positions of key phrases among them."""

import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from .checks import check_integer, check_list
from .text_documents import JoinedRow, marks
from .text_phrases import Phrase, key_phrases, locate_phrases, read_phrases
from .text_processing_base import CopyingTextProcessor

logger = logging.getLogger(__name__)

Phrases = Mapping[str, float] | Sequence[str]
_PHRASE_FIELDS = ("phrase_starts", "phrase_ends", "phrase_values")


class HighlightTransformerTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of Highlight-Transformer; see `HighlightTransformerProcessor`."""

    unaligned_fields = _PHRASE_FIELDS

    def __init__(
        self,
        tokenizer,
        max_source_length=500,
        max_target_length=300,
        document_separator=None,
        restore_case=False,
        document_frequencies=None,
        fitted_examples=0,
        num_phrases=10,
        chat_template=None,
    ):
        check_integer("num_phrases", num_phrases, 1)
        check_integer("fitted_examples", fitted_examples, 0)
        self.document_frequencies: Any = document_frequencies
        self.fitted_examples = fitted_examples
        self.num_phrases = num_phrases
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    @property
    def model_input_names(self) -> list[str]:
        return [*super().model_input_names, *_PHRASE_FIELDS]

    @property
    def padding_values(self) -> dict[str, Any]:
        return {**super().padding_values, "phrase_starts": 0, "phrase_ends": 0, "phrase_values": 0.0}

    def source_features(
        self,
        examples: list[list[str]],
        length: int | None,
        show_progress: bool,
        phrases: Phrases | Sequence[Phrases | None] | None = None,
    ) -> dict[str, list]:
        """The base's features, and rows of `phrase_starts`, `phrase_ends` and `phrase_values`.

        Args:
            phrases: for each example phrase -> value, or a list of phrases with value 1, or None to find them. With a
                single example, its phrases need no outer list. Values above 0 attract attention, values below 0
                reduce it; values of found phrases are at most 1.

        Raises:
            ValueError: finding phrases lacks fitted document frequencies, the numbers of `phrases` and examples
                differ, or as `locate_phrases`.
        """
        read = self._read(examples, length)
        fields: dict[str, list] = {name: [] for name in _PHRASE_FIELDS}
        for (example, row, offsets), own in zip(read, self._of_each(phrases, len(read)), strict=True):
            if own is None:
                texts = list(map(kept_text, example, offsets))
                assert self.document_frequencies is not None, "phrases are found only with them"
                located = key_phrases(texts, self.document_frequencies, self.fitted_examples, self.num_phrases)
            else:
                located = locate_phrases(example, own)
                _warn_of_ignored(located, row, offsets)
            entries = [entry for phrase in located for entry in _entries(phrase, row, offsets)]
            for column, name in enumerate(_PHRASE_FIELDS):
                fields[name].append([entry[column] for entry in entries])
        return {**self._features([row for _, row, _ in read]), **fields}

    def _read(
        self, examples: list[list[str]], length: int | None
    ) -> list[tuple[list[str], JoinedRow, list[list[tuple[int, int]]]]]:
        """Each example with its row and the offsets of each document's kept tokens."""
        rows, encoded = self._source_rows(examples, length, return_offsets_mapping=True)
        offsets = iter(encoded["offset_mapping"])
        return [
            (example, row, [next(offsets)[:number] for _, number in row.spans])
            for example, row in zip(examples, rows, strict=True)
        ]

    def _of_each(self, phrases, number: int) -> list[Phrases | None]:
        """The phrases given for each example, or None to find them."""
        if phrases is not None and not isinstance(phrases, (str, Mapping)):
            check_list("phrases", phrases)
        if isinstance(phrases, (str, Mapping)) or (
            number == 1 and phrases and all(isinstance(phrase, str) for phrase in phrases)
        ):
            phrases = [phrases]
        rows = [None] * number if phrases is None else [read_phrases(value) for value in phrases]
        if len(rows) != number:
            raise ValueError(f"there are phrases for {len(rows)} examples, but {number} examples: give each its own")
        if self.document_frequencies is None and None in rows:
            raise ValueError(
                "the processor has no document frequencies to find phrases by: fit them with `hf-summ key-phrases "
                "CORPUS --processor FOLDER --output FOLDER`, or give `phrases`"
            )
        return rows


def kept_text(text: str, tokens: Sequence[tuple[int, int]]) -> str:
    """The part of a text that its kept tokens cover, without a truncated last word."""
    end = tokens[-1][1] if tokens else 0
    in_word = re.compile(rf"[\w{marks()}]").match
    if in_word(text, end):
        while end and in_word(text, end - 1):
            end -= 1
    return text[:end]


def _entries(phrase: Phrase, row: JoinedRow, offsets: list[list[tuple[int, int]]]) -> Iterator[tuple[int, int, float]]:
    """The occurrences of a phrase in a row: first token, exclusive end, and value; truncated ones are skipped."""
    for document, start, end in phrase.spans:
        tokens = offsets[document]
        if tokens and end <= tokens[-1][1]:
            first = bisect_right(tokens, start, key=itemgetter(1))
            last = bisect_left(tokens, end, key=itemgetter(0))
            yield row.spans[document][0] + first, row.spans[document][0] + last, phrase.value


def _warn_of_ignored(phrases: Sequence[Phrase], row: JoinedRow, offsets: list[list[tuple[int, int]]]) -> None:
    """Warn of a user's phrases that do not occur in an example."""
    for phrase in phrases:
        if not any(_entries(phrase, row, offsets)):
            where = "occurs only in the truncated part" if phrase.spans else "does not occur in the text"
            logger.warning(f"the phrase {phrase.text!r:.80} {where}, and is ignored")
