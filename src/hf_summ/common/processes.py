"""The share of processors of each process, and the end by SIGTERM."""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

# the exit statuses with which a shell reports that Ctrl-C or SIGTERM ended a command: 128 plus the signal's number
INTERRUPTED, TERMINATED = 130, 143
# a container's CPU quota in cgroup v2: CPU microseconds per period, and the period
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def omp_threads() -> int | None:
    """The number in OMP_NUM_THREADS, the first one of a list for nested loops; None if it has none."""
    number = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(number) or None if number.isdecimal() else None


def threads_for(processes: int, only_idle: bool = False) -> int | None:
    """Number of threads for each process, its share of the container's processors; None if OMP_NUM_THREADS sets it.

    Args:
        only_idle: leave processors out that are busy at the moment, for which threads would wait at each product.
    """
    if omp_threads() is not None:
        return None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # without a quota, the file is missing or has "max" instead of a number
    with suppress(OSError, ValueError):
        quota, period = map(int, _QUOTA.read_text().split())
        processors = min(processors, quota // period)
    if only_idle and hasattr(os, "getloadavg"):
        processors = min(processors, (os.cpu_count() or 1) - int(os.getloadavg()[0]))
    return max(1, processors // processes)


def end_on_sigterm() -> None:
    """From now on, SIGTERM raises SystemExit, and the command ends as after Ctrl-C."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
