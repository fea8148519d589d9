"""Rows of files and data sets that are read lazily."""

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.data.streams import FileRows, HubRows, stored, streamed_files
from tests.data.files import json_lines, write, write_csv

ROWS = [{"id": number, "text": f"Text {number}, with words.", "tags": ["a"] * (number % 3)} for number in range(11)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The eleven rows over five files of all kinds, of which Parquet has row groups of two rows."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.jsonl", json_lines(ROWS[:3]).replace("\n", "\n\n"))
    write(tmp_path / "b.jsonl.gz", json_lines(ROWS[3:5]))
    write(tmp_path / "c.json", json.dumps(ROWS[5:6]))
    pq.write_table(pa.Table.from_pylist(ROWS[6:]), tmp_path / "d.parquet", row_group_size=2)
    return ["a.jsonl", "b.jsonl.gz", "c.json", "d.parquet"]


def rows_of(stream, start=0):
    return [read() for _, read in stream.read(start)]


def test_rows_from_any_row_on(files):
    stream = FileRows(streamed_files(files))
    assert stream.number == len(ROWS)
    assert stream.schema.names == ["id", "text", "tags"]
    assert stream.schema.field("id").type == pa.int64()
    for start in range(len(ROWS) + 1):
        assert rows_of(stream, start) == ROWS[start:]
    places = [place for place, _ in stream.read()]
    assert places[:4] == ["a.jsonl, line 1", "a.jsonl, line 3", "a.jsonl, line 5", "b.jsonl.gz, line 1"]
    assert places[5:8] == ["c.json, row 1", "d.parquet, row 1", "d.parquet, row 2"]


def test_csv_and_types_that_differ(tmp_path):
    rows = [{"id": "1", "text": "a,\nb"}, {"id": "2", "text": "c"}]
    write_csv(tmp_path / "a.csv", rows)
    stream = FileRows([tmp_path / "a.csv"])
    assert (stream.number, rows_of(stream), rows_of(stream, 1)) == (2, rows, rows[1:])
    write(tmp_path / "b.jsonl", '{"id": 3, "text": "\\ud800"}\n{"id": {"a": 1}, "more": null}')
    stream = FileRows([tmp_path / "a.csv", tmp_path / "b.jsonl"])
    assert {field.name: str(field.type) for field in stream.schema} == dict.fromkeys(("id", "text", "more"), "string")
    assert rows_of(stream, 2) == [{"id": 3, "text": "\ud800"}, {"id": {"a": 1}, "more": None}]
    assert [stored(row, stream.schema) for row in rows_of(stream, 2)] == [
        {"id": "3", "text": "\ufffd", "more": None},
        {"id": '{"a": 1}', "text": None, "more": None},
    ]


def texts_or_problems(stream):
    """The text of each row, or the beginning of the error that reading it raises, without the file's name."""
    texts = []
    for _, read in stream.read():
        try:
            texts.append(read()["text"])
        except ValueError as error:
            texts.append(str(error).partition(": ")[2][:20])
    return texts


def test_row_that_cannot_be_read_is_no_end_to_the_others(tmp_path):
    write(tmp_path / "a.jsonl", '{"text": "a"}\n{"text": \n3\n{"text": "b"}\n')
    write(tmp_path / "b.csv", "text,id\nc,1\nd\ne,2\n")
    stream = FileRows([tmp_path / "a.jsonl", tmp_path / "b.csv"])
    assert stream.number == 7
    problems = ["not a JSON row (Expe", "a row must be an obj", "1 fields, but the he"]
    assert texts_or_problems(stream) == ["a", *problems[:2], "b", "c", problems[2], "e"]


def test_column_whose_name_is_no_text_is_renamed(tmp_path):
    write(tmp_path / "a.jsonl", '{"text": "a", "\\ud800": 1}\n{"text": "b"}\n')
    stream = FileRows([tmp_path / "a.jsonl"])
    assert stream.schema.names == ["text", "\ufffd"]
    assert rows_of(stream) == [{"text": "a", "\ufffd": 1}, {"text": "b"}]


def test_parquet_text_that_is_not_utf8_costs_only_its_row(tmp_path):
    texts = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    one, bad, other = (read for _, read in FileRows([tmp_path / "a.parquet"]).read())
    assert (one(), other()) == ({"text": "a"}, {"text": "c"})
    with pytest.raises(UnicodeDecodeError):
        bad()


def test_content_is_what_counts(tmp_path):
    write(tmp_path / "a.jsonl", json_lines(ROWS))
    write(tmp_path / "b.jsonl", json_lines(ROWS))
    write(tmp_path / "c.jsonl", json_lines(ROWS[1:]))
    a, b, c = (FileRows([tmp_path / f"{name}.jsonl"]).identity for name in "abc")
    assert a == b != c


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grown(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json_lines(ROWS))


def written_again(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    os.utime(path, ns=(0, 0))


@pytest.mark.thorough
@pytest.mark.parametrize("change", [truncated, grown, written_again])
def test_a_file_that_changes_while_it_is_read(tmp_path, change):
    write(tmp_path / "a.jsonl", json_lines(ROWS * 1000))
    reader = FileRows([tmp_path / "a.jsonl"]).read()
    assert next(reader)[1]() == ROWS[0]
    change(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=r"a\.jsonl has changed since it was checked: start again once it is complete"):
        list(reader)


def test_a_file_that_is_removed_while_it_is_read(tmp_path):
    write(tmp_path / "a.jsonl", json_lines(ROWS))
    reader = FileRows([tmp_path / "a.jsonl"]).read()
    first = next(reader)
    (tmp_path / "a.jsonl").unlink()
    assert len([first, *reader]) == len(ROWS)


def test_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl", "x[1].jsonl"):
        write(tmp_path / name, json_lines(ROWS))
    assert list(map(str, streamed_files(["[ab].jsonl"]))) == ["a.jsonl", "b.jsonl"]
    assert list(map(str, streamed_files(["**/[c]*.jsonl", "x[1].jsonl"]))) == ["deep/c.jsonl", "x[1].jsonl"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.jsonl", "no*.jsonl"], r"no\*.jsonl does not exist"),
        (["nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["a.txt"], "a.txt: unknown file type: rows must be in .json, .*; text also as .gz, .bz2, .xz or .zst"),
        (["."], ". is a folder: name a file in it"),
        (["empty.csv"], "empty.csv is empty: it must have at least one row"),
        (["x" * 300 + ".jsonl"], "x.jsonl does not exist"),
    ],
)
def test_names_that_are_no_files_of_rows(tmp_path, monkeypatch, names, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "a.txt"):
        write(tmp_path / name, "x")
    write(tmp_path / "empty.csv", "")
    with pytest.raises(ValueError, match=message):
        streamed_files(names)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = gzip.compress(json_lines(ROWS * 50).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(content[: len(content) // 2])
    for name in ("none.parquet", "none.parquet.gz"):
        write(tmp_path / name, "PAR1 and no more")
    write(tmp_path / "latin.jsonl", '{"text": "é"}'.encode("latin-1"))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "numbers.parquet")
    pq.write_table(pa.Table.from_pylist([{"id": ["a"]}]), tmp_path / "lists.parquet")
    for names, message in [
        (["cut.jsonl.gz"], "cut.jsonl.gz: not a complete .gz file, after line"),
        (["none.parquet.gz"], r"none.parquet.gz: not a complete Parquet file"),
        (["none.parquet"], r"none.parquet: not a complete Parquet file \(.*\): copy or write it again"),
        (["latin.jsonl"], "latin.jsonl, line 1: not UTF-8"),
        (["numbers.parquet", "lists.parquet"], "numbers.parquet, lists.parquet: columns are incompatible: .*id"),
    ]:
        with pytest.raises(ValueError, match=message):
            FileRows(streamed_files(names)).schema  # noqa: B018 (looks through the files)


def test_parquet_that_breaks_off(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.Table.from_pylist(ROWS * 100), "a.parquet", row_group_size=200, compression="zstd")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"a.parquet: cannot be read after row \d+ \(.*\): copy it again"):
        rows_of(FileRows([tmp_path / "a.parquet"]))


def test_data_set_is_streamed(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(folder / "train.jsonl", json_lines(ROWS))
    write(folder / "test.jsonl", json_lines(ROWS[:4]))
    stream = HubRows(str(folder), None, "test")
    assert stream.schema.names == ["id", "text", "tags"]
    assert (rows_of(stream), rows_of(stream, 3)) == (ROWS[:4], ROWS[3:4])
    assert [place for place, _ in stream.read(3)] == [f"{folder}, row 4"]
    assert stream.identity == HubRows(str(folder), None, "test").identity
    write(folder / "test.jsonl", json_lines(ROWS[:5]))
    assert stream.identity != HubRows(str(folder), None, "test").identity


@pytest.mark.parametrize(
    ("name", "config", "split", "message"),
    [
        ("corpus", None, "tset", "--split tset: corpus has the splits train"),
        ("nowhere/at/all", None, "train", "--dataset_name nowhere/at/all: "),
        ("corpus", "other", "train", "--dataset_name corpus: BuilderConfig 'other' not found"),
    ],
)
def test_data_sets_that_are_not_there(tmp_path, monkeypatch, name, config, split, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus" / "train.jsonl", json_lines(ROWS))
    with pytest.raises((ValueError, OSError), match=message):
        rows_of(HubRows(name, config, split))
