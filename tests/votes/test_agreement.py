"""Agreement between judges against statsmodels, krippendorff and published figures."""

import itertools
import math

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from hf_summ.votes import fleiss_kappa, krippendorff_alpha

# Krippendorff (2011), part C: four observers, twelve units
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


CASES_OF_KAPPA = [(2, 2), (3, 3), (4, 3), (7, 5)]


@pytest.mark.parametrize(("judges", "categories"), CASES_OF_KAPPA)
def test_kappa_is_that_of_statsmodels(judges, categories):
    for seed in range(20):
        generator = np.random.default_rng(seed)
        truth = generator.integers(categories, size=30)
        judgments = np.where(generator.random((judges, 30)) < 0.5, truth, generator.integers(categories, size=30))
        table, _ = aggregate_raters(judgments.T)
        assert fleiss_kappa(judgments) == pytest.approx(statsmodels_kappa(table))


CASES_OF_ALPHA = [(2, [-1, 0, 1]), (4, [-1, 0, 1]), (5, [1, 2, 3, 5, 8])]


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize(("judges", "values"), CASES_OF_ALPHA)
def test_alpha_is_that_of_krippendorff(level, judges, values):
    for seed, missing in itertools.product(range(10), (0, 0.2, 0.5)):
        generator = np.random.default_rng(seed)
        truth = generator.choice(values, 30)
        judgments = np.where(generator.random((judges, 30)) < 0.5, truth, generator.choice(values, 30)).astype(float)
        judgments[generator.random(judgments.shape) < missing] = np.nan
        expected = krippendorff.alpha(reliability_data=judgments, level_of_measurement=level)
        assert krippendorff_alpha(judgments, level) == pytest.approx(expected)


def test_alpha_is_the_published_one():
    judgments = np.array(PUBLISHED, dtype=float)
    assert krippendorff_alpha(judgments) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(judgments, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(judgments, "interval") == pytest.approx(0.849, abs=5e-4)


def test_full_agreement_and_none_to_measure():
    assert fleiss_kappa([[0, 1], [0, 1]]) == krippendorff_alpha([[0, 1], [0, 1]]) == 1
    # Where all judgments are the same, chance agrees as well.
    assert math.isnan(fleiss_kappa([[1, 1], [1, 1]]))
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    # No unit was judged by two judges.
    assert math.isnan(krippendorff_alpha([[0, math.nan], [math.nan, 1]]))
    assert math.isnan(krippendorff_alpha([[math.nan], [math.nan]]))


CASES_OF_TOO_FEW_JUDGES = [[[0, 1]], [[], []], [0, 1]]


@pytest.mark.parametrize("measure", [fleiss_kappa, krippendorff_alpha])
@pytest.mark.parametrize("judgments", CASES_OF_TOO_FEW_JUDGES)
def test_fewer_than_two_judges_cannot_agree(measure, judgments):
    with pytest.raises(ValueError, match=r"`judgments` has shape .*, but must have a row for each of at least two"):
        measure(judgments)
    with pytest.raises(ValueError, match="has none of judge 1 on unit 0, but Fleiss' kappa needs all: omit"):
        fleiss_kappa([[0, 1], [math.nan, 1]])


def test_an_unknown_level_is_told():
    with pytest.raises(ValueError, match=r"^`level` is 'ratio', but must be one of nominal, ordinal, interval$"):
        krippendorff_alpha([[0, 1], [0, 1]], "ratio")
