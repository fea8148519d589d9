"""The command that describes a corpus."""

import json

import pytest

from tests.data.files import ROWS, json_lines, write


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    """Two files with the same rows."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.jsonl", "test.jsonl"):
        write(tmp_path / name, json_lines(ROWS))


def test_a_corpus_beside_a_bundled_model(run):
    output, notes = run("data", "train.jsonl", "test.jsonl", "--format", "json")
    train, test = json.loads(output)["files"]
    assert (train["rows"], train["blank"], train["shared"]) == (4, 0, {})
    assert test["shared"] == {"train.jsonl": 4}
    assert train["documents"]["limit"] == 300
    assert 0 < train["documents"]["median"] <= train["documents"]["maximum"]
    assert "train.jsonl: documents from 'document', summaries from 'summary'" in notes


def test_a_corpus_without_a_model(run):
    output, _ = run("data", "train.jsonl", "--model", "none")
    assert "the model's limit" not in output
    assert "Document 0. It has words." in output


def test_a_column_that_is_missing(refusal):
    message = refusal("data", "train.jsonl", "--text_column", "body")
    assert "no column 'body'; the columns are document, summary" in message
