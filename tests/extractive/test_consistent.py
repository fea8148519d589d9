"""The consistent extractive stage against a reading of the thesis word by word."""

import numpy as np
import pytest

from hf_summ.extractive.consistent import keep_sentences
from tests.extractive import naive


def naive_keep(words: list[list[str]], costs: list[int], budget: int) -> list[int]:
    if words and costs[0] > budget:
        return [0]
    kept: list[int] = []
    for index in [*range(len(words))[:3], *(i for i in naive.order(words, words) if i > 2)]:
        if sum(costs[i] for i in [*kept, index]) <= budget:
            kept.append(index)
    return sorted(kept)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_within_a_budget(seed):
    rng = np.random.default_rng(seed)
    words = [rng.choice(list("abcdefgh"), rng.integers(0, 6)).tolist() for _ in range(rng.integers(0, 12))]
    costs = rng.integers(1, 9, len(words)).tolist()
    budget = int(rng.integers(1, 30))
    kept = keep_sentences(words, costs, budget)
    assert kept == naive_keep(words, costs, budget)
    assert sum(costs[index] for index in kept) <= budget or kept == [0]


def test_the_first_three_come_before_the_best():
    words = [["a"], ["a"], ["a"], ["a", "b"], ["flood", "flood"], ["a"]]
    assert keep_sentences(words, [1] * 6, 4) == [0, 1, 2, 4]
    assert keep_sentences(words, [1] * 6, 2) == [0, 1]
    # the second does not fit, but those after it do
    assert keep_sentences(words, [1, 9, 1, 1, 1, 1], 3) == [0, 2, 4]
    assert keep_sentences(words, [9, 1, 1, 1, 1, 1], 3) == [0]
    assert keep_sentences(words, [1] * 6, 99) == [0, 1, 2, 3, 4, 5]
    assert keep_sentences([], [], 3) == []


def test_refuses_what_cannot_be_a_budget():
    with pytest.raises(ValueError, match="`budget` is 0, but must be at least 1"):
        keep_sentences([["a"]], [1], 0)
    with pytest.raises(ValueError, match="2 costs but 1 sentences"):
        keep_sentences([["a"]], [1, 2], 3)
