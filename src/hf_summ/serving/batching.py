"""Batching of requests: which are decoded together, in which order, and when decoding is aborted."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Condition
from typing import Any

from hf_summ.serving.settings import Limits

# documents, their common settings, and a function to call between steps -> one result per document
Decode = Callable[[Sequence[str], dict[str, Any], Callable[[], None]], Sequence[Any]]
# weight of the last batch in the moving averages
_LAST = 0.3
# until another process takes over
_TAKEOVER_SECONDS = 2.0
# requests of at most a tenth of a batch's work are decoded between its steps
_CHEAPER = 10


class Unavailable(Exception):
    """A request is not decoded, but might be later.

    Attributes:
        seconds: estimated time until then.
    """

    def __init__(self, reason: str, seconds: float):
        super().__init__(f"{reason}: try again later")
        self.seconds = seconds


class Closed(Unavailable):
    """The batcher is closed, or the request was dropped."""

    def __init__(self):
        super().__init__("the service is shutting down", _TAKEOVER_SECONDS)


@dataclass(eq=False)
class _Job:
    document: str
    settings: dict[str, Any]
    work: float
    future: Future = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    def is_like(self, other: "_Job") -> bool:
        """Whether the two can share a batch: their settings are equal and their lengths within about a factor of 2."""
        shorter, longer = sorted((len(self.document), len(other.document)))
        return self.settings == other.settings and longer <= 2 * shorter + 16

    def difference(self, other: "_Job") -> int:
        """Difference in length, in characters."""
        return abs(len(self.document) - len(other.document))


@dataclass
class _Batch:
    """A batch in decoding, its start time, and the seconds for which cheaper requests have paused it."""

    jobs: Sequence[_Job]
    began: float = field(default_factory=time.monotonic)
    paused_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Decoding time so far, without pauses."""
        return time.monotonic() - self.began - self.paused_seconds


class Batcher:
    """Groups requests with equal settings and similar lengths; `run` decodes them in the calling thread.

    The request with the longest wait per unit of work is next, with the requests most similar in length. If no batch
    is in decoding, it waits up to `batch_wait` for others. Much cheaper requests are decoded between the steps of a
    batch, for at most as long as the batch itself. A batch ends early after `limit_decode_seconds`, or when all its
    requests are cancelled.

    Args:
        decode: documents, their settings and `proceed` -> one result per document. It calls `proceed` between steps,
            which raises to end the batch. If it fails, each half of the documents is decoded separately, recursively:
            only the faulty document fails, with the error of `decode`.
        limits: limits of batches, queue, work and time.
        on_change: called with the number of waiting requests whenever it changes.

    Attributes:
        last_step: time of the last step, or of the start, of the current batch; None if there is none.
    """

    def __init__(self, decode: Decode, limits: Limits, on_change: Callable[[int], None] = lambda waiting: None):
        self._decode = decode
        self._limits = limits
        self._on_change = on_change
        self._waiting: list[_Job] = []
        self._changed = Condition()
        self._is_closed = False
        self._begun: set[_Job] = set()
        self._is_between_steps = False
        # mean seconds per batch and per unit of work
        self._seconds, self._pace = 0.0, 0.0
        self.last_step: float | None = None

    def submit(self, document: str, settings: dict[str, Any], work: float = 1.0) -> Future:
        """The future result of a document; cancelling it frees its place.

        Args:
            work: estimated cost, above 0.

        Raises:
            Unavailable: too many requests are waiting, or `close` was called.
        """
        job = _Job(document, settings, work)
        with self._changed:
            if self._is_closed:
                raise Closed
            if len(self._waiting) >= self._limits.limit_queue:
                batches = 1 + len(self._waiting) / self._limits.batch_size
                raise Unavailable(f"{len(self._waiting)} requests are waiting", batches * self._seconds)
            self._waiting.append(job)
            self._on_change(len(self._waiting))
            self._changed.notify()
        # may come last: a future that is already done calls back at once
        job.future.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)
        return job.future

    @property
    def unfinished(self) -> int:
        """Number of requests that are waiting or being decoded."""
        with self._changed:
            return len(self._waiting) + len(self._begun)

    def run(self) -> None:
        """Decode until `close` is called; close if an error ends it."""
        try:
            while jobs := self._next_batch():
                began = time.monotonic()
                self._answer(jobs)
                seconds = time.monotonic() - began
                with self._changed:
                    self._begun.clear()
                    self.last_step = None
                    self._seconds = _mean(self._seconds, seconds)
                    self._pace = _mean(self._pace, seconds / sum(job.work for job in jobs))
        finally:
            self.close()

    def close(self) -> None:
        """Take no further requests, and fail all unfinished ones."""
        with self._changed:
            self._is_closed = True
            jobs = (*self._begun, *self._waiting)
            self._waiting = []
            self._begun.clear()
            self._on_change(0)
            self._changed.notify()
        for job in jobs:
            _settle(job, error=Closed())

    def _next_batch(self, most: float | None = None) -> list[_Job]:
        """Take the next jobs from the queue, each of at most `most` work; empty if there are none or it is closed."""
        with self._changed:
            while True:
                waiting = [job for job in self._waiting if most is None or job.work <= most]
                if not waiting:
                    if self._is_closed or most is not None:
                        return []
                    self._changed.wait()
                    continue
                now = time.monotonic()
                first = max(waiting, key=lambda job: (now - job.arrived) / job.work)
                number = max(1, int(min(self._limits.batch_size, self._most_work() / first.work)))
                jobs = sorted(filter(first.is_like, waiting), key=first.difference)[:number]
                patience = first.arrived + self._limits.batch_wait / 1000 - now
                if len(jobs) < number and patience > 0 and most is None:
                    self._changed.wait(patience)
                    continue
                self._waiting = [job for job in self._waiting if job not in jobs]
                self._on_change(len(self._waiting))
                self._begun.update(jobs)
                return jobs

    def _most_work(self) -> float:
        """Maximum work of a batch: `limit_work`, or less if that takes over half of `limit_decode_seconds`."""
        in_time = self._limits.limit_decode_seconds / 2 / self._pace if self._pace else math.inf
        return min(self._limits.limit_work, in_time)

    def _answer(self, jobs: Sequence[_Job]) -> None:
        batch = _Batch(jobs)
        self.last_step = batch.began
        try:
            results = self._decode([job.document for job in jobs], jobs[0].settings, partial(self._proceed, batch))
        except Exception as error:
            if len(jobs) == 1:
                _settle(jobs[0], error=error)
                return
            unsettled = [job for job in jobs if not job.future.done()]
            middle = (len(unsettled) + 1) // 2
            for half in filter(None, (unsettled[:middle], unsettled[middle:])):
                self._answer(half)
            return
        for job, result in zip(jobs, results, strict=True):
            _settle(job, result)

    def _proceed(self, batch: _Batch) -> None:
        """Called between steps: decode much cheaper requests, and raise if the batch must end."""
        self.last_step = time.monotonic()
        if self._waiting and not self._is_between_steps and batch.paused_seconds <= batch.seconds:
            self._is_between_steps, began = True, time.monotonic()
            if jobs := self._next_batch(sum(job.work for job in batch.jobs) / _CHEAPER):
                self._answer(jobs)
                with self._changed:
                    self._begun.difference_update(jobs)
            self._is_between_steps = False
            batch.paused_seconds += time.monotonic() - began
        if all(job.future.done() for job in batch.jobs):
            raise Closed
        if batch.seconds > self._limits.limit_decode_seconds:
            raise ValueError(
                f"the summary takes longer than the limit of {self._limits.limit_decode_seconds:g} s: lower "
                "`num_beams` or `max_new_tokens`, or shorten the document"
            )

    def _forget(self, job: _Job) -> None:
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._on_change(len(self._waiting))


def _mean(mean: float, last: float) -> float:
    return _LAST * last + (1 - _LAST) * mean if mean else last


def _settle(job: _Job, result: Any = None, error: Exception | None = None) -> None:
    # a cancelled future, or one of a closed batcher, is already done
    with suppress(InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
