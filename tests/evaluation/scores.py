"""ROUGE with settings as keywords, by row and as means."""

from collections.abc import Sequence
from typing import Any

from hf_summ.evaluation import RougeSettings, rouge
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
