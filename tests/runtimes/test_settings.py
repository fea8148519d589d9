"""The values that settings of `generate()` may have."""

import re

import numpy as np
import pytest
import torch

from hf_summ.runtimes.settings import check_generation_settings, in_types
from tests.conftest import run_python

CASES_OF_WRONG_VALUES = [
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
    ("early_stopping", "sometimes", "True or False"),
    ("ngram_blocking", ["beam"], "one of token, beam"),
]


@pytest.mark.parametrize(("name", "value", "expected"), CASES_OF_WRONG_VALUES)
def test_value_that_fails_deep_inside_is_told(name, value, expected):
    message = f"`{name}` is {value!r:.80}, but must be {expected}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_generation_settings({name: value})


def test_values_that_work_pass():
    sensible = {"num_beams": 4, "length_penalty": -1, "early_stopping": "never", "eos_token_id": torch.tensor([2, 3])}
    check_generation_settings({**sensible, "top_k": 0, "min_length": None, "unknown": object()})
    # the checks of a file for greedy search
    check_generation_settings({"temperature": 0.0})
    with pytest.raises(ValueError, match=r"`temperature` is 0\.0, but must be a number from 0.0001 to 10000"):
        check_generation_settings({"temperature": 0.0, "do_sample": True})


def test_whole_numbers_are_numbers():
    # numbers without a point are numbers too, and so are NumPy's
    settings = {"repetition_penalty": 2, "length_penalty": np.float32(1.5), "num_beams": np.int32(4), "top_k": 2.5}
    typed = in_types(settings)
    assert typed == {"repetition_penalty": 2.0, "length_penalty": 1.5, "num_beams": 4}
    types = {name: type(value) for name, value in typed.items()}
    assert types == {"repetition_penalty": float, "length_penalty": float, "num_beams": int}


def test_table_is_read_without_torch_and_transformers():
    # as the command line reads it
    code = """
import sys
from hf_summ.runtimes.settings import SETTINGS
assert SETTINGS["top_p"].range.most == 1
assert not {"torch", "transformers"} & set(sys.modules)
"""
    run_python("-c", code)
