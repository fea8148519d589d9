"""Summarizing shards in this process, or in several processes on this machine."""

import multiprocessing
import os
import pickle
import signal
import threading
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

import torch
from torch.utils.data import Dataset
from tqdm import tqdm

from hf_summ.common.messages import no_warnings, one_line, panics_as_errors
from hf_summ.common.processes import threads_for
from hf_summ.offline.shards import ADDED_COLUMNS, Plan, Row, Shard, Summarized

# called with the number of rows summarized since the last call
Progress = Callable[[int], object]
# a text that every model can summarize, unless the model or its settings are wrong
_PLAIN_TEXT = "The mayor opened the new bridge on Monday."
LESS_MEMORY = "if memory was too small, lower --batch_size or --num_processes; the same command resumes"
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
        phrases: key phrases for every document, for models that read them.
        seed: seed of summaries that are sampled.
    """

    load: Callable[..., Any]
    settings: dict[str, Any]
    batch_size: int
    output_column: str
    phrases: dict[str, float] | None = None
    seed: int = 0

    def begin(self, **where: Any) -> "ShardSummarizer":
        """Load the model; `where` may contain its `device`."""
        return ShardSummarizer(self, self.load(**where))


class ShardSummarizer:
    """Summarizes shards with a loaded model.

    Args:
        work: how to summarize rows.
        summarizer: the pipeline.
    """

    def __init__(self, work: Work, summarizer: Any):
        self._work = work
        self._summarizer = summarizer
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
        torch.manual_seed((self._work.seed * _STRIDE + shard.number) % 2**32)
        texts = {index: row.text for index, row in enumerate(shard.rows) if row.text is not None}
        # longest first: if memory is too small, this appears early
        order = sorted(texts, key=lambda index: -_length(texts[index]))
        progress(len(shard.rows) - len(texts))
        found = {}
        with no_warnings(self._summarizer):
            for index, record in zip(order, self._summarize([texts[index] for index in order]), strict=True):
                found[index] = record
                progress(1)
        details = [record["details"] for _, record in sorted(found.items()) if not isinstance(record, str)]
        return Summarized(
            shard.number,
            [self._to_record(row, found.get(index)) for index, row in enumerate(shard.rows)],
            tuple(row["unlike"] for row in details if "unlike" in row),
        )

    def _summarize(self, texts: list[Any]) -> Iterator[dict[str, Any] | str]:
        """The pipeline's record of each text, or the error message."""
        done = 0
        while done < len(texts):
            try:
                for (record,) in self._call(texts[done:], self._work.batch_size):
                    done += 1
                    yield record
            except Exception:
                batch = texts[done : done + self._work.batch_size]
                for text in batch:
                    done += 1
                    yield self._alone(text)

    def _alone(self, text: Any) -> dict[str, Any] | str:
        try:
            return next(self._call([text], 1))[0]
        except Exception as error:
            self._check_itself()
            return one_line(error) or type(error).__name__

    def _check_itself(self) -> None:
        try:
            next(self._call([_PLAIN_TEXT], 1))
        except Exception as error:
            raise ValueError(f"no document can be summarized: {one_line(error) or type(error).__name__}") from error

    def _call(self, texts: list[Any], batch_size: int) -> Iterator[list[dict[str, Any]]]:
        phrases = {} if self._work.phrases is None else {"phrases": [self._work.phrases] * len(texts)}
        with panics_as_errors():
            yield from self._summarizer(_Texts(texts), batch_size=batch_size, **phrases, **self._settings)

    def _to_record(self, row: Row, record: dict[str, Any] | str | None) -> dict[str, Any]:
        summary, tokens, error = None, [None, None], row.error
        if isinstance(record, str):
            error = record
        elif record is not None:
            summary, tokens = record["summary_text"], [record["details"][name] for name in ADDED_COLUMNS[:2]]
        return {
            **row.values,
            self._work.output_column: summary,
            **dict(zip(ADDED_COLUMNS, [*tokens, error], strict=True)),
        }


class _Texts(Dataset):
    """A list that the pipeline reads lazily, so that summaries before an error are not lost."""

    def __init__(self, texts: Sequence[Any]):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Any:
        return self._texts[index]


def _length(text: str | list[str]) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def in_this_process(work: Work, plan: Plan, done: set[int], progress: Progress) -> Iterator[Summarized]:
    """Summarize the remaining shards, one after the other.

    Raises:
        ValueError: as `Work.load`, and as `ShardSummarizer`.
    """
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

    Raises:
        ValueError: as `in_this_process`, or a process ends.
    """
    if plan.number is not None:
        number = min(number, plan.number - len(done))
    # torch's threads do not run in a forked process
    context = multiprocessing.get_context("spawn")
    end, held = context.Pipe(duplex=False)
    start = partial(_start, work, context.Value("i"), threads_for(number), end)
    shards, begun = plan.shards(done), set()
    try:
        with ProcessPoolExecutor(number, context, start) as pool, held:
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
    # tqdm's default lock is a semaphore, which a process that is stopped would leak
    tqdm.set_lock(threading.RLock())
    if threads is not None:
        torch.set_num_threads(threads)
    with started:
        index = started.value
        started.value += 1
    gpus = torch.cuda.device_count()
    _begin = cache(partial(work.begin, **({"device": f"cuda:{index % gpus}"} if gpus else {})))


def _end_with(connection: Connection) -> None:
    connection.poll(None)
    os._exit(1)


def _summarize(shard: Shard, folder: Path) -> Path:
    """Summarize a shard, and write it to a file of the folder: half a long message would block its reader for ever."""
    try:
        summarized = _begin()(shard, lambda rows: None)
        # the next run removes what a run that is killed leaves
        file = folder / f".shard-{shard.number}.part"
        file.write_bytes(pickle.dumps(summarized))
        return file
    except Exception as error:
        # errors of other types may need arguments that are not sent with them
        raise ValueError(one_line(error) or type(error).__name__) from error


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
