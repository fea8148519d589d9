"""Recall of the sources' key phrases in summaries."""

from collections.abc import Iterable, Sequence

import numpy as np

from hf_summ.evaluation.significance import mean_over_rows, rounded
from hf_summ.evaluation.words import split_words
from hf_summ.models.checks import check_list, check_texts


def phrase_recall(predictions: Sequence[str], phrases: Sequence[Iterable[str]], language: str = "en") -> float:
    """The mean of `phrase_recall_scores` over the examples that have phrases, to 4 digits; NaN if none has any.

    Raises:
        ValueError: as `phrase_recall_scores`.
    """
    scored = mean_over_rows(phrase_recall_scores(predictions, phrases, language))
    return rounded({"phrase_recall": scored})["phrase_recall"]


def phrase_recall_scores(
    predictions: Sequence[str], phrases: Sequence[Iterable[str]], language: str = "en"
) -> np.ndarray:
    """The share of each example's key phrases that occur in its summary word for word, in points.

    Args:
        predictions: (N,) summaries.
        phrases: (N,) the distinct phrases of each example; those without a word do not count.
        language: ISO 639 code, for splitting into words.

    Returns:
        (N,), NaN where an example has no phrase.

    Raises:
        TypeError: summaries or phrases that are not strings, or a single phrase in place of several.
        ValueError: there are not as many lists of phrases as summaries.
    """
    check_texts("predictions", predictions)
    check_list("phrases", phrases)
    if len(predictions) != len(phrases):
        raise ValueError(f"{len(predictions)} predictions but phrases of {len(phrases)} examples: give each its own")
    scores = np.full(len(predictions), np.nan)
    for row, (prediction, wanted) in enumerate(zip(predictions, phrases, strict=True)):
        check_texts(f"phrases[{row}]", wanted)
        # a space on either side, so that no phrase begins or ends within a word
        text = f" {' '.join(split_words(prediction, language))} "
        spelled = [" ".join(split_words(phrase, language)) for phrase in wanted]
        found = [f" {phrase} " in text for phrase in spelled if phrase]
        if found:
            scores[row] = 100 * np.mean(found)
    return scores
