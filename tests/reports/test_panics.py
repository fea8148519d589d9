"""Panics of libraries in Rust, which are no Exceptions."""

import json
from functools import partial
from pathlib import Path

import pytest

from hf_summ.cli import main
from hf_summ.offline.engines import in_this_process
from hf_summ.offline.run import run_plan
from tests.conftest import save
from tests.offline.conftest import ROWS, plan, rows_of, work
from tests.training.tiny import bart

PANIC = f"{'a' * 60}! A mayor opened it."


# https://github.com/huggingface/tokenizers/issues/1014: pyo3_runtime.PanicException at one text of a corpus
@pytest.fixture
def panicking(tmp_path, tiny_tokenizer) -> Path:
    """A folder with a model in `bart`, whose tokenizer panics at `PANIC`."""
    save(tmp_path / "bart", bart(tiny_tokenizer), tiny_tokenizer)
    file = tmp_path / "bart" / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    # exceeds the retry limit of the regular expressions' library
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    return tmp_path


@pytest.mark.thorough
def test_a_row_at_which_the_tokenizer_panics_has_its_error(panicking):
    job = plan(panicking, "out", [{**ROWS[0], "text": PANIC}, *ROWS[1:10]])
    outcome = run_plan(job, {}, partial(in_this_process, work(panicking), job))
    assert (outcome.rows, outcome.failed) == (10, 1)
    first, *others = rows_of(panicking / "out")
    assert first["summary"] is None
    assert first["error"].startswith("a library in Rust, probably the tokenizer, panicked: ")
    assert all(row["summary"] is not None and not row["error"] for row in others)


def test_a_document_at_which_the_tokenizer_panics_ends_the_command_in_one_line(panicking, capsys):
    (panicking / "a.txt").write_text(PANIC, encoding="utf-8")
    assert main(["summarize", str(panicking / "a.txt"), "--model", str(panicking / "bart")]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("hf-summ: error: a library in Rust, probably the tokenizer, panicked: ")
