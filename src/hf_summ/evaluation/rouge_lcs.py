"""ROUGE-L: the longest common subsequence (LCS) of a prediction and a reference, or of their sentences."""

from collections.abc import Iterator

import numpy as np

from hf_summ.evaluation.rouge_counts import Counts, matches
from hf_summ.evaluation.rouge_words import Batch

# Pairs of sentences that are compared at once.
_SENTENCE_PAIRS = 1 << 15
# Bits of an array's integers.
_WIDTHS = (16, 32, 64)
# Positions of references in an array.
_CELLS = 1 << 17
# Up to this many pairs, a Python loop beats NumPy.
_MAX_LOOPED = 8


def sequence_lcs(batch: Batch) -> Counts:
    """ROUGE-L of texts as single sequences: the length of their LCS."""
    spans = np.stack([np.cumsum(batch.sizes) - batch.sizes, batch.sizes])
    references, predictions = spans[:, 1::2], spans[:, ::2]
    hits = np.zeros(batch.pairs)
    for pairs, flags in lcs_positions(batch.words.ids, references, predictions, traced=False):
        hits[pairs] = flags.sum(axis=1)
    return Counts(hits, batch.sizes[::2], batch.sizes[1::2])


def summary_lcs(batch: Batch) -> Counts:
    """ROUGE-L of summaries: for each sentence of the reference, the union of its LCSs with those of the prediction."""
    words = batch.sentence_words
    is_matched = np.zeros(len(words.ids), dtype=bool)
    for references, predictions in _sentence_pairs(batch):
        for pairs, flags in lcs_positions(words.ids, references, predictions, traced=True):
            pair, position = np.nonzero(flags)
            is_matched[references[0, pairs[pair]] + position] = True
    # A word with several matches counts at most as often as it occurs in both texts. So a pair has three sides: its
    # prediction, its reference, and the matched words of its reference.
    matched_texts = words.texts[is_matched]
    units = np.concatenate([batch.words.ids, words.ids[is_matched]])
    text_owners = batch.words.texts // 2 * 3 + batch.words.texts % 2
    owners = np.concatenate([text_owners, matched_texts // 2 * 3 + 2])
    hits = matches(units, owners, batch.pairs, sides=3)
    sentence_sizes = np.bincount(words.texts, minlength=len(batch.sizes))
    return Counts(hits, batch.sizes[::2], sentence_sizes[1::2])


def _sentence_pairs(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Start and length of each sentence of a reference, beside each of its prediction, (2, n) both; n is bounded."""
    words = batch.sentence_words
    starts = np.flatnonzero(np.diff(words.lines, prepend=-1))
    sentences = np.stack([starts, np.diff(starts, append=len(words.lines))])
    text_of_sentence = words.texts[starts]
    sentences_of_text = np.bincount(text_of_sentence, minlength=len(batch.sizes))
    references = np.flatnonzero(text_of_sentence % 2)
    predictions = text_of_sentence[references] - 1
    # Pairs are numbered in the order of the references' sentences. The pairs of sentence i end before number ends[i].
    ends = np.cumsum(sentences_of_text[predictions])
    # The number of a pair plus this offset is the number of its prediction's sentence.
    offsets = np.cumsum(sentences_of_text)[predictions] - ends
    for start in range(0, int(ends.max(initial=0)), _SENTENCE_PAIRS):
        pairs = np.arange(start, min(start + _SENTENCE_PAIRS, ends[-1]))
        reference = np.searchsorted(ends, pairs, "right")
        yield sentences[:, references[reference]], sentences[:, offsets[reference] + pairs]


def lcs_positions(
    ids: np.ndarray, references: np.ndarray, predictions: np.ndarray, traced: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield numbers of pairs (n,) and flags of their references' positions, as many as the LCS is long, (n, width).

    A column of a pair's dynamic program is one integer whose bit i says that position i of the reference extends the
    LCS (Hyyrö 2004). ROUGE-1.5.5 and rouge-score trace back diagonally at equal words, otherwise up where position i
    adds nothing, otherwise left. So the next position visited in a column is the highest one below that extends the LCS
    or is equal. An array holds the columns of many pairs; only references of more than 64 words need Python's integers.

    Args:
        ids: the words of all sequences, (W,).
        references: start and number of words of each pair's reference, (2, N).
        predictions: the same for the predictions.
        traced: whether the positions are those of the LCS that ROUGE-1.5.5 chooses.
    """
    # The windows of the last words are complete with this padding.
    ids = np.pad(ids.astype(np.int32), (0, _WIDTHS[-1]))
    # In this order, the pairs whose predictions have ended are the last ones.
    order = np.argsort(-predictions[1], kind="stable")
    width_classes = np.searchsorted(_WIDTHS, references[1, order])
    for width_class in range(len(_WIDTHS) + 1):
        group = order[width_classes == width_class]
        if width_class == len(_WIDTHS) or len(group) <= _MAX_LOOPED:
            for pair in group:
                reference = _words_of_span(ids, references[:, pair])
                prediction = _words_of_span(ids, predictions[:, pair])
                yield np.array([pair]), _matched_single(reference, prediction, traced)
        else:
            width = _WIDTHS[width_class]
            pairs_at_once = _CELLS // width
            for start in range(0, len(group), pairs_at_once):
                pairs = group[start : start + pairs_at_once]
                yield pairs, _matched(ids, references[:, pairs], predictions[:, pairs], width, traced)


def _words_of_span(ids: np.ndarray, span: np.ndarray) -> list[int]:
    """The words of a sequence, given its start and its number of words."""
    start, length = span
    return ids[start : start + length].tolist()


def _matched(ids: np.ndarray, references: np.ndarray, predictions: np.ndarray, width: int, traced: bool) -> np.ndarray:
    """The flags of many pairs, (n, width), see `lcs_positions`.

    Args:
        references, predictions: starts and numbers of words, (2, n), of which the longest prediction is the first.
        width: bits of an integer, at least as many as each reference has words.
    """
    reference_starts, reference_lengths = references
    prediction_starts, prediction_lengths = predictions
    words = np.lib.stride_tricks.sliding_window_view(ids, width)[reference_starts]
    # Bits of the reference's positions, and of those that do not extend the LCS with the words so far.
    positions = _bits(np.arange(width) < reference_lengths[:, None])
    flat = positions.copy()
    columns = []
    # Column i belongs to word i of the predictions, which so many pairs have.
    running = np.searchsorted(-prediction_lengths, -np.arange(prediction_lengths.max()))
    for column, pairs in enumerate(running.tolist()):
        equal = _bits(words[:pairs] == ids[prediction_starts[:pairs] + column, None])
        common = flat[:pairs] & equal
        flat[:pairs] = (flat[:pairs] + common | flat[:pairs] - common) & positions[:pairs]
        if traced:
            columns.append((equal, positions[:pairs] ^ flat[:pairs]))
    if traced:
        return _flags(_traced(columns, positions, width), width)
    return _flags(positions ^ flat, width)


def _traced(columns: list[tuple[np.ndarray, np.ndarray]], positions: np.ndarray, width: int) -> np.ndarray:
    """The bits of the positions on the LCSs that are traced back through the columns of many pairs.

    Args:
        columns: for each word of the predictions, the positions of equal words, and those that extend the LCS.
        positions: the bits of all positions, which are changed.
    """
    matched = np.zeros_like(positions)
    below = positions
    for equal, extends in reversed(columns):
        pairs = len(equal)
        # The highest bit is the next position that is visited. After these shifts, all bits up to it are set.
        visited = (equal | extends) & below[:pairs]
        for power in range(width.bit_length() - 1):
            visited |= visited >> (1 << power)
        match = (visited ^ visited >> 1) & equal
        matched[:pairs] |= match
        below[:pairs] = visited ^ match
    return matched


def _bits(flags: np.ndarray) -> np.ndarray:
    """Integers of these bits, the lowest first: (N, width) -> (N,)."""
    return np.packbits(flags.ravel(), bitorder="little").view(f"u{flags.shape[1] // 8}")


def _flags(bits: np.ndarray, width: int) -> np.ndarray:
    """The bits of these integers, the lowest first: (N,) -> (N, width)."""
    return np.unpackbits(bits.view(np.uint8), bitorder="little").reshape(-1, width)


def _matched_single(reference: list[int], prediction: list[int], traced: bool) -> np.ndarray:
    """The flags of a single pair of any length, (1, at least the reference's length)."""
    positions: dict[int, int] = {}
    for position, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << position
    all_positions = (1 << len(reference)) - 1
    # Bits of the positions that do not extend the LCS with the words so far, and of those that do.
    flat = all_positions
    extends = 0
    columns = []
    for word in prediction:
        equal = positions.get(word, 0)
        # Without an equal word, the column is that of the word before.
        if equal:
            common = flat & equal
            flat = (flat + common | flat - common) & all_positions
            extends = all_positions ^ flat
        if traced:
            columns.append((equal, extends))
    matched = _traced_single(columns, all_positions) if traced else extends
    number_of_bytes = -(-len(reference) // 8)
    raw = np.frombuffer(matched.to_bytes(number_of_bytes, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[None]


def _traced_single(columns: list[tuple[int, int]], all_positions: int) -> int:
    """The bits of the positions on the LCS that is traced back through a single pair's columns."""
    matched = 0
    below = all_positions
    for equal, extends in reversed(columns):
        candidates = (equal | extends) & below
        if candidates == 0:
            break
        visited = candidates.bit_length() - 1
        # The bits up to the visited one, or below it if it is matched.
        below = (1 << visited + 1) - 1
        if equal >> visited & 1:
            matched |= 1 << visited
            below = (1 << visited) - 1
    return matched
