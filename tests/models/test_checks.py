"""Checks of what users give."""

import math

import datasets
import numpy as np
import pandas as pd
import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_summ.models.checks import FINITE, Range, check_integer, check_text, check_texts, is_number
from tests.models.architectures import ARCHITECTURES

SEVERAL_TEXTS = [[], ["a"], ("a", "b"), {"a"}, np.array(["a"]), pd.Series(["a", "b"])]


@pytest.mark.parametrize("texts", SEVERAL_TEXTS)
def test_several_texts_may_be_of_many_types(texts):
    check_texts("documents", texts)
    check_texts("documents", datasets.Dataset.from_dict({"text": ["a", "b"]})["text"])


CASES_OF_NO_TEXTS = [
    ("a text", r"^`documents` must be a list, but is str: 'a text'$"),
    (None, r"^`documents` must be a list, but is NoneType: None$"),
    (iter(["a"]), r"^`documents` must be a list, but is list_iterator: "),
    (["a", None], r"^`documents` must be strings, but row 1 is NoneType: None$"),
    # a missing text of pandas
    (pd.Series([float("nan"), "a"], dtype=object), r"^`documents` must be strings, but row 0 is float: nan$"),
]


@pytest.mark.parametrize(("texts", "message"), CASES_OF_NO_TEXTS)
def test_what_is_no_list_of_texts_is_told(texts, message):
    with pytest.raises(TypeError, match=message):
        check_texts("documents", texts)


def test_what_is_no_text_is_told():
    check_text("language", "en")
    with pytest.raises(TypeError, match=r"^`language` must be a string, but is NoneType: None$"):
        check_text("language", None)


# The allowed integers are 2 to 9.
CASES_OF_NO_INTEGER_IN_RANGE = [
    (1, ValueError, r"^`number` is 1, but must be at least 2, for the end token$"),
    (10, ValueError, r"^`number` is 10, but must be at most 9, for the end token$"),
    (10**400, ValueError, r"^`number` is 1.000e\+400, but must be at most 9, for the end token$"),
    (2.0, TypeError, r"^`number` must be an integer, but is float: 2.0$"),
    (True, TypeError, r"^`number` must be an integer, but is bool: True$"),
]


@pytest.mark.parametrize(("value", "error", "message"), CASES_OF_NO_INTEGER_IN_RANGE)
def test_what_is_no_integer_in_range_is_told(value, error, message):
    for fine in (2, 9, np.int64(5)):
        check_integer("number", fine, 2, 9)
    with pytest.raises(error, match=message):
        check_integer("number", value, 2, 9, ", for the end token")


def test_numbers_are_finite_and_fit_into_tensors():
    for number in (0, -1.5, np.float32(2), 2**63 - 1):
        assert is_number(number)
    for value in (float("nan"), float("inf"), 2**63, True, "1", None, 1j):
        assert not is_number(value)


# A range, its words, and numbers with what each must be instead; None where it is allowed.
CASES_OF_RANGES = [
    (Range(1), "at least 1", {0: "at least 1", 1: None, 10**400: None, math.nan: "finite"}),
    (Range(0, FINITE), "at least 0 and finite", {-1: "at least 0", 0.0: None, math.inf: "finite"}),
    (Range(0, FINITE, excludes_least=True), "above 0 and finite", {0: "above 0", 5e-324: None, 10**400: "finite"}),
    (Range(-FINITE, FINITE), "finite", {-1e308: None, -math.inf: "finite"}),
    (Range(1e-4, 1e4), "from 0.0001 to 10000", {0: "at least 0.0001", 1e4: None, 10001: "at most 10000"}),
    (Range(0, 100, excludes_most=True), "from 0 to below 100", {-0.1: "at least 0", 0: None, 100: "below 100"}),
    (Range(0, 1, excludes_least=True), "above 0 and at most 1", {0: "above 0", 1: None, 1.5: "at most 1"}),
]


@pytest.mark.parametrize(("allowed", "words", "problems"), CASES_OF_RANGES, ids=str)
def test_ranges_say_what_a_number_must_be(allowed, words, problems):
    assert str(allowed) == words
    for number, problem in problems.items():
        assert allowed.problem(number) == problem
        assert (number in allowed) == (problem is None)


@pytest.mark.parametrize("config_class", dict.fromkeys(architecture.config_class for architecture in ARCHITECTURES))
def test_values_outside_the_rules_of_a_configuration_are_named(config_class):
    for key in config_class.rules.keys() & config_class.__dataclass_fields__.keys():
        allowed = config_class.rules[key]
        if isinstance(allowed, tuple):
            value = "other"
        else:
            # of the type that the default has
            number_type = type(getattr(config_class(), key) or 0)
            value = number_type(allowed.least - 1)
        with pytest.raises(StrictDataclassError) as error:
            config_class(**{key: value})
        assert str(error.value.__cause__).startswith(f"`{key}` is {value!r}, but must be ")
