"""Bodies and settings: what is read, and what is refused in which words."""

import json
import time

import pytest

from hf_summ import GdlfForConditionalGeneration
from hf_summ.serving import Limits
from hf_summ.serving.requests import Refusal, read_request

KEYS = GdlfForConditionalGeneration.generation_keys


def read(parameters=None, **more):
    return read_request(json.dumps({"inputs": "A text.", "parameters": parameters, **more}).encode(), Limits(), KEYS)


def refused(body: bytes) -> tuple[int, str]:
    with pytest.raises(Refusal) as refusal:
        read_request(body, Limits(), KEYS)
    return refusal.value.status, str(refusal.value)


def test_flat_and_nested_settings_are_one():
    assert read().settings == read({}).settings == read({"num_beams": None, "generate_parameters": None}).settings == {}
    nested = read({"generate_parameters": {"num_beams": 2, "length_penalty": 1}, "truncation": "do_not_truncate"})
    flat = read({"num_beams": 2, "length_penalty": 1.0, "truncation": "do_not_truncate"})
    assert nested == flat
    assert flat.settings == {"num_beams": 2, "length_penalty": 1.0, "truncation": False}


def test_what_means_the_same_is_batched_together():
    assert read({"truncation": "only_first", "return_details": False}) == read()
    assert read({"return_details": True}).settings == {}
    assert read({"return_details": True}).return_details
    assert read({"long_documents": "windows"}).settings == {"long_documents": "windows"}


def test_every_known_setting_is_read():
    numbers = {
        **dict.fromkeys(("num_beams", "max_new_tokens", "max_length", "top_k", "no_repeat_ngram_size"), 2),
        **dict.fromkeys(("min_new_tokens", "min_length", "min_new_words", "no_repeat_word_ngram_size"), 1),
        **dict.fromkeys(("repetition_penalty", "temperature", "top_p", "length_penalty"), 0.5),
        **dict.fromkeys(("gnmt_length_penalty", "gnmt_length_offset", "coverage_penalty", "support_weight"), 0.5),
    }
    flags = dict.fromkeys(("do_sample", "early_stopping", "english_articles", "clean_up_tokenization_spaces"), True)
    rules = {"beam_stopping": "drgd", "ngram_blocking": "beam"}
    assert read(numbers | flags | rules).settings == numbers | flags | rules


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_beams": 10_000}, "`num_beams` is 10000, but must be from 1 to 16"),
        ({"num_beams": 0}, "`num_beams` is 0, but must be from 1 to 16"),
        ({"max_new_tokens": 1025}, "`max_new_tokens` is 1025, but must be from 1 to 1024"),
        ({"max_length": 10**300}, f"`max_length` is 1{'0' * 19}…, but must be from 2 to 1024"),
        # of which one is the token that a summary begins with
        ({"max_length": 1}, "`max_length` is 1, but must be from 2 to 1024"),
        ({"length_penalty": float("nan")}, "`length_penalty` is nan, but must be from -100 to 100"),
        ({"length_penalty": float("inf")}, "`length_penalty` is inf, but must be from -100 to 100"),
        ({"num_beams": 2.5}, "`num_beams` must be an integer, but is float: 2.5"),
        ({"num_beams": True}, "`num_beams` must be an integer, but is bool: True"),
        ({"top_p": "0.5"}, "`top_p` must be a number, but is str: '0.5'"),
        ({"do_sample": 1}, "`do_sample` must be true or false, but is int: 1"),
        ({"truncation": "both"}, "`truncation` is 'both', but must be one of do_not_truncate, longest_first, "),
        ({"long_documents": "window"}, "must be one of truncate, extract, windows; did you mean windows?"),
        ({"long_documents": {"x": 1}}, "`long_documents` is '{'x': 1}', but must be one of truncate, "),
        ({"beam_stopping": "openmt"}, "`beam_stopping` is 'openmt', but must be one of opennmt, drgd; did you mean"),
        ({"nun_beams": 2}, "unknown parameter 'nun_beams'; did you mean num_beams?"),
        # what generate() knows, but would load, read or leave on
        ({"custom_generate": "someone/code"}, "unknown parameter 'custom_generate'"),
        ({"generate_parameters": {"assistant_model": "x"}}, "unknown parameter 'assistant_model'"),
        ({"stop_strings": ["x"]}, "unknown parameter 'stop_strings'"),
        ({"generation_config": {}}, "unknown parameter 'generation_config'"),
        # only of other architectures
        ({"replace_unk": True}, "unknown parameter 'replace_unk'"),
        ({"num_beams": 2, "generate_parameters": {"num_beams": 3}}, "`num_beams` stands in `generate_parameters` and "),
        ({"generate_parameters": [1]}, "`generate_parameters` must be an object, but is list: [1]"),
        ([], "`parameters` must be an object, but is list: []"),
    ],
)
def test_bad_settings_are_named(parameters, message):
    with pytest.raises(Refusal) as refusal:
        read(parameters)
    assert refusal.value.status == 422
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the body cannot be read: not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"inputs=x", 400, "the body cannot be read: not JSON (Expecting value"),
        (b'{"inputs": "\xff"}', 400, "the body cannot be read: not UTF-8 (invalid start byte at byte 12)"),
        (b"[" * 100_000, 400, "the body cannot be read: values are nested too deeply"),
        (b'{"inputs": "x", "inputs": "y"}', 400, "the body cannot be read: the key 'inputs' occurs twice in one"),
        (b'{"inputs": ' + b"1" * 5000 + b"}", 400, "the body cannot be read: a number has more digits than can be"),
        (b"[1]", 422, "the body must be an object, but is list: [1]"),
        (b"{}", 422, "`inputs` must be a string, but is NoneType: None"),
        (b'{"inputs": ["x"]}', 422, "`inputs` must be a string, but is list: ['x']"),
        (b'{"input": "x"}', 422, "unknown key 'input'; the keys are inputs, parameters; did you mean inputs?"),
    ],
)
def test_bad_bodies_are_refused(body, status, message):
    found, told = refused(body)
    assert (found, told[: len(message)]) == (status, message)
    assert "\n" not in told


def test_many_keys_are_read_in_time():
    keys = ", ".join(f'"{number}": 0' for number in range(100_000))
    began = time.process_time()
    assert "the key '7' occurs twice" in refused(f'{{{keys}, "7": 1}}'.encode())[1]
    assert time.process_time() - began < 5


def test_lone_surrogates_become_characters():
    assert read_request(rb'{"inputs": "a \ud800 b \ud83c\udf09"}', Limits()).document == "a � b 🌉"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"batch_size": 0}, "--batch_size 0: must be at least 1"),
        ({"batch_wait": -1.0}, "--batch_wait -1.0: must be at least 0"),
        ({"limit_seconds": float("nan")}, "--limit_seconds nan: must be at least 0"),
    ],
)
def test_limits_must_be_possible(limits, message):
    with pytest.raises(ValueError, match=message):
        Limits(**limits)
