"""Counts of the matches of a prediction with its references, for every variant of ROUGE (Lin 2004).

Words are numbers here. Each variant of ROUGE defines the words of a text, which of them are equal, and how several
references are combined into one score.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from hf_summ.common.messages import progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import no_words, split_words
from hf_summ.models.text_documents import readable


class Scores(NamedTuple):
    """Precision, recall and F of each example, (N,) each, in points, 0 to 100."""

    precision: np.ndarray
    recall: np.ndarray
    fmeasure: np.ndarray


class Batch(NamedTuple):
    """Words of pairs of texts, one text after the other: text 2i is the prediction of pair i, and 2i + 1 its reference.

    Args:
        ids: number of each word, from 1, (W,).
        texts: number of the text that has it, (W,).
        sizes: how many words each text has, (2P,).
        line_ids: as `ids`, of the sentences that ROUGE-L compares, which differ under a byte limit.
        line_texts: as `texts`.
        lines: number of the sentence that has the word, counted through the batch.
    """

    ids: np.ndarray
    texts: np.ndarray
    sizes: np.ndarray
    line_ids: np.ndarray
    line_texts: np.ndarray
    lines: np.ndarray


# pairs of words counted at once
_PAIRS = 1 << 21
# batch size in characters; each pair counts as at least a headline
_BATCH_SIZE = 1 << 19
_PAIR_SIZE = 64
# pairs of sentences compared at once
_SENTENCE_PAIRS = 1 << 15
# above this size the vocabulary is reset, so that two words, a pair and a side fit into 63 bits
_VOCABULARY = 1 << 20
# LCS: bits of an array's integers
_WIDTHS = (16, 32, 64)
# reference positions per array
_CELLS = 1 << 17
# up to this many pairs, a Python loop beats NumPy
_MAX_LOOPED = 8
# separates the lines of a text that was split into words
END = b"|"
# one pass lowercases A to Z and blanks all bytes but ASCII letters, digits and line ends
_READ = bytes(code if code == 10 or (code < 128 and chr(code).isalnum()) else 32 for code in range(256)).lower()
Splitter = Callable[[str], list[str]]
# number of matches, of units in the prediction, and of units in its reference, (P,) each
Counts = tuple[np.ndarray, np.ndarray, np.ndarray]
Measure = Callable[[Batch], Counts]


def count_matches(
    predictions: Sequence[str],
    rows: Sequence[Sequence[str]],
    reader: "Reader",
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
    batches = []
    any_words = False
    with progress_bar(None, "ROUGE", sum(map(len, rows))) as bar:
        for texts in _batches(predictions, rows):
            batch = reader.read(texts)
            any_words = any_words or batch.sizes[1::2].any()
            batches.append(np.array([measure(batch) for measure in measures.values()]))
            bar.update(len(texts) // 2)
    if not any_words:
        raise ValueError(no_words("nothing to score: no reference has any words", language))
    return dict(zip(measures, np.concatenate(batches, axis=2), strict=True))


def _batches(predictions: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Texts of pairs to score at once: a prediction, one of its references, the next prediction, …."""
    texts: list[str] = []
    room = _BATCH_SIZE
    for prediction, row in zip(predictions, rows, strict=True):
        for text in row:
            room -= _PAIR_SIZE + len(prediction) + len(text)
            if texts and room < 0:
                yield texts
                texts, room = [], _BATCH_SIZE - _PAIR_SIZE - len(prediction) - len(text)
            texts += prediction, text
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
        return _scores(*np.add.reduceat(counts, starts, axis=1))
    # the highest F of each row; the first wins ties
    order = np.lexsort((-_fmeasure(*counts), np.repeat(np.arange(len(sizes)), sizes)))
    return _scores(*counts[:, order[starts]])


def _fmeasure(hits: np.ndarray, in_peers: np.ndarray, in_models: np.ndarray) -> np.ndarray:
    """F as rouge-score rounds it, which decides ties between references."""
    precision, recall = hits / np.maximum(in_peers, 1), hits / np.maximum(in_models, 1)
    return 2 * precision * recall / np.where(hits > 0, precision + recall, 1)


def _scores(hits: np.ndarray, in_peers: np.ndarray, in_models: np.ndarray) -> Scores:
    """Scores in points from counts (N,); rows without anything to count score 0."""
    precision = 100 * (hits / np.maximum(in_peers, 1))
    recall = 100 * (hits / np.maximum(in_models, 1))
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / np.where(total > 0, total, 1))


def read_words(text: str) -> list[bytes]:
    """The words of an English text, lowercased, without hyphens and punctuation, with `END` for each line end."""
    return readable(text).encode().translate(_READ).replace(b"\n", b" %b " % END).split()


class Reader(dict[bytes | str, int]):
    """Word -> number from 1, the same for words with the same stem; filled as the words of texts are looked up.

    Args:
        tokens: the words of a text, with `END` for each line end.
        stem: maps a word to its stem; None leaves words unchanged.
        splitters: splits a text into sentences; a second one does so for ROUGE-L.
    """

    def __init__(self, tokens: Callable[[str], list], stem: Callable[[str], str] | None, *splitters: Splitter):
        super().__init__()
        self._tokens, self._stem = tokens, stem
        # each prediction is read once per reference
        self._splitters = [lru_cache(maxsize=2)(split) for split in splitters]
        self._stems: dict[bytes | str, int] = {}

    def __missing__(self, word: bytes) -> int:
        stem = word if self._stem is None else self._stem(word.decode())
        number = self[word] = 0 if word == END else self._stems.setdefault(stem, len(self._stems) + 1)
        return number

    def read(self, texts: list[str]) -> Batch:
        """The words of these texts."""
        if len(self) > _VOCABULARY:
            self.clear()
            self._stems.clear()
        read = [self._read(texts, split) for split in self._splitters]
        ids, owners, _ = read[0]
        return Batch(ids, owners, np.bincount(owners, minlength=len(texts)), *read[-1])

    def _read(self, texts: list[str], split: Splitter) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lines = [split(text) for text in texts]
        tokens = self._tokens("\n".join(chain.from_iterable(lines)))
        ids = np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))
        words = ids > 0
        line = np.cumsum(~words)[words]
        owners = np.repeat(np.arange(len(texts), dtype=np.int64), list(map(len, lines)))
        return ids[words], owners[line], line


def sentence_splitter(language: str, sentences: str) -> Splitter:
    """The splitter into sentences that ROUGE-L compares.

    Args:
        sentences: "split" splits lines into sentences, "lines" treats each line as one.
    """
    if sentences == "lines":
        return lambda text: text.split("\n")
    # a line end is the end of a sentence to a reader
    return lambda text: [sentence.replace("\n", " ") for sentence in split_sentences(text, language)]


def other_reader(language: str, units: str, split: Splitter) -> Reader:
    """The reader of texts in languages other than English, see `split_words`."""

    def tokens(text: str) -> list[str | bytes]:
        return [token for line in text.split("\n") for token in (*split_words(line, language, units), END)]

    return Reader(tokens, None, split)


def counted(batch: Batch, grams: np.ndarray, texts: np.ndarray) -> Counts:
    """The counts of units, given by the number of each and the number of its text, (N,) both."""
    sizes = np.bincount(texts, minlength=len(batch.sizes))
    return matches(grams, texts, len(sizes) // 2), sizes[::2], sizes[1::2]


def matches(grams: np.ndarray, owners: np.ndarray, pairs: int, sides: int = 2) -> np.ndarray:
    """Number of units common to all sides of each pair, each as often as its rarest side has it, (pairs,).

    Args:
        grams: number of each unit, (N,).
        owners: number of its pair, times `sides`, plus number of the side that has it, (N,).
    """
    vocabulary = grams.max(initial=0) + 1
    pair, side = np.divmod(owners, sides)
    keys, numbers = np.unique((pair * vocabulary + grams) * sides + side, return_counts=True)
    units = keys // sides
    # a unit of all sides has as many consecutive keys
    common = np.flatnonzero(units[sides - 1 :] == units[: 1 - sides])
    fewest = np.minimum.reduce([numbers[common + shift] for shift in range(sides)])
    return np.bincount(units[common] // vocabulary, fewest, pairs)


def ngrams(size: int) -> Measure:
    """The measure of n-grams, across sentences."""

    def measure(batch: Batch) -> Counts:
        grams, vocabulary = batch.ids, batch.ids.max(initial=0) + 1
        for shift in range(1, size):
            # renumbered, so that three words fit into an integer
            grams = grams if shift == 1 else np.unique(grams, return_inverse=True)[1]
            grams = grams[:-1] * vocabulary + batch.ids[shift:]
        texts = batch.texts[: len(grams)]
        within = texts == batch.texts[size - 1 :]
        return counted(batch, grams[within], texts[within])

    return measure


def skip_bigrams_4(batch: Batch) -> Counts:
    """Like `skip_bigrams`, but with at most 4 words between those of a pair."""
    ids, texts = batch.ids, batch.texts
    firsts = [np.flatnonzero(texts[:-distance] == texts[distance:]) for distance in range(1, 6)]
    # for a single word, the second is 0
    seconds = [0, *(ids[first + distance] for distance, first in enumerate(firsts, 1))]
    firsts.insert(0, firsts[0])
    vocabulary = ids.max(initial=0) + 1
    grams = [ids[first] * vocabulary + second for first, second in zip(firsts, seconds, strict=True)]
    return counted(batch, np.concatenate(grams), texts[np.concatenate(firsts)])


def skip_bigrams(batch: Batch) -> Counts:
    """Count single words except the last, which the script ROUGE-1.5.5 leaves out, and all pairs in order."""
    sizes = batch.sizes
    first = np.flatnonzero(batch.texts[:-1] == batch.texts[1:])
    hits = matches(batch.ids[first], batch.texts[first], len(sizes) // 2)
    words = [text.tolist() for text in np.split(batch.ids, np.cumsum(sizes)[:-1])]
    hits += list(map(_common_pairs, words[::2], words[1::2]))
    skips = np.maximum(sizes - 1, 0) + sizes * (sizes - 1) // 2
    return hits, skips[::2], skips[1::2]


def _common_pairs(one: list[int], other: list[int]) -> int:
    """Number of ordered word pairs common to both texts, each as often as the text that has it less often.

    A text has quadratically many pairs, so they are counted by their words: each word adds the counts of the words
    before it.
    """
    numbers = {word: number for number, word in enumerate(set(one) & set(other))}
    texts = [[numbers[word] for word in text if word in numbers] for text in (one, other)]
    # few enough earlier words at once that the counts of a long text need little memory
    step = _PAIRS // max(len(numbers), 1) + 1
    common = 0
    for start in range(0, len(numbers), step):
        size = min(step, len(numbers) - start)
        counts = np.zeros((2, len(numbers), size), dtype=np.int64)
        for after, text in zip(counts, texts, strict=True):
            before = np.zeros(size, dtype=np.int64)
            for number in text:
                after[number] += before
                if start <= number < start + size:
                    before[number - start] += 1
        common += int(np.minimum(*counts).sum())
    return common


def sequence_lcs(batch: Batch) -> Counts:
    """ROUGE-L of texts as single sequences: the length of their LCS."""
    texts = np.stack([np.cumsum(batch.sizes) - batch.sizes, batch.sizes])
    hits = np.zeros(len(batch.sizes) // 2)
    for pairs, flags in lcs_positions(batch.ids, texts[:, 1::2], texts[:, ::2], traced=False):
        hits[pairs] = flags.sum(axis=1)
    return hits, batch.sizes[::2], batch.sizes[1::2]


def summary_lcs(batch: Batch) -> Counts:
    """ROUGE-L of whole summaries: for each of the model's sentences, the union of its LCSs with all of the peer's."""
    matched = np.zeros(len(batch.lines), dtype=bool)
    for models, peers in _sentence_pairs(batch):
        for pairs, flags in lcs_positions(batch.line_ids, models, peers, traced=True):
            pair, position = np.nonzero(flags)
            matched[models[0, pairs[pair]] + position] = True
    # a word with several matches counts at most as often as it occurs in both texts
    grams = np.concatenate([batch.ids, batch.line_ids[matched]])
    owners = np.concatenate([batch.texts // 2 * 3 + batch.texts % 2, batch.line_texts[matched] // 2 * 3 + 2])
    hits = matches(grams, owners, len(batch.sizes) // 2, sides=3)
    return hits, batch.sizes[::2], np.bincount(batch.line_texts, minlength=len(batch.sizes))[1::2]


def _sentence_pairs(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Starts and lengths of references' sentences and of predictions', each with each, (2, n); n is bounded."""
    starts = np.flatnonzero(np.diff(batch.lines, prepend=-1))
    sentences = np.stack([starts, np.diff(starts, append=len(batch.lines))])
    texts = batch.line_texts[starts]
    numbers = np.bincount(texts, minlength=len(batch.sizes))
    models = np.flatnonzero(texts % 2)
    peers = texts[models] - 1
    ends = np.cumsum(numbers[peers])
    firsts = np.cumsum(numbers)[peers] - ends
    for start in range(0, int(ends.max(initial=0)), _SENTENCE_PAIRS):
        pairs = np.arange(start, min(start + _SENTENCE_PAIRS, ends[-1]))
        model = np.searchsorted(ends, pairs, "right")
        yield sentences[:, models[model]], sentences[:, firsts[model] + pairs]


def lcs_positions(
    ids: np.ndarray, models: np.ndarray, peers: np.ndarray, traced: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield numbers of pairs (n,) and flags of their references' positions, as many as the LCS is long, (n, width).

    A column of a pair's dynamic program is one integer whose bit i says that position i of the reference extends the
    LCS (Hyyrö 2004). ROUGE-1.5.5 and rouge-score trace back diagonally at equal words, otherwise up where position i
    adds nothing, otherwise left. So the next position visited in a column is the highest one below that extends the LCS
    or is equal. An array holds the columns of many pairs; only references of more than 64 words need Python's integers.

    Args:
        ids: the words of all sequences, (W,).
        models: start and number of words of each pair's reference, (2, N).
        peers: the same for the predictions.
        traced: whether the positions are those of the LCS that ROUGE-1.5.5 chooses.
    """
    # so that the windows of the last words are complete
    ids = np.pad(ids.astype(np.int32), (0, _WIDTHS[-1]))
    # pairs whose predictions have ended are the last columns
    order = np.argsort(-peers[1], kind="stable")
    widths = np.searchsorted(_WIDTHS, models[1, order])
    for size_class in range(len(_WIDTHS) + 1):
        group = order[widths == size_class]
        is_single = size_class == len(_WIDTHS) or len(group) <= _MAX_LOOPED
        step = 1 if is_single else _CELLS // _WIDTHS[size_class]
        for start in range(0, len(group), step):
            pairs = group[start : start + step]
            spans = models[:, pairs], peers[:, pairs]
            if is_single:
                model, peer = (ids[first : first + size].tolist() for ((first,), (size,)) in spans)
                yield pairs, _matched_single(model, peer, traced)
            else:
                yield pairs, _matched(ids, *spans, _WIDTHS[size_class], traced)


def _matched(ids: np.ndarray, models: np.ndarray, peers: np.ndarray, width: int, traced: bool) -> np.ndarray:
    """The flags of pairs, the longest prediction first, in integers of `width` bits."""
    words = np.lib.stride_tricks.sliding_window_view(ids, width)[models[0]]
    everything = _bits(np.arange(width) < models[1, :, None])
    flat = everything.copy()
    columns = []
    running = np.searchsorted(-peers[1], -np.arange(peers[1].max()))
    for column, pairs in enumerate(running.tolist()):
        equal = _bits(words[:pairs] == ids[peers[0, :pairs] + column, None])
        common = flat[:pairs] & equal
        flat[:pairs] = (flat[:pairs] + common | flat[:pairs] - common) & everything[:pairs]
        if traced:
            columns.append((equal, everything[:pairs] ^ flat[:pairs]))
    matched = np.zeros_like(flat) if traced else everything ^ flat
    below = everything
    for equal, grows in reversed(columns):
        pairs = len(equal)
        visited = (equal | grows) & below[:pairs]
        # all bits up to the highest one
        for power in range(width.bit_length() - 1):
            visited |= visited >> (1 << power)
        match = (visited ^ visited >> 1) & equal
        matched[:pairs] |= match
        below[:pairs] = visited ^ match
    return np.unpackbits(matched.view(np.uint8), bitorder="little").reshape(-1, width)


def _bits(flags: np.ndarray) -> np.ndarray:
    """Integers of these bits, the lowest first: (N, width) -> (N,)."""
    return np.packbits(flags.ravel(), bitorder="little").view(f"u{flags.shape[1] // 8}")


def _matched_single(model: list[int], peer: list[int], traced: bool) -> np.ndarray:
    """The flags of one pair of any length."""
    positions: dict[int, int] = {}
    for position, word in enumerate(model):
        positions[word] = positions.get(word, 0) | 1 << position
    everything = (1 << len(model)) - 1
    flat, grows = everything, 0
    columns = []
    for word in peer:
        equal = positions.get(word, 0)
        # otherwise the column equals the previous one
        if equal:
            common = flat & equal
            flat = (flat + common | flat - common) & everything
            grows = everything ^ flat
        if traced:
            columns.append((equal, grows))
    matched = 0 if traced else grows
    below = everything
    for equal, grows in reversed(columns):
        visited = ((equal | grows) & below).bit_length()
        if not visited:
            break
        below = (1 << visited) - 1
        if equal >> visited - 1 & 1:
            matched |= 1 << visited - 1
            below >>= 1
    raw = np.frombuffer(matched.to_bytes(-(-len(model) // 8), "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[None]
