"""Pairs of a word and its tag, which a user gives for the words of documents, and the places of the words."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from .checks import is_list

# Spelling of a word in the Penn Treebank -> the texts that it may stand for.
_TREEBANK = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "``": '"“«„',
    "''": '"”»“',
    "`": "'‘‹‚",
    "'": "’›‘",
    "...": "…",
    "--": "–—",
}


class TaggedWord(NamedTuple):
    """The [start, end) characters of a word in its text, and the tag of the word."""

    start: int
    end: int
    tag: str


def align_tags(text: str, pairs: Sequence[Sequence[str]], prefix_length: int = 0) -> list[TaggedWord]:
    """Find the words of a text that are given in order with their tags.

    Args:
        pairs: each word with its tag. Words may be spelled as in the Penn Treebank, such as `-LRB-`.
        prefix_length: the number of characters at the beginning of the text whose words have no pairs.

    Raises:
        ValueError: the text has another word, or no word, where a given word should be; or it has further words.
    """
    words = []
    end = prefix_length
    for word, tag in pairs:
        start = _skip_space(text, end)
        spelling = _spelling_at(text, start, word)
        if not spelling:
            part = _part_at(text, start, word)
            if part is None and (word or start < len(text)):
                raise ValueError(_misaligned(text, start, word))
            spelling = part or ""
        end = start + len(spelling)
        words.append(TaggedWord(start, end, tag))
    start = _skip_space(text, end)
    if start < len(text):
        raise ValueError(_misaligned(text, start, ""))
    return words


def _skip_space(text: str, start: int) -> int:
    """The position of the first character from `start` on that is not white space, or the length of the text."""
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _misaligned(text: str, start: int, word: str) -> str:
    """The message that a given word, or no word (""), stands where the text has another word at `start`."""
    there = f"`word_tags` has {word!r:.40} where the document has {text[start : start + 20]!r}"
    return f"{there}: give a pair for each word, in their order"


def _spelling_at(text: str, start: int, word: str) -> str:
    """The spelling in the text of a word that may be spelled as in the Penn Treebank; empty if it is not at `start`."""
    spellings = [word, *_TREEBANK.get(word, "")]
    # The Penn Treebank has a backslash before slashes and asterisks.
    spellings.append(word.replace("\\/", "/").replace("\\*", "*"))
    for spelling in spellings:
        if text[start : start + len(spelling)].lower() == spelling.lower():
            return spelling
    return ""


def _part_at(text: str, start: int, word: str) -> str | None:
    """The part of a word that the text has at `start` without its hyphen, which split the word at the end of a line.

    A hyphen alone leaves an empty part. The result is None if the text has another word there.
    """
    if not word.endswith("-"):
        return None
    part = _spelling_at(text, start, word[:-1])
    end = start + len(part)
    is_within_word = end < len(text) and text[end - 1 : end + 1].isalnum()
    return part if is_within_word and (part or word == "-") else None


def _is_pair(value: Any) -> bool:
    """Whether a value is a word with its tag, rather than a list of such pairs."""
    return is_list(value) and len(value) == 2 and all(isinstance(text, str) for text in value)


def pairs_of_texts(word_tags: Any) -> list[list[Sequence[str]]]:
    """The list of the pairs of a word and its tag for each text, in order.

    Args:
        word_tags: the pairs of one text, a list of such values for several texts, nested in any depth, or JSON of them.
            A value of None in a list is left out.

    Raises:
        TypeError: a value is neither a list nor a string.
        ValueError: a string is not JSON.
    """
    if isinstance(word_tags, str):
        try:
            word_tags = json.loads(word_tags)
        except json.JSONDecodeError as error:
            raise ValueError(f"`word_tags` must be pairs of a word and its tag, but is {word_tags!r:.60}") from error
    if not is_list(word_tags):
        raise TypeError(
            f"`word_tags` must be pairs of a word and its tag, but is {type(word_tags).__name__}: {word_tags!r:.60}"
        )
    if not len(word_tags) or _is_pair(word_tags[0]):
        return [word_tags]
    texts = []
    for entry in word_tags:
        if entry is not None:
            texts.extend(pairs_of_texts(entry))
    return texts


def pairs_by_text(texts: Sequence[str], word_tags: Any) -> list[Sequence[Sequence[str]]]:
    """The pairs of a word and its tag for each text; none for a blank text.

    Pairs without a word belong to no text, as a document that is missing in an example is left out, unlike its pairs.

    Args:
        word_tags: as for `pairs_of_texts`.

    Raises:
        ValueError: the number of texts with words is not that of the pairs.
    """
    pairs_with_words = [pairs for pairs in pairs_of_texts(word_tags) if any(word.strip() for word, _ in pairs)]
    is_written = [bool(text.strip()) for text in texts]
    if len(pairs_with_words) != sum(is_written):
        numbers = f"{sum(is_written)} documents but {len(pairs_with_words)} `word_tags`"
        raise ValueError(f"{numbers}: each document with words needs its own")
    remaining = iter(pairs_with_words)
    return [next(remaining) if has_words else [] for has_words in is_written]


def tags_within(text: str, pairs: Sequence[Sequence[str]], spans: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    """The words of a text, each with its tag, that start within any of the spans; a ValueError as `align_tags`.

    Args:
        pairs: each word of the text with its tag.
        spans: [start, end) characters of the text.
    """
    within = []
    for word in align_tags(text, pairs):
        if any(start <= word.start < end for start, end in spans):
            within.append((text[word.start : word.end], word.tag))
    return within
