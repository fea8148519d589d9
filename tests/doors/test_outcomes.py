"""The sorting of outcomes."""

import os
import sys
from pathlib import Path

import pytest
from transformers import GenerationConfig

from hf_summ.data import split_sentences
from tests.doors.outcomes import Clear, Deep, Held, check_scores, command, strict_json, tried, unchanged


def raised(error: BaseException):
    """A function that raises an error."""

    def call():
        raise error

    return call


CASES_OF_ERRORS = [
    (lambda: split_sentences(None), Clear),
    (lambda: command("evaluate", "--predictions", "missing.txt"), Clear),
    # argparse ends the process
    (lambda: command("evaluate", "--nothing"), Clear),
    # a library raises an error
    (lambda: GenerationConfig(early_stopping="sometimes"), Clear),
    # a panic of pyo3 is no Exception
    (raised(BaseException("a panic")), Deep),
    (lambda: sys.exit(2), Deep),
    (lambda: sys.exit("a message"), Deep),
]


@pytest.mark.parametrize(("call", "outcome"), CASES_OF_ERRORS)
def test_errors_are_clear_or_deep(call, outcome):
    with pytest.raises(outcome):
        tried(call)


def test_endless_loop_is_held():
    def call():
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    with pytest.raises(Held, match=r"more than 0\.2 s"):
        tried(call, seconds=0.2)


@pytest.mark.parametrize("end", [lambda: None, raised(Clear("no"))])
def test_file_that_changes_is_noticed_whatever_the_outcome(tmp_path, end):
    def change(watched: Path, changed: Path) -> None:
        with unchanged(watched):
            changed.write_text(os.urandom(9).hex())
            end()

    file = tmp_path / "train.jsonl"
    file.touch()
    # a file, a file in a folder, and a half-written file beside it
    for watched, changed in ((file, file), (tmp_path, file), (file, tmp_path / "report.json.part")):
        with pytest.raises(AssertionError, match=changed.name):
            change(watched, changed)


def test_scores_are_within_bounds_and_json_has_no_nan():
    check_scores([0, 12.5, 100.0, None])
    for score in (float("nan"), 101.0, -1):
        with pytest.raises(AssertionError):
            check_scores([score])
    with pytest.raises(pytest.fail.Exception, match="NaN"):
        strict_json('{"a": NaN}')
