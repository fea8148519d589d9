"""`hf-summ summarize` for rows of files, on a tiny model, in one process."""

import copy
import json
import os
import re
import resource
import shutil
import signal
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from transformers import pipeline

from hf_summ.cli import main
from hf_summ.data.files import read_files
from tests.cli.conftest import start
from tests.conftest import SENTENCES, save
from tests.data.files import change_json, json_lines, write
from tests.models.architectures import GDLF, HIGHLIGHT_TRANSFORMER, build_with_processor
from tests.training.tiny import bart

MODEL = ("--model", "model", "--max_new_tokens", "3")
ROWS = [{"id": index, "text": " ".join(SENTENCES[: index % 5 + 1])} for index in range(11)]
ROW_FLAGS = ("--output", "out", *MODEL)


@pytest.fixture
def rows(workplace) -> Path:
    """Eleven rows in `rows.jsonl`."""
    write(workplace / "rows.jsonl", json_lines(ROWS))
    return workplace / "rows.jsonl"


def loaded(folder="out") -> list[dict]:
    """What `datasets` reads of a folder, in its order."""
    return list(datasets.load_dataset(str(Path(folder).resolve()), split="train"))


def summaries_of(texts: list[str]) -> list[str]:
    return [record["summary_text"] for record in pipeline("summarization", model="model")(texts, max_new_tokens=3)]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_rows_are_summarized_in_their_order(run, rows, form):
    output, errors = run(
        "summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "4", "--batch_size", "3", "--format", form
    )
    assert output == ""
    assert "hf-summ: 11 rows summarized: 3 shards in out" in map(str.strip, errors.splitlines())
    ending = "parquet" if form == "parquet" else "jsonl.gz"
    names = [f"shard-{number:08d}.{ending}" for number in range(3)]
    assert sorted(path.name for path in Path("out").iterdir()) == [".lock", "_summaries.yaml", *names]
    found = loaded()
    assert [(row["id"], row["text"], row["error"]) for row in found] == [(row["id"], row["text"], "") for row in ROWS]
    if form == "parquet":
        # a reader of folders leaves out the record
        assert pq.read_table("out").num_rows == len(ROWS)
    # of the same length they are the same batch, so that they are equal
    assert [row["summary"] for row in found] == summaries_of([row["text"] for row in ROWS])


@pytest.mark.thorough
def test_samples_of_rows_are_those_of_their_seed(run, rows, refusal):
    flags = ("--do_sample", "--num_beams", "1")
    found = []
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run("summarize", "rows.jsonl", *ROW_FLAGS, "--output", folder, *flags, "--seed", seed)
        found.append([row["summary"] for row in loaded(folder)])
    assert found[0] == found[1] != found[2]
    assert "seed 1, now 2" in refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--output", "a", *flags, "--seed", "2")


CASES_OF_FILES = [
    ("*.jsonl.gz", ()),
    ("rows.json", ()),
    ("rows.csv", ("--csv_separator", ";", "--encoding", "latin-1")),
    ("rows.parquet", ()),
    ("rows.arrow", ()),
    ("saved", ()),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "flags"), CASES_OF_FILES)
def test_files_of_all_kinds(run, workplace, name, flags):
    rows = [{**row, "text": f"{row['text']} Café; closed."} for row in ROWS]
    table = pa.Table.from_pylist(rows)
    if name == "*.jsonl.gz":
        write(workplace / "a.jsonl.gz", json_lines(rows[:3]))
        write(workplace / "b.jsonl.gz", json_lines(rows[3:]))
    elif name == "rows.json":
        write(workplace / name, json.dumps(rows))
    elif name == "rows.csv":
        content = "".join(f'{row["id"]};"{row["text"]}"\n' for row in rows)
        write(workplace / name, f"id;text\n{content}".encode("latin-1"))
    elif name == "rows.parquet":
        pq.write_table(table, name)
    elif name == "rows.arrow":
        with pa.OSFile(name, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    else:
        datasets.Dataset.from_list(rows).save_to_disk(name)
    _, notes = run("summarize", name, *flags, *ROW_FLAGS, "--output_column", "short")
    assert "documents from 'text'" in notes
    # a field of CSV is a text
    ids = [str(row["id"]) if name == "rows.csv" else row["id"] for row in rows]
    texts = [row["text"] for row in rows]
    written = [(row["id"], row["text"], row["short"]) for row in loaded()]
    assert written == list(zip(ids, texts, summaries_of(texts), strict=True))


@pytest.mark.thorough
def test_split_of_a_data_set(run, rows, refusal):
    folder = rows.parent / "corpus"
    folder.mkdir()
    write(folder / "test.jsonl", json_lines(ROWS))
    command = ("summarize", "--dataset_name", str(folder), "--split", "test", *ROW_FLAGS, "--rows_per_shard", "6")
    run(*command)
    assert [row["id"] for row in loaded()] == list(range(11))
    (Path("out") / "shard-00000000.parquet").unlink()
    _, errors = run(*command)
    assert "6 rows summarized: 2 shards" in errors
    assert [row["id"] for row in loaded()] == list(range(11))
    write(folder / "test.jsonl", json_lines(ROWS[::-1]))
    assert "has summaries of another run (rows " in refusal(*command)


def test_only_some_columns_and_several_documents_in_a_row(run, workplace):
    rows = [{"id": "a", "parts": [SENTENCES[0], "", SENTENCES[1]], "x": 1}, {"id": "b", "parts": [], "x": 2}]
    write(workplace / "rows.jsonl", json_lines(rows))
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--text_column", "parts", "--columns", "id")
    first, second = loaded()
    assert list(first) == ["id", "summary", "source_tokens", "cut_tokens", "error", "note"]
    assert [first["summary"]] == summaries_of([SENTENCES[:2]])
    assert (second["summary"], second["error"]) == (None, "'parts' is blank")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_row_without_a_text_does_not_cost_the_others(run, workplace, form):
    texts = [SENTENCES[0], None, " \t", SENTENCES[1] * 2000]
    rows = [{"id": index, "text": text} for index, text in enumerate(texts)]
    write(workplace / "rows.jsonl", json_lines([*rows, {"id": 4}]))
    _, errors = run("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "2", "--format", form)
    assert "hf-summ: 3 of these rows have no summary: see their column 'error'" in errors
    written = loaded()
    assert [(row["id"], row["text"]) for row in written] == list(enumerate([*texts, None]))
    assert [row["error"] for row in written] == ["", "'text' is blank", "'text' is blank", "", "'text' is blank"]
    for row in written:
        numbers = (row["source_tokens"], row["cut_tokens"])
        assert (numbers == (None, None)) == (row["summary"] is None) == bool(row["error"])
    assert written[3]["cut_tokens"] > 0
    share = 1 - written[3]["cut_tokens"] / written[3]["source_tokens"]
    assert written[3]["note"].startswith(f"the model read {share:.0%} of the document; the summary has the most tokens")
    assert [row["note"] for row in written[1:3]] == ["", ""]
    assert "1 of them were too long for the model, which read " in errors


def test_row_that_the_model_refuses_does_not_cost_its_batch(run, workplace, tiny_tokenizer):
    bart(tiny_tokenizer).save_pretrained("bart")
    tokenizer = copy.deepcopy(tiny_tokenizer)
    # a token that the model does not know
    tokenizer.add_tokens(["☃"])
    tokenizer.save_pretrained("bart")
    texts = [*SENTENCES[:2], "A snowman: ☃", *SENTENCES[2:]]
    write(workplace / "rows.jsonl", json_lines([{"text": text} for text in texts]))
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--model", "bart", "--batch_size", "4")
    found = loaded()
    assert [row["summary"] is None for row in found] == [text not in SENTENCES for text in texts]
    assert found[2]["error"].startswith("the tokenizer gives the id ")


@pytest.mark.thorough
def test_killed_run_goes_on(rows, run):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "2", "--device", "cpu")
    run(*command)
    expected = {path.name: path.read_bytes() for path in Path("out").glob("*.parquet")}
    # as after a run whose processes finished in another order, and that was killed
    for number in (0, 2, 5):
        (Path("out") / f"shard-{number:08d}.parquet").unlink()
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("*.parquet")}
    _, errors = run(*command)
    assert "hf-summ: resuming: 3 of 6 shards exist\n" in errors
    assert "5 rows summarized: 6 shards in out" in errors
    assert {path.name: path.read_bytes() for path in Path("out").glob("*.parquet")} == expected
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "nothing is left to do: 6 shards in out" in run(*command)[1]


CASES_OF_CHANGED_SHARDS = [
    (lambda content: content[:-20], r"shard-00000001\.\S+: not a complete file \(.*\): remove it, and rerun"),
    (lambda content: b"", r"shard-00000001\.\S+: "),
    (None, r"shard-00000001\.\S+: has 3 rows, but was written with 4: remove it, and rerun the command to write"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize(("change", "message"), CASES_OF_CHANGED_SHARDS)
def test_shard_that_is_not_as_it_was_written_is_not_taken_for_done(rows, run, refusal, form, change, message):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "4", "--format", form)
    run(*command)
    expected = loaded()
    shard, last = (next(Path("out").glob(f"shard-0000000{number}.*")) for number in (1, 2))
    shard.write_bytes(last.read_bytes() if change is None else change(shard.read_bytes()))
    assert re.search(message, refusal(*command))
    shard.unlink()
    run(*command)
    assert loaded() == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["shard-x.parquet", "shard-1.parquet", "shard-00000003.parquet"])
def test_other_file_named_like_a_shard(rows, run, refusal, name):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "4")
    run(*command)
    os.rename("out/shard-00000000.parquet", f"out/{name}")
    assert refusal(*command).endswith(f"/{name} is not a shard of these summaries: remove it, or name another folder")


def test_numbers_that_json_lacks(workplace, run):
    nan = float("nan")
    pq.write_table(
        pa.table({"text": SENTENCES[:2], "x": [nan, 1.5], "more": [[{"a": nan}], [{"a": 2.0}]]}), "a.parquet"
    )
    run("summarize", "a.parquet", *ROW_FLAGS, "--format", "jsonl")
    assert [(row["x"], row["more"]) for row in loaded()] == [(None, [{"a": None}]), (1.5, [{"a": 2.0}])]


def test_folder_that_cannot_be_written(rows, refusal):
    Path("out/.lock").mkdir(parents=True)
    said = refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    assert re.search(r"Is a directory: '\S*/out/.lock'", said)
    said = refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--output", "rows.jsonl/out")
    assert re.search(r"Not a directory: '\S*/rows.jsonl/out'", said)


CASES_OF_SIGNALS = [(signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 2)]


@pytest.mark.thorough
@pytest.mark.parametrize(("sent", "status", "number"), CASES_OF_SIGNALS)
def test_a_stopped_run_says_how_to_go_on(rows, run, sent, status, number):
    write(rows, json_lines(ROWS * 2000))
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "5", "--num_processes", str(number))
    process = start(*command, cwd=rows.parent)
    while not list(Path("out").glob("shard-*")):
        assert process.poll() is None, process.stderr.read()
    process.send_signal(sent)
    output, errors = process.communicate()
    assert (process.returncode, output) == (status, "")
    if sent == signal.SIGINT:
        assert errors.splitlines()[-1] == "hf-summ: interrupted: rerun the command to resume in out"
    assert "Traceback" not in errors


@pytest.mark.thorough
def test_full_disk(rows, refusal):
    write(rows, json_lines([{"text": SENTENCES[0], "more": os.urandom(500_000).hex()} for _ in range(4)]))
    # into the cache of `datasets`, whose files are larger too
    read_files("rows.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    try:
        said = refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert re.fullmatch(
        r"\S*/out/shard-00000000.parquet: cannot be written \(.*too large.*\): rerun the command once it can", said
    )
    assert sorted(path.name for path in Path("out").iterdir()) == [".lock", "_summaries.yaml"]
    assert main(["summarize", "rows.jsonl", *ROW_FLAGS]) == 0
    assert len(loaded()) == 4


CASES_OF_CHANGED_SETTINGS = [
    (("--num_beams", "2"), "num_beams not set, now 2"),
    (("--format", "jsonl"), "format parquet, now jsonl"),
    (("--model", "other"), "model model, now other"),
    (("--int8",), "int8 False, now True"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("changes", "message"), CASES_OF_CHANGED_SETTINGS)
def test_other_settings_do_not_go_on(rows, run, refusal, changes, message):
    shutil.copytree("model", "other")
    run("summarize", "rows.jsonl", *ROW_FLAGS)
    assert re.search(
        f"^--output .*out: has summaries of another run .*{message}",
        refusal("summarize", "rows.jsonl", *ROW_FLAGS, *changes),
    )


@pytest.mark.thorough
def test_a_run_without_shards_restricts_no_other(rows, run, refusal):
    config = Path("model/generation_config.json")
    content = config.read_text()
    # found to be wrong when the model is called
    change_json(config, repetition_penalty=-1.0)
    message = refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--min_new_words", "1")
    assert message.startswith("none of 11 rows can be summarized: ")
    config.write_text(content)
    run("summarize", "rows.jsonl", *ROW_FLAGS)
    assert len(loaded()) == len(ROWS)
    assert "min_new_words" not in Path("out/_summaries.yaml").read_text()


def test_other_rows_or_weights_do_not_go_on(rows, run, refusal):
    run("summarize", "rows.jsonl", *ROW_FLAGS)
    os.rename("rows.jsonl", "moved.jsonl")
    run("summarize", "moved.jsonl", *ROW_FLAGS)
    written = Path("out/_summaries.yaml").read_text()
    change_json(Path("model/generation_config.json"), num_beams=2)
    assert "has summaries of another run (content " in refusal("summarize", "moved.jsonl", *ROW_FLAGS)
    record = Path("out/_summaries.yaml")
    record.write_text("summaries:\n")
    assert "_summaries.yaml: cannot be read (no summaries): remove it" in refusal(
        "summarize", "moved.jsonl", *ROW_FLAGS
    )
    record.write_text(written)
    write(Path("moved.jsonl"), json_lines(ROWS[1:]))
    assert "; files ['" in refusal("summarize", "moved.jsonl", *ROW_FLAGS)


def test_two_commands_in_one_folder(rows, refusal):
    Path("out").mkdir()
    with FileLock("out/.lock"):
        assert refusal("summarize", "rows.jsonl", *ROW_FLAGS).endswith(
            "out: another command writes there: wait for its end, or end it"
        )


CASES_OF_REFUSED_ROWS = [
    (["--rows_per_shard", "0"], "--rows_per_shard 0: must be at least 1"),
    (["--text_column", "txet"], "rows.jsonl: no column 'txet'; the columns are id, text"),
    (["--text_column", "id"], "rows.jsonl, row 1: column 'id' has int .0., but must have a text"),
    (["--encoding", "ascii7"], "rows.jsonl: cannot be read: unknown encoding: ascii7"),
    (["--columns", "id", "summary"], "--columns summary: the columns are id, text"),
    (["--output_column", "error"], "--output_column error: the output would have two columns 'error': name another"),
    (["--output", "a.arrow"], "--output a.arrow: must be a .parquet, .jsonl, .jsonl.gz, .csv file, or a folder"),
    (["--together"], "--together: has no effect on rows: omit it"),
    (["--format", "text"], "--format text: for rows, it must be one of parquet, jsonl"),
    (["--split", "test"], "--split test: needs --dataset_name"),
    (["--ray_address", "auto"], "--ray_address auto: needs --engine ray"),
    (["--dataset_name", "x"], "rows are those of files or of --dataset_name: give one of them"),
    (["--output", "model/model.safetensors"], "File exists: .*model.safetensors"),
    (["--output", "model"], "--output .*model: has files, but no _summaries.yaml: name a new or empty folder"),
    (["--model", "nowhere"], "--model nowhere: cannot be loaded: "),
    (["--phrase", "bridge"], "--phrase: .*model does not read key phrases"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_ROWS)
def test_what_cannot_work_is_told(rows, refusal, argv, message):
    assert re.search(message, refusal("summarize", "rows.jsonl", *ROW_FLAGS, *argv))


@pytest.mark.parametrize("texts", [[None, None], ["", " \t"], [[], [""]]])
def test_a_column_without_texts_ends_before_the_model_is_loaded(run, refusal, workplace, texts):
    write(workplace / "a.jsonl", json_lines([{"text": text, "id": 1} for text in texts]))
    message = refusal("summarize", "a.jsonl", *ROW_FLAGS, "--model", "nowhere")
    assert message == "a.jsonl: column 'text' holds no text: name another with --text_column"
    assert not Path("out").exists()


@pytest.mark.parametrize("flags", [("--num_processes", "2"), ("--columns", "id"), ("--engine", "ray")])
def test_flags_of_rows_need_rows(workplace, refusal, flags):
    write(workplace / "a.txt", SENTENCES[0])
    message = f"{flags[0]}: needs files of rows, such as .jsonl or .csv, or --dataset_name"
    assert refusal("summarize", "a.txt", *MODEL, *flags) == message
    message = "--format parquet: is for rows, not for text files"
    assert refusal("summarize", "a.txt", *MODEL, "--format", "parquet") == message


def test_rows_are_not_read_as_one_text(rows, refusal):
    assert refusal("summarize", "rows.jsonl", *MODEL).startswith("--output: rows need a folder, or one .parquet, ")
    assert refusal("summarize", "nowhere.parquet", *ROW_FLAGS) == "nowhere.parquet does not exist"
    write(rows.parent / "a.txt", SENTENCES[0])
    message = "rows.jsonl is a file of rows, and others are not: summarize them by two commands"
    assert refusal("summarize", "a.txt", "rows.jsonl", *ROW_FLAGS) == message


def test_lines_of_a_text_file_are_rows_of_its_column(run, workplace):
    write(workplace / "a.txt", "".join(f"{sentence}\n" for sentence in SENTENCES[:3]))
    run("summarize", "a.txt", "--text_column", "text", *ROW_FLAGS)
    assert [row["text"] for row in loaded()] == SENTENCES[:3]


@pytest.mark.thorough
def test_another_prefix_than_the_checkpoints(run, refusal, rows):
    texts = [f"tldr: {row['text']}" for row in ROWS]
    records = pipeline("summarization", model="model")(texts, max_new_tokens=3, return_details=True)
    # a tiny model writes the same without it
    lengths = [record["details"]["source_tokens"] for record in records]
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--source_prefix", "tldr: ")
    assert [row["source_tokens"] for row in loaded()] == lengths
    assert "source_prefix tldr:, now not set" in refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    Path("a.txt").write_text(ROWS[4]["text"], encoding="utf-8")
    output, _ = run("summarize", "a.txt", *MODEL, "--source_prefix", "tldr: ", "--format", "jsonl", "--details")
    assert json.loads(output)["source_tokens"] == lengths[4]
    assert (
        json.loads(run("summarize", "a.txt", *MODEL, "--format", "jsonl", "--details")[0])["source_tokens"] < lengths[4]
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("architecture", "name"), [(GDLF, "word_tags"), (HIGHLIGHT_TRANSFORMER, "phrases")])
def test_columns_beside_the_text_are_read(architecture, name, run, workplace, tiny_tokenizer):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    texts = [row["text"] for row in ROWS[:6]]
    words = [text.split() for text in texts]
    given = [[(word, ("DT", "NN", "VB")[len(word) % 3]) for word in text] for text in words]
    if name == "phrases":
        given = [{" ".join(text[:2]): 1.0} for text in words]
    else:
        processor.tagger = None
    save("model", model, processor)
    # a JSON text, as CSV has it; one row has none, and one no phrases or tags that fit
    column = [json.dumps(value) for value in given]
    column[1:3] = [None, "{"]
    rows = [{"id": i, "text": text, name: value} for i, (text, value) in enumerate(zip(texts, column, strict=True))]
    write(workplace / "rows.jsonl", json_lines(rows))
    _, notes = run("summarize", "rows.jsonl", *ROW_FLAGS)
    assert f"in the column {name}: rename it to leave them out" in notes
    records = loaded()
    summarizer = pipeline("summarization", model="model", max_new_tokens=3)
    for index in (0, 3, 4, 5):
        (wanted,) = summarizer([texts[index]], **{name: [given[index]]})
        assert (records[index]["summary"], records[index]["error"]) == (wanted["summary_text"], "")
    assert ("no `tagger`" in records[1]["error"]) == (name == "word_tags")
    assert f"`{name}`" in records[2]["error"]
    assert records[2]["summary"] is None
