"""Records of what the results in a folder are of, and JSON and YAML with keys twice."""

import json

import pytest
import yaml

from hf_summ.common.records import changed, parse_json, parse_yaml, read_record, shown, write_record


def problem_of(content):
    return None if content["kind"] == "known" else f"unknown kind {content['kind']}"


def test_written_and_read_again(tmp_path):
    path = tmp_path / "new" / "run.yaml"
    assert read_record(path, problem_of) is None
    write_record(path, {"kind": "known", "umlaut": "ü"})
    assert read_record(path, problem_of) == {"kind": "known", "umlaut": "ü"}
    assert path.read_text(encoding="utf-8") == "kind: known\numlaut: ü\n"


CASES_OF_NO_RECORDS = [b"kind: other", b"{", b"\xff", b"[]", b"", b"name: x"]


@pytest.mark.thorough
@pytest.mark.parametrize("content", CASES_OF_NO_RECORDS)
def test_no_record(tmp_path, content):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run.yaml: cannot be read \(.*\): remove it if the folder's results may be"):
        read_record(path, problem_of)


def test_differences():
    before = {"a": 1, "b": None, "gone": 2, "long": "word " * 40}
    found = changed(before, {"a": 2, "b": None, "c": 3, "long": "x"})
    assert found == ["a 1, now 2", "c not set, now 3", f"long {'word ' * 11}..., now x"]
    assert shown(found) == "; ".join(found)
    assert shown([*found, "d", "e"]) == "; ".join([*found, "d"]) + "; and 1 more"


def test_ordinary_texts_are_read_as_ever():
    text = '{"a": [1, 2.5, null], "b": {"a": "\u00fc"}}'
    assert parse_json(text) == parse_yaml(text) == json.loads(text)
    merged = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n"
    assert parse_yaml(merged) == yaml.safe_load(merged)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_keys_that_occur_twice_are_refused(parse):
    with pytest.raises((ValueError, yaml.YAMLError), match="the key 'c' occurs twice"):
        parse('{"a": 1, "b": {"c": 1, "c": 2}}')


@pytest.mark.parametrize(("parse", "error"), [(parse_json, json.JSONDecodeError), (parse_yaml, yaml.YAMLError)])
def test_what_is_neither_is_said(parse, error):
    with pytest.raises(error):
        parse('{"a": ')
    # keys that are lists
    with pytest.raises(yaml.YAMLError, match="unhashable key"):
        parse_yaml("? [a]\n: 1\n")
