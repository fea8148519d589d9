"""Summarizing shards on all machines of a Ray cluster."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.offline.engines import LESS_MEMORY, Progress, Work
from hf_summ.offline.shards import Plan, Shard, Summarized

# must be set before Ray is imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise ImportError("--engine ray needs ray: pip install 'hf-summ[ray]'") from error

# how often processes may end at a shard, which is not necessarily the cause
ATTEMPTS = 3


def on_ray(
    work: Work,
    plan: Plan,
    done: set[int],
    progress: Progress,
    number: int | None,
    address: str | None,
    announce: Callable[[str], None],
) -> Iterator[Summarized]:
    """Summarize the remaining shards on the cluster, and yield them as they are finished.

    Rows are read on this machine, and summaries are returned to it. Other machines need the package and access to the
    model under its name, but no files. The shard of a process that ends, alone or with its machine, is summarized by
    another one; a new process takes the place of the first as soon as the cluster has one.

    Args:
        work, plan, done: how to summarize, all shards, and the numbers of finished ones.
        progress: called with the number of finished rows.
        number: number of processes with a model; None for the number of GPUs or, without GPUs, of CPUs.
        address: the cluster's; None for the cluster to which this process is connected, or else for a local one, which
            ends with this process.
        announce: called with a note when a process has ended.

    Raises:
        ValueError: as `in_this_process`; processes end again and again; more processes than the cluster has CPUs or
            GPUs; no cluster at the address.
    """
    with _connected(address):
        number, gpus = _processes(number)
        shards, ends = plan.shards(done), Counter[str]()
        waiting = [*islice(shards, 1)]
        # what a process was called for -> the process, and its shard; without one, it loads the model
        called: dict[Any, tuple[Any, Shard | None]] = {}

        def add() -> None:
            process: Any = _Process.options(num_cpus=1, num_gpus=gpus).remote(work)
            called[process.begin.remote()] = process, None

        for _ in range(number):
            add()
        while waiting or any(shard for _, shard in called.values()):
            (ready, *_), _ = ray.wait([*called])
            process, shard = called.pop(ready)
            try:
                summarized = ray.get(ready)
            except RayTaskError as error:
                raise ValueError(one_line(error.cause) or type(error.cause).__name__) from error
            except RayError as error:
                where = "as it loaded the model" if shard is None else f"at {plan.rows_of(shard.number)}"
                ends[where] += 1
                if ends[where] == ATTEMPTS:
                    raise ValueError(f"{ATTEMPTS} processes ended {where}: {LESS_MEMORY}") from error
                announce(f"a process ended {where}: another one continues")
                waiting += [] if shard is None else [shard]
                add()
                continue
            if shard is not None:
                progress(len(summarized.rows))
                yield summarized
            if waiting:
                following = waiting.pop()
                called[process.summarize.remote(following)] = process, following
                waiting = waiting or [*islice(shards, 1)]


@ray.remote
class _Process:
    """A process that summarizes shards."""

    def __init__(self, work: Work):
        self._work = work

    def begin(self) -> None:
        """Load the model."""
        self._summarize = self._work.begin()

    def summarize(self, shard: Shard) -> Summarized:
        """The shard with its summaries."""
        return self._summarize(shard, lambda rows: None)


@contextmanager
def _connected(address: str | None) -> Generator[None]:
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


def _processes(number: int | None) -> tuple[int, int]:
    """The number of processes, and the number of GPUs for each."""
    has = ray.cluster_resources()
    cpus, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    most = min(cpus, gpus) if gpus else cpus
    if most < (number or 1):
        # they would wait for ever
        which = f"--num_processes {number}" if number else "--engine ray"
        raise ValueError(f"{which}: Ray has {cpus} CPUs{f' and {gpus} GPUs' if gpus else ''}: at most {most}")
    return number or most, 1 if gpus else 0
