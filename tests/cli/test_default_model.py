"""The commands that summarize without `--model`, or with the name of a bundled model."""

import shutil
from pathlib import Path

import datasets
import pytest

from tests.conftest import SENTENCES
from tests.data.files import change_json, json_lines, write

NOTE = "hf-summ: no --model: using arxiv-tldr, which writes titles of news\n"


@pytest.fixture(autouse=True)
def place(shipped, workplace) -> None:
    """A document in a folder that has another model, and the one of the package elsewhere."""
    Path("a.txt").write_text(SENTENCES[0], encoding="utf-8")
    write(Path("rows.jsonl"), json_lines([{"text": SENTENCES[0]}]))


@pytest.mark.thorough
def test_a_note_says_which_model_was_taken(run, shipped):
    expected, errors = run("summarize", "a.txt", "--model", str(shipped))
    assert "no --model" not in errors
    summary, errors = run("summarize", "a.txt")
    assert (summary, errors.count(NOTE)) == (expected, 1)
    summary, errors = run("summarize", "a.txt", "--model", "arxiv-tldr", "--int8", "--device", "cpu")
    assert summary.strip()
    assert "no --model" not in errors


@pytest.mark.thorough
def test_rows_and_explanations_take_the_bundled_model_too(run, shipped):
    expected, _ = run("summarize", "a.txt", "--model", str(shipped))
    _, errors = run("summarize", "rows.jsonl", "--text_column", "text", "--output", "out")
    assert errors.count(NOTE) == 1
    (row,) = datasets.load_dataset("out", split="train")
    assert row["summary"] == expected.strip()
    # the name chooses the same model, so that the run is complete
    _, errors = run("summarize", "rows.jsonl", "--text_column", "text", "--output", "out", "--model", "arxiv-tldr")
    assert "nothing is left to do" in errors
    summary, errors = run("explain", "a.txt", "--output", "page.html")
    assert (summary, errors.count(NOTE)) == (expected, 1)
    assert Path("page.html").is_file()


@pytest.mark.thorough
def test_a_folder_of_the_same_name_goes_first(run):
    shutil.copytree("model", "arxiv-tldr")
    expected, _ = run("summarize", "a.txt", "--model", "model")
    summary, _ = run("summarize", "a.txt", "--model", "arxiv-tldr")
    assert summary == expected
    bundled_summary, _ = run("summarize", "a.txt")
    assert bundled_summary != expected


ARGUMENTS_OF_COMMANDS = {
    "summarize": ("a.txt",),
    "serve": ("--port", "0"),
    "explain": ("a.txt", "--output", "page.html"),
}


@pytest.mark.parametrize("command", ARGUMENTS_OF_COMMANDS)
def test_a_missing_model_is_named(refusal, shipped, command):
    message = refusal(command, *ARGUMENTS_OF_COMMANDS[command], "--model", "arxiv-tlrd")
    assert message.startswith("--model arxiv-tlrd: cannot be loaded: ")


def test_a_flag_of_the_search_without_effect_is_named(run, shipped):
    change_json(shipped / "generation_config.json", whole_sentences=True)
    _, errors = run("summarize", "a.txt", "--num_beams", "3", "--max_new_tokens", "60")
    assert (
        "--num_beams: has no effect, as the model chooses whole sentences; give --no-whole_sentences for a search"
        in errors
    )
    _, errors = run("summarize", "a.txt", "--num_beams", "3", "--no-whole_sentences", "--max_new_tokens", "5")
    assert "no effect" not in errors
