"""chrF (Popović 2015) of a corpus: F2 of character n-grams, counted by sacrebleu."""

from collections.abc import Sequence

import numpy as np

from hf_summ.common.messages import progress_bar
from hf_summ.evaluation.bleu import reference_rows
from hf_summ.evaluation.significance import Scored, rounded

# n-grams of 1 to 6 characters, without spaces
_ORDERS = 6


def chrf(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> dict[str, float]:
    """The corpus's chrF in points, 0 to 100, to 4 digits, as `chrf`; see `chrf_statistics` for arguments and errors."""
    return rounded({"chrf": Scored(chrf_statistics(predictions, references), corpus_chrf)})


def chrf_statistics(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> np.ndarray:
    """The statistics of chrF for each example; `corpus_chrf` of their sums is the corpus's score.

    Args:
        predictions: one text per row.
        references: one or several texts per row, of which the one with the highest chrF counts.

    Returns:
        (N, 18) counts: for each order, n-grams of the prediction, of the reference, and matching ones.

    Raises:
        ImportError: sacrebleu is not installed.
        ValueError: as `bleu_statistics`.
    """
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise ImportError("chrF needs sacrebleu: pip install 'hf-summ[bleu]'") from error
    rows, metric = reference_rows(predictions, references), CHRF(char_order=_ORDERS)
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
    precision, recall = ((matches / np.maximum(whole, 1)).sum(-1) / orders for whole in (ours, theirs))
    total = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(total > 0, total, 1)
