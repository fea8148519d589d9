"""Runs that are made once, each in a separate process and in a folder named by a hash of its settings.

The process, `python -m hf_summ.experiments.jobs FOLDER`, runs FOLDER/settings.yaml. It holds the lock, so a run whose
parent process was killed is not started a second time in parallel.
"""

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
from hf_summ.training.__main__ import main as run_recipe

_SETTINGS, _RECORD, _LOCK = "settings.yaml", "record.json", "lock"
# the exit status if another process is working on the run (sysexits: EX_TEMPFAIL)
_BUSY = 75
# number of bytes at the end of a failed run's log that are searched for the error
_TAIL = 20_000
# seconds between reads of a run's log
_INTERVAL = 0.2


@dataclass(frozen=True)
class Job:
    """A training or decoding run: its settings and its folder."""

    folder: Path
    settings: dict[str, Any]

    @property
    def output(self) -> Path:
        """The output folder of the recipe."""
        return self.folder / "output"

    @property
    def is_done(self) -> bool:
        """Whether the job is complete."""
        return (self.folder / _RECORD).exists()


class JobFailed(Exception):
    """The run in `folder` ended with an error; the message is the run's."""

    def __init__(self, message: str, folder: Path):
        super().__init__(message)
        self.folder = folder


class JobBusy(Exception):
    """Another process is running the job and holds `lock`."""

    def __init__(self, lock: Path):
        super().__init__(f"another process holds {lock}")
        self.lock = lock


def perform(job: Job) -> None:
    """Run the job, unless it is done.

    Its output goes to standard error and to `log.txt` in its folder. An interrupted run resumes from its last
    checkpoint.

    Raises:
        JobFailed: the run could not start or complete.
        JobBusy: another process is running it.
    """
    if job.is_done:
        return
    job.folder.mkdir(parents=True, exist_ok=True)
    settings = job.settings | {"output_dir": str(job.output)}
    try:
        # the settings are not written during a run, nor by two processes at once
        with FileLock(job.folder / _LOCK, timeout=0):
            # converts paths and similar values to strings
            plain = json.loads(json.dumps(settings, default=str))
            write_atomically(job.folder / _SETTINGS, yaml.safe_dump(plain, sort_keys=True, allow_unicode=True))
    except Timeout:
        raise JobBusy(job.folder / _LOCK) from None
    log = job.folder / "log.txt"
    with open(log, "ab") as written:
        start = written.tell()
        # directly into the file, as the run may outlive this process
        process = subprocess.Popen(
            [sys.executable, "-m", "hf_summ.experiments.jobs", str(job.folder)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        output = _follow(process, log, start)
    except BaseException:
        # a run survives if this process is killed, but is stopped if it is interrupted
        process.terminate()
        process.wait()
        raise
    if process.returncode == _BUSY:
        raise JobBusy(job.folder / _LOCK)
    if process.returncode:
        raise JobFailed(_reason(output, process.returncode), job.folder)


def _follow(process: subprocess.Popen, log: Path, start: int) -> str:
    """Print the log from byte `start` on until the process ends, and return its last part."""
    tail = b""
    # a chunk may end within a character
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


def _reason(output: str, status: int) -> str:
    """The error of a failed run, in one line."""
    lines = [line.strip() for line in output.replace("\r", "\n").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    return f"{lines[-1] if lines else 'no output'} (exit status {status})"


def main(folder: Path) -> int:
    """Run the recipe and return its exit status: 0 if already done, `_BUSY` if another process is running it."""
    try:
        with FileLock(folder / _LOCK, timeout=0):
            if (folder / _RECORD).exists():
                return 0
            start = time.monotonic()
            sys.argv = ["run_summarization.py", str(folder / _SETTINGS)]
            status = run_recipe()
            if status == 0:
                # written last: a run without it was interrupted, and resumes from its last checkpoint
                record = {"seconds": round(time.monotonic() - start, 1)}
                write_atomically(folder / _RECORD, json.dumps(record) + "\n")
            return status
    except Timeout:
        return _BUSY


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
