"""How abstractive a summary is: novelty, copying, compression, repetition, length; and the statistics of a corpus."""

from collections.abc import Sequence
from functools import partial
from itertools import compress
from typing import Literal, NamedTuple, get_args

import numpy as np

from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.significance import Scored, mean_over_rows, ratio
from hf_summ.evaluation.words import check_pairs, no_words, split_words, split_words_and_marks, warn_of_wordless

NGRAMS = (1, 2, 3, 4)
# measures that are not shares, so not in points
_PLAIN = ("copy_density", "compression", "length")
# score -> title
TITLES = {
    **{f"novel{n}": f"Novel {n}-grams, %" for n in NGRAMS},
    **{f"repeated{n}": f"Repeated {n}-grams, %" for n in NGRAMS},
    "copy_rate": "Copied words, %",
    "copy_position": "Position of copied words, %",
    "copy_density": "Copy density, words",
    "compression": "Compression",
    "length": "Length, words",
}

Average = Literal["macro", "micro"]
Count = Literal["types", "tokens"]


class Fragment(NamedTuple):
    """Consecutive words of a summary that also occur in its source: `length` of them from word `start` on.

    `sentences` are the source sentences, counted from 0, in which the fragment begins, one entry per occurrence.
    Sentences without words, such as a line of dashes, are not counted.
    """

    start: int
    length: int
    sentences: tuple[int, ...]


class Alignment(NamedTuple):
    """A summary aligned with its source.

    `matches` gives for each word of the summary the length of the longest fragment that begins there, 0 for a word that
    is not in the source; the n-gram that begins there is novel if this is less than n.
    """

    words: list[str]
    matches: list[int]
    fragments: list[Fragment]
    source_words: int
    source_sentences: int


def copied_fragments(
    prediction: str, source: str, language: str = "en", count_punctuation: bool = False
) -> list[Fragment]:
    """The extractive fragments F(A, S) of a summary, in its order (Grusky et al. 2018).

    The search is greedy from the left: the longest fragment at a word, then the next after its end. Fragments do not
    overlap.

    Args:
        prediction, source: the summary and its document.
        language: as for `RougeSettings`.
        count_punctuation: whether punctuation marks are words too.
    """
    return align(prediction, source, language, count_punctuation).fragments


def align(prediction: str, source: str, language: str, count_punctuation: bool = False) -> Alignment:
    """Match the words of `prediction` with those of `source`."""
    split = partial(split_words_and_marks if count_punctuation else split_words, language=language)
    words = split(prediction)
    source_words: list[str] = []
    sentence_of: list[int] = []
    for sentence in split_sentences(source, language):
        in_sentence = split(sentence)
        sentence_of += [sentence_of[-1] + 1 if sentence_of else 0] * len(in_sentence)
        source_words += in_sentence
    numbers = {word: number for number, word in enumerate(dict.fromkeys(source_words), 1)}
    ids, source_ids = (np.array([numbers.get(word, 0) for word in text]) for text in (words, source_words))
    lengths = match_lengths(ids, source_ids)
    fragments: list[Fragment] = []
    # the sentences of a fragment that occurs many times in both texts are stored once
    sentences: dict[tuple[int, ...], tuple[int, ...]] = {}
    free = 0
    for start, length in enumerate(lengths):
        if length and start >= free:
            free = start + length
            key = tuple(ids[start:free].tolist())
            if key not in sentences:
                positions = occurrences(ids[start:free], source_ids)
                sentences[key] = tuple(sentence_of[position] for position in positions)
            fragments.append(Fragment(start, length, sentences[key]))
    return Alignment(words, lengths, fragments, len(source_words), sentence_of[-1] + 1 if sentence_of else 0)


def match_lengths(words: np.ndarray, source: np.ndarray) -> list[int]:
    """For each word, the length of the longest run of words that begins there and occurs in the source.

    Args:
        words, source: (W,) and (S,), the number of each word; 0 is a word that the source does not have.
    """
    places = {word: np.flatnonzero(source == word) for word in set(words.tolist())}
    lengths = []
    # of the runs from the following word on, the length at each position of the source
    following = np.zeros(len(source) + 1, dtype=np.int64)
    for word in words[::-1].tolist():
        runs = np.zeros_like(following)
        runs[places[word]] = following[places[word] + 1] + 1
        lengths.append(int(runs.max()))
        following = runs
    return lengths[::-1]


def occurrences(run: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The positions in the source at which a run of words begins, ascending."""
    positions = np.arange(len(source) - len(run) + 1)
    for shift, word in enumerate(run):
        positions = positions[source[positions + shift] == word]
    return positions


def novelty(
    predictions: Sequence[str],
    sources: Sequence[str],
    language: str = "en",
    average: Average = "macro",
    count: Count = "types",
    count_punctuation: bool = False,
) -> dict[str, Scored]:
    """How abstractive the summaries are: score -> its average over the rows that have a value.

    A row whose source has no words has none, with a warning.

    - `novel1` to `novel4`: share of the summary's n-grams that are not in the source, in points, 0 to 100. A summary
      shorter than n has no value. N-grams cross sentence boundaries on both sides.
    - `repeated1` to `repeated4`: share of the summary's n-grams that occur earlier in it, in points.
    - `copy_rate`: share of the summary's words inside a fragment of the source, in points; the coverage of
      Grusky et al. 2018. `copy_density` is their density: the mean length, in words, of the fragment that a word
      belongs to, 0 for a word in none.
    - `copy_position`: mean relative position of the source sentences that the copied words come from, in points; the
      middle of sentence i of k is at 100 (i + 1/2) / k. A fragment with several occurrences counts at each with equal
      weight.
    - `compression`: number of words of the source per word of the summary (their compression).
    - `length`: number of words of the summary.

    Words are lowercased but not stemmed.

    Args:
        predictions, sources: one summary and one document per row.
        language: as for `RougeSettings`.
        average: "macro" is the mean of the rows' values; "micro" is the value of the corpus, where counts of n-grams,
            words and so on are summed over the rows before dividing.
        count: whether novel n-grams are counted once each ("types") or as often as they occur ("tokens").
        count_punctuation: whether punctuation marks are words too, as in counts of tokenized texts (Narayan et al.
            2018).

    Raises:
        ValueError: different numbers of predictions and sources, none at all, no source with words, or an unknown
            `average` or `count`.

    Warns:
        UserWarning: some sources have no words.
    """
    check_choice("`average`", average, get_args(Average))
    check_choice("`count`", count, get_args(Count))
    rows = []
    for alignment in _alignments(predictions, sources, language, count_punctuation):
        rows.append(_fractions(alignment, count))
    scores = {}
    for name, fractions in zip(TITLES, np.array(rows, dtype=np.float64).transpose(1, 0, 2), strict=True):
        scale = 1.0 if name in _PLAIN else 100.0
        # an empty summary has no compression, so the micro-average omits its source too
        scored = Scored(np.where(fractions[:, 1:] > 0, fractions * [scale, 1.0], 0.0), ratio)
        scores[name] = scored if average == "micro" else mean_over_rows(scored.rows())
    return scores


def _alignments(predictions: Sequence[str], sources: Sequence[str], language: str, count_punctuation: bool):
    check_pairs(predictions=predictions, sources=sources)
    pairs = zip(predictions, sources, strict=True)
    wordless = []
    for number, (prediction, source) in enumerate(progress_bar(pairs, "novelty", len(sources))):
        row = align(prediction, source, language, count_punctuation)
        if not row.source_words:
            wordless.append(number)
        yield row
    warn_of_wordless(wordless, "sources", len(sources), "are left out", language, stacklevel=4)


def _fractions(row: Alignment, count: Count) -> list[tuple[float, float]]:
    """Numerator and denominator of each of `TITLES` for one summary; denominators are 0 without a source."""
    if not row.source_words:
        return [(0, 0)] * len(TITLES)
    words = row.words
    length = len(words)
    novel, repeated = [], []
    for n in NGRAMS:
        ngrams = list(zip(*(words[shift:] for shift in range(n)), strict=False))
        new = [match < n for match in row.matches[: len(ngrams)]]
        types = len(set(ngrams))
        if count == "types":
            novel.append((len(set(compress(ngrams, new))), types))
        else:
            novel.append((sum(new), len(ngrams)))
        repeated.append((len(ngrams) - types, len(ngrams)))
    copied = sum(fragment.length for fragment in row.fragments)
    squares = sum(fragment.length**2 for fragment in row.fragments)
    # mean of i + 1/2 over a fragment's occurrences
    middles = sum(one.length * (sum(one.sentences) / len(one.sentences) + 0.5) for one in row.fragments)
    copying = (copied, length), (middles / row.source_sentences, copied), (squares, length)
    return [*novel, *repeated, *copying, (row.source_words, length), (length, 1)]


def corpus_statistics(
    documents: Sequence[str], summaries: Sequence[str], language: str = "en", unit: str = "words"
) -> dict[str, float]:
    """Size, lengths and vocabularies of a corpus, rounded to 4 digits.

    - `pairs`: number of documents with their summaries.
    - `document_words`, `document_sentences`, `summary_words`, `summary_sentences`: means (Table 1 of the GDLF paper).
    - `document_vocabulary`, `summary_vocabulary`, `vocabulary`: number of distinct words in the documents, in the
      summaries and in both together.
    - `source_target_ratio`: number of words of the documents per word of the summaries (Table 5.1 of Aksenov 2020,
      whose words are WordPieces).

    Words are those that ROUGE compares, lowercased and without punctuation; a sentence has at least one. Papers that
    count punctuation marks as words report about 13% more words in English news. GDLF's counts words
    between white space.

    Args:
        documents, summaries: one document and its summary per row.
        language: as for `RougeSettings`.
        unit: what a word is: "words", or "spaced" for anything between white space.

    Raises:
        ValueError: different numbers of documents and summaries, none at all, or no words in either.
    """
    check_pairs(documents=documents, summaries=summaries)
    statistics: dict[str, float] = {"pairs": len(documents)}
    words: dict[str, int] = {}
    vocabularies: dict[str, set[str]] = {}
    for side, plural, texts in (("document", "documents", documents), ("summary", "summaries", summaries)):
        words[side], sentences, vocabularies[side] = _count(texts, plural, language, unit)
        if not words[side]:
            raise ValueError(no_words(f"nothing to count: none of the {plural} has any words", language))
        statistics[f"{side}_words"] = round(words[side] / len(texts), 4)
        statistics[f"{side}_sentences"] = round(sentences / len(texts), 4)
    for side, vocabulary in vocabularies.items():
        statistics[f"{side}_vocabulary"] = len(vocabulary)
    statistics["vocabulary"] = len(set().union(*vocabularies.values()))
    statistics["source_target_ratio"] = round(words["document"] / words["summary"], 4)
    return statistics


def _count(texts: Sequence[str], name: str, language: str, unit: str) -> tuple[int, int, set[str]]:
    """Number of words and sentences of all texts, and their distinct words."""
    words = sentences = 0
    vocabulary: set[str] = set()
    for text in progress_bar(texts, name):
        for sentence in split_sentences(text, language):
            in_sentence = sentence.lower().split() if unit == "spaced" else split_words(sentence, language)
            words += len(in_sentence)
            sentences += bool(in_sentence)
            vocabulary.update(in_sentence)
    return words, sentences, vocabulary
