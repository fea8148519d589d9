"""Settings of `generate()` that change scores, in numpy: each maps texts (R, T) and scores (R, V) to scores (R, V)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Process = Callable[[np.ndarray, np.ndarray], np.ndarray]


def processors(config: Any, ends: Sequence[int]) -> Iterator[Process]:
    """The processors of a config, in the order of transformers'."""
    if config.repetition_penalty not in (None, 1.0):
        yield lambda ids, scores: _penalized(ids, scores, config.repetition_penalty)
    if config.do_sample:
        if config.temperature not in (None, 1.0):
            yield lambda ids, scores: scores / np.float32(config.temperature)
        # beams need continuations that do not end them
        least = 1 + len(ends) if config.num_beams > 1 else 1
        # transformers' default
        if top_k := 50 if config.top_k is None else config.top_k:
            yield lambda ids, scores: _likeliest(scores, max(top_k, least))
        if config.top_p not in (None, 1.0):
            yield lambda ids, scores: _nucleus(scores, config.top_p, least)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Scores (R, V) less the logarithm of the sum of their exponentials."""
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def highest(scores: np.ndarray, number: int, noise: "np.random.Generator | None") -> tuple[np.ndarray, np.ndarray]:
    """The highest of scores (B, M) and their indices, (B, number), in descending order.

    Args:
        noise: draws them instead, without replacement and with the probabilities of a softmax.
    """
    # Gumbel noise: the highest sums are such a sample (Kool et al. 2019)
    keys = scores if noise is None else scores + noise.gumbel(size=scores.shape).astype(scores.dtype)
    indices = np.argpartition(-keys, number - 1, axis=1)[:, :number]
    found = np.take_along_axis(scores, indices, 1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(indices, order, 1)


def _penalized(ids: np.ndarray, scores: np.ndarray, penalty: float) -> np.ndarray:
    """Scores with a penalty on the tokens of each text (Keskar et al. 2019)."""
    scores, own = scores.copy(), np.take_along_axis(scores, ids, 1)
    np.put_along_axis(scores, ids, np.where(own < 0, own * np.float32(penalty), own / np.float32(penalty)), 1)
    return scores


def _likeliest(scores: np.ndarray, number: int) -> np.ndarray:
    """Only the highest scores of each row, and those equal to the last of them."""
    number = min(number, scores.shape[1])
    last = np.partition(scores, -number, axis=1)[:, -number, None]
    return np.where(scores < last, -np.inf, scores)


def _nucleus(scores: np.ndarray, share: float, least: int) -> np.ndarray:
    """Only the fewest tokens with this share of the probability, and at least `least` (Holtzman et al. 2020)."""
    order = np.argsort(scores, axis=1, kind="stable")
    lower = np.cumsum(np.exp(log_softmax(np.take_along_axis(scores, order, 1))), axis=1) <= 1 - share
    lower[:, -least:] = False
    is_dropped = np.empty_like(lower)
    np.put_along_axis(is_dropped, order, lower, 1)
    return np.where(is_dropped, -np.inf, scores)
