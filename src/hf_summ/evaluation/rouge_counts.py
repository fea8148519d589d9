"""Counts of the matches of predictions with their references, for every type of ROUGE (Lin 2004).

A type of ROUGE, such as "rouge2", counts units: n-grams, skip-bigrams, or the words of longest common subsequences. A
pair is a prediction with one of its references, and P is the number of pairs. The counts of a pair are three numbers:
matching units, units of the prediction, and units of the reference. A row is a prediction with all of its references,
and N is the number of rows. The counts of a row's pairs are combined into one score.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hf_summ.common.messages import progress_bar
from hf_summ.evaluation.rouge_words import Batch, Reader
from hf_summ.evaluation.words import no_words_message

# The number of ordered pairs of words that `_common_pairs` counts at once.
_PAIRS = 1 << 21
# The largest size of a batch. The size is the number of characters in the texts, plus `_PAIR_SIZE` for each pair, as
# short texts cost time too.
_BATCH_SIZE = 1 << 19
_PAIR_SIZE = 64
# In ROUGE-SU4, at most 4 words lie between the words of a skip-bigram.
_SU4_DISTANCES = (1, 2, 3, 4, 5)


class Scores(NamedTuple):
    """Precision, recall and F of each row, (N,) each, in points, 0 to 100."""

    precision: np.ndarray
    recall: np.ndarray
    fmeasure: np.ndarray


class Counts(NamedTuple):
    """Each pair's numbers of matching units, of units in the prediction, and of units in the reference, (P,) each."""

    hits: np.ndarray
    in_predictions: np.ndarray
    in_references: np.ndarray


# A function that counts the units of a batch's pairs, for a type of ROUGE.
UnitCounter = Callable[[Batch], Counts]


def count_matches(
    predictions: Sequence[str],
    reference_lists: Sequence[Sequence[str]],
    reader: Reader,
    counters: Mapping[str, UnitCounter],
    language: str,
) -> dict[str, np.ndarray]:
    """Count the matching units of each prediction with each of its references, in batches, with a progress bar.

    Args:
        predictions: (N,), one text per row.
        reference_lists: (N,), the references of each row. A row with R references has R pairs, and a row without
            references has none.
        reader: turns the texts of a batch into ids of words.
        counters: type of ROUGE, such as "rouge2" -> the function that counts this type's units.
        language: ISO 639 code of the texts, for the message of an error.

    Returns:
        Type of ROUGE -> (3, P), the fields of `Counts` in their order. The pairs of the first row come first, in the
        order of the row's references, then the pairs of the second row, and so on.

    Raises:
        ValueError: no reference has any words, or the numbers of predictions and lists of references differ.
    """
    counts_of_batches: dict[str, list[Counts]] = {}
    has_words = False
    pairs = sum(len(references) for references in reference_lists)
    with progress_bar(None, "ROUGE", pairs) as bar:
        for texts in _batches(predictions, reference_lists):
            batch = reader.read(texts)
            # A batch's texts are predictions and references in turn.
            reference_sizes = batch.sizes[1::2]
            has_words = has_words or bool(reference_sizes.any())
            for rouge_type, count_units in counters.items():
                counts_of_batches.setdefault(rouge_type, []).append(count_units(batch))
            bar.update(batch.pairs)
    if not has_words:
        raise ValueError(no_words_message("nothing to score: no reference has any words", language))
    counts_of_types = {}
    for rouge_type, counts in counts_of_batches.items():
        counts_of_types[rouge_type] = np.concatenate(counts, axis=1)
    return counts_of_types


def _batches(predictions: Sequence[str], reference_lists: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the texts of one batch after the other: a prediction, one of its references, the next prediction, ….

    A prediction with several references is repeated before each reference. A batch has at least one pair, and further
    pairs as long as their sizes add up to at most `_BATCH_SIZE`. If there are no pairs at all, the only batch is empty.
    """
    texts: list[str] = []
    room = _BATCH_SIZE
    for prediction, references in zip(predictions, reference_lists, strict=True):
        for reference in references:
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
    """The scores of rows, (N,) each, from the counts of the rows' pairs. A row without a match scores 0.

    Args:
        counts: (3, P), as from `count_matches`.
        sizes: (N,), the number of references of each row, at least 1.
        several: how the pairs of a row are combined. "pooled" sums the counts of all pairs. "best", like any other
            value, takes the counts of the pair with the highest F, or of the first of several such pairs.
    """
    # The index of each row's first pair.
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
    return Scores(precision, recall, 2 * precision * recall / np.where(total > 0, total, 1))


def _fmeasure(counts: np.ndarray) -> np.ndarray:
    """F of each pair, as a share, from its counts: (3, P) -> (P,).

    The operations have the same order as in rouge-score, as rounding decides between references with equal F.
    """
    hits, in_predictions, in_references = counts
    precision = hits / np.maximum(in_predictions, 1)
    recall = hits / np.maximum(in_references, 1)
    return 2 * precision * recall / np.where(hits > 0, precision + recall, 1)


def matches(units: np.ndarray, owners: np.ndarray, pairs: int, sides: int = 2) -> np.ndarray:
    """The number of matching units of each pair, (pairs,), as floats.

    A unit matches if it occurs on all sides of a pair, and counts as often as on the side where it is rarest. The two
    sides of a pair are the prediction and the reference. `summary_lcs` counts pairs with a third side.

    Args:
        units: (U,), the id of each unit. Equal units have the same id.
        owners: (U,), the index of each unit's pair, times `sides`, plus the index of the side that has the unit.
        pairs: number of pairs.
        sides: number of sides of a pair.
    """
    vocabulary = units.max(initial=0) + 1
    pair, side = np.divmod(owners, sides)
    # A key stands for a pair, a unit and a side. The sorted keys of the same pair and unit follow each other, one for
    # each side that has the unit.
    keys, occurrences = np.unique((pair * vocabulary + units) * sides + side, return_counts=True)
    unit_of_key = keys // sides
    # A unit that is on all sides has as many keys as there are sides, one after the other. These are the positions of
    # the first key of each such unit.
    first_keys = np.flatnonzero(unit_of_key[sides - 1 :] == unit_of_key[: 1 - sides])
    fewest = np.minimum.reduce([occurrences[first_keys + shift] for shift in range(sides)])
    return np.bincount(unit_of_key[first_keys] // vocabulary, fewest, pairs)


def _count_units(batch: Batch, units: np.ndarray, texts: np.ndarray) -> Counts:
    """The counts of a batch's pairs, given their units.

    Args:
        units: (U,), the id of each unit. Equal units have the same id.
        texts: (U,), the index of the text that has the unit. Text 2i is the prediction of pair i, and text 2i + 1 is
            the reference.
    """
    sizes = np.bincount(texts, minlength=len(batch.sizes))
    return Counts(matches(units, texts, batch.pairs), sizes[::2], sizes[1::2])


def ngrams(size: int) -> UnitCounter:
    """The function that counts n-grams of `size` words. An n-gram may cross the end of a sentence."""

    def count_ngrams(batch: Batch) -> Counts:
        ids = batch.words.ids
        vocabulary = ids.max(initial=0) + 1
        # The ids of the n-grams that begin at each word. First, an n-gram is a single word. Each step makes the n-grams
        # longer by one word.
        grams = ids
        for shift in range(1, size):
            if shift > 1:
                # Small ids take the place of the ids so far: combined with the id of the next word, they must fit into
                # an integer of 64 bits.
                grams = np.unique(grams, return_inverse=True)[1]
            grams = grams[:-1] * vocabulary + ids[shift:]
        # An n-gram belongs to a text if the n-gram's first word and its last word are in the same text.
        texts_of_first_words = batch.words.texts[: len(grams)]
        texts_of_last_words = batch.words.texts[size - 1 :]
        is_within_text = texts_of_first_words == texts_of_last_words
        return _count_units(batch, grams[is_within_text], texts_of_first_words[is_within_text])

    return count_ngrams


def skip_bigrams_4(batch: Batch) -> Counts:
    """ROUGE-SU4: as `skip_bigrams`, but without the word pairs that have more than 4 words in between."""
    ids, texts = batch.words.ids, batch.words.texts
    vocabulary = ids.max(initial=0) + 1
    units = []
    texts_of_units = []
    for distance in _SU4_DISTANCES:
        positions = np.flatnonzero(texts[:-distance] == texts[distance:])
        if distance == 1:
            # Every word of a text but the last is also counted as a single word. Its unit has the id of a pair whose
            # second word has the id 0, which no word has.
            units.append(ids[positions] * vocabulary)
            texts_of_units.append(texts[positions])
        units.append(ids[positions] * vocabulary + ids[positions + distance])
        texts_of_units.append(texts[positions])
    return _count_units(batch, np.concatenate(units), np.concatenate(texts_of_units))


def skip_bigrams(batch: Batch) -> Counts:
    """ROUGE-SU*: count a text's skip-bigrams, which are all ordered pairs of its words, and its single words.

    The last word of a text is not counted as a single word, as in the script ROUGE-1.5.5.
    """
    ids, texts, sizes = batch.words.ids, batch.words.texts, batch.sizes
    positions = np.flatnonzero(texts[:-1] == texts[1:])
    hits = matches(ids[positions], texts[positions], batch.pairs)
    words_of_texts = [words.tolist() for words in np.split(ids, np.cumsum(sizes)[:-1])]
    for pair in range(batch.pairs):
        hits[pair] += _common_pairs(words_of_texts[2 * pair], words_of_texts[2 * pair + 1])
    single_words = np.maximum(sizes - 1, 0)
    word_pairs = sizes * (sizes - 1) // 2
    units = single_words + word_pairs
    return Counts(hits, units[::2], units[1::2])


def _common_pairs(prediction: list[int], reference: list[int]) -> int:
    """The number of matching ordered pairs of words of two texts, which are lists of the ids of their words.

    A word pair counts as often as in the text where it is rarer. A text has quadratically many word pairs, so they are
    not listed: `_count_pairs` counts them in one pass over the text.
    """
    # Id of a word that both texts have -> a small index.
    index_of_word: dict[int, int] = {}
    for word_id in set(prediction) & set(reference):
        index_of_word[word_id] = len(index_of_word)
    words = len(index_of_word)
    prediction_words = [index_of_word[word_id] for word_id in prediction if word_id in index_of_word]
    reference_words = [index_of_word[word_id] for word_id in reference if word_id in index_of_word]
    # The pairs are counted in blocks of first words, which bounds memory for long texts.
    step = _PAIRS // max(words, 1) + 1
    common = 0
    for start in range(0, words, step):
        end = min(start + step, words)
        prediction_pairs = _count_pairs(prediction_words, start, end, words)
        reference_pairs = _count_pairs(reference_words, start, end, words)
        common += int(np.minimum(prediction_pairs, reference_pairs).sum())
    return common


def _count_pairs(text: list[int], start: int, end: int, words: int) -> np.ndarray:
    """Count a text's ordered word pairs whose first word has an index from `start` to before `end`.

    Args:
        text: the index of each of the text's words, below `words`.
        words: the number of different words.

    Returns:
        (words, end - start): in row w and column v, how often word w follows word `start` + v at any distance.
    """
    pairs = np.zeros((words, end - start), dtype=np.int64)
    earlier_words = np.zeros(end - start, dtype=np.int64)
    for word in text:
        pairs[word] += earlier_words
        if start <= word < end:
            earlier_words[word - start] += 1
    return pairs
