"""Summarizing shards on all machines of a Ray cluster, with Ray Data."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.offline.engines import ATTEMPTS, Progress, Work, again_and_again
from hf_summ.offline.shards import Plan, Shard, Summarized

# must be set before Ray is imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import pandas as pd
    import ray
    from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
    from ray.data.block import BlockMetadata
    from ray.exceptions import RayError
except ImportError as error:
    raise ImportError("--engine ray needs ray: pip install 'hf-summ[ray]'") from error


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
    model under its name, but no files. One CPU is reserved for reading.

    Args:
        work, plan, done: how to summarize, all shards, and the numbers of finished ones.
        progress: called with the number of finished rows.
        number: number of processes with a model; None for the number of GPUs or, without GPUs, of CPUs but one.
        address: the cluster's; None for the cluster to which this process is connected, or else for a local one, which
            ends with this process.
        announce: called with a note when a process has ended.

    Raises:
        ValueError: as `in_processes`; more processes than the cluster has CPUs or GPUs; no cluster at the address.
    """
    with _connected(address), _one_shard_a_block():
        number, gpus = _processes(work, number)
        shards = ray.data.read_datasource(
            _Shards(plan, done),
            override_num_blocks=1,
            # the files are on this machine
            label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
        )
        summarized = shards.map_batches(
            _Actor,
            fn_constructor_args=(work, _Attempts.remote()),
            compute=ActorPoolStrategy(size=number),
            batch_size=1,
            batch_format="pandas",
            num_gpus=gpus,
            num_cpus=1,
        )
        try:
            for batch in summarized.iter_batches(batch_size=1, batch_format="pandas", prefetch_batches=0):
                result, attempts = batch["shard"].iloc[0], batch["attempts"].iloc[0]
                where = f"at {plan.rows_of(int(batch['number'].iloc[0]))}"
                if result is None:
                    raise ValueError(again_and_again(where))
                if isinstance(result, str):
                    raise ValueError(result)
                if attempts > 1:
                    announce(f"a process ended {where}: another one continued")
                progress(len(result.rows))
                yield result
        except RayError as error:
            raise ValueError(f"Ray ended the run: {one_line(error)}: the same command resumes") from error


class _Shards(Datasource):
    """The plan's shards, each as a row with one column."""

    def __init__(self, plan: Plan, done: set[int]):
        self._plan, self._done = plan, done

    def estimate_inmemory_data_size(self) -> int | None:
        """Unknown."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """One reader, as shards are formed by counting rows in order."""
        plan, done = self._plan, self._done

        def read() -> Iterator[pd.DataFrame]:
            return (_frame(shard) for shard in plan.shards(done))

        return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None))]


@ray.remote(num_cpus=0)
class _Attempts:
    """Counts the attempts at each shard, as Ray would retry a shard whose process ends without limit."""

    def __init__(self):
        self._begun = Counter[int]()

    def begin(self, number: int) -> int:
        """Count an attempt at the shard, and return the number of attempts so far."""
        self._begun[number] += 1
        return self._begun[number]


class _Actor:
    """A process that summarizes shards."""

    def __init__(self, work: Work, attempts: Any):
        self._work, self._attempts = work, attempts
        self._summarize = None

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        """The shard with its summaries, an error message, which is shorter than Ray's, or None after all attempts."""
        shard: Shard = batch["shard"].iloc[0]
        attempts = ray.get(self._attempts.begin.remote(shard.number))
        try:
            if attempts > ATTEMPTS:
                result = None
            else:
                self._summarize = self._summarize or self._work.begin()
                result = self._summarize(shard, lambda rows: None)
        except Exception as error:
            result = one_line(error) or type(error).__name__
        return _frame(result, number=shard.number, attempts=attempts)


def _frame(value: Shard | Summarized | str | None, **numbers: int) -> pd.DataFrame:
    return pd.DataFrame({"shard": pd.Series([value], dtype=object), **numbers})


@contextmanager
def _connected(address: str | None) -> Generator[None]:
    logging.getLogger("ray.data").setLevel(logging.ERROR)
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


@contextmanager
def _one_shard_a_block() -> Generator[None]:
    """Keeps Ray Data from joining shards into one block, which a single process would get, and from showing bars."""
    context = DataContext.get_current()
    before = context.target_max_block_size, context.enable_progress_bars
    # in bytes; a row, which is a shard, is never split
    context.target_max_block_size, context.enable_progress_bars = 1, False
    try:
        yield
    finally:
        context.target_max_block_size, context.enable_progress_bars = before


def _processes(work: Work, number: int | None) -> tuple[int, int]:
    """The number of processes, and the number of GPUs for each."""
    has = ray.cluster_resources()
    cpus, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    most = min(cpus - 1, gpus) if gpus else cpus - 1
    if most < 1:
        raise ValueError(f"--engine ray: Ray has {cpus} CPU, but needs one to read and one to summarize")
    if number is not None and number > most:
        raise ValueError(
            f"--num_processes {number}: Ray has {cpus} CPUs, of which one reads"
            f"{f', and {gpus} GPUs' if gpus else ''}: at most {most}"
        )
    return number or most, 1 if gpus else 0
