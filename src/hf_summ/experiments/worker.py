"""A run in a process of its own: `python -m hf_summ.experiments.worker FOLDER` does what FOLDER/settings.yaml says.

The process that works holds the lock, so that a run whose starter was killed is not begun a second time beside it.
"""

import json
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from hf_summ.common.files import write_atomically
from hf_summ.training.run import console_main

SETTINGS, RECORD, LOCK = "settings.yaml", "record.json", "lock"
# the exit status that says that another process is at it (sysexits: EX_TEMPFAIL)
BUSY = 75


def main(folder: Path) -> int:
    """The recipe's exit status, 0 when the run had been done before, `BUSY` when another process is at it."""
    try:
        with FileLock(folder / LOCK, timeout=0):
            if (folder / RECORD).exists():
                return 0
            start = time.monotonic()
            sys.argv = ["run_summarization.py", str(folder / SETTINGS)]
            status = console_main()
            if status == 0:
                # written last: a run without it was interrupted, and goes on from its last checkpoint
                record = {"seconds": round(time.monotonic() - start, 1)}
                write_atomically(folder / RECORD, json.dumps(record) + "\n")
            return status
    except Timeout:
        return BUSY


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
