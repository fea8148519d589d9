"""Support of a summary by its source: the share of its content words, and of their pairs, that occur there."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from hf_summ.common.messages import progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.significance import Scored, mean_over_rows
from hf_summ.evaluation.stemming import porter_stem
from hf_summ.evaluation.words import check_pairs, is_english, split_words, warn_of_wordless
from hf_summ.models.text_processing_highlight_transformer import STOP_WORDS

# Forms of "do" and "have", and pieces of contractions, which the list of stop words lacks.
_PIECES = "aren couldn d did didn does doesn doing hadn hasn haven having isn ll m s shouldn t ve wasn weren wouldn"
# Content words that STOP_WORDS contains.
_CONTENT_WORDS = """
    bill bottom call cry describe detail eight eleven empty fifteen fifty fill find fire first five forty found four
    full hundred interest mill mine move name nine serious show side sincere six sixty system ten thick thin third three
    top twelve twenty two
"""
_FUNCTION_WORDS = STOP_WORDS.union(_PIECES.split()).difference(_CONTENT_WORDS.split())
# Shorter words are not stemmed, as in ROUGE-1.5.5.
_MIN_LETTERS = 4


def support(predictions: Sequence[str], sources: Sequence[str], language: str = "en") -> dict[str, Scored]:
    """The share of each summary's wording that its source supports, in points, 0 to 100, as `support`.

    The mean of two shares: the content words of the summary whose stem is in the source; and the pairs of neighboring
    content words within a summary sentence whose stems share a source sentence, in any order and at any distance. Words
    and pairs count as often as they occur; a summary without pairs has the first share alone.

    Words are those of `rouge`, with numbers and names. In English, function words are not content, but number
    words are, and stems are those of ROUGE-1.5.5's stemmer without exceptions. In other languages every word counts,
    without stemming.

    It is no fact check: wrong combinations of source words within a source sentence have support.

    Args:
        predictions, sources: one summary and one document per row.
        language: ISO 639 code.

    Returns:
        The mean over the rows that have a value: a summary without content words has none, nor one whose source has no
        words.

    Raises:
        ValueError: different numbers of predictions and sources, none at all, or no source with words.

    Warns:
        UserWarning: some sources have no words.
    """
    check_pairs(predictions=predictions, sources=sources)
    scores = np.full(len(predictions), np.nan)
    wordless_rows = []
    pairs = zip(predictions, sources, strict=True)
    for row, (prediction, source) in enumerate(progress_bar(pairs, "support", len(sources))):
        source_stems = [set(stems) for stems in _stems_of_sentences(source, language)]
        if any(source_stems):
            content_stems = _stems_of_sentences(prediction, language, only_content=True)
            scores[row] = _support(content_stems, source_stems)
        else:
            wordless_rows.append(row)
    warn_of_wordless(wordless_rows, "sources", len(sources), "are left out", language)
    return {"support": mean_over_rows(scores)}


def _stems_of_sentences(text: str, language: str, only_content: bool = False) -> list[list[str]]:
    """The stems of each sentence's words: in English without function words, if only content counts."""
    stems_of_sentences = []
    for sentence in split_sentences(text, language):
        words = split_words(sentence, language)
        if is_english(language):
            stems_of_sentences.append(_stems_of_words(words, only_content))
        else:
            stems_of_sentences.append(words)
    return stems_of_sentences


def _stems_of_words(words: Sequence[str], only_content: bool) -> list[str]:
    stems = []
    for word in words:
        is_omitted = only_content and word in _FUNCTION_WORDS
        if not is_omitted:
            stems.append(_stem(word))
    return stems


def _support(content_stems: Sequence[Sequence[str]], source_stems: Sequence[set[str]]) -> float:
    """The support of a summary, given the content stems of its sentences and the stems of the source's."""
    words: list[set[str]] = []
    neighbors: list[set[str]] = []
    for stems in content_stems:
        for stem in stems:
            words.append({stem})
        for first, second in pairwise(stems):
            neighbors.append({first, second})
    if not words:
        return np.nan
    share_of_words = _supported_share(words, source_stems)
    if not neighbors:
        return 100 * share_of_words
    return 100 * (share_of_words + _supported_share(neighbors, source_stems)) / 2


def _supported_share(units: Sequence[set[str]], source_stems: Sequence[set[str]]) -> float:
    """The share of units, which are words or pairs of words, whose stems occur in one sentence of the source."""
    supported = 0
    for unit in units:
        if any(unit <= stems for stems in source_stems):
            supported += 1
    return supported / len(units)


@lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    if len(word) < _MIN_LETTERS:
        return word
    return porter_stem(word)
