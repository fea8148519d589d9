"""Rows that are summarized from Python."""

import csv
import os

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from transformers import GenerationConfig, pipeline

from hf_summ.cli import main
from hf_summ.data.files import read_files
from hf_summ.offline import Outcome, run, summarize_rows
from tests.conftest import first, save
from tests.data.files import change_json, json_lines, write
from tests.offline.conftest import ROWS, rows_of
from tests.training.tiny import bart

SETTINGS = {"max_new_tokens": 2, "num_beams": 2}


@pytest.fixture
def checkpoint(tmp_path, tiny_tokenizer):
    save(tmp_path / "bart", bart(tiny_tokenizer), tiny_tokenizer)
    return tmp_path / "bart"


CASES_OF_WRONG_ARGUMENTS = [
    ({"rows_per_shard": 0}, ValueError, "`rows_per_shard` is 0, but must be at least 1"),
    ({"num_processes": -1}, ValueError, "`num_processes` is -1, but must be at least 1"),
    ({"batch_size": 0.5}, TypeError, "`batch_size` must be an integer, but is float: 0.5"),
    ({"format": "parket"}, ValueError, "`format` is 'parket', but must be one of parquet"),
    ({"num_return_sequences": 2}, ValueError, "`num_return_sequences` is '2', but must be one of 1, None"),
]


@pytest.mark.parametrize(("flags", "error", "message"), CASES_OF_WRONG_ARGUMENTS)
def test_arguments_are_checked_before_files_are_read(tmp_path, flags, error, message):
    with pytest.raises(error, match=message):
        summarize_rows("missing.jsonl", "missing", tmp_path / "out", **flags)


@pytest.mark.parametrize("number", first([1, 2]))
def test_rows_have_the_summaries_of_the_pipeline(checkpoint, tmp_path, number):
    write(tmp_path / "news.jsonl", json_lines(ROWS))
    names = [str(tmp_path / "*.jsonl")]
    flags = {"output": tmp_path / "out", "columns": ["id"], "rows_per_shard": 15}
    outcome = summarize_rows(names, checkpoint, **flags, num_processes=number, device="cpu", **SETTINGS)
    assert (outcome.shards, outcome.rows, outcome.failed) == (3, 40, 0)
    records = pipeline("summarization", model=str(checkpoint))([row["text"] for row in ROWS], **SETTINGS)
    written = rows_of(tmp_path / "out")
    assert [row["id"] for row in written] == [row["id"] for row in ROWS]
    assert [row["summary"] for row in written] == [record["summary_text"] for record in records]
    # the same call has nothing to do, and a call with other settings needs another folder
    assert summarize_rows(names, checkpoint, **flags, **SETTINGS).rows == 0
    with pytest.raises(ValueError, match="has summaries of another run"):
        summarize_rows(names, checkpoint, **flags, **SETTINGS | {"num_beams": 1})


@pytest.mark.parametrize("name", ["out", "rows.jsonl"])
def test_no_column_of_the_input_is_kept(checkpoint, tmp_path, name):
    file = write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    settings = {"rows_per_shard": 2, "device": "cpu", **SETTINGS}
    assert summarize_rows(file, checkpoint, tmp_path / name, columns=[], **settings).rows == 3
    summarize_rows(file, checkpoint, tmp_path / "all", **settings)
    rows = read_files(str(tmp_path / name))
    assert rows.column_names == ["summary", "source_tokens", "cut_tokens", "error", "note"]
    assert rows["summary"][:] == [row["summary"] for row in rows_of(tmp_path / "all")]


# https://github.com/huggingface/tokenizers/issues/1014: a text at which a library in Rust panics, which is no Exception
@pytest.mark.parametrize("number", first([1, 2]))
def test_a_row_at_which_the_tokenizer_panics_has_its_error(checkpoint, tmp_path, number):
    # the text exceeds the retry limit of the library of regular expressions
    normalizer = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    change_json(checkpoint / "tokenizer.json", normalizer=normalizer)
    rows = [ROWS[0], {"id": 1, "text": f"{'a' * 60}! A mayor opened it."}, *ROWS[2:6]]
    file = write(tmp_path / "news.jsonl", json_lines(rows))
    flags = {"rows_per_shard": 3, "num_processes": number, "device": "cpu"}
    outcome = summarize_rows(file, checkpoint, tmp_path / "out", **flags, **SETTINGS)
    assert (outcome.shards, outcome.rows, outcome.failed) == (2, 6, 1)
    written = rows_of(tmp_path / "out")
    assert "retry-limit" in written[1]["error"]
    for row in written:
        assert (row["summary"] is None) == (row["error"] != "") == (row["id"] == 1)


def test_rows_in_another_encoding_do_not_go_on(checkpoint, tmp_path):
    write(tmp_path / "news.jsonl", '{"text": "A café opened."}\n')

    def run(encoding: str | None) -> Outcome:
        names = {"files": tmp_path / "news.jsonl", "model": checkpoint, "output": tmp_path / "out"}
        return summarize_rows(**names, encoding=encoding, device="cpu", **SETTINGS)

    assert run(None).rows == 1
    # the default
    assert run("utf-8").rows == 0
    with pytest.raises(ValueError, match=r"has summaries of another run \(encoding not set, now latin-1\)"):
        run("latin-1")


def test_settings_of_any_type_may_resume(checkpoint, tmp_path):
    write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    flags = {"files": tmp_path / "news.jsonl", "model": checkpoint, "output": tmp_path / "out", "device": "cpu"}
    settings = {"num_beams": np.int64(2), "length_penalty": np.float64(0.5), "eos_token_id": (2, 3)}
    settings["generation_config"] = GenerationConfig(max_new_tokens=2)
    assert summarize_rows(**flags, **settings, rows_per_shard=np.int64(2)).rows == 3
    # the same call, and one with the same values in Python's own types
    assert summarize_rows(**flags, **settings, rows_per_shard=np.int64(2)).rows == 0
    settings |= {"num_beams": 2, "length_penalty": 0.5, "eos_token_id": [2, 3]}
    assert summarize_rows(**flags, **settings, rows_per_shard=2).rows == 0
    with pytest.raises(ValueError, match=r"has summaries of another run \(num_beams 2, now 1\)"):
        summarize_rows(**flags, **settings | {"num_beams": np.int64(1)}, rows_per_shard=2)


def test_bundled_model_is_named_as_on_the_command_line(shipped, tmp_path):
    write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    summarize_rows(tmp_path / "news.jsonl", "arxiv-tldr", tmp_path / "out", **SETTINGS, source_prefix="in: ")
    records = pipeline("summarization", model=shipped)([f"in: {row['text']}" for row in ROWS[:3]], **SETTINGS)
    assert [row["summary"] for row in rows_of(tmp_path / "out")] == [record["summary_text"] for record in records]


def test_a_run_that_ends_while_another_one_begins_is_not_continued(checkpoint, tmp_path, monkeypatch):
    write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    flags = {"files": tmp_path / "news.jsonl", "model": checkpoint, "output": tmp_path / "out", "device": "cpu"}
    locked = run._locked

    def late_lock(plan):
        # another run has begun and ended meanwhile
        monkeypatch.setattr(run, "_locked", locked)
        summarize_rows(**flags, max_new_tokens=2, num_beams=1)
        return locked(plan)

    monkeypatch.setattr(run, "_locked", late_lock)
    with pytest.raises(ValueError, match=r"has summaries of another run \(num_beams 1, now 2\)"):
        summarize_rows(**flags, **SETTINGS)


@pytest.mark.parametrize("is_command", [False, True])
def test_a_file_that_changes_while_it_is_read_is_refused(checkpoint, tmp_path, monkeypatch, capsys, is_command):
    file = write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    load_dataset = datasets.load_dataset

    def slow_load(*names, **settings):
        rows = load_dataset(*names, **settings)
        # a download starts over while the rows are converted
        write(tmp_path / "news.jsonl", json_lines(ROWS[3:6]))
        return rows

    monkeypatch.setattr(datasets, "load_dataset", slow_load)
    if is_command:
        argv = [
            "summarize",
            file,
            "--model",
            str(checkpoint),
            "--output",
            str(tmp_path / "out"),
            "--max_new_tokens",
            "2",
        ]
        assert main(argv) == 2
        message = capsys.readouterr().err
    else:
        with pytest.raises(ValueError, match="news") as error:
            summarize_rows(file, checkpoint, tmp_path / "out", **SETTINGS)
        message = str(error.value)
    assert f"{file}: changed while it was read: rerun the command once the file is complete" in message
    assert not (tmp_path / "out").exists()
    # the rows of the new file are summarized, once it is complete
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert summarize_rows(file, checkpoint, tmp_path / "out", device="cpu", **SETTINGS).rows == 3
    assert [row["id"] for row in rows_of(tmp_path / "out")] == [3, 4, 5]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_an_interrupted_removal_of_shards_leaves_no_run_to_resume(checkpoint, tmp_path, monkeypatch, count):
    file = write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    removed = []
    unlink = os.unlink

    def interrupted_unlink(name, **options):
        # only the removal of a folder's files has options
        if options and len(removed) == count:
            raise KeyboardInterrupt
        unlink(name, **options)
        if options:
            removed.append(name)

    flags = {"rows_per_shard": 2, "device": "cpu", **SETTINGS}
    monkeypatch.setattr(os, "unlink", interrupted_unlink)
    with pytest.raises(KeyboardInterrupt):
        summarize_rows(file, checkpoint, tmp_path / "out.jsonl", **flags)
    monkeypatch.setattr(os, "unlink", unlink)
    first_output = (tmp_path / "out.jsonl").read_bytes()
    # the output is complete, and a finished run is repeated
    assert summarize_rows(file, checkpoint, tmp_path / "out.jsonl", **flags).rows == 3
    assert (tmp_path / "out.jsonl").read_bytes() == first_output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bart", "news.jsonl", "out.jsonl"]


def test_a_message_about_the_hidden_folder_names_the_file(checkpoint, tmp_path):
    write(tmp_path / "news.jsonl", json_lines(ROWS[:3]))
    (tmp_path / ".out.csv.shards").mkdir()
    write(tmp_path / ".out.csv.shards" / "notes.txt", "")
    message = r"^--output \S*/out\.csv: \S*/\.out\.csv\.shards has files, but no _summaries\.yaml: name another output$"
    with pytest.raises(ValueError, match=message):
        summarize_rows(tmp_path / "news.jsonl", checkpoint, tmp_path / "out.csv", **SETTINGS)


def test_cells_of_csv_are_no_formulas(checkpoint, tmp_path):
    texts = ["=1+1", "@SUM(1)", "+1+cmd|' /C calc'!A0", "\t=1", "-2", "+1.5", "-2e+05", "A - B"]
    rows = [{"document": "A text.", "=name": text, "number": -1.5e-05} for text in texts]
    write(tmp_path / "news.jsonl", json_lines(rows))
    summarize_rows(tmp_path / "news.jsonl", checkpoint, tmp_path / "rows.csv", device="cpu", **SETTINGS)
    with open(tmp_path / "rows.csv", encoding="utf-8-sig", newline="") as file:
        cells = list(csv.DictReader(file))
    # the first four could be read as formulas
    expected = [f"'{text}" for text in texts[:4]] + texts[4:]
    assert [row["'=name"] for row in cells] == expected
    assert {row["number"] for row in cells} == {"-1.5e-05"}


# `datasets` stores values of several types as JSON texts.
MIXED_ROWS = [
    {"document": "A text.", "id": 1, "meta": {"year": 2020}, "notes": [0.5, "b"], "more": {"a": [{"b": 1}]}},
    {"document": "A text.", "id": "a7", "meta": {"venue": "ACL"}, "notes": ["c"], "more": {"a": [{"c": "d"}]}},
    {"document": "A text.", "id": None, "meta": None, "notes": [], "more": None},
]


def test_values_of_several_types_in_a_column_are_kept(checkpoint, tmp_path):
    file = write(tmp_path / "news.jsonl", json_lines(MIXED_ROWS))
    written = {}
    for name in ("rows.jsonl", "rows.csv", "rows.parquet"):
        summarize_rows(file, checkpoint, tmp_path / name, device="cpu", **SETTINGS)
        written[name] = read_files(str(tmp_path / name)).select_columns(list(MIXED_ROWS[0])).to_list()
    assert written["rows.jsonl"] == MIXED_ROWS
    assert list(written["rows.csv"][1].values()) == [
        "A text.",
        "a7",
        '{"venue": "ACL"}',
        '["c"]',
        '{"a": [{"c": "d"}]}',
    ]
    # `datasets` recognizes the JSON texts in a Parquet file.
    assert written["rows.parquet"] == MIXED_ROWS
    assert pq.read_table(tmp_path / "rows.parquet")["id"].to_pylist() == ["1", '"a7"', None]
