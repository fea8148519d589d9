"""A masked language model in CopyTransformer's generator (thesis, section 4.2.7)."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, BertConfig, BertForPreTraining, BertModel

from hf_summ import CopyTransformerForConditionalGeneration
from tests.models.architectures import COPY_TRANSFORMER, TINY_BERT, VOCAB_SIZE
from tests.models.pretrained import build
from tests.models.test_layers_language_model import naive_step


@pytest.mark.thorough
def test_masked_language_model_comes_from_its_checkpoint_and_goes_with_the_model(conditioned, bert_folder, tmp_path):
    expected = BertForPreTraining.from_pretrained(bert_folder).state_dict()
    actual = conditioned.masked_lm.state_dict()
    torch.testing.assert_close(actual["cls.predictions.bias"].float(), expected["cls.predictions.bias"])
    torch.testing.assert_close(
        actual["bert.encoder.layer.3.output.dense.weight"].float(), expected["bert.encoder.layer.3.output.dense.weight"]
    )
    conditioned.save_pretrained(tmp_path / "saved")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved").train()
    assert not any(value.requires_grad for value in loaded.masked_lm.parameters())
    assert not any(part.training for part in loaded.masked_lm.modules())
    for name, value in loaded.masked_lm.state_dict().items():
        torch.testing.assert_close(value, actual[name], rtol=0, atol=0)


@pytest.mark.thorough
@pytest.mark.parametrize("factors", [{"lm_rejected_factor": 0.3}, {"lm_accepted_factor": 3.0}], ids=str)
def test_conditioned_decoding_follows_the_thesis(conditioned, factors, tmp_path):
    # saved in the generation config
    for key, value in factors.items():
        setattr(conditioned.generation_config, key, value)
    conditioned.save_pretrained(tmp_path / "saved")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved").eval()
    inputs = COPY_TRANSFORMER.inputs(rows=1)
    outputs = model.generate(**inputs, max_new_tokens=5, return_dict_in_generate=True, output_scores=True)
    plain = model(**inputs, decoder_input_ids=outputs.sequences[:, :-1]).logits[0].log_softmax(-1)
    rejected = factors.get("lm_rejected_factor", 1.0)
    accepted = factors.get("lm_accepted_factor", 1.0)
    space = model.config.lm_space
    differs = False
    for step, scores in enumerate(outputs.scores):
        draft = outputs.sequences[0, : step + 1].tolist()
        expected = naive_step(space, model.masked_lm, draft, plain[step], 10, 60, rejected, accepted, ends=[2])
        # a row of logits has a constant of its own
        torch.testing.assert_close(scores[0].double().log_softmax(-1), expected.log_softmax(-1), rtol=1e-4, atol=1e-4)
        differs = differs or (expected - plain[step]).abs().max() > 0.01
    assert differs


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{"num_beams": 3}, {"num_beams": 3, "min_new_tokens": 4}], ids=str)
def test_conditioned_beams_cached_uncached_and_alone_agree(conditioned, settings):
    inputs = COPY_TRANSFORMER.inputs()
    settings = {**settings, "max_new_tokens": 5, "lm_rejected_factor": 0.3}
    together = conditioned.generate(**inputs, **settings)
    torch.testing.assert_close(conditioned.generate(**inputs, **settings, use_cache=False), together, rtol=0, atol=0)
    alone = conditioned.generate(**{name: value[:1] for name, value in inputs.items()}, **settings)[0].tolist()
    assert together[0].tolist()[: alone.index(2) + 1 if 2 in alone else None] == alone


@pytest.mark.thorough
def test_conditioned_training_follows_the_thesis(conditioned):
    inputs, labels = COPY_TRANSFORMER.inputs(), COPY_TRANSFORMER.labels()
    outputs = conditioned(**inputs, labels=labels)
    conditioned.train()
    loss = conditioned(**inputs, labels=labels).loss
    total, tokens, smoothing, space = 0.0, 0, conditioned.config.label_smoothing, conditioned.config.lm_space
    # in log space all accepted tokens are raised, and the percentile of training is another
    judged = VOCAB_SIZE if space == "log" else 10
    for row in range(len(labels)):
        wanted = labels[row][labels[row] != -100].tolist()
        for position, label in enumerate(wanted):
            log_p = outputs.logits[row, position].log_softmax(-1)
            draft = [1, *wanted[:position]]
            log_p = naive_step(space, conditioned.masked_lm, draft, log_p, judged, 80, 1.0, 3.0)
            total = total - (1 - smoothing) * log_p[label] - smoothing * log_p.mean()
            tokens += 1
    torch.testing.assert_close(loss, total / tokens)
    # evaluated without it
    assert (loss - outputs.loss).abs() > 1e-3


@pytest.mark.thorough
def test_conditioning_leaves_alone_what_other_processors_forbid(conditioned):
    # the end is likely, and forbidden: its probability is not to go to the other tokens
    conditioned.lm_head.bias.data[2] = 6.0
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "num_beams": 3}
    settings |= {"return_dict_in_generate": True, "output_scores": True}
    plain = conditioned.generate(**COPY_TRANSFORMER.inputs(), **settings)
    hardly = conditioned.generate(**COPY_TRANSFORMER.inputs(), **settings, lm_rejected_factor=0.999999)
    torch.testing.assert_close(hardly.sequences_scores, plain.sequences_scores, rtol=1e-4, atol=1e-4)


CASES_OF_IMPOSSIBLE_CONDITIONING = [
    {"lm_rejected_factor": 1.5},
    {"lm_rejected_factor": 0.0},
    {"lm_accepted_factor": 0.5},
    {"lm_rejected_factor": 0.5, "lm_percentile": 100},
    {"lm_rejected_factor": 0.5, "lm_top_tokens": 0},
]


@pytest.mark.thorough
@pytest.mark.parametrize("keys", CASES_OF_IMPOSSIBLE_CONDITIONING, ids=str)
def test_impossible_conditioning_is_named(conditioned, keys):
    for key, value in keys.items():
        setattr(conditioned.generation_config, key, value)
    key, value = list(keys.items())[-1]
    with pytest.raises(ValueError, match=f"`{key}` is {value}"):
        conditioned.check_generation_keys(conditioned.generation_config)


@pytest.mark.parametrize("mask_token_id", [None, 103])
def test_language_model_needs_its_mask(mask_token_id):
    config = COPY_TRANSFORMER.config(copy=False, masked_lm_config=TINY_BERT, mask_token_id=mask_token_id)
    with pytest.raises(
        ValueError, match=f"`mask_token_id` is {mask_token_id}, but must be one of the {VOCAB_SIZE} tokens"
    ):
        CopyTransformerForConditionalGeneration(config)


def test_conditioned_training_asks_for_subwords(conditioned):
    embeddings, labels = torch.zeros(3, 6, 16, dtype=torch.float64), COPY_TRANSFORMER.labels()
    with pytest.raises(ValueError, match="give `decoder_input_ids`"):
        conditioned.train()(**COPY_TRANSFORMER.inputs(), decoder_inputs_embeds=embeddings, labels=labels)


def test_conditioning_without_a_language_model_is_refused():
    for factors in ({"lm_rejected_factor": 0.9}, {"lm_accepted_factor": 2.0}):
        with pytest.raises(ValueError, match="need a masked language model"):
            COPY_TRANSFORMER.model().generate(**COPY_TRANSFORMER.inputs(), **factors)


def test_masked_language_model_without_its_head_is_refused(tmp_path):
    BertModel(BertConfig(**TINY_BERT)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"`masked_lm_name` is .* which has no weights for cls\.predictions"):
        build(copy=False, convolutional_attention="none", masked_lm_name=str(tmp_path))
