"""Counts of matches against full tables, and scores that depend on no batch."""

import random
from collections import Counter
from itertools import chain, combinations, product

import numpy as np
import pytest

from hf_summ.evaluation import rouge_counts, rouge_lcs, rouge_words
from hf_summ.evaluation.rouge_counts import skip_bigrams
from hf_summ.evaluation.rouge_lcs import lcs_positions
from hf_summ.evaluation.rouge_words import Batch, Reader, read_words
from tests.evaluation.scores import rouge_rows


def made_up(generator: random.Random, pairs: int, most: int = 11) -> list[list[int]]:
    """Predictions and references in turn, of few kinds of words, so that many of them are equal; some are empty."""
    kinds = [range(1, generator.randrange(2, 9)) for _ in range(pairs)]
    return [generator.choices(words, k=generator.randrange(most + 1)) for words in kinds for _ in range(2)]


def batch_of(texts: list[list[int]]) -> Batch:
    """The batch of these predictions and references in turn."""
    reader = Reader(read_words, None, lambda text: text.split("\n"))
    return reader.read([" ".join(map(str, text)) for text in texts])


def counts_of(count_units: rouge_counts.UnitCounter, texts: list[list[int]]) -> list[tuple[int, ...]]:
    """The counts of each pair."""
    return [tuple(map(int, counts)) for counts in zip(*count_units(batch_of(texts)), strict=True)]


def naive_lcs(model: list[int], peer: list[int]) -> set[int]:
    """Places of `model` on the LCS that ROUGE-1.5.5 traces in a full table: diagonal at equal words, else up, left."""
    table = np.zeros((len(model) + 1, len(peer) + 1), dtype=int)
    for i, j in product(range(1, len(model) + 1), range(1, len(peer) + 1)):
        same = model[i - 1] == peer[j - 1]
        table[i, j] = table[i - 1, j - 1] + 1 if same else max(table[i - 1, j], table[i, j - 1])
    places, i, j = set(), len(model), len(peer)
    while i and j:
        if model[i - 1] == peer[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif table[i - 1, j] >= table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return places


@pytest.fixture(scope="module")
def texts() -> list[list[int]]:
    """Pairs of all lengths, among them those at which integers of other widths begin."""
    generator = random.Random(0)
    sizes = (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129)
    edges = [generator.choices(range(5), k=size) for one in sizes for size in (30, one, one, 30)]
    return made_up(generator, 1000) + made_up(generator, 100, 40) + made_up(generator, 20, 80) + edges


@pytest.fixture(scope="module")
def places(texts: list[list[int]]) -> list[set[int]]:
    """The positions of each reference that its full table leads to."""
    return [naive_lcs(model, peer) for peer, model in zip(texts[::2], texts[1::2], strict=True)]


# most in arrays of many pairs, in arrays of few, and pair by pair
@pytest.mark.parametrize(("few", "cells"), [(8, 1 << 17), (0, 64), (1 << 30, 64)])
def test_places_on_the_lcs_are_those_of_the_full_table(monkeypatch, texts, places, few, cells):
    monkeypatch.setattr(rouge_lcs, "_MAX_LOOPED", few)
    monkeypatch.setattr(rouge_lcs, "_CELLS", cells)
    sizes = np.array(list(map(len, texts)))
    spans = np.stack([np.cumsum(sizes) - sizes, sizes])
    ids = np.array(list(chain.from_iterable(texts)))
    for traced in (True, False):
        found = {}
        for pairs, flags in lcs_positions(ids, spans[:, 1::2], spans[:, ::2], traced):
            found |= {int(pair): set(map(int, np.flatnonzero(row))) for pair, row in zip(pairs, flags, strict=True)}
        assert sorted(found) == list(range(len(places)))
        if traced:
            assert [found[pair] for pair in range(len(places))] == places
        else:
            assert [len(found[pair]) for pair in range(len(places))] == list(map(len, places))


@pytest.mark.parametrize("at_once", [1, 5, 1 << 21])
def test_skip_bigrams_are_those_of_all_combinations(monkeypatch, at_once):
    monkeypatch.setattr(rouge_counts, "_PAIRS", at_once)

    def units(words):
        return Counter([*words[:-1], *combinations(words, 2)])

    texts = made_up(random.Random(2), 300)
    expected = [
        ((units(peer) & units(model)).total(), units(peer).total(), units(model).total())
        for peer, model in zip(texts[::2], texts[1::2], strict=True)
    ]
    assert counts_of(skip_bigrams, texts) == expected


def test_skip_bigrams_of_equal_words_are_not_listed():
    # 128 million pairs, which would take gigabytes as a list
    number = 15999 + 16000 * 15999 // 2
    assert counts_of(skip_bigrams, [[7] * 16000] * 2) == [(number, number, number)]


@pytest.mark.thorough
@pytest.mark.parametrize("several", ["best", "pooled"])
def test_scores_do_not_depend_on_what_is_computed_at_once(monkeypatch, several):
    generator = random.Random(3)

    def text() -> str:
        return "\n".join(" ".join(map("word{}".format, line)) for line in made_up(generator, 2))

    predictions = [text() for _ in range(30)]
    references = [[text() for _ in range(generator.randrange(1, 4))] for _ in predictions]

    def scores():
        found = []
        for mode in ("rouge155", "rouge_score"):
            rows = rouge_rows(predictions, references, rouge_mode=mode, several=several, sentences="lines")
            found.append({name: np.stack(values).tolist() for name, values in rows.items()})
        return found

    expected = scores()
    sizes = [
        (rouge_counts, "_BATCH_SIZE", 1),
        (rouge_counts, "_BATCH_SIZE", 1000),
        (rouge_lcs, "_SENTENCE_PAIRS", 1),
        (rouge_words, "_VOCABULARY", 1),
    ]
    for module, name, value in sizes:
        monkeypatch.setattr(module, name, value)
        assert scores() == expected


def test_texts_of_any_size_are_scored_in_batches_of_bounded_size():
    short, long = "ab " * 5, "cd " * 400_000
    batches = list(rouge_counts._batches([short, long, *[short] * 9000], [[short], [short, long], *[[""]] * 9000]))
    assert [len(batch) for batch in batches[:3]] == [2, 2, 2]
    assert list(chain.from_iterable(batches)) == [short, short, long, short, long, long] + [short, ""] * 9000
    assert len(batches) == 5
