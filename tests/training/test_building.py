"""Processor and generation settings of a run."""

import pytest
from transformers import AutoConfig, PreTrainedTokenizerBase

from hf_summ import GdlfProcessor
from hf_summ.training.arguments import DataArguments, GenerationArguments, ModelArguments
from hf_summ.training.building import Lengths, generation_config, load_processor, settle_lengths
from tests.training import tiny


@pytest.fixture
def tokenizer_folder(tiny_tokenizer, tmp_path) -> str:
    tiny_tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "kind"),
    [("gdlf", GdlfProcessor), ("bart", PreTrainedTokenizerBase), ("t5", PreTrainedTokenizerBase)],
)
def test_every_architecture_gets_its_processor(processor_folder, tokenizer_folder, tiny_tokenizer, model_type, kind):
    for folder in (processor_folder, tokenizer_folder):
        found = load_processor(ModelArguments(tokenizer_name=folder), AutoConfig.for_model(model_type))
        assert isinstance(found, kind)
        assert getattr(found, "tokenizer", found).get_vocab() == tiny_tokenizer.get_vocab()


def test_tokenizer_without_end_token(tiny_tokenizer, tmp_path):
    tokenizer = type(tiny_tokenizer)(tokenizer_object=tiny_tokenizer.backend_tokenizer, pad_token="<pad>")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="the tokenizer has no eos_token"):
        load_processor(ModelArguments(tokenizer_name=str(tmp_path)), AutoConfig.for_model("bart"))


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
    kept = generation_config(model, GenerationArguments(num_beams=3), lengths, length_is_told=False)
    assert (kept.max_length, kept.max_new_tokens, kept.num_beams, kept.length_penalty) == (142, None, 3, 2.0)
    told = generation_config(model, GenerationArguments(), lengths, length_is_told=True)
    assert (told.max_length, told.max_new_tokens) == (None, 12)


def test_settings_of_beams_are_left_out_without_beams(tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    settings = GenerationArguments(num_beams=1, length_penalty=1.3, early_stopping=False)
    config = generation_config(model, settings, Lengths(64, 16, 12), length_is_told=True)
    assert (config.length_penalty, config.early_stopping) == (None, None)
