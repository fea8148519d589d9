"""Support of a summary by its source: content words that occur there, and together."""

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

# missing in the list of stop words: forms of "do" and "have", and pieces of contractions
_MORE = "aren couldn d did didn does doesn doing hadn hasn haven having isn ll m s shouldn t ve wasn weren wouldn"
# content words that STOP_WORDS contains
_MEANINGFUL = """
    bill bottom call cry describe detail eight eleven empty fifteen fifty fill find fire first five forty found four
    full hundred interest mill mine move name nine serious show side sincere six sixty system ten thick thin third three
    top twelve twenty two
"""
_FUNCTION_WORDS = STOP_WORDS.union(_MORE.split()).difference(_MEANINGFUL.split())
# shorter words are their own stems, as in ROUGE-1.5.5
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
    stem, functions = (_stem, _FUNCTION_WORDS) if is_english(language) else (str, frozenset())
    scores = np.full(len(predictions), np.nan)
    wordless = []
    pairs = zip(predictions, sources, strict=True)
    for row, (prediction, source) in enumerate(progress_bar(pairs, "support", len(sources))):
        sentences = [frozenset(map(stem, split_words(text, language))) for text in split_sentences(source, language)]
        if not any(sentences):
            wordless.append(row)
            continue
        claims = [split_words(text, language) for text in split_sentences(prediction, language)]
        content = [[stem(word) for word in claim if word not in functions] for claim in claims]
        scores[row] = _support(content, sentences)
    warn_of_wordless(wordless, "sources", len(sources), "are left out", language)
    return {"support": mean_over_rows(scores)}


def _support(content: Sequence[Sequence[str]], sentences: Sequence[frozenset[str]]) -> float:
    """The support of a summary, given the stems of each of its sentences and of those of the source."""
    words = [{word} for claim in content for word in claim]
    pairs = [{*pair} for claim in content for pair in pairwise(claim)]
    shares = [
        sum(any(map(unit.issubset, sentences)) for unit in units) / len(units) for units in (words, pairs) if units
    ]
    return 100 * sum(shares) / len(shares) if shares else np.nan


@lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    return word if len(word) < _MIN_LETTERS else porter_stem(word)
