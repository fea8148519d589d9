"""The recipe with a model that starts from pre-trained parts."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoProcessor,
    BartConfig,
    BartForConditionalGeneration,
    BertForPreTraining,
)

from hf_summ import CopyTransformerProcessor
from hf_summ.training.run import main
from tests.conftest import save
from tests.training import tiny

BERT = {"encoder_type": "bert_transformer", "decoder_embedding": "bert"}
WINDOWS = {"bert_window_size": 16, "bert_window_stride": 8}


@pytest.fixture
def settings(tmp_path, bert_folder):
    """Writes the YAML of a short run of a CopyTransformer over a new corpus."""
    files = tiny.write_corpus(tmp_path, train=24, validation=5, test=7)

    def write(overrides, **changes):
        defaults = {"model_type": "copy_transformer", "tokenizer_name": bert_folder, "max_source_length": 48}
        defaults |= {"config_overrides": tiny.SIZES | overrides, "max_target_length": 16}
        return tiny.write_settings(tmp_path, **{**files, "cache_dir": str(tmp_path / "cache"), **defaults, **changes})

    return write


@pytest.mark.thorough
def test_run_on_bert_trains_saves_and_goes_on_from_its_own_folder(settings, bert_folder, tmp_path):
    decoding = {"num_beams": 2, "coverage_penalty": 5.0, "gnmt_length_penalty": 0.9}
    main([settings({**BERT, **WINDOWS, "bert_name": bert_folder}, do_predict=True, **decoding)])
    out = tmp_path / "out"
    model = AutoModelForSeq2SeqLM.from_pretrained(out)
    processor = AutoProcessor.from_pretrained(out)
    assert type(processor) is CopyTransformerProcessor
    assert model.generation_config.coverage_penalty == 5.0
    assert model.generation_config.gnmt_length_penalty == 0.9
    words = BertForPreTraining.from_pretrained(bert_folder).bert.embeddings.word_embeddings.weight
    torch.testing.assert_close(model.model.decoder.embed_tokens.words.weight, words, rtol=0, atol=0)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"This model was trained on `train.jsonl`, starting from the weights of `{Path(bert_folder).name}`." in card
    # the Hub cannot link to a folder of this machine
    assert "base_model" not in card
    losses = [loss for _, loss in tiny.history(out, "loss")]
    assert losses[-1] < losses[0]
    # the checkpoint needs neither the name nor the settings that it began with
    again = settings({}, config_overrides={}, model_name_or_path=str(out), output_dir=str(tmp_path / "again"))
    main([again, "--tokenizer_name", str(out), "--max_steps", "1"])
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "again")
    assert loaded.config.encoder_type == "bert_transformer"


def test_a_checkpoint_has_its_tokenizer_and_its_bert(settings, bert_folder, tmp_path, caplog):
    model, processor, _ = tiny.build([settings({**BERT, **WINDOWS, "bert_name": bert_folder})])
    start = save(tmp_path / "start", model, processor)
    # as in copy_transformer/arxiv_title, whose folders are those of another BERT
    file = settings({**BERT, **WINDOWS, "bert_name": "processors/minilm"}, tokenizer_name="processors/minilm")
    with pytest.raises(ValueError, match="--tokenizer_name processors/minilm"):
        tiny.build([file])
    flags = ["--model_name_or_path", start, "--config_overrides", "train_bert=true"]
    loaded, loaded_processor, _ = tiny.build([file, *flags])
    assert loaded_processor.tokenizer.get_vocab() == processor.tokenizer.get_vocab()
    assert loaded.config.bert_name == bert_folder
    assert "bert_name=processors/minilm: not read, as the checkpoint has the weights" in caplog.text
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], weight, rtol=0, atol=0)
    # a tokenizer on the command line is one that the user chose
    with pytest.raises(ValueError, match="--tokenizer_name processors/minilm"):
        tiny.build([file, *flags, "--tokenizer_name", "processors/minilm"])


@pytest.mark.thorough
def test_run_with_generator_conditioning(settings, bert_folder, tmp_path):
    overrides = {"copy": False, "masked_lm_name": bert_folder, "lm_training_factor": 1.5, "lm_top_tokens": 5}
    main([settings(overrides, do_predict=True, lm_accepted_factor=1.5, max_steps=2, max_predict_samples=2)])
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert model.generation_config.lm_accepted_factor == 1.5
    assert model.masked_lm is not None


# overrides of the configuration, changes of the settings, and the message
CASES_OF_MISTAKES = [
    ({**BERT, "bert_name": "google-bert/no-bert"}, {}, "`bert_name` is 'google-bert/no-bert', which cannot"),
    ({"masked_lm_name": "x"}, {}, "`masked_lm_name` and `copy=True` exclude each other"),
    ({}, {"lm_rejected_factor": 0.9}, "need a masked language model"),
]


@pytest.mark.parametrize(("overrides", "changes", "message"), CASES_OF_MISTAKES)
def test_mistakes_are_named_before_anything_is_trained(settings, overrides, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny.build([settings(overrides, **changes)])


def test_language_model_flags_are_not_for_other_models(settings, processor_folder):
    gdlf = {"model_type": "gdlf", "config_overrides": tiny.MODEL, "tokenizer_name": processor_folder}
    path = settings({}, **gdlf, lm_rejected_factor=0.9)
    with pytest.raises(ValueError, match=r"--lm_rejected_factor 0\.\d+: generate\(\) of gdlf does not support it"):
        tiny.build([path])


@pytest.mark.thorough
def test_trained_transformer_is_given_a_language_model(settings, bert_folder, tmp_path):
    plain = {"copy": False, "convolutional_attention": "none"}
    main([settings(plain, max_steps=1)])
    out = str(tmp_path / "out")
    changes = {"model_name_or_path": out, "do_train": False, "do_predict": True, "lm_rejected_factor": 0.5}
    model, *_ = tiny.build([settings({}, config_overrides={"masked_lm_name": bert_folder}, **changes)])
    bert = BertForPreTraining.from_pretrained(bert_folder)
    torch.testing.assert_close(model.masked_lm.cls.predictions.bias, bert.cls.predictions.bias, rtol=0, atol=0)
    trained = AutoModelForSeq2SeqLM.from_pretrained(out)
    torch.testing.assert_close(model.lm_head.weight, trained.lm_head.weight, rtol=0, atol=0)


def test_overrides_that_ask_for_weights_which_a_checkpoint_lacks_are_refused(settings, tmp_path):
    main([settings({"copy": False}, max_steps=1)])
    path = settings({}, config_overrides={"copy": True}, model_name_or_path=str(tmp_path / "out"))
    with pytest.raises(ValueError, match=r"it has no weights for copy_gate\.bias \(2 are missing\)"):
        tiny.build([path])


def test_overrides_that_leave_out_weights_of_a_checkpoint_are_refused(settings, bert_folder, tmp_path):
    main([settings({**BERT, **WINDOWS, "bert_name": bert_folder}, max_steps=1)])
    path = settings({}, config_overrides={"encoder_type": "transformer"}, model_name_or_path=str(tmp_path / "out"))
    with pytest.raises(ValueError, match="encoder_type=transformer: the checkpoint's weights are for encoder_type=ber"):
        tiny.build([path])


@pytest.mark.thorough
def test_checkpoint_keeps_the_bert_and_the_vocabulary_that_it_has(settings, bert_folder, tmp_path, caplog):
    sizes = {"model_type": "bert", "vocab_size": 30522, "hidden_size": 384, "hidden_act": "relu"}
    main([settings({**BERT, **WINDOWS, "bert_name": bert_folder}, max_steps=1)])
    again = {**BERT, **WINDOWS, "bert_config": sizes, "vocab_size": 30522, "convolutional_attention": "1d"}
    with caplog.at_level("WARNING", logger="hf_summ"):
        path = settings({}, config_overrides=again, model_name_or_path=str(tmp_path / "out"))
        model, processor, _ = tiny.build([path])
    assert (model.config.bert_config.hidden_size, model.config.bert_config.hidden_act) == (8, "gelu")
    assert model.config.vocab_size == len(processor.tokenizer)
    # no weight would tell of this change
    assert "convolutional_attention is 'none' in the checkpoint and becomes '1d'" in caplog.text


@pytest.mark.thorough
def test_guided_model_begins_with_a_bart_of_the_recipe(settings, processor_folder, tmp_path, caplog):
    sizes = {"d_model": 16, "max_position_embeddings": 64, "attention_dropout": 0.0}
    sizes |= {"encoder_layers": 1, "encoder_ffn_dim": 32, "encoder_attention_heads": 2}
    sizes |= {"decoder_layers": 1, "decoder_ffn_dim": 32, "decoder_attention_heads": 2}
    bart = {"model_type": "bart", "config_overrides": sizes, "output_dir": str(tmp_path / "bart")}
    bart_metrics = main([settings({}, **bart, tokenizer_name=processor_folder, max_steps=20, do_eval=True)])
    start = {"start_name": str(tmp_path / "bart"), "label_smoothing": 0.0, "guidance_weight": 0.5}
    # the tokenizer is that of the BART
    guided = {"model_type": "sagcopy", "tokenizer_name": None, "config_overrides": start}
    path = settings({}, **guided, do_eval=True, do_predict=True, max_steps=1, learning_rate=1e-6)
    with caplog.at_level("INFO", logger="hf_summ"):
        metrics = main([path])
    assert "new weights, which it lacks: model.decoder.copy_gate.bias" in caplog.text
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert (model.config.model_type, model.config.d_model, model.config.max_positions) == ("sagcopy", 16, 64)
    assert metrics["eval_guidance"] > 0
    # all weights except the gate begin as the BART ended
    assert metrics["eval_nll"] < bart_metrics["eval_loss"] + 1
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "This model was trained on `train.jsonl`, starting from the weights of `bart`." in card
    (tmp_path / "bart" / "config.json").unlink()
    changes = {"model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "again")}
    main([settings({}, config_overrides={}, tokenizer_name=None, max_steps=1, model_type=None, **changes)])


def test_tokenizer_that_is_not_the_starts_is_refused(settings, bert_folder, tmp_path, processor_folder):
    config = BartConfig(vocab_size=900, d_model=16, max_position_embeddings=64)
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    start = {"start_name": str(tmp_path / "bart")}
    path = settings({}, model_type="sagcopy", tokenizer_name=processor_folder, config_overrides=start)
    with pytest.raises(ValueError, match="or other special tokens: use the tokenizer that came with it"):
        tiny.build([path])
