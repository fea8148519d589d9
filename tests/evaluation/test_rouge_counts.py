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
    vocabularies = [range(1, generator.randrange(2, 9)) for _ in range(pairs)]
    texts = []
    for vocabulary in vocabularies:
        for _ in ("prediction", "reference"):
            texts.append(generator.choices(vocabulary, k=generator.randrange(most + 1)))
    return texts


def batch_of(texts: list[list[int]]) -> Batch:
    """The batch of these predictions and references in turn."""
    reader = Reader(read_words, None, lambda text: text.split("\n"))
    lines = []
    for text in texts:
        words = [str(number) for number in text]
        lines.append(" ".join(words))
    return reader.read(lines)


def counts_of(count_units: rouge_counts.UnitCounter, texts: list[list[int]]) -> list[tuple[int, ...]]:
    """The counts of each pair: common units, those of the prediction and those of the reference."""
    counts = np.stack(count_units(batch_of(texts)), axis=1)
    return [tuple(row) for row in counts.tolist()]


def naive_lcs(model: list[int], peer: list[int]) -> set[int]:
    """Places of `model` on the LCS that ROUGE-1.5.5 traces in a full table: diagonal at equal words, else up, left."""
    table = np.zeros((len(model) + 1, len(peer) + 1), dtype=int)
    for i, j in product(range(1, len(model) + 1), range(1, len(peer) + 1)):
        if model[i - 1] == peer[j - 1]:
            table[i, j] = table[i - 1, j - 1] + 1
        else:
            table[i, j] = max(table[i - 1, j], table[i, j - 1])
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
    edges = []
    for edge in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129):
        # a pair of 30 words and as many as the edge, and a pair the other way round
        for size in (30, edge, edge, 30):
            edges.append(generator.choices(range(5), k=size))
    return made_up(generator, 1000) + made_up(generator, 100, 40) + made_up(generator, 20, 80) + edges


@pytest.fixture(scope="module")
def places(texts: list[list[int]]) -> list[set[int]]:
    """The positions of each reference that its full table leads to."""
    return [naive_lcs(model, peer) for peer, model in zip(texts[::2], texts[1::2], strict=True)]


CASES_OF_SIZES = [(8, 1 << 17), (0, 64), (1 << 30, 64)]


# most in arrays of many pairs, in arrays of few, and pair by pair
@pytest.mark.parametrize(("few", "cells"), CASES_OF_SIZES)
def test_places_on_the_lcs_are_those_of_the_full_table(monkeypatch, texts, places, few, cells):
    monkeypatch.setattr(rouge_lcs, "_MAX_LOOPED", few)
    monkeypatch.setattr(rouge_lcs, "_CELLS", cells)
    sizes = np.array([len(text) for text in texts])
    spans = np.stack([np.cumsum(sizes) - sizes, sizes])
    ids = np.array(list(chain.from_iterable(texts)))
    for traced in (True, False):
        places_of_pairs = {}
        for pairs, flags in lcs_positions(ids, spans[:, 1::2], spans[:, ::2], traced):
            for pair, row in zip(pairs, flags, strict=True):
                places_of_pairs[int(pair)] = set(np.flatnonzero(row).tolist())
        assert sorted(places_of_pairs) == list(range(len(places)))
        for pair, expected in enumerate(places):
            if traced:
                assert places_of_pairs[pair] == expected
            else:
                assert len(places_of_pairs[pair]) == len(expected)


@pytest.mark.parametrize("at_once", [1, 5, 1 << 21])
def test_skip_bigrams_are_those_of_all_combinations(monkeypatch, at_once):
    monkeypatch.setattr(rouge_counts, "_PAIRS", at_once)

    def count_units(words):
        return Counter(words[:-1]) + Counter(combinations(words, 2))

    texts = made_up(random.Random(2), 300)
    expected = []
    for prediction, reference in zip(texts[::2], texts[1::2], strict=True):
        prediction_units, reference_units = count_units(prediction), count_units(reference)
        common_units = prediction_units & reference_units
        expected.append((common_units.total(), prediction_units.total(), reference_units.total()))
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
        lines = []
        for numbers in made_up(generator, 2):
            words = [f"word{number}" for number in numbers]
            lines.append(" ".join(words))
        return "\n".join(lines)

    predictions = [text() for _ in range(30)]
    references = []
    for _ in predictions:
        number = generator.randrange(1, 4)
        references.append([text() for _ in range(number)])

    def scores():
        values = {}
        for mode in ("rouge155", "rouge_score"):
            rows = rouge_rows(predictions, references, rouge_mode=mode, several=several, sentences="lines")
            for rouge_type, columns in rows.items():
                values[mode, rouge_type] = np.stack(columns).tolist()
        return values

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
