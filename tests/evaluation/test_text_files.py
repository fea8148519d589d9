"""Files of predictions, references and sources."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.evaluation.text_files import aligned, read_predictions, read_references, read_sources


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file in the folder worked in: text, bytes, or rows as JSON Lines."""
    monkeypatch.chdir(tmp_path)

    def file(name: str, content: str | bytes | list[dict]) -> str:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return name

    return file


@pytest.mark.parametrize("name", ["a.txt", "a", "a.out.gz"])
def test_plain_text_has_a_text_a_line_blank_ones_included(write, name):
    read = read_predictions(write(name, "\ufeffone\r\n\n three \nfour"))
    assert read.texts() == ["one", "", " three ", "four"]
    assert read.places == ["line 1", "line 2", "line 3", "line 4"]
    assert (read.column, read.ids) == (None, {})


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL"])
def test_training_s_predictions_hold_both(write, name):
    write(name, [{"id": 7, "summary": "two", "prediction": "one"}, {"id": 8, "summary": "b", "prediction": None}])
    predictions, references = read_predictions(name), read_references(name)
    assert (predictions.texts(), predictions.column) == (["one", ""], "prediction")
    assert (references.rows, references.column) == ([["two"], ["b"]], "summary")
    assert predictions.ids == references.ids == {"id": [7, 8]}


def test_rows_may_have_other_columns(write):
    assert read_predictions(write("a.json", '[{"summary": "one"},\n {"summary": "two"}]')).texts() == ["one", "two"]
    assert read_references(write("a.jsonl", [{"text": "one", "ID": 1}])).texts() == ["one"]
    read = read_predictions(write("a.csv", 'id,prediction\n3,"one, two"\n4,\n'))
    assert (read.texts(), read.ids) == (["one, two", ""], {"id": ["3", "4"]})
    # references may be several
    rows = [{"summary": "a", "references": ["a", "b"]}, {"summary": "c", "references": "d"}]
    assert read_references(write("a.jsonl", rows)).rows == [["a", "b"], ["d"]]
    assert read_references(write("b.jsonl", [{"reference": "a", "title": "b"}])).rows == [["a"]]
    assert read_references(write("c.jsonl", [{"highlights": "a", "title": "b"}])).rows == [["a"]]
    # several documents are one source
    assert read_sources(write("a.jsonl", [{"documents": ["a", "b"], "summary": "c"}])).texts() == ["a\n\nb"]
    assert read_sources(write("b.jsonl", [{"article": "a", "summary": "c"}])).texts() == ["a"]


def test_an_abstract_is_no_reference_unless_it_is_named(write):
    file = write("a.csv", "id,abstract,gist\n1,long,short\n")
    said = "a.csv, line 2: no references column; the columns are id, abstract, gist: name one with `summary_column`"
    with pytest.raises(ValueError, match=said):
        read_references(file)
    with pytest.raises(ValueError, match=r"no column 'gis'; .*; did you mean gist\?"):
        read_references(file, "gis")
    assert read_references(file, "gist").texts() == ["short"]
    with pytest.raises(ValueError, match=r"a.csv, line 2: no document column; .*: name one with `text_column`"):
        read_sources(file)
    assert read_sources(file, "abstract").texts() == ["long"]
    with pytest.raises(ValueError, match=r"a.txt: plain text has no columns: name none with `summary_column`"):
        read_references(write("a.txt", "b"), "gist")


def test_hypotheses_beside_references(write):
    file = write("a.csv", "document_id,hyp,ref\n1,a,b\n")
    assert (read_predictions(file).texts(), read_references(file).texts()) == (["a"], ["b"])


def test_a_pattern_is_the_rows_of_all_files(write):
    for number in (2, 1):
        write(f"test-{number}.jsonl", [{"summary": str(number)}])
    assert read_references("test-*.jsonl").texts() == ["1", "2"]
    assert read_references("test-*1.jsonl").texts() == ["1"]


def test_parquet(write):
    pq.write_table(pa.table({"id": [1, 2], "prediction": ["a", None], "references": [["b", "c"], ["d"]]}), "a.parquet")
    predictions, references = read_predictions("a.parquet"), read_references("a.parquet")
    assert (predictions.texts(), predictions.ids, predictions.places) == (["a", ""], {"id": [1, 2]}, ["row 1", "row 2"])
    assert references.rows == [["b", "c"], ["d"]]
    with pytest.raises(ValueError, match=r"b.parquet: not a complete Parquet file"):
        read_predictions(write("b.parquet", "a"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "a.txt is empty: it must have at least one row"),
        ("a.jsonl", "\n", "a.jsonl is empty: it must contain texts"),
        ("a.txt", b"one\ncaf\xe9\n", r"a.txt, line 2: not UTF-8 \(.* at byte 4\): convert the file"),
        ("a.txt", "one".encode("utf-16")[:-1], r"a.txt, line 0: not UTF-16-LE \(truncated data at byte 1\)"),
        ("a.txt", "one".encode("utf-16-le"), "a.txt, line 1: NUL at character 2, so the file is not UTF-8"),
        ("a.txt", b"one\ntwo\0\0\0", "a.txt, line 2: NUL at character 4.*, or was not written completely"),
        ("a.jsonl", '{"prediction": "a\\u0000"}', "a.jsonl, line 1: NUL at character 2"),
        ("a.jsonl", '{"prediction": "a"}\n{"predic', "a.jsonl, line 2: not a JSON row"),
        ("a.json", '[{"prediction": "a"},\n{', "a.json, line 2: not a JSON row"),
        ("a.jsonl", '"a"', "a.jsonl, line 1: a row must be an object"),
        ("a.jsonl", '{"text": "a", "more": 1}', "no prediction column; the columns are text, more: name one with"),
        ("a.jsonl", '{"prediction": "a"}\n{"summary": "b"}', "a.jsonl, line 2: no column 'prediction'; the columns"),
        ("a.jsonl", '{"prediction": ["a", 3]}', "line 1: 'prediction' must be text, but is a list with int: 3"),
        ("a.jsonl", '{"prediction": 3}', "'prediction' must be text, but is int: 3"),
        ("a.txt.gz", None, "a.txt.gz: not a complete .gz file"),
    ],
)
def test_files_that_cannot_be_read_are_named(write, tmp_path, name, content, message):
    if content is None:
        (tmp_path / name).write_bytes(gzip.compress(b"one\n" * 100)[:-9])
    else:
        write(name, content)
    with pytest.raises(ValueError, match=message):
        read_predictions(name)


@pytest.mark.parametrize("read", [read_predictions, read_references, read_sources])
def test_folders_and_missing_files_are_named(write, tmp_path, read):
    (tmp_path / "folder").mkdir()
    for name, problem in (("folder", "is empty: it must contain texts"), ("nowhere", "does not exist: name a file")):
        with pytest.raises(ValueError, match=f"^{name} {problem}"):
            read(name)


@pytest.mark.parametrize("value", [[], [3]])
def test_lists_that_are_no_references_are_an_error(write, value):
    with pytest.raises(ValueError, match="'references' must be text, but is "):
        read_references(write("a.jsonl", [{"references": value}]))


def test_different_numbers_of_rows_are_an_error(write):
    one, other = read_predictions(write("a.txt", "1\n2\n3\n")), read_references(write("b.txt", "1\n2\n"))
    message = "{} has {} texts and {} has {}: line 3 of a.txt has no counterpart"
    with pytest.raises(ValueError, match=message.format("a.txt", 3, "b.txt", 2)):
        aligned(other, one)
    with pytest.raises(ValueError, match=message.format("b.txt", 2, "a.txt", 3)):
        aligned(one, other)


def test_different_ids_are_an_error_that_names_the_first(write):
    rows = [{"id": number, "prediction": "a"} for number in (1, 2, 3)]
    one = read_predictions(write("a.jsonl", rows))
    aligned(read_predictions(write("b.jsonl", [{**row, "id": str(row["id"])} for row in rows])), one)
    other = read_predictions(write("c.jsonl", [rows[0], {**rows[2], "id": 4}, rows[1]]))
    with pytest.raises(ValueError, match=r"a.jsonl, line 2 has the id 2 and c.jsonl, line 2 has 4: both files must"):
        aligned(other, one)
    # ids say more than numbers of rows
    with pytest.raises(ValueError, match=r"has the id 1 and c.jsonl, line 1 has 3"):
        aligned(read_predictions(write("c.jsonl", rows[2:])), one)
    with pytest.raises(ValueError, match=r"has the id 2 and c.jsonl, line 2 has 1"):
        aligned(read_predictions(write("c.jsonl", [rows[0], rows[0], rows[1]])), one)


def test_rows_are_matched_by_their_ids(write):
    rows = [{"id": number, "prediction": text} for number, text in enumerate("abc")]
    first = read_predictions(write("a.jsonl", rows))
    file = aligned(read_predictions(write("b.jsonl", [{**row, "id": str(row["id"])} for row in rows[::-1]])), first)
    assert (file.texts(), file.places) == (["a", "b", "c"], ["line 3", "line 2", "line 1"])
    assert "b.jsonl: rows are matched with those of a.jsonl by 'id'" in file.notes
    # ids of one file alone are passed over
    aligned(read_references(write("b", "b\n")), read_predictions(write("a.jsonl", [{"id": 9, "prediction": "a"}])))
    # ids count where each row has one
    assert read_predictions(write("a.jsonl", [{"id": 1, "prediction": "a"}, {"prediction": "b"}])).ids == {}
