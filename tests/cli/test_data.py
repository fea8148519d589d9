"""The command that describes a corpus."""

import json
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

from hf_summ import GdlfProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.data.vocabulary import fit_processor
from tests.conftest import word_piece_tokenizer
from tests.data.files import ROWS, json_lines, write

# Eleven words and four words of a vocabulary of words.
WORDS = "one two three four five six seven eight nine ten eleven"
SUMMARY = "one two three four"


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


def measured(run, rows, model):
    """The lengths of documents and of summaries that the command prints for rows beside a model's folder."""
    write(Path("rows.jsonl"), json_lines(rows))
    output, _ = run("data", "rows.jsonl", "--model", model, "--format", "json")
    (report,) = json.loads(output)["files"]
    return report["documents"], report["summaries"]


def test_lengths_are_those_that_the_model_reads(run):
    processor = fit_processor([WORDS] * 2, units="words", tags="none", max_source_length=11, max_target_length=5)
    processor.save_pretrained("processor")
    # White space is one space to the model, and the end token counts.
    spaced = {"document": WORDS.replace(" ", "\n\n  "), "summary": SUMMARY}
    documents, summaries = measured(run, [spaced], "processor")
    assert (documents["maximum"], documents["limit"], documents["truncated"]) == (12, 11, 1)
    assert (summaries["maximum"], summaries["limit"], summaries["truncated"]) == (5, 5, 0)
    # There is a separator between two documents.
    documents, _ = measured(run, [{"documents": ["one two", "three"], "summary": SUMMARY}], "processor")
    assert (documents["maximum"], documents["truncated"]) == (5, 0)
    # Digits are no tokens after the washing.
    processor = fit_processor(["abc"] * 2, units="characters", washing="lcsts")
    processor.save_pretrained("washing")
    documents, summaries = measured(run, [{"document": "a 1 b. 2 c!", "summary": "a 3"}], "washing")
    assert (documents["maximum"], summaries["maximum"]) == (4, 2)
    # A tokenizer alone adds the end token as well.
    fit_vocabulary([WORDS] * 2, units="words", show_progress=False).save_pretrained("tokenizer")
    documents, summaries = measured(run, [{"document": WORDS, "summary": SUMMARY}], "tokenizer")
    assert (documents["maximum"], summaries["maximum"]) == (12, 5)
    # Texts of BERT begin with [CLS] and end with [SEP].
    tokenizer = word_piece_tokenizer([WORDS], 200)
    special_tokens = [("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)]
    template = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special_tokens)
    tokenizer.backend_tokenizer.post_processor = template
    tokenizer.save_pretrained("bert")
    documents, _ = measured(run, [{"document": WORDS, "summary": SUMMARY}], "bert")
    assert documents["maximum"] == 13


def test_lengths_need_no_tagger(run, tiny_tokenizer):
    GdlfProcessor(tiny_tokenizer, tagger="not_installed").save_pretrained("tagged")
    GdlfProcessor(tiny_tokenizer, tags="none").save_pretrained("untagged")
    assert measured(run, ROWS, "tagged") == measured(run, ROWS, "untagged")


def test_a_corpus_without_a_model(run):
    output, _ = run("data", "train.jsonl", "--model", "none")
    assert "the model's limit" not in output
    assert "Document 0. It has words." in output


def test_a_column_that_is_missing(refusal):
    message = refusal("data", "train.jsonl", "--text_column", "body")
    assert "no column 'body'; the columns are document, summary" in message
