"""Shards as tasks: in this process, of a pool of processes on this machine, or of a Ray cluster."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from tqdm import tqdm

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import no_warnings, one_line
from hf_summ.common.processes import threads_for
from hf_summ.models.text_processing_highlight_transformer import read_phrases
from hf_summ.offline.shards import Example, Plan, Shard, Summary
from hf_summ.runtimes.documents import SOURCES

# called with the number of rows summarized since the last call
Progress = Callable[[int], object]
LESS_MEMORY = "if memory was too small, lower --batch_size or --num_processes, and rerun the command to resume"
# how often Ray runs the task of a shard again whose process has ended
_RETRIES = 3
# between the numbers of two seeds; on a CPU, torch reads 32 bits of them
_STRIDE = 0x9E3779B1


@dataclass(frozen=True)
class Work:
    """How to summarize rows. It is sent to other processes, so it contains a function that loads the model.

    Args:
        load: returns the pipeline; its argument `device`, if given, is the default device.
        settings: settings of the pipeline's call.
        batch_size: number of documents per batch.
        phrases: key phrases for every document, in place of the rows' own, for models that read them.
        seed: seed of summaries that are sampled.
        uses_torch: whether the model is one of PyTorch, and not of graphs.
    """

    load: Callable[..., Any]
    settings: dict[str, Any]
    batch_size: int
    phrases: dict[str, float] | None = None
    seed: int = 0
    uses_torch: bool = True


@dataclass
class Outcome:
    """What a run, or a shard of it, has done.

    Args:
        shards: number of shards in the folder.
        rows: number of rows that were summarized.
        failed: number of these rows without a summary.
        cut: number of these rows whose documents were truncated.
        source_tokens, cut_tokens: tokens of the truncated documents, and how many of them were removed.
        empty: number of rows with an empty summary.
        unfinished: number of rows whose summary has the most tokens allowed, and may be cut off.
    """

    shards: int = 0
    rows: int = 0
    failed: int = 0
    cut: int = 0
    source_tokens: int = 0
    cut_tokens: int = 0
    empty: int = 0
    unfinished: int = 0

    def add(self, shard: "Outcome") -> None:
        """Add a shard's counts."""
        for count in fields(Outcome):
            total = getattr(self, count.name) + getattr(shard, count.name)
            setattr(self, count.name, total)


def count_summaries(summaries: Sequence[Summary]) -> Outcome:
    """The outcome of a shard."""
    outcome = Outcome(shards=1, rows=len(summaries))
    for summary in summaries:
        if summary.text is None:
            outcome.failed += 1
        elif not summary.text.strip():
            outcome.empty += 1
        if summary.is_unfinished:
            outcome.unfinished += 1
        if summary.cut_tokens and summary.source_tokens:
            outcome.cut += 1
            outcome.source_tokens += summary.source_tokens
            outcome.cut_tokens += summary.cut_tokens
    return outcome


class ShardSummarizer:
    """Summarizes shards with a model, which it loads.

    Args:
        device: the default device of the model.
    """

    def __init__(self, work: Work, text_column: str, device: str | None = None):
        self._work = work
        self._text_column = text_column
        self._summarizer = work.load() if device is None else work.load(device=device)
        processor = getattr(self._summarizer, "processor", None)
        inputs = getattr(processor, "model_input_names", ())
        self._source_columns = [name for name, (model_input, _) in SOURCES.items() if model_input in inputs]
        # a checkpoint's settings may request several summaries
        self._settings = {**work.settings, "num_return_sequences": 1, "return_details": True}

    def __call__(self, shard: Shard, progress: Progress) -> list[Summary]:
        """The summaries of a shard's rows, in order.

        Documents are batched by length. If the model cannot summarize a row, `error` has the reason, and the other rows
        of the batch are summarized one by one.

        Raises:
            ValueError: the model refuses all of several rows, as a setting is wrong that all other rows share.
        """
        # sampled texts must not depend on the process that generates them
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed((self._work.seed * _STRIDE + shard.number) % 2**32)
        summaries: list[Summary] = [Summary(None, error=f"'{self._text_column}' is blank")] * len(shard.examples)
        examples = {index: example for index, example in enumerate(shard.examples) if example is not None}
        progress(len(shard.examples) - len(examples))
        # longest first: if memory is too small, this appears early
        order = sorted(examples, key=lambda index: -_length(examples[index].text))
        with no_warnings(self._summarizer):
            results = self._summarize([examples[index] for index in order])
            for index, summary in zip(order, results, strict=True):
                summaries[index] = summary
                progress(1)
        refused = [summaries[index].error for index in examples if summaries[index].text is None]
        if len(refused) > 1 and len(refused) == len(examples):
            raise ValueError(f"none of {len(refused):,} rows can be summarized: {refused[0]}")
        return summaries

    def _summarize(self, examples: list[Example]) -> Iterator[Summary]:
        done = 0
        while done < len(examples):
            try:
                for summary in self._call(examples[done:], self._work.batch_size):
                    done += 1
                    yield summary
            except Exception:
                for example in examples[done : done + self._work.batch_size]:
                    done += 1
                    yield self._summarize_one(example)

    def _summarize_one(self, example: Example) -> Summary:
        try:
            return next(self._call([example], 1))
        except Exception as error:
            return Summary(None, error=_reason(error))

    def _call(self, examples: list[Example], batch_size: int) -> Iterator[Summary]:
        columns = {}
        for name in self._source_columns:
            values = [example.source.get(name) for example in examples]
            if name == "phrases":
                values = [self._work.phrases or read_phrases(value) for value in values]
            if any(value is not None for value in values):
                columns[name] = values
        texts = _Texts([example.text for example in examples])
        results = self._summarizer(texts, batch_size=batch_size, **columns, **self._settings)
        for example, (record,) in zip(examples, results, strict=True):
            details = record["details"]
            yield Summary(
                record["summary_text"],
                details["source_tokens"],
                details["cut_tokens"],
                note=_note(example, record),
                is_unfinished=details["finish_reason"] == "length",
            )


class _Texts:
    """A list that the summarizer reads lazily, so that summaries before an error are not lost."""

    def __init__(self, texts: Sequence[Any]):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Any:
        return self._texts[index]


def _length(text: str | list[str]) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def _note(example: Example, record: Mapping[str, Any]) -> str:
    """What a reader should look at in a row: a summary of part of the document, or one that looks wrong."""
    summary, details = record["summary_text"], record["details"]
    notes = []
    if details["cut_tokens"]:
        notes.append(f"the model read {details['read_tokens'] / details['source_tokens']:.0%} of the document")
    if not summary.strip():
        notes.append("the summary is empty")
    elif details["finish_reason"] == "length":
        notes.append("the summary has the most tokens allowed, and may be cut off")
    if len(summary) > _length(example.text):
        notes.append("the summary is longer than the document")
    return "; ".join(notes)


def _reason(error: Exception) -> str:
    return one_line(error) or type(error).__name__


def _remaining(plan: Plan, done: set[int]) -> Iterator[int]:
    return (number for number in range(plan.number) if number not in done)


def in_this_process(work: Work, plan: Plan, done: set[int], progress: Progress) -> Iterator[Outcome]:
    """Summarize and write the remaining shards, one after the other."""
    summarize = ShardSummarizer(work, plan.text_column)
    for number in _remaining(plan, done):
        summaries = summarize(plan.shard(number), progress)
        plan.write(number, summaries)
        yield count_summaries(summaries)


def in_processes(work: Work, plan: Plan, done: set[int], progress: Progress, number: int) -> Iterator[Outcome]:
    """Summarize and write the remaining shards in processes on this machine; yield counts of those that are finished.

    Each process uses its share of the cores and one of the GPUs. They end with the iteration, or with this process.

    Args:
        work, plan, done: how to summarize, all shards, and the numbers of finished ones.
        progress: called with the number of finished rows, a shard at a time.
        number: number of processes.
    """
    number = min(number, plan.number - len(done))
    # torch's threads do not run in a forked process
    context = multiprocessing.get_context("spawn")
    start_arguments = (work, plan, context.Value("i"), threads_for(number, only_idle=True))
    remaining = _remaining(plan, done)
    begun: set[Future[Outcome]] = set()
    try:
        with ProcessPoolExecutor(number, context, _start, start_arguments) as pool:
            while True:
                # a shard more than there are processes: none waits for its next one
                while len(begun) <= number and (following := next(remaining, None)) is not None:
                    begun.add(pool.submit(_summarize, following))
                if not begun:
                    return
                finished, begun = wait(begun, return_when=FIRST_COMPLETED)
                for future in finished:
                    outcome = future.result()
                    progress(outcome.rows)
                    yield outcome
    except BrokenProcessPool as error:
        raise ValueError(f"a process ended before its rows were summarized: {LESS_MEMORY}") from error


@dataclass
class _Process:
    """What a process of the pool works with; it loads the model with its first shard."""

    work: Work
    plan: Plan
    device: str | None
    summarizer: ShardSummarizer | None = None


# of a process of the pool
_process: _Process


def _start(work: Work, plan: Plan, started: Any, threads: int | None) -> None:
    """Prepare a process of the pool, which ends with the one that started it."""
    global _process
    # Ctrl-C reaches all processes; the first one ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # tqdm's default lock is shared by processes, and Python warns of it if this one is killed
    tqdm.set_lock(threading.RLock())
    with started:
        index = started.value
        started.value += 1
    if threads is not None:
        # graphs are loaded with this number
        os.environ["OMP_NUM_THREADS"] = str(threads)
    device = None
    if work.uses_torch:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        if torch.cuda.is_available():
            device = f"cuda:{index % torch.cuda.device_count()}"
    _process = _Process(work, plan, device)


def _end_with_parent() -> None:
    """End this process when its parent has ended: the queue of tasks stays open in the others."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _summarize(number: int) -> Outcome:
    """Summarize and write a shard in a process of the pool."""
    plan = _process.plan
    try:
        if _process.summarizer is None:
            _process.summarizer = ShardSummarizer(_process.work, plan.text_column, _process.device)
        summaries = _process.summarizer(plan.shard(number), lambda rows: None)
        plan.write(number, summaries)
    except Exception as error:
        # errors of other types may need arguments that are not sent with them
        raise ValueError(_reason(error)) from error
    return count_summaries(summaries)


def on_ray(
    work: Work, plan: Plan, done: set[int], progress: Progress, number: int | None, address: str | None
) -> Iterator[Outcome]:
    """Summarize the remaining shards on the cluster, write them here, and yield counts of those that are finished.

    Rows are read on this machine, and summaries are returned to it. Other machines need the package and access to the
    model under its name, but no files. Ray runs a task again whose process ends, alone or with its machine.

    Args:
        work, plan, done: how to summarize, all shards, and the numbers of finished ones.
        progress: called with the number of finished rows.
        number: number of tasks at a time; None for the number of GPUs or, without GPUs, of CPUs.
        address: the cluster's; None for the cluster to which this process is connected, or else for a local one, which
            ends with this process.
    """
    # must be set before Ray is imported
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "--engine ray needs ray", "ray")
    from ray.exceptions import RayError, RayTaskError

    with _connected(address):
        number, gpus = _tasks_at_a_time(number)
        # by default, Ray ends a process with a GPU after each task, and every shard would load the model
        resources = {"num_cpus": 1, "num_gpus": gpus, "max_calls": 0}
        task = ray.remote(max_retries=_RETRIES, **resources)(_summarize_on_ray)
        shared_work = ray.put(work)
        run = uuid.uuid4().hex
        remaining = _remaining(plan, done)
        # result of a task -> the number of its shard
        begun: dict[Any, int] = {}
        while True:
            while len(begun) < number and (following := next(remaining, None)) is not None:
                begun[task.remote(run, shared_work, plan.text_column, plan.shard(following))] = following
            if not begun:
                return
            (finished, *_), _ = ray.wait([*begun])
            shard_number = begun.pop(finished)
            try:
                summaries = ray.get(finished)
            except RayTaskError as error:
                raise ValueError(_reason(error.cause)) from error
            except RayError as error:
                rows = plan.words_for(shard_number)
                raise ValueError(f"{_RETRIES + 1} processes ended at {rows}: {LESS_MEMORY}") from error
            plan.write(shard_number, summaries)
            progress(len(summaries))
            yield count_summaries(summaries)


# of a process of Ray, which runs several tasks: the run, and its model
_ray_summarizers: dict[str, ShardSummarizer] = {}


def _summarize_on_ray(run: str, work: Work, text_column: str, shard: Shard) -> list[Summary]:
    """Summarize a shard in a process of Ray, which keeps the model for the next shard of the same run."""
    if run not in _ray_summarizers:
        _ray_summarizers.clear()
        _ray_summarizers[run] = ShardSummarizer(work, text_column)
    return _ray_summarizers[run](shard, lambda rows: None)


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


def _tasks_at_a_time(number: int | None) -> tuple[int, int]:
    """The number of tasks that run at a time, and the number of GPUs for each."""
    import ray

    resources = ray.cluster_resources()
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    most = min(cpus, gpus) if gpus else cpus
    if most < (number or 1):
        # they would wait for ever
        raise ValueError(f"--num_processes {number or 1}: Ray has {cpus} CPUs and {gpus} GPUs: give at most {most}")
    return number or most, 1 if gpus else 0
