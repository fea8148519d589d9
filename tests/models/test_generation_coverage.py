"""OpenNMT's stepwise coverage penalty through `generate()`, against a search of all texts."""

import pytest
import torch

from tests.conftest import first
from tests.models.architectures import COPY_TRANSFORMER, COPY_TRANSFORMER_BERT, DRGD_PRINTED, GDLF, GDLF_COPY
from tests.models.naive_search import all_texts

VOCABULARY, LONGEST = 5, 4


# what coverage is the sum of
ATTENTIONS = [
    pytest.param({"copy_attention": "separate"}, id="copying, attention of its own"),
    pytest.param({"copy_attention": "first_head"}, id="copying, first head", marks=pytest.mark.thorough),
    pytest.param({"copy": False}, id="not copying", marks=pytest.mark.thorough),
]


def toy(**overrides):
    """A model over five tokens, which attends to few places of its source, and a source for it."""
    model = COPY_TRANSFORMER.model(vocab_size=VOCABULARY, **overrides)
    # the end is not among what can be copied
    inputs = {"input_ids": torch.tensor([[3, 4, 1, 3, 4]]), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    with torch.no_grad():
        decoder = model.model.decoder
        attention = (
            decoder.copy_attention if "copy_attention" in decoder._modules else decoder.layers[-1].cross_attention
        )
        attention.q_proj.weight.mul_(8.0)
        # else the best text would be the empty one
        model.lm_head.bias[model.config.eos_token_id] -= 3.0
    return model, inputs


def best_text(model, inputs, beta, alpha):
    """The text of the best (log p - β · penalty) / ((5 + n) / 6)^α among all, penalty = Σ_i max(coverage_i, 1) - S."""
    scored = []
    for tokens, log_p, coverage in all_texts(model, inputs, LONGEST):
        coverage_penalty = sum(max(place - 1.0, 0.0) for place in coverage)
        length_penalty = ((5 + len(tokens)) / 6) ** alpha
        scored.append(((log_p - beta * coverage_penalty) / length_penalty, tokens))
    return max(scored)


# The weights of the coverage penalty and of the length penalty.
CASES_OF_PENALTIES = [(0.0, 0.9), (1.0, 0.0), (5.0, 0.9)]


@pytest.mark.parametrize("overrides", ATTENTIONS)
@pytest.mark.parametrize("use_cache", first([True, False]))
@pytest.mark.parametrize(("beta", "alpha"), CASES_OF_PENALTIES)
def test_coverage_penalty_finds_the_best_of_all_texts(beta, alpha, use_cache, overrides):
    model, inputs = toy(**overrides)
    score, tokens = best_text(model, inputs, beta, alpha)
    settings = {"num_beams": 150, "max_new_tokens": LONGEST, "early_stopping": "never", "use_cache": use_cache}
    settings |= {"coverage_penalty": beta, "gnmt_length_penalty": alpha}
    outputs = model.generate(**inputs, **settings, return_dict_in_generate=True, output_scores=True)
    assert tuple(outputs.sequences[0, 1:].tolist())[: len(tokens)] == tokens
    assert outputs.sequences_scores[0].item() == pytest.approx(score, abs=1e-4)


def test_the_penalty_makes_a_difference():
    """Else the search above would prove nothing."""
    model, inputs = toy()
    assert best_text(model, inputs, 0.0, 0.9)[1] != best_text(model, inputs, 5.0, 0.9)[1]


@pytest.mark.parametrize(
    "architecture", first([COPY_TRANSFORMER, COPY_TRANSFORMER_BERT, DRGD_PRINTED, GDLF_COPY], 2), ids=lambda a: a.name
)
@pytest.mark.parametrize("settings", [{"num_beams": 4}, {"num_beams": 3, "do_sample": True}], ids=str)
def test_cached_uncached_and_alone_agree(architecture, settings):
    model, inputs = architecture.model(), architecture.inputs()

    def generate(inputs, **more):
        torch.manual_seed(0)
        return model.generate(**inputs, max_new_tokens=9, min_new_tokens=9, coverage_penalty=5.0, **settings, **more)

    cached = generate(inputs)
    torch.testing.assert_close(generate(inputs, use_cache=False), cached, rtol=0, atol=0)
    if "do_sample" not in settings:
        for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
            alone = generate({name: value[row : row + 1, :length] for name, value in inputs.items()})
            torch.testing.assert_close(cached[row : row + 1], alone)


def test_one_beam_is_not_touched():
    model, inputs = COPY_TRANSFORMER.model(), COPY_TRANSFORMER.inputs()
    plain = model.generate(**inputs, max_new_tokens=6)
    torch.testing.assert_close(model.generate(**inputs, max_new_tokens=6, coverage_penalty=5.0), plain)


def test_penalty_that_cannot_work_is_refused():
    with pytest.raises(ValueError, match=r"^`coverage_penalty` is 5.0, which needs a model that copies: set it to 0$"):
        GDLF.model().generate(**GDLF.inputs(), num_beams=2, max_new_tokens=3, coverage_penalty=5.0)
    with pytest.raises(ValueError, match="`coverage_penalty` and `renormalize_logits=True` exclude each other"):
        COPY_TRANSFORMER.model().generate(
            **COPY_TRANSFORMER.inputs(), num_beams=2, coverage_penalty=5.0, renormalize_logits=True
        )


def test_attention_that_is_not_copied_from_covers_while_decoding_alone():
    model, inputs = COPY_TRANSFORMER.model(copy=False), COPY_TRANSFORMER.inputs()
    outputs = model(**inputs, labels=COPY_TRANSFORMER.labels(), output_attentions=True)
    torch.testing.assert_close(outputs.copy_attentions, outputs.cross_attentions[-1][:, 0])
    assert outputs.copy_gates is None
    trained = model.train()(**inputs, labels=COPY_TRANSFORMER.labels())
    assert trained.copy_attentions is trained.coverage is None


def test_coverage_is_a_sum_in_full_precision():
    for copy_attention in ("separate", "mean"):
        model = COPY_TRANSFORMER.model(copy_attention=copy_attention).bfloat16()
        outputs = model(**COPY_TRANSFORMER.inputs(), decoder_input_ids=torch.full((3, 50), 5), use_cache=True)
        assert outputs.coverage.dtype == torch.float32


def test_padding_of_a_prompt_covers_nothing():
    model, inputs = COPY_TRANSFORMER.model(), COPY_TRANSFORMER.inputs(rows=1)
    prompt = model(**inputs, decoder_input_ids=torch.tensor([[1, 7]]))
    mask = torch.tensor([[0, 0, 0, 1, 1]])
    padded = model(**inputs, decoder_input_ids=torch.tensor([[0, 0, 0, 1, 7]]), decoder_attention_mask=mask)
    torch.testing.assert_close(prompt.coverage.sum(), torch.tensor(2.0, dtype=torch.float64))
    torch.testing.assert_close(padded.coverage.sum(), torch.tensor(2.0, dtype=torch.float64))
