"""The values that settings of `generate()` may have."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from hf_summ.models import checks
from hf_summ.models.checks import check_generation_settings, in_types
from tests.conftest import SENTENCES, run_python
from tests.models.architectures import GDLF, build_with_processor


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("num_beams", 0, "an integer of at least 1"),
        ("num_beams", "4", "an integer of at least 1"),
        ("num_beams", 10**30, "at most 1000"),
        ("max_new_tokens", 2**63, "at most 1000000"),
        ("min_new_tokens", -0.5, "an integer of at least 0"),
        ("top_p", 1.5, "a number from 0 to 1"),
        ("coverage_penalty", 1e308, "a number from 0 to 10000"),
        ("gnmt_length_penalty", "1", "at least 0 and finite"),
        ("length_penalty", float("inf"), "a finite number"),
        ("do_sample", 5e-324, "True or False"),
        ("early_stopping", "sometimes", "True, False or 'never'"),
        ("ngram_blocking", ["beam"], "one of token, beam"),
        ("forced_eos_token_id", float("inf"), "an id, or a list of ids of tokens"),
        ("eos_token_id", (), "an id, or a list of ids of tokens"),
        ("suppress_tokens", 1, "a list of ids of tokens"),
        ("suppress_tokens", [40], "an id below 40, the number of the model's tokens"),
    ],
)
def test_value_that_fails_deep_inside_is_told(name, value, wanted):
    message = f"`{name}` is {value!r:.80}, but must be {wanted}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_generation_settings({name: value}, vocab_size=40)


def test_values_that_work_pass():
    sensible = {"num_beams": 4, "length_penalty": -1, "early_stopping": "never", "eos_token_id": torch.tensor([2, 3])}
    check_generation_settings({**sensible, "top_k": 0, "min_length": None, "unknown": object()}, vocab_size=40)
    # the checks of a file for greedy search
    check_generation_settings({"temperature": 0.0})
    with pytest.raises(ValueError, match=r"`temperature` is 0\.0, but must be a number from 0.0001 to 10000"):
        check_generation_settings({"temperature": 0.0, "do_sample": True})


def test_whole_numbers_are_numbers_and_none_is_not_given():
    # numbers without a point are numbers too, and so are NumPy's
    typed = in_types(
        {"repetition_penalty": 2, "length_penalty": np.float32(1.5), "num_beams": np.int32(4), "top_k": 2.5}
    )
    assert {name: (type(value), value) for name, value in typed.items()} == {
        "repetition_penalty": (float, 2.0),
        "length_penalty": (float, 1.5),
        "num_beams": (int, 4),
    }
    model = GDLF.model()
    assert model.generate(**GDLF.inputs(), repetition_penalty=2, max_new_tokens=4).shape[1] <= 5
    expected = model.generate(**GDLF.inputs(), max_new_tokens=4)
    given = model.generate(**GDLF.inputs(), max_new_tokens=4, num_beams=None, num_return_sequences=None)
    assert torch.equal(given, expected)


def test_settings_of_a_checkpoint_are_checked_too():
    model = GDLF.model()
    model.generation_config.min_new_tokens = "3"
    with pytest.raises(ValueError, match="`min_new_tokens` is '3', but must be an integer of at least 0"):
        model.generate(**GDLF.inputs(), max_new_tokens=4)
    with pytest.raises(TypeError, match=r"^`generation_config` must be a GenerationConfig, but is dict:"):
        model.generate(**GDLF.inputs(), generation_config={"num_beams": 2})


@pytest.mark.parametrize("sampling", [False, True])
def test_end_that_is_forced_comes_before_the_least_words(tiny_tokenizer, sampling):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    model.config.tags = "none"
    inputs = processor(SENTENCES[0], return_tensors="pt")
    settings = {"min_new_words": 50, "max_new_tokens": 4, "forced_eos_token_id": 2, "do_sample": sampling}
    ids = model.generate(**inputs, tokenizer=processor, **settings)
    assert ids[0, -1] == 2


def test_without_an_end_words_are_still_counted(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    inputs = processor(SENTENCES[0], return_tensors="pt")
    config = GenerationConfig(**{**model.generation_config.to_dict(), "eos_token_id": None, "min_new_words": 2})
    assert model.generate(**inputs, tokenizer=processor, generation_config=config).shape[1] > 2


def test_table_is_read_without_torch_and_transformers():
    # as the command line reads it; the package is left out, whose other modules may need both
    folder = Path(checks.__file__).parent
    code = f"""
import importlib, sys, types
sys.modules["models"] = package = types.ModuleType("models")
package.__path__ = [{str(folder)!r}]
assert importlib.import_module("models.checks").SETTINGS["top_p"].range.most == 1
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    run_python("-c", code)
