"""Records of what the results in a folder are of, and JSON and YAML with keys twice."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from transformers.trainer_utils import IntervalStrategy

from hf_summ.common.records import changed, parse_json, parse_yaml, plain, read_record, shown, write_record


def problem_of(content):
    """What is wrong with the content of a record, or None."""
    return None if content["kind"] == "known" else f"unknown kind {content['kind']}"


def test_a_record_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "new" / "run.yaml"
    assert read_record(path, problem_of) is None
    write_record(path, {"kind": "known", "umlaut": "ü"})
    assert read_record(path, problem_of) == {"kind": "known", "umlaut": "ü"}
    assert path.read_text(encoding="utf-8") == "kind: known\numlaut: ü\n"


CASES_OF_NO_RECORDS = [b"kind: other", b"{", b"\xff", b"[]", b"", b"name: x"]


@pytest.mark.thorough
@pytest.mark.parametrize("content", CASES_OF_NO_RECORDS)
def test_a_file_that_is_no_record_is_told(tmp_path, content):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run.yaml: cannot be read \(.*\): remove it only if you no longer need"):
        read_record(path, problem_of)


def test_differences_of_records_are_shown():
    before = {"a": 1, "b": None, "gone": 2, "long": "word " * 40}
    differences = changed(before, {"a": 2, "b": None, "c": 3, "long": "x"})
    assert differences == ["a 1, now 2", "c not set, now 3", f"long {'word ' * 11}..., now x"]
    assert shown(differences) == "; ".join(differences)
    # at most four are shown
    four_differences = differences + ["d"]
    assert shown(four_differences + ["e"]) == "; ".join(four_differences) + "; and 1 more"


def test_values_of_any_type_are_recorded(tmp_path):
    values = {"a": (np.int64(2), [np.float64(0.5), None]), 3: {"b": np.array([1, 2])}, "c": Path("d")}
    values |= {"e": IntervalStrategy.NO, "f": True, "g": np.bool_(False), "h": torch.tensor(7)}
    recorded = plain(values)
    assert json.dumps(recorded) == (
        '{"a": [2, [0.5, null]], "3": {"b": [1, 2]}, "c": "d", "e": "no", "f": true, "g": false, "h": 7}'
    )
    write_record(tmp_path / "run.yaml", recorded)
    assert parse_yaml((tmp_path / "run.yaml").read_text()) == recorded


def test_ordinary_texts_are_read_as_by_their_libraries():
    text = '{"a": [1, 2.5, null], "b": {"a": "\u00fc"}}'
    assert parse_json(text) == parse_yaml(text) == json.loads(text)
    merged = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n"
    assert parse_yaml(merged) == yaml.safe_load(merged)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_keys_that_occur_twice_are_refused(parse):
    with pytest.raises((ValueError, yaml.YAMLError), match="the key 'c' occurs twice"):
        parse('{"a": 1, "b": {"c": 1, "c": 2}}')


@pytest.mark.parametrize(("parse", "error"), [(parse_json, json.JSONDecodeError), (parse_yaml, yaml.YAMLError)])
def test_a_text_that_is_neither_is_refused(parse, error):
    with pytest.raises(error):
        parse('{"a": ')
    # a list cannot be a key
    with pytest.raises(yaml.YAMLError, match="unhashable key"):
        parse_yaml("? [a]\n: 1\n")
