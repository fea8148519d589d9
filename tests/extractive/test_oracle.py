"""The greedy oracle against search by ROUGE."""

import numpy as np
import pytest

from hf_summ.extractive.extraction import greedy_oracle
from tests.evaluation.scores import rouge_rows
from tests.extractive.summaries import extract_indices, extracts

DOCUMENT = "Rain fell all day. The mayor opened a bridge. Nobody came. It cost 12 million."


def rouge(sentences: list[str], reference: str) -> float:
    scores = rouge_rows([" ".join(sentences)], [reference], rouge_mode="rouge_score", use_stemmer=False)
    return scores["rouge1"].fmeasure[0] + scores["rouge2"].fmeasure[0]


def naive(sentences: list[str], reference: str, number: int) -> list[int]:
    """Greedy over the real ROUGE of the joined sentences."""
    chosen: list[int] = []
    while len(chosen) < min(number, len(sentences)):
        current = rouge([sentences[i] for i in chosen], reference)
        gains = {
            i: rouge([sentences[j] for j in sorted([*chosen, i])], reference) - current
            for i in range(len(sentences))
            if i not in chosen
        }
        best = max(gains, key=lambda i: round(gains[i], 9))
        if gains[best] <= 1e-9:
            break
        chosen = sorted([*chosen, best])
    return chosen


def test_oracle_takes_what_the_reference_tells_in_the_documents_order():
    reference = "12 million is what it cost the mayor, who opened the bridge."
    assert extracts([DOCUMENT], "oracle", 3, [reference]) == ["The mayor opened a bridge. It cost 12 million."]
    # oracle ends where more would lower the measure
    assert extract_indices([DOCUMENT], "oracle", 4, ["A mayor opened the bridge"]) == [[1]]
    assert extracts([DOCUMENT], "oracle", 4, ["Quite another text"]) == [""]
    # a single sentence is the best of all
    reference = "Nobody came to the bridge of the mayor"
    best = max(range(4), key=lambda i: rouge([DOCUMENT.split(". ")[i]], reference))
    assert extract_indices([DOCUMENT], "oracle", 1, [reference]) == [[best]]


@pytest.mark.thorough
def test_oracle_agrees_with_greedy_search_by_rouge():
    rng = np.random.default_rng(1)
    for _ in range(40):
        sentences = [" ".join(rng.choice(list("abcdefgh"), rng.integers(1, 7))) for _ in range(7)]
        reference = " ".join(rng.choice(list("abcdefgh"), 9))
        words = [sentence.split() for sentence in sentences]
        assert greedy_oracle(words, reference.split(), 3) == naive(sentences, reference, 3)


@pytest.mark.parametrize(
    ("arguments", "message"), [({}, "needs `references`"), ({"references": ["a", "b"]}, "2 references but 1 documents")]
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        extracts([DOCUMENT], "oracle", 1, **arguments)
