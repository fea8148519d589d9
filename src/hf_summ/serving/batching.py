"""Requests that come one by one, decoded together."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

Decode = Callable[[Sequence[str], dict[str, Any]], Sequence[Any]]
# of the time that a batch took, the weight of the last one in the mean
_LAST = 0.3


class QueueFull(Exception):
    """There is no place for another request.

    Attributes:
        seconds: until about when those that wait are decoded.
    """

    def __init__(self, waiting: int, seconds: float):
        super().__init__(f"{waiting} requests are waiting: try again later")
        self.seconds = seconds


class Closed(Exception):
    """The batcher takes or decodes no more requests."""


@dataclass(eq=False)
class _Job:
    document: str
    settings: dict[str, Any]
    future: Future = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    def is_like(self, other: "_Job") -> bool:
        """Whether decoding both together wastes little: of equal settings, and neither twice as long."""
        shorter, longer = sorted((len(self.document), len(other.document)))
        return self.settings == other.settings and longer <= 2 * shorter + 16

    def difference(self, other: "_Job") -> int:
        """By how many characters they differ."""
        return abs(len(self.document) - len(other.document))


class Batcher:
    """Groups requests of like settings and lengths; `run` decodes them, in the thread that calls it.

    The oldest request always goes next, with those that are most like it. If nothing is decoded when it comes, it waits
    a little for others.

    Args:
        decode: documents and the settings that they share -> a result for each. If it fails, the documents are
            decoded in halves, so that in the end only the one that is at fault fails, with the error of `decode`.
        batch_size: maximum number of documents of a call.
        wait: seconds that a request waits for others.
        capacity: maximum number of waiting requests.
        on_change: called with the number of waiting requests when it has changed.
    """

    def __init__(
        self,
        decode: Decode,
        batch_size: int,
        wait: float,
        capacity: int,
        on_change: Callable[[int], None] = lambda waiting: None,
    ):
        self._decode = decode
        self._batch_size = batch_size
        self._wait = wait
        self._capacity = capacity
        self._on_change = on_change
        self._waiting: list[_Job] = []
        self._changed = Condition()
        self._is_closed = False
        self._begun: list[_Job] = []
        self._seconds = 0.0

    def submit(self, document: str, settings: dict[str, Any]) -> Future:
        """The future result of a document; cancelling it frees its place if it has not begun.

        Raises:
            QueueFull: too many requests are waiting.
            Closed: `close` was called.
        """
        job = _Job(document, settings)
        with self._changed:
            if self._is_closed:
                raise Closed
            if len(self._waiting) >= self._capacity:
                batches = 1 + len(self._waiting) / self._batch_size
                raise QueueFull(len(self._waiting), batches * self._seconds)
            self._waiting.append(job)
            self._on_change(len(self._waiting))
            self._changed.notify()
        # only now, as a future calls back at once if it is done
        job.future.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)
        return job.future

    @property
    def unfinished(self) -> int:
        """Number of requests that wait or are being decoded."""
        with self._changed:
            return len(self._waiting) + len(self._begun)

    def run(self) -> None:
        """Decode until `close` is called and nothing waits."""
        try:
            while jobs := self._next_batch():
                began = time.monotonic()
                self._answer(jobs)
                seconds = time.monotonic() - began
                with self._changed:
                    self._begun = []
                    self._seconds = _LAST * seconds + (1 - _LAST) * self._seconds if self._seconds else seconds
        finally:
            self._fail_all()

    def close(self) -> None:
        """Take no further requests, and let `run` return when those that wait are decoded."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def abandon(self) -> None:
        """Close, and fail the requests that wait or are being decoded."""
        self.close()
        self._fail_all()

    def _next_batch(self) -> list[_Job]:
        """The next jobs, which have then begun; none when there will be no more."""
        with self._changed:
            while True:
                if not self._waiting:
                    if self._is_closed:
                        return []
                    self._changed.wait()
                    continue
                oldest = self._waiting[0]
                alike = (job for job in self._waiting if job.is_like(oldest))
                jobs = sorted(alike, key=oldest.difference)[: self._batch_size]
                left = oldest.arrived + self._wait - time.monotonic()
                if len(jobs) < self._batch_size and left > 0 and not self._is_closed:
                    self._changed.wait(left)
                    continue
                self._waiting = [job for job in self._waiting if job not in jobs]
                self._on_change(len(self._waiting))
                # false for those that were cancelled meanwhile
                self._begun = [job for job in jobs if job.future.set_running_or_notify_cancel()]
                if self._begun:
                    return self._begun

    def _answer(self, jobs: Sequence[_Job]) -> None:
        try:
            results = self._decode([job.document for job in jobs], jobs[0].settings)
        except Exception as error:
            if len(jobs) == 1:
                _settle(jobs[0], error=error)
                return
            half = len(jobs) // 2
            self._answer(jobs[:half])
            self._answer(jobs[half:])
            return
        for job, result in zip(jobs, results, strict=True):
            _settle(job, result)

    def _forget(self, job: _Job) -> None:
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._on_change(len(self._waiting))

    def _fail_all(self) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
            begun, self._begun = self._begun, []
            self._on_change(0)
        for job in (*begun, *(job for job in waiting if job.future.set_running_or_notify_cancel())):
            _settle(job, error=Closed())


def _settle(job: _Job, result: Any = None, error: Exception | None = None) -> None:
    # what was abandoned while it was decoded has failed already
    with suppress(InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
