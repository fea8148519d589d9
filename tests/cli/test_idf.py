"""`hf-summ idf`: document frequencies fitted to corpus files."""

import re
from pathlib import Path

import pytest

from hf_summ.extractive import DocumentFrequencies
from tests.data.files import json_lines, write

ROWS = [{"article": text, "summary": "s"} for text in ("The flood.", "The bridge, the flood!", "Rain.")]


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch) -> None:
    """Work in a folder with two files of rows."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.jsonl", json_lines(ROWS))
    write(tmp_path / "more.jsonl", json_lines([{"text": "The mayor.", "article": "Rain and rain.", "summary": "s"}]))


def test_words_of_several_files_and_of_one_column(run):
    output, _ = run("idf", "rows.jsonl", "more.jsonl", "--output", "idf.json", "--text_column", "article")
    assert output == "idf.json: 3 words that occur in at least 2 of 4 documents\n"
    assert DocumentFrequencies.load("idf.json") == DocumentFrequencies({"flood": 2, "rain": 2, "the": 2}, 4, "en")


def test_words_of_a_language(run):
    write(Path("zh.jsonl"), json_lines([{"document": "下雨。", "summary": "s"}, {"document": "雨", "summary": "s"}]))
    run("idf", "zh.jsonl", "--output", "idf.json", "--language", "zh")
    assert DocumentFrequencies.load("idf.json") == DocumentFrequencies({"雨": 2}, 2, "zh")


def test_documents_without_summaries_count(run, refusal):
    expected = DocumentFrequencies({"flood": 2, "the": 2}, 3, "en")
    documents = [{"document": row["article"]} for row in ROWS]
    write(Path("documents.jsonl"), json_lines([*documents, {"document": " "}]))
    write(Path("half.jsonl"), json_lines([{**ROWS[0], "summary": None}, *ROWS[1:]]))
    for file in ("documents.jsonl", "half.jsonl"):
        run("idf", file, "--output", "idf.json")
        assert DocumentFrequencies.load("idf.json") == expected
    # a column that is named for summaries has no documents
    write(Path("named.jsonl"), json_lines([{"article": "Rain.", "text": row["article"]} for row in ROWS]))
    run("idf", "named.jsonl", "--output", "idf.json", "--summary_column", "article")
    assert DocumentFrequencies.load("idf.json") == expected
    write(Path("blank.jsonl"), json_lines([{"document": " ", "summary": "s"}]))
    message = refusal("idf", "blank.jsonl", "--output", "idf.json")
    assert message == "blank.jsonl: none of the 1 rows has a document"


CASES_OF_REFUSED_FREQUENCIES = [
    (["none.jsonl", "--output", "idf.json"], "^none.jsonl does not exist"),
    (["rows.jsonl", "--output", "no/idf.json"], "^--output no/idf.json: must be a file in an existing folder"),
    (["rows.json", "--output", "rows.json"], "^--output rows.json: would replace the input; give it another name"),
    (["rows.jsonl", "--output", "idf.json", "--language", "Klingon"], "^--language is 'Klingon', but must be an"),
    (["rows.jsonl", "--output", "idf.json", "--text_column", "body"], "no column 'body'; the columns are article"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_FREQUENCIES)
def test_what_cannot_work_is_told(refusal, argv, message):
    assert re.search(message, refusal("idf", *argv))
    assert not Path("idf.json").exists()
