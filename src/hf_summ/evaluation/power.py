"""How many examples a comparison needs."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np


def examples_to_decide(
    differences: Sequence[float] | np.ndarray, power: float = 0.8, confidence: float = 95.0
) -> float:
    """How many examples in all would probably show which of two systems is better; infinity if the mean is 0.

    This assumes that further examples have the mean and the spread of the seen ones, and that means are normally
    distributed: n = ((z_confidence + z_power) · deviation / mean)², for a two-sided test. The seen mean is an estimate,
    and one that looks large by chance asks for too few examples.

    Args:
        differences: (N,), one system's score minus the other's on each example, in any unit.
        power: the probability with which that many examples decide.
        confidence: percentage that a decision must exceed, as for `bootstrap_interval`.

    Raises:
        ValueError: fewer than two differences, or ones that are not finite; `power` not between 0 and 1, or
            `confidence` not between 0 and 100.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"`differences` has shape {values.shape}, but must have one finite number for each of at least two examples"
        )
    if not 0 < power < 1:
        raise ValueError(f"`power` is {power}, but must be between 0 and 1")
    if not 0 < confidence < 100:
        raise ValueError(f"`confidence` is {confidence}, but must be a percentage between 0 and 100")
    # sums that cancel out may leave their last digits
    if abs(values.mean()) <= 1e-12 * np.abs(values).mean():
        return math.inf
    quantiles = NormalDist().inv_cdf(1 - (1 - confidence / 100) / 2) + NormalDist().inv_cdf(power)
    return math.ceil((quantiles * float(values.std(ddof=1) / values.mean())) ** 2)
