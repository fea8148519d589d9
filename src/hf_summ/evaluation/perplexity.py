"""Perplexity of a corpus, from its examples' losses."""

import numpy as np


def perplexity(sums: np.ndarray) -> np.ndarray:
    """exp(nll / tokens), infinite where that is beyond a float: a measure of sums, see `significance`.

    Args:
        sums: (…, 2), negative log-likelihood and tokens, summed over a corpus; such as `nll` and `tokens` of the rows
            that training writes to `predictions.jsonl`.

    Returns:
        (…), NaN where there are no tokens.
    """
    sums = np.asarray(sums, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.exp(sums[..., 0] / sums[..., 1])
