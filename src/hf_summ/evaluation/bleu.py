"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a corpus, computed by sacrebleu (Post 2018)."""

import logging
from collections.abc import Sequence

import numpy as np

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import one_line, progress_bar
from hf_summ.data.languages import language_code
from hf_summ.evaluation.significance import Scored
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
# chrF: n-grams of 1 to 6 characters, without spaces
_ORDERS = 6


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
        # the scores of single examples are not used; `effective_order` avoids sacrebleu's warning about short ones
        counter, metric = metric_class(tokenize=tokenize, effective_order=True), metric_class(tokenize=tokenize)
    except (RuntimeError, ImportError) as error:
        raise ImportError(f"sacrebleu's tokenizer '{tokenize}' cannot be used: {one_line(error)}") from error
    statistics = np.empty((len(rows), 10), dtype=np.int64)
    pairs = zip(predictions, rows, strict=True)
    for number, (prediction, row) in enumerate(progress_bar(pairs, "BLEU", len(rows))):
        counted = counter.sentence_score(prediction, row)
        statistics[number] = (*counted.counts, *counted.totals, counted.sys_len, counted.ref_len)
    numbers = {len(row) for row in rows}
    # the signature reads this attribute; -1 stands for rows with different numbers of references
    metric.num_refs = numbers.pop() if len(numbers) == 1 else -1
    logger.info(f"bleu_signature: {metric.get_signature()}")
    return {name: Scored(statistics, lambda sums, n=n: _bleu_of_sums(sums)[n]) for n, name in enumerate(TITLES)}


def _bleu_of_sums(sums: np.ndarray) -> tuple[np.ndarray, ...]:
    """The scores in `TITLES`, (…) each, smoothed: the k-th order without a match counts as 2^-k matches.

    Args:
        sums: (…, 10), matching n-grams of orders 1 to 4, n-grams of orders 1 to 4, words of the prediction, words of
            the reference of closest length.
    """
    sums = np.asarray(sums, dtype=np.float64)
    correct, total, lengths = sums[..., :4], sums[..., 4:8], sums[..., 8:]
    missed = correct == 0
    matches = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
    # 0 for all orders if none has a match
    precisions = np.where(missed.all(-1)[..., None], 0.0, 100 * matches / np.where(total > 0, total, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(lengths[..., 0] > 0, np.exp(np.minimum(0, 1 - lengths[..., 1] / lengths[..., 0])), 0.0)
        return penalty * np.exp(np.log(precisions).mean(-1)), *np.moveaxis(precisions, -1, 0), penalty


def chrf(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> dict[str, Scored]:
    """The corpus's chrF in points, 0 to 100, as `chrf`: F2 of character n-grams, computed by sacrebleu.

    Args:
        predictions: one text per row.
        references: one or several texts per row, of which the one with the highest chrF counts.

    Raises:
        ImportError: sacrebleu is not installed.
        ValueError: as `bleu`.
    """
    rows = check_reference_rows(predictions, references)
    metric = import_extra("sacrebleu.metrics.chrf", "chrF needs sacrebleu", "bleu").CHRF(char_order=_ORDERS)
    pairs = progress_bar(zip(predictions, rows, strict=True), "chrF", len(rows))
    # what its `sentence_score` divides; no public method gives the counts
    counts = [metric._compute_segment_statistics(text, metric._extract_reference_info(row)) for text, row in pairs]
    return {"chrf": Scored(np.array(counts, dtype=np.int64), _chrf_of_sums)}


def _chrf_of_sums(sums: np.ndarray) -> np.ndarray:
    """chrF in points, (…, 18) -> (…); precision and recall are means over the orders that both sides have.

    Args:
        sums: for each order, n-grams of the prediction, of the reference, and matching ones.
    """
    sums = np.asarray(sums, dtype=np.float64)
    in_predictions, in_references, matches = np.moveaxis(sums.reshape(*sums.shape[:-1], _ORDERS, 3), -1, 0)
    orders = np.maximum(((in_predictions > 0) & (in_references > 0)).sum(-1), 1)
    precision = (matches / np.maximum(in_predictions, 1)).sum(-1) / orders
    recall = (matches / np.maximum(in_references, 1)).sum(-1) / orders
    total = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(total > 0, total, 1)


def check_reference_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Each row's references as a list; errors are those of `bleu`."""
    rows = check_rows(predictions, references)
    if not any(text.strip() for row in rows for text in row):
        raise ValueError("nothing to score: all references are blank")
    return rows
