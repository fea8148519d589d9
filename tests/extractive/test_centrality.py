"""LexRank and TextRank against their definitions."""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest

from hf_summ.extractive.extraction import lexrank_scores, lexrank_similarities, textrank_scores, textrank_similarities
from tests.extractive.summaries import extract_indices, extracts

METHODS = ("lexrank", "textrank")


def idf(sentences: list[list[str]], word: str) -> float:
    sentences_with_word = [sentence for sentence in sentences if word in sentence]
    return math.log(len(sentences) / len(sentences_with_word))


def naive_pagerank(weights: np.ndarray) -> np.ndarray:
    """p = (1 - d) / N + d Σ p(v) w(v, u) / Σ w(v, ·) as linear equations; a sentence without links links to all."""
    number = len(weights)
    transitions = np.full((number, number), 1 / number)
    for sentence, row in enumerate(weights):
        if row.sum():
            transitions[sentence] = row / row.sum()
    return np.linalg.solve(np.eye(number) - 0.85 * transitions.T, np.full(number, 0.15 / number))


def matrix_of(similarity: Callable, sentences: list[list[str]]) -> np.ndarray:
    """(N, N) similarities of each sentence to each."""
    rows = []
    for sentence in sentences:
        rows.append([similarity(sentence, compared) for compared in sentences])
    return np.array(rows)


def test_lexrank_agrees_with_its_definition(sentences):
    def product(a: list[str], b: list[str]) -> float:
        """The inner product of the tf-idf vectors of two sentences."""
        terms = [a.count(word) * b.count(word) * idf(sentences, word) ** 2 for word in set(a)]
        return sum(terms)

    def cosine(a: list[str], b: list[str]) -> float:
        if product(a, b) == 0:
            return 0.0
        return product(a, b) / math.sqrt(product(a, a) * product(b, b))

    expected = matrix_of(cosine, sentences)
    np.testing.assert_allclose(lexrank_similarities(sentences), expected, atol=1e-12)
    np.testing.assert_allclose(lexrank_scores(sentences), naive_pagerank(expected > 0.1), atol=1e-6)


def test_textrank_agrees_with_its_definition(sentences):
    def similarity(a: list[str], b: list[str]) -> float:
        # An empty sentence has no similarity, and two sentences of one word each would be divided by 0.
        if not a or not b or len(a) == len(b) == 1:
            return 0.0
        return len(set(a) & set(b)) / (math.log(len(a)) + math.log(len(b)))

    expected = matrix_of(similarity, sentences)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(textrank_similarities(sentences), expected, atol=1e-12)
    np.testing.assert_allclose(textrank_scores(sentences), naive_pagerank(expected), atol=1e-6)


def test_thousands_of_sentences_take_seconds():
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(2000):
        words = np.minimum(rng.zipf(1.3, 20), 30_000)
        sentences.append([f"w{word}" for word in words])
    start = time.process_time()
    ranks_by_lexrank = lexrank_scores(sentences)
    ranks_by_textrank = textrank_scores(sentences)
    # A graph of objects takes ten times as long.
    assert time.process_time() - start < 6
    assert ranks_by_lexrank.sum() == pytest.approx(1)
    assert ranks_by_textrank.sum() == pytest.approx(1)


def test_the_middle_of_a_star_is_central():
    # Each of the outer sentences shares a word with the middle one alone.
    document = "Red plums fell. Old trees grow. Red trees need wet earth. Wet snow came. Dark earth froze."
    assert extracts([document], "textrank", 1) == ["Red trees need wet earth."]
    assert extracts([document], "lexrank", 1) == ["Red trees need wet earth."]


@pytest.mark.parametrize("method", METHODS)
def test_equal_sentences_come_in_their_order(method):
    # These are more sentences than those that numpy sorts in order by itself.
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
    """Similarities and ranks are those of sumy; LexRank's idf is passed to it, as sumy's is log(N / (1 + n))."""
    reason = "sumy is not installed"
    lex_rank = pytest.importorskip("sumy.summarizers.lex_rank", reason=reason).LexRankSummarizer
    text_rank = pytest.importorskip("sumy.summarizers.text_rank", reason=reason).TextRankSummarizer
    # sumy counts a common word as often as it occurs, so here each word occurs once in a sentence.
    unique = [list(dict.fromkeys(sentence)) for sentence in sentences]
    idfs = {}
    for word in chain.from_iterable(sentences):
        idfs[word] = idf(sentences, word)
    counts = [Counter(sentence) for sentence in sentences]
    cosines = lexrank_similarities(sentences)
    overlaps = textrank_similarities(unique)
    for i, a in enumerate(sentences):
        for j, b in enumerate(sentences):
            assert cosines[i, j] == pytest.approx(lex_rank.cosine_similarity(a, b, counts[i], counts[j], idfs))
            # Two sentences of one word each have no value in the paper and 1 in sumy.
            if i != j and len(unique[i]) * len(unique[j]) > 1:
                assert overlaps[i, j] == pytest.approx(text_rank._rate_sentences_edge(unique[i], unique[j]))
    rows = overlaps.sum(axis=1, keepdims=True)
    walk = np.divide(overlaps, rows, out=np.full_like(overlaps, 1 / len(unique)), where=rows > 0)
    ranks = text_rank.power_method(0.15 / len(unique) + 0.85 * walk, 1e-12)
    np.testing.assert_allclose(textrank_scores(unique), ranks, atol=1e-6)
