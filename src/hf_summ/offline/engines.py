"""Summarizing shards in this process, in several processes on this machine, or on all machines of a Ray cluster."""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import no_warnings, one_line
from hf_summ.common.processes import threads_for
from hf_summ.data.columns import WORD_TAGS
from hf_summ.models.pipeline_documents import SOURCES
from hf_summ.models.text_phrases import read_phrases
from hf_summ.offline.shards import ADDED_COLUMNS, Plan, Row, Shard, Summarized

# called with the number of rows summarized since the last call
Progress = Callable[[int], object]
# a text that every model can summarize, unless the model or its settings are wrong
_PLAIN_TEXT = "The mayor opened the new bridge on Monday."
LESS_MEMORY = "if memory was too small, lower --batch_size or --num_processes, and rerun the command to resume"
# how often processes of a Ray cluster may end at a shard, which is not necessarily the cause
ATTEMPTS = 3
# between the numbers of two seeds; on a CPU, torch reads 32 bits of them
_STRIDE = 0x9E3779B1


@dataclass(frozen=True)
class Work:
    """How to summarize rows. It is sent to other processes, so it contains a function that loads the model.

    Args:
        load: returns the pipeline; its argument `device`, if given, is the default device.
        settings: settings of the pipeline's call.
        batch_size: number of documents per batch.
        output_column: the column for the summaries.
        phrases: key phrases for every document, in place of the rows' own, for models that read them.
        seed: seed of summaries that are sampled.
        uses_torch: whether the model is one of PyTorch, and not of graphs.
    """

    load: Callable[..., Any]
    settings: dict[str, Any]
    batch_size: int
    output_column: str
    phrases: dict[str, float] | None = None
    seed: int = 0
    uses_torch: bool = True

    def begin(self, **where: Any) -> "ShardSummarizer":
        """Load the model; `where` may contain its `device`."""
        return ShardSummarizer(self, self.load(**where))


class ShardSummarizer:
    """Summarizes shards with a loaded model."""

    def __init__(self, work: Work, summarizer: Any):
        self._work = work
        self._summarizer = summarizer
        processor = getattr(summarizer, "processor", None)
        inputs = getattr(processor, "model_input_names", ())
        self._reads = [name for name, (field, _) in SOURCES.items() if field in inputs]
        # a model without a tagger needs tags of the plain text too
        tags = getattr(processor, WORD_TAGS, ())[:1] * len(_PLAIN_TEXT.split())
        self._plain = Row({}, _PLAIN_TEXT, source={WORD_TAGS: tags} if tags else {})
        # a checkpoint's settings may request several summaries
        self._settings = {**work.settings, "num_return_sequences": 1, "return_details": True}

    def __call__(self, shard: Shard, progress: Progress) -> Summarized:
        """The shard's rows with their summaries, in order.

        Documents are batched by length. If the model cannot summarize a row, `error` has the reason, and the other rows
        of the batch are summarized one by one.

        Raises:
            ValueError: the model cannot summarize a plain sentence either.
        """
        # sampled texts must not depend on the process that generates them
        if torch := sys.modules.get("torch"):
            torch.manual_seed((self._work.seed * _STRIDE + shard.number) % 2**32)
        rows = {index: row for index, row in enumerate(shard.rows) if row.text is not None}
        # longest first: if memory is too small, this appears early
        order = sorted(rows, key=lambda index: -_length(rows[index].text))
        progress(len(shard.rows) - len(rows))
        records = {}
        with no_warnings(self._summarizer):
            for index, record in zip(order, self._summarize([rows[index] for index in order]), strict=True):
                records[index] = record
                progress(1)
        read = [record for _, record in sorted(records.items()) if not isinstance(record, str)]
        return Summarized(
            shard.number,
            [self._to_record(row, records.get(index)) for index, row in enumerate(shard.rows)],
            sum(not record["summary_text"].strip() for record in read),
            sum(record["details"]["finish_reason"] == "length" for record in read),
        )

    def _summarize(self, rows: list[Row]) -> Iterator[dict[str, Any] | str]:
        """The pipeline's record of each row, or the error message."""
        done = 0
        while done < len(rows):
            try:
                for (record,) in self._call(rows[done:], self._work.batch_size):
                    done += 1
                    yield record
            except Exception:
                batch = rows[done : done + self._work.batch_size]
                for row in batch:
                    done += 1
                    yield self._summarize_one(row)

    def _summarize_one(self, row: Row) -> dict[str, Any] | str:
        try:
            return next(self._call([row], 1))[0]
        except Exception as error:
            self._check_model()
            return _reason(error)

    def _check_model(self) -> None:
        try:
            next(self._call([self._plain], 1))
        except Exception as error:
            raise ValueError(f"no document can be summarized: {_reason(error)}") from error

    def _call(self, rows: list[Row], batch_size: int) -> Iterator[list[dict[str, Any]]]:
        source = {name: [row.source.get(name) for row in rows] for name in self._reads}
        if "phrases" in source:
            source["phrases"] = [self._work.phrases or read_phrases(value) for value in source["phrases"]]
        source = {name: values for name, values in source.items() if any(value is not None for value in values)}
        texts = _Texts([row.text for row in rows])
        yield from self._summarizer(texts, batch_size=batch_size, **source, **self._settings)

    def _to_record(self, row: Row, record: dict[str, Any] | str | None) -> dict[str, Any]:
        summary, tokens, error = None, [None, None], row.error
        if isinstance(record, str):
            error = record
        elif record is not None:
            summary, tokens = record["summary_text"], [record["details"][name] for name in ADDED_COLUMNS[:2]]
        added = zip(ADDED_COLUMNS, [*tokens, error], strict=True)
        return {**row.values, self._work.output_column: summary, **dict(added)}


class _Texts:
    """A list that the summarizer reads lazily, so that summaries before an error are not lost."""

    def __init__(self, texts: Sequence[Any]):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Any:
        return self._texts[index]


def _length(text: str | list[str] | None) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text or ()))


def _reason(error: Exception) -> str:
    return one_line(error) or type(error).__name__


def in_this_process(work: Work, plan: Plan, done: set[int], progress: Progress) -> Iterator[Summarized]:
    """Summarize the remaining shards, one after the other."""
    summarize = work.begin()
    for shard in plan.shards(done):
        yield summarize(shard, progress)


def in_processes(work: Work, plan: Plan, done: set[int], progress: Progress, number: int) -> Iterator[Summarized]:
    """Summarize the remaining shards in processes on this machine, and yield them as they are finished.

    Each process uses its share of the cores and one of the GPUs. They end with the iteration, or with this process.

    Args:
        work, plan, done: how to summarize, all shards, and the numbers of finished ones.
        progress: called with the number of finished rows, a shard at a time.
        number: number of processes.
    """
    if plan.number is not None:
        number = min(number, plan.number - len(done))
    # torch's threads do not run in a forked process
    context = multiprocessing.get_context("spawn")
    child_end, own_end = context.Pipe(duplex=False)
    start = partial(_start, work, context.Value("i"), threads_for(number, only_idle=True), child_end)
    shards, begun = plan.shards(done), set()
    try:
        with ProcessPoolExecutor(number, context, start) as pool, own_end:
            while True:
                for shard in islice(shards, 2 * number - len(begun)):
                    with _ignore_sigint():
                        begun.add(pool.submit(_summarize, shard, plan.folder))
                if not begun:
                    return
                finished, begun = wait(begun, return_when=FIRST_COMPLETED)
                for future in finished:
                    file = future.result()
                    summarized = pickle.loads(file.read_bytes())  # noqa: S301 (written by a process of this one)
                    file.unlink()
                    progress(len(summarized.rows))
                    yield summarized
    except BrokenProcessPool as error:
        raise ValueError(f"a process ended before its rows were summarized: {LESS_MEMORY}") from error


# of one of several processes: returns its model, which it loads with its first shard
_begin: Callable[[], ShardSummarizer]


def _start(work: Work, started: Any, threads: int | None, end: Connection) -> None:
    """Prepare a process, which ends when the other end of this connection is closed."""
    global _begin
    threading.Thread(target=_end_with, args=(end,), daemon=True).start()
    from tqdm import tqdm

    # tqdm's default lock is a semaphore, which a process that is stopped would leak
    tqdm.set_lock(threading.RLock())
    if threads is not None:
        # graphs are loaded with this number
        os.environ["OMP_NUM_THREADS"] = str(threads)
    with started:
        index = started.value
        started.value += 1
    gpus = 0
    if work.uses_torch:
        import torch

        gpus = torch.cuda.device_count()
        if threads is not None:
            torch.set_num_threads(threads)
    _begin = cache(partial(work.begin, **({"device": f"cuda:{index % gpus}"} if gpus else {})))


def _end_with(connection: Connection) -> None:
    connection.poll(None)
    os._exit(1)


def _summarize(shard: Shard, folder: Path) -> Path:
    """Summarize a shard, and write it to a file of the folder: half a long message would block its reader for ever."""
    try:
        summarized = _begin()(shard, lambda rows: None)
        # the next run overwrites what a run that is killed leaves
        file = folder / f".shard-{shard.number}.part"
        file.write_bytes(pickle.dumps(summarized))
        return file
    except Exception as error:
        # errors of other types may need arguments that are not sent with them
        raise ValueError(_reason(error)) from error


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


def on_ray(
    work: Work,
    plan: Plan,
    done: set[int],
    progress: Progress,
    number: int | None,
    address: str | None,
    announce: Callable[[str], object],
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
    """
    # must be set before Ray is imported
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "--engine ray needs ray", "ray")
    from ray.exceptions import RayError, RayTaskError

    with _connected(address):
        number, gpus = _processes(number)
        actor = ray.remote(num_cpus=1, num_gpus=gpus)(_Actor)
        shards, ends = plan.shards(done), Counter[str]()
        waiting = [*islice(shards, 1)]
        # what a process was called for -> the process, and its shard; without one, it loads the model
        called: dict[Any, tuple[Any, Shard | None]] = {}

        def add() -> None:
            process: Any = actor.remote(work)
            called[process.begin.remote()] = process, None

        for _ in range(number):
            add()
        while waiting or any(shard for _, shard in called.values()):
            (ready, *_), _ = ray.wait([*called])
            process, shard = called.pop(ready)
            try:
                summarized = ray.get(ready)
            except RayTaskError as error:
                raise ValueError(_reason(error.cause)) from error
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


class _Actor:
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


def _processes(number: int | None) -> tuple[int, int]:
    """The number of processes, and the number of GPUs for each."""
    import ray

    resources = ray.cluster_resources()
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    most = min(cpus, gpus) if gpus else cpus
    if most < (number or 1):
        # they would wait for ever
        raise ValueError(f"--num_processes {number or 1}: Ray has {cpus} CPUs and {gpus} GPUs: give at most {most}")
    return number or most, 1 if gpus else 0
