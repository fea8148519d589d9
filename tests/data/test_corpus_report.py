"""The report on the files of a corpus."""

import pytest

from hf_summ.data import Corpus
from hf_summ.data.corpus_report import Example, Lengths, Limits, as_tables, report_files
from tests.data.files import json_lines, write

TRAIN = [
    {"article": "one two three", "highlights": "one"},
    {"article": "one  two\nthree", "highlights": "another summary"},
    {"article": "four five six seven", "highlights": "four"},
    {"article": " ", "highlights": "blank"},
]
TEST = [{"article": "four five six seven", "highlights": "x"}, {"article": "new", "highlights": "y"}]


def count_words(rows):
    documents = [len(text.split()) for text in rows["document"]]
    summaries = [len(text.split()) for text in rows["summary"]]
    return documents, summaries


@pytest.fixture
def corpora(tmp_path):
    """A corpus of two files, each as its own training file."""
    files = [write(tmp_path / "train.jsonl", json_lines(TRAIN)), write(tmp_path / "test.jsonl", json_lines(TEST))]
    return [Corpus(train_file=file) for file in files]


def test_rows_are_counted(corpora):
    train, test = report_files(corpora)
    assert (train.columns.document, train.columns.summary) == ("article", "highlights")
    assert (train.rows, train.blank, train.repeated, train.shared) == (4, 1, 1, {})
    assert (test.rows, test.blank, test.repeated) == (2, 0, 0)
    assert test.shared == {corpora[0].train_file: 1}


def test_rows_that_an_option_leaves_out_are_not_blank(tmp_path):
    rows = [
        {"text": "one", "summary": "a", "density_bin": "mixed"},
        {"text": "two", "summary": "b", "density_bin": "extractive"},
        {"text": "three", "summary": "c", "density_bin": "extractive"},
        {"text": " ", "summary": "d", "density_bin": "mixed"},
    ]
    file = write(tmp_path / "train.jsonl", json_lines(rows))
    (report,) = report_files([Corpus(train_file=file, data_format="newsroom", density_bin="mixed")])
    assert (report.rows, report.blank) == (4, 1)
    (report,) = report_files([Corpus(train_file=file, data_format="newsroom")])
    assert (report.rows, report.blank) == (4, 1)


def test_lengths_stand_beside_the_limits_of_the_model(corpora):
    train, _ = report_files(corpora, count_words, Limits(documents=3, summaries=5))
    assert train.documents == Lengths(median=3, percentile_95=3, maximum=4, limit=3, truncated=1 / 3)
    assert train.summaries == Lengths(median=1, percentile_95=1, maximum=2, limit=5, truncated=0)
    without_model, _ = report_files(corpora)
    assert without_model.documents is None


def test_the_same_rows_are_drawn_each_time(corpora):
    assert report_files(corpora, count_words, Limits(3, 5), sample=1) == report_files(
        corpora, count_words, Limits(3, 5), sample=1
    )
    assert report_files(corpora)[1].examples == [Example("four five six seven", "x"), Example("new", "y")]


def test_the_report_is_three_tables(corpora):
    tables = as_tables(report_files(corpora, count_words, Limits(3, 5)))
    assert len(tables.split("\n\n")) == 3
    assert f"1 ({corpora[0].train_file})" in tables
    assert "33.3%" in tables
