"""ROUGE (Lin 2004) with the scores of Google's rouge-score or of the Perl script ROUGE-1.5.5, without the script."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from hf_summ.common.messages import check_choice
from hf_summ.evaluation.rouge_counts import (
    SEVERAL,
    Measure,
    Reader,
    Scores,
    Splitter,
    ngrams,
    other_reader,
    read_words,
    score_rows,
    sentence_splitter,
    sequence_lcs,
    skip_bigrams,
    skip_bigrams_4,
    summary_lcs,
)
from hf_summ.evaluation.stemming import stem
from hf_summ.evaluation.words import check_rows, check_units, is_english, warn_of_script
from hf_summ.models.checks import check_integer
from hf_summ.models.text_documents import readable

ROUGE_MODES = ("rouge_score", "rouge155")
_MEASURES = {"rouge1": ngrams(1), "rouge2": ngrams(2), "rougeL": sequence_lcs, "rougeLsum": summary_lcs}
ROUGE_TYPES = tuple(_MEASURES)
_MEASURES_155: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rouge3": ngrams(3),
    "rougeL": summary_lcs,
    "rougeSU4": skip_bigrams_4,
    "rougeSU*": skip_bigrams,
}
ROUGE155_TYPES = tuple(_MEASURES_155)
ALL_TYPES = tuple(dict.fromkeys((*_MEASURES_155, *_MEASURES)))


def rouge(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_mode: str = "rouge_score",
    **options: Any,
) -> dict[str, float]:
    """Macro mean of F over the examples for each ROUGE type, in points, 0 to 100, to 4 digits.

    Args:
        rouge_mode: "rouge_score" gives Google's numbers: rouge1, rouge2, rougeL, rougeLsum. rougeL treats a summary as
            one sequence; rougeLsum compares sentence by sentence. Papers on summaries of several sentences call the
            latter ROUGE-L. "rouge155" gives those of the Perl script ROUGE-1.5.5, which papers report: rouge1, rouge2,
            rouge3, rougeL (sentence by sentence), rougeSU4, rougeSU*.
        options: `rouge_types`, `sentences`, `splitter`, `units` and `several`, and for "rouge155" also `byte_limit`.

    See `rouge_scores` and `rouge155_scores` for the other arguments and errors.

    Raises:
        ValueError: an unknown mode, or an option that "rouge_score" does not have.

    Warns:
        UserWarning: as `rouge_scores`.
    """
    scores = rouge_scores_in_mode(rouge_mode, predictions, references, use_stemmer, language, **options)
    return {metric: round(float(values.fmeasure.mean()), 4) for metric, values in scores.items()}


def rouge_scores_in_mode(
    rouge_mode: str,
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    **options: Any,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example; see `rouge` for the arguments and errors."""
    check_choice("`rouge_mode`", rouge_mode, ROUGE_MODES)
    if rouge_mode == "rouge155":
        return rouge155_scores(predictions, references, use_stemmer, language, **options)
    if options.pop("byte_limit", None) is not None:
        raise ValueError("`rouge_mode` is 'rouge_score', which has no byte_limit: set it to 'rouge155'")
    return rouge_scores(predictions, references, use_stemmer, language, **options)


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_types: Sequence[str] = ROUGE_TYPES,
    sentences: str = "split",
    splitter: str = "sentencex",
    units: str = "words",
    several: str | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of rouge-score. An empty prediction scores 0.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        use_stemmer: whether to use NLTK's variant of Porter's stemmer; English only.
        language: ISO 639 code. English is split into words of a-z and 0-9, as in rouge-score. Other languages are split
            into words of any script, and Chinese and Japanese into characters.
        rouge_types: which of `ROUGE_TYPES`.
        sentences: "split" splits lines into sentences; "lines" treats each line as one, as rouge-score does.
        splitter: what splits lines, as for `split_sentences`.
        units: the units of languages other than English: "words", or "lcsts" for the characters that DRGD's program
            compares, without most marks.
        several: how several references are combined. "best": the one with the highest F, for each metric separately;
            "pooled": the matches with all, summed before dividing. By default "best", as in rouge-score
            (`RougeScorer.score_multi`).

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, references
            without words, or an unknown ROUGE type, splitter or value of `sentences`, `units` or `several`.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet; or they have no
            spaces between words and are not read by characters.
    """

    def reader(split: Splitter) -> Reader:
        # as in rouge-score's tokenizer; lowercased first, as a few letters outside ASCII become ASCII letters
        return Reader(lambda text: read_words(text.lower()), _stemmer() if use_stemmer else None, split)

    texts, options = (predictions, references), (language, rouge_types, sentences, splitter, units, several or "best")
    return _score("ROUGE", _MEASURES, reader, *texts, *options)


def rouge155_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_types: Sequence[str] = ROUGE155_TYPES,
    sentences: str = "split",
    splitter: str = "sentencex",
    units: str = "words",
    byte_limit: int | None = None,
    several: str | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of ROUGE-1.5.5. An empty prediction scores 0.

    rougeL compares sentence by sentence, as the script does. rougeSU* skips any number of words; pyrouge prints it as
    SU4. rougeSU4 skips at most 4 words (`-2 4 -u`). As in the script, neither counts a text's last word as a unigram.

    Args:
        predictions, references, language, sentences, splitter, units: as for `rouge_scores`.
        use_stemmer: whether to use WordNet's exception lists and Porter's stemmer (`-m`); English only.
        rouge_types: which of `ROUGE155_TYPES`.
        byte_limit: number of bytes to which predictions and references are truncated (`-b`), not counting line ends.
            For rougeL the script counts within each sentence instead.
        several: how several references are combined, as for `rouge_scores`; by default "pooled", as in the script
            (`-f A`).

    Raises:
        ValueError: as `rouge_scores`; a limit below 1, or one for a language other than English.

    Warns:
        UserWarning: as `rouge_scores`.
    """
    if byte_limit is not None:
        check_integer("byte_limit", byte_limit, 1)
        if not is_english(language):
            raise ValueError(f"`byte_limit` needs English, as in ROUGE-1.5.5, but `language` is '{language}'")
    reader = partial(_reader155, use_stemmer, byte_limit)
    texts, options = (predictions, references), (language, rouge_types, sentences, splitter, units, several or "pooled")
    return _score("ROUGE-1.5.5", _MEASURES_155, reader, *texts, *options)


def _score(
    title: str,
    measures: Mapping[str, Measure],
    english_reader: Callable[[Splitter], Reader],
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    language: str,
    rouge_types: Sequence[str],
    sentences: str,
    splitter: str,
    units: str,
    several: str,
) -> dict[str, Scores]:
    rows = check_rows(predictions, references)
    if not rouge_types:
        raise ValueError(f"`rouge_types` is empty: choose from {', '.join(measures)}")
    for rouge_type in rouge_types:
        if rouge_type == "rougeLsum" and rouge_type not in measures:
            raise ValueError("ROUGE type rougeLsum of rouge-score is rougeL here, which compares sentences: use rougeL")
        check_choice("ROUGE type", rouge_type, measures)
    check_choice("`sentences`", sentences, ("split", "lines"))
    check_choice("`several`", several, SEVERAL)
    check_units(units, language)
    warn_of_script((text for row in rows for text in row), language)
    split = sentence_splitter(language, sentences, splitter)
    reader = english_reader(split) if is_english(language) else other_reader(language, units, split)
    measures = {rouge_type: measures[rouge_type] for rouge_type in rouge_types}
    return score_rows(predictions, rows, reader, measures, title, language, several)


@cache
def _stemmer() -> Callable[[str], str]:
    # imported here: NLTK imports SciPy and scikit-learn
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(use_stemmer=True)
    return lru_cache(maxsize=1 << 18)(lambda word: "".join(tokenizer.tokenize(word)))


def _reader155(use_stemmer: bool, byte_limit: int | None, split: Splitter) -> Reader:
    """The reader of English texts: other letters and surrogates become blanks, but count as bytes."""
    stemmer = stem if use_stemmer else None
    if byte_limit is None:
        return Reader(read_words, stemmer, split)

    def cut_lines(text: str, running: bool) -> list[str]:
        lines = [readable(line).encode() for line in split(text) if line]
        return [line.decode("ascii", "replace") for line in _first_bytes(lines, byte_limit, running)]

    return Reader(read_words, stemmer, partial(cut_lines, running=True), partial(cut_lines, running=False))


def _first_bytes(lines: list[bytes], limit: int, running: bool) -> list[bytes]:
    """The lines up to the byte that reaches the limit, counted from the first line (`running`) or within a line."""
    kept = []
    used = 0
    for line in lines:
        if used + len(line) >= limit:
            return [*kept, line[: limit - used]]
        kept.append(line)
        if running:
            used += len(line)
    return kept
