"""Runs of the recipe as jobs: each is a separate process, in a folder named by a hash of its settings.

The recipe's ledger in a folder says whether its run is finished. The lock of a folder says that a run is working on it,
even if the process that started the run was killed.
"""

import codecs
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hf_summ.experiments.tables import Flags
from hf_summ.training.__main__ import IN_USE
from hf_summ.training.folder.ledger import FolderInUse, Ledger, locked
from hf_summ.training.parsing import as_flag

# The number of bytes at the end of a failed run's log that are searched for the error.
_TAIL = 20_000
# The seconds between two reads of a run's log.
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
    settings: Flags
    first: "Job | None" = None

    @property
    def runs(self) -> list["Job"]:
        """The runs that yield its model, in order."""
        if self.first is None:
            return [self]
        return [self.first, self]

    @property
    def is_finished(self) -> bool:
        """Whether the run has its results."""
        step = "predict"
        if self.settings.get("do_train"):
            step = "train"
        return Ledger(self.folder).is_finished(step)


class JobFailed(Exception):
    """The run in `folder` ended with an error. The message says why."""

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
    # The run itself finds a locked folder too, but only after it has built its model.
    with locked(job.folder):
        log = job.folder / "log.txt"
    command = [sys.executable, "-m", "hf_summ.training", *_command_line(job)]
    with open(log, "ab") as log_file:
        start = log_file.tell()
        # The run writes into the file directly, as it may outlive this process.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT)
    try:
        output = _follow(process, log, start)
    except BaseException:
        # A run survives if this process is killed, but is stopped if this process is interrupted.
        process.terminate()
        process.wait()
        raise
    if process.returncode == IN_USE:
        raise FolderInUse(job.folder)
    if process.returncode:
        raise JobFailed(_reason(output, process.returncode), job.folder)


def _command_line(job: Job) -> list[str]:
    """The flags of a job's run as they stand on a command line."""
    settings = job.settings | {"output_dir": job.folder}
    tokens = []
    for name, value in settings.items():
        # An empty mapping sets nothing, but `as_flag` would write it as `null`, which removes values.
        if value != {}:
            tokens.extend(as_flag(name, value))
    return tokens


def _follow(process: subprocess.Popen, log: Path, start: int) -> str:
    """Print the log from byte `start` on until the process ends, and return the end of what was printed."""
    tail = b""
    # A chunk may end within a character, whose other bytes come with the next chunk.
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
    """Why a run failed: its last line that begins with `error: `, or else its last line and its exit status.

    Args:
        output: the end of the run's log.
        status: the exit status of its process.
    """
    lines = []
    # A progress bar overwrites its line after a carriage return.
    for line in output.replace("\r", "\n").splitlines():
        if line.strip():
            lines.append(line.strip())
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    last_line = lines[-1] if lines else "no output"
    return f"{last_line} (exit status {status})"
