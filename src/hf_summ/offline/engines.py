"""Shards as tasks: in this process, of a pool of processes on this machine, or of a Ray cluster."""

import logging
import multiprocessing
import os
import signal
import threading
import uuid
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized

from tqdm import tqdm

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import one_line
from hf_summ.common.processes import threads_for
from hf_summ.offline.shards import Plan, Shard, Summary
from hf_summ.offline.summarizing import Outcome, Progress, ShardSummarizer, Work, count_summaries, reason_of

LESS_MEMORY = "if memory was too small, lower --batch_size or --num_processes, and rerun the command to resume"
# The number of times that Ray runs the task of a shard again if its process ends.
_RETRIES = 3


def _remaining(plan: Plan, done: set[int]) -> deque[int]:
    """The numbers of the shards that are not done, in order."""
    remaining = deque()
    for number in range(plan.shard_count):
        if number not in done:
            remaining.append(number)
    return remaining


def in_this_process(work: Work, plan: Plan, done: set[int], progress: Progress) -> Iterator[Outcome]:
    """Summarize and write the remaining shards, one after the other, and yield the counts of each.

    Args:
        work: how to summarize.
        plan: all shards.
        done: the numbers of the finished shards.
        progress: called with the number of rows that were finished since the last call.
    """
    summarizer = ShardSummarizer(work, plan.text_column)
    for number in _remaining(plan, done):
        summaries = summarizer.summarize(plan.shard(number), progress)
        plan.write(number, summaries)
        yield count_summaries(summaries)


def in_processes(work: Work, plan: Plan, done: set[int], progress: Progress, processes: int) -> Iterator[Outcome]:
    """Summarize and write the remaining shards in processes on this machine, and yield the counts of each.

    Each process uses its share of the cores and one of the GPUs. The processes end with the iteration, or with this
    process. After an error or Ctrl-C, they do not finish their shards.

    Args:
        work: how to summarize.
        plan: all shards.
        done: the numbers of the finished shards.
        progress: called for each shard with the number of its rows.
        processes: the number of processes.

    Raises:
        ValueError: a shard cannot be summarized or written, or a process has ended.
    """
    # More processes than shards would have nothing to do.
    processes = min(processes, plan.shard_count - len(done))
    # In a forked process, the threads of torch would not run.
    context = multiprocessing.get_context("spawn")
    started = context.Value("i")
    threads = threads_for(processes, only_idle=True)
    # The processes end when the write end is closed. The system closes it if this process is killed.
    read_end, write_end = context.Pipe(duplex=False)
    with ProcessPoolExecutor(processes, context, _start, (work, plan, started, threads, read_end)) as pool:
        try:
            for outcome in _outcomes(pool, processes, _remaining(plan, done)):
                progress(outcome.rows)
                yield outcome
        except BrokenProcessPool as error:
            raise ValueError(f"a process ended before its rows were summarized: {LESS_MEMORY}") from error
        except BaseException:
            # The pool waits for its processes, which would otherwise finish their shards first.
            write_end.close()
            raise


def _outcomes(pool: ProcessPoolExecutor, processes: int, remaining: deque[int]) -> Iterator[Outcome]:
    """Summarize and write shards in the processes of a pool, and yield the counts of each.

    Args:
        pool: the pool.
        processes: the number of its processes.
        remaining: the numbers of the shards.

    Raises:
        ValueError: a shard cannot be summarized or written.
        BrokenProcessPool: a process has ended.
    """
    begun: set[Future[Outcome]] = set()
    while remaining or begun:
        # One shard more than there are processes is given to the pool, so that a process that finishes a shard finds
        # the next one at once.
        while remaining and len(begun) <= processes:
            begun.add(pool.submit(_summarize_in_pool, remaining.popleft()))
        finished, begun = wait(begun, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


@dataclass
class _Process:
    """What a process of the pool works with. It loads the model with its first shard."""

    work: Work
    plan: Plan
    device: str | None
    summarizer: ShardSummarizer | None = None


# `_start` sets this variable in each process of the pool, and `_summarize_in_pool` uses it for all shards there.
_process: _Process


def _start(
    work: Work, plan: Plan, started: "Synchronized[int]", threads: int | None, read_end: "Connection[bytes, bytes]"
) -> None:
    """Prepare a process of the pool: its end, its signals, its number of threads and its device.

    Args:
        work: how to summarize.
        plan: all shards.
        started: the number of processes of the pool that have been prepared. All processes share and raise it.
        threads: number of threads of this process; the library of the model chooses it if None.
        read_end: the read end of a pipe. This process ends when the parent closes the write end, or has ended itself.
    """
    global _process
    # Ctrl-C reaches all processes. Only the parent handles it, and ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(read_end,), daemon=True).start()
    # The default lock of tqdm is shared by processes. Python would warn of it if this process is killed.
    tqdm.set_lock(threading.RLock())
    with started:
        index = started.value
        started.value += 1
    if threads is not None:
        # The runtime of exported graphs reads this number when it loads them.
        os.environ["OMP_NUM_THREADS"] = str(threads)
    device = None
    if work.uses_torch:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        if torch.cuda.is_available():
            device = f"cuda:{index % torch.cuda.device_count()}"
    _process = _Process(work, plan, device)


def _end_with(read_end: "Connection[bytes, bytes]") -> None:
    """Wait until the write end of a pipe is closed, and then end this process.

    If the parent was killed, this process would otherwise wait for tasks for ever, as other processes of the pool keep
    the queue of tasks open.
    """
    # The parent writes nothing to the pipe, so reading ends with this error.
    with suppress(EOFError):
        read_end.recv_bytes()
    os._exit(1)


def _summarize_in_pool(number: int) -> Outcome:
    """Summarize and write a shard in a process of the pool, and return its counts.

    Raises:
        ValueError: the shard cannot be summarized or written.
    """
    plan = _process.plan
    try:
        if _process.summarizer is None:
            _process.summarizer = ShardSummarizer(_process.work, plan.text_column, _process.device)
        summaries = _process.summarizer.summarize(plan.shard(number), lambda rows: None)
        plan.write(number, summaries)
    except Exception as error:
        # An error of another type may need arguments that are not sent to the parent with it.
        raise ValueError(reason_of(error)) from error
    return count_summaries(summaries)


def on_ray(
    work: Work, plan: Plan, done: set[int], progress: Progress, tasks: int | None, address: str | None
) -> Iterator[Outcome]:
    """Summarize the remaining shards on a Ray cluster, write them here, and yield the counts of each.

    Rows are read on this machine, and summaries are returned to it. Other machines need the package and access to the
    model under its name, but no files. If the process of a task ends, alone or with its machine, Ray runs the task
    again.

    Args:
        work: how to summarize.
        plan: all shards.
        done: the numbers of the finished shards.
        progress: called for each shard with the number of its rows.
        tasks: the number of tasks at a time; None for the number of GPUs or, without GPUs, of CPUs.
        address: the address of the cluster. None stands for the cluster to which this process is connected, or else for
            a local cluster, which ends with this process.

    Raises:
        ImportError: Ray is not installed.
        ValueError: the cluster cannot be reached or is too small, or a shard cannot be summarized.
        OSError: a shard cannot be written.
    """
    # This must be set before Ray is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "--engine ray needs ray", "ray")
    from ray.exceptions import RayError, RayTaskError

    with _connected(address):
        tasks_at_a_time, gpus_per_task = _tasks_at_a_time(tasks)
        # With another value of `max_calls`, Ray would end a process with a GPU after each task, and every shard would
        # load the model.
        make_remote = ray.remote(max_retries=_RETRIES, num_cpus=1, num_gpus=gpus_per_task, max_calls=0)
        task = make_remote(_summarize_on_ray)
        shared_work = ray.put(work)
        run = uuid.uuid4().hex
        remaining = _remaining(plan, done)
        # The keys are Ray's references to the results of the tasks, and the values the numbers of their shards.
        begun: dict[object, int] = {}
        while remaining or begun:
            while remaining and len(begun) < tasks_at_a_time:
                shard_number = remaining.popleft()
                reference = task.remote(run, shared_work, plan.text_column, plan.shard(shard_number))
                begun[reference] = shard_number
            finished, _ = ray.wait(list(begun), num_returns=1)
            reference = finished[0]
            shard_number = begun.pop(reference)
            try:
                summaries = ray.get(reference)
            except RayTaskError as error:
                raise ValueError(reason_of(error.cause)) from error
            except RayError as error:
                rows = plan.words_for(shard_number)
                raise ValueError(f"{_RETRIES + 1} processes died at {rows}: {LESS_MEMORY}") from error
            plan.write(shard_number, summaries)
            progress(len(summaries))
            yield count_summaries(summaries)


# A process of Ray runs several tasks, and keeps the model of its last task here: the identifier of the task's run, and
# the summarizer with the model. There is at most one entry.
_ray_summarizers: dict[str, ShardSummarizer] = {}


def _summarize_on_ray(run: str, work: Work, text_column: str, shard: Shard) -> list[Summary]:
    """Summarize a shard in a process of Ray, which keeps the model for the next shard of the same run.

    Args:
        run: the identifier of the run.
        work: how to summarize.
        text_column: the column of the documents, for messages.
        shard: what the model reads of the shard's rows.
    """
    if run not in _ray_summarizers:
        _ray_summarizers.clear()
        _ray_summarizers[run] = ShardSummarizer(work, text_column)
    return _ray_summarizers[run].summarize(shard, lambda rows: None)


@contextmanager
def _connected(address: str | None) -> Generator[None]:
    """A context in which this process is connected to a Ray cluster.

    A connection that exists before is used, and stays open afterwards.

    Args:
        address: as in `on_ray`.

    Raises:
        ValueError: the cluster cannot be reached.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ValueError(f"--ray_address {address}: {one_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _tasks_at_a_time(requested: int | None) -> tuple[int, int]:
    """The number of tasks that run at a time, and the number of GPUs for each task.

    A task needs a CPU and, if the cluster has GPUs, a GPU.

    Args:
        requested: the number of tasks that the user asks for; None for as many as the cluster can run.

    Raises:
        ValueError: the cluster cannot run so many tasks at a time, or no task at all.
    """
    import ray

    resources = ray.cluster_resources()
    cpus = int(resources.get("CPU", 0))
    gpus = int(resources.get("GPU", 0))
    gpus_per_task = 1 if gpus else 0
    most = min(cpus, gpus) if gpus else cpus
    if requested is None:
        # The run needs at least one task, even if the cluster can run none, which is the error below.
        requested = max(most, 1)
    if requested > most:
        # Ray reports no error, but lets tasks wait for free CPUs and GPUs, for ever if the cluster has none.
        raise ValueError(f"--num_processes {requested}: Ray has {cpus} CPUs and {gpus} GPUs: give at most {most}")
    return requested, gpus_per_task
