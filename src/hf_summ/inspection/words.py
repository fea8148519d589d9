"""Words of texts, and the subwords that they are made of."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from hf_summ.models.generation_words import WordTable


class Word(NamedTuple):
    """A word: its first character, that after its last, and the places of its subwords among those of the text."""

    start: int
    end: int
    subwords: list[int]


def grouped(ids: Sequence[int], table: WordTable) -> list[list[int]]:
    """The places of ids, a list for each word, in the sense of the decoding limits that count words.

    Space that is a token of its own belongs to the word after it.
    """
    if not ids:
        return []
    row = torch.tensor(list(ids))
    opened = table.words_opened(row[None])[0]
    is_space = ~opened & (table.lengths[row] == 0)
    # the first of several spaces opens what follows them
    opens = (opened & ~is_space.roll(1)) | (is_space & ~is_space.roll(1))
    opens[0] = True
    starts = opens.nonzero()[:, 0].tolist()
    return [list(range(*span)) for span in pairwise([*starts, len(ids)])]


def words_of_source(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]], table: WordTable) -> list[Word]:
    """The words of a tokenized text, in order and apart.

    Args:
        offsets: of each id, the positions of its first character and after its last.
    """
    words, end = [], 0
    for places in grouped(ids, table):
        # tokens of characters that are several bytes overlap, and some include the space before them
        start = max(min(offsets[place][0] for place in places), end)
        last = max(offsets[place][1] for place in places)
        word = text[start:last].strip()
        if word:
            start = text.index(word, start)
            end = start + len(word)
            words.append(Word(start, end, places))
    return words


def words_of_summary(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Where the pieces stand in a text that has their characters in order, but its own spaces.

    Raises:
        ValueError: the text has other characters.
    """
    spans, place = [], 0
    for piece in pieces:
        wanted = "".join(piece.split())
        start = None
        for character in wanted:
            while text[place : place + 1].isspace():
                place += 1
            if text[place : place + 1] != character:
                raise ValueError(f"{piece!r} is not next in {text[place:]!r}")
            start = place if start is None else start
            place += 1
        spans.append((place if start is None else start, place))
    return spans
