"""The words of predictions and references as numbers, as every type of ROUGE reads them.

Words are equal if they have the same number. A line is a sentence that ROUGE-L compares.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_documents import readable

# Splits a text into sentences.
Splitter = Callable[[str], list[str]]
# Above this number of words a reader forgets its vocabulary. So the numbers of two words, of a pair of texts and of a
# side of the pair fit into one integer of 63 bits.
_VOCABULARY = 1 << 20
# The token that stands for a line end between the words of a text.
END = b"|"


@dataclass(frozen=True)
class Words:
    """The W words of several texts, one text after the other.

    Args:
        ids: (W,), the number of each word, from 1.
        texts: (W,), the number of the text that has the word, from 0.
        lines: (W,), the number of the sentence that has the word, from 0, counted through all texts.
    """

    ids: np.ndarray
    texts: np.ndarray
    lines: np.ndarray


@dataclass(frozen=True)
class Batch:
    """The words of P pairs of texts: text 2i is the prediction of pair i, and text 2i + 1 its reference.

    Args:
        words: the words of the texts.
        sentence_words: the words that ROUGE-L compares, which differ under a byte limit.
        sizes: (2P,), how many words each text has.
    """

    words: Words
    sentence_words: Words
    sizes: np.ndarray

    @property
    def pairs(self) -> int:
        """P, the number of pairs."""
        return len(self.sizes) // 2


class Reader(dict[bytes | str, int]):
    """Turns texts into numbered words.

    A reader is the dictionary of its vocabulary: word -> number, from 1, the same for words with the same stem. A word
    is added when it is looked up first. The number of `END` is 0.

    Args:
        tokens: splits a text into words, with `END` for each line end.
        stem: maps a word to its stem; None leaves words unchanged.
        split: splits a text into sentences.
        split_for_lcs: splits a text into the sentences that ROUGE-L compares; `split` by default.
    """

    def __init__(
        self,
        tokens: Callable[[str], list],
        stem: Callable[[str], str] | None,
        split: Splitter,
        split_for_lcs: Splitter | None = None,
    ):
        super().__init__()
        self._tokens = tokens
        self._stem = stem
        # Each prediction is read once per reference.
        self._split = lru_cache(maxsize=2)(split)
        self._split_for_lcs = None
        if split_for_lcs is not None:
            self._split_for_lcs = lru_cache(maxsize=2)(split_for_lcs)
        self._numbers_of_stems: dict[bytes | str, int] = {}

    def __missing__(self, word: bytes) -> int:
        """Number a word that is looked up for the first time, and keep its number in the vocabulary."""
        if word == END:
            number = 0
        else:
            stem = word if self._stem is None else self._stem(word.decode())
            number = self._numbers_of_stems.setdefault(stem, len(self._numbers_of_stems) + 1)
        self[word] = number
        return number

    def read(self, texts: list[str]) -> Batch:
        """The words of texts, which are predictions and references in turn: text 2i + 1 is the reference of text 2i.

        Words of different calls have the same number only if the vocabulary was not reset in between.
        """
        if len(self) > _VOCABULARY:
            self.clear()
            self._numbers_of_stems.clear()
        words = self._read(texts, self._split)
        sentence_words = words
        if self._split_for_lcs is not None:
            sentence_words = self._read(texts, self._split_for_lcs)
        sizes = np.bincount(words.texts, minlength=len(texts))
        return Batch(words, sentence_words, sizes)

    def _read(self, texts: list[str], split: Splitter) -> Words:
        """The words of texts that `split` splits into sentences."""
        all_lines = []
        lines_per_text = []
        for text in texts:
            lines_of_text = split(text)
            all_lines.extend(lines_of_text)
            lines_per_text.append(len(lines_of_text))
        tokens = self._tokens("\n".join(all_lines))
        # `map` is faster than a loop, and this line reads every word.
        numbers = np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))
        # The number 0 is that of `END`.
        is_word = numbers > 0
        # The line of a word is the number of line ends before it.
        lines = np.cumsum(~is_word)[is_word]
        text_of_line = np.repeat(np.arange(len(texts), dtype=np.int64), lines_per_text)
        return Words(numbers[is_word], text_of_line[lines], lines)


def _reading_table() -> bytes:
    """The table for `bytes.translate`: lowercases A to Z, blanks all but ASCII letters, digits and line ends."""
    table = bytearray(b" " * 256)
    for code in range(128):
        if chr(code).isalnum():
            table[code] = ord(chr(code).lower())
    line_end = ord("\n")
    table[line_end] = line_end
    return bytes(table)


_READING_TABLE = _reading_table()


def read_words(text: str) -> list[bytes]:
    """The words of an English text: runs of a-z and 0-9, lowercased, with `END` for each line end."""
    letters = readable(text).encode().translate(_READING_TABLE)
    return letters.replace(b"\n", b" %b " % END).split()


def sentence_splitter(language: str, sentences: str) -> Splitter:
    """The function that splits a text into the sentences that ROUGE-L compares.

    Args:
        language: ISO 639 code.
        sentences: "split" splits lines into sentences; "lines" treats each line as a sentence.
    """

    def split_lines(text: str) -> list[str]:
        return text.split("\n")

    def split_into_sentences(text: str) -> list[str]:
        # A reader takes a line end for the end of a sentence.
        return [sentence.replace("\n", " ") for sentence in split_sentences(text, language)]

    if sentences == "lines":
        return split_lines
    return split_into_sentences


def foreign_reader(language: str, units: str, split: Splitter) -> Reader:
    """The reader of texts in a language other than English, whose words are not stemmed.

    Args:
        language, units: as for `hf_summ.evaluation.words.split_words`, which finds the words.
        split: splits a text into sentences.
    """

    def tokens(text: str) -> list[str | bytes]:
        words: list[str | bytes] = []
        for line in text.split("\n"):
            words.extend(split_words(line, language, units))
            words.append(END)
        return words

    return Reader(tokens, None, split)
