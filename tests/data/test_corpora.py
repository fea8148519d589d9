"""Corpora from files and from the Hub: columns, splits, blank rows, the cache."""

import json
import logging
import os
from pathlib import Path

import datasets
import pytest

from hf_summ.data import Corpus, loading
from hf_summ.data.loading import Survey
from tests.data.files import ROWS, json_lines, lines, write, write_csv

# formats


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("jsonl", json_lines(ROWS)),
        ("json", json_lines(ROWS)),
        ("json", json.dumps(ROWS)),
        ("json", "\n " + json.dumps(ROWS, indent=2)),
        ("csv", "document,summary\n" + "".join(f'"{row["document"]}",{row["summary"]}\n' for row in ROWS)),
    ],
)
def test_every_format_gives_the_same_rows(load, tmp_path, kind, content, ending):
    file = write(tmp_path / f"rows.{kind}{ending}", content)
    corpus = load(validation_file=file)
    assert list(corpus) == ["validation"]
    assert corpus["validation"].to_list() == ROWS
    assert corpus["validation"].split == "validation"


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("train.source", "train.target", "train.source"),
        ("train.source.gz", "train.target.gz", "train.source.gz"),
        ("train.source.gz", "train.target", "train.source.gz"),
        ("train.source", "train.target.gz", "train.source"),
        ("documents.txt", "summaries.txt", "documents.txt,{}summaries.txt"),
        ("a.en.gz", "a.de", "a.en.gz, {}a.de"),
    ],
)
def test_line_aligned_pairs(load, tmp_path, source, target, name):
    write(tmp_path / source, lines(row["document"] for row in ROWS))
    # without a line end after the last line
    write(tmp_path / target, "\n".join(row["summary"] for row in ROWS))
    file = str(tmp_path) + os.sep + name.format(str(tmp_path) + os.sep)
    # names of columns are for the other files of a run
    assert load(train_file=file, text_column="article", summary_column="highlights")["train"].to_list() == ROWS


def test_pattern_of_files(load, tmp_path, caplog):
    caplog.set_level("INFO")
    for number in (2, 0, 1):
        row = {"document": f"Ferry {number} sank.", "summary": f"A ferry sank ({number})."}
        (tmp_path / f"train-{number}.jsonl").write_text(json.dumps(row))
    pattern = str(tmp_path / "train-[0-9].jsonl")
    expected = [f"Ferry {number} sank." for number in range(3)]
    assert load(train_file=pattern)["train"]["document"] == expected
    assert f"{pattern}: 3 files, from train-0.jsonl to train-2.jsonl" in caplog.text
    stream = load(train_file=pattern, streaming=True)["train"]
    assert [row["document"] for row in stream] == expected
    (tmp_path / "train-1.jsonl").write_text('{"document": "Ferry 1 sank."}')
    with pytest.raises(ValueError, match=r"train-1\.jsonl, line 1: .*summary"):
        load(train_file=pattern)
    (tmp_path / "train-3.txt").write_text("x")
    with pytest.raises(ValueError, match=r"train-3\.txt: unknown file type"):
        load(train_file=str(tmp_path / "train-*"))


def test_all_splits_at_once(load, tmp_path):
    write(tmp_path / "b.source", "one\n")
    write(tmp_path / "b.target", "1\n")
    corpus = load(
        train_file=write(tmp_path / "a.jsonl", json_lines(ROWS)),
        validation_file=str(tmp_path / "b.source"),
        test_file=write_csv(tmp_path / "c.csv", [{"article": "two", "highlights": "2"}]),
    )
    assert corpus.num_rows == {"train": 4, "validation": 1, "test": 1}
    assert all(split.column_names == ["document", "summary"] for split in corpus.values())


# columns


@pytest.mark.parametrize(
    "names", ["document summary", "article highlights", "text summary", "source target", "dialogue summary"]
)
def test_usual_columns_are_guessed(load, tmp_path, names):
    document, summary = names.split()
    file = write(tmp_path / "rows.jsonl", json_lines([{"id": 7, summary: "s", document: "d"}]))
    assert load(train_file=file)["train"].to_list() == [{"document": "d", "summary": "s", "id": 7}]


def test_named_columns_win_over_those_in_the_way(load, tmp_path):
    row = {"document": "first sentence", "summary": "s", "body": "whole text", "title": "t"}
    file = write(tmp_path / "rows.jsonl", json_lines([row]))
    corpus = load(train_file=file, text_column="body", summary_column="title")
    assert corpus["train"].to_list() == [{"document": "whole text", "summary": "t"}]


def test_other_columns_are_kept_with_their_types(load, tmp_path):
    rows = [
        {"document": "a", "summary": "b", "number": 1, "score": 1, "tags": ["x", "y"], "mixed": 1, "flag": True},
        {"document": "c", "summary": "d", "number": 2, "score": 0.5, "tags": [], "mixed": {"z": "é"}, "late": "here"},
    ]
    loaded = load(train_file=write(tmp_path / "rows.jsonl", json_lines(rows)))["train"]
    first, second = loaded.to_list()
    assert first == {**rows[0], "score": 1.0, "mixed": "1", "late": None}
    assert second == {**rows[1], "mixed": '{"z": "é"}', "flag": None}


def test_csv_fields_are_text(load, tmp_path):
    # csv column without a name
    file = write(tmp_path / "rows.csv", ",document,summary\n0,a,b\n")
    assert load(train_file=file)["train"].to_list() == [{"document": "a", "summary": "b", "": "0"}]
    # csv fields stay strings
    file = write_csv(tmp_path / "rows.csv", [{"document": "NA", "summary": "null", "id": "007"}])
    assert load(train_file=file)["train"].to_list() == [{"document": "NA", "summary": "null", "id": "007"}]
    # csv fields with commas quotes and line ends
    rows = [{"document": 'He said, "no".\nThen left.', "summary": "x,y"}, {"document": "b", "summary": "c"}]
    assert load(train_file=write_csv(tmp_path / "rows.csv", rows))["train"].to_list() == rows


@pytest.mark.parametrize(
    ("ending", "columns", "message"),
    [
        ("jsonl", {"text_column": "documnt"}, r"no column 'documnt'; the columns are document, sumary.*did you mean"),
        ("jsonl", {}, "no summary column.* document, sumary, other.*did you mean sumary"),
        ("csv", {}, "no summary column.* document, sumary, other.*did you mean sumary"),
        (
            "csv",
            {"text_column": "other", "summary_column": "other"},
            "each column must be a different one, but they are docum",
        ),
    ],
)
def test_columns_that_cannot_be_used(load, tmp_path, ending, columns, message):
    rows, path = [{"document": "a", "sumary": "b", "other": "c"}], tmp_path / f"rows.{ending}"
    file = write_csv(path, rows) if ending == "csv" else write(path, json_lines(rows))
    with pytest.raises(ValueError, match=message):
        load(train_file=file, **columns)


def test_row_without_the_column(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines([*ROWS, {"document": "d", "id": 1}]))
    with pytest.raises(ValueError, match=r"rows.jsonl, line 5: no column 'summary'; the columns are document, id"):
        load(train_file=file)


@pytest.mark.parametrize(
    ("value", "hint"), [(["a", "b"], "is list, unlike in other rows"), (7, "must be text, but is int: 7")]
)
def test_document_that_is_not_text(load, tmp_path, value, hint):
    file = write(tmp_path / "rows.jsonl", json_lines([ROWS[0], {"document": value, "summary": "s"}]))
    with pytest.raises(ValueError, match=rf"line 2: 'document' {hint}"):
        load(train_file=file)


# hard texts


HARD_TEXTS = {
    "emoji": "🙂 and 👩‍🚀",
    "nul": "a\x00b",
    "controls": "bell\x07, escape\x1b[0m, tab\t",
    "line separators": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
    "other scripts": "你好 мир שלום",
    "mark": "\ufeffmark",
    "long": "word " * 100_000 + "end",
}


@pytest.mark.parametrize("text", HARD_TEXTS.values(), ids=HARD_TEXTS)
def test_hard_texts_come_through_every_format(load, tmp_path, text):
    rows = [{"document": f"x{text}", "summary": "s"}, {"document": "next", "summary": "t"}]
    write(tmp_path / "c.source", lines(row["document"] for row in rows))
    write(tmp_path / "c.target", "s\nt\n")
    files = [
        write(tmp_path / "a.jsonl", json_lines(rows)),
        write_csv(tmp_path / "b.csv", rows),
        str(tmp_path / "c.source"),
        write(tmp_path / "d.json", json.dumps(rows)),
    ]
    for file in files:
        assert load(train_file=file)["train"].to_list() == rows


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_byte_order_mark_line_ends_and_blank_lines(load, tmp_path, ending):
    first, *others = (json.dumps(row) for row in ROWS)
    spaced = "\ufeff" + ending + ending.join([first, "", "  ", *others]) + ending * 3
    header_and_rows = ["document,summary", *(f"{row['document']},{row['summary']}" for row in ROWS)]
    write(tmp_path / "c.source", "\ufeff" + ending.join(row["document"] for row in ROWS) + ending)
    write(tmp_path / "c.target", ending.join(row["summary"] for row in ROWS) + ending)
    files = [
        write(tmp_path / "a.jsonl", spaced),
        write(tmp_path / "b.csv", "\ufeff" + ending.join(header_and_rows) + ending * 2),
        str(tmp_path / "c.source"),
        write(tmp_path / "d.json", "\ufeff" + json.dumps(ROWS, indent=1).replace("\n", ending)),
    ]
    for file in files:
        assert load(train_file=file)["train"].to_list() == ROWS


def test_characters_that_json_has_in_escapes_alone(load, tmp_path):
    # lone surrogates become replacement characters
    row = r'{"document": "half \ud83d, whole \ud83d\ude42", "summary": "s", "tags": ["\udc00"], "id": {"\ud800": 1}}'
    mixed = r'{"document": "d", "summary": "s", "tags": [], "id": 1}'
    loaded = load(train_file=write(tmp_path / "rows.jsonl", f"{row}\n{mixed}\n"))["train"][0]
    assert loaded == {"document": "half \ufffd, whole 🙂", "summary": "s", "tags": ["\ufffd"], "id": '{"\ufffd": 1}'}


# blank rows


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_blank_rows_are_left_out_with_one_warning(load, tmp_path, caplog, split):
    blanks = [{"document": "d", "summary": blank} for blank in ("", " \n", None, "\u200b\x00", "\u3000")]
    rows = [ROWS[0], *blanks, {"document": "", "summary": "s"}, ROWS[1]]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        loaded = load(**{f"{split}_file": file})[split]
    assert loaded.to_list() == ROWS[:2]
    (record,) = caplog.records
    assert "rows.jsonl: 6 of 8 rows have a blank document or summary and are left out" in record.message
    assert "(line 2, line 3, line 4, line 5, line 6, ...)" in record.message


def test_blank_lines_of_pairs_count_as_rows(load, tmp_path, caplog):
    write(tmp_path / "a.source", "one\ntwo\nthree\n")
    write(tmp_path / "a.target", "1\n\n3\n")
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        loaded = load(train_file=str(tmp_path / "a.source"))["train"]
    assert loaded["summary"][:] == ["1", "3"]
    assert "1 of 3 rows" in caplog.text
    assert "(line 2)" in caplog.text


def test_files_are_checked_again_only_if_they_have_changed(load, tmp_path, caplog, monkeypatch):
    content = "document;summary;n\nthe text;it;1\nanother;;2\n"
    file, check, messages = write(tmp_path / "rows.csv", content), Survey._check, []
    for times in (1, 0):
        checked: list[Survey] = []
        monkeypatch.setattr(Survey, "_check", lambda self, checked=checked: [checked.append(self), check(self)][1])
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="hf_summ"):
            assert load(train_file=file)["train"].to_list() == [{"document": "the text", "summary": "it", "n": "1"}]
        messages.append(caplog.messages)
        assert len(checked) == times
    assert messages[0] == messages[1]
    assert [text.rpartition(": ")[2] for text in messages[0]] == [
        "fields are separated by ';', as in its header",
        "1 of 2 rows have a blank document or summary and are left out (line 3)",
        "documents from 'document', summaries from 'summary'",
    ]
    write(tmp_path / "rows.csv", content + "torn\n")
    with pytest.raises(ValueError, match="line 4: 1 fields, but the header names 3"):
        load(train_file=file)


def test_a_file_needs_a_row_with_a_summary(load, tmp_path):
    # nothing but blank rows
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": "d", "summary": None}] * 3))
    with pytest.raises(ValueError, match=r"rows.jsonl: all 3 rows have a blank document or summary"):
        load(train_file=file)
    # emoji alone is a summary
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": "...", "summary": "🙂"}]))
    assert len(load(train_file=file)["train"]) == 1


# what is named


@pytest.mark.parametrize("data_format", [None, "gigaword", "lcsts", "multi_news", "duc", "newsroom", "cnn_dm"])
@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "a\0b.jsonl", "x" * 300 + ",y", ""])
def test_name_that_no_file_can_have(load, data_format, name):
    with pytest.raises(ValueError, match=r"does not exist|is a folder|has no"):
        load(train_file=name, data_format=data_format)


def test_what_can_be_refused_before_reading_is(tmp_path):
    """Errors that are found without reading a row: these rows could not be read."""
    train = write(tmp_path / "rows.jsonl", "no row")
    for told, message in (
        ({}, r"`dataset_name` and files \(`train_file`, ...\) are both unset"),
        ({"train_file": train, "dataset_name": "org/name"}, "exclude each other"),
        ({"train_file": train, "validation_file": "nowhere.jsonl"}, r"nowhere\.jsonl does not exist"),
        ({"train_file": train, "data_format": "newsrom"}, r"must be one of .*newsroom"),
        ({"train_file": train, "min_score": 3}, "`min_score` is 3, which needs `data_format` 'lcsts'"),
        ({"dataset_name": "org/name", "data_format": "duc"}, "'duc', which is for files, not for org/name"),
    ):
        with pytest.raises(ValueError, match=message):
            Corpus(**told).check()
    Corpus(train_file=train).check()


def test_corpora_are_equal_when_they_are_told_alike():
    told = {"dataset_name": "org/news", "text_column": "a"}
    assert Corpus(**told) == Corpus.among({**told, "seed": 1}) != Corpus(dataset_name="org/news")
    assert Corpus(**told).given() == told
    # corpus may be cut to some of its files
    corpus = Corpus(train_file="a.jsonl", test_file="b.jsonl", summary_column="s").only(["test", "validation"])
    assert corpus == Corpus(test_file="b.jsonl", summary_column="s")
    assert corpus.files == {"test": "b.jsonl"}


# cache


def test_cache_is_used_until_the_file_changes(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines(ROWS))
    first, second = load(train_file=file)["train"], load(train_file=file)["train"]
    assert first.cache_files == second.cache_files != []
    assert first._fingerprint == second._fingerprint
    # of the same length, so that only the time differs
    write(tmp_path / "rows.jsonl", json_lines(reversed(ROWS)))
    assert load(train_file=file)["train"].to_list() == ROWS[::-1]


# corpora by name


def test_corpus_by_name(load, named, caplog):
    rows = [{"id": "1", "article": "a", "highlights": "h"}, {"id": "2", "article": "b", "highlights": "\n"}]
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        corpus = load(dataset_name=named(train=rows, test=rows[:1]))
    assert corpus.num_rows == {"train": 1, "test": 1}
    assert corpus["train"].to_list() == [{"id": "1", "document": "a", "summary": "h"}]
    (record,) = caplog.records
    assert "train: 1 of 2 rows have a blank document or summary" in record.message


def test_corpus_by_name_whose_file_is_damaged(load, named):
    folder = named(train=ROWS)
    file = Path(folder) / "train.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"^{folder}: cannot be loaded: [^\n]+$"):
        load(dataset_name=folder)


def test_corpus_by_name_with_trust_in_code(named, tmp_path):
    corpus = loading.load(Corpus(dataset_name=named(train=ROWS)), str(tmp_path / "cache"), trust_remote_code=True)
    assert len(corpus["train"]) == len(ROWS)


def test_corpus_by_name_with_a_column_in_the_way(load, named):
    name = named(train=[{"document": "short", "body": "long", "summary": "s"}])
    assert load(dataset_name=name, text_column="body")["train"].to_list() == [{"document": "long", "summary": "s"}]


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        ({"id": "1"}, {}, "train: no document column; the columns are id"),
        ({"pages": 7, "summary": "s"}, {"text_column": "pages"}, "train, row 0: 'pages' must be text, but is int: 7"),
        ({"document": " ", "summary": "s"}, {}, "train: all 1 rows have a blank"),
    ],
)
def test_corpus_by_name_that_cannot_be_used(load, named, row, columns, message):
    with pytest.raises(ValueError, match=message):
        load(dataset_name=named(train=[row]), **columns)


def test_corpus_by_name_without_a_usual_split(load, tmp_path):
    folder = tmp_path / "named"
    (folder / "data").mkdir(parents=True)
    datasets.Dataset.from_list(ROWS).to_parquet(folder / "data" / "extra-00000-of-00001.parquet")
    with pytest.raises(ValueError, match=r"has the splits extra, but needs one of train, validation, test"):
        load(dataset_name=str(folder))
