"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a corpus, computed by sacrebleu (Post 2018)."""

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

# The scores with their titles in tables.
TITLES = {
    "bleu": "BLEU",
    "bleu_precision1": "BLEU precision 1",
    "bleu_precision2": "BLEU precision 2",
    "bleu_precision3": "BLEU precision 3",
    "bleu_precision4": "BLEU precision 4",
    "bleu_brevity_penalty": "BLEU brevity penalty",
}
# sacrebleu's default tokenizer by language; 13a for all others.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# chrF counts n-grams of 1 to 6 characters, without spaces.
_CHRF_ORDERS = 6


def bleu(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], language: str = "en"
) -> dict[str, Scored]:
    """The corpus's BLEU from sacrebleu: n-grams of orders 1 to 4, with "exp" smoothing of orders without a match.

    Logs sacrebleu's signature, a description of the settings to cite with a score.

    Args:
        predictions: one text per row, not tokenized.
        references: one or several texts per row, not tokenized.
        language: ISO 639 code, for sacrebleu's tokenizer: zh, ja-mecab or ko-mecab, and 13a for other languages.

    Returns:
        `bleu` and `bleu_precision1` to `bleu_precision4` in points, 0 to 100; `bleu_brevity_penalty`, 0 to 1.

    Raises:
        ImportError: sacrebleu, or a library that its tokenizer needs, is not installed.
        ValueError: different numbers of predictions and references, none at all, a row without a reference, or only
            blank references.
    """
    rows = check_reference_rows(predictions, references)
    tokenize = _TOKENIZERS.get(language_code(language), "13a")
    metric_class = import_extra("sacrebleu.metrics.bleu", "BLEU needs sacrebleu", "bleu").BLEU
    try:
        metric = metric_class(tokenize=tokenize)
        # Only the counts of examples are used. `effective_order` does not change them: it silences a warning about
        # short texts.
        counter = metric_class(tokenize=tokenize, effective_order=True)
    except (RuntimeError, ImportError) as error:
        raise ImportError(f"sacrebleu's tokenizer '{tokenize}' cannot be used: {one_line(error)}") from error
    statistics = np.empty((len(rows), 10), dtype=np.int64)
    pairs = zip(predictions, rows, strict=True)
    for number, (prediction, row) in enumerate(progress_bar(pairs, "BLEU", len(rows))):
        score = counter.sentence_score(prediction, row)
        statistics[number, :4] = score.counts
        statistics[number, 4:8] = score.totals
        statistics[number, 8:] = score.sys_len, score.ref_len
    # The signature reads this attribute; -1 stands for rows with different numbers of references.
    metric.num_refs = -1
    numbers_of_references = {len(row) for row in rows}
    if len(numbers_of_references) == 1:
        metric.num_refs = numbers_of_references.pop()
    logger.info(f"bleu_signature: {metric.get_signature()}")
    return {name: Scored(statistics, _measure_of_sums(name)) for name in TITLES}


def _measure_of_sums(name: str) -> MeasureOfSums:
    """The function that maps sums to one of the scores in `TITLES`."""

    def measure(sums: np.ndarray) -> np.ndarray:
        return _scores_of_sums(sums)[name]

    return measure


def _scores_of_sums(sums: np.ndarray) -> dict[str, np.ndarray]:
    """The scores in `TITLES`, (…) each, smoothed: the k-th order without a match counts as 2^-k matches.

    Args:
        sums: (…, 10), matching n-grams of orders 1 to 4, n-grams of orders 1 to 4, words of the prediction, words of
            the reference of closest length.
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
    """The corpus's chrF in points, 0 to 100, as `chrf`: F2 of character n-grams, computed by sacrebleu.

    Args:
        predictions: one text per row.
        references: one or several texts per row; only the reference with the highest chrF is used.

    Raises:
        ImportError: sacrebleu is not installed.
        ValueError: as `bleu`.
    """
    rows = check_reference_rows(predictions, references)
    metric = import_extra("sacrebleu.metrics.chrf", "chrF needs sacrebleu", "bleu").CHRF(char_order=_CHRF_ORDERS)
    counts = []
    pairs = zip(predictions, rows, strict=True)
    for prediction, row in progress_bar(pairs, "chrF", len(rows)):
        # `CHRF.sentence_score` computes its score from these counts. No public method gives them.
        reference_info = metric._extract_reference_info(row)
        counts.append(metric._compute_segment_statistics(prediction, reference_info))
    return {"chrf": Scored(np.array(counts, dtype=np.int64), _chrf_of_sums)}


def _chrf_of_sums(sums: np.ndarray) -> np.ndarray:
    """chrF in points, (…, 18) -> (…); precision and recall are means over the orders that both sides have.

    Args:
        sums: for each order, n-grams of the prediction, of the reference, and matching ones.
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
    """Each row's references as a list; errors are those of `bleu`."""
    rows = check_rows(predictions, references)
    if not any(text.strip() for text in chain.from_iterable(rows)):
        raise ValueError("nothing to score: all references are blank")
    return rows
