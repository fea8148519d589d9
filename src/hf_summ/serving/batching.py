"""Batching of requests: which documents are decoded together, and in which order."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition

from hf_summ.serving.settings import Limits

# The longest document of a batch may be twice as long as the first, and longer by this number of characters. So the
# shortest documents, whose padding costs little, can share a batch, whatever their ratio.
_SHORT = 16
# A function of documents and their common settings that returns one result for each document.
Decode = Callable[[Sequence[str], Mapping[str, object]], Sequence[object]]


class Unavailable(Exception):
    """The service cannot answer a request now, but might do so later."""

    def __init__(self, reason: str):
        super().__init__(f"{reason}: try again later")


@dataclass(eq=False)
class _Job:
    """A document that waits for its summary.

    Args:
        document: the text.
        settings: the settings of the request that has the document.
        future: gets the result or the error.
        arrived: when the document arrived, in seconds of `time.monotonic`.
    """

    document: str
    settings: Mapping[str, object]
    future: Future = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    def is_like(self, job: "_Job") -> bool:
        """Whether this document can share a batch with the document of another job.

        The settings must be equal, and the lengths similar, as the shorter document is padded to the longer document.
        """
        shorter = min(len(self.document), len(job.document))
        longer = max(len(self.document), len(job.document))
        return self.settings == job.settings and longer <= 2 * shorter + _SHORT

    def difference(self, job: "_Job") -> int:
        """The difference between the lengths of this document and the document of another job, in characters."""
        return abs(len(self.document) - len(job.document))


class Batcher:
    """Groups documents with equal settings and similar lengths; `run` decodes them in the calling thread.

    The next batch has the document that has waited longest, and the documents most similar to it in length. A batch
    that is not full waits for further documents, until its first document has waited for `batch_wait` milliseconds.

    Args:
        decode: decodes a batch. If it fails, each half of the batch is decoded separately, and so on, so that only the
            faulty document fails, with the error of `decode`.
        limits: limits of batches and queue.
        on_change: called with the number of waiting documents whenever it changes.
    """

    def __init__(self, decode: Decode, limits: Limits, on_change: Callable[[int], None] = lambda waiting: None):
        self._decode = decode
        self._limits = limits
        self._on_change = on_change
        # The keys are the waiting documents in the order of their arrival. A request may have many documents, and
        # cancel them one by one, which is fast in a dictionary. Only the thread that holds `_changed` uses it.
        self._waiting: dict[_Job, None] = {}
        self._changed = Condition()
        self._is_closed = False

    def submit(self, documents: Sequence[str], settings: Mapping[str, object]) -> list[Future]:
        """The future result of each document of a request.

        If a future is cancelled, its document leaves the queue.

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
        """Wait for documents and decode them in batches; return after `close` is called."""
        while True:
            jobs = self._next_batch()
            if not jobs:
                return
            self._answer(jobs)

    def close(self) -> None:
        """Take no further requests, and let `run` return after the batch that it is decoding.

        The futures of waiting documents fail with `Unavailable`.
        """
        with self._changed:
            self._is_closed = True
            jobs = list(self._waiting)
            self._set_waiting({})
            self._changed.notify()
        for job in jobs:
            _settle_with_error(job, Unavailable("the service is shutting down"))

    def _next_batch(self) -> list[_Job]:
        """Wait for the next batch and take its documents from the queue; after `close`, the batch is empty."""
        with self._changed:
            while not self._is_closed:
                if not self._waiting:
                    self._changed.wait()
                    continue
                first = next(iter(self._waiting))
                jobs = self._similar_jobs(first)
                patience = first.arrived + self._limits.batch_wait / 1000 - time.monotonic()
                if len(jobs) < self._limits.batch_size and patience > 0:
                    self._changed.wait(patience)
                    # More documents may have arrived, or the first one may be cancelled.
                    continue
                for job in jobs:
                    del self._waiting[job]
                self._set_waiting(self._waiting)
                return jobs
        return []

    def _similar_jobs(self, first: _Job) -> list[_Job]:
        """The batch of a waiting document: the document itself, and the waiting documents most similar in length."""
        alike = [job for job in self._waiting if job.is_like(first)]
        alike.sort(key=first.difference)
        return alike[: self._limits.batch_size]

    def _answer(self, jobs: Sequence[_Job]) -> None:
        """Decode documents with equal settings, and settle their futures."""
        documents = [job.document for job in jobs]
        try:
            results = self._decode(documents, jobs[0].settings)
            answers = list(zip(jobs, results, strict=True))
        # A panic of a library in Rust is not an Exception, and the thread must survive it.
        except BaseException as error:
            if len(jobs) == 1:
                _settle_with_error(jobs[0], error)
                return
            middle = (len(jobs) + 1) // 2
            self._answer(jobs[:middle])
            self._answer(jobs[middle:])
            return
        for job, result in answers:
            # A cancelled future is already done.
            with suppress(InvalidStateError):
                job.future.set_result(result)

    def _forget(self, job: _Job) -> None:
        """Remove a document from the queue. It is still there only if its future was cancelled."""
        with self._changed:
            if job in self._waiting:
                del self._waiting[job]
                self._set_waiting(self._waiting)

    def _set_waiting(self, jobs: dict[_Job, None]) -> None:
        """Replace the queue, and tell `on_change` how many documents it has."""
        self._waiting = jobs
        self._on_change(len(jobs))


def _settle_with_error(job: _Job, error: BaseException) -> None:
    """Fail the future of a document."""
    # A cancelled future is already done.
    with suppress(InvalidStateError):
        job.future.set_exception(error)
