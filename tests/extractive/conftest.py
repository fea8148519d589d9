"""Sentences of few words."""

import numpy as np
import pytest


@pytest.fixture(params=range(5))
def sentences(request) -> list[list[str]]:
    rng = np.random.default_rng(request.param)
    drawn = []
    for _ in range(8):
        drawn.append(rng.choice(list("abcdefghijklmno"), rng.integers(1, 9)).tolist())
    # An empty sentence, one of a single word, and a copy of the first are added.
    return drawn + [[], ["a"], list(drawn[0])]
