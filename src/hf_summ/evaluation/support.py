"""Support of a summary by its source: the share of the summary's content words, and of their pairs, in the source.

Content words are all words but function words, such as "the" and "with". A pair is two content words that are neighbors
in a sentence of the summary without function words.
"""

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

# Function words that the list of stop words lacks: forms of "do" and "have", and pieces of contractions.
_PIECES = "aren couldn d did didn does doesn doing hadn hasn haven having isn ll m s shouldn t ve wasn weren wouldn"
# Content words that the list of stop words contains.
_CONTENT_WORDS = """
    bill bottom call cry describe detail eight eleven empty fifteen fifty fill find fire first five forty found four
    full hundred interest mill mine move name nine serious show side sincere six sixty system ten thick thin third three
    top twelve twenty two
"""
_FUNCTION_WORDS = STOP_WORDS.union(_PIECES.split()).difference(_CONTENT_WORDS.split())
# Shorter words are not stemmed, as in ROUGE-1.5.5.
_MIN_LETTERS = 4


def support(predictions: Sequence[str], sources: Sequence[str], language: str = "en") -> dict[str, Scored]:
    """The share of each summary's wording that its source supports.

    The support of a summary is the mean of two shares. The first is the share of the summary's content words whose stem
    is in the source. The second is the share of the summary's pairs whose two stems are in the same sentence of the
    source, in any order and at any distance. Words and pairs count as often as they occur in the summary. A summary
    without pairs has the first share alone.

    Words are the words that `rouge` compares, with numbers and names. In English, function words are not content, but
    number words are, and words are stemmed by ROUGE-1.5.5's stemmer without its list of exceptions. In other languages
    every word is a content word, and words are not stemmed.

    Support is not a fact check: wrong combinations of source words within a source sentence have support.

    Args:
        predictions, sources: (N,) each, one summary and one document per row.
        language: ISO 639 code.

    Returns:
        A dictionary with the key "support" alone: the mean over the rows that have a value, in points, 0 to 100. A row
        has no value if the summary has no content words, or if the source has no words.

    Raises:
        TypeError: `predictions` or `sources` is not a list, or a value is not a string.
        ValueError: the numbers of predictions and sources differ, there are none, no source has any words, or the
            language is unknown.

    Warns:
        UserWarning: some sources have no words. The message lists their rows.
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
    """The stems of each sentence's words, in the order of the text.

    Args:
        only_content: whether English function words are left out.
    """
    stems_of_sentences = []
    for sentence in split_sentences(text, language):
        words = split_words(sentence, language)
        if is_english(language):
            stems_of_sentences.append(_stems_of_words(words, only_content))
        else:
            stems_of_sentences.append(words)
    return stems_of_sentences


def _stems_of_words(words: Sequence[str], only_content: bool) -> list[str]:
    """The stems of English words, without function words if `only_content` is true."""
    stems = []
    for word in words:
        is_omitted = only_content and word in _FUNCTION_WORDS
        if not is_omitted:
            stems.append(_stem(word))
    return stems


def _support(content_stems: Sequence[Sequence[str]], source_stems: Sequence[set[str]]) -> float:
    """The support of a summary in points, NaN for a summary without content words.

    Args:
        content_stems: the stems of the content words of each sentence of the summary.
        source_stems: the stems of the words of each sentence of the source.
    """
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
    """The share of units whose stems all occur in the same sentence of the source, 0 to 1.

    Args:
        units: the stems of each unit, which is a word or a pair.
        source_stems: the stems of the words of each sentence of the source.
    """
    supported = 0
    for unit in units:
        if any(unit <= stems for stems in source_stems):
            supported += 1
    return supported / len(units)


@lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    """The stem of a lowercased English word. A word of fewer than four letters is its own stem."""
    if len(word) < _MIN_LETTERS:
        return word
    return porter_stem(word)
