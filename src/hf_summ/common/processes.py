"""A pool of processes, each with a connection to this one, which ends them and which they do not outlive."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hf_summ.common.messages import one_line

# seconds that a process gets to end by itself
_PATIENCE = 5.0
# of a container, in cgroup v2: the microseconds of all its processors in a period, and the period
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Worker:
    """A process of a pool.

    Attributes:
        process: the process.
        connection: this end of its connection.
        arguments: what its target was called with.
    """

    def __init__(self, process: BaseProcess, connection: Connection, arguments: tuple):
        self.process, self.connection, self.arguments = process, connection, arguments

    def send(self, message: Any) -> None:
        """Send a message; if the process has ended, the next `recv` returns that."""
        with suppress(OSError):
            self.connection.send(message)

    def recv(self) -> tuple[str, Any]:
        """The process's next message, which is a kind and a value.

        Two kinds are the pool's: `failed`, with the message of the error that the target raised, and `ended`, with how
        the process ended.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)
            code = self.process.exitcode or 0
            return "ended", f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"


class Pool:
    """Processes that run `target(connection, *arguments)`; leaving its context stops those that are left.

    They ignore Ctrl-C, and get SIGTERM when this process stops them or has ended itself. Unless the target handles
    SIGTERM, it is a SystemExit.

    Args:
        target: a function of a module, which sends messages of a kind and a value.
        patience: seconds that processes get to end after SIGTERM.

    Attributes:
        workers: the processes that were added and not removed.
    """

    def __init__(self, target: Callable[..., object], patience: float = _PATIENCE):
        # a forked copy of torch's threads would not run
        self._context = multiprocessing.get_context("spawn")
        self._target, self._patience = target, patience
        self.workers: list[Worker] = []

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(self._patience)
            worker.process.kill()
            worker.process.join()
            worker.connection.close()

    def add(self, *arguments: Any) -> None:
        """Start a process."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_run, args=(theirs, self._target, arguments), daemon=True)
        with _ignore_sigint():
            process.start()
        # so that the connection ends with the process
        theirs.close()
        self.workers.append(Worker(process, ours, arguments))

    def remove(self, worker: Worker) -> None:
        """Leave a process that ends or has ended."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join(_PATIENCE)

    def replace(self, worker: Worker) -> None:
        """Start another process in place of one that has ended."""
        self.remove(worker)
        self.add(*worker.arguments)

    def wait_ready(self, seconds: float | None = None) -> list[Worker]:
        """The processes that have a message, as soon as there is one; none after so many seconds."""
        ready = wait([worker.connection for worker in self.workers], seconds)
        return [worker for worker in self.workers if worker.connection in ready]


def threads_for(processes: int) -> int | None:
    """Each process's share of the processors that a container may use; None if OMP_NUM_THREADS sets the threads."""
    if "OMP_NUM_THREADS" in os.environ:
        return None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # without a quota there is no file, or "max" in place of a number
    with suppress(OSError, ValueError):
        quota, period = map(int, _QUOTA.read_text().split())
        processors = min(processors, quota // period)
    return max(1, processors // processes)


def _run(connection: Connection, target: Callable[..., object], arguments: tuple) -> None:
    # an end in order, which gives semaphores back
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        target(connection, *arguments)
    except Exception as error:
        # the pool may have ended
        with suppress(OSError):
            connection.send(("failed", one_line(error) or type(error).__name__))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _ignore_sigint() -> Generator[None]:
    """Processes that are started within ignore Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
