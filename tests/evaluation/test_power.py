"""How many examples decide, against studies of that many."""

import math

import numpy as np
import pytest

from hf_summ.evaluation import examples_to_decide


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_that_many_examples_decide_as_often_as_promised(power):
    generator = np.random.default_rng(0)
    seen = generator.choice([-1.0, 0.0, 1.0], p=[0.25, 0.4, 0.35], size=60)
    number = examples_to_decide(seen, power)
    assert 100 < number < 2000
    studies = generator.choice(seen, (4000, number))
    z = studies.mean(1) / (studies.std(1, ddof=1) / math.sqrt(number))
    assert (z * np.sign(seen.mean()) > 1.96).mean() == pytest.approx(power, abs=0.025)


def test_a_study_at_the_edge_of_significance_needs_twice_its_examples():
    """With z = 1.96, half of such studies decide; 80% takes ((1.96 + 0.84) / 1.96)² = 2.04 as many."""
    values = np.tile([1.0, -1.0], 50)
    values += 1.96 * values.std(ddof=1) / math.sqrt(100)
    assert examples_to_decide(values) == 205
    assert examples_to_decide(-values) == 205


def test_without_an_effect_none_decide():
    assert examples_to_decide([1, -1, 0]) == math.inf
    assert examples_to_decide([0.1, 0.2, -0.3]) == math.inf
    assert examples_to_decide([0, 0]) == math.inf
    # and without a spread any
    assert examples_to_decide([1, 1]) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"differences": [1]},
            "`differences` has shape \\(1,\\), but must have one finite number for each of at least",
        ),
        ({"differences": [1, math.nan]}, "must have one finite number"),
        ({"power": 1}, "`power` is 1, but must be between 0 and 1"),
        ({"confidence": 0}, "`confidence` is 0, but must be a percentage between 0 and 100"),
    ],
)
def test_bad_input_is_told(settings, message):
    with pytest.raises(ValueError, match=message):
        examples_to_decide(**{"differences": [1, 0], **settings})
