"""Counts of the matches of a prediction with its references, for every variant of ROUGE (Lin 2004).

A unit is what a variant counts: an n-gram, a skip-bigram or a word of the longest common subsequence. Several
references are combined into one score.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hf_summ.common.messages import progress_bar
from hf_summ.evaluation.rouge_words import Batch, Reader
from hf_summ.evaluation.words import no_words

# Ordered pairs of words that are counted at once.
_PAIRS = 1 << 21
# Characters of a batch, in which each pair counts as at least a headline.
_BATCH_SIZE = 1 << 19
_PAIR_SIZE = 64
# In ROUGE-SU4, at most 4 words lie between the words of a skip-bigram.
_SU4_DISTANCES = (1, 2, 3, 4, 5)


class Scores(NamedTuple):
    """Precision, recall and F of each example, (N,) each, in points, 0 to 100."""

    precision: np.ndarray
    recall: np.ndarray
    fmeasure: np.ndarray


class Counts(NamedTuple):
    """Of each pair, the number of matching units, of units in the prediction and in the reference, (P,) each."""

    hits: np.ndarray
    in_predictions: np.ndarray
    in_references: np.ndarray


Measure = Callable[[Batch], Counts]


def count_matches(
    predictions: Sequence[str],
    rows: Sequence[Sequence[str]],
    reader: Reader,
    measures: Mapping[str, Measure],
    language: str,
) -> dict[str, np.ndarray]:
    """Measure -> the counts of each prediction with each of its references, (3, P), with a progress bar.

    Args:
        rows: each prediction's references.
        language: that of the texts, for the message of an error.

    Raises:
        ValueError: no reference has any words.
    """
    counts_of_batches: dict[str, list[Counts]] = {}
    has_words = False
    with progress_bar(None, "ROUGE", sum(len(row) for row in rows)) as bar:
        for texts in _batches(predictions, rows):
            batch = reader.read(texts)
            has_words = has_words or bool(batch.sizes[1::2].any())
            for name, measure in measures.items():
                counts_of_batches.setdefault(name, []).append(measure(batch))
            bar.update(batch.pairs)
    if not has_words:
        raise ValueError(no_words("nothing to score: no reference has any words", language))
    counts_of_measures = {}
    for name, counts in counts_of_batches.items():
        counts_of_measures[name] = np.concatenate(counts, axis=1)
    return counts_of_measures


def _batches(predictions: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Texts of pairs to score at once: a prediction, one of its references, the next prediction, …."""
    texts: list[str] = []
    room = _BATCH_SIZE
    for prediction, row in zip(predictions, rows, strict=True):
        for reference in row:
            size = _PAIR_SIZE + len(prediction) + len(reference)
            if texts and size > room:
                yield texts
                texts = []
                room = _BATCH_SIZE
            texts.append(prediction)
            texts.append(reference)
            room -= size
    yield texts


def combined_scores(counts: np.ndarray, sizes: np.ndarray, several: str) -> Scores:
    """Scores of rows from the counts of all their pairs.

    Args:
        counts: (3, P), of the pairs of the first row, then of the second, and so on.
        sizes: the number of references of each row, (N,).
        several: "pooled" sums the counts of a row; "best" takes those of the highest F.
    """
    starts = np.cumsum(sizes) - sizes
    if several == "pooled":
        hits, in_predictions, in_references = np.add.reduceat(counts, starts, axis=1)
    else:
        row_of_pair = np.repeat(np.arange(len(sizes)), sizes)
        # Within each row, pairs are sorted by falling F; ties keep their order.
        order = np.lexsort((-_fmeasure(counts), row_of_pair))
        hits, in_predictions, in_references = counts[:, order[starts]]
    precision = 100 * (hits / np.maximum(in_predictions, 1))
    recall = 100 * (hits / np.maximum(in_references, 1))
    total = precision + recall
    # Rows without matches score 0.
    return Scores(precision, recall, 2 * precision * recall / np.where(total > 0, total, 1))


def _fmeasure(counts: np.ndarray) -> np.ndarray:
    """F as rouge-score rounds it, which decides ties between references: (3, P) -> (P,)."""
    hits, in_predictions, in_references = counts
    precision = hits / np.maximum(in_predictions, 1)
    recall = hits / np.maximum(in_references, 1)
    return 2 * precision * recall / np.where(hits > 0, precision + recall, 1)


def matches(units: np.ndarray, owners: np.ndarray, pairs: int, sides: int = 2) -> np.ndarray:
    """Number of units common to all sides of each pair, each counted the minimum number of times that it occurs on any
    side, (pairs,).

    Args:
        units: number of each unit, (N,).
        owners: number of its pair, times `sides`, plus number of the side that has it, (N,).
    """
    vocabulary = units.max(initial=0) + 1
    pair, side = np.divmod(owners, sides)
    # A key stands for a unit, its pair and a side. The sorted keys of a unit follow each other, one for each side.
    keys, occurrences = np.unique((pair * vocabulary + units) * sides + side, return_counts=True)
    unit_of_key = keys // sides
    first_keys = np.flatnonzero(unit_of_key[sides - 1 :] == unit_of_key[: 1 - sides])
    fewest = np.minimum.reduce([occurrences[first_keys + shift] for shift in range(sides)])
    return np.bincount(unit_of_key[first_keys] // vocabulary, fewest, pairs)


def _count_units(batch: Batch, units: np.ndarray, texts: np.ndarray) -> Counts:
    """The counts of units, given the number of each and the number of its text, (N,) both."""
    sizes = np.bincount(texts, minlength=len(batch.sizes))
    return Counts(matches(units, texts, batch.pairs), sizes[::2], sizes[1::2])


def ngrams(size: int) -> Measure:
    """The measure of n-grams, across sentences."""

    def measure(batch: Batch) -> Counts:
        ids = batch.words.ids
        vocabulary = ids.max(initial=0) + 1
        grams = ids
        for shift in range(1, size):
            if shift > 1:
                # The numbers of shorter n-grams become small, so that with another word they fit into an integer.
                grams = np.unique(grams, return_inverse=True)[1]
            grams = grams[:-1] * vocabulary + ids[shift:]
        texts = batch.words.texts[: len(grams)]
        is_within_text = texts == batch.words.texts[size - 1 :]
        return _count_units(batch, grams[is_within_text], texts[is_within_text])

    return measure


def skip_bigrams_4(batch: Batch) -> Counts:
    """Like `skip_bigrams`, but with at most 4 words between those of a pair."""
    ids, texts = batch.words.ids, batch.words.texts
    vocabulary = ids.max(initial=0) + 1
    units = []
    texts_of_units = []
    for distance in _SU4_DISTANCES:
        positions = np.flatnonzero(texts[:-distance] == texts[distance:])
        if distance == 1:
            # Single words except a text's last are pairs whose second word is 0.
            units.append(ids[positions] * vocabulary)
            texts_of_units.append(texts[positions])
        units.append(ids[positions] * vocabulary + ids[positions + distance])
        texts_of_units.append(texts[positions])
    return _count_units(batch, np.concatenate(units), np.concatenate(texts_of_units))


def skip_bigrams(batch: Batch) -> Counts:
    """Count single words except the last, which the script ROUGE-1.5.5 leaves out, and all pairs in order."""
    ids, texts, sizes = batch.words.ids, batch.words.texts, batch.sizes
    positions = np.flatnonzero(texts[:-1] == texts[1:])
    hits = matches(ids[positions], texts[positions], batch.pairs)
    words_of_texts = [words.tolist() for words in np.split(ids, np.cumsum(sizes)[:-1])]
    for pair in range(batch.pairs):
        hits[pair] += _common_pairs(words_of_texts[2 * pair], words_of_texts[2 * pair + 1])
    single_words = np.maximum(sizes - 1, 0)
    units = single_words + sizes * (sizes - 1) // 2
    return Counts(hits, units[::2], units[1::2])


def _common_pairs(prediction: list[int], reference: list[int]) -> int:
    """Number of ordered word pairs common to both texts, each as often as the text that has it less often.

    A text has quadratically many pairs, so they are counted by their words: each word adds the counts of the words
    before it.
    """
    numbers: dict[int, int] = {}
    for word in set(prediction) & set(reference):
        numbers[word] = len(numbers)
    prediction_numbers = [numbers[word] for word in prediction if word in numbers]
    reference_numbers = [numbers[word] for word in reference if word in numbers]
    # Earlier words are counted in blocks, which bounds memory for long texts.
    step = _PAIRS // max(len(numbers), 1) + 1
    common = 0
    for start in range(0, len(numbers), step):
        end = min(start + step, len(numbers))
        prediction_pairs = _count_pairs(prediction_numbers, start, end, len(numbers))
        reference_pairs = _count_pairs(reference_numbers, start, end, len(numbers))
        common += int(np.minimum(prediction_pairs, reference_pairs).sum())
    return common


def _count_pairs(text: list[int], start: int, end: int, words: int) -> np.ndarray:
    """How often each word of a text follows each of the words from `start` to before `end`, (words, end - start).

    Args:
        text: the numbers of its words, which are below `words`.
    """
    pairs = np.zeros((words, end - start), dtype=np.int64)
    earlier_words = np.zeros(end - start, dtype=np.int64)
    for word in text:
        pairs[word] += earlier_words
        if start <= word < end:
            earlier_words[word - start] += 1
    return pairs
