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
        current = rouge([sentences[index] for index in chosen], reference)
        gains = {}
        for index in range(len(sentences)):
            if index not in chosen:
                candidate = [sentences[place] for place in sorted(chosen + [index])]
                gains[index] = rouge(candidate, reference) - current
        best = max(gains, key=lambda index: round(gains[index], 9))
        if gains[best] <= 1e-9:
            break
        chosen = sorted(chosen + [best])
    return chosen


def test_oracle_takes_what_the_reference_tells_in_the_documents_order():
    reference = "12 million is what it cost the mayor, who opened the bridge."
    assert extracts([DOCUMENT], "oracle", 3, [reference]) == ["The mayor opened a bridge. It cost 12 million."]
    # The oracle ends where one more sentence would lower the measure.
    assert extract_indices([DOCUMENT], "oracle", 4, ["A mayor opened the bridge"]) == [[1]]
    assert extracts([DOCUMENT], "oracle", 4, ["Quite another text"]) == [""]
    # A single sentence is the best of all.
    reference = "Nobody came to the bridge of the mayor"
    scores = [rouge([sentence], reference) for sentence in DOCUMENT.split(". ")]
    best = scores.index(max(scores))
    assert extract_indices([DOCUMENT], "oracle", 1, [reference]) == [[best]]


@pytest.mark.thorough
def test_oracle_agrees_with_greedy_search_by_rouge():
    rng = np.random.default_rng(1)
    for _ in range(40):
        sentences = []
        for _ in range(7):
            words = rng.choice(list("abcdefgh"), rng.integers(1, 7))
            sentences.append(" ".join(words))
        reference = " ".join(rng.choice(list("abcdefgh"), 9))
        words_of_sentences = [sentence.split() for sentence in sentences]
        assert greedy_oracle(words_of_sentences, reference.split(), 3) == naive(sentences, reference, 3)


@pytest.mark.parametrize(
    ("references", "message"), [(None, "needs `references`"), (["a", "b"], "2 references but 1 documents")]
)
def test_errors(references, message):
    with pytest.raises(ValueError, match=message):
        extracts([DOCUMENT], "oracle", 1, references)
