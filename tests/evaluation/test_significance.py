"""Bootstrap intervals against resamples drawn one by one; the number of examples that a comparison needs."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hf_summ.evaluation import (
    bootstrap_interval,
    examples_to_decide,
    holm,
    paired_bootstrap,
    paired_randomization,
    perplexity,
    sign_test,
)
from hf_summ.evaluation.significance import ratio


def made_losses(seed, number=300):
    """Rows of nll and tokens."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(5, 30, number)
    return np.column_stack([tokens * generator.normal(3, 0.5, number), tokens])


def test_a_seed_gives_the_same_comparison_again():
    a, b = np.random.default_rng(0).random((2, 100))
    assert paired_bootstrap(a, b, seed=3) == paired_bootstrap(a, b, seed=3)
    assert paired_bootstrap(a, b, seed=3) != paired_bootstrap(a, b, seed=4)


def test_paired_interval_is_of_the_differences():
    generator = np.random.default_rng(0)
    a = generator.random(300) * 50
    b = a - 1 + generator.normal(0, 0.5, 300)
    comparison = paired_bootstrap(a, b)
    assert comparison.mean == pytest.approx((a - b).mean())
    # far more certain than each system's own interval: the same examples are hard for both
    assert comparison.high - comparison.low < (bootstrap_interval(a).high - bootstrap_interval(a).low) / 10
    assert comparison.significant
    # never 0: the examples themselves count as a resample
    assert comparison.p_value == 2 / 1001
    reverse = paired_bootstrap(b, a)
    assert reverse.mean == pytest.approx(-comparison.mean)


def test_p_value_is_twice_the_share_of_the_other_sign():
    # two examples of differences 3 and -1: both drawn as -1 in a quarter of the resamples, each once: mean 1
    comparison = paired_bootstrap([3.0, 0.0], [0.0, 1.0], resamples=20_000)
    assert comparison.p_value == pytest.approx(0.5, abs=0.02)


def test_randomization_is_the_share_of_all_exchanges():
    a, b = [5.0, 3.0, 9.0, 4.0], [1.0, 4.0, 2.0, 2.0]
    differences = np.subtract(a, b)
    at_least_as_large = []
    for signs in itertools.product((1, -1), repeat=4):
        total = abs(np.dot(signs, differences))
        at_least_as_large.append(total >= differences.sum())
    expected = np.mean(at_least_as_large)
    assert paired_randomization(a, b, trials=40_000) == pytest.approx(expected, abs=0.01)
    p_value = paired_randomization(a, b, seed=1)
    assert p_value == paired_randomization(a, b, seed=1)
    assert p_value == paired_randomization(b, a, seed=1)
    assert paired_randomization(a, a) == 1
    assert paired_randomization(range(300), range(1, 301), trials=99) == 0.01


def test_randomization_of_a_measure_exchanges_rows_of_statistics():
    a, b = made_losses(0, 5), made_losses(1, 5)
    observed = abs(perplexity(a.sum(0)) - perplexity(b.sum(0)))
    differences = []
    for flags in itertools.product((False, True), repeat=5):
        is_exchanged = np.array(flags)[:, None]
        sums_a = np.where(is_exchanged, b, a).sum(0)
        sums_b = np.where(is_exchanged, a, b).sum(0)
        differences.append(abs(perplexity(sums_a) - perplexity(sums_b)))
    expected = np.mean(np.array(differences) >= observed - 1e-9)
    assert 0 < expected < 1
    assert paired_randomization(a, b, trials=40_000, measure=perplexity) == pytest.approx(expected, abs=0.01)


@pytest.mark.thorough
def test_randomization_has_no_more_false_alarms_than_it_should_for_few_examples():
    generator = np.random.default_rng(0)
    alarms_of_randomization, alarms_of_bootstrap = [], []
    for _ in range(1000):
        a, b = generator.beta(2, 5, (2, 20))
        alarms_of_randomization.append(paired_randomization(a, b) < 0.05)
        alarms_of_bootstrap.append(paired_bootstrap(a, b).p_value < 0.05)
    assert np.mean(alarms_of_randomization) < 0.065 < np.mean(alarms_of_bootstrap)


def test_intervals_and_comparisons_are_shown_in_a_line():
    interval = bootstrap_interval([42.0])
    assert (interval.mean, interval.low, interval.high, interval.pairs) == (42, 42, 42, 1)
    assert str(interval) == "42.00 (no interval: only one pair)"
    comparison = paired_bootstrap([42.0], [40.0])
    assert not comparison.significant
    assert comparison.p_value == 1
    assert "only one pair" in str(comparison)
    assert str(bootstrap_interval([10.0, 10.0])) == "10.00 (95%: 10.00 to 10.00)"


CASES_OF_UNUSABLE_SCORES = [
    ({"scores": []}, r"`scores` has shape \(0,\)"),
    ({"scores": [[1.0, 2.0]]}, r"`scores` has shape \(1, 2\)"),
    ({"scores": [1.0, float("nan")]}, "`scores` contains nan in row 1"),
    ({"scores": [1e308, 1e308]}, "`measure` is inf for sums over the corpus"),
    ({"scores": [1.0], "resamples": 0}, "`resamples` is 0"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES_OF_UNUSABLE_SCORES)
def test_what_cannot_be_resampled_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(**arguments)


@pytest.mark.parametrize("measure", [perplexity, ratio])
def test_interval_of_sums_agrees_with_resamples_drawn_one_by_one(measure):
    rows = made_losses(0)
    interval = bootstrap_interval(rows, resamples=500, seed=3, measure=measure)
    generator = np.random.default_rng(3)
    # The type is int32 as in the package, because the drawn numbers depend on it.
    draws = generator.integers(300, size=(500, 300), dtype=np.int32)
    values = []
    for places in draws:
        values.append(float(measure(sum(rows[place] for place in places))))
    values.sort()
    assert interval.mean == pytest.approx(float(measure(rows.sum(0))))
    # The ends are 2.5% and 97.5% of the way from the first to the last.
    assert interval.low == pytest.approx(values[12] + 0.475 * (values[13] - values[12]))
    assert interval.high == pytest.approx(values[486] + 0.525 * (values[487] - values[486]))
    assert interval.pairs == 300


def test_comparison_of_sums_agrees_with_resamples_drawn_one_by_one():
    a, b = made_losses(0), made_losses(1)
    b[:, 1] = a[:, 1]
    comparison = paired_bootstrap(a, b, resamples=200, confidence=90, seed=5, measure=perplexity)
    draws = np.random.default_rng(5).integers(300, size=(200, 300), dtype=np.int32)
    values = []
    for places in draws:
        nll_a = sum(a[place, 0] for place in places)
        nll_b = sum(b[place, 0] for place in places)
        tokens = sum(a[place, 1] for place in places)
        values.append(np.exp(nll_a / tokens) - np.exp(nll_b / tokens))
    values.sort()
    assert comparison.mean == pytest.approx(perplexity(a.sum(0)) - perplexity(b.sum(0)))
    assert [comparison.low, comparison.high] == pytest.approx(np.interp([9.95, 189.05], range(200), values).tolist())
    values = np.array(values)
    opposite = min((values <= 0).sum(), (values >= 0).sum())
    assert comparison.p_value == pytest.approx(min(1, 2 * (opposite + 1) / 201))


def test_a_mean_is_a_measure_of_sums():
    a, b = np.random.default_rng(0).random((2, 700)) * 100
    expected = paired_bootstrap(a, b, seed=4)
    sums_a = np.column_stack([a, np.ones(700)])
    sums_b = np.column_stack([b, np.ones(700)])
    comparison = paired_bootstrap(sums_a, sums_b, seed=4, measure=ratio)
    for name in ("mean", "low", "high", "p_value", "pairs"):
        assert getattr(comparison, name) == pytest.approx(getattr(expected, name))


def test_equal_systems_have_equal_sums():
    # The sums of these numbers are rounded.
    rows = made_losses(0, number=1001) / 3
    comparison = paired_bootstrap(rows, rows.copy(), measure=perplexity)
    assert (comparison.mean, comparison.low, comparison.high, comparison.p_value) == (0, 0, 0, 1)


def test_perplexity_of_sums():
    assert perplexity(np.array([[0.0, 3.0], [4.0, 2.0]])) == pytest.approx([1, np.e**2])
    assert perplexity(np.array([1e9, 1.0])) == np.inf
    assert np.isnan(perplexity(np.array([0.0, 0.0])))


CASES_OF_UNUSABLE_SUMS = [
    ([1.0, 2.0], {}, r"has shape \(2,\), but must have a row of numbers for each of"),
    ([[1.0, 1.0]], {"measure": np.sum}, r"maps sums of shape \(1000, 2\) to \(\), but must map them to \(1000,\)"),
    ([[0.0, 0.0]], {}, "`measure` is nan for sums over the corpus: often, too few rows"),
    ([[0.0, 0.0], [1.0, 1.0]], {}, r"`measure` is nan for \d+ of 1000 random samples: often, too few rows"),
]


@pytest.mark.parametrize(("statistics", "settings", "message"), CASES_OF_UNUSABLE_SUMS)
def test_sums_that_cannot_be_resampled_are_an_error(statistics, settings, message):
    settings = {"measure": ratio} | settings
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(statistics, **settings)
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(statistics, statistics, **settings)


def test_statistics_of_different_shapes_are_an_error():
    with pytest.raises(ValueError, match=r"`scores_a` has shape \(2, 2\) but `scores_b` has \(2, 1\)"):
        paired_bootstrap([[1.0, 1.0]] * 2, [[1.0]] * 2, measure=ratio)


@pytest.mark.thorough
def test_sign_test_is_the_exact_binomial_one():
    for wins, losses in itertools.product((0, 1, 2, 5, 6, 30, 700), repeat=2):
        expected = 1.0
        if wins + losses:
            expected = binomtest(wins, wins + losses).pvalue
        assert sign_test(wins, losses) == pytest.approx(expected)
    # The number of outcomes is beyond what a float can hold.
    assert sign_test(3000, 3000) == 1


def test_the_sign_test_takes_numbers_of_numpy():
    # The p-values are those of `binomtest` in SciPy.
    assert sign_test(np.int64(70), np.int64(10)) == pytest.approx(3.161e-12, rel=1e-3)
    assert sign_test(np.int8(53), np.int8(10)) == pytest.approx(3.382e-08, rel=1e-3)
    assert sign_test(np.int8(127), np.int8(127)) == 1


def test_holm_rejects_step_by_step():
    def rejected(p_values, level):
        """The tests rejected at a level, from the smallest p on, each at the level's share of those that are left."""
        rejected_tests = set()
        remaining_tests = sorted(range(len(p_values)), key=lambda test: p_values[test])
        while remaining_tests and p_values[remaining_tests[0]] <= level / len(remaining_tests):
            rejected_tests.add(remaining_tests.pop(0))
        return rejected_tests

    generator = np.random.default_rng(0)
    for number in (0, 1, 2, 7, 20):
        p_values = generator.uniform(0, 0.1, number).round(2).tolist()
        adjusted = holm(p_values)
        for p_value, adjusted_p_value in zip(p_values, adjusted, strict=True):
            assert p_value <= adjusted_p_value <= 1
        for level in generator.uniform(0, 1, 50):
            significant_tests = {test for test, p_value in enumerate(adjusted) if p_value <= level}
            assert significant_tests == rejected(p_values, level)


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_that_many_examples_decide_as_often_as_promised(power):
    generator = np.random.default_rng(0)
    seen = generator.choice([-1.0, 0.0, 1.0], p=[0.25, 0.4, 0.35], size=60)
    number = examples_to_decide(seen, power)
    assert 100 < number < 2000
    studies = generator.choice(seen, (4000, number))
    z = studies.mean(1) / (studies.std(1, ddof=1) / math.sqrt(number))
    assert (z * np.sign(seen.mean()) > 1.96).mean() == pytest.approx(power, abs=0.025)


def test_examples_to_decide_by_hand():
    # with z = 1.96, half of such studies decide; 80% takes ((1.96 + 0.84) / 1.96)² = 2.04 as many
    values = np.tile([1.0, -1.0], 50)
    values += 1.96 * values.std(ddof=1) / math.sqrt(100)
    assert examples_to_decide(values) == 205
    assert examples_to_decide(-values) == 205
    assert examples_to_decide([1, -1, 0]) == math.inf
    assert examples_to_decide([0.1, 0.2, -0.3]) == math.inf
    assert examples_to_decide([0, 0]) == math.inf
    # and without a spread any
    assert examples_to_decide([1, 1]) == 0


@pytest.mark.parametrize(
    ("differences", "message"),
    [
        ([], r"`differences` has shape \(0,\), but must have one number for each of at least one example"),
        ([0.5], "`differences` has one number, but needs at least two"),
        ([0.0], "`differences` has one number, but needs at least two"),
        ([0.5, math.nan, 1.0], "`differences` contains nan in row 1: omit examples without a score"),
        ([0.5, math.inf], "`differences` contains inf in row 1: omit examples without a score"),
    ],
)
def test_differences_without_a_mean_and_deviation_are_an_error(differences, message):
    with pytest.raises(ValueError, match=message):
        examples_to_decide(differences)
