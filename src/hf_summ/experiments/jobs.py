"""Runs of the recipe as jobs: each is a separate process, in a folder named by a hash of its settings.

The recipe's ledger says whether a run is finished, and its lock that a process is working on it, even if the process
that started it was killed.
"""

import codecs
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_summ.training.__main__ import IN_USE
from hf_summ.training.folder.ledger import FolderInUse, Ledger, locked
from hf_summ.training.parsing import as_flag

# number of bytes at the end of a failed run's log that are searched for the error
_TAIL = 20_000
# seconds between reads of a run's log
_INTERVAL = 0.2


@dataclass(frozen=True)
class Job:
    """A training or decoding run.

    Args:
        folder: its output folder.
        settings: its flags.
        first: the training run whose model it trains further, or None.
    """

    folder: Path
    settings: dict[str, Any]
    first: "Job | None" = None

    @property
    def runs(self) -> list["Job"]:
        """The runs that yield its model, in order."""
        return [self] if self.first is None else [self.first, self]

    @property
    def is_finished(self) -> bool:
        """Whether the run has its results."""
        return Ledger(self.folder).is_finished("train" if self.settings.get("do_train") else "predict")


class JobFailed(Exception):
    """The run in `folder` ended with an error; the message is the run's."""

    def __init__(self, message: str, folder: Path):
        super().__init__(message)
        self.folder = folder


def perform(job: Job) -> None:
    """Run the job, unless it is finished.

    Its output goes to standard error and to `log.txt` in its folder. An interrupted run resumes from its last
    checkpoint.

    Raises:
        JobFailed: the run could not start or complete.
        FolderInUse: another process is running it.
    """
    if job.is_finished:
        return
    # a second process would find the folder locked too, but only after building its model
    with locked(job.folder):
        log = job.folder / "log.txt"
    settings = job.settings | {"output_dir": job.folder}
    flags = [token for name, value in settings.items() if value != {} for token in as_flag(name, value)]
    with open(log, "ab") as written:
        start = written.tell()
        command = [sys.executable, "-m", "hf_summ.training", *flags]
        # directly into the file, as the run may outlive this process
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT)
    try:
        output = _follow(process, log, start)
    except BaseException:
        # a run survives if this process is killed, but is stopped if it is interrupted
        process.terminate()
        process.wait()
        raise
    if process.returncode == IN_USE:
        raise FolderInUse(job.folder)
    if process.returncode:
        raise JobFailed(_reason(output, process.returncode), job.folder)


def _follow(process: subprocess.Popen, log: Path, start: int) -> str:
    """Print the log from byte `start` on until the process ends, and return its end."""
    tail = b""
    # a chunk may end within a character
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with open(log, "rb") as file:
        file.seek(start)
        while True:
            has_ended = process.poll() is not None
            chunk = file.read()
            tail = (tail + chunk)[-_TAIL:]
            print(decoder.decode(chunk), end="", file=sys.stderr, flush=True)
            if has_ended:
                return tail.decode("utf-8", "replace")
            time.sleep(_INTERVAL)


def _reason(output: str, status: int) -> str:
    lines = [line.strip() for line in output.replace("\r", "\n").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else f"{lines[-1] if lines else 'no output'} (exit status {status})"
