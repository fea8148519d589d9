"""Files of rows and aligned pairs that cannot be read: errors say what is wrong, and where."""

import gzip
import json

import pytest

from tests.data.files import ROWS, json_lines, write


def test_file_that_is_not_there(load, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.jsonl does not exist: name a .json"):
        load(train_file=str(tmp_path / "nowhere.jsonl"))


def test_pair_of_which_one_is_not_there(load, tmp_path):
    write(tmp_path / "a.source", "one\n")
    with pytest.raises(ValueError, match=r"a.source has no summaries beside it: .*a.target \(or .gz\) does not exist"):
        load(train_file=str(tmp_path / "a.source"))
    with pytest.raises(ValueError, match=r"b.txt does not exist"):
        load(train_file=f"{tmp_path / 'a.source'},{tmp_path / 'b.txt'}")


def test_two_files_of_rows_are_no_pair(load, tmp_path):
    with pytest.raises(ValueError, match=r"a.jsonl,b.jsonl: a pair must be two line-aligned plain texts.* name one"):
        load(train_file="a.jsonl,b.jsonl")


def test_folder_instead_of_a_file(load, tmp_path):
    with pytest.raises(ValueError, match="is a folder: name the file in it"):
        load(train_file=str(tmp_path))


@pytest.mark.parametrize("name", ["rows.txt", "rows.tsv.gz", "rows", "rows.parquet"])
def test_unknown_kind_of_file(load, tmp_path, name):
    with pytest.raises(ValueError, match=r"cannot tell from .* name a .json, .jsonl or .csv"):
        load(train_file=write(tmp_path / name, "text"))


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.csv", "a.source"])
def test_empty_file(load, tmp_path, name):
    write(tmp_path / "a.target", "")
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"{name} is empty"):
        load(train_file=str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", "\n\n"), ("a.json", "[]"), ("a.csv", "document,summary\n"), ("a.jsonl.gz", "")],
)
def test_file_without_rows(load, tmp_path, name, content):
    with pytest.raises(ValueError, match=rf"{name} has no rows"):
        load(train_file=write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"document": "a", "summary": "b", "document": "c"}', "the key 'document' occurs twice in one object"),
        ('{"document": "a", "summary": "b", "more": {"x": 1, "x": 2}}', "the key 'x' occurs twice in one object"),
        ('{"document": "a", "summary": "b", "more": ' + "[" * 10**5 + "]" * 10**5 + "}", "are nested too deeply"),
        ('{"document": "a", "summary": "b", "id": ' + "9" * 5000 + "}", "a number has more digits than can be read"),
    ],
    ids=["key", "inner key", "deep", "digits"],
)
def test_json_that_python_would_take_in_silence_or_die_of(load, tmp_path, row, message):
    file = write(tmp_path / "rows.jsonl", json_lines(ROWS[:1]) + row + "\n")
    with pytest.raises(ValueError, match=rf"rows.jsonl, line 2: cannot be read as a row: .*{message}"):
        load(train_file=file)
    file = write(tmp_path / "rows.json", f"[{json_lines(ROWS[:1]).strip()},\n{row}]")
    with pytest.raises(ValueError, match=rf"rows.json, line 1: the list of rows cannot be read: .*{message}"):
        load(train_file=file)


@pytest.mark.parametrize("name", ["rows.jsonl", "a.source"])
def test_lines_that_end_with_carriage_returns_alone(load, tmp_path, name):
    write(tmp_path / "a.target", "one\ntwo\n")
    file = write(tmp_path / name, "one\rtwo\r")
    with pytest.raises(ValueError, match=rf"{name}, line 1: its lines end with carriage returns only: convert"):
        load(train_file=file)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "a.source"])
def test_bytes_that_are_mostly_zero(load, tmp_path, name):
    write(tmp_path / "a.target", "one\ntwo\n")
    file = write(tmp_path / name, "\0".join('{"document": "one", "summary": "a"}\n'))
    with pytest.raises(ValueError, match=rf"{name}, line 1: mostly NUL, so the file is not UTF-8 but perhaps UTF-16"):
        load(train_file=file)


def test_characters_that_are_zero_are_told(load, tmp_path, caplog):
    rows = [*ROWS[:1], {"document": "the\0mayor", "summary": "opened"}, *ROWS[1:]]
    load(train_file=write(tmp_path / "rows.jsonl", json_lines(rows)))
    assert "rows.jsonl: NUL characters in line 2, which are not text" in caplog.text


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_line_without_an_end(load, tmp_path, monkeypatch, name):
    monkeypatch.setattr("hf_summ.data.rows._LONGEST_LINE", 2**20)
    file = write(tmp_path / name, json_lines(ROWS) + '{"document": "' + "a" * 2**21)
    with pytest.raises(ValueError, match=rf"{name}, line {len(ROWS) + 1}: longer than 1 MiB"):
        load(train_file=file)


def test_byte_order_marks_where_files_were_joined(load, tmp_path):
    marked = "\ufeff\ufeff" + json_lines(ROWS[:2]) + "\ufeff" + json_lines(ROWS[2:])
    assert load(train_file=write(tmp_path / "rows.jsonl", marked))["train"]["document"] == [
        row["document"] for row in ROWS
    ]


def test_cut_off_json_line(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines(ROWS)[:-20])
    with pytest.raises(ValueError, match=r"rows.jsonl, line 4: not a JSON row \(.*\), perhaps truncated"):
        load(train_file=file)


def test_the_place_of_an_unclosed_string(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", '{"document": "a\n')
    with pytest.raises(ValueError, match=r"line 1: not a JSON row \(Unterminated string starting at character 14\)"):
        load(train_file=file)


@pytest.mark.parametrize("line", ["document: a", "{'document': 'a'}", '{"document": "a"} {"document": "b"}'])
def test_line_that_is_not_json(load, tmp_path, line):
    file = write(tmp_path / "rows.jsonl", json_lines(ROWS[:2]) + line + "\n" + json_lines(ROWS[2:]))
    with pytest.raises(ValueError, match=r"rows.jsonl, line 3: not a JSON row"):
        load(train_file=file)


def test_line_that_is_no_object(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines(ROWS) + '"text"\n')
    with pytest.raises(ValueError, match=r"rows.jsonl, line 5: a row must be an object .* but is str"):
        load(train_file=file)
    file = write(tmp_path / "rows.json", json.dumps([*ROWS, 7]))
    with pytest.raises(ValueError, match=r"rows.json, row 5: a row must be an object .* but is int"):
        load(train_file=file)


def test_cut_off_json_list(load, tmp_path):
    file = write(tmp_path / "rows.json", "\n" + json.dumps(ROWS, indent=1)[:-30])
    with pytest.raises(ValueError, match=r"rows.json, line 1[67]: the list of rows is not valid JSON"):
        load(train_file=file)


def test_pairs_of_different_length(load, tmp_path):
    write(tmp_path / "a.source", "one\ntwo\nthree\nfour\n")
    write(tmp_path / "a.target", "1\n2\n")
    with pytest.raises(ValueError, match=r"a.source has 4 lines and .*a.target has 2: line 3 has no counterpart"):
        load(train_file=str(tmp_path / "a.source"))
    with pytest.raises(ValueError, match=r"a.target has 2 lines and .*a.source has 4: line 3 has no counterpart"):
        load(train_file=f"{tmp_path / 'a.target'},{tmp_path / 'a.source'}")


def test_csv_row_with_too_many_fields(load, tmp_path):
    file = write(tmp_path / "rows.csv", 'document,summary\n"one\nline",1\ntwo, and more,2\n')
    with pytest.raises(ValueError, match=r"rows.csv, line 4: 3 fields, but the header names 2 \(document, summary\)"):
        load(train_file=file)


def test_csv_with_an_open_quotation_mark(load, tmp_path):
    file = write(tmp_path / "rows.csv", 'document,summary\none,1\n"two,2\nthree,3\n')
    with pytest.raises(ValueError, match=r"rows.csv, line 3: not a CSV row .*quotation mark not closed"):
        load(train_file=file)


def test_csv_with_a_column_twice(load, tmp_path):
    with pytest.raises(ValueError, match=r"two columns have the same name \(document, summary, summary\)"):
        load(train_file=write(tmp_path / "rows.csv", "document,summary,summary\na,b,c\n"))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "a.source"])
def test_text_that_is_not_utf8(load, tmp_path, name):
    content = {
        "rows.jsonl": b'{"document": "a", "summary": "b"}\n',
        "rows.csv": b"document,summary\n",
        "a.source": b"a\n",
    }
    write(tmp_path / "a.target", "1\n2\n")
    file = write(tmp_path / name, content[name] + "é".encode("latin-1") + b",b\n")
    with pytest.raises(ValueError, match=rf"{name}, line 2: not UTF-8 \(.* at byte 1\): convert the file"):
        load(train_file=file)


@pytest.mark.parametrize("damage", [lambda data: data[:-15], lambda data: b"not gzip" + data])
def test_damaged_gz_file(load, tmp_path, damage):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(damage(gzip.compress(json_lines(ROWS * 50).encode())))
    with pytest.raises(ValueError, match=r"rows.jsonl.gz: not a complete .gz file, as reading ends after line \d+"):
        load(train_file=str(path))


def test_the_last_split_is_checked_before_the_first_is_converted(load, tmp_path):
    good, bad = write(tmp_path / "good.jsonl", json_lines(ROWS)), write(tmp_path / "bad.jsonl", "{")
    with pytest.raises(ValueError, match=r"bad.jsonl, line 1"):
        load(train_file=good, test_file=bad)
    assert not (tmp_path / "cache").exists()
