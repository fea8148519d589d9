"""Processes that answer, fail, are killed and are stopped, and those whose parent is killed."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hf_summ.common import processes
from hf_summ.common.processes import Pool, threads_for
from tests.data.files import write

ECHO = """
def echo(connection, name):
    while (message := connection.recv()) != "fail":
        connection.send(("echo", (name, message)))
    raise ValueError("no\\nsense")
"""
PARENT = """
import os, sys, time
from pathlib import Path
from hf_summ.common.processes import Pool

def wait(connection, path):
    try:
        connection.send(("ready", None))
        time.sleep(60)
    finally:
        Path(path).write_text("ended in order")

if __name__ == "__main__":
    with Pool(wait) as pool:
        pool.add(sys.argv[1])
        pool.wait_ready()
        os.kill(os.getpid(), 9)
"""


def test_messages_and_ends(tmp_path, monkeypatch):
    # other processes import it
    write(tmp_path / "echoes.py", ECHO)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Pool(importlib.import_module("echoes").echo) as pool:
        pool.add("a")
        (first,) = pool.workers
        assert pool.wait_ready(0) == []
        first.send(1)
        assert pool.wait_ready() == [first]
        assert first.recv() == ("echo", ("a", 1))
        first.process.kill()
        first.process.join()
        # the end is the next message
        first.send(2)
        assert first.recv() == ("ended", "by SIGKILL")
        pool.replace(first)
        (second,) = pool.workers
        second.send("fail")
        assert [second.recv(), second.recv()] == [("failed", "no sense"), ("ended", "with status 0")]
        pool.replace(second)
        (third,) = pool.workers
        third.send(3)
        assert third.recv() == ("echo", ("a", 3))
        os.kill(third.process.pid, signal.SIGINT)
        third.send(4)
        assert third.recv() == ("echo", ("a", 4))
    # an exit, which SIGTERM would not be
    assert third.process.exitcode == 1


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
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_for(1) is None
