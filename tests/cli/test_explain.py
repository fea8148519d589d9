"""`hf-summ explain` on a tiny model."""

import json
from pathlib import Path

import pytest

from tests.conftest import SENTENCES
from tests.models.architectures import HIGHLIGHT_TRANSFORMER, build_with_processor

MODEL = ("--model", "copying", "--output", "page.html")


@pytest.fixture(autouse=True)
def place(workplace, tiny_tokenizer) -> None:
    """A model that copies, beside the one that does not, and two documents."""
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer)
    model.save_pretrained("copying")
    processor.save_pretrained("copying")
    for name, text in (("a.txt", SENTENCES[0]), ("b.txt", SENTENCES[1])):
        Path(name).write_text(text, encoding="utf-8")


def test_a_page_and_its_numbers(run):
    summary, _ = run("summarize", "a.txt", "--model", "copying", "--max_new_tokens", "6")
    model = str(Path("copying").resolve())
    output, errors = run("explain", "a.txt", *MODEL, "--model", model, "--json", "--max_new_tokens", "6")
    assert output.strip() == summary.strip()
    assert "did not read" not in errors
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    told = json.loads(Path("page.json").read_text(encoding="utf-8"))
    assert (told["model"], told["model_type"], told["documents"]) == ("copying", "highlight_transformer", SENTENCES[:1])
    assert [word["text"] for word in told["source_words"]][:3] == ["Mayor", "Ana", "Lopez"]
    assert all(0 <= word["copied"] <= 1 for word in told["summary_words"])


def test_several_files_are_one_example(run):
    Path("summary.txt").write_text("Ana Lopez opened the bridge.", encoding="utf-8")
    output, _ = run("explain", "a.txt", "b.txt", *MODEL, "--json", "--summary", "summary.txt", "--phrase", "new bridge")
    told = json.loads(Path("page.json").read_text(encoding="utf-8"))
    assert told["summary"] == output.strip() == "Ana Lopez opened the bridge."
    assert told["documents"] == SENTENCES[:2]
    phrase = [word["text"] for word in told["source_words"] if word["values"]["phrase_value"]]
    assert phrase == ["new", "bridge"]
    # the page alone, and nothing beside it
    Path("page.json").unlink()
    run("explain", "a.txt", *MODEL)
    assert not Path("page.json").exists()


def test_what_was_cut_off_is_told(run):
    settings = json.loads(Path("copying/processor_config.json").read_text(encoding="utf-8"))
    Path("copying/processor_config.json").write_text(
        json.dumps({**settings, "max_source_length": 12}), encoding="utf-8"
    )
    _, errors = run("explain", "a.txt", *MODEL)
    assert "the model did not read the last " in errors


def test_bad_input_is_refused_and_the_page_kept(refusal):
    Path("page.html").write_text("before", encoding="utf-8")
    Path("blank.txt").write_text(" \n", encoding="utf-8")
    assert refusal("explain", "blank.txt", *MODEL).startswith("copying: the text is blank")
    assert refusal("explain", "a.txt", *MODEL, "--summary", "blank.txt").startswith("copying: the summary is blank")
    Path("rows.csv").write_text("id,text\n1,a\n", encoding="utf-8")
    assert refusal("explain", "rows.csv", *MODEL) == "rows.csv is a file of rows: name files of text"
    assert refusal("explain", "none.txt", *MODEL) == "none.txt: no such file or directory: name another path"
    message = refusal("explain", "a.txt", "--model", "model", "--output", "page.html")
    assert message.startswith("model: the model is a gdlf that does not copy")
    assert refusal("explain", "a.txt", "--model", "copying", "--output", "page.txt") == (
        "--output page.txt: must be a .html file in an existing folder"
    )
    assert refusal("explain", "a.txt", "--model", "copying", "--output", "none/page.html") == (
        "--output none/page.html: must be a .html file in an existing folder"
    )
    assert refusal("explain", "a.txt", *MODEL, "--num_beams", "0") == "--num_beams 0: must be at least 1"
    assert refusal("explain", "a.txt", *MODEL, "--phrase", "bridge=much").startswith("--phrase 'bridge=much'")
    assert Path("page.html").read_text(encoding="utf-8") == "before"


@pytest.mark.thorough
def test_prefix_of_the_checkpoint_is_read_as_summarize_reads_it(run):
    config = json.loads(Path("copying/config.json").read_text(encoding="utf-8"))
    Path("copying/config.json").write_text(json.dumps({**config, "prefix": "In short: "}), encoding="utf-8")
    summary, _ = run("summarize", "a.txt", "--model", "copying", "--max_new_tokens", "6")
    assert run("explain", "a.txt", *MODEL, "--json", "--max_new_tokens", "6")[0].strip() == summary.strip()
    told = json.loads(Path("page.json").read_text(encoding="utf-8"))
    assert told["documents"] == [f"In short: {SENTENCES[0]}"]
    run("explain", "a.txt", *MODEL, "--json", "--max_new_tokens", "6", "--source_prefix", "Title: ")
    assert json.loads(Path("page.json").read_text(encoding="utf-8"))["documents"] == [f"Title: {SENTENCES[0]}"]
