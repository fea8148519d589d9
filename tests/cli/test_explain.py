"""`hf-summ explain` on a tiny model."""

import json
from pathlib import Path

import pytest

from tests.conftest import SENTENCES, save
from tests.data.files import change_json
from tests.models.architectures import HIGHLIGHT_TRANSFORMER, build_with_processor

MODEL = ("--model", "copying", "--output", "page.html")


@pytest.fixture(autouse=True)
def place(workplace, tiny_tokenizer) -> None:
    """A model that copies, beside the one that does not, and two documents."""
    save("copying", *build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer))
    Path("a.txt").write_text(SENTENCES[0], encoding="utf-8")
    Path("b.txt").write_text(SENTENCES[1], encoding="utf-8")


def read_page() -> dict:
    """The numbers of the page."""
    return json.loads(Path("page.json").read_text(encoding="utf-8"))


def test_a_page_and_its_numbers(run):
    summary, _ = run("summarize", "a.txt", "--model", "copying", "--max_new_tokens", "6")
    model = str(Path("copying").resolve())
    output, errors = run("explain", "a.txt", *MODEL, "--model", model, "--json", "--max_new_tokens", "6")
    assert output.strip() == summary.strip()
    assert "did not read" not in errors
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    page = read_page()
    assert (page["model"], page["model_type"]) == ("copying", "highlight_transformer")
    assert page["documents"] == SENTENCES[:1]
    assert [word["text"] for word in page["source_words"]][:3] == ["Mayor", "Ana", "Lopez"]
    for word in page["summary_words"]:
        assert 0 <= word["copied"] <= 1


def test_several_files_are_one_example(run):
    Path("summary.txt").write_text("Ana Lopez opened the bridge.", encoding="utf-8")
    output, _ = run("explain", "a.txt", "b.txt", *MODEL, "--json", "--summary", "summary.txt", "--phrase", "new bridge")
    page = read_page()
    assert page["summary"] == output.strip() == "Ana Lopez opened the bridge."
    assert page["documents"] == SENTENCES[:2]
    phrase = [word["text"] for word in page["source_words"] if word["values"]["phrase_value"]]
    assert phrase == ["new", "bridge"]
    # without --json, nothing is written beside the page
    Path("page.json").unlink()
    run("explain", "a.txt", *MODEL)
    assert not Path("page.json").exists()


def test_what_was_cut_off_is_told(run):
    change_json(Path("copying/processor_config.json"), max_source_length=12)
    _, errors = run("explain", "a.txt", *MODEL)
    assert "the model did not read the last " in errors


CASES_OF_REFUSED_PAGES = [
    (["blank.txt"], "copying: the text is blank"),
    (["a.txt", "--summary", "blank.txt"], "copying: the summary is blank"),
    (["rows.csv"], "rows.csv is a file of rows: name files of text"),
    (["none.txt"], "[Errno 2] No such file or directory: 'none.txt'"),
    (["a.txt", "--model", "model"], "model: the model is a gdlf that does not copy"),
    (["a.txt", "--output", "page.txt"], "--output page.txt: must be a .html file"),
    (["a.txt", "--output", "none/page.html"], "--output none/page.html: must be a .html file"),
    (["a.txt", "--num_beams", "0"], "--num_beams 0: must be at least 1"),
    (["a.txt", "--phrase", "bridge=much"], "--phrase 'bridge=much'"),
]


def test_bad_input_is_refused_and_the_page_kept(refusal):
    Path("page.html").write_text("before", encoding="utf-8")
    Path("blank.txt").write_text(" \n", encoding="utf-8")
    Path("rows.csv").write_text("id,text\n1,a\n", encoding="utf-8")
    for argv, message in CASES_OF_REFUSED_PAGES:
        assert refusal("explain", *MODEL, *argv).startswith(message)
    assert Path("page.html").read_text(encoding="utf-8") == "before"


@pytest.mark.thorough
def test_prefix_of_the_checkpoint_is_read_as_summarize_reads_it(run):
    change_json(Path("copying/config.json"), prefix="In short: ")
    summary, _ = run("summarize", "a.txt", "--model", "copying", "--max_new_tokens", "6")
    explained_summary, _ = run("explain", "a.txt", *MODEL, "--json", "--max_new_tokens", "6")
    assert explained_summary.strip() == summary.strip()
    assert read_page()["documents"] == [f"In short: {SENTENCES[0]}"]
    run("explain", "a.txt", *MODEL, "--json", "--max_new_tokens", "6", "--source_prefix", "Title: ")
    assert read_page()["documents"] == [f"Title: {SENTENCES[0]}"]


def test_a_summary_that_the_numbers_would_replace_is_refused_and_kept(refusal):
    summary = Path("page.json")
    summary.write_text("Ana Lopez opened the bridge.", encoding="utf-8")
    message = refusal("explain", "a.txt", *MODEL, "--json", "--summary", "page.json")
    assert "would replace the input page.json" in message
    assert summary.read_text(encoding="utf-8") == "Ana Lopez opened the bridge."
