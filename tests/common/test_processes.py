"""The threads of each process."""

import os
from pathlib import Path

from hf_summ.common import processes
from hf_summ.common.processes import threads_for
from tests.data.files import write

# the quota of processor time in a period, as in cpu.max, and the threads on nine processors
CASES_OF_QUOTAS = [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 9), ("9900000 100000", 9)]
# the load of a machine with 16 processors, nine of which are ours, and the threads that are idle
CASES_OF_LOADS = [(0.9, 9), (7.0, 9), (9.5, 7), (40.0, 1)]


def test_threads_are_as_many_as_processors_that_may_be_used(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads_for(10_000) == 1
    assert threads_for(1) == len(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(9))
    for quota, threads in CASES_OF_QUOTAS:
        monkeypatch.setattr(processes, "_QUOTA", Path(write(tmp_path / "cpu.max", f"{quota}\n")))
        assert threads_for(1) == threads
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    for load, threads in CASES_OF_LOADS:
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0, 0))
        assert threads_for(1, only_idle=True) == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_for(1) is None
