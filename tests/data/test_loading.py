"""Corpora from files and from the Hub: columns, several documents and references, blank rows, the cache."""

import json
import logging

import datasets
import pytest

from hf_summ.data import Corpus
from hf_summ.data.columns import DOCUMENT_COLUMNS, SUMMARY_COLUMNS, reference_texts
from hf_summ.data.sentences import split_sentences
from tests.data.files import ROWS, json_lines, write, write_csv

WAYS = pytest.mark.parametrize("way", ["jsonl", "name"])


@pytest.fixture
def load_rows(load, named, tmp_path):
    """Loads rows from a file, or by name."""

    def load_in(way, rows, **settings):
        if way == "name":
            return load(dataset_name=named(train=rows), **settings)["train"].to_list()
        file = write(tmp_path / "rows.jsonl", json_lines(rows))
        return load(train_file=file, **settings)["train"].to_list()

    return load_in


def test_all_splits_at_once(load, tmp_path):
    corpus = load(
        train_file=write(tmp_path / "a.jsonl", json_lines(ROWS)),
        validation_file=write(tmp_path / "b.json", json.dumps(ROWS[:1])),
        test_file=write_csv(tmp_path / "c.csv", [{"article": "two", "highlights": "2"}]),
    )
    assert corpus.num_rows == {"train": 4, "validation": 1, "test": 1}
    assert all(set(split.column_names) == {"document", "summary"} for split in corpus.values())


# columns


CASES_OF_USUAL_COLUMNS = [("article", "highlights"), ("text", "summary"), ("source", "target"), ("Body", "TITLE")]


@WAYS
@pytest.mark.parametrize(("document", "summary"), CASES_OF_USUAL_COLUMNS)
def test_the_first_usual_columns_are_chosen(load_rows, caplog, way, document, summary):
    with caplog.at_level(logging.INFO, logger="hf_summ"):
        rows = load_rows(way, [{"id": 7, summary: "s", document: "d"}])
    assert rows == [{"document": "d", "summary": "s", "id": 7}]
    assert f"documents from '{document}', summaries from '{summary}'" in caplog.text


def test_an_abstract_is_a_document_only_without_another():
    assert "abstract" in DOCUMENT_COLUMNS
    assert "abstract" in SUMMARY_COLUMNS


@WAYS
def test_named_columns_are_chosen_before_usual_ones(load_rows, way):
    row = {"document": "first sentence", "summary": "s", "body": "whole text", "title": "t", "x": 1}
    rows = load_rows(way, [row], text_column="body", summary_column="title")
    assert rows == [{"document": "whole text", "summary": "t", "x": 1}]


def test_other_columns_keep_their_types(load, tmp_path):
    rows = [{**ROWS[0], "number": 1, "tags": ["x"]}, {**ROWS[1], "number": 2, "tags": []}]
    loaded = load(train_file=write(tmp_path / "rows.jsonl", json_lines(rows)))["train"]
    assert loaded.to_list() == rows


CASES_OF_UNUSABLE_COLUMNS = [
    ({"text_column": "documnt"}, "no column 'documnt'; the columns are document, sumary, other"),
    ({}, "no summary column; the columns are sumary, other: name one with `summary_column`"),
    ({"text_column": "other", "summary_column": "other"}, "'other' cannot be the column of documents and of summ"),
]


@pytest.mark.parametrize(("columns", "message"), CASES_OF_UNUSABLE_COLUMNS)
def test_columns_that_cannot_be_used(load, tmp_path, columns, message):
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": "a", "sumary": "b", "other": "c"}]))
    with pytest.raises(ValueError, match=f"rows.jsonl: {message}"):
        load(train_file=file, **columns)


def test_a_header_with_another_separator_is_named(load, tmp_path):
    for separator in (";", "\t"):
        file = write(tmp_path / "rows.csv", f"document{separator}summary\na{separator}b\n")
        with pytest.raises(ValueError, match=r"rows\.csv: a single column.*`csv_separator`"):
            load(train_file=file)
        assert load(train_file=file, csv_separator=separator)["train"].to_list() == [{"document": "a", "summary": "b"}]


CASES_OF_COLUMNS_WITHOUT_TEXTS = [
    ([{"document": 5, "summary": "a"}], r"row 1: column 'document' has int \(5\)"),
    ([ROWS[0], {"document": ["a"], "summary": "s"}], r"row 2: column 'document' has list \(\['a'\]\)"),
    ([{"document": {"a": 1}, "summary": "s"}], r"row 1: column 'document' has dict"),
    ([{"document": "d", "references": [1, 2]}], r"row 1: column 'references' has list \(\[1, 2\]\)"),
]


@pytest.mark.parametrize(("rows", "message"), CASES_OF_COLUMNS_WITHOUT_TEXTS)
def test_columns_without_texts(load, tmp_path, rows, message):
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    with pytest.raises(ValueError, match=f"rows.jsonl, {message}"):
        load(train_file=file)


def test_json_in_another_encoding_is_named(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines([*ROWS, {"document": "öl", "summary": "s"}]).encode("latin-1"))
    with pytest.raises(ValueError, match=r"rows\.jsonl.*utf-8"):
        load(train_file=file)
    assert load(train_file=file, encoding="latin-1")["train"][4]["document"] == "öl"


@pytest.mark.parametrize("written", ["['One.', 'Two.']", '["One.", "Two."]'])
def test_lists_that_are_written_as_text_are_no_texts(load, tmp_path, written):
    file = write_csv(tmp_path / "rows.csv", [{"document": written, "summary": "s"}] * 2)
    with pytest.raises(ValueError, match=r"'document' has lists that are written as text: store .* JSON Lines or Parq"):
        load(train_file=file)


# several documents and references


CLUSTERS = [
    {"documents": ["A flood. It rose.", "It rained."], "summary": "Water.", "id": 1},
    {"documents": ["One story."], "summary": "A story.", "id": 2},
]
JOINED = [{**row, "document": "\n\n".join(row["documents"])} for row in CLUSTERS]


@WAYS
@pytest.mark.parametrize("name", ["documents", "article"])
def test_a_list_is_several_documents(load_rows, way, name):
    rows = [{name: row["documents"], "summary": row["summary"], "id": row["id"]} for row in CLUSTERS]
    assert load_rows(way, rows) == JOINED


def test_sentences_of_joined_documents_are_those_of_each(load_rows):
    for row in load_rows("jsonl", CLUSTERS):
        sentences = []
        for document in row["documents"]:
            sentences.extend(split_sentences(document))
        assert split_sentences(row["document"]) == sentences


@WAYS
def test_a_text_called_document_comes_before_documents(load_rows, way):
    rows = [{"document": "d", "documents": ["x", "y"], "summary": "s"}]
    # a model would read the list otherwise
    assert load_rows(way, rows) == [{"document": "d", "summary": "s"}]


@WAYS
def test_blank_documents_are_left_out(load_rows, way, caplog):
    rows = [
        {"documents": ["one", " \n", None, "two"], "summary": "s"},
        {"documents": [""], "summary": "s"},
        {"documents": [], "summary": "s"},
        {"documents": None, "summary": "s"},
    ]
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        assert load_rows(way, rows) == [{"document": "one\n\ntwo", "documents": ["one", "two"], "summary": "s"}]
    (record,) = caplog.records
    assert "3 of 4 rows have a blank document or summary" in record.message


@WAYS
@pytest.mark.parametrize("name", ["references", "highlights"])
def test_a_list_is_several_references(load_rows, way, name):
    rows = [{"document": "d", name: ["first", "second"]}, {"document": "e", name: ["", "only"]}]
    assert load_rows(way, rows) == [
        {"document": "d", "summary": "first", "references": ["first", "second"]},
        {"document": "e", "summary": "only", "references": ["only"]},
    ]


def test_references_beside_a_summary_are_for_scoring(load, tmp_path, caplog):
    rows = [{"document": "d", "summary": "s", "references": ["s", "t"]}, {**ROWS[0], "references": None}]
    with caplog.at_level(logging.INFO, logger="hf_summ"):
        loaded = load(test_file=write(tmp_path / "rows.jsonl", json_lines(rows)))["test"]
    assert "references for scoring from 'references'" in caplog.text
    assert loaded["summary"] == ["s", ROWS[0]["summary"]]
    assert reference_texts(loaded) == [["s", "t"], [ROWS[0]["summary"]]]


# blank rows


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_blank_rows_are_left_out_with_one_warning(load, tmp_path, caplog, split):
    blanks = [{"document": "d", "summary": blank} for blank in ("", " \n", None, "\u3000")]
    rows = [ROWS[0], *blanks, {"document": "", "summary": "s"}, ROWS[1]]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        loaded = load(**{f"{split}_file": file})[split]
    assert loaded.to_list() == ROWS[:2]
    (record,) = caplog.records
    assert record.message.endswith("rows.jsonl: 5 of 7 rows have a blank document or summary and are left out")


def test_a_file_needs_a_row_with_a_summary(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": "d", "summary": None}] * 3))
    with pytest.raises(ValueError, match=r"rows\.jsonl: none of the 3 rows has a document and a summary"):
        load(train_file=file)


# streams and names


def test_training_rows_may_be_a_stream(load, named, tmp_path):
    rows = [*ROWS, {"document": "", "summary": "s"}]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    loaded = load(train_file=file, test_file=file, streaming=True)
    assert isinstance(loaded["train"], datasets.IterableDataset)
    assert list(loaded["train"]) == loaded["test"].to_list() == ROWS
    by_name = load(dataset_name=named(train=CLUSTERS, validation=CLUSTERS), streaming=True)
    assert list(by_name["train"]) == by_name["validation"].to_list() == JOINED


CASES_OF_ROWS_WITH_LISTS = [
    ({"documents": ["x", "y"], "summary": "s"}, {"document": "x\n\ny"}, [" ", None]),
    ({"document": "d", "summary": ["s", "t"]}, {"summary": "s", "references": ["s", "t"]}, [[" "], [], None]),
]


@pytest.mark.parametrize(("row", "made", "blanks"), CASES_OF_ROWS_WITH_LISTS)
def test_blank_rows_are_left_out_of_a_stream_with_lists(load, tmp_path, row, made, blanks):
    rows = [row, *[{**row, "summary": blank} for blank in blanks]]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    stream = load(train_file=file, streaming=True)["train"]
    assert list(stream) == [{**row, **made}]
    assert set(stream.column_names) == {*row, *made}


def test_splits_may_have_other_names(load, tmp_path):
    rows = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict(train=rows, dev=rows).save_to_disk(tmp_path / "usual")
    assert set(load(dataset_name=str(tmp_path / "usual"))) == {"train", "validation"}
    datasets.DatasetDict(other=rows).save_to_disk(tmp_path / "other")
    with pytest.raises(ValueError, match="has the splits other, but needs one of train, validation, test"):
        load(dataset_name=str(tmp_path / "other"))


def test_a_saved_data_set_is_loaded_by_its_folder(load, tmp_path):
    datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS)).save_to_disk(tmp_path / "saved")
    assert load(dataset_name=str(tmp_path / "saved"))["train"].to_list() == ROWS
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "split")
    assert load(dataset_name=str(tmp_path / "split"))["train"].to_list() == ROWS


# checks before reading, and the cache


def test_errors_that_are_raised_before_a_row_is_read(tmp_path):
    train = write(tmp_path / "rows.jsonl", "no row")
    for settings, message in (
        ({}, r"`dataset_name` and files \(`train_file`, ...\) are both unset"),
        ({"train_file": train, "dataset_name": "org/name"}, "exclude each other"),
        ({"train_file": train, "validation_file": "nowhere.jsonl"}, r"nowhere\.jsonl does not exist"),
        ({"train_file": train, "data_format": "newsrom"}, "must be one of gigaword, .*newsroom"),
        ({"train_file": train, "min_score": 3}, "`min_score` is 3, which needs `data_format` 'lcsts'"),
        ({"dataset_name": "org/name", "data_format": "duc"}, "'duc', which is for files, not for org/name"),
    ):
        with pytest.raises(ValueError, match=message):
            Corpus(**settings).check()
    Corpus(train_file=train).check()


def test_all_splits_are_read_before_the_first_is_converted(load, tmp_path):
    good, bad = write(tmp_path / "good.jsonl", json_lines(CLUSTERS)), write(tmp_path / "bad.jsonl", "{")
    with pytest.raises(ValueError, match=r"bad\.jsonl"):
        load(train_file=good, test_file=bad)
    assert not list((tmp_path / "cache").rglob("cache-*.arrow"))


def test_corpora_with_equal_settings_are_equal():
    settings = {"dataset_name": "org/news", "text_column": "a"}
    assert Corpus(**settings) == Corpus.among({**settings, "seed": 1}) != Corpus(dataset_name="org/news")
    assert Corpus(**settings).given() == settings
    corpus = Corpus(train_file="a.jsonl", test_file="b.jsonl", summary_column="s").only(["test", "validation"])
    assert corpus == Corpus(test_file="b.jsonl", summary_column="s")
    assert corpus.files == {"test": "b.jsonl"}


def test_the_cache_is_used_until_the_file_changes(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines(CLUSTERS))
    first, second = load(train_file=file)["train"], load(train_file=file)["train"]
    assert first.cache_files == second.cache_files != []
    assert first._fingerprint == second._fingerprint
    write(tmp_path / "rows.jsonl", json_lines(ROWS))
    assert load(train_file=file)["train"].to_list() == ROWS
