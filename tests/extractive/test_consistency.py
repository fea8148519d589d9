"""The repair pass: what is put back between sentences that do not go together."""

import numpy as np
import pytest
import torch

from hf_summ.extractive.consistent import close_gaps
from tests.extractive import naive


def judge_of(table: dict[str, float], asked: list | None = None):
    """The probabilities of the table, and 0.9 of other pairs; notes what it is asked about."""

    def judge(pairs):
        if asked is not None:
            asked.append(list(pairs))
        return [table.get("".join(pair), 0.9) for pair in pairs]

    return judge


@pytest.mark.parametrize(
    ("kept", "table", "expected"),
    [
        # accepted pairs stay as they are
        ([0, 4], {}, [0, 4]),
        # nothing lies between a rejected pair
        ([0, 1], {"ab": 0.1}, [0, 1]),
        # the most probable of those that are accepted on both sides
        ([0, 4], {"ae": 0.1, "ac": 0.95}, [0, 2, 4]),
        ([0, 4], {"ae": 0.1, "ab": 0.99, "be": 0.5, "ac": 0.51, "ad": 0.6}, [0, 3, 4]),
        # the earlier of two that tie
        ([0, 4], {"ae": 0.5}, [0, 1, 4]),
        ([0, 4], {"ae": 0.1, "ab": 0.6, "be": 0.8, "ac": 0.8, "ce": 0.6, "ad": 0.2}, [0, 1, 4]),
        # none is accepted on both sides
        ([0, 3], {"ad": 0.1, "ab": 0.1, "cd": 0.1}, [0, 3]),
        # once: what is put back is not judged again
        ([0, 2, 4], {"ac": 0.1, "ce": 0.1, "ab": 0.51, "bc": 0.51}, [0, 1, 2, 3, 4]),
        ([0], {}, [0]),
        ([], {}, []),
    ],
)
def test_what_is_put_back(kept, table, expected):
    assert close_gaps(["abcde"], [kept], judge_of(table)) == [expected]
    follows = judge_of(table)
    assert naive.close_gaps("abcde", kept, lambda *pair: follows([pair])[0]) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.3, 0.7], r"must give 1 probabilities, one a pair, but gives list: \[0.3, 0.7\]"),
        ([], r"must give 1 probabilities, one a pair, but gives list: \[\]"),
        (None, "but gives NoneType: None"),
        (torch.tensor(0.3), r"but gives Tensor: tensor\(0.3"),
        ({("a", "c"): 0.3}, "but gives dict"),
        ([float("nan")], "the next-sentence model gives nan for a pair, but must give a probability"),
        ([1.5], "gives 1.5 for a pair"),
        ([-0.5], "gives -0.5 for a pair"),
        (["0.3"], "gives '0.3' for a pair"),
        (np.zeros((1, 2)), r"gives \[0.0, 0.0\] for a pair"),
    ],
)
def test_what_are_no_probabilities(given, message):
    with pytest.raises(ValueError, match=message):
        close_gaps([["a", "b", "c"]], [[0, 2]], lambda pairs: given)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_probabilities_of_any_kind(kind):
    judge = judge_of({"ac": 0.25})
    assert close_gaps([["a", "b", "c"]], [[0, 2]], lambda pairs: kind(judge(pairs))) == [[0, 1, 2]]


def test_documents_are_judged_together_and_no_pair_twice():
    asked: list = []
    found = close_gaps(["abcd", "abcd", "axd", ""], [[0, 3], [0, 3], [0, 2], []], judge_of({"ad": 0.1}, asked))
    assert found == [[0, 1, 3], [0, 1, 3], [0, 1, 2], []]
    assert asked == [
        [("a", "d")],
        [("a", "b"), ("a", "c"), ("a", "x")],
        [("b", "d"), ("c", "d"), ("x", "d")],
    ]


def test_thousands_of_sentences_as_one_by_one():
    rng = np.random.default_rng(0)
    sentences = [str(number) for number in rng.integers(0, 300, 5000)]
    kept = sorted({0, 1, 2, *rng.choice(5000, 500, replace=False).tolist()})
    table = {}

    def follows(*pair: str) -> float:
        return table.setdefault(pair, round(float(rng.random()), 2))

    expected = naive.close_gaps(sentences, kept, follows)
    assert len(expected) > len(kept)
    assert close_gaps([sentences], [kept], lambda pairs: [follows(*pair) for pair in pairs]) == [expected]
