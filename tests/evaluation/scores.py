"""ROUGE with settings as keywords, and measures by row and as means."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hf_summ.evaluation import RougeSettings, novelty, rouge, support
from hf_summ.evaluation.rouge_counts import Scores


def rouge_rows(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **settings: Any
) -> dict[str, Scores]:
    """ROUGE type -> precision, recall and F of each row."""
    return rouge(predictions, references, RougeSettings(**settings))


def rouge_means(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **settings: Any
) -> dict[str, float]:
    """ROUGE type -> the mean of F over the rows, to 4 digits as in a run's metrics."""
    scores = rouge_rows(predictions, references, **settings)
    return {rouge_type: round(float(values.fmeasure.mean()), 4) for rouge_type, values in scores.items()}


def novelty_rows(predictions: Sequence[str], sources: Sequence[str], **options: Any) -> dict[str, list[float]]:
    """Score -> its value for each row, NaN where a row has none."""
    scores = novelty(predictions, sources, **options)
    return {name: scored.rows().tolist() for name, scored in scores.items()}


def support_rows(predictions: Sequence[str], sources: Sequence[str], language: str = "en") -> np.ndarray:
    """The support of each row, (N,), NaN where a row has none."""
    return support(predictions, sources, language)["support"].rows()
