"""Scores as settings change them: those of transformers' processors; and samples."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from hf_summ.runtimes.onnx_search import highest, log_softmax, processors

UNSET = {"repetition_penalty": None, "do_sample": True, "temperature": None, "top_k": 0, "top_p": None, "num_beams": 1}


# settings, and the processor of transformers with the least number of tokens that it keeps
CASES_OF_SETTINGS = [
    ({"repetition_penalty": 1.7}, lambda least: RepetitionPenaltyLogitsProcessor(1.7)),
    ({"temperature": 0.3}, lambda least: TemperatureLogitsWarper(0.3)),
    ({"top_k": 5}, lambda least: TopKLogitsWarper(5, min_tokens_to_keep=least)),
    ({"top_k": 1}, lambda least: TopKLogitsWarper(1, min_tokens_to_keep=least)),
    ({"top_k": None}, lambda least: TopKLogitsWarper(50, min_tokens_to_keep=least)),
    ({"top_p": 0.6}, lambda least: TopPLogitsWarper(0.6, min_tokens_to_keep=least)),
    ({"top_p": 0.01}, lambda least: TopPLogitsWarper(0.01, min_tokens_to_keep=least)),
]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("settings", "twin"), CASES_OF_SETTINGS)
def test_scores_are_those_of_transformers(settings, twin, beams):
    generator = np.random.default_rng(0)
    scores = log_softmax(3 * generator.normal(size=(6, 70)).astype(np.float32))
    scores[:, 3] = -np.inf
    ids = generator.integers(70, size=(6, 9))
    (process,) = processors(SimpleNamespace(**{**UNSET, **settings, "num_beams": beams}), [2])
    expected = twin(2 if beams > 1 else 1)(torch.tensor(ids), torch.tensor(scores))
    np.testing.assert_allclose(process(ids, scores.copy()), expected.numpy(), rtol=1e-6)


def test_samples_have_their_probabilities():
    scores = np.log(np.array([[0.5, 0.3, 0.15, 0.05, 0.0]], np.float32) + 1e-30).repeat(20_000, axis=0)
    _, tokens = highest(scores, 2, np.random.default_rng(0))
    frequencies = np.bincount(tokens.ravel(), minlength=5) / len(tokens)
    # the probability that a token is drawn first or second, without replacement
    probabilities = np.exp(scores[0].astype(float))
    expected = np.zeros(5)
    for first, second in itertools.permutations(range(5), 2):
        pair_probability = probabilities[first] * probabilities[second] / (1 - probabilities[first])
        expected[[first, second]] += pair_probability
    np.testing.assert_allclose(frequencies, expected, atol=0.01)


def test_without_noise_they_are_the_best_in_order():
    scores = np.random.default_rng(0).normal(size=(4, 30))
    best, tokens = highest(scores, 7, None)
    assert tokens.tolist() == np.argsort(-scores, axis=1)[:, :7].tolist()
    assert best.tolist() == np.take_along_axis(scores, tokens, 1).tolist()
