"""CopyTransformer's configuration: what it refuses, and the pre-trained parts that it names."""

import json

import pytest
import torch
from transformers import AutoConfig, BartConfig, BertConfig, GPT2Config

from hf_summ import CopyTransformerConfig, CopyTransformerForConditionalGeneration
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, read_pretrained_parts
from tests.models.architectures import COPY_TRANSFORMER, COPY_TRANSFORMER_BERT, ON_BERT, TINY_BERT
from tests.models.pretrained import save_bert

MISTAKES = [
    ({"num_heads": 7}, r"`d_model` \(512\) must be a multiple of `num_heads` \(7\)"),
    ({"convolutional_attention": "1d", "window_size": 10}, "`window_size` is 10, but must be odd"),
    ({"convolutional_attention": "2d", "head_window_size": 2}, "`head_window_size` is 2, but must be odd"),
    ({"convolutional_attention": "2d", "head_window_size": 9}, r"`head_window_size` is 9, but must be at most `num_he"),
    ({"convolutional_attention": "1d", "convolutional_layers": 7}, "`convolutional_layers` is 7"),
    ({"convolutional_attention": "1d", "convolutional_layers": 0}, "`convolutional_layers` is 0"),
    ({"encoder_type": "bert", "convolutional_attention": "1d", "bert_name": "x"}, "needs a Transformer"),
    ({"encoder_type": "bert"}, "needs BERT: set `bert_name` to a checkpoint"),
    ({"decoder_embedding": "bert"}, "needs BERT"),
    ({"output_embedding": "bert"}, '`output_embedding="bert"` needs BERT: set `encoder_type`'),
    ({"side_layers": 1}, "`side_layers` is 1, which needs `encoder_type="),
    ({"encoder_type": "bert_transformer", "side_layers": 6, "bert_name": "x"}, "`side_layers` is 6"),
    ({"lm_training_factor": 1.5}, "needs a language model: set `masked_lm_name`"),
    ({"masked_lm_name": "x"}, "`masked_lm_name` and `copy=True` exclude each other"),
]
BERT_MISTAKES = [
    ({"vocab_size": 50}, "`vocab_size` is 50, but BERT has 40 tokens"),
    ({"bert_config": {**TINY_BERT, "vocab_size": 400}}, "`vocab_size` is 40, but BERT has 400 tokens"),
    ({"vocab_size": 39, "output_embedding": "bert"}, "`vocab_size` is 39, but must be the 40 of BERT's word"),
    ({"bert_config": {**TINY_BERT, "model_type": "brt"}}, "`bert_config` has the model type 'brt'"),
    ({"bert_window_stride": 9}, "`bert_window_stride` is 9"),
    ({"bert_window_stride": 0}, "`bert_window_stride` is 0"),
    ({"bert_config": {**TINY_BERT, "num_hidden_layers": 3}}, "`bert_layers` is 4, but must be at most BERT's 3 layers"),
    ({"copy": False, "masked_lm_config": {**TINY_BERT, "vocab_size": 400}}, "the masked language model has 400 tokens"),
]


@pytest.mark.parametrize(("overrides", "message"), MISTAKES, ids=str)
def test_config_that_cannot_be_built_says_why(overrides, message):
    with pytest.raises(Exception, match=message):
        CopyTransformerConfig(**overrides)


@pytest.mark.parametrize(("overrides", "message"), BERT_MISTAKES, ids=str)
def test_config_on_a_bert_that_does_not_fit_says_why(overrides, message):
    # padded, BERT's vocabulary fits
    COPY_TRANSFORMER_BERT.config(vocab_size=39)
    vocabulary = {"vocab_size": 40} if "bert_config" in overrides else {}
    with pytest.raises(Exception, match=message):
        COPY_TRANSFORMER_BERT.config(**{**vocabulary, **overrides})


CASES_OF_EMBEDDING_MODULES = [
    ("modernbert", "needs a BERT with learned positions, but modernbert has none"),
    ("roformer", "needs a BERT with learned positions, but roformer has none"),
    ("mobilebert", "needs a BERT that embeds each word alone, but mobilebert also reads the next word"),
]


@pytest.mark.parametrize(("model_type", "message"), CASES_OF_EMBEDDING_MODULES)
def test_embedding_module_that_no_decoder_can_use_is_refused(model_type, message):
    bert_config = {**TINY_BERT, "model_type": model_type, "pad_token_id": 0}
    config = COPY_TRANSFORMER.config(**{**ON_BERT, "bert_config": bert_config}, decoder_embedding="bert_module")
    with pytest.raises(ValueError, match=f'{message}.*: set `decoder_embedding` to "bert"'):
        CopyTransformerForConditionalGeneration(config)


@pytest.mark.parametrize("key", ["bert_name", "masked_lm_name"])
def test_pretrained_part_that_is_not_there_is_named(key, tmp_path):
    settings = {"encoder_type": "bert"} if key == "bert_name" else {"copy": False}
    for name in ("google-bert/bert-base-uncased", str(tmp_path / "nowhere")):
        config = CopyTransformerConfig(**settings, **{key: name})
        with pytest.raises(ValueError, match=f"`{key}` is '{name}', which cannot be read .* give the folder"):
            read_pretrained_parts(config)


CASES_OF_OTHER_MODELS = [(GPT2Config(), "gpt2"), (BartConfig(), "bart"), (BertConfig(is_decoder=True), "bert")]


@pytest.mark.parametrize(("pretrained_config", "model_type"), CASES_OF_OTHER_MODELS)
def test_what_is_no_encoder_that_reads_both_ways_is_refused_as_bert(tmp_path, pretrained_config, model_type):
    pretrained_config.save_pretrained(tmp_path)
    config = COPY_TRANSFORMER.config(encoder_type="bert", bert_name=str(tmp_path), convolutional_attention="none")
    with pytest.raises(
        ValueError,
        match=f"`bert_name` is '{tmp_path}', a model of type {model_type}, but must be an encoder such as BERT",
    ):
        read_pretrained_parts(config)


def test_model_before_its_bert_was_read_says_what_to_call():
    config = CopyTransformerConfig(encoder_type="bert", bert_name="google-bert/bert-base-uncased")
    with pytest.raises(ValueError, match="read_pretrained_parts"):
        CopyTransformerForConditionalGeneration(config)


def test_bert_and_language_model_of_different_vocabularies_are_refused(bert_folder, tmp_path):
    save_bert(tmp_path / "other", vocab_size=400)
    names = {"bert_name": str(bert_folder), "masked_lm_name": str(tmp_path / "other")}
    config = COPY_TRANSFORMER.config(**ON_BERT, **names, copy=False)
    with pytest.raises(ValueError, match="`vocab_size` is 400, but BERT has 40 tokens"):
        read_pretrained_parts(config)


def test_bert_of_other_sizes_than_its_config_says_is_named(bert_folder):
    model = CopyTransformerForConditionalGeneration(
        COPY_TRANSFORMER.config(
            **{**ON_BERT, "bert_config": {**TINY_BERT, "hidden_size": 12}}, bert_name=str(bert_folder)
        )
    )
    with pytest.raises(ValueError, match=r"`bert_name` is .* which cannot be read"):
        load_pretrained_parts(model)


def test_window_larger_than_the_positions_of_an_architecture_that_leaves_out_some():
    roberta = {**TINY_BERT, "model_type": "roberta", "pad_token_id": 1}
    config = COPY_TRANSFORMER.config(**{**ON_BERT, "bert_config": roberta})
    with pytest.raises(ValueError, match="`bert_window_size` is 8, but must be at most 6"):
        CopyTransformerForConditionalGeneration(config)


def test_config_of_the_caller_is_left_alone():
    bert = BertConfig(**TINY_BERT, dtype="float16")
    COPY_TRANSFORMER.config(**{**ON_BERT, "bert_config": bert})
    assert bert.dtype == torch.float16


def test_bert_without_weights_is_refused(bert_folder):
    settings = {**ON_BERT, "bert_name": str(bert_folder)}
    config = COPY_TRANSFORMER.config(**settings)
    read_pretrained_parts(config)
    save_bert(bert_folder, num_hidden_layers=5)
    config.bert_config = AutoConfig.from_pretrained(bert_folder)
    model = CopyTransformerForConditionalGeneration(config)
    save_bert(bert_folder)
    with pytest.raises(ValueError, match=r"`bert_name` is .* which has no weights for encoder.layer.4"):
        load_pretrained_parts(model)


def test_last_is_read_as_mean_with_a_note(caplog):
    assert COPY_TRANSFORMER.config(copy_attention="last").copy_attention == "mean"
    assert "`copy_attention` is 'last', which is read as 'mean'" in caplog.text


def test_keys_that_an_older_config_lacks_are_as_they_were(tmp_path):
    fresh = COPY_TRANSFORMER.config()
    assert (fresh.norm, fresh.copy_attention, fresh.lm_space) == ("pre", "first_head", "log")
    assert (fresh.lm_percentile, fresh.lm_training_percentile, fresh.lm_top_tokens) == (90, 80, 10)
    fresh.save_pretrained(tmp_path)
    kept = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert AutoConfig.from_pretrained(tmp_path).norm == "pre"
    older = {key: value for key, value in kept.items() if key not in {*fresh.values_before, "lm_training_percentile"}}
    (tmp_path / "config.json").write_text(json.dumps({**older, "lm_percentile": 97}), encoding="utf-8")
    read = AutoConfig.from_pretrained(tmp_path)
    assert (read.norm, read.layer_norm_eps, read.copy_attention) == ("post", 1e-5, "separate")
    assert (read.embedding_init, read.activation_dropout) == ("normal", 0.0)
    assert (read.lm_space, read.lm_percentile, read.lm_top_tokens) == ("probability", 97, 50)
    # one percentile served both
    assert read.lm_training_percentile == 97
