"""Hashes: their values, which name folders and caches of users, and what they depend on."""

import hashlib
import json

import pytest

from hf_summ.common.hashes import content_hash, hash_of_bytes, hash_of_code, hash_of_values, hashes_while_read


def test_parts_are_hashed_as_one_text():
    expected = hashlib.sha256(b"two parts").hexdigest()
    assert hash_of_bytes([b"two parts"]) == expected
    assert hash_of_bytes(iter([b"two", b"", b" parts"])) == expected


def test_values_are_hashed_as_json(tmp_path):
    values = ["ü", 1.5, None, {"b": True, "a": tmp_path}]
    sorted_text = json.dumps(["ü", 1.5, None, {"a": str(tmp_path), "b": True}])
    assert hash_of_values(values) == hash_of_bytes([sorted_text.encode()])
    unsorted_text = json.dumps(["ü", 1.5, None, {"b": True, "a": str(tmp_path)}])
    assert hash_of_values(values, sort_keys=False) == hash_of_bytes([unsorted_text.encode()])


def test_hashes_of_files_do_not_depend_on_their_order(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_bytes(b"x")
    second.write_bytes(b"y")
    assert hash_of_code([str(second), str(first)]) == hash_of_bytes([b"xy"])
    assert content_hash(first) == hash_of_bytes([b"x"])[:16]
    # what `datasets` computes from saved rows, finished and being written
    (tmp_path / "cache-0123abcd.arrow").write_bytes(b"z")
    (tmp_path / "tmpa_b0c1d2").write_bytes(b"z")
    lines = f"a.py {content_hash(first)}\nb.py {content_hash(second)}"
    assert content_hash(tmp_path) == hash_of_bytes([lines.encode()])[:16]


def test_changed_file_is_read_again(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"before")
    assert content_hash(file) == hash_of_bytes([b"before"])[:16]
    file.write_bytes(b"afterwards")
    assert content_hash(file) == hash_of_bytes([b"afterwards"])[:16]


def test_file_that_changes_while_it_is_read_is_named(tmp_path):
    whole, changed = tmp_path / "whole.jsonl", tmp_path / "changed.jsonl"
    for file in (whole, changed):
        file.write_bytes(b"before")
    with hashes_while_read([whole, changed]) as hashes:
        pass
    assert hashes == (hash_of_bytes([b"before"])[:16],) * 2
    message = r"^\S*/changed\.jsonl: changed while it was read: rerun"
    with pytest.raises(ValueError, match=message), hashes_while_read([whole, changed]):
        changed.write_bytes(b"afterwards")
