"""Phrase recall."""

import math

import numpy as np
import pytest

from hf_summ.evaluation import phrase_recall, phrase_recall_scores


def test_a_phrase_counts_word_for_word():
    prediction = "Mayor Ana Lopez opened the new-bridge."
    found = ["ana lopez", "New bridge", "mayor"]
    missing = ["Ana Lop", "lopez ana", "the bridge", "ana opened"]
    assert phrase_recall_scores([prediction], [found]).tolist() == [100.0]
    assert phrase_recall_scores([prediction], [missing]).tolist() == [0.0]
    assert phrase_recall_scores([prediction], [[*found, *missing[:1]]]).tolist() == [75.0]


def test_examples_without_phrases_do_not_count():
    scores = phrase_recall_scores(["a b", "a b", "", "a b"], [["a b"], [], ["a"], ["..."]])
    np.testing.assert_array_equal(scores, [100.0, np.nan, 0.0, np.nan])
    assert phrase_recall(["a b", "a b", ""], [["a b"], [], ["a"]]) == 50.0
    assert math.isnan(phrase_recall(["a"], [[]]))


def test_characters_are_words_where_there_are_no_spaces():
    assert phrase_recall(["上海市长周一宣布"], [["市长", "周二"]], language="zh") == 50.0


def test_each_example_needs_its_phrases():
    with pytest.raises(ValueError, match=r"^2 predictions but phrases of 1 examples: give each its own$"):
        phrase_recall(["a", "b"], [["a"]])
