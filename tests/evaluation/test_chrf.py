"""chrF against sacrebleu's corpus score, and against its definition."""

import sys
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from hf_summ.evaluation.bleu import chrf, chrf_statistics, corpus_chrf

PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million in all.", "a", "", "Rain fell all day, they say."]
REFERENCES = [
    ["The mayor opened the bridge.", "A bridge was opened."],
    ["It cost 12 million."],
    ["ab", "a b"],
    ["Something"],
    ["", "It rained."],
]


def naive_chrf(pairs) -> float:
    """F2 of the mean precision and the mean recall over the orders that both sides have."""
    precisions, recalls = [], []
    for order in range(1, 7):
        counts = [
            [Counter(text[start : start + order] for start in range(len(text) - order + 1)) for text in pair]
            for pair in (["".join(text.split()) for text in pair] for pair in pairs)
        ]
        # n-grams of a prediction do not count if its reference has none
        ours = sum(one.total() for one, other in counts if other)
        theirs = sum(other.total() for _, other in counts)
        if ours and theirs:
            matches = sum((one & other).total() for one, other in counts)
            precisions.append(matches / ours)
            recalls.append(matches / theirs)
    precision, recall = np.mean(precisions), np.mean(recalls)
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_chrf_is_sacrebleus():
    streams = [[row[number] if number < len(row) else None for row in REFERENCES] for number in range(2)]
    expected = CHRF().corpus_score(PREDICTIONS, streams).score
    assert chrf(PREDICTIONS, REFERENCES) == {"chrf": pytest.approx(expected, abs=1e-4)}


def test_chrf_is_that_of_its_definition():
    pairs = [(prediction, row[0]) for prediction, row in zip(PREDICTIONS, REFERENCES, strict=True)]
    assert chrf(*zip(*pairs, strict=True))["chrf"] == pytest.approx(naive_chrf(pairs), abs=1e-4)


def test_sums_of_rows_have_the_scores_of_their_sentences():
    statistics = chrf_statistics(PREDICTIONS, REFERENCES)
    assert statistics.shape == (5, 18)
    # sacrebleu's sentence score leaves out no blank reference either
    expected = [CHRF().sentence_score(text, row).score for text, row in zip(PREDICTIONS, REFERENCES, strict=True)]
    assert corpus_chrf(statistics) == pytest.approx(expected)


def test_without_sacrebleu_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.chrf", None)
    with pytest.raises(ImportError, match=r"chrF needs sacrebleu: pip install 'hf-summ\[bleu\]'"):
        chrf(["a"], ["a"])
