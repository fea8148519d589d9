"""Generator conditioning against the thesis's description (section 4.2.7), one draft and one token at a time."""

import math
from fractions import Fraction

import pytest
import torch
from transformers import AutoModelForMaskedLM, BertConfig, BertForPreTraining, RobertaConfig, RobertaForMaskedLM

from hf_summ import CopyTransformerConfig
from hf_summ.models import layers_language_model
from hf_summ.models.layers_language_model import (
    LanguageModelLogitsProcessor,
    above_percentile,
    condition_in_training,
    draft_predictions,
)

LM_SPACES = CopyTransformerConfig.rules["lm_space"]
VOCABULARY, POSITIONS = 40, 12
PAD, CLS, SEP, MASK = 0, 1, 2, 3
WIDTHS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
# wide enough for tokens to differ clearly
WIDTHS |= {"vocab_size": VOCABULARY, "initializer_range": 0.5}
IDS = {"mask_token_id": MASK, "pad_token_id": PAD}


@pytest.fixture
def masked_lm(tmp_path):
    """A masked LM as it comes from a pre-training checkpoint."""
    BertForPreTraining(BertConfig(**WIDTHS, max_position_embeddings=POSITIONS)).save_pretrained(tmp_path)
    return AutoModelForMaskedLM.from_pretrained(tmp_path).double().eval()


def ordinary_tokens(*shape):
    return torch.randint(MASK + 1, VOCABULARY, shape)


def drafts(rows, length):
    return torch.cat((torch.full((rows, 1), CLS), ordinary_tokens(rows, length - 1)), dim=1)


def naive_is_accepted(scores, token, percentile):
    ranked = sorted(scores)
    rank = max(1, math.ceil(Fraction(str(percentile)) * len(ranked) / 100))
    return scores[token] > ranked[rank - 1]


def naive_scores(masked_lm, draft):
    inputs = [*draft[-(POSITIONS - 1) :], MASK]
    with torch.no_grad():
        return masked_lm(torch.tensor([inputs])).logits[0, -1].tolist()


def naive_conditioning(space, log_probs, accepts, top_tokens, rejected, accepted, ends=()):
    """(V,) log-probabilities, token -> whether the LM accepts it."""
    likeliest = sorted(range(len(log_probs)), key=lambda token: -log_probs[token].item())[:top_tokens]
    if space == "log":
        mean = sum(log_probs) / len(log_probs)
        kept = {token for token in likeliest if accepts(token)}
        factors = [accepted if token in kept else 1.0 if token in ends else rejected for token in range(len(log_probs))]
        return torch.stack([mean + factor * (p - mean) for factor, p in zip(factors, log_probs, strict=True)])
    probabilities = list(log_probs.exp())
    for token in likeliest:
        probabilities[token] = probabilities[token] * (accepted if accepts(token) else rejected)
    total = sum(probabilities)
    return torch.stack([probability / total for probability in probabilities]).log()


def naive_step(space, masked_lm, draft, log_probs, top_tokens, percentile, rejected, accepted, ends=()):
    scores = naive_scores(masked_lm, draft)

    def is_accepted(token):
        return naive_is_accepted(scores, token, percentile)

    return naive_conditioning(space, log_probs, is_accepted, top_tokens, rejected, accepted, ends)


@pytest.mark.parametrize("percentile", [0, 0.1, 12.5, 50, 90, 95.5, 99, 99.9, 100])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_accepted_is_what_ranks_above_the_percentile(percentile, size):
    for scores in (torch.randn(3, size), torch.randint(5, (3, size)).float()):
        tokens = torch.randint(size, (3, 20))
        expected = []
        for row, chosen in zip(scores.tolist(), tokens.tolist(), strict=True):
            expected.append([naive_is_accepted(row, token, percentile) for token in chosen])
        assert above_percentile(scores, tokens, percentile).tolist() == expected


def test_share_of_accepted_tokens_is_exact():
    tokens = torch.arange(30000)
    for percentile, share in ((90, 3000), (99, 300), (99.9, 30), (100, 0)):
        assert above_percentile(torch.randperm(30000).double(), tokens, percentile).sum() == share
    assert not above_percentile(torch.zeros(30000), tokens, 50).any()


def test_drafts_of_a_batch_are_read_as_each_alone(masked_lm):
    # the last ones have no room in the LM's positions
    lengths = torch.tensor([1, 4, 4, POSITIONS - 1, POSITIONS, POSITIONS + 5])
    tokens = drafts(len(lengths), POSITIONS + 5)
    # padding in front of a draft, and of one that is finished
    tokens[1, 0] = PAD
    tokens[2, 2:4] = PAD
    predicted = draft_predictions(masked_lm, tokens, lengths, **IDS)
    for row, length in enumerate(lengths):
        inputs = torch.cat((tokens[row, :length][-(POSITIONS - 1) :], torch.tensor([MASK])))[None]
        with torch.no_grad():
            expected = masked_lm(input_ids=inputs, attention_mask=(inputs != PAD).long()).logits[0, -1]
        torch.testing.assert_close(predicted[row], expected)
    assert not predicted.requires_grad


def test_positions_that_start_behind_padding_are_counted():
    # RoBERTa's first position is the second after its padding
    config = RobertaConfig(**WIDTHS, max_position_embeddings=POSITIONS + PAD + 1, pad_token_id=PAD)
    masked_lm = RobertaForMaskedLM(config).double().eval()
    tokens = drafts(2, POSITIONS + 3)
    predicted = draft_predictions(masked_lm, tokens, torch.tensor([POSITIONS + 3] * 2), **IDS)
    for row in range(2):
        inputs = torch.cat((tokens[row, -(POSITIONS - 1) :], torch.tensor([MASK])))[None]
        torch.testing.assert_close(predicted[row], masked_lm(inputs).logits[0, -1])


CASES_OF_TOP_TOKENS = [(1, 90), (5, 50), (20, 80), (VOCABULARY + 9, 30)]
CASES_OF_FACTORS = [(0.7, 1.0), (1.0, 1.5), (0.3, 2.0)]


@pytest.mark.thorough
@pytest.mark.parametrize(("top_tokens", "percentile"), CASES_OF_TOP_TOKENS)
@pytest.mark.parametrize(("rejected", "accepted"), CASES_OF_FACTORS)
@pytest.mark.parametrize("space", LM_SPACES)
def test_processor_does_what_the_thesis_says(masked_lm, space, top_tokens, percentile, rejected, accepted):
    settings = (top_tokens, percentile, rejected, accepted)
    processor = LanguageModelLogitsProcessor(masked_lm, MASK, PAD, *settings, space, [SEP])
    tokens, logits = drafts(6, 5), 2 * torch.randn(6, VOCABULARY).double()
    log_probs = logits.log_softmax(-1)
    conditioned = processor(tokens, log_probs)
    for row in range(6):
        expected = naive_step(space, masked_lm, tokens[row].tolist(), log_probs[row], *settings, [SEP])
        torch.testing.assert_close(conditioned[row], expected)
    from_logits = processor(tokens, logits)
    torch.testing.assert_close(from_logits.log_softmax(-1), conditioned.log_softmax(-1))
    if space == "probability":
        torch.testing.assert_close(from_logits, conditioned)
        torch.testing.assert_close(conditioned.exp().sum(-1), torch.ones(6).double())
    # many tokens judged, some of them accepted and some not: it must make a difference
    if top_tokens >= 5:
        assert (conditioned - log_probs).abs().amax() > 0.01


@pytest.mark.parametrize("space", LM_SPACES)
def test_forbidden_tokens_stay_forbidden(masked_lm, space):
    processor = LanguageModelLogitsProcessor(masked_lm, MASK, PAD, 10, 50, 0.5, 2.0, space)
    logits = torch.randn(3, VOCABULARY).double()
    logits[0, ::2] = -torch.inf
    # fewer tokens are possible than are judged
    logits[1, 4:] = -torch.inf
    logits[2] = -torch.inf
    conditioned = processor(drafts(3, 4), logits)
    assert torch.equal(conditioned.isneginf(), logits.isneginf())
    assert not conditioned.isnan().any()
    if space == "probability":
        torch.testing.assert_close(conditioned[:2].exp().sum(-1), torch.ones(2).double())
    else:
        # what cannot come does not move the mean
        possible = logits[0, 1::2]
        lowest, mean = possible.argmin(), possible.mean()
        torch.testing.assert_close(conditioned[0, 1::2][lowest], mean + 0.5 * (possible[lowest] - mean))


@pytest.mark.parametrize("space", LM_SPACES)
def test_batches_are_bounded(masked_lm, monkeypatch, space):
    settings = {"top_tokens": 8, "percentile": 60}
    training = {**IDS, **settings, "factor": 2.0, "space": space}
    tokens, log_probs = drafts(4, 6), torch.randn(4, 6, VOCABULARY).double().log_softmax(-1)
    together = condition_in_training(log_probs, tokens, masked_lm, **training)
    shapes = []
    masked_lm.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    monkeypatch.setattr(layers_language_model, "_TOKENS_AT_ONCE", 21)
    split = condition_in_training(log_probs, tokens, masked_lm, **training)
    torch.testing.assert_close(split, together)
    assert sum(rows for rows, _ in shapes) == tokens.numel()
    assert all(rows * length <= 21 for rows, length in shapes)
    monkeypatch.setattr(layers_language_model, "_ROWS_AT_ONCE", 1)
    LanguageModelLogitsProcessor(masked_lm, MASK, PAD, **settings)(tokens, log_probs[:, -1])
    assert shapes[-4:] == [(1, 7)] * 4


@pytest.mark.thorough
@pytest.mark.parametrize("space", LM_SPACES)
def test_training_raises_what_the_lm_accepts(masked_lm, space):
    rows, length, top_tokens, percentile, factor = 3, POSITIONS + 2, 12, 60, 1.7
    tokens = drafts(rows, length)
    # a target that is shorter
    tokens[1, 5:] = PAD
    logits = 2 * torch.randn(rows, length, VOCABULARY).double()
    weights = torch.randn_like(logits)
    actual, naive = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    settings = {"top_tokens": top_tokens, "percentile": percentile, "factor": factor, "space": space}
    conditioned = condition_in_training(actual.log_softmax(-1), tokens, masked_lm, **IDS, **settings)
    log_probs = naive.log_softmax(-1)
    expected = log_probs.clone()
    for row in range(rows):
        for place in range(5 if row == 1 else length):
            draft = tokens[row, : place + 1].tolist()
            # in log space all accepted tokens are raised, not only the likeliest
            judged = VOCABULARY if space == "log" else top_tokens
            step = (draft, log_probs[row, place], judged, percentile, 1.0, factor)
            expected[row, place] = naive_step(space, masked_lm, *step)
    torch.testing.assert_close(conditioned, expected)
    if space == "probability":
        torch.testing.assert_close(conditioned.exp().sum(-1), torch.ones(rows, length).double())
    assert (conditioned - log_probs).abs().amax() > 0.1
    # tokens of padding predict nothing
    torch.testing.assert_close(conditioned[1, 5:], log_probs[1, 5:])
    (conditioned * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(actual.grad, naive.grad)
    assert all(parameter.grad is None for parameter in masked_lm.parameters())


@pytest.mark.parametrize("space", LM_SPACES)
def test_training_takes_logits_too_and_a_factor_of_one(masked_lm, space):
    logits, tokens = torch.randn(2, 4, VOCABULARY).double(), drafts(2, 4)
    settings = {"masked_lm": masked_lm, **IDS, "top_tokens": 9, "percentile": 70, "space": space}
    raised = condition_in_training(logits, tokens, **settings, factor=3.0)
    torch.testing.assert_close(raised, condition_in_training(logits.log_softmax(-1), tokens, **settings, factor=3.0))
    torch.testing.assert_close(condition_in_training(logits, tokens, **settings, factor=1.0), logits.log_softmax(-1))


def test_decoder_that_starts_with_padding_is_conditioned(masked_lm):
    log_probs, tokens = torch.randn(1, 1, VOCABULARY).double().log_softmax(-1), torch.tensor([[PAD]])
    conditioned = condition_in_training(log_probs, tokens, masked_lm, MASK, PAD, VOCABULARY, 50, 2.0, "probability")
    # the LM reads a place of padding in front of [MASK], and does not attend to it
    inputs = torch.tensor([[PAD, MASK]])
    with torch.no_grad():
        scores = masked_lm(inputs, attention_mask=torch.tensor([[0, 1]])).logits[0, -1].tolist()
    expected = naive_conditioning(
        "probability", log_probs[0, 0], lambda token: naive_is_accepted(scores, token, 50), VOCABULARY, 1.0, 2.0
    )
    torch.testing.assert_close(conditioned[0, 0], expected)
