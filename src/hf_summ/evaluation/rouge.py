"""ROUGE (Lin 2004) as Google's rouge-score computes it, and the choice between both implementations by name."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from hf_summ.common.messages import unknown_choice
from hf_summ.evaluation.rouge155 import rouge155_scores
from hf_summ.evaluation.rouge_counts import (
    Measure,
    Reader,
    Scores,
    check_options,
    ngrams,
    other_reader,
    read_words,
    score_rows,
    sentence_splitter,
    sequence_lcs,
    summary_lcs,
)
from hf_summ.evaluation.words import check_rows, check_units, is_english, warn_of_script

ROUGE_MODES = ("rouge_score", "rouge155")
_MEASURES: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rougeL": sequence_lcs,
    "rougeLsum": summary_lcs,
}
ROUGE_TYPES = tuple(_MEASURES)
# options of "rouge155" alone
_LIMITS = ("byte_limit", "word_limit")


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
        options: `rouge_types`, `sentences`, `splitter`, `units` and `several`, and for "rouge155" also `byte_limit` and
            `word_limit`.

    See `rouge_scores` and `rouge155_scores` for the other arguments and errors.

    Raises:
        ValueError: an unknown mode, or an option that "rouge_score" does not have.
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
    """Metric -> precision, recall and F of each example.

    See `rouge` for the arguments and errors.
    """
    if rouge_mode not in ROUGE_MODES:
        raise ValueError(unknown_choice("`rouge_mode`", rouge_mode, ROUGE_MODES))
    if rouge_mode == "rouge155":
        return rouge155_scores(predictions, references, use_stemmer, language, **options)
    limits = [name for name in _LIMITS if options.pop(name, None) is not None]
    if limits:
        raise ValueError(f"`rouge_mode` is 'rouge_score', which has no {', '.join(limits)}: set it to 'rouge155'")
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
        units: the units of languages other than English: "words", "characters" (all of them), "lcsts" for those that
            DRGD's program compares, without most marks, or "spaced" for words separated by spaces.
        several: how several references are combined. "best": the one with the highest F, for each metric separately;
            "mean": the mean of the scores with each; "pooled": the matches with all, summed before dividing. By default
            "best", as in rouge-score (`RougeScorer.score_multi`).

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, references
            without words, or an unknown ROUGE type, splitter or value of `sentences`, `units` or `several`.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet; or they have no
            spaces between words and are not read by characters.
    """
    rows = check_rows(predictions, references)
    check_options(rouge_types, ROUGE_TYPES, sentences, splitter, several)
    check_units(units, language)
    warn_of_script((text for row in rows for text in row), language)
    split = sentence_splitter(language, sentences, splitter)
    if is_english(language):
        # as in rouge-score's tokenizer; lowercased first, as a few letters outside ASCII become ASCII letters
        reader = Reader(lambda text: read_words(text.lower()), _stemmer() if use_stemmer else None, split)
    else:
        reader = other_reader(language, units, split)
    measures = {rouge_type: _MEASURES[rouge_type] for rouge_type in rouge_types}
    return score_rows(predictions, rows, reader, measures, "ROUGE", language, several or "best")


@cache
def _stemmer() -> Callable[[str], str]:
    # imported here: NLTK imports SciPy and scikit-learn
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(use_stemmer=True)
    return lru_cache(maxsize=1 << 18)(lambda word: "".join(tokenizer.tokenize(word)))
