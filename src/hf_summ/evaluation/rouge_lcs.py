"""ROUGE-L: the longest common subsequence (LCS) of a prediction and a reference, or of their sentences.

A span is the start and the number of words of a sequence in an array of the words of all sequences. A pair is the span
of a reference and the span of a prediction. The flags of a pair say which positions of the reference are on the LCS.
"""

from collections.abc import Iterator

import numpy as np

from hf_summ.evaluation.rouge_counts import Counts, matches
from hf_summ.evaluation.rouge_words import Batch

# The number of pairs of sentences that are compared at once.
_SENTENCE_PAIRS = 1 << 15
# The widths of integers, in bits. A bit stands for a position of a reference.
_WIDTHS = (16, 32, 64)
# The number of positions of references, in all pairs together, that are compared at once.
_CELLS = 1 << 17
# Up to this many pairs, a Python loop is faster than NumPy.
_MAX_LOOPED = 8


def sequence_lcs(batch: Batch) -> Counts:
    """ROUGE-L of texts that are single sequences: a pair's matching units are the words of the LCS of both texts."""
    spans = np.stack([np.cumsum(batch.sizes) - batch.sizes, batch.sizes])
    references, predictions = spans[:, 1::2], spans[:, ::2]
    hits = np.zeros(batch.pairs)
    for pairs, flags in lcs_positions(batch.words.ids, references, predictions, traced=False):
        hits[pairs] = flags.sum(axis=1)
    return Counts(hits, batch.sizes[::2], batch.sizes[1::2])


def summary_lcs(batch: Batch) -> Counts:
    """ROUGE-L of texts that are lists of sentences (Lin 2004, section 3.2).

    A sentence of the reference has an LCS with each sentence of the prediction. The union of these LCSs is the matched
    words of the sentence, and the matching units are the matched words of all sentences of the reference.
    """
    words = batch.sentence_words
    is_matched = np.zeros(len(words.ids), dtype=bool)
    for references, predictions in _sentence_pairs(batch):
        for pairs, flags in lcs_positions(words.ids, references, predictions, traced=True):
            pair, position = np.nonzero(flags)
            is_matched[references[0, pairs[pair]] + position] = True
    # A word may be matched more often than it occurs in the prediction, and then counts only as often as there. So a
    # pair has three sides: the prediction, side 0, the reference, side 1, and the reference's matched words, side 2.
    # Pair i has texts 2i and 2i + 1, and owners 3i to 3i + 2.
    matched_texts = words.texts[is_matched]
    units = np.concatenate([batch.words.ids, words.ids[is_matched]])
    text_owners = batch.words.texts // 2 * 3 + batch.words.texts % 2
    matched_owners = matched_texts // 2 * 3 + 2
    owners = np.concatenate([text_owners, matched_owners])
    hits = matches(units, owners, batch.pairs, sides=3)
    sentence_sizes = np.bincount(words.texts, minlength=len(batch.sizes))
    return Counts(hits, batch.sizes[::2], sentence_sizes[1::2])


def _sentence_pairs(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pair each sentence of a reference with each sentence of the reference's prediction.

    Yields:
        The spans of n sentences of references, (2, n), and the spans of the n sentences of predictions with which they
        are paired, (2, n). n is at most `_SENTENCE_PAIRS`.
    """
    words = batch.sentence_words
    # The spans of all sentences with words, and the index of each sentence's text.
    starts = np.flatnonzero(np.diff(words.lines, prepend=-1))
    sizes = np.diff(starts, append=len(words.lines))
    sentences = np.stack([starts, sizes])
    text_of_sentence = words.texts[starts]
    sentences_of_text = np.bincount(text_of_sentence, minlength=len(batch.sizes))
    # The index of each sentence of a reference, and of the prediction of this reference. References are the odd texts.
    reference_sentences = np.flatnonzero(text_of_sentence % 2)
    predictions = text_of_sentence[reference_sentences] - 1
    # Pairs have the order of the references' sentences. The pairs of the i-th such sentence end before index ends[i].
    ends = np.cumsum(sentences_of_text[predictions])
    # The index of a pair plus this offset is the index of the prediction's sentence.
    offsets = np.cumsum(sentences_of_text)[predictions] - ends
    for start in range(0, int(ends.max(initial=0)), _SENTENCE_PAIRS):
        pairs = np.arange(start, min(start + _SENTENCE_PAIRS, ends[-1]))
        index = np.searchsorted(ends, pairs, "right")
        yield sentences[:, reference_sentences[index]], sentences[:, offsets[index] + pairs]


def lcs_positions(
    ids: np.ndarray, references: np.ndarray, predictions: np.ndarray, traced: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Find the positions of references that are on the LCS with the prediction, and yield them as flags.

    The table of a pair's dynamic program has a row for each position of the reference, and a column for each word of
    the prediction. A cell has the length of the LCS of the words up to its row and the words up to its column. A
    position extends the LCS in a column if its cell is larger than the cell of the position before. A column is stored
    as one integer, whose bit i says whether position i extends the LCS (Hyyrö 2004).

    An array holds the same column of many pairs. A reference of more than 64 words needs an integer of Python instead,
    and its pair is computed alone. So are the pairs of a group that has only a few.

    Args:
        ids: (W,), the ids of the words of all sequences.
        references: (2, N), the span of each pair's reference: its start in `ids`, and its number of words.
        predictions: (2, N), the span of each pair's prediction.
        traced: whether the positions must be those of the LCS that ROUGE-1.5.5 chooses; see `_traced`. If false, only
            the number of positions is right, which is faster.

    Yields:
        The indices of n pairs, (n,), and the flags of these pairs, (n, width): 1 at the positions on the LCS, and 0 at
        the other positions and behind the end of a reference. The width is at least the number of words of each of
        these references. Each pair is yielded once, in an order that depends on the lengths of the sequences.
    """
    # With this padding, as many words as the largest width follow the start of every reference.
    ids = np.pad(ids.astype(np.int32), (0, _WIDTHS[-1]))
    # With the longest prediction first, the pairs whose predictions have ended are always the last pairs.
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
    """The words of a sequence, given its span."""
    start, length = span
    return ids[start : start + length].tolist()


def _matched(ids: np.ndarray, references: np.ndarray, predictions: np.ndarray, width: int, traced: bool) -> np.ndarray:
    """The flags of many pairs, (n, width); see `lcs_positions`.

    Args:
        ids: the ids of the words of all sequences, with padding behind the last sequence.
        references, predictions: (2, n), the span of each sequence. The longest prediction is the first.
        width: bits of an integer, at least as many as each reference has words.
        traced: as for `lcs_positions`.
    """
    reference_starts, reference_lengths = references
    prediction_starts, prediction_lengths = predictions
    words = np.lib.stride_tricks.sliding_window_view(ids, width)[reference_starts]
    # The bits of the references' positions, and of the positions that do not extend the LCS with the words so far.
    positions = _bits(np.arange(width) < reference_lengths[:, None])
    flat = positions.copy()
    columns = []
    # Column i belongs to word i of the predictions. `running[i]` is the number of pairs that have such a word.
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
    """Trace the LCSs of n pairs back through the columns, and give the bits of the positions on these LCSs, (n,).

    The path through a pair's table begins at the last position of the last column, as in ROUGE-1.5.5 and rouge-score.
    At equal words, the position is on the LCS, and the path goes on at the position before, in the column before.
    At other words, it goes to the position before if the current position does not extend the LCS, and otherwise to
    the column before. So the path leaves a column at the highest position that it can reach there and that has an equal
    word or extends the LCS.

    Args:
        columns: for each word of the predictions, two integers of each pair that has the word: the bits of the
            positions of equal words, and the bits of the positions that extend the LCS.
        positions: (n,), the bits of all positions of the references. The array is overwritten.
        width: bits of an integer.
    """
    matched = np.zeros_like(positions)
    # The bits of the positions that the path can still reach.
    reachable = positions
    for equal, extends in reversed(columns):
        pairs = len(equal)
        # The highest bit is the position at which the path leaves the column. After these shifts, all bits up to this
        # position are set.
        up_to_exit = (equal | extends) & reachable[:pairs]
        for power in range(width.bit_length() - 1):
            up_to_exit |= up_to_exit >> (1 << power)
        match = (up_to_exit ^ up_to_exit >> 1) & equal
        matched[:pairs] |= match
        # A position that is not matched can be reached again in the column before.
        reachable[:pairs] = up_to_exit ^ match
    return matched


def _bits(flags: np.ndarray) -> np.ndarray:
    """The integers whose bits are these flags, the lowest bit first: (N, width) -> (N,)."""
    return np.packbits(flags.ravel(), bitorder="little").view(f"u{flags.shape[1] // 8}")


def _flags(bits: np.ndarray, width: int) -> np.ndarray:
    """The bits of these integers as flags, the lowest bit first: (N,) -> (N, width)."""
    return np.unpackbits(bits.view(np.uint8), bitorder="little").reshape(-1, width)


def _matched_single(reference: list[int], prediction: list[int], traced: bool) -> np.ndarray:
    """The flags of a single pair of any length, (1, width); see `lcs_positions`.

    Args:
        reference, prediction: the ids of the words.
        traced: as for `lcs_positions`.
    """
    # Word -> the bits of its positions in the reference.
    positions: dict[int, int] = {}
    for position, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << position
    all_positions = (1 << len(reference)) - 1
    # The bits of the positions that do not extend the LCS with the words so far, and of the positions that do.
    flat = all_positions
    extends = 0
    columns = []
    for word in prediction:
        equal = positions.get(word, 0)
        # If the reference does not have the word, this column is equal to the column before.
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
    """Trace the LCS of a single pair back through the columns, as `_traced` does; return the bits of its positions.

    Args:
        columns: for each word of the prediction, the bits of the positions of equal words, and of the positions that
            extend the LCS.
        all_positions: the bits of all positions of the reference.
    """
    matched = 0
    # The bits of the positions that the path can still reach.
    reachable = all_positions
    for equal, extends in reversed(columns):
        candidates = (equal | extends) & reachable
        if candidates == 0:
            break
        # The path leaves the column at the highest candidate, which can be reached again unless it is matched.
        position = candidates.bit_length() - 1
        reachable = (1 << position + 1) - 1
        if equal >> position & 1:
            matched |= 1 << position
            reachable = (1 << position) - 1
    return matched
