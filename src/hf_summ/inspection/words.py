"""The words of tokenized texts: which subwords belong to a word, and where the word stands in its text."""

from collections.abc import Sequence
from typing import NamedTuple

from hf_summ.models.text_documents import WordTable


class Word(NamedTuple):
    """A word in a tokenized text.

    Attributes:
        start, end: the positions of the word's first character, and after its last character.
        subwords: the indices of the word's subwords.
    """

    start: int
    end: int
    subwords: list[int]


def group_by_word(ids: Sequence[int], table: WordTable) -> list[list[int]]:
    """Group the ids of a text by words, in the same way as limits of words in decoding count them.

    A token of space alone belongs to the next word.

    Args:
        ids: the ids of the text's tokens.
        table: the texts of tokens, and which tokens open words.

    Returns:
        For each word, the indices of its tokens in `ids`.
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
        text: the text.
        ids: the ids of the text's tokens.
        offsets: for each token, the positions of its first character, and after its last character.
        table: as for `group_by_word`.
    """
    words = []
    end_of_last = 0
    for subwords in group_by_word(ids, table):
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
    """The spans of pieces in a text that joins them: for each piece, its [start, end) characters.

    Args:
        text: a text with the characters of the pieces in the same order, but perhaps with other spaces.
        pieces: the decoded words of a summary.

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
