"""Processes whose parent is killed, and the threads of each."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hf_summ.common import processes
from hf_summ.common.processes import threads_for
from tests.data.files import write

PARENT = """
import multiprocessing, os, signal, sys, time
from pathlib import Path
from hf_summ.common.processes import end_with_parent

def work(connection, path):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent()
    try:
        connection.send("ready")
        time.sleep(60)
    finally:
        Path(path).write_text("ended in order")

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=work, args=(theirs, sys.argv[1])).start()
    ours.recv()
    os.kill(os.getpid(), 9)
"""


def test_processes_end_with_their_parent(tmp_path):
    write(tmp_path / "parent.py", PARENT)
    parent = subprocess.run([sys.executable, str(tmp_path / "parent.py"), str(tmp_path / "file")])
    assert parent.returncode == -signal.SIGKILL
    end = time.monotonic() + 60
    while not (tmp_path / "file").exists() or not (tmp_path / "file").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_threads(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads_for(10_000) == 1
    assert threads_for(1) == len(os.sched_getaffinity(0))
    for quota, threads in (("250000 100000", 2), ("50000 100000", 1), ("max 100000", 9), ("9900000 100000", 9)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(9))
        monkeypatch.setattr(processes, "_QUOTA", Path(write(tmp_path / "cpu.max", f"{quota}\n")))
        assert threads_for(1) == threads
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    for load, threads in ((0.9, 9), (7.0, 9), (9.5, 7), (40.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0, 0))
        assert threads_for(1, only_idle=True) == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_for(1) is None
