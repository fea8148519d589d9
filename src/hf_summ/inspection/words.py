"""The words of tokenized texts: which subwords belong to a word, and where the word stands in its text."""

from collections.abc import Sequence
from typing import NamedTuple

from hf_summ.models.text_documents import WordTable


class Word(NamedTuple):
    """A word: the positions of its first character and after its last, and the indices of its subwords."""

    start: int
    end: int
    subwords: list[int]


def grouped(ids: Sequence[int], table: WordTable) -> list[list[int]]:
    """The indices of the ids of each word; words are those that the decoding limits count.

    A token of space alone belongs to the next word.
    """
    opens_word = table.words_opened(ids)
    groups: list[list[int]] = []
    follows_space = False
    for index, token in enumerate(ids):
        is_space = not opens_word[index] and not table.texts[token]
        # The first of several tokens of space begins the group of the word after them.
        begins_group = (opens_word[index] or is_space) and not follows_space
        if begins_group or not groups:
            groups.append([])
        groups[-1].append(index)
        follows_space = is_space
    return groups


def words_of_source(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]], table: WordTable) -> list[Word]:
    """The words of a tokenized text, in order, without overlap.

    Args:
        offsets: for each id, the positions of its first character and after its last.
    """
    words = []
    end_of_last = 0
    for subwords in grouped(ids, table):
        starts = [offsets[index][0] for index in subwords]
        ends = [offsets[index][1] for index in subwords]
        # Tokens that share a character of several bytes overlap, and some include the space before them.
        start = max(min(starts), end_of_last)
        word = text[start : max(ends)].strip()
        if word:
            start = text.index(word, start)
            end_of_last = start + len(word)
            words.append(Word(start, end_of_last, subwords))
    return words


def words_of_summary(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of the pieces in a text with the same characters in the same order, but with other spaces.

    Raises:
        ValueError: the text has other characters than the pieces.
    """
    spans = []
    position = 0
    for piece in pieces:
        start = None
        for character in "".join(piece.split()):
            while text[position : position + 1].isspace():
                position += 1
            if text[position : position + 1] != character:
                raise ValueError(f"{piece!r} is not next in {text[position:]!r}")
            if start is None:
                start = position
            position += 1
        # A piece of spaces has an empty span.
        if start is None:
            start = position
        spans.append((start, position))
    return spans
