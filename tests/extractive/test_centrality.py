"""LexRank and TextRank against their definitions."""

import math
import sys
import time
from collections import Counter

import numpy as np
import pytest

from hf_summ.extractive.extraction import lexrank_scores, lexrank_similarities, textrank_scores, textrank_similarities
from tests.extractive.summaries import extract_indices, extracts

METHODS = ("lexrank", "textrank")


def idf(sentences: list[list[str]], word: str) -> float:
    return math.log(len(sentences) / sum(word in sentence for sentence in sentences))


def naive_pagerank(weights: np.ndarray) -> np.ndarray:
    """p = (1 - d) / N + d Σ p(v) w(v, u) / Σ w(v, ·) as linear equations; who has no links goes anywhere."""
    number = len(weights)
    rows = [row / row.sum() if row.sum() else np.full(number, 1 / number) for row in weights]
    return np.linalg.solve(np.eye(number) - 0.85 * np.stack(rows).T, np.full(number, 0.15 / number))


def test_lexrank_agrees_with_its_definition(sentences):
    def cosine(a: list[str], b: list[str]) -> float:
        common = sum(a.count(word) * b.count(word) * idf(sentences, word) ** 2 for word in {*a} & {*b})
        norms = (math.sqrt(sum((text.count(w) * idf(sentences, w)) ** 2 for w in {*text})) for text in (a, b))
        return common / math.prod(norms) if common else 0.0

    expected = np.array([[cosine(a, b) for b in sentences] for a in sentences])
    np.testing.assert_allclose(lexrank_similarities(sentences), expected, atol=1e-12)
    np.testing.assert_allclose(lexrank_scores(sentences), naive_pagerank(expected > 0.1), atol=1e-6)


def test_textrank_agrees_with_its_definition(sentences):
    def similarity(a: list[str], b: list[str]) -> float:
        return len({*a} & {*b}) / (math.log(len(a)) + math.log(len(b))) if len(a) > 1 and len(b) > 0 else 0.0

    expected = np.array(
        [[max(similarity(a, b), similarity(b, a)) * (i != j) for j, b in enumerate(sentences)]
         for i, a in enumerate(sentences)]
    )  # fmt: skip
    np.testing.assert_allclose(textrank_similarities(sentences), expected, atol=1e-12)
    np.testing.assert_allclose(textrank_scores(sentences), naive_pagerank(expected), atol=1e-6)


def test_thousands_of_sentences_take_seconds():
    rng = np.random.default_rng(0)
    sentences = [[f"w{word}" for word in np.minimum(rng.zipf(1.3, 20), 30_000)] for _ in range(2000)]
    start = time.process_time()
    ranks = [lexrank_scores(sentences), textrank_scores(sentences)]
    # a graph of objects takes ten times as long
    assert time.process_time() - start < 6
    assert [float(values.sum()) for values in ranks] == pytest.approx([1, 1])


def test_the_middle_of_a_star_is_central():
    # each of the outer sentences shares a word with the middle one alone
    document = "Red plums fell. Old trees grow. Red trees need wet earth. Wet snow came. Dark earth froze."
    assert extracts([document], "textrank", 1) == ["Red trees need wet earth."]
    assert extracts([document], "lexrank", 1) == ["Red trees need wet earth."]


@pytest.mark.parametrize("method", METHODS)
def test_equal_sentences_come_in_their_order(method):
    # more sentences than numpy sorts in order by itself
    document = " ".join(f"Cat dog{number}." for number in range(120))
    assert extract_indices([document], method, 3) == [[0, 1, 2]]
    assert extracts(["Just one sentence."], method, 2) == ["Just one sentence."]


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_library_names_the_extra(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-summ\[extractive\]'"):
        extracts(["One. Two."], method, 1)
    assert extracts(["One. Two."], "lead", 1) == ["One."]


def test_agrees_with_sumy(sentences):
    """Its similarities and its power method; its tf-idf is given ours, its own being log(N / (1 + n))."""
    reason = "sumy is not installed"
    lex_rank = pytest.importorskip("sumy.summarizers.lex_rank", reason=reason).LexRankSummarizer
    text_rank = pytest.importorskip("sumy.summarizers.text_rank", reason=reason).TextRankSummarizer
    # it counts a common word as often as it occurs
    unique = [list(dict.fromkeys(sentence)) for sentence in sentences]
    idfs = {word: idf(sentences, word) for sentence in sentences for word in sentence}
    counts = [Counter(sentence) for sentence in sentences]
    cosines = lexrank_similarities(sentences)
    overlaps = textrank_similarities(unique)
    for i, a in enumerate(sentences):
        for j, b in enumerate(sentences):
            assert cosines[i, j] == pytest.approx(lex_rank.cosine_similarity(a, b, counts[i], counts[j], idfs))
            # two sentences of one word each have no value in the paper and 1 in sumy
            if i != j and len(unique[i]) * len(unique[j]) > 1:
                assert overlaps[i, j] == pytest.approx(text_rank._rate_sentences_edge(unique[i], unique[j]))
    rows = overlaps.sum(axis=1, keepdims=True)
    walk = np.divide(overlaps, rows, out=np.full_like(overlaps, 1 / len(unique)), where=rows > 0)
    ranks = text_rank.power_method(0.15 / len(unique) + 0.85 * walk, 1e-12)
    np.testing.assert_allclose(textrank_scores(unique), ranks, atol=1e-6)
