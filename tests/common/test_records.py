"""Records of what the results in a folder are of."""

import pytest

from hf_summ.common.records import changed, read_record, shown, write_record


def problem_of(content):
    return None if content["kind"] == "known" else f"unknown kind {content['kind']}"


def test_written_and_read_again(tmp_path):
    path = tmp_path / "new" / "run.yaml"
    assert read_record(path, problem_of) is None
    write_record(path, {"kind": "known", "umlaut": "ü"})
    assert read_record(path, problem_of) == {"kind": "known", "umlaut": "ü"}
    assert path.read_text(encoding="utf-8") == "kind: known\numlaut: ü\n"


@pytest.mark.parametrize("content", [b"kind: other", b"{", b"\xff", b"[]", b"", b"name: x", b"[" * 10_000])
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
