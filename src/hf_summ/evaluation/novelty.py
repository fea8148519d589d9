"""How abstractive a summary is: novelty, copying, compression, repetition, length; and the statistics of a corpus.

A fragment is a run of words that a summary copies from its source (Grusky et al. 2018). An n-gram of a summary is novel
if its source does not have it. Each score of a summary is a fraction, a numerator and a denominator, so that it can be
averaged over summaries or computed for the whole corpus.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.significance import Scored, mean_over_rows, ratio
from hf_summ.evaluation.words import (
    check_pairs,
    lowercased,
    no_words_message,
    split_words,
    split_words_and_marks,
    warn_of_wordless,
)

# The sizes of n-grams.
NGRAMS = (1, 2, 3, 4)
# Scores that are not shares. All other scores are shares in points, 0 to 100.
_NO_SHARES = ("copy_density", "compression", "length")
# Score -> title in tables.
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

# How a score is averaged, and what novel n-grams are counted as; see `novelty`.
Average = Literal["macro", "micro"]
Count = Literal["types", "tokens"]
# The numerator and denominator of a summary's score. If the denominator is 0, the summary has no value.
Fraction = tuple[float, float]


class Fragment(NamedTuple):
    """Consecutive words of a summary that also occur consecutively in the summary's source.

    Attributes:
        start: the index of the fragment's first word in the summary.
        length: how many words the fragment has.
        sentences: for each occurrence of the fragment in the source, the index of the source sentence in which the
            occurrence begins. Sentences without words, such as a line of dashes, are not counted.
    """

    start: int
    length: int
    sentences: tuple[int, ...]


class Alignment(NamedTuple):
    """The words of a summary, and which of them the source has.

    Attributes:
        words: the words of the summary.
        matches: for each word of the summary, the length of the longest run of words that begins there and occurs in
            the source; 0 for a word that is not in the source. The n-gram that begins at a word is novel if this length
            is less than n.
        fragments: the fragments of the summary, in the summary's order.
        source_words: the number of words of the source.
        source_sentences: the number of sentences of the source that have words.
    """

    words: list[str]
    matches: list[int]
    fragments: list[Fragment]
    source_words: int
    source_sentences: int


def copied_fragments(
    prediction: str, source: str, language: str = "en", count_punctuation: bool = False
) -> list[Fragment]:
    """The extractive fragments F(A, S) of a summary, in the summary's order (Grusky et al. 2018).

    The search is greedy from the left: it takes the longest fragment that begins at a word, and goes on behind the end
    of this fragment. So fragments do not overlap.

    Args:
        prediction, source: the summary and its document.
        language: ISO 639 code, which says how words are separated; see `split_words`.
        count_punctuation: whether punctuation marks are words too.

    Raises:
        TypeError: a text is not a string.
        ValueError: the language is unknown.
    """
    return align(prediction, source, language, count_punctuation).fragments


def align(prediction: str, source: str, language: str, count_punctuation: bool = False) -> Alignment:
    """Align a summary with its source: which words, runs of words and fragments of the summary the source has.

    A source without words matches nothing. Arguments and errors are as for `copied_fragments`.
    """
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
    # Word of the source -> its id. Words of the summary that the source does not have get the id 0.
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
    """The fragments of a summary, in the summary's order.

    A fragment begins at the first word that occurs in the source and lies behind the previous fragment. The number of
    its words is the entry of `matches` for this word.

    Args:
        ids: (W,), the id of each word of the summary. A word that the source does not have has the id 0.
        source_ids: (S,), the id of each word of the source.
        matches: (W,), for each word of the summary, the length of the longest run that begins there and occurs in the
            source; see `match_lengths`.
        sentence_of_word: (S,), the index of the sentence of each word of the source.
    """
    fragments = []
    # The ids of a run of words -> the sentences of the source in which the run begins. A summary may have the same run
    # several times, and the source is searched only once for each run.
    sentences_of_run: dict[tuple[int, ...], tuple[int, ...]] = {}
    # The index of the word behind the fragment that was found last.
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


def match_lengths(ids: np.ndarray, source_ids: np.ndarray) -> list[int]:
    """For each word of a summary, the length of the longest run of words that begins there and occurs in the source.

    Args:
        ids: (W,), the id of each word of the summary. A word that the source does not have has the id 0.
        source_ids: (S,), the id of each word of the source, above 0.

    Returns:
        W lengths, 0 for a word that the source does not have.
    """
    positions_of_id = {word_id: np.flatnonzero(source_ids == word_id) for word_id in set(ids.tolist())}
    # The words of the summary are read from the last to the first. Number j in `run_lengths` is the length of the
    # longest run that begins both at the current word of the summary and at word j of the source. The summary and the
    # source go on in step, so this run is one word longer than the run from the next word and from word j + 1. The zero
    # for j = S, behind the last word of the source, ends the runs that reach the end of the source.
    lengths = []
    next_run_lengths = np.zeros(len(source_ids) + 1, dtype=np.int64)
    for word_id in reversed(ids.tolist()):
        positions = positions_of_id[word_id]
        run_lengths = np.zeros_like(next_run_lengths)
        run_lengths[positions] = next_run_lengths[positions + 1] + 1
        lengths.append(int(run_lengths.max()))
        next_run_lengths = run_lengths
    lengths.reverse()
    return lengths


def occurrences(run: np.ndarray, source_ids: np.ndarray) -> np.ndarray:
    """The positions in the source at which a run of words begins, ascending.

    Args:
        run: (L,), the ids of the run's words.
        source_ids: (S,), the id of each word of the source.
    """
    positions = np.arange(len(source_ids) - len(run) + 1)
    for shift, word_id in enumerate(run):
        # A position stays if the run's next word follows there too.
        positions = positions[source_ids[positions + shift] == word_id]
    return positions


def novelty(
    predictions: Sequence[str],
    sources: Sequence[str],
    language: str = "en",
    average: Average = "macro",
    count: Count = "types",
    count_punctuation: bool = False,
) -> dict[str, Scored]:
    """How abstractive summaries are, beside their sources.

    The scores of a summary:

    - `novel1` to `novel4`: the share of the summary's n-grams that are not in the source, in points, 0 to 100. A
      summary shorter than n has no value. N-grams may cross the ends of sentences, in the summary and in the source.
    - `repeated1` to `repeated4`: the share of the summary's n-grams that occur earlier in the summary, in points.
    - `copy_rate`: the share of the summary's words inside a fragment, in points. This is the coverage of Grusky et al.
      (2018).
    - `copy_density`: the mean length, in words, of the fragment to which a word of the summary belongs, 0 for a word in
      no fragment. This is the density of Grusky et al.
    - `copy_position`: the mean relative position of the source sentences from which the copied words come, in points.
      The middle of sentence i of k, counted from 0, is at 100 (i + 1/2) / k. A fragment with several occurrences counts
      at each with equal weight. A summary without fragments has no value.
    - `compression`: the number of words of the source per word of the summary. This is the compression of Grusky et al.
    - `length`: the number of words of the summary.

    A summary without words has only a length, and a row whose source has no words has no value at all. Words are
    lowercased but not stemmed.

    Args:
        predictions, sources: (N,) each, one summary and one document per row.
        language: ISO 639 code, which says how words are separated; see `split_words`.
        average: how a score is averaged over the rows that have a value. "macro" is the mean of the rows' values.
            "micro" divides the sum of the rows' numerators, such as copied words, by the sum of their denominators,
            such as words.
        count: what is counted for `novel1` to `novel4`. With "types", an n-gram that occurs several times in a summary
            counts once for this summary. With "tokens", it counts as often as it occurs.
        count_punctuation: whether punctuation marks are words too, as in counts of tokenized texts (Narayan et al.
            2018).

    Returns:
        Score -> `Scored`, for each name in `TITLES`. The value of a `Scored` is the average. Its statistics, (N, 2),
        are each row's numerator and denominator with "micro", each row's score and 1 with "macro", and 0 and 0 for a
        row without a value.

    Raises:
        TypeError: `predictions` or `sources` is not a list, or a value is not a string.
        ValueError: the numbers of predictions and sources differ, there are none, no source has any words, or
            `average`, `count` or the language is unknown.

    Warns:
        UserWarning: some sources have no words. The message lists their rows.
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
            # Shares become points.
            statistics *= [100.0, 1.0]
        # A row without a value must add nothing to the sums of "micro". The compression of an empty summary has the
        # denominator 0, but the words of the source as its numerator.
        has_value = statistics[:, 1:] > 0
        statistics = np.where(has_value, statistics, 0.0)
        scored = Scored(statistics, ratio)
        if average == "macro":
            scored = mean_over_rows(scored.rows())
        scores[name] = scored
    return scores


def _alignments(
    predictions: Sequence[str], sources: Sequence[str], language: str, count_punctuation: bool
) -> Iterator[Alignment]:
    """Yield the alignment of each row's summary with the row's source. Arguments and errors are as for `novelty`.

    After the last row, a warning lists the sources without words. If no source has any words, a ValueError is raised
    instead.
    """
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
    """Score -> fraction, for each name in `TITLES`. If the source has no words, all fractions are 0 and 0.

    Args:
        alignment: a summary with its source.
        count: whether novel n-grams are counted as "types" or as "tokens".
    """
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
    """The shares of novel and of repeated n-grams of a summary: `novel1` and `repeated1` for n = 1, and so on."""
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
        novel_share = (len(set(novel_ngrams)), distinct)
    else:
        novel_share = (len(novel_ngrams), len(ngrams))
    return {f"novel{n}": novel_share, f"repeated{n}": (repeated, len(ngrams))}


def _fractions_of_copying(alignment: Alignment) -> dict[str, Fraction]:
    """The fractions `copy_rate`, `copy_position` and `copy_density` of a summary whose source has a sentence."""
    summary_length = len(alignment.words)
    copied_words = 0
    # The sum over the copied words of the length of the word's fragment: each fragment adds the square of its length.
    summed_squares = 0
    # The sum over the copied words of the position in the source of the sentence in which the word's fragment begins.
    summed_positions = 0.0
    for fragment in alignment.fragments:
        copied_words += fragment.length
        summed_squares += fragment.length**2
        # The middle of sentence i is at i + 1/2. A fragment with several occurrences is at the mean of their sentences.
        middle = sum(fragment.sentences) / len(fragment.sentences) + 0.5
        summed_positions += fragment.length * middle
    return {
        "copy_rate": (copied_words, summary_length),
        "copy_position": (summed_positions / alignment.source_sentences, copied_words),
        "copy_density": (summed_squares, summary_length),
    }


def corpus_statistics(
    documents: Sequence[str], summaries: Sequence[str], language: str = "en", unit: str = "words"
) -> dict[str, float]:
    """Size, lengths and vocabularies of a corpus.

    Words are the words that ROUGE compares, lowercased and without punctuation, and a sentence has at least one word.
    Papers that count punctuation marks as words report about 13% more words in English news. The GDLF paper counts
    words between white space.

    Args:
        documents, summaries: (N,) each, one document and its summary per row.
        language: ISO 639 code, which says how words are separated; see `split_words`.
        unit: what a word is. "spaced" stands for anything between white space, lowercased. "words", like any other
            value, stands for the words above.

    Returns:
        Statistic -> number, rounded to 4 decimal places:

        - `pairs`: the number of documents with their summaries.
        - `document_words`, `document_sentences`, `summary_words`, `summary_sentences`: mean numbers of words and of
          sentences in a document and in a summary (Table 1 of the GDLF paper).
        - `document_vocabulary`, `summary_vocabulary`, `vocabulary`: the number of distinct words in the documents, in
          the summaries, and in documents and summaries together.
        - `source_target_ratio`: the number of words of the documents per word of the summaries (Table 5.1 of Aksenov
          2020, whose words are WordPieces).

    Raises:
        TypeError: `documents` or `summaries` is not a list, or a value is not a string.
        ValueError: the numbers of documents and summaries differ, there are none, the documents or the summaries have
            no words, or the language is unknown.
    """
    check_pairs(documents=documents, summaries=summaries)
    pairs = len(documents)
    document_size = _size_of_texts(documents, "documents", language, unit)
    summary_size = _size_of_texts(summaries, "summaries", language, unit)
    return {
        "pairs": pairs,
        "document_words": round(document_size.words / pairs, 4),
        "document_sentences": round(document_size.sentences / pairs, 4),
        "summary_words": round(summary_size.words / pairs, 4),
        "summary_sentences": round(summary_size.sentences / pairs, 4),
        "document_vocabulary": len(document_size.vocabulary),
        "summary_vocabulary": len(summary_size.vocabulary),
        "vocabulary": len(document_size.vocabulary | summary_size.vocabulary),
        "source_target_ratio": round(document_size.words / summary_size.words, 4),
    }


@dataclass
class _TextSize:
    """How many words and sentences several texts have together, and their distinct words."""

    words: int
    sentences: int
    vocabulary: set[str]


def _words_of_unit(sentence: str, language: str, unit: str) -> list[str]:
    """The words of a sentence; see `corpus_statistics` for the unit."""
    if unit == "spaced":
        return lowercased(sentence, language).split()
    return split_words(sentence, language)


def _size_of_texts(texts: Sequence[str], name: str, language: str, unit: str) -> _TextSize:
    """Count the words and sentences of all texts together.

    Args:
        texts: the documents or the summaries of a corpus.
        name: what the texts are, such as "documents", for the progress bar and the message of an error.
        language, unit: as for `corpus_statistics`.

    Raises:
        ValueError: no text has any words.
    """
    size = _TextSize(words=0, sentences=0, vocabulary=set())
    for text in progress_bar(texts, name):
        for sentence in split_sentences(text, language):
            sentence_words = _words_of_unit(sentence, language, unit)
            if sentence_words:
                size.words += len(sentence_words)
                size.sentences += 1
                size.vocabulary.update(sentence_words)
    if size.words == 0:
        raise ValueError(no_words_message(f"nothing to count: none of the {name} has any words", language))
    return size
