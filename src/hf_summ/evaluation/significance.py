"""Bootstrap intervals of mean scores and of differences of two systems, tests, and sample sizes of comparisons.

N is the number of examples, which are the rows of a corpus. Scores that are not means over examples, such as BLEU and
perplexity, are measures of sums. Each example has K statistics, and the measure is a function that maps their sums over
a corpus, (…, K), to values, (…). For example, a micro-average has the statistics (numerator, denominator) and the
measure `s[..., 0] / s[..., 1]`. A mean has the statistics (score, 1) and the same measure.
"""

import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hf_summ.models.checks import check_integer

# Maps sums of statistics over a corpus, (…, K), to values, (…).
MeasureOfSums = Callable[[np.ndarray], np.ndarray]
# The scores of examples, (N,), or their statistics, (N, K).
Rows = Sequence[float] | np.ndarray

# The number of examples that are drawn, or exchanged, at once. Their counts fit into the processor's cache.
_CHUNK = 1 << 16
# The largest number of texts that `is_paired` reads. Fewer texts than `_FEWEST_READ` say too little for its test.
_MOST_READ = 100
_FEWEST_READ = 20
# The level of significance of the test in `is_paired`.
_SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """A mean over examples, and its bootstrap interval.

    Attributes:
        mean: the mean; for a measure of sums, the value of the corpus.
        low, high: the ends of the interval. For a single example, both are equal to the mean.
        pairs: the number of examples.
        confidence: the percentage of the resamples' values in the interval.
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
    """The mean difference of two systems on the same examples, with its interval and p-value.

    Attributes:
        p_value: the two-sided p-value: twice the share of resamples in which the difference is 0 or has the opposite
            sign, at most 1, and 1 for a single example. The examples count as one more such resample, so it is never 0.
    """

    p_value: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0; never for a single pair."""
        return self.pairs > 1 and not self.low <= 0 <= self.high


def bootstrap_interval(
    scores: Rows, resamples: int = 1000, confidence: float = 95.0, seed: int = 0, measure: MeasureOfSums | None = None
) -> Interval:
    """The mean of the examples' scores, or a measure of sums, with its percentile interval by bootstrap over examples.

    Args:
        scores: (N,), in any unit; with a measure (N, K), the statistics of each example.
        resamples: number of drawn samples of N examples.
        confidence: percentage of the resamples' values in the interval.
        seed: random seed of the resamples.
        measure: maps sums (…, K) to values (…), for example `perplexity`, or the measure of a `Scored`.

    Raises:
        ValueError: there are no scores, or they are not finite or have another shape; `resamples` is below 1; or the
            measure has no finite value for the corpus or for one of the resamples.
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
    """The difference of two systems, with its interval and p-value.

    The difference is the mean, or the measure, of system a minus the mean or measure of system b. Both systems have the
    same resamples. Source: Koehn (2004), "Statistical significance tests for machine translation evaluation".

    Args:
        scores_a: (N,), the scores of system a; with a measure (N, K), the statistics of each example.
        scores_b: the scores or statistics of system b on the same examples, in the same order.
        resamples, confidence, seed, measure: as for `bootstrap_interval`.

    Raises:
        ValueError: as for `bootstrap_interval`, or the scores of the two systems have different shapes.
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
    """The two-sided p-value of the difference of two systems by approximate randomization, above 0 and at most 1.

    The difference is the mean or measure of system a minus the mean or measure of system b. In each trial, every
    example's scores are exchanged between the systems with probability 1/2. The p-value is the share of trials whose
    difference is at least as far from 0 as the difference without exchanges, which counts as one more trial. This
    p-value is valid for few examples too, unlike the p-value of the bootstrap. Source: Riezler and Maxwell (2005), "On
    some pitfalls in automatic evaluation and significance testing for MT".

    Args:
        scores_a, scores_b, measure: as for `paired_bootstrap`.
        trials: number of trials.
        seed: random seed of the exchanges.

    Raises:
        ValueError: the scores are as `paired_bootstrap` rejects them, or `trials` is below 1.
    """
    paired = _paired_statistics(scores_a, scores_b, measure)
    check_integer("trials", trials, 1)
    generator = np.random.default_rng(seed)
    total_a, total_b = paired.a.sum(0), paired.b.sum(0)
    # Sums of the same numbers in another order differ by rounding. A trial whose difference is smaller only by such an
    # error must count as equally far from 0. So the least distance that counts is lowered by more than the error.
    size_a = np.abs(_values(paired.measure, np.abs(paired.a).sum(0)))
    size_b = np.abs(_values(paired.measure, np.abs(paired.b).sum(0)))
    least_distance = abs(paired.difference()) - 1e-9 * (size_a + size_b)
    trials_at_once = max(1, _CHUNK // paired.examples)
    trials_as_far = 0
    for start in range(0, trials, trials_at_once):
        batch_size = min(trials_at_once, trials - start)
        random_bits = _random_bits(generator, batch_size * paired.examples)
        is_exchanged = random_bits.reshape(batch_size, paired.examples)
        exchanged = is_exchanged @ (paired.a - paired.b)
        values_a = _values(paired.measure, total_a - exchanged)
        values_b = _values(paired.measure, total_b + exchanged)
        trials_as_far += int((np.abs(values_a - values_b) >= least_distance).sum())
    return _share(trials_as_far, trials)


def _random_bits(generator: np.random.Generator, count: int) -> np.ndarray:
    """Random bits, 0 or 1, as an array of the shape (count,)."""
    random_bytes = np.frombuffer(generator.bytes((count + 7) // 8), np.uint8)
    return np.unpackbits(random_bytes)[:count]


def is_paired(texts: Sequence[str], counterparts: Sequence, score: Callable[..., np.ndarray]) -> bool:
    """Whether texts have significantly higher scores with their counterparts than with the counterparts of other rows.

    At most the first 100 texts are read. Fewer than 20 texts, and texts that cannot be scored, are taken to be paired.

    Args:
        texts: (N,), for example predictions.
        counterparts: (N,), what each text belongs to, for example the references of the row.
        score: maps n texts and their n counterparts to scores, (n,); higher is closer.
    """
    texts, counterparts = texts[:_MOST_READ], counterparts[:_MOST_READ]
    if len(texts) < _FEWEST_READ:
        return True
    # Each text is also compared with the counterpart of a text that is half of the texts away.
    half = len(texts) // 2
    moved_counterparts = list(counterparts[half:]) + list(counterparts[:half])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            scores = score(texts, counterparts)
            moved_scores = score(texts, moved_counterparts)
            is_closer = scores.mean() > moved_scores.mean()
            return is_closer and paired_randomization(scores, moved_scores) <= _SIGNIFICANCE_LEVEL
        except ValueError:
            # The texts cannot be scored.
            return True


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, adjusted by Holm's method, which bounds the family-wise error rate.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on. A product is raised to the largest
    product before it, and is at most 1. Source: Holm (1979), "A simple sequentially rejective multiple test procedure".

    Args:
        p_values: (m,), the p-values of all tests, in any order.

    Returns:
        (m,), the adjusted p-values in the order of `p_values`.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = values.argsort(kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(factors * values[order], 1.0))
    return adjusted.tolist()


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value, above 0 and at most 1, of the hypothesis that wins and losses are equally likely.

    Args:
        wins, losses: the numbers of wins and of losses, without ties.
    """
    # Python's integers have no limit, but a power of NumPy's integers would overflow.
    wins, losses = operator.index(wins), operator.index(losses)
    tosses = wins + losses
    rarer = min(wins, losses)
    # The number of sequences of wins and losses with at most `rarer` wins. The factor 2 adds those with as few losses.
    sequences = sum([math.comb(tosses, possible_wins) for possible_wins in range(rarer + 1)])
    return min(1.0, 2 * sequences / 2**tosses)


def _share(count: int, resamples: int) -> float:
    """The share of resamples, or of trials, that have a property.

    The examples themselves count as one more resample with the property, so that the share is never 0.

    Args:
        count: the number of resamples with the property.
        resamples: the number of all resamples.
    """
    return (count + 1) / (resamples + 1)


def _mean_of(examples: int) -> MeasureOfSums:
    """The measure that maps the sum of the examples' scores, (…, 1), to their mean, (…).

    Args:
        examples: the number of examples.
    """

    def mean(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / examples

    return mean


def _statistics(name: str, scores: Rows, measure: MeasureOfSums | None) -> np.ndarray:
    """Check scores, and give them as statistics of examples, (N, K); without a measure, K is 1.

    Args:
        name: the name of the scores in messages.
        scores: (N,); with a measure (N, K).

    Raises:
        ValueError: the scores have another shape, are empty, or are not finite.
    """
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
        """N, the number of examples."""
        return len(self.a)

    def difference(self) -> np.ndarray:
        """The value of system a minus the value of system b over all examples."""
        return _values(self.measure, self.a.sum(0)) - _values(self.measure, self.b.sum(0))


def _paired_statistics(scores_a: Rows, scores_b: Rows, measure: MeasureOfSums | None) -> _Paired:
    """Check the scores of two systems, and give their statistics.

    Without a measure, the statistics of system a are the differences of the examples' scores, and the statistics of
    system b are zeros.

    Raises:
        ValueError: the scores of a system are empty, not finite or of another shape than the measure needs, or the
            scores of the two systems have different shapes.
    """
    a = _statistics("scores_a", scores_a, measure)
    b = _statistics("scores_b", scores_b, measure)
    if np.shape(scores_a) != np.shape(scores_b):
        raise ValueError(
            f"`scores_a` has shape {np.shape(scores_a)} but `scores_b` has {np.shape(scores_b)}: paired scores must be "
            "the same ones, of the same examples"
        )
    if measure is None:
        # The means of equally good systems may differ by rounding, but equal examples have a difference of exactly 0.
        return _Paired(a - b, np.zeros_like(b), _mean_of(len(a)))
    return _Paired(a, b, measure)


def _resampled(tables: Sequence[np.ndarray], measure: MeasureOfSums, resamples: int, seed: int) -> list[np.ndarray]:
    """The values of a measure on resamples of N examples, drawn with replacement.

    Args:
        tables: for each system, the statistics of the examples, (N, K). All systems have the same resamples.
        resamples: R, the number of resamples.
        seed: random seed of the draws.

    Returns:
        For each system, the value of each resample, (R,).

    Raises:
        ValueError: `resamples` is below 1, or the measure has no finite value for one of the resamples.
    """
    check_integer("resamples", resamples, 1, why="; 1000 are usual")
    generator = np.random.default_rng(seed)
    examples = len(tables[0])
    resamples_at_once = max(1, _CHUNK // examples)
    sums_of_tables = [np.empty((resamples, table.shape[1])) for table in tables]
    for start in range(0, resamples, resamples_at_once):
        batch_size = min(resamples_at_once, resamples - start)
        drawn = generator.integers(examples, size=(batch_size, examples), dtype=np.int32)
        # The indices of resample i are raised by i · N. The same example then has another index in each resample, and
        # `bincount` counts the examples of all resamples at once.
        drawn = drawn + examples * np.arange(batch_size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        # A product of counts and statistics gives the sums without copying the statistics of drawn examples. Each
        # table has the same steps, so that equal systems have equal sums to the last digit.
        for table, sums in zip(tables, sums_of_tables, strict=True):
            sums[start : start + batch_size] = counts @ table
    return [_values(measure, sums) for sums in sums_of_tables]


def _values(measure: MeasureOfSums, sums: np.ndarray) -> np.ndarray:
    """The values of a measure, which must be finite: sums (…, K) -> values (…).

    Raises:
        ValueError: the measure gives values of another shape, or values that are not finite.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = np.asarray(measure(sums), dtype=np.float64)
    if values.shape != sums.shape[:-1]:
        raise ValueError(
            f"`measure` maps sums of shape {sums.shape} to {values.shape}, but must map them to {sums.shape[:-1]}"
        )
    undefined = values[~np.isfinite(values)]
    if undefined.size:
        where = "sums over the corpus" if sums.ndim == 1 else f"{undefined.size} of {len(sums)} random samples"
        raise ValueError(f"`measure` is {undefined[0]} for {where}: often, too few rows count toward it")
    return values


def _bounds(values: np.ndarray, confidence: float) -> list[float]:
    """The percentile interval: its low and its high end, between which `confidence` percent of the values lie."""
    return np.percentile(values, [50 - confidence / 2, 50 + confidence / 2]).tolist()


def examples_to_decide(differences: Rows, power: float = 0.8, confidence: float = 95.0) -> float:
    """The total number of examples that a comparison of two systems probably needs; infinity if the mean is 0.

    The formula assumes that further examples have the mean and deviation of the given examples, and that means are
    normally distributed: n = ((z_confidence + z_power) · deviation / mean)², for a two-sided test. The mean of the
    given examples is an estimate; if it is large by chance, n is too small.

    Args:
        differences: (N,), the score of system a minus the score of system b on each example, in any unit.
        power: the probability of a significant result with that many examples.
        confidence: percentage, 100 minus the test's level of significance.

    Raises:
        ValueError: there are fewer than two differences, or a difference is not finite.
    """
    values = _statistics("differences", differences, None)[:, 0]
    if len(values) < 2:
        raise ValueError("`differences` has one number, but needs at least two, as their deviation is estimated")
    # Differences that cancel out may leave a rounding error in place of a mean of 0.
    if abs(values.mean()) <= 1e-12 * np.abs(values).mean():
        return math.inf
    z_confidence = NormalDist().inv_cdf(1 - (1 - confidence / 100) / 2)
    z_power = NormalDist().inv_cdf(power)
    relative_deviation = float(values.std(ddof=1) / values.mean())
    return math.ceil(((z_confidence + z_power) * relative_deviation) ** 2)


def perplexity(sums: np.ndarray) -> np.ndarray:
    """The perplexity exp(nll / tokens) as a measure of sums.

    Args:
        sums: (…, 2), negative log-likelihood and number of tokens, summed over a corpus, for example `nll` and `tokens`
            of the rows that training writes to `predictions.jsonl`.

    Returns:
        (…), infinity where the perplexity exceeds a float, and NaN where there are no tokens.
    """
    sums = np.asarray(sums, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.exp(sums[..., 0] / sums[..., 1])


@dataclass(frozen=True)
class Scored:
    """A system's score: the statistics of each row, and the measure of their sums.

    A row has no value if the measure of its statistics is not finite.

    Args:
        statistics: (N, K). If a system was trained with several seeds, each statistic is the sum over the seeds.
        measure: maps sums of statistics, (…, K), to values, (…).
        seeds: the value of each seed, if there are several.
    """

    statistics: np.ndarray
    measure: MeasureOfSums
    seeds: tuple[float, ...] = ()

    def rows(self) -> np.ndarray:
        """The value of each row alone, (N,); NaN, or infinity, for a row without a value."""
        with np.errstate(all="ignore"):
            return np.asarray(self.measure(np.asarray(self.statistics, dtype=np.float64)))

    def number(self) -> int:
        """The number of rows that have a value."""
        return int(np.isfinite(self.rows()).sum())

    def value(self) -> float | None:
        """The value of the corpus, or None if it is not finite."""
        with np.errstate(all="ignore"):
            value = float(self.measure(self.statistics.sum(0)))
        return value if np.isfinite(value) else None

    def interval(self, resamples: int = 1000, seed: int = 0) -> Interval | None:
        """The bootstrap interval of the corpus's value, over the rows that have a value.

        The result is None if fewer than two rows have a value, or if the corpus or a resample has no value.
        """
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
    """The score that is the mean of the rows' values.

    Args:
        values: (N,), NaN for a row without a value.
    """
    values = np.asarray(values, dtype=np.float64)
    has_value = ~np.isnan(values)
    return Scored(np.stack([np.where(has_value, values, 0.0), has_value], axis=1), ratio)


def rounded(scores: Mapping[str, Scored]) -> dict[str, float]:
    """Score -> value of the corpus, rounded to 4 decimal places; NaN where it is undefined."""
    values = {}
    for name, scored in scores.items():
        value = scored.value()
        values[name] = math.nan if value is None else round(value, 4)
    return values
