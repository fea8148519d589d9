"""Agreement between judges of the same units, corrected for chance.

Judgments are codes: (V, N) for V judges and N units, NaN where a judge skipped a unit.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

Level = Literal["nominal", "ordinal", "interval"]


def fleiss_kappa(judgments: Sequence[Sequence[float]] | np.ndarray) -> float:
    """Fleiss' κ: 1 for full agreement, 0 for agreement by chance; NaN if all judgments are the same.

    Source: Fleiss (1971), "Measuring nominal scale agreement among many raters".

    Args:
        judgments: (V, N) codes of categories, none missing.

    Raises:
        ValueError: fewer than two judges, no units, or missing judgments.
    """
    values = _check(judgments)
    if np.isnan(values).any():
        judge, unit = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"`judgments` has none of judge {judge} on unit {unit}, but Fleiss' kappa needs all: leave out the unit, "
            "or use `krippendorff_alpha`"
        )
    judges = len(values)
    counts = _counts(values)
    agreement = ((counts**2).sum(1) - judges) / (judges * (judges - 1))
    chance = float(((counts.sum(0) / values.size) ** 2).sum())
    return (float(agreement.mean()) - chance) / (1 - chance) if counts.shape[1] > 1 else math.nan


def krippendorff_alpha(judgments: Sequence[Sequence[float]] | np.ndarray, level: Level = "nominal") -> float:
    """Krippendorff's α: 1 for full agreement, 0 for agreement by chance; NaN if no two judgments differ.

    Units with fewer than two judgments do not count. Source: Krippendorff (2011), "Computing Krippendorff's
    alpha-reliability".

    Args:
        judgments: (V, N) numbers, NaN where one is missing.
        level: which properties of the numbers count: only whether they differ ("nominal"), also their order
            ("ordinal"), or also their distances ("interval").

    Raises:
        ValueError: fewer than two judges, or no units.
    """
    values = _check(judgments)
    counts = _counts(values)
    counts = counts[counts.sum(1) > 1]
    # each judgment is paired with the others of its unit
    shares = counts / (counts.sum(1, keepdims=True) - 1)
    coincidences = shares.T @ counts - np.diag(shares.sum(0))
    totals = coincidences.sum(0)
    if (totals > 0).sum() < 2:
        return math.nan
    distances = _DISTANCES[level](np.unique(values[~np.isnan(values)]), totals)
    # how often two would coincide by chance; pairs of equal values have no distance and do not matter
    expected = np.outer(totals, totals) / (totals.sum() - 1)
    return 1 - float((coincidences * distances).sum() / (expected * distances).sum())


def _check(judgments: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    values = np.asarray(judgments, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or not values.shape[1]:
        raise ValueError(
            f"`judgments` has shape {values.shape}, but must have a row for each of at least two judges, and a column "
            "for each unit"
        )
    return values


def _counts(values: np.ndarray) -> np.ndarray:
    """(N, K): how many judges gave each unit each of the K values, in their order."""
    return (values[:, :, None] == np.unique(values[~np.isnan(values)])).sum(0).astype(np.float64)


def _ordinal(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The squared number of judgments from one value to the other; both ends count half."""
    middles = np.cumsum(totals) - totals / 2
    return (middles[:, None] - middles) ** 2


# squared distances of all values, (K, K), from the values and how often they occur
_DISTANCES = {
    "nominal": lambda values, totals: 1 - np.eye(len(values)),
    "ordinal": _ordinal,
    "interval": lambda values, totals: (values[:, None] - values) ** 2,
}
