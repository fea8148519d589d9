"""Perplexity of a corpus, from the losses of its examples."""

import numpy as np


def perplexity(sums: np.ndarray) -> np.ndarray:
    """exp(nll / tokens), infinite where that exceeds a float: a measure of sums, see `significance`.

    Args:
        sums: (…, 2), negative log-likelihood and number of tokens, summed over a corpus, for example `nll` and `tokens`
            of the rows that training writes to `predictions.jsonl`.

    Returns:
        (…), NaN where there are no tokens.
    """
    sums = np.asarray(sums, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.exp(sums[..., 0] / sums[..., 1])
