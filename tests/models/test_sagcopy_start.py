"""SAGCopy begins with a BART, and is one where nothing is copied."""

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertModel

from hf_summ import SagCopyConfig, SagCopyForConditionalGeneration
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, pretrained_names, read_pretrained_parts
from tests.models.architectures import SAGCOPY

SIZES = {
    **{"vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4},
    **{"decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32},
    **{"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1},
    **{"eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None},
}
NO_DROPOUT = {name: value for name, value in SIZES.items() if name.endswith("dropout")}
# what a tokenizer sets
SPECIAL = {name: value for name, value in SIZES.items() if name == "vocab_size" or name.endswith("token_id")}
SPECIAL.pop("forced_eos_token_id")


def save_bart(folder, **settings):
    """A BART whose weights are all random, also those that begin as zeros and ones."""
    torch.manual_seed(7)
    model = BartForConditionalGeneration(BartConfig(**{**SIZES, **settings})).eval()
    for value in [*model.parameters(), model.final_logits_bias]:
        value.data.add_(0.1 * torch.randn_like(value))
    model.save_pretrained(folder)
    return model


def start(folder, **settings):
    """A new model that begins with the BART of a folder."""
    config = SagCopyConfig(**NO_DROPOUT, start_name=str(folder), **settings)
    read_pretrained_parts(config)
    for key, value in SPECIAL.items():
        setattr(config, key, settings.get(key, value))
    torch.manual_seed(0)
    model = SagCopyForConditionalGeneration(config)
    load_pretrained_parts(model)
    return model.eval()


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"scale_embedding": True, "activation_function": "relu"}], ids=str)
def test_without_copying_it_is_that_bart(settings, tmp_path):
    bart = save_bart(tmp_path, **settings)
    inputs, labels = SAGCOPY.inputs(), SAGCOPY.labels()
    decoder_input_ids = bart.prepare_decoder_input_ids_from_labels(labels)
    expected = bart(**inputs, decoder_input_ids=decoder_input_ids)
    plain = start(tmp_path, copy=False, centrality="none")
    found = plain(**inputs, decoder_input_ids=decoder_input_ids)
    mask = inputs["attention_mask"].bool()
    encoded = found.encoder_last_hidden_state[mask]
    torch.testing.assert_close(encoded, expected.encoder_last_hidden_state[mask], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
    # with its gate shut, a guided model says the same, also with a token shift
    guided = start(tmp_path, centrality="indegree-3", token_shift=True)
    guided.model.decoder.copy_gate.weight.data.zero_()
    guided.model.decoder.copy_gate.bias.data.fill_(-100)
    found = guided(**inputs, decoder_input_ids=decoder_input_ids)
    torch.testing.assert_close(found.logits, expected.logits.log_softmax(-1), rtol=1e-4, atol=1e-5)


def test_weights_that_begin_fresh_are_named(tmp_path, caplog):
    save_bart(tmp_path)
    with caplog.at_level("INFO", logger="hf_summ"):
        start(tmp_path)
    assert (
        f"started from {tmp_path}; new weights, which it lacks: model.decoder.copy_gate.bias, "
        "model.decoder.copy_gate.weight, model.decoder.layers.2.cross_attention.centrality_weight"
    ) in caplog.text


def test_weights_that_begin_with_zero_are_not_called_random(tmp_path, caplog):
    save_bart(tmp_path)
    with caplog.at_level("INFO", logger="hf_summ"):
        model = start(tmp_path, token_shift=True)
    name = "model.encoder.token_shift.projection.weight"
    assert not model.get_parameter(name).any()
    assert name in caplog.text
    assert "random" not in caplog.text


def test_saved_model_needs_its_start_no_more(tmp_path):
    save_bart(tmp_path / "bart")
    model = start(tmp_path / "bart")
    model.save_pretrained(tmp_path / "saved")
    (tmp_path / "bart" / "config.json").unlink()
    loaded = SagCopyForConditionalGeneration.from_pretrained(tmp_path / "saved")
    read_pretrained_parts(loaded.config, is_fresh=False)
    assert load_pretrained_parts(loaded, missing=["one"]) == {"one"}
    assert pretrained_names(loaded.config) == [str(tmp_path / "bart")]
    inputs, labels = SAGCOPY.inputs(), SAGCOPY.labels()
    torch.testing.assert_close(loaded(**inputs, labels=labels).loss, model(**inputs, labels=labels).loss)


CASES_OF_WRONG_STARTS = [
    ({"d_model": 48}, {}, r"`d_model` is 48, but 16 in `start_name` \(.*\): omit it"),
    ({"norm": "pre"}, {}, r"`norm` is pre, but post in `start_name`"),
    ({}, {"decoder_ffn_dim": 20}, "whose `ffn_dim` differ: 24 and 20"),
    ({}, {"encoder_attention_heads": 2}, "whose `attention_heads` differ: 2 and 4"),
    ({"vocab_size": 60}, {}, "has 40 tokens, but the tokenizer has 60, or other special tokens: use the tokenizer"),
    ({"eos_token_id": 3}, {}, "has 40 tokens, but the tokenizer has 40, or other special tokens"),
]


@pytest.mark.parametrize(("settings", "bart", "message"), CASES_OF_WRONG_STARTS)
def test_start_that_does_not_fit_is_refused(settings, bart, message, tmp_path):
    save_bart(tmp_path, **bart)
    with pytest.raises(ValueError, match=message):
        start(tmp_path, **settings)


def test_start_must_be_a_bart_that_can_be_read(tmp_path):
    BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).save_pretrained(
        tmp_path / "bert"
    )
    with pytest.raises(ValueError, match="a bert, but must be a BART"):
        start(tmp_path / "bert")
    with pytest.raises(ValueError, match=r"`start_name` is .*nowhere', which cannot be read"):
        start(tmp_path / "nowhere")
