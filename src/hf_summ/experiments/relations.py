"""The correlation of a value of each summary with its scores: Xu et al. 2020, Figure 2."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hf_summ.common.pages import markdown_table
from hf_summ.evaluation.significance import bootstrap_interval

# spans with about equal numbers of documents, so that their means have similar errors
_SPANS = 8


def relation(values: np.ndarray, scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The points, Spearman's rank correlation of each score with the value, and mean scores by spans of the value.

    Args:
        values: (N,).
        scores: measure -> (N,).

    Returns:
        `points`: (value, scores…) of each document; `correlations`: measure -> `value`, `low` and `high`, by bootstrap
        over documents with fixed ranks, or None if all values or scores are equal; `spans`: each from `low` to `high`,
        with its number of `documents` and mean `scores`.
    """
    order = np.argsort(values, kind="stable")
    spans = [
        {
            "low": float(values[part[0]]),
            "high": float(values[part[-1]]),
            "documents": len(part),
            "scores": {measure: float(score[part].mean()) for measure, score in scores.items()},
        }
        for part in np.array_split(order, min(_SPANS, len(order)))
    ]
    points = np.column_stack([values, *scores.values()]).tolist()
    correlations = {measure: rank_correlation(values, score) for measure, score in scores.items()}
    return {"points": points, "correlations": correlations, "spans": spans}


def rank_correlation(one: np.ndarray, other: np.ndarray) -> dict[str, float] | None:
    """Spearman's ρ with its 95% bootstrap interval; None if it is undefined."""
    if min(len(np.unique(one)), len(np.unique(other))) < 2:
        return None
    x, y = (_ranks(values) / len(values) - 0.5 for values in (one, other))
    statistics = np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])
    try:
        with np.errstate(all="ignore"):
            found = bootstrap_interval(statistics, measure=_correlation)
    except ValueError:
        return None
    return {"value": found.mean, "low": found.low, "high": found.high}


def markdown_of_relation(value: str, row: str, found: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """The correlations and the spans as lines of Markdown.

    Args:
        value, row: names of the value and of the system.
        found: from `relation`.
        titles: measure -> its title.
    """
    parts = [f"{titles[measure]} {_shown(correlation)}" for measure, correlation in found["correlations"].items()]
    lines = [f"{row}: Spearman's correlation of each summary's {value} with its {', '.join(parts)}. By {value}:", ""]
    rows = [
        [
            f"{span['low']:.3f} to {span['high']:.3f}",
            str(span["documents"]),
            *(f"{score:.2f}" for score in span["scores"].values()),
        ]
        for span in found["spans"]
    ]
    return [*lines, markdown_table([value, "documents", *(titles[measure] for measure in found["correlations"])], rows)]


def _shown(correlation: Mapping[str, float] | None) -> str:
    if correlation is None:
        return "–"
    return f"{correlation['value']:+.3f} [{correlation['low']:+.3f}, {correlation['high']:+.3f}]"


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values have their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _correlation(sums: np.ndarray) -> np.ndarray:
    number, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    return (number * xy - x * y) / np.sqrt((number * xx - x * x) * (number * yy - y * y))
