"""ROUGE (Lin 2004) as Google's rouge-score computes it, and both ways of computing it by name."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rouge_score.tokenizers import DefaultTokenizer

from hf_summ.common.messages import unknown_choice
from hf_summ.evaluation.rouge155 import rouge155_scores
from hf_summ.evaluation.rouge_counts import (
    Counts,
    Ids,
    Measure,
    Reader,
    Scores,
    Text,
    check_options,
    check_rows,
    line_reader,
    ngrams,
    other_reader,
    score_rows,
    sequence_lcs,
    summary_lcs,
)
from hf_summ.evaluation.words import is_english, warn_of_foreign_letters

MODES = ("rouge_score", "rouge155")
_TOKENIZER = DefaultTokenizer(use_stemmer=True)
_MEASURES: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rougeL": sequence_lcs,
    "rougeLsum": summary_lcs,
}
METRICS = tuple(_MEASURES)
# options that only "rouge155" has
_LIMITS = ("byte_limit", "word_limit")


def rouge(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    mode: str = "rouge_score",
    **options: Any,
) -> dict[str, float]:
    """Macro mean of F over the examples for each metric, in points, 0 to 100, to 4 digits.

    See `rouge_scores_in_mode` for the arguments and errors.
    """
    scores = rouge_scores_in_mode(mode, predictions, references, use_stemmer, language, **options)
    return {metric: round(float(values.fmeasure.mean()), 4) for metric, values in scores.items()}


def rouge_scores_in_mode(
    mode: str,
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    **options: Any,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example.

    Args:
        mode: "rouge_score" gives Google's numbers: rouge1, rouge2, rougeL, rougeLsum. rougeL takes a summary as one
            sequence; rougeLsum goes sentence by sentence and is what papers on summaries of several sentences call
            ROUGE-L. "rouge155" gives those of the Perl script ROUGE-1.5.5, which papers print: rouge1, rouge2, rouge3,
            rougeL (sentence by sentence), rougeSU4, rougeSU*.
        options: `metrics` and `sentences`; of "rouge155" alone `byte_limit` and `word_limit`.

    See `rouge_scores` and `rouge155_scores` for the other arguments and errors.

    Raises:
        ValueError: another mode, or options that "rouge_score" does not have.
    """
    if mode not in MODES:
        raise ValueError(unknown_choice("`mode`", mode, MODES))
    if mode == "rouge155":
        return rouge155_scores(predictions, references, use_stemmer, language, **options)
    limits = [name for name in _LIMITS if options.pop(name, None) is not None]
    if limits:
        raise ValueError(f"`mode` is 'rouge_score', which has no {', '.join(limits)}: set it to 'rouge155'")
    return rouge_scores(predictions, references, use_stemmer, language, **options)


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    metrics: Sequence[str] = METRICS,
    sentences: str = "split",
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of rouge-score. An empty prediction scores 0.

    Args:
        references: one or several texts per row; of several, the one with the highest F counts for each metric
            (`RougeScorer.score_multi`).
        use_stemmer: whether to use NLTK's variant of Porter's stemmer; English only.
        language: ISO 639 code. English is read as rouge-score reads it, as words of a-z and 0-9. Other languages are
            split into words of any script, and into characters where words are not separated by spaces.
        metrics: which of `METRICS`.
        sentences: "split" splits lines into sentences; "lines" treats each line as one, as rouge-score does.

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, references
            without words, or an unknown metric or value of `sentences`.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet.
    """
    rows = check_rows(predictions, references)
    check_options(metrics, METRICS, sentences)
    warn_of_foreign_letters((text for row in rows for text in row), language)
    read = _reader(use_stemmer, sentences, language) if is_english(language) else other_reader(language, sentences)
    measures = {metric: _of_best(_MEASURES[metric]) for metric in metrics}
    return score_rows(predictions, rows, read, measures, "ROUGE", language)


def _reader(use_stemmer: bool, sentences: str, language: str) -> Reader:
    """The function that reads English like rouge-score's own tokenizer."""
    ids = Ids(_stem if use_stemmer else None)
    # lowercased before encoding, since a few letters outside ASCII become ASCII letters; surrogates are not letters
    return line_reader(lambda line: ids.read(line.lower().encode("utf-8", "replace")), language, sentences)


@lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    return "".join(_TOKENIZER.tokenize(word))


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
