"""Processor and generation settings of a run."""

import re

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoProcessor, pipeline

from hf_summ import GdlfProcessor, SagCopyProcessor
from hf_summ.checkpoints.loading import ModelArguments, load_processor
from hf_summ.checkpoints.overrides import apply_overrides, override_item, parse_overrides, value_of
from hf_summ.data import fit_vocabulary
from hf_summ.training.arguments import DataArguments, GenerationArguments
from hf_summ.training.model import Lengths, choose_lengths, configure_case, generation_config, store_lengths
from hf_summ.training.parsing import parse_arguments
from tests.conftest import SENTENCES, save
from tests.reports.tiny_models import foreign
from tests.training import tiny


def test_lengths_come_from_the_run_then_the_processor_then_the_model(tiny_tokenizer):
    processor, model = tiny.processor(tiny_tokenizer), foreign("bart", tiny_tokenizer, max_position_embeddings=100)
    given = DataArguments(max_source_length=20, val_max_target_length=9)
    store_lengths(given, processor)
    assert choose_lengths(given, processor, model) == Lengths(20, 16, 9)
    assert (processor.max_source_length, processor.max_target_length) == (20, 16)
    assert choose_lengths(DataArguments(), tiny_tokenizer, model) == Lengths(100, 100, 100)
    assert choose_lengths(DataArguments(), tiny_tokenizer, foreign("t5", tiny_tokenizer)) == Lengths(1024, 128, 128)


def test_case_is_restored_if_the_vocabulary_or_the_run_says_so(tiny_tokenizer, tmp_path):
    uncased = fit_vocabulary(SENTENCES, 300, lowercase=True, show_progress=False)
    GdlfProcessor(uncased, tags="none", restore_case=True).save_pretrained(tmp_path)
    config = AutoConfig.for_model("sagcopy")
    processor = load_processor(ModelArguments(tokenizer_name=str(tmp_path)), config)
    assert (type(processor), processor.restore_case) == (SagCopyProcessor, True)
    for given in (False, True):
        configure_case(given, processor, config)
        assert processor.restore_case is given
    with pytest.raises(ValueError, match="--restore_case True: the vocabulary is not in lower case: make one with"):
        configure_case(True, SagCopyProcessor(tiny_tokenizer), config)
    with pytest.raises(ValueError, match="--restore_case True: bart has no processor of this package: omit it"):
        configure_case(True, uncased, AutoConfig.for_model("bart"))


def test_generation_settings_of_a_checkpoint_are_kept_where_the_run_says_nothing(tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    model.generation_config.update(max_length=142, num_beams=4, length_penalty=2.0)
    lengths = Lengths(64, 16, 12)
    kept = generation_config(model, GenerationArguments(num_beams=3), lengths, replaces_limit=False)
    assert (kept.max_length, kept.max_new_tokens, kept.num_beams, kept.length_penalty) == (142, None, 3, 2.0)
    given = generation_config(model, GenerationArguments(), lengths, replaces_limit=True)
    assert (given.max_length, given.max_new_tokens) == (None, 12)


def test_a_run_says_that_it_inherits_whole_sentences(tiny_tokenizer, caplog):
    model = tiny.bart(tiny_tokenizer)
    model.generation_config.whole_sentences = True
    with caplog.at_level("WARNING", logger="hf_summ"):
        kept = generation_config(model, GenerationArguments(), Lengths(64, 16, 12), replaces_limit=True)
        assert "--no-whole_sentences" in caplog.text
        caplog.clear()
        given = generation_config(
            model, GenerationArguments(whole_sentences=False), Lengths(64, 16, 12), replaces_limit=True
        )
    assert (kept.whole_sentences, given.whole_sentences) == (True, False)
    assert not caplog.text


@pytest.mark.parametrize("model_type", ["gdlf", "t5"])
def test_source_prefix_goes_into_the_checkpoint(settings, tmp_path, tiny_tokenizer, caplog, model_type):
    sizes = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 16} if model_type == "t5" else {}
    chosen = {"model_type": "t5", "config_overrides": sizes} if sizes else {}
    path = settings(**chosen, source_prefix="summarize: ", max_source_length=48, max_target_length=16)
    model, processor, _ = tiny.build([path])
    summarizer = pipeline("summarization", model=save(tmp_path / "first", model, processor))
    expected = processor("summarize: a bridge")["input_ids"]
    assert summarizer.read("a bridge").inputs["input_ids"] == expected
    # T5's own way of saying it, with settings of decoding
    model.config.task_specific_params = {"summarization": {"prefix": "summarize: ", "max_length": 200}, "other": {}}
    model.save_pretrained(tmp_path / "first")
    assert not caplog.records
    again = settings(
        model_name_or_path=str(tmp_path / "first"), tokenizer_name=None, model_type=None, config_overrides={}
    )
    with caplog.at_level("WARNING", logger="hf_summ"):
        model, *_ = tiny.build([again])
    assert "--source_prefix: not given, which removes 'summarize: ', the checkpoint's prefix" in caplog.text
    assert model.config.prefix == ""
    assert model.config.task_specific_params == {"summarization": {"prefix": ""}, "other": {}}


def test_settings_of_beams_are_left_out_without_beams(tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    settings = GenerationArguments(num_beams=1, length_penalty=1.3, early_stopping=False)
    config = generation_config(model, settings, Lengths(64, 16, 12), replaces_limit=True)
    assert (config.length_penalty, config.early_stopping) == (None, None)
    # the pipeline has 4 beams where a checkpoint sets none
    config = generation_config(
        tiny.bart(tiny_tokenizer), GenerationArguments(), Lengths(64, 16, 12), replaces_limit=True
    )
    assert config.num_beams == 1


START = {"model_type": None, "tokenizer_name": None, "config_overrides": {}}


def test_bundled_model_is_named_as_in_other_commands(settings, shipped, tmp_path, monkeypatch):
    path = settings(**START, model_name_or_path="arxiv-tldr")
    model, processor, _ = tiny.build([path])
    assert model.name_or_path == str(shipped)
    assert processor.tokenizer.get_vocab() == AutoProcessor.from_pretrained(shipped).tokenizer.get_vocab()
    # a folder of this name comes first
    monkeypatch.chdir(tmp_path)
    save("arxiv-tldr", tiny.gdlf(tiny.processor(processor.tokenizer)), tiny.processor(processor.tokenizer))
    assert tiny.build([path]).model.config.model_type == "gdlf"


def test_attention_is_computed_as_named_in_nested_models_too(settings, bert_folder):
    bert = {"encoder_type": "bert_transformer", "bert_name": bert_folder}
    bert |= {"bert_window_size": 16, "bert_window_stride": 8}
    chosen = {"model_type": "copy_transformer", "tokenizer_name": bert_folder, "config_overrides": tiny.SIZES | bert}
    losses = {}
    for name in (None, "eager", "sdpa"):
        torch.manual_seed(0)
        model, processor, _ = tiny.build([settings(**chosen, attn_implementation=name)])
        nested = model.model.encoder.bert.bert.config
        assert {model.config._attn_implementation, nested._attn_implementation} == {name or "sdpa"}
        batch = processor(
            ["Ana opened the bridge.", "Ben."], ["Ana opened.", "Ben."], padding=True, return_tensors="pt"
        )
        losses[name] = model.eval()(**batch).loss
    torch.testing.assert_close(losses["eager"], losses["sdpa"])
    assert losses["sdpa"] == losses[None]
    with pytest.raises(ValueError, match=r"invalid choice: 'fast' \(choose from '?eager'?, '?sdpa"):
        parse_arguments([settings(**chosen), "--attn_implementation", "fast"])
    with pytest.raises(ValueError, match="does not support"):
        tiny.build([settings(**chosen), "--attn_implementation", "flex_attention"])


CASES_OF_OVERRIDES = [
    (["ffn_dim=64"], "ffn_dim=64"),
    (["dropout=.5", "d_model=32", "label_smoothing=.2"], "d_model=32"),
    # neither of them is valid alone
    (["decoder_layers=2", "decoder_kernel_sizes=[5,3]"], "decoder_kernel_sizes=[5,3]"),
    (["dropout=.5", "label_smoothing=.2", "conv_implementation=auto", "encoder_kernel_sizes=[3]"], None),
    # which the tokenizer determines
    (["vocab_size=9", "kernel_dropout=.5"], None),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("overrides", "named"), CASES_OF_OVERRIDES)
def test_overrides_that_change_weights_of_a_checkpoint_are_refused_by_key(
    settings, tmp_path, processor_folder, overrides, named
):
    processor = AutoProcessor.from_pretrained(processor_folder)
    model = tiny.gdlf(processor)
    save(tmp_path / "start", model, processor)
    values = parse_overrides(overrides)
    # loading with them finds the same
    config = apply_overrides(model.config, {name: value for name, value in values.items() if name != "vocab_size"})
    _, loaded = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "start", config=config, ignore_mismatched_sizes=True, output_loading_info=True
    )
    assert bool(loaded["mismatched_keys"] or loaded["unexpected_keys"]) == (named is not None)
    argv = [settings(**START, model_name_or_path=str(tmp_path / "start")), "--config_overrides", *overrides]
    if named is None:
        built = tiny.build(argv).model.config
        assert [value_of(built, name) for name in values] == [value_of(config, name) for name in values]
        return
    key = named.partition("=")[0]
    own = override_item(key, value_of(model.config, key))
    message = f"--config_overrides {named}: the checkpoint's weights are for {own}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tiny.build(argv)
