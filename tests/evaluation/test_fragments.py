"""Longest matches of a summary in its document."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from hf_summ.evaluation import copied_fragments, novelty
from hf_summ.evaluation.novelty import match_lengths, occurrences


def naive(words: str, source: str) -> list[tuple[int, list[int]]]:
    """Length and places of the longest match at each word, by every length at every place."""
    matches = []
    for start in range(len(words)):
        length = 0
        while start + length < len(words) and words[start : start + length + 1] in source:
            length += 1
        part = words[start : start + length]
        places = []
        if length:
            places = [place for place in range(len(source)) if source.startswith(part, place)]
        matches.append((length, places))
    return matches


def ids_of(text: str) -> np.ndarray:
    """A number for each letter."""
    return np.array([ord(letter) for letter in text], dtype=np.int64)


@pytest.mark.parametrize("kinds", [1, 2, 3, 8])
def test_matches_are_the_longest_at_all_their_places(kinds):
    rng = np.random.default_rng(kinds)
    letters = list("abcdefgh")[:kinds]
    for _ in range(200):
        words = "".join(rng.choice(letters, rng.integers(25)))
        source = "".join(rng.choice(letters, rng.integers(25)))
        ids, source_ids = ids_of(words), ids_of(source)
        for start, (length, positions) in enumerate(naive(words, source)):
            assert match_lengths(ids, source_ids)[start] == length
            if length:
                assert occurrences(ids[start : start + length], source_ids).tolist() == positions


def test_long_texts_of_few_words():
    fragments = copied_fragments("word " * 500, "word " * 10_000)
    assert len(fragments) == 1
    assert fragments[0].length == 500
    assert fragments[0].sentences == (0,) * 9501
    assert novelty(["a word " * 100], ["word " * 20_000])["copy_rate"].value() == 50


def lines_executed(function: Callable[[], object]) -> int:
    """The number of lines of Python that a call executes: a measure of time that is the same on every machine."""
    executed = 0

    def trace(frame, event, argument):
        nonlocal executed
        executed += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return executed


@pytest.mark.parametrize("words", ["word ", "a word "])
def test_work_grows_with_the_lengths_of_the_texts_and_not_with_their_product(words):
    once = lines_executed(lambda: copied_fragments(words * 100, "word " * 1000))
    twice = lines_executed(lambda: copied_fragments(words * 200, "word " * 2000))
    # If the work grew with the product, it would be four times as much.
    assert twice < 2.2 * once
