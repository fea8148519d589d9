"""How abstractive a summary is: novelty, copying, compression, repetition, length; and the statistics of a corpus."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.significance import Scored, mean_over_rows, ratio
from hf_summ.evaluation.words import check_pairs, no_words, split_words, split_words_and_marks, warn_of_wordless

NGRAMS = (1, 2, 3, 4)
# Scores that are not shares, and so not in points.
_NO_SHARES = ("copy_density", "compression", "length")
# The scores with their titles in tables.
TITLES = {
    "novel1": "Novel 1-grams, %",
    "novel2": "Novel 2-grams, %",
    "novel3": "Novel 3-grams, %",
    "novel4": "Novel 4-grams, %",
    "repeated1": "Repeated 1-grams, %",
    "repeated2": "Repeated 2-grams, %",
    "repeated3": "Repeated 3-grams, %",
    "repeated4": "Repeated 4-grams, %",
    "copy_rate": "Copied words, %",
    "copy_position": "Position of copied words, %",
    "copy_density": "Copy density, words",
    "compression": "Compression",
    "length": "Length, words",
}

Average = Literal["macro", "micro"]
Count = Literal["types", "tokens"]
# The numerator and denominator of a score.
Fraction = tuple[float, float]


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
    split = split_words_and_marks if count_punctuation else split_words
    words = split(prediction, language)
    source_words: list[str] = []
    sentence_of_word: list[int] = []
    sentences = 0
    for sentence in split_sentences(source, language):
        sentence_words = split(sentence, language)
        if sentence_words:
            source_words.extend(sentence_words)
            sentence_of_word.extend([sentences] * len(sentence_words))
            sentences += 1
    word_ids: dict[str, int] = {}
    for word in source_words:
        word_ids.setdefault(word, len(word_ids) + 1)
    ids = np.array([word_ids.get(word, 0) for word in words])
    source_ids = np.array([word_ids[word] for word in source_words])
    matches = match_lengths(ids, source_ids)
    fragments = _fragments(ids, source_ids, matches, sentence_of_word)
    return Alignment(words, matches, fragments, len(source_words), sentences)


def _fragments(
    ids: np.ndarray, source_ids: np.ndarray, matches: Sequence[int], sentence_of_word: Sequence[int]
) -> list[Fragment]:
    """The fragments of a summary, from the left, given the numbers of its words and the source's.

    Args:
        ids, source_ids: as for `match_lengths`, which gives the `matches`.
        sentence_of_word: the sentence of each word of the source.
    """
    fragments = []
    # A fragment may occur many times in both texts. Its sentences are searched and stored once.
    sentences_of_run: dict[tuple[int, ...], tuple[int, ...]] = {}
    # Where the last fragment ends.
    end = 0
    for start, length in enumerate(matches):
        if length == 0 or start < end:
            continue
        end = start + length
        run = tuple(ids[start:end].tolist())
        if run not in sentences_of_run:
            positions = occurrences(ids[start:end], source_ids)
            sentences_of_run[run] = tuple([sentence_of_word[position] for position in positions])
        fragments.append(Fragment(start, length, sentences_of_run[run]))
    return fragments


def match_lengths(words: np.ndarray, source: np.ndarray) -> list[int]:
    """For each word, the length of the longest run of words that begins there and occurs in the source.

    Args:
        words, source: (W,) and (S,), the number of each word; 0 is a word that the source does not have.
    """
    positions = {word: np.flatnonzero(source == word) for word in set(words.tolist())}
    lengths = []
    # For the following word, the length of the run that begins at each position of the source.
    following = np.zeros(len(source) + 1, dtype=np.int64)
    for word in words[::-1].tolist():
        runs = np.zeros_like(following)
        runs[positions[word]] = following[positions[word] + 1] + 1
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

    A row whose source has no words has no value; a warning lists such rows.

    - `novel1` to `novel4`: share of the summary's n-grams that are not in the source, in points, 0 to 100. A summary
      shorter than n has no value. N-grams may cross sentence boundaries, in the summary and in the source.
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
    fractions_of_scores: dict[str, list[Fraction]] = {name: [] for name in TITLES}
    for alignment in _alignments(predictions, sources, language, count_punctuation):
        for name, fraction in _fractions(alignment, count).items():
            fractions_of_scores[name].append(fraction)
    scores = {}
    for name, fractions in fractions_of_scores.items():
        statistics = np.array(fractions, dtype=np.float64)
        if name not in _NO_SHARES:
            statistics *= [100.0, 1.0]
        # An empty summary has no compression, so the micro-average omits its source too.
        statistics = np.where(statistics[:, 1:] > 0, statistics, 0.0)
        scored = Scored(statistics, ratio)
        if average == "macro":
            scored = mean_over_rows(scored.rows())
        scores[name] = scored
    return scores


def _alignments(
    predictions: Sequence[str], sources: Sequence[str], language: str, count_punctuation: bool
) -> Iterator[Alignment]:
    check_pairs(predictions=predictions, sources=sources)
    pairs = zip(predictions, sources, strict=True)
    wordless_rows = []
    for row, (prediction, source) in enumerate(progress_bar(pairs, "novelty", len(sources))):
        alignment = align(prediction, source, language, count_punctuation)
        if not alignment.source_words:
            wordless_rows.append(row)
        yield alignment
    warn_of_wordless(wordless_rows, "sources", len(sources), "are left out", language, stacklevel=4)


def _fractions(alignment: Alignment, count: Count) -> dict[str, Fraction]:
    """The fraction of each score of a summary; without words in the source, all denominators are 0."""
    if not alignment.source_words:
        return dict.fromkeys(TITLES, (0, 0))
    fractions: dict[str, Fraction] = {}
    for n in NGRAMS:
        fractions.update(_fractions_of_ngrams(alignment, n, count))
    fractions.update(_fractions_of_copying(alignment))
    length = len(alignment.words)
    fractions["compression"] = alignment.source_words, length
    fractions["length"] = length, 1
    return fractions


def _fractions_of_ngrams(alignment: Alignment, n: int, count: Count) -> dict[str, Fraction]:
    """The shares of novel and of repeated n-grams."""
    ngrams = []
    novel_ngrams = []
    for start in range(len(alignment.words) - n + 1):
        ngram = tuple(alignment.words[start : start + n])
        ngrams.append(ngram)
        if alignment.matches[start] < n:
            novel_ngrams.append(ngram)
    distinct = len(set(ngrams))
    repeated = len(ngrams) - distinct
    if count == "types":
        return {f"novel{n}": (len(set(novel_ngrams)), distinct), f"repeated{n}": (repeated, len(ngrams))}
    return {f"novel{n}": (len(novel_ngrams), len(ngrams)), f"repeated{n}": (repeated, len(ngrams))}


def _fractions_of_copying(alignment: Alignment) -> dict[str, Fraction]:
    """How many words are copied, from where in the source, and in how long fragments."""
    length = len(alignment.words)
    copied_words = 0
    summed_squares = 0
    summed_positions = 0.0
    for fragment in alignment.fragments:
        copied_words += fragment.length
        summed_squares += fragment.length**2
        # The middle of sentence i is at i + 1/2. A fragment counts at the mean of its occurrences.
        middle = sum(fragment.sentences) / len(fragment.sentences) + 0.5
        summed_positions += fragment.length * middle
    return {
        "copy_rate": (copied_words, length),
        "copy_position": (summed_positions / alignment.source_sentences, copied_words),
        "copy_density": (summed_squares, length),
    }


def corpus_statistics(
    documents: Sequence[str], summaries: Sequence[str], language: str = "en", unit: str = "words"
) -> dict[str, float]:
    """Size, lengths and vocabularies of a corpus, rounded to 4 decimal places.

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
        ValueError: different numbers of documents and summaries, none at all, no words in the documents, or
            none in the summaries.
    """
    check_pairs(documents=documents, summaries=summaries)
    pairs = len(documents)
    document = _count(documents, "documents", language, unit)
    summary = _count(summaries, "summaries", language, unit)
    return {
        "pairs": pairs,
        "document_words": round(document.words / pairs, 4),
        "document_sentences": round(document.sentences / pairs, 4),
        "summary_words": round(summary.words / pairs, 4),
        "summary_sentences": round(summary.sentences / pairs, 4),
        "document_vocabulary": len(document.vocabulary),
        "summary_vocabulary": len(summary.vocabulary),
        "vocabulary": len(document.vocabulary | summary.vocabulary),
        "source_target_ratio": round(document.words / summary.words, 4),
    }


@dataclass
class _Counts:
    """Numbers of words and sentences in texts, and their distinct words."""

    words: int
    sentences: int
    vocabulary: set[str]


def _words_of_unit(sentence: str, language: str, unit: str) -> list[str]:
    if unit == "spaced":
        return sentence.lower().split()
    return split_words(sentence, language)


def _count(texts: Sequence[str], name: str, language: str, unit: str) -> _Counts:
    """The counts of all texts, whose name is for the progress bar and the message of an error."""
    counts = _Counts(words=0, sentences=0, vocabulary=set())
    for text in progress_bar(texts, name):
        for sentence in split_sentences(text, language):
            sentence_words = _words_of_unit(sentence, language, unit)
            if sentence_words:
                counts.words += len(sentence_words)
                counts.sentences += 1
                counts.vocabulary.update(sentence_words)
    if counts.words == 0:
        raise ValueError(no_words(f"nothing to count: none of the {name} has any words", language))
    return counts
