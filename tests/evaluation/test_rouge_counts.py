"""Counts of matches against full tables."""

import random
from collections import Counter
from itertools import combinations

import pytest

from hf_summ.evaluation import rouge_counts
from hf_summ.evaluation.rouge_counts import check_rows, joined, matched_places, sequence_lcs, skip_bigrams
from tests.evaluation.naive import lcs_table, naive_lcs


def made_up(generator: random.Random, texts: int) -> list[list[int]]:
    """Lists of few kinds of words, so that many of them are equal; some are empty."""
    words = range(generator.randrange(1, 8))
    return [generator.choices(words, k=generator.randrange(12)) for _ in range(texts)]


def test_matched_places_are_those_of_the_full_table():
    generator = random.Random(0)
    for _ in range(3000):
        model, *others = made_up(generator, generator.randrange(2, 5))
        expected = set().union(*(naive_lcs(model, other) for other in others))
        assert {place for place in range(len(model)) if matched_places(model, others) >> place & 1} == expected


def test_length_of_the_lcs_is_that_of_the_full_table():
    generator = random.Random(1)
    for _ in range(3000):
        peer, *models = made_up(generator, generator.randrange(2, 4))
        hits = sum(lcs_table(model, peer)[-1, -1] for model in models)
        counts = sequence_lcs(joined([peer]), [joined([model]) for model in models])
        assert counts == (hits, len(models) * len(peer), sum(map(len, models)))


@pytest.mark.parametrize("at_once", [1, 5, 1 << 21])
def test_skip_bigrams_are_those_of_all_combinations(monkeypatch, at_once):
    monkeypatch.setattr(rouge_counts, "_PAIRS", at_once)

    def units(words):
        return Counter([*words[:-1], *combinations(words, 2)])

    generator = random.Random(2)
    for _ in range(300):
        peer, *models = made_up(generator, generator.randrange(2, 4))
        hits = sum((units(peer) & units(model)).total() for model in models)
        counts = skip_bigrams(joined([peer]), [joined([model]) for model in models])
        assert counts == (hits, len(models) * units(peer).total(), sum(units(model).total() for model in models))


def test_skip_bigrams_of_equal_words_are_not_listed():
    # 128 million pairs, which would take gigabytes as a list
    text = joined([[7] * 16000])
    assert skip_bigrams(text, [text]) == (number := 15999 + 16000 * 15999 // 2, number, number)


def test_rows_without_texts_are_an_error():
    assert check_rows(["a", "b"], ["a", ["b", "c"]]) == [["a"], ["b", "c"]]
    with pytest.raises(ValueError, match="row 1 has no reference"):
        check_rows(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="row 0 holds int: 7"):
        check_rows(["a"], [["a", 7]])
