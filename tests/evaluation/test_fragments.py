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
        length = max(size for size in range(len(words) - start + 1) if words[start : start + size] in source)
        part = words[start : start + length]
        places = [place for place in range(len(source)) if length and source.startswith(part, place)]
        matches.append((length, places))
    return matches


@pytest.mark.parametrize("kinds", [1, 2, 3, 8])
def test_matches_are_the_longest_at_all_their_places(kinds):
    rng = np.random.default_rng(kinds)
    for _ in range(200):
        words, source = ("".join(rng.choice(list("abcdefgh")[:kinds], rng.integers(25))) for _ in range(2))
        ids, source_ids = (np.array([ord(letter) for letter in text], dtype=np.int64) for text in (words, source))
        for start, (length, positions) in enumerate(naive(words, source)):
            assert match_lengths(ids, source_ids)[start] == length
            assert not length or occurrences(ids[start : start + length], source_ids).tolist() == positions


def test_long_texts_of_few_words():
    (fragment,) = copied_fragments("word " * 500, "word " * 10_000)
    assert (fragment.length, fragment.sentences) == (500, (0,) * 9501)
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
    # the product would be four times as much
    assert twice < 2.2 * once
