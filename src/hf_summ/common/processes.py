"""Processes that this one starts: their share of its processors, and their end with it."""

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


def end_with_parent() -> None:
    """From now on, this process of multiprocessing gets SIGTERM when the one that started it ends."""
    # imported here: a summary on the command line needs the number of threads alone
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_and_end, daemon=True).start()


def is_running(process: int) -> bool:
    """Whether a process of this number runs on this machine; always on Windows, where asking would end it."""
    if os.name == "posix":
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return True
