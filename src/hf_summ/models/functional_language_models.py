"""What a language model says of a generator's tokens (thesis, sections 4.2.2 and 4.2.7)."""

import math

import torch


def percentile_threshold(scores: torch.Tensor, percentile: float) -> torch.Tensor:
    """The p-th percentile of the last axis by nearest rank: its k-th smallest value, k = max(1, ⌈p/100 · V⌉).

    Args:
        scores: (…, V); only their order counts, so logits, log-probabilities and probabilities are alike.

    Returns:
        (…)
    """
    size = scores.shape[-1]
    # rounded, so that 99.9 / 100 · 30000 is rank 29970 although its product in floats lies above
    rank = min(max(1, math.ceil(round(percentile * size / 100, 6))), size)
    # the smallest of the V - k + 1 largest: they are few, which makes this the fastest way to the k-th smallest
    return scores.topk(size - rank + 1, sorted=False).values.amin(-1)


def above_percentile(scores: torch.Tensor, tokens: torch.Tensor, percentile: float) -> torch.Tensor:
    """Which tokens a language model accepts: those whose probability is above the p-th percentile of its distribution.

    Without ties V - k tokens are accepted, k the percentile's rank; tokens equal to the percentile are not.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids.

    Returns:
        (…, N), bool.
    """
    return scores.gather(-1, tokens) > percentile_threshold(scores, percentile)[..., None]


def multiply_probabilities(scores: torch.Tensor, tokens: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """The distribution with some tokens' probabilities multiplied, renormalised.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids, no token twice in a row.
        factors: (…, N), above 0.

    Returns:
        (…, V) log-probabilities.
    """
    # a constant that is the same for the whole row, such as the logits' own normaliser, cancels
    return scores.scatter_add(-1, tokens, factors.log()).log_softmax(-1)
