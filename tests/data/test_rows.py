"""Files of rows and aligned pairs that cannot be read: errors say what is wrong, and where."""

import bz2
import gzip
import json
import lzma

import pytest

from tests.data.files import ROWS, json_lines, write

GOOD = json_lines(ROWS[:1])
# name and content of a file -> the error, after its path
BAD = [
    ("rows.txt", "text", r": unknown file type: name a .json, .jsonl, .csv, .tsv"),
    ("rows.parquet", "text", ": not a complete Parquet file"),
    *((name, b"", " is empty") for name in ("rows.json", "rows.csv", "a.source")),
    ("rows.jsonl", "\n\n", " has no rows"),
    ("rows.json", "[]", " has no rows"),
    ("rows.csv", "document,summary\n", " has no rows"),
    ("rows.jsonl.gz", "", " has no rows"),
    ("a.source", "one\ntwo\nthree\n", " has only 2 lines, but .*a.source has more"),
    # JSON
    ("rows.jsonl", json_lines(ROWS)[:-20], r", line 4: not a JSON row \(.* at character \d+\)"),
    ("rows.jsonl", '{"document": "a\n', r", line 1: not a JSON row \(Unterminated string starting at character 14\)"),
    ("rows.jsonl", GOOD + '{"document": "a"} {"document": "b"}', ", line 2: not a JSON row"),
    ("rows.jsonl", GOOD + '"text"\n', ", line 2: a row must be an object, but is str"),
    ("rows.json", json.dumps([*ROWS, 7]), ", row 5: a row must be an object, but is int: 7"),
    ("rows.json", "\n" + json.dumps(ROWS, indent=1)[:-30], ", line 1[67]: not a JSON row"),
    # CSV
    (
        "rows.csv",
        'document,summary\n"one\nline",1\ntwo, and more,2\n',
        r", line 4: 3 fields, but the header names 2 \(document, summary\)",
    ),
    ("rows.csv", 'document,summary\none,1\n"two,2\nthree,3\n', ", line 3: not a CSV row .*quotation mark not closed"),
    ("rows.csv", "document,summary,summary\na,b,c\n", r", line 1: two columns share a name \(document, summary, s"),
    # not UTF-8
    ("rows.jsonl", GOOD.encode() + b"\xe9,b\n", r", line 2: not UTF-8 \(.* at byte 1\): convert the file"),
    ("rows.csv", b"document,summary\n\xe9,b\n", ", line 2: not UTF-8"),
    ("a.source", b"a\n\xe9,b\n", ", line 2: not UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_files_that_cannot_be_read(load, tmp_path, name, content, message):
    write(tmp_path / "a.target", "one\ntwo\n")
    file = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=r"\.target" + message if "only" in message else rf"{name}{message}"):
        load(train_file=file)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.jsonl", "nowhere.jsonl does not exist"),
        ("b.source", r"b.source has no summaries beside it: .*b.target does not exist"),
        ("b.source,{}/b.txt", "b.txt does not exist"),
        ("a.jsonl,b.jsonl", r"a.jsonl,b.jsonl: a pair must be two line-aligned plain texts: name one file of rows"),
        ("", "is a folder: name a file in it, two folders of texts"),
    ],
)
def test_files_that_are_not_there(load, tmp_path, name, message):
    write(tmp_path / "b.source", "one\n")
    with pytest.raises(ValueError, match=message):
        load(train_file=f"{tmp_path}/{name.format(tmp_path)}")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"document": "a", "summary": "b", "document": "c"}', "the key 'document' occurs twice in one object"),
        ('{"document": "a", "summary": "b", "more": {"x": 1, "x": 2}}', "the key 'x' occurs twice in one object"),
        ('{"document": "a", "summary": "b", "id": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
    ids=["key", "inner key", "digits"],
)
def test_json_that_python_would_take_in_silence_or_die_of(load, tmp_path, row, message):
    for name, content, line in (("rows.jsonl", GOOD + row, 2), ("rows.json", f"[{GOOD.strip()},\n{row}]", 1)):
        with pytest.raises(ValueError, match=rf"{name}, line {line}: .*{message}"):
            load(train_file=write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "encoding"), [("rows.jsonl", None), ("rows.jsonl.gz", None), ("rows.jsonl", "utf-16")]
)
def test_a_line_without_an_end(load, tmp_path, monkeypatch, name, encoding):
    monkeypatch.setattr("hf_summ.data.rows._LONGEST_LINE", 2**20)
    text = json_lines(ROWS) + '{"document": "' + "a" * 2**21
    file = write(tmp_path / name, text.encode(encoding) if encoding else text)
    with pytest.raises(ValueError, match=rf"{name}, line {len(ROWS) + 1}: longer than 1 MiB"):
        load(train_file=file)


def test_byte_order_marks_where_files_were_joined(load, tmp_path):
    marked = "\ufeff\ufeff" + json_lines(ROWS[:2]) + "\ufeff" + json_lines(ROWS[2:])
    assert load(train_file=write(tmp_path / "rows.jsonl", marked))["train"].to_list() == ROWS


def test_files_of_a_pair_have_compressions_of_their_own(load, tmp_path):
    for name, compress in (("a.source.xz", lzma.compress), ("a.target.bz2", bz2.compress)):
        (tmp_path / name).write_bytes(compress(b"one\ntwo\n"))
    corpus = load(train_file=tmp_path / "a.source.xz")
    assert corpus["train"].to_list() == [{"document": text, "summary": text} for text in ("one", "two")]


@pytest.mark.parametrize("damage", [lambda data: data[:-15], lambda data: b"not gzip" + data])
def test_damaged_gz_file(load, tmp_path, damage):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(damage(gzip.compress(json_lines(ROWS * 50).encode())))
    with pytest.raises(ValueError, match=r"rows.jsonl.gz: not a complete .gz file, after line \d+ \(.*\): copy it"):
        load(train_file=str(path))


def test_the_last_split_is_checked_before_the_first_is_converted(load, tmp_path):
    good, bad = write(tmp_path / "good.jsonl", json_lines(ROWS)), write(tmp_path / "bad.jsonl", "{")
    with pytest.raises(ValueError, match=r"bad.jsonl, line 1"):
        load(train_file=good, test_file=bad)
    assert not list((tmp_path / "cache").rglob("*.arrow"))
