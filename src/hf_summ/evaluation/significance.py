"""Bootstrap intervals of mean scores and of differences of two systems, tests, and sample sizes of comparisons.

Scores that are not means over examples, such as BLEU and perplexity, are measures of sums: each example has a row of K
statistics, and the measure maps their sums over a corpus, (…, K), to values, (…). A micro-average is the measure
`s[..., 0] / s[..., 1]` of rows (numerator, denominator), and a mean is that of rows (score, 1).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hf_summ.models.checks import check_integer

Measure = Callable[[np.ndarray], np.ndarray]

# number of examples drawn at once: the counts of a chunk fit into the processor's cache
_CHUNK = 1 << 16
# multiplier and increment of drand48
_DRAND48 = (0x5DEECE66D, 0xB)


@dataclass(frozen=True)
class Interval:
    """A mean over `pairs` examples and its bootstrap interval; for a single pair, low and high equal the mean.

    For a measure of sums, `mean` is the value of the corpus.
    """

    mean: float
    low: float
    high: float
    pairs: int
    confidence: float = 95.0

    def __str__(self) -> str:
        if self.pairs == 1:
            return f"{self.mean:.2f} (no interval: only one pair)"
        return f"{self.mean:.2f} ({self.confidence:g}%: {self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class ScriptInterval(Interval):
    """An interval as ROUGE-1.5.5 prints it; the printed average is `resampled`, the mean over the resamples."""

    resampled: float = 0.0


@dataclass(frozen=True)
class Comparison(Interval):
    """Mean difference of two systems on the same examples, with its interval and p-value.

    p_value is two-sided: twice the share of resamples in which the difference is 0 or has the opposite sign, at most 1.
    The examples themselves count as one more such resample, so p is never 0.
    """

    p_value: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0; never for a single pair."""
        return self.pairs > 1 and not self.low <= 0 <= self.high


def bootstrap_interval(
    scores: Sequence[float] | np.ndarray, resamples: int = 1000, confidence: float = 95.0
) -> ScriptInterval:
    """The mean of per-example scores with the interval that ROUGE-1.5.5 prints for them (`-c 95 -r 1000`).

    The resamples are the script's: Perl's generator draws them from the seeds 0, 1, 2, …. As in pyrouge, examples are
    numbered from 1 and sorted by these numbers as strings. So the result is deterministic.

    Args:
        scores: (N,), in any unit.
        resamples: number of drawn samples of N scores.
        confidence: percentage of the resamples' means in the interval.

    Raises:
        ValueError: no scores, scores that are not finite or not one-dimensional, `resamples` below 1, or a `confidence`
            that is not above 0 and up to 100.
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
    """The mean of a - b over examples, with its interval and p-value, from the same resamples for both systems.

    Source: Koehn (2004), "Statistical significance tests for machine translation evaluation".

    Args:
        scores_a: (N,), one system's scores.
        scores_b: (N,), another's on the same examples, in the same order.
        resamples, confidence: as for `bootstrap_interval`.
        seed: random seed of the resamples.

    Raises:
        ValueError: as `bootstrap_interval`, or different numbers of scores.
    """
    differences = _differences(scores_a, scores_b)
    _check_options(resamples, confidence)
    means = _resampled_means(differences, resamples, _random_draws(len(differences), seed))
    return _compare(float(differences.mean()), means, len(differences), confidence)


def paired_randomization(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    trials: int = 1000,
    seed: int = 0,
) -> float:
    """The two-sided p-value of the mean of a - b by approximate randomization: 0 to 1, never 0.

    It is the share of trials whose mean is at least as far from 0 as that of the scores, which count as one more
    trial. In each trial, every example's scores are exchanged with probability 1/2. Unlike the bootstrap's, it is
    valid for few examples too. Source: Riezler and Maxwell (2005), "On some pitfalls in automatic evaluation and
    significance testing for MT".

    Args:
        scores_a, scores_b: as for `paired_bootstrap`.
        trials: number of trials.
        seed: random seed of the exchanges.

    Raises:
        ValueError: as `paired_bootstrap`, or `trials` below 1.
    """
    differences = _differences(scores_a, scores_b)
    check_integer("trials", trials, 1)
    check_integer("seed", seed, 0)
    generator = np.random.default_rng(seed)
    observed = differences.sum()
    # rounding makes sums of the same numbers depend on their order
    far = abs(observed) - 1e-9 * np.abs(differences).sum()
    size = len(differences)
    rows = max(1, _CHUNK // size)
    as_far = 0
    for start in range(0, trials, rows):
        bits = generator.bytes((min(rows, trials - start) * size + 7) // 8)
        flipped = np.unpackbits(np.frombuffer(bits, np.uint8))[: min(rows, trials - start) * size].reshape(-1, size)
        as_far += int((np.abs(observed - 2 * (flipped @ differences)) >= far).sum())
    return _share(as_far, trials)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, adjusted by Holm's method, which bounds the family-wise error rate.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none is smaller than those before it, or larger
    than 1. Source: Holm (1979), "A simple sequentially rejective multiple test procedure".

    Args:
        p_values: those of all tests; the result has their order.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = values.argsort(kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(factors * values[order], 1.0))
    return adjusted.tolist()


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of so many wins and losses if both are equally likely: 0 to 1.

    Args:
        wins, losses: their numbers; ties favor neither and do not count.

    Raises:
        ValueError: a negative number.
    """
    if min(wins, losses) < 0:
        raise ValueError(f"{wins} `wins` and {losses} `losses`: neither can be negative")
    tosses = wins + losses
    as_few = sum(math.comb(tosses, number) for number in range(min(wins, losses) + 1))
    return min(1.0, 2 * as_few / 2**tosses)


def bootstrap_interval_of_sums(
    statistics: np.ndarray, measure: Measure, resamples: int = 1000, confidence: float = 95.0, seed: int = 0
) -> Interval:
    """A measure of sums for a corpus, with its bootstrap interval.

    Args:
        statistics: (N, K), one row per example, for example from `bleu_statistics`.
        measure: maps sums (…, K) to values (…), for example `corpus_bleu` or `perplexity`.
        resamples, confidence: as for `bootstrap_interval`.
        seed: random seed of the resamples.

    Raises:
        ValueError: no statistics, statistics that are not finite or not two-dimensional, a measure without a finite
            value for the corpus or a resample of it, or options as in `bootstrap_interval`.
    """
    rows = _check("statistics", statistics, ndim=2)
    _check_options(resamples, confidence)
    value = _values(measure, rows.sum(0))
    (sums,) = _resampled_sums([rows], resamples, seed)
    low, high = _bounds(np.sort(_values(measure, sums)), confidence)
    return Interval(float(value), low, high, len(rows), confidence)


def paired_bootstrap_of_sums(
    statistics_a: np.ndarray,
    statistics_b: np.ndarray,
    measure: Measure,
    resamples: int = 1000,
    confidence: float = 95.0,
    seed: int = 0,
) -> Comparison:
    """The measure of a minus that of b, with its interval and p-value, from the same resamples for both systems.

    With the same seed, the resamples are those of `paired_bootstrap`. Source: Koehn (2004), who compares BLEU this way.

    Args:
        statistics_a: (N, K), one system's statistics, one row per example.
        statistics_b: (N, K), another's on the same examples, in the same order.
        measure, resamples, confidence, seed: as for `bootstrap_interval_of_sums`.

    Raises:
        ValueError: as `bootstrap_interval_of_sums`, or statistics of different shapes.
    """
    a, b = _check("statistics_a", statistics_a, ndim=2), _check("statistics_b", statistics_b, ndim=2)
    if a.shape != b.shape:
        raise ValueError(
            f"`statistics_a` has shape {a.shape} but `statistics_b` has {b.shape}: paired statistics must be the same "
            "ones, of the same examples"
        )
    _check_options(resamples, confidence)
    difference = _values(measure, a.sum(0)) - _values(measure, b.sum(0))
    values_a, values_b = (_values(measure, sums) for sums in _resampled_sums([a, b], resamples, seed))
    return _compare(float(difference), np.sort(values_a - values_b), len(a), confidence)


def _differences(scores_a: Sequence[float] | np.ndarray, scores_b: Sequence[float] | np.ndarray) -> np.ndarray:
    a, b = _check("scores_a", scores_a), _check("scores_b", scores_b)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} `scores_a` but {len(b)} `scores_b`: paired scores must be of the same examples")
    return a - b


def _share(number: int, resamples: int) -> float:
    """The share of resamples, counting the examples themselves as one more."""
    return (number + 1) / (resamples + 1)


def _compare(difference: float, resampled: np.ndarray, pairs: int, confidence: float) -> Comparison:
    """The comparison from the difference of two systems and the sorted differences of their resamples."""
    low, high = _bounds(resampled, confidence)
    opposite = int(min((resampled <= 0).sum(), (resampled >= 0).sum()))
    p_value = min(1.0, 2 * _share(opposite, len(resampled))) if pairs > 1 else 1.0
    return Comparison(difference, low, high, pairs, confidence, p_value)


def _check(name: str, scores: Sequence[float] | np.ndarray, ndim: int = 1) -> np.ndarray:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"`{name}` must be numbers, but {type(scores).__name__} has others: {scores!r:.80}") from None
    if values.ndim != ndim or not values.size:
        wanted = "one number" if ndim == 1 else "a row of numbers"
        raise ValueError(f"`{name}` has shape {values.shape}, but must have {wanted} for each of at least one example")
    if not np.isfinite(values).all():
        place = tuple(np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"`{name}` contains {values[place]} in row {place[0]}: leave out examples without a score")
    with np.errstate(over="ignore"):
        if not np.isfinite(2 * np.abs(values).sum(0)).all():
            raise ValueError(f"`{name}` are too large to be added: the largest is {np.abs(values).max():.4g}")
    return values


def _check_options(resamples: int, confidence: float) -> None:
    check_integer("resamples", resamples, 1, why="; ROUGE-1.5.5 draws 1000")
    # at 0, the script's lower end is above its upper one
    if not 0 < confidence <= 100:
        raise ValueError(f"`confidence` is {confidence}, but must be a percentage above 0 and up to 100")


def _resampled_means(values: np.ndarray, resamples: int, draw: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """(R,), sorted: means over N examples drawn from N, at the positions that `draw(start, stop)` gives."""
    rows = max(1, _CHUNK // len(values))
    means = np.empty(resamples)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        means[start:stop] = values[draw(start, stop)].mean(1)
    return np.sort(means)


def _resampled_sums(tables: Sequence[np.ndarray], resamples: int, seed: int) -> list[np.ndarray]:
    """(R, K) for each (N, K): sums over N examples drawn at random, the same ones for all tables."""
    size = len(tables[0])
    draw = _random_draws(size, seed)
    rows = max(1, _CHUNK // size)
    sums = [np.empty((resamples, table.shape[1])) for table in tables]
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        places = draw(start, stop) + size * np.arange(stop - start)[:, None]
        # how often each example was drawn, times its statistics: no drawn row is copied
        counts = np.bincount(places.ravel(), minlength=places.size).reshape(places.shape).astype(np.float64)
        # the same steps for each table, so that equal systems have equal sums to the last digit
        for table, of_table in zip(tables, sums, strict=True):
            of_table[start:stop] = counts @ table
    return sums


def _values(measure: Measure, sums: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = np.asarray(measure(sums), dtype=np.float64)
    if values.shape != sums.shape[:-1]:
        raise ValueError(
            f"`measure` maps sums of shape {sums.shape} to {values.shape}, but must map them to {sums.shape[:-1]}"
        )
    if not np.isfinite(values).all():
        value = values[~np.isfinite(values)][0]
        what = "the corpus" if sums.ndim == 1 else f"{int((~np.isfinite(values)).sum())} of {len(sums)} resamples"
        raise ValueError(f"`measure` is {value} for {what}: too few rows count toward it")
    return values


def _random_draws(size: int, seed: int) -> Callable[[int, int], np.ndarray]:
    """`size` positions out of `size` for each resample from `start` to `stop`, which must come in order."""
    check_integer("seed", seed, 0)
    generator = np.random.default_rng(seed)

    def draw(start: int, stop: int) -> np.ndarray:
        return generator.integers(size, size=(stop - start, size), dtype=np.int32)

    return draw


def _perl_draws(size: int) -> Callable[[int, int], np.ndarray]:
    """The positions from Perl's `int(rand(size))`, `size` of them after each of `srand(start)`, …, `srand(stop - 1)`.

    Perl draws with drand48, x ← a x + c modulo 2^48, which is one product and one sum per position from any seed.
    """
    factors, terms = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint64)
    factor, term = 1, 0
    for place in range(size):
        factor, term = factor * _DRAND48[0] % 2**48, (term * _DRAND48[0] + _DRAND48[1]) % 2**48
        factors[place], terms[place] = factor, term

    def draw(start: int, stop: int) -> np.ndarray:
        seeds = np.arange(start, stop, dtype=np.uint64) * np.uint64(2**16) + np.uint64(0x330E)
        # products wrap at 2^64, which keeps their lower 48 bits
        states = (seeds[:, None] * factors + terms) & np.uint64(2**48 - 1)
        return (states.astype(np.float64) * 2.0**-48 * size).astype(np.int32)

    return draw


def _bounds(means: np.ndarray, confidence: float) -> tuple[float, float]:
    """Both ends of the interval, interpolated in the sorted means as in the script: with one fraction for both."""
    outside = len(means) * ((100 - confidence) / 2) / 100
    lower, upper = int(outside), int(len(means) - outside - 1)
    fraction = len(means) - outside - 1 - upper

    def at(place: int) -> float:
        following = min(place + 1, len(means) - 1)
        return float(means[place] + (means[following] - means[place]) * fraction)

    return at(lower), at(max(upper, 0))


def examples_to_decide(
    differences: Sequence[float] | np.ndarray, power: float = 0.8, confidence: float = 95.0
) -> float:
    """Total number of examples that a comparison of two systems probably needs; infinity if the mean is 0.

    This assumes that further examples have the mean and deviation of the given ones, and that means are normally
    distributed: n = ((z_confidence + z_power) · deviation / mean)², for a two-sided test. The given mean is an
    estimate; if it is large by chance, n is too small.

    Args:
        differences: (N,), one system's score minus the other's on each example, in any unit.
        power: the probability of a significant result with that many examples.
        confidence: percentage, 100 minus the test's level of significance.

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
    # sums that cancel out may leave a rounding error
    if abs(values.mean()) <= 1e-12 * np.abs(values).mean():
        return math.inf
    quantiles = NormalDist().inv_cdf(1 - (1 - confidence / 100) / 2) + NormalDist().inv_cdf(power)
    return math.ceil((quantiles * float(values.std(ddof=1) / values.mean())) ** 2)


def perplexity(sums: np.ndarray) -> np.ndarray:
    """exp(nll / tokens), infinite where that exceeds a float: a measure of sums.

    Args:
        sums: (…, 2), negative log-likelihood and number of tokens, summed over a corpus, for example `nll` and `tokens`
            of the rows that training writes to `predictions.jsonl`.

    Returns:
        (…), NaN where there are no tokens.
    """
    sums = np.asarray(sums, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.exp(sums[..., 0] / sums[..., 1])
