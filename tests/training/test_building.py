"""Processor and generation settings of a run."""

import pytest
from transformers import AutoConfig, pipeline

from hf_summ.training.arguments import DataArguments, GenerationArguments
from hf_summ.training.building import Lengths, build, generation_config, settle_lengths
from hf_summ.training.parsing import parse_arguments
from tests.training import tiny


def test_lengths_come_from_the_run_then_the_processor_then_the_model(tiny_tokenizer):
    processor, config = tiny.processor(tiny_tokenizer), AutoConfig.for_model("bart", max_position_embeddings=100)
    given = DataArguments(max_source_length=20, val_max_target_length=9)
    assert settle_lengths(given, processor, config) == Lengths(20, 16, 9)
    assert (processor.max_source_length, processor.max_target_length) == (20, 16)
    assert settle_lengths(DataArguments(), tiny_tokenizer, config) == Lengths(100, 100, 100)
    assert settle_lengths(DataArguments(), tiny_tokenizer, AutoConfig.for_model("t5")) == Lengths(1024, 128, 128)


def test_generation_settings_of_a_checkpoint_are_kept_where_the_run_says_nothing(tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    model.generation_config.update(max_length=142, num_beams=4, length_penalty=2.0)
    lengths = Lengths(64, 16, 12)
    kept = generation_config(model, GenerationArguments(num_beams=3), lengths, length_is_given=False)
    assert (kept.max_length, kept.max_new_tokens, kept.num_beams, kept.length_penalty) == (142, None, 3, 2.0)
    given = generation_config(model, GenerationArguments(), lengths, length_is_given=True)
    assert (given.max_length, given.max_new_tokens) == (None, 12)


def test_without_settings_decoding_is_said_to_be_greedy(tiny_tokenizer):
    # the pipeline has 4 beams where a checkpoint sets none
    config = generation_config(
        tiny.bart(tiny_tokenizer), GenerationArguments(), Lengths(64, 16, 12), length_is_given=True
    )
    assert config.num_beams == 1


@pytest.mark.parametrize("model_type", ["gdlf", "t5"])
def test_source_prefix_goes_into_the_checkpoint(settings, tmp_path, tiny_tokenizer, caplog, model_type):
    sizes = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 16} if model_type == "t5" else {}
    chosen = {"model_type": "t5", "config_overrides": sizes} if sizes else {}
    path = settings(**chosen, source_prefix="summarize: ", max_source_length=48, max_target_length=16)
    model, processor, _ = build(parse_arguments([path]))
    model.save_pretrained(tmp_path / "first")
    processor.save_pretrained(tmp_path / "first")
    summarizer = pipeline("summarization", model=str(tmp_path / "first"))
    expected = processor("summarize: a bridge", return_tensors="pt")["input_ids"]
    assert summarizer.preprocess("a bridge")["input_ids"].equal(expected)
    # T5's own way of saying it, with settings of decoding
    model.config.task_specific_params = {"summarization": {"prefix": "summarize: ", "max_length": 200}, "other": {}}
    model.save_pretrained(tmp_path / "first")
    assert not caplog.records
    again = settings(
        model_name_or_path=str(tmp_path / "first"), tokenizer_name=None, model_type=None, config_overrides={}
    )
    with caplog.at_level("WARNING", logger="hf_summ"):
        model, *_ = build(parse_arguments([again]))
    assert "--source_prefix: not given, which removes 'summarize: ', the checkpoint's prefix" in caplog.text
    assert model.config.prefix == ""
    assert model.config.task_specific_params == {"summarization": {"prefix": ""}, "other": {}}


def test_settings_of_beams_are_left_out_without_beams(tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    settings = GenerationArguments(num_beams=1, length_penalty=1.3, early_stopping=False)
    config = generation_config(model, settings, Lengths(64, 16, 12), length_is_given=True)
    assert (config.length_penalty, config.early_stopping) == (None, None)
