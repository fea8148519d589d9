"""Bootstrap intervals of mean scores and of differences of two systems, tests, and sample sizes of comparisons.

Scores that are not means over examples, such as BLEU and perplexity, are measures of sums. Each example has a row of K
statistics, and the measure maps their sums over a corpus, (…, K), to values, (…). A micro-average is the measure
`s[..., 0] / s[..., 1]` of rows (numerator, denominator), and a mean is that of rows (score, 1).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hf_summ.models.checks import check_integer

MeasureOfSums = Callable[[np.ndarray], np.ndarray]
# The scores of examples, (N,), or their statistics, (N, K).
Rows = Sequence[float] | np.ndarray

# Examples drawn at once: the counts of a chunk fit into the processor's cache.
_CHUNK = 1 << 16
# `is_paired` reads so many texts at most, needs so many at least, and tests at this level of significance.
_MOST_READ = 100
_FEWEST_READ = 20
_LEVEL = 0.05


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
    scores: Rows, resamples: int = 1000, confidence: float = 95.0, seed: int = 0, measure: MeasureOfSums | None = None
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
    statistics = _statistics("scores", scores, measure)
    if measure is None:
        measure = _mean_of(len(statistics))
    mean = float(_values(measure, statistics.sum(0)))
    (values,) = _resampled([statistics], measure, resamples, seed)
    low, high = _bounds(values, confidence)
    return Interval(mean, low, high, len(statistics), confidence)


def paired_bootstrap(
    scores_a: Rows,
    scores_b: Rows,
    resamples: int = 1000,
    confidence: float = 95.0,
    seed: int = 0,
    measure: MeasureOfSums | None = None,
) -> Comparison:
    """The mean or measure of a minus that of b, with its interval and p-value, from the same resamples for both.

    Source: Koehn (2004), "Statistical significance tests for machine translation evaluation".

    Args:
        scores_a: (N,) or, with a measure, (N, K): those of system a.
        scores_b: those of system b on the same examples, in the same order.
        resamples, confidence, seed, measure: as for `bootstrap_interval`.

    Raises:
        ValueError: as `bootstrap_interval`, or different shapes of both scores.
    """
    paired = _paired_statistics(scores_a, scores_b, measure)
    difference = float(paired.difference())
    values_a, values_b = _resampled([paired.a, paired.b], paired.measure, resamples, seed)
    differences = values_a - values_b
    low, high = _bounds(differences, confidence)
    p_value = 1.0
    if paired.examples > 1:
        not_above = int((differences <= 0).sum())
        not_below = int((differences >= 0).sum())
        p_value = min(1.0, 2 * _share(min(not_above, not_below), resamples))
    return Comparison(difference, low, high, paired.examples, confidence, p_value)


def paired_randomization(
    scores_a: Rows, scores_b: Rows, trials: int = 1000, seed: int = 0, measure: MeasureOfSums | None = None
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
    paired = _paired_statistics(scores_a, scores_b, measure)
    check_integer("trials", trials, 1)
    generator = np.random.default_rng(seed)
    total_a, total_b = paired.a.sum(0), paired.b.sum(0)
    # Rounding makes sums of the same numbers depend on their order.
    size_a = np.abs(_values(paired.measure, np.abs(paired.a).sum(0)))
    size_b = np.abs(_values(paired.measure, np.abs(paired.b).sum(0)))
    least = abs(paired.difference()) - 1e-9 * (size_a + size_b)
    trials_at_once = max(1, _CHUNK // paired.examples)
    as_far = 0
    for start in range(0, trials, trials_at_once):
        number = min(trials_at_once, trials - start)
        is_exchanged = _random_bits(generator, number * paired.examples).reshape(number, paired.examples)
        exchanged = is_exchanged @ (paired.a - paired.b)
        values_a = _values(paired.measure, total_a - exchanged)
        values_b = _values(paired.measure, total_b + exchanged)
        as_far += int((np.abs(values_a - values_b) >= least).sum())
    return _share(as_far, trials)


def _random_bits(generator: np.random.Generator, number: int) -> np.ndarray:
    random_bytes = np.frombuffer(generator.bytes((number + 7) // 8), np.uint8)
    return np.unpackbits(random_bytes)[:number]


def is_paired(texts: Sequence[str], counterparts: Sequence, score: Callable[..., np.ndarray]) -> bool:
    """Whether the first texts have higher scores with their counterparts than with those of other rows.

    Too few texts, or texts that cannot be scored, are taken to be paired.

    Args:
        texts: (N,).
        counterparts: (N,), what each text belongs to, such as its references.
        score: maps N texts and N counterparts to scores, (N,); higher is closer.
    """
    texts, counterparts = texts[:_MOST_READ], counterparts[:_MOST_READ]
    if len(texts) < _FEWEST_READ:
        return True
    half = len(texts) // 2
    moved_counterparts = list(counterparts[half:]) + list(counterparts[:half])
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore", UserWarning)
        scores = score(texts, counterparts)
        moved_scores = score(texts, moved_counterparts)
        return scores.mean() > moved_scores.mean() and paired_randomization(scores, moved_scores) <= _LEVEL
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
    # Outcomes that are at least as one-sided: the rarer side has no more tosses than here.
    as_few = sum(math.comb(tosses, number) for number in range(min(wins, losses) + 1))
    return min(1.0, 2 * as_few / 2**tosses)


def _share(number: int, resamples: int) -> float:
    """The share of resamples, counting the examples themselves as one more."""
    return (number + 1) / (resamples + 1)


def _mean_of(examples: int) -> MeasureOfSums:
    """The measure that maps the sum of so many scores, (…, 1), to their mean."""

    def mean(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / examples

    return mean


def _statistics(name: str, scores: Rows, measure: MeasureOfSums | None) -> np.ndarray:
    """The scores as statistics, (N, K): without a measure, each is a row of a single number."""
    values = np.asarray(scores, dtype=np.float64)
    if measure is None:
        dimensions, shape = 1, "one number"
    else:
        dimensions, shape = 2, "a row of numbers"
    if values.ndim != dimensions or not values.size:
        raise ValueError(f"`{name}` has shape {values.shape}, but must have {shape} for each of at least one example")
    if not np.isfinite(values).all():
        position = tuple(np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"`{name}` contains {values[position]} in row {position[0]}: omit examples without a score")
    if measure is None:
        return values[:, None]
    return values


@dataclass(frozen=True)
class _Paired:
    """The statistics of two systems, (N, K) each, on the same examples, and the measure of their sums."""

    a: np.ndarray
    b: np.ndarray
    measure: MeasureOfSums

    @property
    def examples(self) -> int:
        return len(self.a)

    def difference(self) -> np.ndarray:
        """The value of a minus that of b over all examples."""
        return _values(self.measure, self.a.sum(0)) - _values(self.measure, self.b.sum(0))


def _paired_statistics(scores_a: Rows, scores_b: Rows, measure: MeasureOfSums | None) -> _Paired:
    """The statistics of both systems. Without a measure, those of a are differences, and those of b zeros."""
    a = _statistics("scores_a", scores_a, measure)
    b = _statistics("scores_b", scores_b, measure)
    if np.shape(scores_a) != np.shape(scores_b):
        raise ValueError(
            f"`scores_a` has shape {np.shape(scores_a)} but `scores_b` has {np.shape(scores_b)}: paired scores must be "
            "the same ones, of the same examples"
        )
    if measure is None:
        # The sum of the examples' differences is 0 where both systems are equally good, without rounding.
        return _Paired(a - b, np.zeros_like(b), _mean_of(len(a)))
    return _Paired(a, b, measure)


def _resampled(tables: Sequence[np.ndarray], measure: MeasureOfSums, resamples: int, seed: int) -> list[np.ndarray]:
    """The values of resamples, (R,) for each table of statistics, (N, K); all tables have the same resamples."""
    check_integer("resamples", resamples, 1, why="; 1000 are usual")
    generator = np.random.default_rng(seed)
    examples = len(tables[0])
    resamples_at_once = max(1, _CHUNK // examples)
    sums_of_tables = [np.empty((resamples, table.shape[1])) for table in tables]
    for start in range(0, resamples, resamples_at_once):
        number = min(resamples_at_once, resamples - start)
        drawn = generator.integers(examples, size=(number, examples), dtype=np.int32)
        # Numbers that tell the resamples apart, so that all are counted at once.
        drawn = drawn + examples * np.arange(number)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        # Counts times statistics copy no drawn row. Each table has the same steps, so that equal systems have equal
        # sums to the last digit.
        for table, sums in zip(tables, sums_of_tables, strict=True):
            sums[start : start + number] = counts @ table
    return [_values(measure, sums) for sums in sums_of_tables]


def _values(measure: MeasureOfSums, sums: np.ndarray) -> np.ndarray:
    """The measure's values, which must be finite: (…, K) -> (…)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = np.asarray(measure(sums), dtype=np.float64)
    if values.shape != sums.shape[:-1]:
        raise ValueError(
            f"`measure` maps sums of shape {sums.shape} to {values.shape}, but must map them to {sums.shape[:-1]}"
        )
    undefined = values[~np.isfinite(values)]
    if undefined.size:
        samples = "the corpus" if sums.ndim == 1 else f"{undefined.size} of {len(sums)} resamples"
        raise ValueError(f"`measure` is {undefined[0]} for {samples}: too few rows count toward it")
    return values


def _bounds(values: np.ndarray, confidence: float) -> list[float]:
    """The lowest and the highest value, without the rarest at both ends."""
    return np.percentile(values, [50 - confidence / 2, 50 + confidence / 2]).tolist()


def examples_to_decide(differences: Rows, power: float = 0.8, confidence: float = 95.0) -> float:
    """Total number of examples that a comparison of two systems probably needs; infinity if the mean is 0.

    This assumes that further examples have the mean and deviation of the given ones, and that means are normally
    distributed: n = ((z_confidence + z_power) · deviation / mean)², for a two-sided test. The given mean is an
    estimate; if it is large by chance, n is too small.

    Args:
        differences: (N,), the score of system a minus that of system b on each example, in any unit.
        power: the probability of a significant result with that many examples.
        confidence: percentage, 100 minus the test's level of significance.

    Raises:
        ValueError: fewer than two differences, or some that are not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    # Sums that cancel out may leave a rounding error.
    if abs(values.mean()) <= 1e-12 * np.abs(values).mean():
        return math.inf
    z_confidence = NormalDist().inv_cdf(1 - (1 - confidence / 100) / 2)
    z_power = NormalDist().inv_cdf(power)
    relative_deviation = float(values.std(ddof=1) / values.mean())
    return math.ceil(((z_confidence + z_power) * relative_deviation) ** 2)


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
    measure: MeasureOfSums
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
        if not np.isfinite(value):
            return None
        return value

    def interval(self, resamples: int = 1000, seed: int = 0) -> Interval | None:
        """The bootstrap interval over the rows that have a value; None for fewer than two, or an undefined value."""
        statistics = self.statistics[np.isfinite(self.rows())]
        if len(statistics) < 2:
            return None
        try:
            return bootstrap_interval(statistics, resamples, seed=seed, measure=self.measure)
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
    values = {}
    for name, scored in scores.items():
        value = scored.value()
        values[name] = math.nan if value is None else round(value, 4)
    return values
