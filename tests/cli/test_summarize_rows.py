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
from hf_summ.extractive.frequencies import DocumentFrequencies
from tests.cli.conftest import start
from tests.conftest import SENTENCES, first, save
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


def read_rows(folder="out") -> list[dict]:
    """The rows that `datasets` reads of a folder, in its order."""
    return list(datasets.load_dataset(str(Path(folder).resolve()), split="train"))


def summaries_of(texts: list[str]) -> list[str]:
    """The summaries that the pipeline of the workplace's model makes."""
    records = pipeline("summarization", model="model")(texts, max_new_tokens=3)
    return [record["summary_text"] for record in records]


def shard_contents() -> dict[str, bytes]:
    """The bytes of each Parquet shard."""
    return {path.name: path.read_bytes() for path in Path("out").glob("*.parquet")}


def shard_times() -> dict[str, int]:
    """The time at which each Parquet shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in Path("out").glob("*.parquet")}


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_rows_are_summarized_in_their_order(run, rows, form):
    flags = ("--rows_per_shard", "4", "--batch_size", "3", "--format", form)
    output, errors = run("summarize", "rows.jsonl", *ROW_FLAGS, *flags)
    assert output == ""
    assert "hf-summ: 11 rows summarized: 3 shards in out" in [line.strip() for line in errors.splitlines()]
    ending = "parquet" if form == "parquet" else "jsonl.gz"
    names = [f"shard-{number:08d}.{ending}" for number in range(3)]
    assert sorted(path.name for path in Path("out").iterdir()) == [".lock", "_summaries.yaml", *names]
    written = read_rows()
    for row, source in zip(written, ROWS, strict=True):
        assert (row["id"], row["text"], row["error"]) == (source["id"], source["text"], "")
    if form == "parquet":
        # a reader of folders leaves out the record
        assert pq.read_table("out").num_rows == len(ROWS)
    # texts of the same length are in the same batch here as there, so that the summaries are equal
    assert [row["summary"] for row in written] == summaries_of([row["text"] for row in ROWS])


@pytest.mark.thorough
def test_samples_of_rows_are_those_of_their_seed(run, rows, refusal):
    flags = ("--do_sample", "--num_beams", "1")

    def sample(folder: str, seed: str) -> list[str]:
        run("summarize", "rows.jsonl", *ROW_FLAGS, "--output", folder, *flags, "--seed", seed)
        return [row["summary"] for row in read_rows(folder)]

    first_sample = sample("a", seed="1")
    assert sample("b", seed="1") == first_sample
    assert sample("c", seed="2") != first_sample
    message = refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--output", "a", *flags, "--seed", "2")
    assert "seed 1, now 2" in message


# arxiv-title runs in ONNX Runtime, and the workplace's model in PyTorch
@pytest.mark.parametrize("model", first(["arxiv-title", "model"]))
def test_samples_do_not_depend_on_what_was_killed(run, workplace, model):
    write(workplace / "rows.jsonl", json_lines([{"text": SENTENCES[0]}] * 3))
    flags = ("--do_sample", "--num_beams", "1", "--seed", "7", "--rows_per_shard", "1", "--temperature", "2")
    command = ("summarize", "rows.jsonl", "--output", "out", "--model", model, "--max_new_tokens", "8", *flags)
    run(*command)
    summaries = [row["summary"] for row in read_rows()]
    # each shard has a seed of its own
    assert len(set(summaries)) == 3
    (Path("out") / "shard-00000002.parquet").unlink()
    run(*command)
    assert [row["summary"] for row in read_rows()] == summaries


# files of rows, and the flags with which they are read
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
    texts = [row["text"] for row in rows]
    summaries = summaries_of(texts)
    written = read_rows()
    assert len(written) == len(rows)
    for number, row in enumerate(written):
        # a field of CSV is a text
        assert row["id"] == (str(number) if name == "rows.csv" else number)
        assert (row["text"], row["short"]) == (texts[number], summaries[number])


@pytest.mark.thorough
def test_rows_are_those_of_the_split_of_a_data_set(run, rows, refusal):
    folder = rows.parent / "corpus"
    folder.mkdir()
    write(folder / "test.jsonl", json_lines(ROWS))
    command = ("summarize", "--dataset_name", str(folder), "--split", "test", *ROW_FLAGS, "--rows_per_shard", "6")
    run(*command)
    assert [row["id"] for row in read_rows()] == list(range(11))
    (Path("out") / "shard-00000000.parquet").unlink()
    _, errors = run(*command)
    assert "6 rows summarized: 2 shards" in errors
    assert [row["id"] for row in read_rows()] == list(range(11))
    write(folder / "test.jsonl", json_lines(ROWS[::-1]))
    assert "has summaries of another run (rows " in refusal(*command)


def test_only_some_columns_and_several_documents_in_a_row(run, workplace):
    rows = [{"id": "a", "parts": [SENTENCES[0], "", SENTENCES[1]], "x": 1}, {"id": "b", "parts": [], "x": 2}]
    write(workplace / "rows.jsonl", json_lines(rows))
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--text_column", "parts", "--columns", "id")
    first, second = read_rows()
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
    written = read_rows()
    assert [row["id"] for row in written] == [0, 1, 2, 3, 4]
    assert [row["text"] for row in written] == [*texts, None]
    assert [row["error"] for row in written] == ["", "'text' is blank", "'text' is blank", "", "'text' is blank"]
    for row in written:
        has_numbers = (row["source_tokens"], row["cut_tokens"]) != (None, None)
        has_summary = row["summary"] is not None
        assert has_numbers == has_summary == (row["error"] == "")
    long_row = written[3]
    assert long_row["cut_tokens"] > 0
    share = 1 - long_row["cut_tokens"] / long_row["source_tokens"]
    assert long_row["note"].startswith(f"the model read {share:.0%} of the document; the summary has the most tokens")
    assert [row["note"] for row in written[1:3]] == ["", ""]
    assert "1 of these rows were too long for the model, which read " in errors


def test_a_row_that_the_model_refuses_does_not_cost_its_batch(run, workplace, tiny_tokenizer):
    bart(tiny_tokenizer).save_pretrained("bart")
    tokenizer = copy.deepcopy(tiny_tokenizer)
    # the model does not know this token
    tokenizer.add_tokens(["☃"])
    tokenizer.save_pretrained("bart")
    texts = [*SENTENCES[:2], "A snowman: ☃", *SENTENCES[2:]]
    write(workplace / "rows.jsonl", json_lines([{"text": text} for text in texts]))
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--model", "bart", "--batch_size", "4")
    written = read_rows()
    assert [row["summary"] is None for row in written] == [text not in SENTENCES for text in texts]
    assert written[2]["error"].startswith("the tokenizer gives the id ")


@pytest.mark.thorough
def test_a_killed_run_goes_on(rows, run):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "2", "--device", "cpu")
    run(*command)
    expected = shard_contents()
    # a run whose processes finished in another order, and that was killed, leaves such a folder
    for number in (0, 2, 5):
        (Path("out") / f"shard-{number:08d}.parquet").unlink()
    times_before = shard_times()
    _, errors = run(*command)
    assert "hf-summ: resuming: 3 of 6 shards exist\n" in errors
    assert "5 rows summarized: 6 shards in out" in errors
    assert shard_contents() == expected
    assert shard_times().items() >= times_before.items()
    _, errors = run(*command)
    assert "nothing is left to do: 6 shards in out" in errors


# a change of the content of a shard of 4 rows, which is None where another shard of 3 rows takes its place
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
    expected = read_rows()
    (shard,) = Path("out").glob("shard-00000001.*")
    (last_shard,) = Path("out").glob("shard-00000002.*")
    if change is None:
        shard.write_bytes(last_shard.read_bytes())
    else:
        shard.write_bytes(change(shard.read_bytes()))
    assert re.search(message, refusal(*command))
    shard.unlink()
    run(*command)
    assert read_rows() == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["shard-x.parquet", "shard-1.parquet", "shard-00000003.parquet"])
def test_another_file_named_like_a_shard_is_refused(rows, run, refusal, name):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--rows_per_shard", "4")
    run(*command)
    os.rename("out/shard-00000000.parquet", f"out/{name}")
    assert refusal(*command).endswith(f"/{name} is not a shard of these summaries: remove it, or name another output")


def test_numbers_that_json_lacks_are_null(workplace, run):
    nan = float("nan")
    columns = {"text": SENTENCES[:2], "x": [nan, 1.5], "more": [[{"a": nan}], [{"a": 2.0}]]}
    pq.write_table(pa.table(columns), "a.parquet")
    run("summarize", "a.parquet", *ROW_FLAGS, "--format", "jsonl")
    assert [(row["x"], row["more"]) for row in read_rows()] == [(None, [{"a": None}]), (1.5, [{"a": 2.0}])]


def test_a_folder_that_cannot_be_written_is_named(rows, refusal):
    Path("out/.lock").mkdir(parents=True)
    message = refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    assert re.search(r"Is a directory: '\S*/out/.lock'", message)
    message = refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--output", "rows.jsonl/out")
    assert re.search(r"Not a directory: '\S*/rows.jsonl/out'", message)


# a signal, the exit status after it, and the number of processes
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
def test_a_full_disk_leaves_no_shard(rows, refusal):
    write(rows, json_lines([{"text": SENTENCES[0], "more": os.urandom(500_000).hex()} for _ in range(4)]))
    # now, because `datasets` writes large files to its cache
    read_files("rows.jsonl")
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard_limit))
    try:
        message = refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft_limit, hard_limit))
    expected = r"\S*/out/shard-00000000.parquet: cannot be written \(.*too large.*\): rerun the command once it can"
    assert re.fullmatch(expected, message)
    assert sorted(path.name for path in Path("out").iterdir()) == [".lock", "_summaries.yaml"]
    assert main(["summarize", "rows.jsonl", *ROW_FLAGS]) == 0
    assert len(read_rows()) == 4


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
    expected = f"^--output .*out: has summaries of another run .*{message}"
    assert re.search(expected, refusal("summarize", "rows.jsonl", *ROW_FLAGS, *changes))


@pytest.mark.thorough
def test_a_run_without_shards_does_not_restrict_the_next(rows, run, refusal):
    config = Path("model/generation_config.json")
    content = config.read_text()
    # this setting is found to be wrong only when the model is called
    change_json(config, repetition_penalty=-1.0)
    message = refusal("summarize", "rows.jsonl", *ROW_FLAGS, "--min_new_words", "1")
    assert message.startswith("none of 11 rows can be summarized: ")
    config.write_text(content)
    run("summarize", "rows.jsonl", *ROW_FLAGS)
    assert len(read_rows()) == len(ROWS)
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
    message = refusal("summarize", "moved.jsonl", *ROW_FLAGS)
    assert "_summaries.yaml: cannot be read (no summaries): remove it" in message
    record.write_text(written)
    write(Path("moved.jsonl"), json_lines(ROWS[1:]))
    assert "; files ['" in refusal("summarize", "moved.jsonl", *ROW_FLAGS)


def test_a_run_does_not_go_on_with_other_document_frequencies(rows, run, refusal):
    command = ("summarize", "rows.jsonl", *ROW_FLAGS, "--extract_share", "0.5", "--extract_idf")
    DocumentFrequencies.fit(SENTENCES, "en").save("a.json")
    run(*command, "a.json")
    os.rename("a.json", "b.json")
    _, errors = run(*command, "b.json")
    assert "nothing is left to do" in errors
    DocumentFrequencies.fit(SENTENCES[:3], "en").save("b.json")
    assert "has summaries of another run (extract_idf " in refusal(*command, "b.json")


def test_two_commands_in_one_folder_are_refused(rows, refusal):
    Path("out").mkdir()
    with FileLock("out/.lock"):
        message = refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    assert message.endswith("out: another command writes there: wait for its end, or end it")


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
def test_a_column_without_texts_ends_before_the_model_is_read_rows(run, refusal, workplace, texts):
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
    assert [row["text"] for row in read_rows()] == SENTENCES[:3]


@pytest.mark.thorough
def test_the_prefix_may_be_another_than_the_checkpoints(run, refusal, rows):
    texts = [f"tldr: {row['text']}" for row in ROWS]
    records = pipeline("summarization", model="model")(texts, max_new_tokens=3, return_details=True)
    # lengths are compared, because a tiny model writes the same summaries without the prefix
    lengths = [record["details"]["source_tokens"] for record in records]
    run("summarize", "rows.jsonl", *ROW_FLAGS, "--source_prefix", "tldr: ")
    assert [row["source_tokens"] for row in read_rows()] == lengths
    assert "source_prefix tldr:, now not set" in refusal("summarize", "rows.jsonl", *ROW_FLAGS)
    Path("a.txt").write_text(ROWS[4]["text"], encoding="utf-8")
    output, _ = run("summarize", "a.txt", *MODEL, "--source_prefix", "tldr: ", "--format", "jsonl", "--details")
    assert json.loads(output)["source_tokens"] == lengths[4]
    output, _ = run("summarize", "a.txt", *MODEL, "--format", "jsonl", "--details")
    assert json.loads(output)["source_tokens"] < lengths[4]


def tagged_words(text: str) -> list[tuple[str, str]]:
    """The words of a text with made-up tags."""
    tags = ("DT", "NN", "VB")
    return [(word, tags[len(word) % 3]) for word in text.split()]


@pytest.mark.thorough
@pytest.mark.parametrize(("architecture", "name"), [(GDLF, "word_tags"), (HIGHLIGHT_TRANSFORMER, "phrases")])
def test_columns_beside_the_text_are_read(architecture, name, run, workplace, tiny_tokenizer):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    texts = [row["text"] for row in ROWS[:6]]
    if name == "phrases":
        values = [{" ".join(text.split()[:2]): 1.0} for text in texts]
    else:
        values = [tagged_words(text) for text in texts]
        processor.tagger = None
    save("model", model, processor)
    # files of CSV have such values as a JSON text; one row has no value, and one a text that is no JSON
    fields = [json.dumps(value) for value in values]
    fields[1:3] = [None, "{"]
    rows = []
    for index, text in enumerate(texts):
        rows.append({"id": index, "text": text, name: fields[index]})
    write(workplace / "rows.jsonl", json_lines(rows))
    _, notes = run("summarize", "rows.jsonl", *ROW_FLAGS)
    assert f"in the column {name}: rename it to leave them out" in notes
    records = read_rows()
    summarizer = pipeline("summarization", model="model", max_new_tokens=3)
    for index in (0, 3, 4, 5):
        (expected,) = summarizer([texts[index]], **{name: [values[index]]})
        assert (records[index]["summary"], records[index]["error"]) == (expected["summary_text"], "")
    assert ("no `tagger`" in records[1]["error"]) == (name == "word_tags")
    assert f"`{name}`" in records[2]["error"]
    assert records[2]["summary"] is None
