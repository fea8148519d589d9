"""A run in a process of its own: `python -m hf_summ.experiments.worker FOLDER` runs FOLDER/settings.yaml.

The working process holds the lock, so that a run whose starter was killed is not started a second time in parallel.
"""

import json
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from hf_summ.common.files import write_atomically
from hf_summ.training.run import console_main

SETTINGS, RECORD, LOCK = "settings.yaml", "record.json", "lock"
# the exit status if another process is working on the run (sysexits: EX_TEMPFAIL)
BUSY = 75


def main(folder: Path) -> int:
    """Run the recipe and return its exit status: 0 if already done, `BUSY` if another process is working on it."""
    try:
        with FileLock(folder / LOCK, timeout=0):
            if (folder / RECORD).exists():
                return 0
            start = time.monotonic()
            sys.argv = ["run_summarization.py", str(folder / SETTINGS)]
            status = console_main()
            if status == 0:
                # written last: a run without it was interrupted, and resumes from its last checkpoint
                record = {"seconds": round(time.monotonic() - start, 1)}
                write_atomically(folder / RECORD, json.dumps(record) + "\n")
            return status
    except Timeout:
        return BUSY


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
