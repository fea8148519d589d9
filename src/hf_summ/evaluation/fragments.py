"""The fragments that a summary copies from its source."""

from functools import partial
from typing import NamedTuple

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.matching import Matches
from hf_summ.evaluation.words import split_words, split_words_and_marks


class Fragment(NamedTuple):
    """Consecutive words of a summary that also occur in its source: `length` of them from word `start` on.

    `sentences` are the source sentences, counted from 0, in which the fragment begins, one entry per occurrence.
    Sentences without words, such as a line of dashes, are not counted.
    """

    start: int
    length: int
    sentences: tuple[int, ...]


class Alignment(NamedTuple):
    """A summary aligned with its source.

    `matches` gives for each word of the summary the length of the longest fragment that begins there, 0 for a word that
    is not in the source; the n-gram that begins there is novel if this is less than n.
    """

    words: list[str]
    matches: list[int]
    fragments: list[Fragment]
    source_words: int
    source_sentences: int


def copied_fragments(
    prediction: str, source: str, language: str = "en", count_punctuation: bool = False
) -> list[Fragment]:
    """The extractive fragments F(A, S) of a summary, in its order (Grusky et al. 2018).

    They are found greedily from the left: the longest that begins at a word, then the next after its end. They do not
    overlap.

    Args:
        prediction, source: the summary and its document.
        language: as for `rouge_scores`.
        count_punctuation: whether punctuation marks are words too.
    """
    return align(prediction, source, language, count_punctuation).fragments


def align(prediction: str, source: str, language: str, count_punctuation: bool = False) -> Alignment:
    """Match the words of `prediction` with those of `source`."""
    split = partial(split_words_and_marks if count_punctuation else split_words, language=language)
    words = split(prediction)
    source_words: list[str] = []
    sentence_of: list[int] = []
    for sentence in split_sentences(source, language):
        found = split(sentence)
        sentence_of += [sentence_of[-1] + 1 if sentence_of else 0] * len(found)
        source_words += found
    found = Matches(words, source_words)
    fragments: list[Fragment] = []
    # the sentences of a fragment that occurs many times in both texts are kept once
    sentences: dict[tuple[str, ...], tuple[int, ...]] = {}
    free = 0
    for start, length in enumerate(found.lengths):
        if length and start >= free:
            free = start + length
            key = tuple(words[start:free])
            if key not in sentences:
                sentences[key] = tuple(sentence_of[place] for place in found.places(start))
            fragments.append(Fragment(start, length, sentences[key]))
    return Alignment(words, found.lengths, fragments, len(source_words), sentence_of[-1] + 1 if sentence_of else 0)
