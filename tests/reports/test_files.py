"""Files that are no texts, archives, URLs, pipes, and the outputs of other programs."""

import csv
import datetime
import gzip
import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.cli import main
from hf_summ.common.pages import markdown_table
from hf_summ.data import Corpus, load
from hf_summ.data.files import read_files
from hf_summ.offline.shards import Plan, Summary
from tests.data.files import json_lines, write
from tests.doors.outcomes import strict_json

ROW = {"document": "A ferry sank. Nobody was hurt.", "summary": "A ferry sank."}
TEXTS = ["A bridge opened.", "The mill burned."]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command in the test's folder, and returns its output, its notes and its status."""
    monkeypatch.chdir(tmp_path)

    def command(*argv: str) -> tuple[str, str, int]:
        status = main(list(argv))
        output, notes = capsys.readouterr()
        return output, notes, status

    return command


def rouge1(run, predictions: str, references: str) -> float:
    """ROUGE-1 of two files."""
    argv = ("evaluate", "--predictions", predictions, "--references", references, "--rouge_types", "rouge1")
    output, _, _ = run(*argv, "--format", "json")
    return fmeasure(output)


def fmeasure(report: str) -> float:
    """ROUGE-1 in a report of JSON."""
    return json.loads(report)["rouge"]["rouge1"]["predictions"]["fmeasure"]


# huggingface/datasets#2662
def test_a_url_is_no_missing_file(run):
    _, notes, _ = run("data", "https://a.org/b.csv")
    assert "does not exist" in notes


# huggingface/datasets#2578: the Pile and most corpora after it
def test_corpora_may_be_compressed_by_zstandard(tmp_path):
    pytest.importorskip("zstandard")
    lines = json.dumps(ROW) + "\n"
    frame = pa.compress((lines * 3).encode(), "zstd", asbytes=True)
    # frames follow each other in files that several processes wrote
    (tmp_path / "a.jsonl.zst").write_bytes(frame + frame)
    loaded = load(Corpus(train_file=str(tmp_path / "a.jsonl.zst")), str(tmp_path / "cache"))["train"]
    assert loaded.to_list() == [ROW] * 6
    (tmp_path / "b.jsonl.zst").write_bytes(frame[:-9])
    with pytest.raises(ValueError, match=r"b.jsonl.zst: cannot be read"):
        load(Corpus(train_file=str(tmp_path / "b.jsonl.zst")), str(tmp_path / "cache"))


def test_folders_of_shards_have_rows(run, tmp_path):
    # as `hf-summ summarize --text_column` and Spark write them
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "_SUCCESS").touch()
    for number, text in enumerate(TEXTS):
        pq.write_table(pa.table({"summary": [text]}), tmp_path / "ours" / f"part-{number:05}.snappy.parquet")
    (tmp_path / "r.txt").write_text("\n".join(TEXTS))
    assert rouge1(run, "ours", "r.txt") == 100


# pltrdy/files2rouge#22, bheinzerling/pyrouge#26, potsawee/longsum0#2
def test_folders_have_a_text_in_each_file(run, tmp_path):
    (tmp_path / "decoded").mkdir()
    (tmp_path / "reference").mkdir()
    for number, text in enumerate(TEXTS * 6):
        content = f"{text}\nIt is text {number}.\n"
        (tmp_path / "decoded" / f"{number:06}_decoded.txt").write_text(content)
        (tmp_path / "reference" / f"ref.{number}.txt").write_text(content)
    assert rouge1(run, "decoded", "reference") == 100
    texts = [f"{text} It is text {number}." for number, text in enumerate(TEXTS * 6)]
    rows = [{"id": f"a{number}", "summary": text} for number, text in enumerate(texts)]
    write(tmp_path / "rows.jsonl", json_lines(rows))
    assert rouge1(run, "decoded", "rows.jsonl") == 100
    (tmp_path / "reference" / "ref.3.txt").rename(tmp_path / "reference" / "ref.30.txt")
    _, notes, status = run("evaluate", "--predictions", "decoded", "--references", "reference")
    assert status == 2
    assert "the id '3' occurs 1 times in decoded and 0 times in reference" in notes
    # the order is that in which a folder is evaluated, unlike that of decoded/*.txt in a shell
    output, _, _ = run("extract", "decoded/", "--sentences", "2", "--method", "tail")
    assert output.splitlines() == texts
    _, notes, _ = run("extract", "decoded", "--method", "oracle")
    assert "decoded has no references" in notes


# bheinzerling/pyrouge, tests/data: the letter of a name tells the references of a document apart
@pytest.mark.parametrize("name", ["D3000{}.M.100.T.{}", "{1}.00{0}.txt", "ref.{1}.{0}.txt"])
def test_folders_have_several_references(run, tmp_path, name):
    for folder in ("systems", "models"):
        (tmp_path / folder).mkdir()
    for number, text in enumerate(TEXTS, 1):
        (tmp_path / "systems" / name.format(number, "A")).write_text(text)
        (tmp_path / "models" / name.format(number, "C")).write_text("It rained.")
        (tmp_path / "models" / name.format(number, "E")).write_text(text)
    line = ("evaluate", "--predictions", "systems", "--references", "models", "--several", "best", "--format", "json")
    output, _, _ = run(*line)
    assert fmeasure(output) == 100
    # tags are ends of sentences in folders too
    for folder, letter in (("systems", "A"), ("models", "E")):
        (tmp_path / folder / name.format(1, letter)).write_text(f"{TEXTS[0]}<q>{TEXTS[1]}")
    output, notes, _ = run(*line)
    assert fmeasure(output) == 100
    assert "systems: 1 of 2 rows contain <q>" in notes
    assert "models: 1 of 2 rows contain <q>" in notes


def test_loops_of_links_are_missing_files(run, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    _, notes, status = run("evaluate", "--predictions", "loop", "--references", "loop")
    assert status == 2
    assert "loop does not exist" in notes


# rspeer/python-ftfy#78, mjmlio/mjml#1775
@pytest.mark.parametrize("command", ["extract", "summarize"])
def test_an_output_replaces_no_input(run, tmp_path, command):
    (tmp_path / "a.txt").write_text("A ferry sank. Nobody was hurt.")
    (tmp_path / "link").symlink_to("a.txt")
    _, notes, status = run(command, "a.txt", "--output", "link")
    assert status == 2
    assert "--output link: would replace the input; give it another name" in notes


# lzakharov/csv2md#33, microsoft/markitdown#2266
def test_cells_of_tables_are_one_line():
    table = markdown_table(["a\nb"], [["c|d"], ["e\\|f\r\n"]])
    assert table.splitlines()[2:] == ["| c\\|d   |", "| e\\\\\\|f |"]


# aws-samples/genai-quickstart-pocs#97, Palashio/libra#357: a summary beside each row of a file
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.csv", "out.parquet"])
def test_the_rows_of_a_file_become_a_file(run, tmp_path, name):
    rows = [{"id": number, "text": f"We present parser {number}.", "of": ["a", 'b "c"']} for number in range(3)]
    write(tmp_path / "rows.jsonl", json_lines(rows))
    line = ("summarize", "rows.jsonl", "--num_beams", "1", "--max_new_tokens", "2")
    _, notes, status = run(*line, "--rows_per_shard", "2", "--output", name)
    assert status == 0
    assert f"3 rows summarized: {name}\n" in notes
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "rows.jsonl"]
    if name == "out.parquet":
        written = pq.read_table(name).to_pylist()
    elif name == "out.csv":
        with open(name, encoding="utf-8-sig", newline="") as file:
            written = list(csv.DictReader(file))
        # fields of CSV are texts
        for row in written:
            row["id"] = int(row["id"])
            row["of"] = json.loads(row["of"])
    else:
        open_file = gzip.open if name.endswith("gz") else open
        with open_file(name, "rt", encoding="utf-8") as file:
            written = [json.loads(line_of_json) for line_of_json in file]
    for row, written_row in zip(rows, written, strict=True):
        assert written_row.items() >= row.items()
        assert written_row["summary"]
        assert written_row["error"] == ""
    for wrong_name, problem in (
        ("rows.jsonl", "would replace the input"),
        ("no.arrow", "must be a .parquet"),
        ("no.xlsx", "must be a .parquet"),
    ):
        _, notes, _ = run(*line, "--output", wrong_name)
        assert f"--output {wrong_name}: {problem}" in notes


# a sheet that Excel saved in much of Europe, and one with an older encoding
@pytest.mark.parametrize(("encoding", "flags"), [("utf-8-sig", ()), ("cp1252", ("--encoding", "cp1252"))])
def test_a_spreadsheet_gets_a_column_of_summaries(run, tmp_path, encoding, flags):
    texts = ["We present a café; it is “open”.", "", "N/A"]
    with open(tmp_path / "in.csv", "w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Title", "Abstract"])
        for number, text in enumerate(texts):
            writer.writerow([str(number), text])
    line = ("--csv_separator", ";", "--num_beams", "1", "--max_new_tokens", "12", "--output")
    _, notes, status = run("summarize", "in.csv", *flags, *line, "out.csv")
    assert status == 0
    assert "documents from 'Abstract'" in notes
    # Excel recognizes UTF-8 by this mark
    assert (tmp_path / "out.csv").read_bytes().startswith("\ufeffTitle;Abstract;summary;".encode())
    rows = read_rows(tmp_path / "out.csv")
    assert [row["Abstract"] for row in rows] == texts
    assert [bool(row["summary"]) for row in rows] == [True, False, True]
    assert rows[1]["error"] == "'Abstract' is blank"
    assert "the summary is longer than the document" in rows[2]["note"]
    # an earlier output, by another model or with other settings
    _, notes, status = run("summarize", "out.csv", *line, "again.csv", "--min_new_tokens", "2")
    assert status == 0
    assert "new columns replace summary, source_tokens, cut_tokens, error, note" in notes
    new_rows = read_rows(tmp_path / "again.csv")
    assert [list(row) for row in new_rows] == [list(row) for row in rows]
    assert [row["Title"] for row in new_rows] == ["0", "1", "2"]
    # a summary column that the user wrote is not replaced
    (tmp_path / "own.csv").write_text("Abstract;summary\nWe present a café.;Mine.\n", encoding="utf-8")
    _, notes, _ = run("summarize", "own.csv", *line, "own_out.csv")
    assert "two columns 'summary'" in notes


def read_rows(path) -> list[dict]:
    """The rows of a CSV file with semicolons."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


# microsoft/promptflow#2229, MLflow and browsers read no NaN
def test_json_of_results_is_json(run, tmp_path):
    rows = [{**ROW, "score": float("nan")}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    flags = ("--max_new_tokens", "2", "--num_beams", "1", "--output", "o.jsonl", "--output_column", "x")
    _, _, status = run("summarize", "a.parquet", *flags)
    assert status == 0
    assert strict_json((tmp_path / "o.jsonl").read_text())["score"] is None
    (tmp_path / "t.txt").write_text(ROW["document"])
    for argv in (
        ("data", "a.parquet", "--model", "none", "--format", "json"),
        ("evaluate", "--predictions", "a.parquet", "--prediction_column", "document", "--format", "json"),
        ("summarize", "t.txt", "--format", "jsonl", "--details", "--max_new_tokens", "2"),
    ):
        output, _, _ = run(*argv)
        strict_json(output)


# dates and other types of pyarrow, which .parquet files kept
def test_types_of_arrow_files_are_kept(tmp_path):
    categories = pa.array(["u"]).dictionary_encode()
    table = pa.table({"text": ["a b"], "date": [datetime.datetime(2024, 1, 1)], "cat": categories})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    rows = read_files(str(tmp_path / "a.arrow"))
    Plan(rows, "text", None, "summary", 1, tmp_path, "parquet").write(0, [Summary("a")])
    written = pq.read_table(tmp_path / "shard-00000000.parquet")
    assert written.select(table.column_names).to_pylist() == table.to_pylist()
    assert written.schema.field("date").type == table.schema.field("date").type


# argilla-io/argilla#5433, huggingface/dataset-viewer#628: an image was an object of Pillow, as which nothing is written
def test_images_of_a_data_set_are_kept(tmp_path):
    pytest.importorskip("PIL")
    features = datasets.Features({"text": datasets.Value("string"), "image": datasets.Image()})
    row = {"text": "A ferry sank.", "image": {"bytes": b"of an image", "path": None}}
    datasets.Dataset.from_list([row], features).to_parquet(tmp_path / "train.parquet")
    rows = datasets.load_dataset(str(tmp_path), split="train")
    Plan(rows, "text", None, "summary", 1, tmp_path, "parquet").write(0, [Summary("a")])
    written = pq.read_table(tmp_path / "shard-00000000.parquet")
    assert written.select(["text", "image"]).to_pylist() == [row]


# apache/arrow#39914: writers of Parquet choose the type of lists
def test_lists_of_any_type_are_several_documents(run, tmp_path):
    rows = [TEXTS, TEXTS[::-1]]
    list_types = (pa.list_(pa.string()), pa.list_(pa.string(), 2), pa.large_list(pa.string()))
    line = ("--text_column", "texts", "--num_beams", "1", "--max_new_tokens", "2", "--format", "jsonl", "--output")
    outputs = []
    for number, list_type in enumerate(list_types):
        pq.write_table(pa.table({"texts": pa.array(rows, list_type)}), tmp_path / f"{number}.parquet")
        _, _, status = run("summarize", f"{number}.parquet", *line, f"{number}.jsonl")
        assert status == 0
        outputs.append((tmp_path / f"{number}.jsonl").read_text())
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.jsonl.gz", "a.parquet"])
def test_a_file_that_cannot_be_read_is_named(run, tmp_path, name):
    content = b'{"document": "a"}\n' * 6 + b'{"document": '
    if name == "a.csv":
        content = b"document,summary\n" + b'"a","b\n' * 3
    elif name == "a.jsonl.gz":
        content = gzip.compress(content)[:-9]
    (tmp_path / name).write_bytes(content)
    _, notes, status = run("summarize", name, "--output", "out")
    assert status == 2
    assert f"{name}: cannot be read: " in notes
    assert notes.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_empty_name_of_a_model_is_told(run, tmp_path):
    (tmp_path / "a.txt").write_text("A ferry sank.")
    _, notes, _ = run("summarize", "a.txt", "--model", "", "--max_new_tokens", "2")
    assert "no --model: using arxiv-tldr" in notes


NULL_BEGINNINGS = ["null", "\n null\n{}", "null {}", "[null, {}]", "[\n  null\n]"]


# apache/arrow#47409: the reader of JSON ends the process
@pytest.mark.parametrize("content", NULL_BEGINNINGS)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.jsonl.gz"])
def test_a_first_row_that_is_null_is_refused(run, tmp_path, content, name):
    data = content.replace("{}", json.dumps(ROW)).encode()
    if name.endswith(".gz"):
        data = gzip.compress(data)
    (tmp_path / name).write_bytes(data)
    _, notes, status = run("data", name)
    assert status == 2
    assert f"{name}: cannot be read: the first row is null" in notes
