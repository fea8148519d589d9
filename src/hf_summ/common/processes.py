"""The share of processors of each process, its standard streams, and the end by SIGTERM."""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

# A shell reports with these exit statuses that Ctrl-C or SIGTERM ended a command: 128 plus the signal's number.
INTERRUPTED = 130
TERMINATED = 143
# A container's CPU quota in cgroup v2. The file has the CPU microseconds per period, and the period.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def omp_threads() -> int | None:
    """The number in OMP_NUM_THREADS, the first one of a list for nested loops; None if it has none."""
    number = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if not number.isdecimal() or int(number) == 0:
        return None
    return int(number)


def threads_for(processes: int, only_idle: bool = False) -> int | None:
    """Number of threads for each process, its share of the container's processors; None if OMP_NUM_THREADS sets it.

    Args:
        only_idle: leave processors out that are busy at the moment, for which threads would wait at each product.
    """
    if omp_threads() is not None:
        return None
    processors = _available_processors()
    if only_idle and hasattr(os, "getloadavg"):
        busy_processors = int(os.getloadavg()[0])
        idle_processors = (os.cpu_count() or 1) - busy_processors
        processors = min(processors, idle_processors)
    return max(1, processors // processes)


def _available_processors() -> int:
    """The number of processors that this process may use, at most the quota of its container."""
    processors = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    # Without a quota, the file is missing or has "max" instead of a number.
    with suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        processors = min(processors, int(quota) // int(period))
    return processors


def open_missing_streams() -> None:
    """Open the null device for each standard stream that the caller closed, as a shell does for `2>&-`.

    Python has None for such a stream, and `print` to None writes to standard output, that is, into a command's result.
    """
    # A new file gets the lowest free descriptor, so in this order each stream gets its own one: 0, 1 and 2.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            # The processes that a command starts inherit the stream, like any other standard stream.
            os.set_inheritable(descriptor, True)
            # Messages may have characters that cannot be encoded, from the name of a file.
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="backslashreplace"))


def end_on_sigterm() -> None:
    """From now on, SIGTERM raises SystemExit, and the command ends as after Ctrl-C."""

    def end(signal_number: int, frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    # Python lets only the main thread set what a signal does.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
