"""`hf-summ key-phrases`, and the phrases of `hf-summ summarize`."""

import json
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoProcessor, pipeline

from hf_summ import DrgdProcessor, HighlightTransformerConfig, HighlightTransformerForConditionalGeneration
from tests.conftest import SENTENCES, save
from tests.data.files import json_lines, write

ROWS = [{"documents": [sentence, "Mayor Lopez opened it."], "summary": "s"} for sentence in SENTENCES]


@pytest.fixture
def phrases(run, workplace) -> str:
    """The command's output; it writes a processor with phrases to the workplace's folder `phrases`."""
    write(workplace / "rows.jsonl", json_lines(ROWS))
    flags = ("--processor", "model", "--output", "phrases", "--num_phrases", "4")
    output, _ = run("key-phrases", "rows.jsonl", *flags)
    return output


@pytest.fixture
def highlighter(phrases, workplace) -> str:
    """A folder with a tiny Highlight-Transformer of random weights."""
    processor = AutoProcessor.from_pretrained("phrases")
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_heads": 2, "ffn_dim": 16}
    torch.manual_seed(0)
    config = HighlightTransformerConfig(**sizes, brightness=20.0, lit_heads=[0, 1])
    processor.align(config)
    model = HighlightTransformerForConditionalGeneration(config)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    # the model only copies, so that its summary depends on what it reads
    model.copy_gate.bias.data.fill_(99.0)
    model.generation_config.max_new_tokens = 8
    save("highlighter", model, processor)
    return "highlighter"


def test_frequencies_of_a_corpus(phrases):
    processor = AutoProcessor.from_pretrained("phrases")
    assert type(processor).__name__ == "HighlightTransformerProcessor"
    assert (processor.fitted_examples, processor.num_phrases) == (len(ROWS), 4)
    assert processor.document_frequencies["mayor lopez"] == len(ROWS)
    number = len(processor.document_frequencies)
    assert phrases == f"phrases: {number} phrases that occur in at least 2 of {len(ROWS)} examples\n"
    # lengths and vocabulary are those of --processor
    source_processor = AutoProcessor.from_pretrained("model")
    assert processor.max_source_length == source_processor.max_source_length
    assert processor.tokenizer.get_vocab() == source_processor.tokenizer.get_vocab()


def test_examples_without_summaries_count(run, workplace):
    write(workplace / "documents.jsonl", json_lines([{"documents": row["documents"]} for row in ROWS]))
    run("key-phrases", "documents.jsonl", "--processor", "model", "--output", "phrases")
    processor = AutoProcessor.from_pretrained("phrases")
    assert processor.fitted_examples == processor.document_frequencies["mayor lopez"] == len(ROWS)


def test_a_folder_may_be_written_to_itself(run, phrases):
    run("key-phrases", "rows.jsonl", "--processor", "phrases", "--output", "phrases", "--max_frequencies", "1")
    assert AutoProcessor.from_pretrained("phrases").document_frequencies == {"lopez opened": len(ROWS)}


CASES_OF_REFUSED_KEY_PHRASES = [
    (["none.jsonl", "--processor", "model", "--output", "x"], r"^none.jsonl does not exist"),
    (["rows.jsonl", "--processor", "model", "--output", "rows.jsonl"], r"--output rows.jsonl: must be a new or em"),
    (["rows.jsonl", "--processor", "model", "--output", "x", "--num_phrases", "0"], r"--num_phrases is 0, but mus"),
    (["rows.jsonl", "--processor", "washing", "--output", "x"], r"^the processor has the washing 'lcsts', which is on"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_KEY_PHRASES)
def test_what_cannot_work_is_told(refusal, phrases, tiny_tokenizer, argv, message):
    DrgdProcessor(tiny_tokenizer, washing="lcsts").save_pretrained("washing")
    assert re.search(message, refusal("key-phrases", *argv))
    assert not Path("x").exists()


@pytest.mark.thorough
def test_summaries_are_about_the_phrases_given(run, highlighter):
    Path("a.txt").write_text(SENTENCES[0], encoding="utf-8")
    Path("b.txt").write_text(SENTENCES[1], encoding="utf-8")
    summarizer = pipeline("summarization", model=highlighter)
    words = SENTENCES[0].split()
    first_phrase, last_phrase = " ".join(words[:2]), words[-1].strip(".")
    phrases = {first_phrase: 2.0, last_phrase: 1.0}
    flags = ["--phrase", f"{first_phrase}=2", "--phrase", last_phrase]
    (expected,) = summarizer(SENTENCES[0], phrases=phrases)
    records = summarizer(SENTENCES[:2])
    assert expected != records[0]
    output, _ = run("summarize", "a.txt", "--model", highlighter, *flags)
    assert output == expected["summary_text"] + "\n"
    output, _ = run("summarize", "a.txt", "b.txt", "--model", highlighter, "--format", "jsonl")
    summaries = [json.loads(line)["summary"] for line in output.splitlines()]
    assert summaries == [record["summary_text"] for record in records]
    # each text has its own phrases
    assert summarizer(SENTENCES[:2], phrases=[phrases, None], batch_size=2) == [expected, records[1]]
    (record,) = summarizer([SENTENCES[:2]], phrases=[phrases])
    output, _ = run("summarize", "a.txt", "b.txt", "--together", "--model", highlighter, *flags)
    assert output == record["summary_text"] + "\n"
    with pytest.raises(ValueError, match=r"^`phrases` must be a list, with an entry for each of 2 documents: "):
        summarizer(SENTENCES[:2], phrases=[phrases])


def test_phrases_that_cannot_be_read_are_refused(refusal, highlighter):
    Path("a.txt").write_text(SENTENCES[0], encoding="utf-8")
    message = refusal("summarize", "a.txt", "--model", highlighter, "--phrase", "Ana=much")
    assert message == "--phrase 'Ana=much': must be TEXT=VALUE with a number"
    message = refusal("summarize", "a.txt", "--model", "model", "--phrase", "Ana")
    assert message == "--phrase: model does not read key phrases, but a highlight_transformer does"


def test_pipeline_of_a_model_without_phrases_refuses_them(workplace):
    with pytest.raises(ValueError, match=r"^`phrases` are given, but the model does not read key phrases"):
        pipeline("summarization", model="model")(SENTENCES[0], phrases={"Ana": 1.0})
