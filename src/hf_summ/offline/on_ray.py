"""Shards summarized on all machines of a Ray cluster, by Ray Data."""

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.offline.shards import Plan, Shard, Summarized
from hf_summ.offline.work import Tell, Work

# must be in the environment before Ray is imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import pandas as pd
    import ray
    from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
    from ray.data.block import BlockMetadata
    from ray.exceptions import RayError
except ImportError as error:
    raise ImportError("--engine ray needs ray: pip install 'hf-summ[ray]'") from error

# how often a shard is tried whose process ends
_ATTEMPTS = 3


def on_ray(
    work: Work, plan: Plan, done: set[int], tell: Tell, number: int | None, address: str | None
) -> Iterator[Summarized]:
    """The shards that are not done, as the cluster finishes them.

    The rows are read on this machine and the summaries come back to it, so the others need the package, and the model
    by its name, but none of the files. One CPU is left to the reader.

    Args:
        work, plan, done, tell: what is done to which shards, and who is told of its progress.
        number: number of processes with a model; None for one less than the CPUs, or for the number of GPUs.
        address: the cluster's; None for the one that this process is connected to, or else for one of its own, which
            ends with it.

    Raises:
        ValueError: as `in_processes`; more processes than the cluster has CPUs or GPUs; no cluster at the address.
    """
    with _connected(address):
        number, gpus = _processes(work, number)
        context = DataContext.get_current()
        context.enable_progress_bars = False
        shards = ray.data.read_datasource(
            _Shards(plan, done),
            override_num_blocks=1,
            # the files are here
            label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
        )
        summarized = shards.map_batches(
            _Actor,
            fn_constructor_args=(work,),
            compute=ActorPoolStrategy(size=number),
            batch_size=1,
            batch_format="pandas",
            num_gpus=gpus,
            num_cpus=1,
            # by default as often as it ends, for ever
            max_task_retries=_ATTEMPTS - 1,
        )
        try:
            for batch in summarized.iter_batches(batch_size=1, batch_format="pandas", prefetch_batches=0):
                result = batch["shard"].iloc[0]
                if isinstance(result, str):
                    raise ValueError(result)
                tell(len(result.rows))
                yield result
        except RayError as error:
            raise ValueError(f"Ray ended the run: {one_line(error)}: the same command goes on") from error


class _Shards(Datasource):
    """The plan's shards, each a row of one column."""

    def __init__(self, plan: Plan, done: set[int]):
        self._plan, self._done = plan, done

    def estimate_inmemory_data_size(self) -> int | None:
        """Not known."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """One reader, as rows are counted in their order."""
        plan, done = self._plan, self._done

        def read() -> Iterator[pd.DataFrame]:
            return (_frame(shard) for shard in plan.shards(done))

        return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None))]


class _Actor:
    """A process that summarizes shards."""

    def __init__(self, work: Work):
        self._work = work
        self._summarize = None

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        """The shard with its summaries, or why there are none, as an error would have Ray try again or say more."""
        shard: Shard = batch["shard"].iloc[0]
        try:
            if self._summarize is None:
                self._summarize = self._work.begin()
            return _frame(self._summarize(shard, lambda rows: None))
        except Exception as error:
            return _frame(one_line(error) or type(error).__name__)


def _frame(value: Shard | Summarized | str) -> pd.DataFrame:
    # a named tuple would become a row of several columns
    return pd.DataFrame({"shard": pd.Series([value], dtype=object)})


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


def _processes(work: Work, number: int | None) -> tuple[int, int]:
    """How many processes, and how many GPUs for each."""
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
