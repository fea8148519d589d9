"""Runs that are killed, fail, or are being run by another process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from hf_summ.experiments.jobs import Job, JobFailed, perform
from hf_summ.training.folder.ledger import FolderInUse, Ledger
from hf_summ.training.folder.resuming import last_complete_checkpoint
from tests.training import tiny

STARTER = """
import json, sys
from pathlib import Path
from hf_summ.experiments.jobs import Job, perform
perform(Job(Path(sys.argv[1]), json.loads(sys.argv[2])))
"""


@pytest.fixture
def settings(tmp_path, tiny_tokenizer):
    """The settings of a training that takes some seconds."""
    tiny.processor(tiny_tokenizer).save_pretrained(tmp_path / "processor")
    changes = {"max_steps": 150, "save_strategy": "steps", "save_steps": 3}
    files = tiny.write_corpus(tmp_path, train=24, validation=5, test=7)
    path = tiny.write_settings(tmp_path, **files, **changes, tokenizer_name=str(tmp_path / "processor"))
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def is_alive(group: int) -> bool:
    """Whether a process group still has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.thorough
def test_killed_starter_and_killed_run_lose_nothing(settings, tmp_path):
    job = Job(tmp_path / "job", settings)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(job.folder), json.dumps(settings)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while last_complete_checkpoint(job.folder) is None:
            assert starter.poll() is None, (job.folder / "log.txt").read_text()
            time.sleep(0.05)
        starter.kill()
        starter.wait()
        # the run lives on, and is left alone
        assert is_alive(starter.pid)
        with pytest.raises(FolderInUse, match="another run uses it") as busy:
            perform(Job(job.folder, settings | {"max_steps": 1}))
        assert busy.value.lock == job.folder / ".run.lock"
        assert Ledger(job.folder).steps["train"]["settings"]["max_steps"] == 150
    finally:
        os.killpg(starter.pid, signal.SIGKILL)
    # wait until the last of the killed processes has let go
    with FileLock(job.folder / ".run.lock"):
        checkpoint = last_complete_checkpoint(job.folder)
    assert checkpoint is not None
    assert not job.is_finished
    perform(job)
    log = (job.folder / "log.txt").read_text(encoding="utf-8")
    assert f"resuming from {checkpoint}" in log
    assert job.is_finished
    state = json.loads((job.folder / "trainer_state.json").read_text())
    steps = [entry["step"] for entry in state["log_history"] if "loss" in entry]
    assert steps == list(range(1, 151))
    perform(job)
    assert (job.folder / "log.txt").read_text(encoding="utf-8") == log


@pytest.mark.thorough
def test_failed_run_gives_its_own_reason_and_is_shown(settings, tmp_path, capsys):
    job = Job(tmp_path / "job", settings | {"tokenizer_name": None, "run_name": "Brücke"})
    with pytest.raises(JobFailed, match=r"^no processor or tokenizer: .* `hf-summ vocabulary` creates") as failed:
        perform(job)
    assert failed.value.folder == job.folder
    assert capsys.readouterr().err == (job.folder / "log.txt").read_bytes().decode("utf-8")
    assert not job.is_finished
