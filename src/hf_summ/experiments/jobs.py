"""Jobs: training and decoding runs of the recipe, each in a process and an output folder of its own.

The recipe keeps a ledger and a lock in an output folder. The ledger says whether the run in the folder is finished. The
lock is held while a run works in the folder, even if the process that started the run was killed.
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

# The number of bytes at the end of a failed run's output that are searched for the error message.
_TAIL = 20_000
# The seconds between two reads of a run's log.
_INTERVAL = 0.2


@dataclass(frozen=True)
class Job:
    """A training or decoding run of the recipe.

    Args:
        folder: the output folder of the run.
        settings: the flags of the run, without `output_dir`.
        first: the training run from whose model this training run starts; None if there is no such run.
    """

    folder: Path
    settings: Flags
    first: "Job | None" = None

    @property
    def runs(self) -> list["Job"]:
        """The runs that must be performed for this run's results, in order: `first`, if there is one, and this run."""
        if self.first is None:
            return [self]
        return [self.first, self]

    @property
    def is_finished(self) -> bool:
        """Whether the results of the run are in its folder, according to the ledger."""
        step = "predict"
        if self.settings.get("do_train"):
            step = "train"
        return Ledger(self.folder).is_finished(step)


class JobFailed(Exception):
    """A run ended with an error.

    Args:
        message: why the run failed.
        folder: the output folder of the run.
    """

    def __init__(self, message: str, folder: Path):
        super().__init__(message)
        self.folder = folder


def perform(job: Job) -> None:
    """Run a job in a separate process and wait for its end. A finished job is not run again.

    The output of the run is printed to standard error and appended to `log.txt` in the job's folder. A run that was
    interrupted before resumes from its last checkpoint.

    Raises:
        JobFailed: the run could not start or complete.
        FolderInUse: another process is running the job.
        OSError: the folder cannot be written to.
    """
    if job.is_finished:
        return
    # This takes the lock only for a moment, to find out whether another run holds it. The run itself would find that
    # out too, but only after it has built its model.
    with locked(job.folder):
        log = job.folder / "log.txt"
    command = [sys.executable, "-m", "hf_summ.training", *_command_line(job)]
    with open(log, "ab") as log_file:
        start = log_file.tell()
        # The run writes into the file directly instead of a pipe, as the run may outlive this process.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT)
    try:
        output = _follow(process, log, start)
    except BaseException:
        # If the user interrupts this process, the run must stop too. Only a run whose parent was killed continues.
        process.terminate()
        process.wait()
        raise
    if process.returncode == IN_USE:
        raise FolderInUse(job.folder)
    if process.returncode:
        raise JobFailed(_reason(output, process.returncode), job.folder)


def _command_line(job: Job) -> list[str]:
    """The flags of a job's run, with `output_dir`, as arguments of a command line."""
    settings = job.settings | {"output_dir": job.folder}
    tokens = []
    for name, value in settings.items():
        # An empty mapping sets nothing, but `as_flag` would write it as `null`, which removes values.
        if value != {}:
            tokens.extend(as_flag(name, value))
    return tokens


def _follow(process: subprocess.Popen, log: Path, start: int) -> str:
    """Print what a process writes to its log to standard error, until the process ends.

    Args:
        process: the process.
        log: the file to which the process writes.
        start: the number of bytes that were in the file before the process started.

    Returns:
        The end of the process's output, at most `_TAIL` bytes of it.
    """
    tail = b""
    # An incremental decoder keeps the bytes of a character whose other bytes come with the next chunk.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with open(log, "rb") as file:
        file.seek(start)
        while True:
            # This is asked before the file is read, so that no output after the last read is lost.
            has_ended = process.poll() is not None
            chunk = file.read()
            tail = (tail + chunk)[-_TAIL:]
            print(decoder.decode(chunk), end="", file=sys.stderr, flush=True)
            if has_ended:
                return tail.decode("utf-8", "replace")
            time.sleep(_INTERVAL)


def _reason(output: str, status: int) -> str:
    """Why a run failed: the text of its last line that begins with `error: `, or its last line and exit status.

    Args:
        output: the end of the run's output.
        status: the exit status of the run's process.
    """
    lines = []
    # A progress bar writes a carriage return between its states, of which each counts as a line.
    for line in output.replace("\r", "\n").splitlines():
        if line.strip():
            lines.append(line.strip())
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    last_line = lines[-1] if lines else "no output"
    return f"{last_line} (exit status {status})"
