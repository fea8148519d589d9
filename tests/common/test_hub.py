"""Names of checkpoints on a Hub that is there, or is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hf_summ.common.hub import check_within_reach
from tests.hub import LocalHub

# nothing listens at this port
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}
CODE = """
import sys
from huggingface_hub import hf_hub_download
from hf_summ.common.hub import check_within_reach
name, *download = sys.argv[1:]
for file in download:
    hf_hub_download(name, file)
check_within_reach(name)
"""


def check(home: Path, *argv: str, **environment: str) -> str:
    """The last line that a process prints which checks a name after it has downloaded files of it."""
    command, environment = [sys.executable, "-c", CODE, *argv], {**os.environ, "HF_HOME": str(home), **environment}
    errors = subprocess.run(command, env=environment, capture_output=True, text=True).stderr
    assert "Retrying" not in errors
    return errors.strip().rpartition("\n")[2]


def test_only_what_is_neither_here_nor_on_the_hub_is_out_of_reach(tmp_path):
    folder = tmp_path / "processor"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    with LocalHub() as hub:
        hub.publish("org/processor", folder)
        there = hub.environment(tmp_path)
        # the Hub's own answer is reported by what loads the checkpoint
        assert check(tmp_path, "org/other", **there) == check(tmp_path, "org/processor", **there) == ""
        assert check(tmp_path, "org/processor", "tokenizer_config.json", **there) == ""
    assert check(tmp_path, "org/processor", **NOWHERE) == check(tmp_path, str(folder), **NOWHERE) == ""
    assert check(tmp_path, "org/other", **NOWHERE).startswith(
        "OSError: org/other is not on this machine, and the Hub cannot be reached ("
    )


@pytest.mark.parametrize("name", ["a/b", "a/b/c", "./a", ""])
def test_hub_is_not_asked_offline_or_for_what_is_no_name(name):
    check_within_reach(name)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "argv",
    [
        ("summarize", "rows.jsonl", "--text_column", "text", "--output", "out", "--model", "org/other"),
        ("summarize", "rows.txt", "--model", "other"),
        ("train", "--train_file", "rows.jsonl", "--do_train", "--output_dir", "out", "--model_name_or_path", "other"),
        ("compare-lms", "rows.txt", "--models", "other", "other"),
    ],
)
def test_no_command_waits_for_a_hub_that_is_not_there(tmp_path, argv):
    for name in ("rows.txt", "rows.jsonl"):
        (tmp_path / name).write_text('{"text": "A text.", "summary": "It."}\n')
    command = [sys.executable, "-m", "hf_summ", *argv]
    done = subprocess.run(command, env={**os.environ, **NOWHERE}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not on this machine" in done.stderr.splitlines()[-1]
    assert "Retrying" not in done.stderr
