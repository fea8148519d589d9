"""Files of rows that `datasets` reads: types, patterns, folders, encodings, and files that cannot be read."""

import gzip
import json

import datasets
import pandas
import pytest

from hf_summ.data.files import extension_of, files_of, is_row_file, numbered_lines, open_text, read_files, read_lines
from tests.data.files import ROWS, json_lines, write, write_csv


@pytest.fixture
def read(tmp_path):
    """Reads files with the test's own cache."""
    return lambda names, **settings: read_files(names, cache_dir=str(tmp_path / "cache"), **settings)


def write_rows(path, rows):
    """Writes rows in the format of the file's name."""
    extension = path.name.split(".", 1)[1]
    if extension == "parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    elif extension == "json":
        write(path, json.dumps(rows))
    elif extension == "tsv":
        pandas.DataFrame(rows).to_csv(path, sep="\t", index=False)
    elif extension == "csv":
        write_csv(path, rows)
    else:
        write(path, json_lines(rows))
    return str(path)


HARD_ROWS = [
    {"document": 'He said, "no".\nThen; left.', "summary": "x,y", "id": "007"},
    {"document": "NA", "summary": "null", "id": "1.0"},
    {"document": "\u2028 你好 🙂", "summary": "nan", "id": "True"},
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.tsv", "a.parquet"])
def test_every_type_has_the_same_rows(read, tmp_path, name):
    assert read(write_rows(tmp_path / name, HARD_ROWS)).to_list() == HARD_ROWS


# pyarrow would take these texts for times.
DATED_ROWS = [
    {"id": "2024-05-02", "document": "2024-05-02T10:00:00Z", "references": ["1999-12-31"], "length": 1.5},
    {"id": "2024-05-01", "document": "2024-05-02 10:00", "references": [], "length": 2.0},
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json"])
def test_texts_that_look_like_times_stay_as_they_are(read, tmp_path, name):
    rows = read(write_rows(tmp_path / name, DATED_ROWS))
    assert rows.to_list() == DATED_ROWS
    assert rows.features["references"].feature.dtype == "string"


def test_rows_with_times_may_be_laid_out_in_any_way(read, tmp_path):
    laid_out = "\n".join([json.dumps(row, indent=2) for row in DATED_ROWS])
    assert read(write(tmp_path / "a.jsonl", laid_out)).to_list() == DATED_ROWS
    indented = "\n" + json.dumps(DATED_ROWS, indent=2)
    assert read(write(tmp_path / "a.json", indented)).to_list() == DATED_ROWS
    in_a_line = write(tmp_path / "f.jsonl", '{"id": "2024-05-02"}\n{"id": "2024-05-02"} {"id": "2024-05-03"}\n')
    assert read(in_a_line)["id"] == ["2024-05-02", "2024-05-02", "2024-05-03"]
    mixed = [{"id": "2024-05-02", "more": {"a": "b"}}, {"id": "2024-05-02", "more": ["c"]}, {"id": None, "more": "d"}]
    assert read(write(tmp_path / "e.jsonl", json_lines([*mixed[:2], None, mixed[2]]))).to_list() == [
        *mixed[:2],
        {"id": None, "more": None},
        mixed[2],
    ]
    texts = write(tmp_path / "b.json", '["2024-05-02", "2024-05-01"]')
    assert read(texts).to_list() == [{"text": "2024-05-02"}, {"text": "2024-05-01"}]
    marked = write(tmp_path / "c.jsonl", "\ufeff" + json_lines([{"id": "2024-05-02", "text": "ö"}, {"id": None}]))
    assert read(marked).to_list() == [{"id": "2024-05-02", "text": "ö"}, {"id": None, "text": None}]
    latin = write(tmp_path / "d.jsonl", '{"id": "2024-05-02", "text": "ö"}'.encode("latin-1"))
    assert read(latin, encoding="latin-1").to_list() == [{"id": "2024-05-02", "text": "ö"}]


def test_a_mark_at_the_start_of_a_file_is_no_text(read, tmp_path):
    marked_json = write(tmp_path / "a.jsonl", "\ufeff" + json_lines(ROWS))
    assert read(marked_json).to_list() == ROWS
    csv = "\ufeffdocument,summary\r\na,b\r\n"
    assert read(write(tmp_path / "a.csv", csv)).to_list() == [{"document": "a", "summary": "b"}]
    text = write(tmp_path / "a.txt", "\ufeffone\n")
    assert read(text).to_list() == read(text, encoding="utf-8").to_list() == [{"text": "one"}]


def test_a_line_of_a_text_file_is_a_row(read, tmp_path):
    rows = read(write(tmp_path / "a.txt", "one\n\ntwo\u2028three\n"))
    assert rows["text"] == ["one", "", "two\u2028three"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_only_a_line_feed_ends_a_row_of_a_text_file(read, tmp_path, name):
    content = b"one\rtwo\r\nthree\n\nfour\r"
    (tmp_path / "blob").write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    # the Hub's cache has links to files without extensions
    (tmp_path / name).symlink_to("blob")
    lines = ["one\rtwo", "three", "", "four"]
    assert read_lines(str(tmp_path / name)) == lines
    assert read(str(tmp_path / name))["text"] == lines
    assert [row["text"] for row in read(str(tmp_path / name), streaming=True)] == lines
    (tmp_path / "blob").write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name}: cannot be read: no lines"):
        read(str(tmp_path / name))


def test_separator_and_encoding_may_be_given(read, tmp_path):
    file = write(tmp_path / "a.csv", "document;summary\nöffnet, wie;b\n".encode("cp1252"))
    rows = read(file, csv_separator=";", encoding="cp1252")
    assert rows.to_list() == [{"document": "öffnet, wie", "summary": "b"}]


def test_several_files_are_read_in_the_order_of_their_names(read, tmp_path):
    for number in (2, 0, 1):
        write_rows(tmp_path / f"part-{number}.jsonl", ROWS[number : number + 1])
    (tmp_path / "_record.json").write_text("{}")
    for names in (str(tmp_path / "part-*.jsonl"), str(tmp_path), [str(tmp_path / f"part-{n}.jsonl") for n in range(3)]):
        assert read(names).to_list() == ROWS[:3]
        assert list(read(names, streaming=True)) == ROWS[:3]


def test_csv_files_must_have_the_same_columns(read, tmp_path):
    full = write(tmp_path / "full.csv", "section,document\nnews,a\n")
    turned = write(tmp_path / "turned.csv", "document,section\nb,sport\n")
    short = write(tmp_path / "short.csv", "document\nc\n")
    assert read([full, turned]).to_list() == [
        {"section": "news", "document": "a"},
        {"section": "sport", "document": "b"},
    ]
    for files in ([full, short], [short, full], [full, short, turned]):
        with pytest.raises(ValueError, match=r"short\.csv has no column 'section', which another of these files has"):
            read(files)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_blank_line_is_a_row_of_a_csv_file_with_one_column(read, tmp_path, line_end):
    lines = ["document", "a", "", '"b', "", 'c"', '""', "d"]
    file = write(tmp_path / "a.csv", line_end.join(lines))
    texts = ["a", "", f"b{line_end}{line_end}c", "", "d"]
    assert read(file)["document"] == texts
    assert [row["document"] for row in read(file, streaming=True)] == texts
    # The end of the last line begins no row.
    assert read(write(tmp_path / "b.csv", line_end.join([*lines, ""])))["document"] == texts
    # Each row of two columns has a separator.
    pairs = write(tmp_path / "c.csv", line_end.join(["document,summary", "a,b", "", "c,d", ",", ""]))
    assert read(pairs)["document"] == ["a", "c", ""]
    # A blank line before the header is no row, but the only column would have no name.
    pairs = write(tmp_path / "d.csv", line_end.join(["", "", "document,summary", "a,b", "", "c,d"]))
    assert read(pairs)["document"] == ["a", "c"]
    for number in (1, 2):
        texts = write(tmp_path / f"e{number}.csv", line_end.join([""] * number + ["document", "a"]))
        with pytest.raises(ValueError, match=rf"e{number}\.csv begins with a blank line in place of the column's name"):
            read(texts)


def test_a_saved_split_is_read(read, tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "split")
    assert read(str(tmp_path / "split")).to_list() == ROWS
    datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS)).save_to_disk(tmp_path / "all")
    with pytest.raises(ValueError, match="all has the splits train: name the folder of one split"):
        read(str(tmp_path / "all"))


def test_a_changed_file_is_read_again(read, tmp_path):
    file = write(tmp_path / "a.jsonl", json_lines(ROWS))
    assert len(read(file)) == 4
    write(tmp_path / "a.jsonl", json_lines(ROWS[:2]))
    assert len(read(file)) == 2
    for text, lines in (("one\ntwo", ["one", "two"]), ("one", ["one"])):
        assert read(write(tmp_path / "a.txt", text))["text"] == lines


CASES_OF_UNREADABLE_FILES = [
    ("a.jsonl", json_lines(ROWS)[:-20], "JSON parse error"),
    ("a.jsonl", "", "no rows"),
    ("a.jsonl", json_lines(ROWS).encode() + b"\xe9", "utf-8|Invalid"),
    ("a.jsonl.gz", gzip.compress(json_lines(ROWS * 50).encode())[:-15], "end-of-stream"),
    ("a.parquet", "text", "Parquet"),
    ("a.csv", 'document,summary\na,b\n"open,c\n', "EOF inside string"),
    ("a.csv", "document,summary\na,b\nc,d,e\n", "Expected 2 fields in line 3, saw 3"),
    # pandas would take the first field of each row for an index, and shift the others
    ("a.csv", "document,summary\na,b,c\n", "loss of data"),
    ("a.csv", "document,summary\nö,b\n".encode("latin-1"), "utf-8"),
    ("a.doc", "text", "files must be of one type"),
]


@pytest.mark.parametrize(("name", "content", "reason"), CASES_OF_UNREADABLE_FILES)
def test_files_that_cannot_be_read(read, tmp_path, capfd, name, content, reason):
    file = write(tmp_path / name, content) if not name.endswith(".gz") else str(tmp_path / name)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: .*({reason})") as raised:
        read(file)
    assert "\n" not in str(raised.value)
    assert "Failed" not in capfd.readouterr().err


def test_the_extension_of_a_compression_may_be_in_capitals(read, tmp_path):
    file = tmp_path / "ROWS.JSONL.GZ"
    file.write_bytes(gzip.compress(json_lines(ROWS).encode()))
    assert extension_of(file) == ".jsonl"
    assert read(str(file)).to_list() == ROWS


def test_compressed_texts(tmp_path):
    for name in ("a.txt.gz", "A.TXT.GZ"):
        (tmp_path / name).write_bytes(gzip.compress(b"one\ntwo\n"))
        assert read_lines(str(tmp_path / name)) == ["one", "two"]
        assert list(numbered_lines(tmp_path / name)) == [(1, "one\n"), (2, "two\n")]
    # refused by its name: its bytes could be read as text by chance
    (tmp_path / "a.txt.zst").write_bytes(b"one\n")
    for read_file in (open_text, read_lines, lambda file: list(numbered_lines(file))):
        with pytest.raises(ValueError, match=r"a\.txt\.zst: text files in \.zst cannot be read: unpack it"):
            read_file(tmp_path / "a.txt.zst")


def test_names_without_files(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is a folder without files of rows"):
        files_of(str(tmp_path / "empty"))
    for name in ("nowhere.jsonl", "no*.jsonl"):
        with pytest.raises(ValueError, match="does not exist"):
            files_of(str(tmp_path / name))


def test_files_of_rows_by_their_names(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "split")
    for name in ("a.jsonl", "a.csv.gz", "A.JSONL.GZ", "a-*.parquet", str(tmp_path / "split")):
        assert is_row_file(name)
    for name in ("a.txt", "a.txt.gz", "a", "a.pdf", str(tmp_path)):
        assert not is_row_file(name)
