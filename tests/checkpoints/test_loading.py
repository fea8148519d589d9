"""The processor that an architecture gets from a folder."""

import pytest
from transformers import AutoConfig, ByT5Tokenizer, PreTrainedTokenizerBase

from hf_summ import GdlfProcessor
from hf_summ.checkpoints.loading import ModelArguments, check_generation_config, load_processor
from tests.conftest import pair_tokenizer
from tests.training import tiny


@pytest.fixture
def tokenizer_folder(tiny_tokenizer, tmp_path) -> str:
    tiny_tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


CASES_OF_PROCESSORS = [("gdlf", GdlfProcessor), ("bart", PreTrainedTokenizerBase), ("t5", PreTrainedTokenizerBase)]


@pytest.mark.parametrize(("model_type", "kind"), CASES_OF_PROCESSORS)
def test_every_architecture_gets_its_processor(processor_folder, tokenizer_folder, tiny_tokenizer, model_type, kind):
    for folder in (processor_folder, tokenizer_folder):
        processor = load_processor(ModelArguments(tokenizer_name=folder), AutoConfig.for_model(model_type))
        assert isinstance(processor, kind)
        # a tokenizer is the processor of most models of transformers
        tokenizer = getattr(processor, "tokenizer", processor)
        assert tokenizer.get_vocab() == tiny_tokenizer.get_vocab()


def test_a_tokenizer_without_end_token_is_refused(tiny_tokenizer, tmp_path):
    tokenizer = type(tiny_tokenizer)(tokenizer_object=tiny_tokenizer.backend_tokenizer, pad_token="<pad>")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="the tokenizer has no eos_token"):
        load_processor(ModelArguments(tokenizer_name=str(tmp_path)), AutoConfig.for_model("bart"))


def test_berts_separator_ends_the_texts_of_other_models(tmp_path):
    pair_tokenizer().save_pretrained(tmp_path)
    tokenizer = load_processor(ModelArguments(tokenizer_name=str(tmp_path)), AutoConfig.for_model("bart"))
    assert tokenizer.convert_tokens_to_ids("[SEP]") == tokenizer.eos_token_id == tokenizer("the river")["input_ids"][-1]


def test_generation_settings_that_were_cut_off_are_named(run_folder, tmp_path):
    folder = run_folder / "checkpoint-30"
    arguments = ModelArguments(model_name_or_path=str(folder))
    check_generation_config(arguments)
    tiny.cut(folder / "generation_config.json")
    with pytest.raises(OSError, match=r"checkpoint-30/generation_config.json' is not a valid JSON file"):
        check_generation_config(arguments)
    for name in (None, "org/model", str(tmp_path)):
        check_generation_config(ModelArguments(model_name_or_path=name))


def test_a_tokenizer_that_is_not_fast_is_named(tmp_path):
    ByT5Tokenizer().save_pretrained(tmp_path)
    with pytest.raises(TypeError, match=r"^`tokenizer` must be fast, but ByT5Tokenizer is not: make one with"):
        load_processor(ModelArguments(tokenizer_name=str(tmp_path)), AutoConfig.for_model("gdlf"))
