"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a corpus, computed by sacrebleu (Post 2018).

Both scores are functions of counts that are summed over the corpus. So each function here returns a `Scored`, which
holds the counts of each row, (N, K), and the function that maps sums of counts, (…, K), to scores, (…). N is the number
of rows. A row is a prediction with one or several references.
"""

import logging
from collections.abc import Sequence
from itertools import chain

import numpy as np

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import one_line, progress_bar
from hf_summ.data.languages import language_code
from hf_summ.evaluation.significance import MeasureOfSums, Scored
from hf_summ.evaluation.words import check_rows

logger = logging.getLogger(__name__)

# The scores of `bleu`, score -> title in tables.
TITLES = {
    "bleu": "BLEU",
    "bleu_precision1": "BLEU precision 1",
    "bleu_precision2": "BLEU precision 2",
    "bleu_precision3": "BLEU precision 3",
    "bleu_precision4": "BLEU precision 4",
    "bleu_brevity_penalty": "BLEU brevity penalty",
}
# sacrebleu's default tokenizer of these languages. The default of all other languages is 13a.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# chrF counts n-grams of 1 to 6 characters, without spaces.
_CHRF_ORDERS = 6


def bleu(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], language: str = "en"
) -> dict[str, Scored]:
    """The corpus's BLEU from sacrebleu: n-grams of orders 1 to 4, with "exp" smoothing of orders without a match.

    The log gets sacrebleu's signature, a description of the settings to cite with a score.

    Args:
        predictions: (N,), one text per row, not tokenized.
        references: (N,), one or several texts per row, not tokenized. An n-gram of the prediction matches up to the
            largest number of times that it occurs in one of the row's references.
        language: ISO 639 code, which chooses sacrebleu's tokenizer: zh for Chinese, ja-mecab for Japanese, ko-mecab for
            Korean, and 13a for other languages.

    Returns:
        A dictionary with a `Scored` for each name in `TITLES`: `bleu` and `bleu_precision1` to `bleu_precision4` in
        points, 0 to 100; `bleu_brevity_penalty`, 0 to 1. All share the counts, (N, 10), that `_scores_of_sums` names.

    Raises:
        ImportError: sacrebleu, or a library that the tokenizer needs, is not installed.
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, a value
            is not a string, all references are blank, or the language is unknown.
    """
    reference_lists = check_reference_rows(predictions, references)
    tokenize = _TOKENIZERS.get(language_code(language), "13a")
    metric_class = import_extra("sacrebleu.metrics.bleu", "BLEU needs sacrebleu", "bleu").BLEU
    try:
        metric = metric_class(tokenize=tokenize)
        # Only this metric's counts of rows are used. `effective_order` does not change them: it silences a warning
        # about short texts.
        counter = metric_class(tokenize=tokenize, effective_order=True)
    except (RuntimeError, ImportError) as error:
        raise ImportError(f"sacrebleu's tokenizer '{tokenize}' cannot be used: {one_line(error)}") from error
    statistics = np.empty((len(predictions), 10), dtype=np.int64)
    rows = zip(predictions, reference_lists, strict=True)
    for row, (prediction, row_references) in enumerate(progress_bar(rows, "BLEU", len(predictions))):
        score = counter.sentence_score(prediction, row_references)
        statistics[row, :4] = score.counts
        statistics[row, 4:8] = score.totals
        statistics[row, 8] = score.sys_len
        statistics[row, 9] = score.ref_len
    # The signature reads this attribute; -1 stands for rows with different numbers of references.
    metric.num_refs = -1
    numbers_of_references = {len(row_references) for row_references in reference_lists}
    if len(numbers_of_references) == 1:
        metric.num_refs = numbers_of_references.pop()
    logger.info(f"bleu_signature: {metric.get_signature()}")
    return {name: Scored(statistics, _measure_of_sums(name)) for name in TITLES}


def _measure_of_sums(name: str) -> MeasureOfSums:
    """The function that maps sums of counts, (…, 10), to the score of this name in `TITLES`, (…)."""

    def measure(sums: np.ndarray) -> np.ndarray:
        return _scores_of_sums(sums)[name]

    return measure


def _scores_of_sums(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Map sums of counts over a corpus to the scores in `TITLES`, (…) each.

    Precisions are smoothed as by sacrebleu's "exp": the k-th order without a match counts as 2^-k matches. In a corpus
    without any match, BLEU and all precisions are 0. The brevity penalty does not depend on matches.

    Args:
        sums: (…, 10). Columns 0 to 3 are the numbers of matching n-grams of orders 1 to 4, columns 4 to 7 the numbers
            of all n-grams of the predictions of these orders. Column 8 is the number of words of the predictions, and
            column 9 the number of words of the references. A row with several references counts the words of the
            reference whose length is closest to the prediction's length.
    """
    sums = np.asarray(sums, dtype=np.float64)
    matches, totals = sums[..., :4], sums[..., 4:8]
    prediction_length, reference_length = sums[..., 8], sums[..., 9]
    is_missed = matches == 0
    smoothed = np.where(is_missed, 0.5 ** np.cumsum(is_missed, axis=-1), matches)
    precisions = 100 * smoothed / np.where(totals > 0, totals, np.inf)
    # Without any match, smoothing would leave scores above 0.
    precisions = np.where(is_missed.all(-1)[..., None], 0.0, precisions)
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.exp(np.minimum(0, 1 - reference_length / prediction_length))
        penalty = np.where(prediction_length > 0, penalty, 0.0)
        scores = {"bleu": penalty * np.exp(np.log(precisions).mean(-1))}
    for order in (1, 2, 3, 4):
        scores[f"bleu_precision{order}"] = precisions[..., order - 1]
    scores["bleu_brevity_penalty"] = penalty
    return scores


def chrf(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> dict[str, Scored]:
    """The corpus's chrF from sacrebleu: F2 of the n-grams of 1 to 6 characters, without spaces.

    Args:
        predictions: (N,), one text per row.
        references: (N,), one or several texts per row. Each row counts only the reference with which the row's chrF is
            highest.

    Returns:
        A dictionary with the key "chrf" alone: the `Scored` of the corpus's chrF in points, 0 to 100, whose counts,
        (N, 18), are those that `_chrf_of_sums` names.

    Raises:
        ImportError: sacrebleu is not installed.
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, a value
            is not a string, or all references are blank.
    """
    reference_lists = check_reference_rows(predictions, references)
    metric = import_extra("sacrebleu.metrics.chrf", "chrF needs sacrebleu", "bleu").CHRF(char_order=_CHRF_ORDERS)
    counts = []
    rows = zip(predictions, reference_lists, strict=True)
    for prediction, row_references in progress_bar(rows, "chrF", len(predictions)):
        # sacrebleu's `sentence_score` computes the score from these counts. No public method gives them.
        reference_info = metric._extract_reference_info(row_references)
        counts.append(metric._compute_segment_statistics(prediction, reference_info))
    return {"chrf": Scored(np.array(counts, dtype=np.int64), _chrf_of_sums)}


def _chrf_of_sums(sums: np.ndarray) -> np.ndarray:
    """Map sums of counts over a corpus to chrF in points, (…, 18) -> (…).

    Precision and recall are means over the orders of which both the predictions and the references have n-grams.

    Args:
        sums: (…, 18). Each order, from 1 to 6, has three columns: the numbers of n-grams in the predictions, of n-grams
            in the references, and of matching n-grams.
    """
    sums = np.asarray(sums, dtype=np.float64)
    by_order = sums.reshape(*sums.shape[:-1], _CHRF_ORDERS, 3)
    in_predictions, in_references, matches = by_order[..., 0], by_order[..., 1], by_order[..., 2]
    is_in_both = (in_predictions > 0) & (in_references > 0)
    orders = np.maximum(is_in_both.sum(-1), 1)
    precision = (matches / np.maximum(in_predictions, 1)).sum(-1) / orders
    recall = (matches / np.maximum(in_references, 1)).sum(-1) / orders
    total = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(total > 0, total, 1)


def check_reference_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Check predictions and references, and give the list of each row's references, (N,).

    Args:
        predictions: (N,), one text per row.
        references: (N,), one or several texts per row.

    Raises:
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, a value
            is not a string, or all references are blank.
    """
    reference_lists = check_rows(predictions, references)
    if not any(text.strip() for text in chain.from_iterable(reference_lists)):
        raise ValueError("nothing to score: all references are blank")
    return reference_lists
