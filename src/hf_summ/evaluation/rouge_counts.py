"""The matches of a prediction with its references, counted in the same way for every kind of ROUGE (Lin 2004).

Words are numbers here: each kind of ROUGE decides which words a text has, which of them are equal, and how several
references are combined into one score.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from hf_summ.common.messages import progress_bar, unknown_choice
from hf_summ.data.sentences import SPLITTERS, split_sentences
from hf_summ.evaluation.words import check_pairs, no_words, split_words
from hf_summ.models.checks import is_list


class Scores(NamedTuple):
    """Precision, recall and F of each example, (N,) each, in points, 0 to 100."""

    precision: np.ndarray
    recall: np.ndarray
    fmeasure: np.ndarray


class Text(NamedTuple):
    """Word ids as one sequence, and sentence by sentence as ROUGE-L reads them."""

    words: list[int]
    sentences: list[list[int]]


# what counts of several references
SEVERAL = ("best", "mean", "pooled")
# of two words, counted at once
_PAIRS = 1 << 21
# one pass lowercases A to Z and blanks all bytes but letters and digits, including those of letters outside ASCII
_READ = bytes(code if chr(code).isascii() and chr(code).isalnum() else 32 for code in range(256)).lower()
Reader = Callable[[str], Text]
Splitter = Callable[[str], list[str]]
# number of matches, of units in the prediction, and of units in its references
Counts = tuple[int, int, int]
Measure = Callable[[Text, list[Text]], Counts]


def check_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Each row's references as a list.

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, or a value
            that is not a string.
    """
    check_pairs(predictions, references)
    rows: list[list] = [list(row) if is_list(row) else [row] for row in references]
    for position, (prediction, row) in enumerate(zip(predictions, rows, strict=True)):
        if not row:
            raise ValueError(f"row {position} has no reference: give at least one text, which may be empty")
        for text in (prediction, *row):
            if not isinstance(text, str):
                raise ValueError(
                    f"texts must be strings, but row {position} holds {type(text).__name__}: {text!r:.80}; give '' for "
                    "an empty text"
                )
    return rows


def check_options(
    rouge_types: Sequence[str], known: Iterable[str], sentences: str, splitter: str, several: str | None
) -> None:
    """Raise a ValueError for no ROUGE types, an unknown one or an unknown value of another option."""
    if not rouge_types:
        raise ValueError(f"`rouge_types` is empty: choose from {', '.join(known)}")
    for rouge_type in rouge_types:
        if rouge_type not in known:
            raise ValueError(unknown_choice("ROUGE type", rouge_type, known))
    if sentences not in ("split", "lines"):
        raise ValueError(
            f"`sentences` is {sentences!r:.80}, but must be 'split', to split lines into sentences, or 'lines', to "
            "treat each line as one"
        )
    if splitter not in SPLITTERS:
        raise ValueError(unknown_choice("`splitter`", splitter, SPLITTERS))
    if several is not None and several not in SEVERAL:
        raise ValueError(unknown_choice("`several`", several, SEVERAL))


def score_rows(
    predictions: Sequence[str],
    rows: list[list[str]],
    read: Reader,
    measures: dict[str, Measure],
    title: str,
    language: str,
    several: str,
) -> dict[str, Scores]:
    """Compute every measure of every row, with a progress bar titled `title`.

    Args:
        several: one of `SEVERAL`.

    Raises:
        ValueError: no reference has any words.
    """
    sizes = np.array([len(row) for row in rows])
    if several == "mean" and sizes.max() > 1:
        pairs = [(prediction, [text]) for prediction, row in zip(predictions, rows, strict=True) for text in row]
        scores = score_rows(*map(list, zip(*pairs, strict=True)), read, measures, title, language, "pooled")
        starts = np.cumsum(sizes) - sizes
        return {
            metric: Scores(*(np.add.reduceat(column, starts) / sizes for column in columns))
            for metric, columns in scores.items()
        }
    if several == "best":
        measures = {metric: _of_best(measure) for metric, measure in measures.items()}
    counts = np.zeros((len(measures), 3, len(rows)))
    any_words = False
    pairs = zip(predictions, rows, strict=True)
    for position, (prediction, row) in enumerate(progress_bar(pairs, title, len(rows))):
        peer = read(prediction)
        models = [read(text) for text in row]
        any_words = any_words or any(model.words for model in models)
        for place, measure in enumerate(measures.values()):
            counts[place, :, position] = measure(peer, models)
    if not any_words:
        raise ValueError(no_words("nothing to score: no reference has any words", language))
    return {metric: _scores(*counts[place]) for place, metric in enumerate(measures)}


def _of_best(measure: Measure) -> Measure:
    """The measure against the reference with the highest F, the first one in case of ties."""

    def best(peer: Text, models: list[Text]) -> Counts:
        if len(models) == 1:
            return measure(peer, models)
        return max((measure(peer, [model]) for model in models), key=_fmeasure)

    return best


def _fmeasure(counts: Counts) -> float:
    """F as rouge-score rounds it, which decides ties between references."""
    hits, in_peer, in_model = counts
    precision, recall = hits / max(in_peer, 1), hits / max(in_model, 1)
    return 2 * precision * recall / (precision + recall) if hits else 0.0


def _scores(hits: np.ndarray, in_peers: np.ndarray, in_models: np.ndarray) -> Scores:
    """Scores in points from counts (N,); rows without anything to count score 0."""
    precision = 100 * hits / np.maximum(in_peers, 1)
    recall = 100 * hits / np.maximum(in_models, 1)
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / np.where(total > 0, total, 1))


def read_words(text: bytes) -> list[bytes]:
    """The words of `text`, lowercased, without hyphens and punctuation."""
    return text.translate(_READ).split()


class Ids(dict[bytes, int]):
    """Word -> id, the same for words with the same stem; filled as words are looked up."""

    def __init__(self, stem: Callable[[str], str] | None):
        super().__init__()
        self._stems: dict[str, int] = {}
        self._stem = stem

    def __missing__(self, word: bytes) -> int:
        read = word.decode()
        number = self._stems.setdefault(read if self._stem is None else self._stem(read), len(self._stems))
        self[word] = number
        return number

    def read(self, text: bytes) -> list[int]:
        """The ids of an English text's words."""
        return list(map(self.__getitem__, read_words(text)))


def sentence_splitter(language: str, sentences: str, splitter: str) -> Splitter:
    """What finds the sentences that ROUGE-L compares.

    Args:
        sentences: "split" splits lines into sentences, "lines" treats each line as one.
        splitter: as for `split_sentences`.
    """
    if sentences == "lines":
        return lambda text: text.split("\n")
    return lambda text: split_sentences(text, language, splitter)


def line_reader(read_line: Callable[[str], list[int]], split: Splitter) -> Reader:
    """The function that reads a text sentence by sentence."""

    def read(text: str) -> Text:
        return joined([read_line(line) for line in split(text)])

    return read


def joined(sentences: list[list[int]]) -> Text:
    """The text consisting of these sentences."""
    return Text(sentences[0] if len(sentences) == 1 else list(chain.from_iterable(sentences)), sentences)


def other_reader(language: str, units: str, split: Splitter) -> Reader:
    """The function that reads texts in languages other than English, see `split_words`."""
    ids: dict[str, int] = {}
    return line_reader(
        lambda line: [ids.setdefault(word, len(ids)) for word in split_words(line, language, units)], split
    )


def counted(grams: Callable[[list[int]], Iterable]) -> Measure:
    """The measure that compares counts of `grams`, summed over several references."""

    def measure(peer: Text, models: list[Text]) -> Counts:
        in_peer = Counter(grams(peer.words))
        hits = in_models = 0
        for model in models:
            in_model = Counter(grams(model.words))
            hits += sum([min(in_model[gram], in_peer[gram]) for gram in in_model.keys() & in_peer.keys()])
            in_models += in_model.total()
        return hits, len(models) * in_peer.total(), in_models

    return measure


def ngrams(size: int) -> Measure:
    """The measure of n-grams, across sentences."""
    if size == 1:
        return counted(iter)
    return counted(lambda words: zip(*(words[start:] for start in range(size)), strict=False))


def skip_bigrams(peer: Text, models: list[Text]) -> Counts:
    """Count single words except the last, which the script ROUGE-1.5.5 leaves out, and all pairs in order."""
    hits = in_models = 0
    for model in models:
        in_models += _number_of_skips(model.words)
        hits += (Counter(peer.words[:-1]) & Counter(model.words[:-1])).total()
        hits += _common_pairs(peer.words, model.words)
    return hits, len(models) * _number_of_skips(peer.words), in_models


def _common_pairs(one: list[int], other: list[int]) -> int:
    """How many pairs of words in order both texts have, each as often as in the text that has it less often.

    There are as many pairs as the square of a text's length, so they are counted by their words: at each word, as often
    as each other word was before it.
    """
    kinds = {word: kind for kind, word in enumerate(set(one) & set(other))}
    texts = [[kinds[word] for word in text if word in kinds] for text in (one, other)]
    # so many earlier words at once that the counts of a long text need little memory
    step = _PAIRS // max(len(kinds), 1) + 1
    common = 0
    for start in range(0, len(kinds), step):
        size = min(step, len(kinds) - start)
        counts = np.zeros((2, len(kinds), size), dtype=np.int64)
        for after, text in zip(counts, texts, strict=True):
            before = np.zeros(size, dtype=np.int64)
            for kind in text:
                after[kind] += before
                if start <= kind < start + size:
                    before[kind - start] += 1
        common += int(np.minimum(*counts).sum())
    return common


def _number_of_skips(words: list[int]) -> int:
    return max(len(words) - 1, 0) + len(words) * (len(words) - 1) // 2


def skip_bigrams_4(words: list[int]) -> Iterable:
    """Like `skip_bigrams`, but with at most 4 words between those of a pair."""
    return chain(words[:-1], *(zip(words, words[distance:], strict=False) for distance in range(1, 6)))


def sequence_lcs(peer: Text, models: list[Text]) -> Counts:
    """ROUGE-L of texts as single sequences: the length of their LCS."""
    hits = in_models = 0
    for model in models:
        in_models += len(model.words)
        everything = (1 << len(model.words)) - 1
        places = _places(model.words)
        flat = everything
        for word in peer.words:
            # a word that is not in the model leaves the column unchanged
            if word in places:
                common = flat & places[word]
                flat = (flat + common | flat - common) & everything
        hits += (everything ^ flat).bit_count()
    return hits, len(models) * len(peer.words), in_models


def summary_lcs(peer: Text, models: list[Text]) -> Counts:
    """ROUGE-L of whole summaries: for each of the model's sentences, the union of its LCSs with all of the peer's."""
    hits = in_models = 0
    for model in models:
        in_models += sum(map(len, model.sentences))
        left_model, left_peer = Counter(model.words), Counter(peer.words)
        for sentence in model.sentences:
            matched = matched_places(sentence, peer.sentences)
            # a word in several matches counts as often as it occurs in both texts
            while matched:
                place = matched & -matched
                word = sentence[place.bit_length() - 1]
                matched ^= place
                if left_model[word] > 0 and left_peer[word] > 0:
                    hits += 1
                    left_model[word] -= 1
                    left_peer[word] -= 1
    return hits, len(models) * len(peer.words), in_models


def matched_places(sentence: list[int], others: list[list[int]]) -> int:
    """Bits of the positions of `sentence` on its LCS with any of `others`; among equal paths, ROUGE-1.5.5's is taken.

    A column of the dynamic program is one integer whose bit i says that position i extends the LCS (Hyyrö 2004). The
    script, like rouge-score, goes back diagonally at equal words, otherwise up where position i adds nothing, otherwise
    left. So the next position it visits in a column is the highest one below that extends the LCS or is equal.
    """
    everything = (1 << len(sentence)) - 1
    places = _places(sentence)
    union = 0
    for other in others:
        equals = [places.get(word, 0) for word in other]
        flat = everything
        columns = []
        for equal in equals:
            common = flat & equal
            flat = (flat + common | flat - common) & everything
            columns.append(everything ^ flat)
        below = everything
        for equal, grows in zip(reversed(equals), reversed(columns), strict=True):
            place = ((equal | grows) & below).bit_length()
            if not place:
                break
            below = (1 << place) - 1
            if equal >> place - 1 & 1:
                union |= 1 << place - 1
                below >>= 1
    return union


def _places(words: list[int]) -> dict[int, int]:
    """Word -> the bits of its positions."""
    places: dict[int, int] = {}
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    return places
