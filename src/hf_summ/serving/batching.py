"""Batching of requests: which documents are decoded together, and in which order."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from hf_summ.serving.settings import Limits

# documents and their common settings -> one result per document
Decode = Callable[[Sequence[str], dict[str, Any]], Sequence[Any]]


class Unavailable(Exception):
    """A request is not decoded, but might be later."""

    def __init__(self, reason: str):
        super().__init__(f"{reason}: try again later")


@dataclass(eq=False)
class _Job:
    """A document that waits for its summary."""

    document: str
    settings: dict[str, Any]
    future: Future = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    def is_like(self, job: "_Job") -> bool:
        """Whether the two can share a batch: their settings are equal and their lengths within about a factor of 2."""
        shorter, longer = sorted((len(self.document), len(job.document)))
        return self.settings == job.settings and longer <= 2 * shorter + 16

    def difference(self, job: "_Job") -> int:
        """Difference in length, in characters."""
        return abs(len(self.document) - len(job.document))


class Batcher:
    """Groups documents with equal settings and similar lengths; `run` decodes them in the calling thread.

    The document that has waited longest is next, with those most similar in length. If the batch is not full, it waits
    up to `batch_wait` for others.

    Args:
        decode: documents and settings -> one result per document. If it fails, each half of the documents is decoded
            separately, recursively: only the faulty document fails, with the error of `decode`.
        limits: limits of batches and queue.
        on_change: called with the number of waiting documents whenever it changes.
    """

    def __init__(self, decode: Decode, limits: Limits, on_change: Callable[[int], None] = lambda waiting: None):
        self._decode = decode
        self._limits = limits
        self._on_change = on_change
        # in their order; a dictionary, as a request may have many documents and cancel them one by one
        self._waiting: dict[_Job, None] = {}
        self._changed = Condition()
        self._is_closed = False

    def submit(self, documents: Sequence[str], settings: dict[str, Any]) -> list[Future]:
        """The future result of each document of a request; cancelling it frees its place in the queue.

        Raises:
            Unavailable: too many documents are waiting, or `close` was called.
        """
        jobs = [_Job(document, settings) for document in documents]
        with self._changed:
            if self._is_closed:
                raise Unavailable("the service is shutting down")
            if len(self._waiting) >= self._limits.limit_queue:
                raise Unavailable(f"{len(self._waiting)} documents are waiting")
            self._set_waiting(self._waiting | dict.fromkeys(jobs))
            self._changed.notify()
        for job in jobs:
            job.future.add_done_callback(lambda future, job=job: self._forget(job))
        return [job.future for job in jobs]

    def run(self) -> None:
        """Decode batches until `close`."""
        while jobs := self._next_batch():
            self._answer(jobs)

    def close(self) -> None:
        """Take no further requests, and fail those that are waiting."""
        with self._changed:
            self._is_closed = True
            jobs = list(self._waiting)
            self._set_waiting({})
            self._changed.notify()
        for job in jobs:
            _settle(job, error=Unavailable("the service is shutting down"))

    def _next_batch(self) -> list[_Job]:
        """Take the next jobs from the queue; empty if it is closed."""
        with self._changed:
            while not self._is_closed:
                if not self._waiting:
                    self._changed.wait()
                    continue
                first = next(iter(self._waiting))
                alike = [job for job in self._waiting if job.is_like(first)]
                jobs = sorted(alike, key=first.difference)[: self._limits.batch_size]
                patience = first.arrived + self._limits.batch_wait / 1000 - time.monotonic()
                if len(jobs) < self._limits.batch_size and patience > 0:
                    self._changed.wait(patience)
                    continue
                for job in jobs:
                    del self._waiting[job]
                self._set_waiting(self._waiting)
                return jobs
        return []

    def _answer(self, jobs: Sequence[_Job]) -> None:
        try:
            results = self._decode([job.document for job in jobs], jobs[0].settings)
            answers = list(zip(jobs, results, strict=True))
        # a panic of a library in Rust is no Exception, and the thread must survive it
        except BaseException as error:
            if len(jobs) == 1:
                _settle(jobs[0], error=error)
                return
            middle = (len(jobs) + 1) // 2
            self._answer(jobs[:middle])
            self._answer(jobs[middle:])
            return
        for job, result in answers:
            _settle(job, result)

    def _forget(self, job: _Job) -> None:
        """Remove a job whose future was cancelled."""
        with self._changed:
            if job in self._waiting:
                del self._waiting[job]
                self._set_waiting(self._waiting)

    def _set_waiting(self, jobs: dict[_Job, None]) -> None:
        self._waiting = jobs
        self._on_change(len(jobs))


def _settle(job: _Job, result: Any = None, error: BaseException | None = None) -> None:
    # a cancelled future is already done
    with suppress(InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
