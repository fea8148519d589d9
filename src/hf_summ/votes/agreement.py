"""Agreement of judges beyond chance: Fleiss' kappa and Krippendorff's alpha.

A judge gives each unit a judgment, which is a number. In a report on votes, judges are voters, units are documents, and
judgments are outcomes of votes. K is the number of distinct judgments.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from hf_summ.common.messages import check_choice

# Which properties of numbers Krippendorff's alpha counts; see `krippendorff_alpha`.
MeasurementLevel = Literal["nominal", "ordinal", "interval"]


def fleiss_kappa(judgments: Sequence[Sequence[float]] | np.ndarray) -> float:
    """Fleiss' κ: 1 for full agreement, 0 for agreement by chance; NaN if all judgments are the same.

    Source: Fleiss (1971), "Measuring nominal scale agreement among many raters".

    Args:
        judgments: (V, N), the category that each of V judges gave to each of N units, as a number. No
            judgment may be missing.

    Raises:
        ValueError: there are fewer than two judges or no units, or judgments are missing.
    """
    values = _checked(judgments)
    if np.isnan(values).any():
        judge, unit = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"`judgments` has none of judge {judge} on unit {unit}, but Fleiss' kappa needs all: omit the unit, "
            "or use `krippendorff_alpha`"
        )
    judges = len(values)
    counts = _value_counts(values)
    categories = counts.shape[1]
    if categories == 1:
        return math.nan
    agreement_of_units = ((counts**2).sum(1) - judges) / (judges * (judges - 1))
    agreement = float(agreement_of_units.mean())
    category_shares = counts.sum(0) / values.size
    chance = float((category_shares**2).sum())
    return (agreement - chance) / (1 - chance)


def krippendorff_alpha(judgments: Sequence[Sequence[float]] | np.ndarray, level: MeasurementLevel = "nominal") -> float:
    """Krippendorff's α: 1 for full agreement, 0 for agreement by chance; NaN if no two judgments differ.

    Units with fewer than two judgments do not count. Source: Krippendorff (2011), "Computing Krippendorff's
    alpha-reliability".

    Args:
        judgments: (V, N), the number that each of V judges gave to each of N units; NaN where a judgment is missing.
        level: which properties of the numbers count: only whether they differ ("nominal"), also their order
            ("ordinal"), or also their distances ("interval").

    Raises:
        ValueError: there are fewer than two judges or no units, or the level is unknown.
    """
    check_choice("`level`", level, _SQUARED_DISTANCES)
    values = _checked(judgments)
    counts = _value_counts(values)
    counts = counts[counts.sum(1) > 1]
    # Each judgment is paired with the other judgments of its unit. A coincidence of two values counts these pairs, so
    # that the pairs of a unit have the weight of its judgments.
    shares = counts / (counts.sum(1, keepdims=True) - 1)
    coincidences = shares.T @ counts - np.diag(shares.sum(0))
    totals = coincidences.sum(0)
    if (totals > 0).sum() < 2:
        return math.nan
    squared_distances = _SQUARED_DISTANCES[level](_distinct(values), totals)
    # The coincidences that are expected by chance. They are wrong for pairs of equal values, but the distance of such a
    # pair is 0, so that it adds nothing to the sums below.
    expected = np.outer(totals, totals) / (totals.sum() - 1)
    observed_disagreement = (coincidences * squared_distances).sum()
    expected_disagreement = (expected * squared_distances).sum()
    return 1 - float(observed_disagreement / expected_disagreement)


def _checked(judgments: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """The judgments as an array, (V, N).

    Raises:
        ValueError: there are fewer than two judges, or no units.
    """
    values = np.asarray(judgments, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or not values.shape[1]:
        raise ValueError(
            f"`judgments` has shape {values.shape}, but must have a row for each of at least two judges, and a column "
            "for each unit"
        )
    return values


def _distinct(values: np.ndarray) -> np.ndarray:
    """The different values in ascending order, (K,), without NaN."""
    return np.unique(values[~np.isnan(values)])


def _value_counts(values: np.ndarray) -> np.ndarray:
    """How many judges gave each unit each of the K values, (N, K). The values are in ascending order."""
    is_value = values[:, :, None] == _distinct(values)
    return is_value.sum(0).astype(np.float64)


def _nominal_distances(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """1 for two different values, and 0 for equal values."""
    return 1 - np.eye(len(values))


def _ordinal_distances(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The squared number of judgments from a value to another, where half of the judgments of both values count."""
    middles = np.cumsum(totals) - totals / 2
    return (middles[:, None] - middles) ** 2


def _interval_distances(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The squared difference of two values."""
    return (values[:, None] - values) ** 2


# Level of measurement -> the function that maps the values, (K,), and their numbers of judgments, (K,), to the squared
# distances of all pairs of values, (K, K).
_SQUARED_DISTANCES = {"nominal": _nominal_distances, "ordinal": _ordinal_distances, "interval": _interval_distances}
