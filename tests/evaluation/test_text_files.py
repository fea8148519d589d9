"""Files of predictions, references and sources."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.evaluation.text_files import (
    RowReading,
    aligned,
    read_documents,
    read_predictions,
    read_references,
    read_sources,
    read_systems,
    read_text,
    tags_to_line_ends,
)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file in the folder worked in: text, bytes, or rows as JSON Lines."""
    monkeypatch.chdir(tmp_path)

    def file(name: str, content: str | bytes | list[dict]) -> str:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return name

    return file


@pytest.mark.parametrize(("name", "mark"), [("a.txt", "\ufeff"), ("a.txt.gz", "")])
def test_plain_text_has_a_text_a_line_blank_ones_included(write, name, mark):
    read = read_predictions(write(name, f"{mark}one\r\n\n three \nfour"))
    assert read.texts() == ["one", "", " three ", "four"]
    assert read.labels() == [f"{name}, row {number}" for number in (1, 2, 3, 4)]
    assert (read.column, read.ids, read.notes) == (None, None, ())


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL"])
def test_training_s_predictions_hold_both(write, name):
    write(name, [{"id": 7, "summary": "two", "prediction": "one"}, {"id": 8, "summary": "b", "prediction": None}])
    (predictions,), references, _ = read_systems([name])
    assert (predictions.texts(), predictions.column) == (["one", ""], "prediction")
    assert (references.rows, references.column) == ([["two"], ["b"]], "summary")
    assert predictions.ids == references.ids == ["7", "8"]
    assert predictions.notes == (f"{name}: predictions from 'prediction'",)


def test_rows_may_have_other_columns(write):
    assert read_predictions(write("a.json", '[{"summary": "one"},\n {"summary": "two"}]')).texts() == ["one", "two"]
    read = read_predictions(write("a.csv", 'id,prediction\n3,"one, two"\n4,\n'))
    assert (read.texts(), read.ids) == (["one, two", ""], ["3", "4"])
    assert read_references(write("b.jsonl", [{"reference": "a", "title": "b"}])).rows == [["a"]]
    assert read_references(write("c.jsonl", [{"highlights": "a", "title": "b"}])).rows == [["a"]]
    assert read_sources(write("d.jsonl", [{"article": "a", "summary": "c"}])).texts() == ["a"]


def test_settings_of_tables(write):
    file = write("a.csv", "prediction;summary\ncafé;b\n".encode("latin-1"))
    assert read_predictions(file, RowReading(csv_separator=";", encoding="latin-1")).texts() == ["café"]
    lines = write("a.txt", "café\n".encode("latin-1"))
    assert read_predictions(lines, RowReading(encoding="latin-1")).texts() == ["café"]


def test_lists_are_several_references_or_documents(write):
    rows = [{"summary": "a", "references": ["a", None, "b", " "]}, {"summary": "c", "references": []}]
    assert read_references(write("a.jsonl", rows)).rows == [["a", "b"], [""]]
    # a list in another column is one of references too, and a text in `references` is no list
    assert read_references(write("b.jsonl", [{"highlights": ["a", "b"], "references": "c"}])).rows == [["c"]]
    assert read_references("a.jsonl", RowReading(summary_column="summary")).rows == [["a"], ["c"]]
    documents = write("c.jsonl", [{"documents": ["a", "b"], "summary": "c"}])
    assert read_documents(documents).rows == [["a", "b"]]
    assert read_sources(documents).texts() == ["a\n\nb"]
    with pytest.raises(ValueError, match=r"d.jsonl: column 'prediction' has lists of texts, but must have one pred"):
        read_predictions(write("d.jsonl", [{"prediction": ["a", "b"]}]))


def test_references_in_several_files(write):
    # mjpost/sacrebleu#130: files have blank lines where a text has fewer references
    files = [write("a.txt", "one\ntwo\n"), write("b.txt", "uno\n \n")]
    read = read_references(files)
    assert (read.name, read.rows) == ("a.txt, b.txt", [["one", "uno"], ["two"]])


def test_columns_of_documents_are_no_references(write):
    # as in training: the abstract is the document of a title, and the summary of an article
    assert read_references(write("a.jsonl", [{"abstract": "long", "title": "short"}])).column == "title"
    assert read_references(write("b.jsonl", [{"article": "long", "abstract": "short"}])).column == "abstract"
    file = write("a.csv", "id,abstract,gist\n1,long,short\n")
    said = "a.csv: no summary column; the columns are id, gist: name one with `summary_column`"
    with pytest.raises(ValueError, match=said):
        read_references(file)
    assert read_references(file, RowReading(summary_column="gist")).texts() == ["short"]
    assert read_references(file, RowReading(summary_column="abstract")).texts() == ["long"]
    assert read_sources(file).texts() == ["long"]


def test_columns_that_do_not_exist_are_told(write):
    file = write("a.jsonl", [{"text": "a", "more": "b"}])
    with pytest.raises(ValueError, match=r"a.jsonl: no prediction column; the columns are text, more: name one with"):
        read_predictions(file)
    with pytest.raises(ValueError, match=r"a.jsonl: no column 'gist'; the columns are text, more"):
        read_references(file, RowReading(summary_column="gist"))
    with pytest.raises(ValueError, match=r"a.txt: plain text has no columns: name none with `summary_column`"):
        read_references(write("a.txt", "b"), RowReading(summary_column="gist"))


def test_predictions_and_references_in_the_same_rows(write):
    file = write("a.jsonl", [{"summary": "gold", "output": "ours"}])
    # the predictions are not the references that are named
    with pytest.raises(ValueError, match=r"no prediction column; the columns are output: name one"):
        read_systems([file], reading=RowReading(summary_column="summary"))
    (predictions,), references, _ = read_systems([file], reading=RowReading(prediction_column="output"))
    assert (predictions.texts(), references.texts()) == (["ours"], ["gold"])
    with pytest.raises(ValueError, match=r"no summary column; the columns are output"):
        read_systems([file])
    with pytest.raises(ValueError, match=r"b.txt has predictions but no references: give the file"):
        read_systems([write("b.txt", "a\n")])


def test_a_pattern_or_a_folder_is_the_rows_of_all_files(write):
    for number in (2, 1):
        write(f"shards/test-{number}.jsonl", [{"summary": str(number)}])
    write("shards/_SUCCESS", "")
    for name in ("shards", "shards/test-*.jsonl"):
        assert read_references(name).texts() == ["1", "2"]


def test_parquet(write):
    pq.write_table(pa.table({"id": [1, 2], "prediction": ["a", None], "references": [["b", "c"], ["d"]]}), "a.parquet")
    predictions, references = read_predictions("a.parquet"), read_references("a.parquet")
    assert (predictions.texts(), predictions.ids) == (["a", ""], ["1", "2"])
    assert references.rows == [["b", "c"], ["d"]]


# name, content (None for a compressed file that is cut off) and message
CASES_OF_UNREADABLE_FILES = [
    ("a.txt", "", "a.txt: cannot be read"),
    ("a.txt", b"one\ncaf\xe9\n", "a.txt: cannot be read: 'utf-8' codec can't decode byte 0xe9 in position 7"),
    ("a.jsonl", b'{"prediction": "caf\xe9"}', "a.jsonl: column 'prediction' cannot be read: 'utf-8' codec"),
    ("a.jsonl", '{"prediction": "a"}\n{"predic', "a.jsonl: cannot be read: JSON parse error"),
    ("a.jsonl", '{"prediction": 3}', r"a.jsonl, row 1: column 'prediction' has int \(3\), but must have a text"),
    ("a.out", "one\n", "a.out: files must be of one type, which is one of .jsonl, "),
    ("a.txt.gz", None, "a.txt.gz: cannot be read: Compressed file ended before"),
]


@pytest.mark.parametrize(("name", "content", "message"), CASES_OF_UNREADABLE_FILES)
def test_files_that_cannot_be_read_are_named(write, tmp_path, name, content, message):
    if content is None:
        (tmp_path / name).write_bytes(gzip.compress(b"one\n" * 100)[:-9])
    else:
        write(name, content)
    with pytest.raises(ValueError, match=message):
        read_predictions(name)


@pytest.mark.parametrize("read", [read_predictions, read_references, read_sources])
def test_empty_folders_and_missing_files_are_named(write, tmp_path, read):
    (tmp_path / "folder").mkdir()
    for name, problem in (("folder", "is a folder without files"), ("nowhere", "does not exist")):
        with pytest.raises(ValueError, match=f"^{name} {problem}"):
            read(name)


def test_folders_have_a_text_in_each_file(write):
    # pltrdy/files2rouge#22, bheinzerling/pyrouge#26: numbers in names pair the files
    for number in (10, 9):
        write(f"decoded/{number:06}_decoded.txt", f"text {number}\nIt ends.\n")
        write(f"reference/ref.{number}.txt", f"reference {number}")
    write("decoded/.hidden", "none")
    predictions, references = read_predictions("decoded"), read_references("reference")
    assert predictions.texts() == ["text 9\nIt ends.", "text 10\nIt ends."]
    assert references.texts() == ["reference 9", "reference 10"]
    assert predictions.ids == references.ids == ["9", "10"]
    write("decoded/11.txt", b"\xe9")
    with pytest.raises(ValueError, match=r"decoded/11.txt: cannot be read: 'utf-8' codec can't decode"):
        read_references("decoded")
    assert read_references("decoded", RowReading(encoding="latin-1")).rows[2] == ["é"]


# bheinzerling/pyrouge, tests/data: the letter of a name tells the references of a document apart
@pytest.mark.parametrize("name", ["D3000{}.M.100.T.{}", "{1}.00{0}.txt", "ref.{1}.{0}.txt"])
def test_folders_have_several_references(write, name):
    for number in (1, 2):
        for letter in "EC":
            write("models/" + name.format(number, letter), f"{number} {letter}")
    assert read_references("models").rows == [["1 C", "1 E"], ["2 C", "2 E"]]


def test_a_number_may_be_the_extension(write):
    # the files of ROUGE's script may be named sys.1 and ref.A.1
    for number in (10, 9):
        write(f"ours/sys.{number}", f"ours {number}")
        write(f"plain/{number}.txt", f"plain {number}")
        for letter in "AB":
            write(f"gold/ref.{letter}.{number}", f"gold {number} {letter}")
    predictions, references = read_predictions("ours"), read_references("gold")
    assert predictions.texts() == ["ours 9", "ours 10"]
    assert predictions.ids == references.ids == read_predictions("plain").ids == ["9", "10"]
    assert references.rows == [["gold 9 A", "gold 9 B"], ["gold 10 A", "gold 10 B"]]
    # the system of a DUC name is no number of its text, and a digit of another extension is no number
    for name in ("duc/D30002.M.100.T.25", "new/mill.v2", "new/ferry.v2"):
        write(name, "a")
    assert (read_predictions("duc").ids, read_predictions("new").ids) == (["30002 100"], ["ferry", "mill"])


def test_names_without_numbers_and_those_that_share_them_are_ids(write):
    # rajdeep345/ECTSum: systems of other documents in the same quarter were scored against each other
    for folder, names in (("ours", ("mill", "ferry")), ("ours_q1", ("a_q1", "b_q1")), ("gold_q1", ("b_q1", "c_q1"))):
        for name in names:
            write(f"{folder}/{name}.txt", name)
    assert read_predictions("ours").ids == ["ferry", "mill"]
    with pytest.raises(ValueError, match=r"the id 'a_q1.txt' occurs 1 times in ours_q1 and 0 times in gold_q1"):
        aligned(read_references("gold_q1"), read_predictions("ours_q1"))


def test_different_numbers_of_rows_are_an_error(write):
    first, second = read_predictions(write("a.txt", "1\n2\n3\n")), read_references(write("b.txt", "1\n2\n"))
    with pytest.raises(ValueError, match=r"a.txt has 3 texts and b.txt has 2: the files must match row by row"):
        aligned(second, first)


def test_rows_are_matched_by_their_ids(write):
    rows = [{"id": number, "prediction": text} for number, text in enumerate("abc")]
    first = read_predictions(write("a.jsonl", rows))
    reversed_rows = [{**row, "id": str(row["id"])} for row in rows[::-1]]
    file = aligned(read_predictions(write("b.jsonl", reversed_rows)), first)
    assert (file.texts(), file.ids) == (["a", "b", "c"], first.ids)
    assert "b.jsonl: rows are matched with those of a.jsonl by 'id'" in file.notes
    # the same ids in the same order and the ids of one file alone need no note
    assert aligned(read_references(write("b.txt", "x\ny\nz\n")), first).notes == ()
    assert aligned(first, first).notes == first.notes


def test_ids_of_which_no_use_is_made_are_told(write):
    first = read_predictions(write("a.jsonl", [{"id": letter, "prediction": "a"} for letter in "abc"]))
    other_ids = [{"id": letter, "summary": "x"} for letter in "xyz"]
    # ids count if each row has one
    missing_id = [*other_ids[:2], {"summary": "x"}]
    for name, content, reason in (
        ("b.jsonl", other_ids, "they have no 'id' in common"),
        ("c.jsonl", missing_id, "some rows of c.jsonl have no 'id'"),
        ("c.csv", "id,summary\na,x\n,x\nc,x\n", "some rows of c.csv have no 'id'"),
    ):
        file = read_references(write(name, content), aligned_files=[first])
        assert file.rows == [["x"], ["x"], ["x"]]
        assert file.notes[1:] == (f"{name}: rows are matched with those of a.jsonl by their order, as {reason}",)
    assert read_references("c.jsonl").ids is None
    assert len(aligned(first, read_references("c.jsonl")).notes) == 2


def test_rows_without_ids_beside_reordered_rows_are_told(write):
    rows = [{"id": number, "summary": text, "document": text} for number, text in enumerate("abc")]
    predictions, reversed_rows = write("a.jsonl", rows), write("b.jsonl", rows[::-1])
    plain = write("plain.txt", "x\ny\nz\n")
    plain_note = "plain.txt: rows are matched with those of {} by their order, as plain.txt has no 'id'"
    # Without ids, sources may be in the order of either file.
    _, references, sources = read_systems([predictions], reversed_rows, plain)
    assert references.texts() == ["a", "b", "c"]
    assert (sources.texts(), sources.notes) == (["x", "y", "z"], (plain_note.format("a.jsonl"),))
    # One of several files of references may be the one in another order.
    _, _, sources = read_systems([predictions], [plain, reversed_rows], plain)
    assert sources.notes == (plain_note.format("a.jsonl"),)
    # A file with ids may come after a file without them.
    _, references, sources = read_systems([plain], predictions, reversed_rows)
    assert (references.notes, sources.texts()) == (("a.jsonl: references from 'summary'",), ["a", "b", "c"])
    assert sources.notes[-1] == plain_note.format("a.jsonl")
    # Where all files have the same order, no note is needed.
    _, _, sources = read_systems([predictions], predictions, plain)
    assert sources.notes == ()


def test_numbers_that_became_floats_are_the_same_ids(write):
    # pandas turns integers into floats if a row has no value
    first = read_predictions(write("a.jsonl", [{"id": number, "prediction": "a"} for number in (1, 2, 15)]))
    pq.write_table(pa.table({"id": [15.0, 2.0, 1.0], "summary": ["p", "q", "r"]}), "a.parquet")
    for file in (
        "a.parquet",
        write("a.csv", "id,summary\n15.0,p\n2.0,q\n1.0,r\n"),
        write("b.jsonl", '{"id": 15.0, "summary": "p"}\n{"id": 2.0, "summary": "q"}\n{"id": 1.0, "summary": "r"}\n'),
    ):
        references = aligned(read_references(file), first)
        assert (references.texts(), references.ids) == (["r", "q", "p"], ["1", "2", "15"])
    # sections are no floats
    assert read_references(write("c.csv", "id,summary\n3.0,p\n3.10,q\n3,r\n")).ids == ["3.0", "3.10", "3"]


@pytest.mark.parametrize(
    ("ids", "problem"), [("034", "'1' occurs 1 times in a.jsonl and 0"), ("001", "'0' occurs 1 times in a.jsonl and 2")]
)
def test_ids_of_only_one_file_are_an_error(write, ids, problem):
    first = read_predictions(write("a.jsonl", [{"id": id, "prediction": "a"} for id in "012"]))
    second = read_predictions(write("b.jsonl", [{"id": id, "prediction": "a"} for id in ids]))
    with pytest.raises(
        ValueError, match=rf"the id {problem} times in b.jsonl: both files must have the same ids, each"
    ):
        aligned(second, first)


def test_tags_end_sentences(write):
    file = read_predictions(write("a.txt", "a <q> b <q>\nc\n"))
    parted, notes = tags_to_line_ends(file)
    assert parted.texts() == ["a\nb", "c"]
    assert notes == ["a.txt: 1 of 2 rows contain <q>, read as the end of a sentence"]
    assert tags_to_line_ends(file, "none") == (file, [])
    assert tags_to_line_ends(file, "|||") == (file, [])
    assert tags_to_line_ends(file, " b ")[0].texts() == ["a <q>\n<q>", "c"]


def test_a_whole_text(write):
    assert read_text(write("a.txt", "\ufeffa\nb\n")) == "a\nb\n"
    with pytest.raises(ValueError, match=r"b.txt is blank: give a text to judge"):
        read_text(write("b.txt", " \n"))
    with pytest.raises(ValueError, match=r"c.txt: cannot be read: 'utf-8' codec"):
        read_text(write("c.txt", b"\xe9"))


def test_ids_count_though_another_file_has_none(write):
    write("ours.txt", "a\nb\nc\n")
    write("more.txt", "a gold\nb gold\nc gold\n")
    for name, column, numbers in (
        ("ours.jsonl", "prediction", (0, 1, 2)),
        ("theirs.jsonl", "prediction", (1, 2, 0)),
        ("gold.jsonl", "summary", (2, 1, 0)),
        ("first.jsonl", "summary", (0, 1, 2)),
        ("articles.jsonl", "document", (2, 0, 1)),
    ):
        write(name, [{"id": number, column: f"{'abc'[number]} {column}"} for number in numbers])
    expected_rows = [["a summary", "a gold"], ["b summary", "b gold"], ["c summary", "c gold"]]
    # each file of references has the order of the predictions before the references of a row are joined
    _, references, _ = read_systems(["ours.jsonl"], ["gold.jsonl", "more.txt"])
    assert references.rows == expected_rows
    _, references, _ = read_systems(["ours.jsonl"], ["more.txt", "gold.jsonl"])
    assert references.rows == [row[::-1] for row in expected_rows]
    # predictions without ids have the order of the first file with ids
    for files in (["first.jsonl", "more.txt"], ["more.txt", "first.jsonl"], ["more.txt", "first.jsonl", "gold.jsonl"]):
        systems, references, sources = read_systems(["ours.txt", "theirs.jsonl"], files, "articles.jsonl")
        assert sources is not None
        assert systems[1].texts() == ["a prediction", "b prediction", "c prediction"]
        assert sources.texts() == ["a document", "b document", "c document"]
        assert sorted(references.rows[2]) == sorted(["c gold"] + ["c summary"] * (len(files) - 1))
    assert "articles.jsonl: rows are matched with those of theirs.jsonl by 'id'" in sources.notes
