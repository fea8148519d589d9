"""Bootstrap intervals of mean scores and of differences of two systems, tests, and sample sizes of comparisons.

Scores that are not means over examples, such as BLEU and perplexity, are measures of sums: each example has a row of K
statistics, and the measure maps their sums over a corpus, (…, K), to values, (…). A micro-average is the measure
`s[..., 0] / s[..., 1]` of rows (numerator, denominator), and a mean is that of rows (score, 1).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from hf_summ.models.checks import check_integer

OfSums = Callable[[np.ndarray], np.ndarray]

# number of examples drawn at once: the counts of a chunk fit into the processor's cache
_CHUNK = 1 << 16
# of `is_paired`: the number of texts that are read, the least one, and the level of significance
PAIRED, _LEAST_PAIRED, _LEVEL = 100, 20, 0.05


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
    scores: Sequence[float] | np.ndarray,
    resamples: int = 1000,
    confidence: float = 95.0,
    seed: int = 0,
    measure: OfSums | None = None,
) -> Interval:
    """The mean of per-example scores, or a measure of sums, with its percentile interval by bootstrap over examples.

    Args:
        scores: (N,), in any unit; with a measure (N, K), its statistics of each example.
        resamples: number of drawn samples of N examples.
        confidence: percentage of the resamples' values in the interval.
        seed: random seed of the resamples.
        measure: maps sums (…, K) to values (…), for example `perplexity`, or that of a `Scored`.

    Raises:
        ValueError: no scores, scores that are not finite or not of that shape, `resamples` below 1, or a measure
            without a finite value for the corpus or a resample of it.
    """
    rows, measure = _statistics("scores", scores, measure)
    value = _values(measure, rows.sum(0))
    (values,) = _resampled([rows], measure, resamples, seed)
    return Interval(float(value), *_bounds(values, confidence), len(rows), confidence)


def paired_bootstrap(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    resamples: int = 1000,
    confidence: float = 95.0,
    seed: int = 0,
    measure: OfSums | None = None,
) -> Comparison:
    """The mean or measure of a minus that of b, with its interval and p-value, from the same resamples for both.

    Source: Koehn (2004), "Statistical significance tests for machine translation evaluation".

    Args:
        scores_a: (N,) or, with a measure, (N, K): one system's.
        scores_b: another's on the same examples, in the same order.
        resamples, confidence, seed, measure: as for `bootstrap_interval`.

    Raises:
        ValueError: as `bootstrap_interval`, or different shapes of both scores.
    """
    a, b, measure = _paired_statistics(scores_a, scores_b, measure)
    difference = float(_values(measure, a.sum(0)) - _values(measure, b.sum(0)))
    values_a, values_b = _resampled([a, b], measure, resamples, seed)
    differences = values_a - values_b
    opposite = int(min((differences <= 0).sum(), (differences >= 0).sum()))
    p_value = min(1.0, 2 * _share(opposite, resamples)) if len(a) > 1 else 1.0
    return Comparison(difference, *_bounds(differences, confidence), len(a), confidence, p_value)


def paired_randomization(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    trials: int = 1000,
    seed: int = 0,
    measure: OfSums | None = None,
) -> float:
    """The two-sided p-value of the mean or measure of a minus that of b by approximate randomization: 0 to 1, never 0.

    It is the share of trials whose difference is at least as far from 0 as that of the scores, which count as one more
    trial. In each trial, every example's scores are exchanged with probability 1/2. Unlike the bootstrap's, it is
    valid for few examples too. Source: Riezler and Maxwell (2005), "On some pitfalls in automatic evaluation and
    significance testing for MT".

    Args:
        scores_a, scores_b, measure: as for `paired_bootstrap`.
        trials: number of trials.
        seed: random seed of the exchanges.

    Raises:
        ValueError: as `paired_bootstrap`, or `trials` below 1.
    """
    a, b, measure = _paired_statistics(scores_a, scores_b, measure)
    check_integer("trials", trials, 1)
    generator = np.random.default_rng(seed)
    total_a, total_b = a.sum(0), b.sum(0)
    # rounding makes sums of the same numbers depend on their order
    slack = 1e-9 * sum(np.abs(_values(measure, np.abs(table).sum(0))) for table in (a, b))
    far = abs(_values(measure, total_a) - _values(measure, total_b)) - slack
    size = len(a)
    rows = max(1, _CHUNK // size)
    as_far = 0
    for start in range(0, trials, rows):
        bits = generator.bytes((min(rows, trials - start) * size + 7) // 8)
        exchanged = np.unpackbits(np.frombuffer(bits, np.uint8))[: min(rows, trials - start) * size].reshape(-1, size)
        moved = exchanged @ (a - b)
        differences = _values(measure, total_a - moved) - _values(measure, total_b + moved)
        as_far += int((np.abs(differences) >= far).sum())
    return _share(as_far, trials)


def is_paired(texts: Sequence[str], others: Sequence[Any], score: Callable[..., np.ndarray]) -> bool:
    """Whether the first texts have higher scores with the others of their own rows than with those of other rows.

    Too few texts, or texts that cannot be scored, are taken to be paired.

    Args:
        texts: (N,).
        others: (N,), what each text belongs to.
        score: of N texts and N others, (N,); higher is closer.
    """
    texts, others = texts[:PAIRED], others[:PAIRED]
    half = len(texts) // 2
    if len(texts) < _LEAST_PAIRED:
        return True
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore", UserWarning)
        own, moved = score(texts, others), score(texts, [*others[half:], *others[:half]])
        return own.mean() > moved.mean() and paired_randomization(own, moved) <= _LEVEL
    return True


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
    """
    tosses = wins + losses
    as_few = sum(math.comb(tosses, number) for number in range(min(wins, losses) + 1))
    return min(1.0, 2 * as_few / 2**tosses)


def _share(number: int, resamples: int) -> float:
    """The share of resamples, counting the examples themselves as one more."""
    return (number + 1) / (resamples + 1)


def _statistics(name: str, scores: Any, measure: OfSums | None = None) -> tuple[np.ndarray, OfSums]:
    """The scores as statistics, (N, K), and the measure of their sums: without one, the mean of N numbers."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != (1 if measure is None else 2) or not values.size:
        shape = "one number" if measure is None else "a row of numbers"
        raise ValueError(f"`{name}` has shape {values.shape}, but must have {shape} for each of at least one example")
    if not np.isfinite(values).all():
        position = tuple(np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"`{name}` contains {values[position]} in row {position[0]}: omit examples without a score")
    return (values[:, None], lambda sums: sums[..., 0] / len(values)) if measure is None else (values, measure)


def _paired_statistics(
    scores_a: Any, scores_b: Any, measure: OfSums | None = None
) -> tuple[np.ndarray, np.ndarray, OfSums]:
    (a, of_sums), (b, _) = _statistics("scores_a", scores_a, measure), _statistics("scores_b", scores_b, measure)
    if np.shape(scores_a) != np.shape(scores_b):
        raise ValueError(
            f"`scores_a` has shape {np.shape(scores_a)} but `scores_b` has {np.shape(scores_b)}: paired scores must be "
            "the same ones, of the same examples"
        )
    if measure is None:
        # the differences of examples: their sum is 0 where both systems are equally good, without rounding
        a, b = a - b, np.zeros_like(b)
    return a, b, of_sums


def _resampled(tables: Sequence[np.ndarray], measure: OfSums, resamples: int, seed: int) -> list[np.ndarray]:
    """(R,) for each (N, K): the measure over N examples drawn at random, the same ones for all tables."""
    check_integer("resamples", resamples, 1, why="; 1000 are usual")
    generator = np.random.default_rng(seed)
    size = len(tables[0])
    rows = max(1, _CHUNK // size)
    sums = [np.empty((resamples, table.shape[1])) for table in tables]
    for start in range(0, resamples, rows):
        number = min(rows, resamples - start)
        drawn = generator.integers(size, size=(number, size), dtype=np.int32) + size * np.arange(number)[:, None]
        # how often each example was drawn, times its statistics: no drawn row is copied
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        # the same steps for each table, so that equal systems have equal sums to the last digit
        for table, of_table in zip(tables, sums, strict=True):
            of_table[start : start + number] = counts @ table
    return [_values(measure, of_table) for of_table in sums]


def _values(measure: OfSums, sums: np.ndarray) -> np.ndarray:
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


def _bounds(values: np.ndarray, confidence: float) -> list[float]:
    return np.percentile(values, [50 - confidence / 2, 50 + confidence / 2]).tolist()


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
        ValueError: fewer than two differences, or ones that are not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
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


@dataclass(frozen=True)
class Scored:
    """A system's score: statistics of each row, and the measure of their sums.

    Args:
        statistics: (N, K); with several seeds, sums over them.
        measure: maps sums (…, K) to values (…).
        seeds: the value of each seed, if there are several.
    """

    statistics: np.ndarray
    measure: OfSums
    seeds: tuple[float, ...] = ()

    def rows(self) -> np.ndarray:
        """(N,), the measure of each row alone, NaN for a row that has none."""
        with np.errstate(all="ignore"):
            return np.asarray(self.measure(np.asarray(self.statistics, dtype=np.float64)))

    def number(self) -> int:
        """The number of rows that have a value: the others do not count."""
        return int(np.isfinite(self.rows()).sum())

    def value(self) -> float | None:
        """The corpus's value, or None if it is undefined."""
        with np.errstate(all="ignore"):
            value = float(self.measure(self.statistics.sum(0)))
        return value if np.isfinite(value) else None

    def interval(self, resamples: int = 1000, seed: int = 0) -> Interval | None:
        """The bootstrap interval over the rows that have a value; None for fewer than two, or an undefined value."""
        rows = self.statistics[np.isfinite(self.rows())]
        try:
            return bootstrap_interval(rows, resamples, seed=seed, measure=self.measure) if len(rows) > 1 else None
        except ValueError:
            return None


def ratio(sums: np.ndarray) -> np.ndarray:
    """A mean or micro-average: the first sum divided by the second, (…, 2) -> (…)."""
    return sums[..., 0] / sums[..., 1]


def mean_over_rows(values: Sequence[float] | np.ndarray) -> Scored:
    """The mean over the rows whose value is not NaN."""
    values = np.asarray(values, dtype=np.float64)
    has_value = ~np.isnan(values)
    return Scored(np.stack([np.where(has_value, values, 0.0), has_value], axis=1), ratio)


def rounded(scores: Mapping[str, Scored]) -> dict[str, float]:
    """The value of each score, to 4 digits; NaN where it is undefined."""
    values = {name: scored.value() for name, scored in scores.items()}
    return {name: math.nan if value is None else round(value, 4) for name, value in values.items()}
