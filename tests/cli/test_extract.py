"""`hf-summ extract` on files, rows and standard input."""

import io
import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForNextSentencePrediction

from hf_summ.extractive import METHODS, DocumentFrequencies
from tests.conftest import pair_tokenizer, save
from tests.data.files import json_lines, write
from tests.extractive.summaries import extracts, stage_extracts

DOCUMENTS = ["The flood came. It was night.\nThe dam broke.", "A bridge opened. It rained. The bridge closed again."]
REFERENCES = ["The dam broke.", "The bridge closed."]


@pytest.fixture(autouse=True)
def texts(tmp_path, monkeypatch) -> None:
    """Work in a folder with both documents as files of text, and as rows with their references."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.txt", DOCUMENTS[0])
    write(tmp_path / "b.txt", DOCUMENTS[1])
    rows = [{"text": text, "summary": summary} for text, summary in zip(DOCUMENTS, REFERENCES, strict=True)]
    write(tmp_path / "rows.jsonl", json_lines(rows))


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_summarized_by_each_method(run, method):
    output, _ = run("extract", "rows.jsonl", "--method", method, "--sentences", "1")
    assert output.splitlines() == extracts(DOCUMENTS, method, 1, REFERENCES)


@pytest.mark.thorough
def test_the_whole_stage_is_a_command(run):
    tokenizer = pair_tokenizer()
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForNextSentencePrediction(BertConfig(vocab_size=len(tokenizer), **sizes))
    save("bert", model, tokenizer)
    DocumentFrequencies.fit(DOCUMENTS).save("idf.json")
    stage = {"idf": "idf.json", "next_sentence_model": "bert"}
    flags = ("--idf", "idf.json", "--next_sentence_model", "bert")
    output, notes = run("extract", "rows.jsonl", "--share", "0.3", *flags)
    assert output.splitlines() == stage_extracts(DOCUMENTS, share=0.3, **stage)
    assert "coherence" not in notes
    _, notes = run("extract", "rows.jsonl", "--share", "0.3")
    assert "no --next_sentence_model is given, so the coherence of neighboring sentences is not checked" in notes


def test_columns_are_named(run, refusal):
    columns = {"abstract": DOCUMENTS, "tldr": REFERENCES}
    pq.write_table(pa.table(columns), "other.parquet")
    argv = ("extract", "other.parquet", "--method", "oracle", "--sentences", "1")
    assert refusal(*argv, "--text_column", "text").endswith("no column 'text'; the columns are abstract, tldr")
    output, _ = run(*argv, "--text_column", "abstract", "--summary_column", "tldr")
    assert output.splitlines() == extracts(DOCUMENTS, "oracle", 1, REFERENCES)


def test_references_may_be_abstracts_as_in_training(run):
    # `abstract` is chosen for documents only if there is no better column, and for summaries before `title`.
    for further_columns in ({}, {"title": ["It rained."] * 2}):
        pq.write_table(pa.table({"article": DOCUMENTS, "abstract": REFERENCES, **further_columns}), "paper.parquet")
        output, notes = run("extract", "paper.parquet", "--method", "oracle", "--sentences", "1")
        assert "references from 'abstract'" in notes
        assert output.splitlines() == extracts(DOCUMENTS, "oracle", 1, REFERENCES)


def test_a_text_file_is_one_document(run, monkeypatch):
    first, second = extracts(DOCUMENTS, "lead", 2)
    output, _ = run("extract", "a.txt", "b.txt", "--sentences", "2")
    assert output == f"{first}\n{second}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DOCUMENTS[0].encode())))
    output, _ = run("extract", "--sentences", "2")
    assert output == f"{first}\n"


def test_evaluate_reads_the_output_file(run):
    output, _ = run("extract", "rows.jsonl", "--method", "oracle", "--output", "oracle.txt")
    assert output == ""
    report, _ = run("evaluate", "--predictions", "oracle.txt", "--references", "rows.jsonl", "--format", "json")
    assert json.loads(report)["rouge"]["rouge2"]["predictions"]["recall"] > 80


def test_sentences_are_those_of_the_language(run):
    write(Path("zh.txt"), "今天下雨。明天晴。")
    output, _ = run("extract", "zh.txt", "--sentences", "1", "--language", "zh")
    assert output == "今天下雨。\n"


def test_a_text_without_words_is_a_blank_line(run):
    write(Path("c.txt"), "…")
    output, note = run("extract", "a.txt", "c.txt", "--sentences", "1")
    assert output == "The flood came.\n\n"
    assert note.startswith("hf-summ: 1 of 2 documents have no words and get no summary: rows 1, counted from 0 ")
    assert note.count("\n") == 1


CASES_OF_REFUSED_EXTRACTS = [
    (["a.txt", "--sentences", "0"], "^--sentences is 0, but must be at least 1$"),
    (["a.txt", "--method", "oracle"], "^--method oracle: a.txt has no references: name files of rows$"),
    (["a.txt", "--output", "no/lead.txt"], "^--output no/lead.txt: must be a file in an existing folder$"),
    (["a.txt", "--text_column", "text"], "^--text_column: a.txt is plain text, which has no columns$"),
    (["a.txt", "--summary_column", "title"], "^--summary_column: needs --method oracle, which alone reads "),
    (["none.txt"], "No such file or directory: 'none.txt'$"),
    (["none.jsonl"], "^none.jsonl does not exist$"),
    (["a.txt", "--method", "consistent", "--idf", "idf.json"], "--idf idf.json: needs --share$"),
    (
        ["a.txt", "--share", "0.3", "--method", "lead"],
        "--share has an effect only if --method is consistent, but --method is lead$",
    ),
    (["a.txt", "--share", "0.3", "--sentences", "9"], "--sentences 9: has no effect beside --share 0.3"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_EXTRACTS)
def test_what_cannot_work_is_told(refusal, argv, message):
    assert re.search(message, refusal("extract", *argv))
