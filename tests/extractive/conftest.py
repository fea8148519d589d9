"""Sentences of few words."""

import numpy as np
import pytest


@pytest.fixture(params=range(5))
def sentences(request) -> list[list[str]]:
    rng = np.random.default_rng(request.param)
    drawn = [rng.choice(list("abcdefghijklmno"), rng.integers(1, 9)).tolist() for _ in range(8)]
    # an empty one, one of a single word, and two that are equal
    return [*drawn, [], ["a"], list(drawn[0])]
