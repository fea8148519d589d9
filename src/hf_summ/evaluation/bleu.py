"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a corpus, computed by sacrebleu (Post 2018)."""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import check_choice, one_line, progress_bar
from hf_summ.data.languages import language_code
from hf_summ.evaluation.significance import Scored, rounded
from hf_summ.evaluation.words import check_rows

logger = logging.getLogger(__name__)

# score -> title
TITLES = {
    "bleu": "BLEU",
    **{f"bleu_precision{n}": f"BLEU precision {n}" for n in (1, 2, 3, 4)},
    "bleu_brevity_penalty": "BLEU brevity penalty",
}
# sacrebleu's default tokenizers
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# sacrebleu warns from this number on
_TOKENIZED_LINES = 100
# chrF: n-grams of 1 to 6 characters, without spaces
_ORDERS = 6


def bleu(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> dict[str, Any]:
    """The corpus's BLEU from sacrebleu: n-grams of orders 1 to 4, with "exp" smoothing of orders without a match.

    Returns:
        `bleu` and `bleu_precision1` to `bleu_precision4` in points, 0 to 100, to 4 digits; `bleu_brevity_penalty`, 0 to
        1; `bleu_signature`, sacrebleu's description of the settings, to cite with a score.

    See `bleu_statistics` for arguments and errors.
    """
    scores = bleu_measures(predictions, references, tokenize, lowercase)
    return rounded(scores) | {"bleu_signature": _signature(references, tokenize, lowercase)}


def bleu_measures(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], tokenize: str, lowercase: bool = False
) -> dict[str, Scored]:
    """The scores of `bleu` as measures of sums; its signature is logged."""
    statistics = bleu_statistics(predictions, references, tokenize, lowercase)
    logger.info(f"bleu_signature: {_signature(references, tokenize, lowercase)}")
    return {name: Scored(statistics, lambda sums, n=n: _all_bleu(sums)[n]) for n, name in enumerate(TITLES)}


def _signature(references: Sequence[str | Sequence[str]], tokenize: str, lowercase: bool) -> str:
    metric = _metric(tokenize, lowercase)
    numbers = {1 if isinstance(row, str) else len(row) for row in references}
    # the signature reads this attribute; -1 stands for rows with different numbers of references
    metric.num_refs = numbers.pop() if len(numbers) == 1 else -1
    return str(metric.get_signature())


def bleu_statistics(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> np.ndarray:
    """The statistics of BLEU for each example; `corpus_bleu` of their sums is the corpus's score.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        tokenize: sacrebleu's tokenizer, such as 13a (European languages), zh (Chinese), ja-mecab (Japanese), intl,
            char, none. The texts must not be tokenized.
        lowercase: whether to ignore case.

    Returns:
        (N, 10) counts: matching n-grams of orders 1 to 4, n-grams of orders 1 to 4, words of the prediction, words of
        the reference of closest length.

    Raises:
        ImportError: sacrebleu, or a library that its tokenizer needs, is not installed.
        ValueError: different numbers of predictions and references, none at all, a row without a reference, only blank
            references, or an unknown tokenizer.
    """
    # the scores of single examples are not used; this setting avoids sacrebleu's warning about short ones
    metric = _metric(tokenize, lowercase, effective_order=True)
    rows = reference_rows(predictions, references)
    finished = sum(prediction.endswith(" .") for prediction in predictions)
    if finished >= _TOKENIZED_LINES and tokenize != "none":
        warnings.warn(
            f"{finished} predictions end in ' .', like tokenized text: give texts that are not tokenized, as BLEU "
            "splits them into words itself",
            stacklevel=2,
        )
    table = np.empty((len(rows), 10), dtype=np.int64)
    pairs = zip(predictions, rows, strict=True)
    for number, (prediction, row) in enumerate(progress_bar(pairs, "BLEU", len(rows))):
        counted = metric.sentence_score(prediction, row)
        table[number] = (*counted.counts, *counted.totals, counted.sys_len, counted.ref_len)
    return table


def corpus_bleu(sums: np.ndarray) -> np.ndarray:
    """BLEU in points from sums of `bleu_statistics`, (…, 10) -> (…): a measure of sums, see `significance`.

    Smoothed as in `bleu`: the k-th order without a match counts as 2^-k matches.
    """
    return _all_bleu(sums)[0]


def _all_bleu(sums: np.ndarray) -> tuple[np.ndarray, ...]:
    """The scores in `TITLES`, (…) each."""
    sums = np.asarray(sums, dtype=np.float64)
    correct, total, lengths = sums[..., :4], sums[..., 4:8], sums[..., 8:]
    missed = correct == 0
    matches = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
    # 0 for all orders if none has a match
    precisions = np.where(missed.all(-1)[..., None], 0.0, 100 * matches / np.where(total > 0, total, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(lengths[..., 0] > 0, np.exp(np.minimum(0, 1 - lengths[..., 1] / lengths[..., 0])), 0.0)
        return penalty * np.exp(np.log(precisions).mean(-1)), *np.moveaxis(precisions, -1, 0), penalty


def tokenizer_for(language: str) -> str:
    """The tokenizer that sacrebleu uses for a language, given by its ISO 639 code."""
    return _TOKENIZERS.get(language_code(language), "13a")


def reference_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Each row's references as a list; errors are those of `bleu_statistics`."""
    rows = check_rows(predictions, references)
    if not any(text.strip() for row in rows for text in row):
        raise ValueError("nothing to score: all references are blank")
    return rows


def _metric(tokenize: str, lowercase: bool, effective_order: bool = False):
    metric = import_extra("sacrebleu.metrics.bleu", "BLEU needs sacrebleu", "bleu").BLEU
    check_choice("`tokenize`", tokenize, sorted(metric.TOKENIZERS))
    try:
        return metric(tokenize=tokenize, lowercase=lowercase, effective_order=effective_order)
    except (RuntimeError, ImportError) as error:
        raise ImportError(f"sacrebleu's tokenizer '{tokenize}' cannot be used: {one_line(error)}") from error


def chrf(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> dict[str, float]:
    """The corpus's chrF in points, 0 to 100, to 4 digits, as `chrf`; see `chrf_statistics` for arguments and errors."""
    return rounded({"chrf": Scored(chrf_statistics(predictions, references), corpus_chrf)})


def chrf_statistics(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> np.ndarray:
    """The statistics of chrF for each example; `corpus_chrf` of their sums is the corpus's score, F2.

    Args:
        predictions: one text per row.
        references: one or several texts per row, of which the one with the highest chrF counts.

    Returns:
        (N, 18) counts: for each order, n-grams of the prediction, of the reference, and matching ones.

    Raises:
        ImportError: sacrebleu is not installed.
        ValueError: as `bleu_statistics`.
    """
    metric = import_extra("sacrebleu.metrics.chrf", "chrF needs sacrebleu", "bleu").CHRF(char_order=_ORDERS)
    rows = reference_rows(predictions, references)
    pairs = progress_bar(zip(predictions, rows, strict=True), "chrF", len(rows))
    # what its `sentence_score` divides; no public method gives the counts
    counts = [metric._compute_segment_statistics(text, metric._extract_reference_info(row)) for text, row in pairs]
    return np.array(counts, dtype=np.int64)


def corpus_chrf(sums: np.ndarray) -> np.ndarray:
    """chrF in points from sums of `chrf_statistics`, (…, 18) -> (…): a measure of sums, see `significance`.

    Precision and recall are means over the orders that both sides have.
    """
    sums = np.asarray(sums, dtype=np.float64)
    ours, theirs, matches = np.moveaxis(sums.reshape(*sums.shape[:-1], _ORDERS, 3), -1, 0)
    orders = np.maximum(((ours > 0) & (theirs > 0)).sum(-1), 1)
    precision, recall = ((matches / np.maximum(ngrams, 1)).sum(-1) / orders for ngrams in (ours, theirs))
    total = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(total > 0, total, 1)
