"""Where a summary repeats its source word by word."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import split_words


class Fragment(NamedTuple):
    """Words of a summary that stand in its source in the same order: `length` of them from word `start` on.

    `sentences` are the source sentences, counted from 0, in which the fragment begins: one entry an occurrence. Those
    without words, such as a line of dashes, are not counted.
    """

    start: int
    length: int
    sentences: tuple[int, ...]


class Alignment(NamedTuple):
    """A summary beside its source.

    `matches` has for each word of the summary the length of the longest fragment that begins there, 0 for a word that
    the source lacks: the n-gram that begins there is novel where this is less than n.
    """

    words: list[str]
    matches: list[int]
    fragments: list[Fragment]
    source_words: int
    source_sentences: int


def copied_fragments(prediction: str, source: str, language: str = "en") -> list[Fragment]:
    """The extractive fragments F(A, S) of a summary, in its order (Grusky et al. 2018).

    Greedy: from the left, each time the longest that begins at the word, then on after its end. They do not overlap.

    Args:
        language: as for `rouge_scores`.
    """
    return align(prediction, source, language).fragments


def align(prediction: str, source: str, language: str) -> Alignment:
    """The words of `prediction` matched with those of `source`."""
    words = split_words(prediction, language)
    source_words: list[str] = []
    sentence_of: list[int] = []
    for sentence in split_sentences(source, language):
        found = split_words(sentence, language)
        sentence_of += [sentence_of[-1] + 1 if sentence_of else 0] * len(found)
        source_words += found
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(source_words):
        places[word].append(place)
    # ends that equal nothing, so that no comparison runs past a text
    ended_source, ended_words = [*source_words, None], [*words, ""]
    matches: list[int] = []
    fragments: list[Fragment] = []
    free = 0
    for start, word in enumerate(words):
        length, occurrences = _longest(ended_words, start, ended_source, places.get(word, ()))
        matches.append(length)
        if length and start >= free:
            fragments.append(Fragment(start, length, tuple(sentence_of[place] for place in occurrences)))
            free = start + length
    return Alignment(words, matches, fragments, len(source_words), sentence_of[-1] + 1 if sentence_of else 0)


def _longest(
    words: Sequence[str], start: int, source: Sequence[str | None], places: Sequence[int]
) -> tuple[int, list[int]]:
    """The length of the longest match of words[start:] at one of `places`, and all places with that length."""
    best = 1
    found: list[int] = []
    for place in places:
        if place + best > len(source):
            break
        # what differs at the best match's last word is shorter than it
        if source[place + best - 1] != words[start + best - 1]:
            continue
        length = 1
        while source[place + length] == words[start + length]:
            length += 1
        if length > best:
            best, found = length, [place]
        elif length == best:
            found.append(place)
    return (best, found) if found else (0, found)
