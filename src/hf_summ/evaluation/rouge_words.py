"""The words of predictions and references as ids, which every type of ROUGE counts.

Two words match if they have the same id. A line is a sentence that ROUGE-L compares.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_documents import readable

# Splits a text into sentences.
Splitter = Callable[[str], list[str]]
# If a reader knows more words than this, it forgets its vocabulary. So ids stay small: the ids of two words, the index
# of a pair of texts and the index of a side of the pair fit into one integer of 63 bits.
_VOCABULARY = 1 << 20
# The token that stands for a line end between the words of a text. No word is equal to it: English words have only
# letters and digits, and the words of other languages are strings, not bytes.
END = b"|"
# Splits lines of text into their words, which are bytes in English and strings in other languages. `END` follows each
# line, and may be missing after the last line.
Tokenize = Callable[[str], Sequence[bytes | str]]


@dataclass(frozen=True)
class Words:
    """The W words of several texts, one text after the other.

    Args:
        ids: (W,), the id of each word, above 0.
        texts: (W,), the index of the text that has the word.
        lines: (W,), the index of the sentence that has the word, counted through all texts.
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
    """Turns texts into ids of words.

    A reader is the dictionary of its vocabulary: word -> id. Ids begin with 1, and words with the same stem have the
    same id. A word is added when it is looked up first. The id of `END` is 0.

    Args:
        tokens: splits lines of text into their words, with `END` between lines.
        stem: maps an English word to its stem; None leaves words unchanged.
        split: splits a text into sentences.
        split_for_lcs: splits a text into the sentences that ROUGE-L compares; `split` by default.
    """

    def __init__(
        self,
        tokens: Tokenize,
        stem: Callable[[str], str] | None,
        split: Splitter,
        split_for_lcs: Splitter | None = None,
    ):
        super().__init__()
        self._tokens = tokens
        self._stem = stem
        # A prediction with several references is read once for each reference, but split only once.
        self._split = lru_cache(maxsize=2)(split)
        self._split_for_lcs = None
        if split_for_lcs is not None:
            self._split_for_lcs = lru_cache(maxsize=2)(split_for_lcs)
        self._ids_of_stems: dict[bytes | str, int] = {}

    def __missing__(self, word: bytes | str) -> int:
        """Give an id to a word that is looked up for the first time, and keep the word in the vocabulary."""
        if word == END:
            word_id = 0
        else:
            stem = word
            if self._stem is not None:
                # Only English words, which are bytes, are stemmed.
                assert isinstance(word, bytes)
                stem = self._stem(word.decode())
            word_id = self._ids_of_stems.setdefault(stem, len(self._ids_of_stems) + 1)
        self[word] = word_id
        return word_id

    def read(self, texts: list[str]) -> Batch:
        """The words of texts, which are predictions and references in turn: text 2i + 1 is the reference of text 2i.

        The ids of different calls must not be compared, as the vocabulary may be forgotten before a call.
        """
        if len(self) > _VOCABULARY:
            self.clear()
            self._ids_of_stems.clear()
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
        # This looks up the id of every word, for which `map` is faster than a loop.
        ids = np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))
        # The id of `END` is 0.
        is_word = ids > 0
        # The line of a word is the number of line ends before it.
        lines = np.cumsum(~is_word)[is_word]
        text_of_line = np.repeat(np.arange(len(texts), dtype=np.int64), lines_per_text)
        return Words(ids[is_word], text_of_line[lines], lines)


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
    """The reader of texts in a language other than English. Words are not stemmed.

    Args:
        language, units: as for `hf_summ.evaluation.words.split_words`, which finds the words.
        split: splits a text into sentences.
    """

    def tokens(text: str) -> list[bytes | str]:
        words: list[bytes | str] = []
        for line in text.split("\n"):
            words.extend(split_words(line, language, units))
            # The reader counts the line ends before a word, so `END` after the last line has no effect.
            words.append(END)
        return words

    return Reader(tokens, None, split)
