"""Shards summarized in this process, or in several of this machine."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from tqdm import tqdm

from hf_summ.common.messages import one_line
from hf_summ.offline.shards import Plan, Shard, Summarized
from hf_summ.offline.work import Tell, Work

# how often processes may end at a shard, which may be none of its fault
ATTEMPTS = 3
# seconds between two messages of a process about its progress
_INTERVAL = 0.5
# seconds that a process gets to end by itself
_PATIENCE = 5.0


def in_this_process(work: Work, plan: Plan, done: set[int], tell: Tell) -> Iterator[Summarized]:
    """The shards that are not done, summarized one after the other.

    Raises:
        ValueError: as `Work.load`, and as `ShardSummarizer`.
    """
    summarize = work.begin()
    for shard in plan.shards(done):
        yield summarize(shard, tell)


def in_processes(
    work: Work, plan: Plan, done: set[int], tell: Tell, number: int, announce: Callable[[str], None]
) -> Iterator[Summarized]:
    """The shards that are not done, as the processes of this machine finish them.

    Each process has its share of the cores and is given one of the GPUs. A process that ends is replaced, and its shard
    is summarized again.

    Args:
        work, plan, done, tell: what is done to which shards, and who is told of its progress.
        number: number of processes.
        announce: is told of processes that ended.

    Raises:
        ValueError: as `in_this_process`, or processes end again and again.
    """
    if plan.number is not None:
        number = min(number, plan.number - len(done))
    team = _Team(work, number)
    shards = plan.shards(done)
    again: list[Shard] = []
    ends = Counter[str]()
    try:
        for index in range(number):
            team.add(index)
        while team.workers:
            for worker in team.next_to_speak():
                kind, value = worker.hear()
                if kind == "rows":
                    worker.told += value
                    tell(value)
                    continue
                if kind == "failed":
                    raise ValueError(value)
                finished, worker.shard = worker.shard, None
                if kind == "ended":
                    tell(-worker.told)
                    team.remove(worker)
                    place = "as it loaded the model" if finished is None else f"at {plan.rows_of(finished.number)}"
                    ends[place] += 1
                    if ends[place] == ATTEMPTS:
                        raise ValueError(again_and_again(place, f", the last {value}"))
                    announce(f"a process ended {place}, {value}: another one goes on")
                    again += [] if finished is None else [finished]
                    team.add(worker.index)
                    continue
                worker.told = 0
                worker.shard = again.pop() if again else next(shards, None)
                worker.say(worker.shard)
                if worker.shard is None:
                    team.remove(worker)
                if kind == "done":
                    yield value
    finally:
        team.end()


def again_and_again(place: str, how: str = "") -> str:
    """The message of a run whose processes end at a place as often as is allowed."""
    return (
        f"{ATTEMPTS} processes ended {place}{how}: if memory did not suffice, lower --batch_size or --num_processes; "
        "the same command goes on"
    )


class _Worker:
    """A process that summarizes shards, as its starter knows it."""

    def __init__(self, index: int, process: multiprocessing.process.BaseProcess, connection: Connection):
        self.index, self.process, self.connection = index, process, connection
        self.shard: Shard | None = None
        # rows of the shard whose progress was told
        self.told = 0

    def say(self, shard: Shard | None) -> None:
        """Give it a shard, or tell it that there are no more; if it has ended, that is heard next."""
        with suppress(OSError):
            self.connection.send(shard)

    def hear(self) -> tuple[str, Any]:
        """What it says: `ready`, `rows`, `done` or `failed`, or that it `ended`, and how."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)
            code = self.process.exitcode or 0
            return "ended", f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"


class _Team:
    """The processes that work at present."""

    def __init__(self, work: Work, number: int):
        self._context = multiprocessing.get_context("spawn")
        self._work, self._number = work, number
        self.workers: list[_Worker] = []

    def add(self, index: int) -> None:
        """Start a process."""
        ours, theirs = self._context.Pipe()
        gpus = torch.cuda.device_count()
        where = {"device": f"cuda:{index % gpus}"} if gpus else {}
        threads = max(1, _cores() // self._number)
        process = self._context.Process(target=_serve, args=(theirs, self._work, where, threads), daemon=True)
        with _deaf_to_ctrl_c():
            process.start()
        # so that the end of the process is the end of what can be heard
        theirs.close()
        self.workers.append(_Worker(index, process, ours))

    def remove(self, worker: _Worker) -> None:
        """Forget a process that ends or has ended."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join(_PATIENCE)

    def next_to_speak(self) -> list[_Worker]:
        """The processes that have something to say, as soon as there is one."""
        speaking = wait([worker.connection for worker in self.workers])
        return [worker for worker in self.workers if worker.connection in speaking]

    def end(self) -> None:
        """Stop all processes."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(_PATIENCE)
            worker.process.kill()
            worker.connection.close()


def _serve(connection: Connection, work: Work, where: dict[str, str], threads: int) -> None:
    """What a process does: summarize the shards that it is given."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # an end in order, which gives semaphores back
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # its own lock is such a semaphore, which a process that is killed would leave behind
    tqdm.set_lock(threading.RLock())
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads)
    told, last = 0, 0.0

    def tell(rows: int) -> None:
        nonlocal told, last
        told += rows
        if time.monotonic() - last > _INTERVAL:
            connection.send(("rows", told))
            told, last = 0, time.monotonic()

    try:
        summarize = work.begin(**where)
        connection.send(("ready", None))
        while (shard := connection.recv()) is not None:
            summarized = summarize(shard, tell)
            connection.send(("rows", told))
            told = 0
            connection.send(("done", summarized))
    except Exception as error:
        # who stops this process hears nothing more
        with suppress(OSError):
            connection.send(("failed", one_line(error) or type(error).__name__))


def _end_with_parent() -> None:
    """A process whose starter was killed would otherwise work on for nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _deaf_to_ctrl_c() -> Generator[None]:
    """Processes that are started within do not hear Ctrl-C, as their starter stops them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
