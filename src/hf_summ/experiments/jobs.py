"""Runs that are done once: a folder each, named by a hash of what they are told."""

import codecs
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from hf_summ.common.files import write_atomically
from hf_summ.experiments.worker import BUSY, LOCK, RECORD, SETTINGS

# of what a failed run has written, so much is looked through for its reason
_TAIL = 20_000
# seconds from one look at a run's log to the next
_INTERVAL = 0.2


@dataclass(frozen=True)
class Job:
    """A training or a decoding: what it is told, and the folder that it leaves things in."""

    folder: Path
    settings: dict[str, Any]

    @property
    def output(self) -> Path:
        """Where the recipe writes."""
        return self.folder / "output"

    @property
    def is_done(self) -> bool:
        """Whether it ran to its end."""
        return (self.folder / RECORD).exists()


class JobFailed(Exception):
    """The run in `folder` ended with an error; the message is the run's own."""

    def __init__(self, message: str, folder: Path):
        super().__init__(message)
        self.folder = folder


class JobBusy(Exception):
    """Another process is at it, which has `lock` locked for as long."""

    def __init__(self, lock: Path):
        super().__init__(f"another process has {lock} locked")
        self.lock = lock


def perform(job: Job) -> None:
    """Does what the job says, unless it is done.

    Its progress goes to standard error and, with all else that it says, to `log.txt` in its folder. A run that was
    interrupted goes on from its last checkpoint.

    Raises:
        JobFailed: the run could not start or did not reach its end.
        JobBusy: another process is at it.
    """
    if job.is_done:
        return
    job.folder.mkdir(parents=True, exist_ok=True)
    settings = job.settings | {"output_dir": str(job.output)}
    try:
        # never under a run that is going on, and never two at a time
        with FileLock(job.folder / LOCK, timeout=0):
            # paths and the like as texts
            plain = json.loads(json.dumps(settings, default=str))
            write_atomically(job.folder / SETTINGS, yaml.safe_dump(plain, sort_keys=True, allow_unicode=True))
    except Timeout:
        raise JobBusy(job.folder / LOCK) from None
    log = job.folder / "log.txt"
    with open(log, "ab") as written:
        start = written.tell()
        # straight into the file: a run outlives whoever started it
        process = subprocess.Popen(
            [sys.executable, "-m", "hf_summ.experiments.worker", str(job.folder)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    said = _follow(process, log, start)
    if process.returncode == BUSY:
        raise JobBusy(job.folder / LOCK)
    if process.returncode:
        raise JobFailed(_reason(said, process.returncode), job.folder)


def _follow(process: subprocess.Popen, log: Path, start: int) -> str:
    """Shows what is written to the log from byte `start` on until the process ends; returns the last of it."""
    tail = b""
    # a piece may end within a letter
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with open(log, "rb") as file:
        file.seek(start)
        while True:
            has_ended = process.poll() is not None
            piece = file.read()
            tail = (tail + piece)[-_TAIL:]
            print(decoder.decode(piece), end="", file=sys.stderr, flush=True)
            if has_ended:
                return tail.decode("utf-8", "replace")
            time.sleep(_INTERVAL)


def _reason(said: str, status: int) -> str:
    """The error that a failed run ended with, in one line."""
    lines = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    return f"{lines[-1] if lines else 'it said nothing'} (exit status {status})"
