"""JSON and YAML that Python's readers take in silence, or die of."""

import json

import pytest
import yaml

from hf_summ.common.records import parse_json, parse_yaml


def test_ordinary_texts_are_read_as_ever():
    text = '{"a": [1, 2.5, null], "b": {"a": "\u00fc"}}'
    assert parse_json(text) == parse_yaml(text) == json.loads(text)
    merged = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n"
    assert parse_yaml(merged) == yaml.safe_load(merged)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' stands twice"),
        ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", "values are nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "a number has more digits than can be read"),
    ],
    ids=["twice", "deep", "digits"],
)
def test_others_are_refused(parse, text, message):
    with pytest.raises((ValueError, yaml.YAMLError), match=message):
        parse(text)


@pytest.mark.parametrize(("parse", "error"), [(parse_json, json.JSONDecodeError), (parse_yaml, yaml.YAMLError)])
def test_what_is_neither_is_said(parse, error):
    with pytest.raises(error):
        parse('{"a": ')


def test_keys_that_are_lists_are_refused():
    with pytest.raises(yaml.YAMLError, match="unhashable key"):
        parse_yaml("? [a]\n: 1\n")
