"""A pool of processes, each with a connection to this one, which stops them; they do not outlive it."""

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

# seconds to wait until a process ends
_PATIENCE = 5.0
# a container's CPU quota in cgroup v2: CPU microseconds per period, and the period
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Worker:
    """A process of a pool.

    Attributes:
        process: the process.
        connection: this process's end of the connection.
        arguments: the arguments of its target.
    """

    def __init__(self, process: BaseProcess, connection: Connection, arguments: tuple):
        self.process, self.connection, self.arguments = process, connection, arguments

    def send(self, message: Any) -> None:
        """Send a message; if the process has ended, the next `recv` reports it."""
        with suppress(OSError):
            self.connection.send(message)

    def recv(self) -> tuple[str, Any]:
        """The process's next message: a kind and a value.

        The pool adds two kinds: `failed`, with the message of the target's error, and `ended`, with the manner in which
        the process ended.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)
            code = self.process.exitcode or 0
            return "ended", f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"


class Pool:
    """Processes that run `target(connection, *arguments)`; leaving its context stops the remaining ones.

    They ignore Ctrl-C, and receive SIGTERM when this process stops them or ends. Unless the target handles SIGTERM, it
    raises SystemExit.

    Args:
        target: a function at the top level of a module, which sends messages: a kind and a value.
        patience: seconds to wait after SIGTERM until processes end.

    Attributes:
        workers: the processes that were added and not removed.
    """

    def __init__(self, target: Callable[..., object], patience: float = _PATIENCE):
        # torch's threads do not run in a forked process
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
        # with only one open copy of this end, the connection closes when the process ends
        theirs.close()
        self.workers.append(Worker(process, ours, arguments))

    def remove(self, worker: Worker) -> None:
        """Remove a process that is ending or has ended."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join(_PATIENCE)

    def replace(self, worker: Worker) -> None:
        """Start another process in place of one that has ended."""
        self.remove(worker)
        self.add(*worker.arguments)

    def wait_ready(self, seconds: float | None = None) -> list[Worker]:
        """The processes with a message, as soon as there is one; an empty list after this number of seconds."""
        ready = wait([worker.connection for worker in self.workers], seconds)
        return [worker for worker in self.workers if worker.connection in ready]


def threads_for(processes: int) -> int | None:
    """Number of threads for each process, its share of the container's processors; None if OMP_NUM_THREADS sets it."""
    if "OMP_NUM_THREADS" in os.environ:
        return None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # without a quota, the file is missing or has "max" instead of a number
    with suppress(OSError, ValueError):
        quota, period = map(int, _QUOTA.read_text().split())
        processors = min(processors, quota // period)
    return max(1, processors // processes)


def end_with_parent() -> None:
    """From now on, this process of multiprocessing gets SIGTERM when the one that started it ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_and_end, daemon=True).start()


def _run(connection: Connection, target: Callable[..., object], arguments: tuple) -> None:
    # exit regularly, which releases semaphores
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent()
    try:
        target(connection, *arguments)
    except Exception as error:
        # the pool may have closed the connection
        with suppress(OSError):
            connection.send(("failed", one_line(error) or type(error).__name__))


@contextmanager
def _ignore_sigint() -> Generator[None]:
    """Processes started in this context ignore Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
