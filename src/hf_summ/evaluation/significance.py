"""Bootstrap intervals of mean scores, as ROUGE-1.5.5 prints them, and of the difference between two systems."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# how many examples are drawn at a time: the counts of one chunk stay in a processor's cache
_CHUNK = 1 << 16
# factor and term of drand48
_DRAND48 = (0x5DEECE66D, 0xB)


@dataclass(frozen=True)
class Interval:
    """A mean over `pairs` examples and its bootstrap interval. Of one pair there is none: low and high are the mean."""

    mean: float
    low: float
    high: float
    pairs: int
    confidence: float = 95.0

    def __str__(self) -> str:
        if self.pairs == 1:
            return f"{self.mean:.2f} (one pair only: no interval)"
        return f"{self.mean:.2f} ({self.confidence:g}%: {self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class ScriptInterval(Interval):
    """An interval as ROUGE-1.5.5 prints it. What it prints as average is `resampled`, the mean over its resamples."""

    resampled: float = 0.0


@dataclass(frozen=True)
class Comparison(Interval):
    """Mean difference of two systems on the same examples, its interval, and how often resampling turns it around.

    p_value is two-sided: twice the share of resamples in which the difference is 0 or of the other sign, at most 1.
    """

    p_value: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0; never so of one pair."""
        return self.pairs > 1 and not self.low <= 0 <= self.high


def bootstrap_interval(
    scores: Sequence[float] | np.ndarray, resamples: int = 1000, confidence: float = 95.0
) -> ScriptInterval:
    """The mean of per-example scores with the interval that ROUGE-1.5.5 prints for them (`-c 95 -r 1000`).

    The resamples are the script's own, drawn by Perl's generator from the seeds 0, 1, 2, …, over examples that are
    numbered from 1 and sorted by their numbers' letters, as pyrouge has them; so nothing is random here.

    Args:
        scores: (N,), in any unit.

    Raises:
        ValueError: no scores, scores that are not finite or not of one dimension, `resamples` below 1, `confidence`
            outside of 0 to 100.
    """
    values = _check("scores", scores)
    _check_options(resamples, confidence)
    order = sorted(range(len(values)), key=lambda place: f"{place + 1}.")
    means = _resampled_means(values[order], resamples, _perl_draws(len(values)))
    low, high = _bounds(means, confidence)
    return ScriptInterval(float(values.mean()), low, high, len(values), confidence, float(means.mean()))


def paired_bootstrap(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    resamples: int = 1000,
    confidence: float = 95.0,
    seed: int = 0,
) -> Comparison:
    """Mean of a - b, example by example, with its interval and p-value: both systems on the same resamples.

    Source: Koehn (2004), "Statistical significance tests for machine translation evaluation".

    Args:
        scores_a: (N,), one system's.
        scores_b: (N,), another's on the same examples, in the same order.

    Raises:
        ValueError: as `bootstrap_interval`; different numbers of scores.
    """
    a, b = _check("scores_a", scores_a), _check("scores_b", scores_b)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} scores_a and {len(b)} scores_b: paired scores are of the same examples")
    _check_options(resamples, confidence)
    differences = a - b
    generator = np.random.default_rng(seed)
    size = len(a)
    means = _resampled_means(
        differences, resamples, lambda start, stop: generator.integers(size, size=(stop - start, size), dtype=np.int32)
    )
    low, high = _bounds(means, confidence)
    p_value = min(1.0, 2 * float(min((means <= 0).mean(), (means >= 0).mean()))) if len(a) > 1 else 1.0
    return Comparison(float(differences.mean()), low, high, len(a), confidence, p_value)


def _check(name: str, scores: Sequence[float] | np.ndarray) -> np.ndarray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"`{name}` has shape {values.shape}: give one number for each example, at least one")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"`{name}` holds {values[row]} in row {row}: leave out what has no score")
    return values


def _check_options(resamples: int, confidence: float) -> None:
    if resamples < 1:
        raise ValueError(f"`resamples` is {resamples}: draw at least 1, 1000 as ROUGE-1.5.5 does")
    if not 0 <= confidence <= 100:
        raise ValueError(f"`confidence` is {confidence}: it is a percentage, 95 by default")


def _resampled_means(values: np.ndarray, resamples: int, draw: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """(R,), sorted: means over as many examples as there are, at the places that `draw(start, stop)` gives."""
    rows = max(1, _CHUNK // len(values))
    means = np.empty(resamples)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        means[start:stop] = values[draw(start, stop)].mean(1)
    return np.sort(means)


def _perl_draws(size: int) -> Callable[[int, int], np.ndarray]:
    """The places that Perl's `int(rand(size))` gives, `size` of them after each `srand(start)`, …, `srand(stop - 1)`.

    Perl draws by drand48, x ← a x + c modulo 2^48, which from any seed is one product and one sum for each place.
    """
    factors, terms = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint64)
    factor, term = 1, 0
    for place in range(size):
        factor, term = factor * _DRAND48[0] % 2**48, (term * _DRAND48[0] + _DRAND48[1]) % 2**48
        factors[place], terms[place] = factor, term

    def draw(start: int, stop: int) -> np.ndarray:
        seeds = np.arange(start, stop, dtype=np.uint64) * np.uint64(2**16) + np.uint64(0x330E)
        # products wrap at 2^64, which leaves their lower 48 bits as they are
        states = (seeds[:, None] * factors + terms) & np.uint64(2**48 - 1)
        return (states.astype(np.float64) * 2.0**-48 * size).astype(np.int32)

    return draw


def _bounds(means: np.ndarray, confidence: float) -> tuple[float, float]:
    """Both ends of the interval, read from sorted means at the places the script reads, its one fraction for both."""
    outside = len(means) * ((100 - confidence) / 2) / 100
    lower, upper = int(outside), int(len(means) - outside - 1)
    fraction = len(means) - outside - 1 - upper

    def at(place: int) -> float:
        following = min(place + 1, len(means) - 1)
        return float(means[place] + (means[following] - means[place]) * fraction)

    return at(lower), at(max(upper, 0))
