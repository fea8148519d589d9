"""Helpers of the benchmarks: alternate candidates in one process, and measure CPU time and the allocator's peak."""

import os
import statistics
import sys
import time
from collections.abc import Callable

# by default glibc returns large buffers to the system, and page faults slow candidates with large buffers; with these
# settings it keeps them
_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": "1",
}


def fix_allocator() -> None:
    """Restart this program with the allocator's settings, which only a new process reads."""
    if any(os.environ.get(name) != value for name, value in _ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_ALLOCATOR})


def seconds_of_rounds(
    candidates: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """CPU seconds of each candidate in each round, in the order A B C A B C … after one warm-up round.

    Args:
        clock: `time.perf_counter` for wall time.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, candidate in candidates.items():
            start = clock()
            candidate()
            if turn:
                times[name].append(clock() - start)
    return times


def cpu_seconds(candidates: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The medians of `seconds_of_rounds`."""
    return {name: statistics.median(times) for name, times in seconds_of_rounds(candidates, rounds).items()}


def peak_mebibytes(candidate: Callable[[], object]) -> float:
    """The peak of torch's allocator above its initial level, in MiB."""
    import torch

    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as profile:
        candidate()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak / 2**20


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table, as in the documentation."""
    # imported late, as it imports torch, which must not be loaded before `fix_allocator`
    from hf_summ.common.pages import markdown_table

    print(f"\n{title}\n\n{markdown_table(columns, rows)}", flush=True)
