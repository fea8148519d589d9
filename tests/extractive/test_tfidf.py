"""tf-idf against its definition."""

import numpy as np
import pytest

from hf_summ.extractive import extract, extract_sentences
from hf_summ.extractive.frequencies import DocumentFrequencies, best_first, tfidf_scores
from tests.extractive import naive


@pytest.fixture(params=range(5))
def sentences(request) -> list[list[str]]:
    rng = np.random.default_rng(request.param)
    drawn = [rng.choice(list("abcdefghijklmno"), rng.integers(1, 9)).tolist() for _ in range(8)]
    # an empty one, one of a single word, and two that are equal
    return [*drawn, [], ["a"], list(drawn[0])]


def test_agrees_with_its_definition(sentences):
    np.testing.assert_allclose(tfidf_scores(sentences), naive.tfidf(sentences, sentences), atol=1e-12)


def test_agrees_with_its_definition_over_a_corpus(sentences):
    # c and d are in no document, and what is in only one is not in the table
    corpus = ["a b e f", "a a g", "a h i j k", "b"]
    table = DocumentFrequencies.fit(corpus)
    assert table.frequencies == {"a": 3, "b": 2}
    collection = [text.split() for text in corpus]
    np.testing.assert_allclose(tfidf_scores(sentences, table), naive.tfidf(sentences, collection), atol=1e-12)


def test_texts_without_words():
    assert tfidf_scores([]).tolist() == []
    assert tfidf_scores([[], []]).tolist() == [0, 0]


def test_prefers_frequent_words_of_few_sentences():
    document = "He met her. The flood and the flood. He left her. He came."
    assert extract([document], "tfidf", 1) == ["The flood and the flood."]


def test_equal_sentences_come_in_their_order():
    assert extract_sentences(["Cat dog. Cat hen. Owl. " * 40], "tfidf", 3) == [[2, 5, 8]]


@pytest.mark.parametrize("scale", [1, 1e-12])
def test_rounding_breaks_no_ties(scale):
    assert best_first(np.array([0.3, 0.1 + 0.2, 0.1 * 3, 0.31, 0.0]) * scale) == [3, 0, 1, 2, 4]


def test_nothing_to_order():
    assert best_first(np.array([])) == []
    assert best_first(np.zeros(3)) == [0, 1, 2]
