"""The service itself, apart from HTTP: a model, loaded and tried by one thread, which decodes requests in batches."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from hf_summ.serving.requests import Refusal, SummaryRequest, unavailable
from hf_summ.serving.settings import Limits

# upper bounds of the histograms' buckets
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Decode = Callable[[Sequence[str], dict[str, Any]], Sequence[Any]]
# of the time that a batch took, the weight of the last one in the mean
_LAST = 0.3
LOADING, READY, DRAINING, FAILED = "loading", "ready", "draining", "failed"
_FIRST_DOCUMENT = "The mayor opened the new bridge on Monday."
# seconds that a client is asked to wait while the model is being loaded, and while another process takes over
_LOADING_SECONDS, _DRAINING_SECONDS = 5.0, 2.0
# seconds between looks at what is unfinished
_INTERVAL = 0.05


class Metrics:
    """Counters, gauges and histograms of one service.

    If PROMETHEUS_MULTIPROC_DIR was set when prometheus_client was first imported, each process writes its own into
    that folder, and any of them shows the sums over all.
    """

    def __init__(self):
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()

        def make(kind, name: str, help: str, *labels: str, **settings):
            return kind(f"hf_summ_{name}", help, labels, registry=registry, **settings)

        summed = {"multiprocess_mode": "livesum"}
        self.requests = make(Counter, "requests", "Requests for summaries by the status of their answer", "status")
        self.waiting = make(Gauge, "waiting_requests", "Requests that wait to be decoded", **summed)
        self.ready = make(Gauge, "ready_workers", "Processes that take requests", **summed)
        self.batch_size = make(Histogram, "batch_size", "Documents that were decoded together", buckets=_SIZES)
        self.batch_seconds = make(Histogram, "batch_seconds", "Time that decoding them took", buckets=_SECONDS)
        self.seconds = make(Histogram, "request_seconds", "Time from a request to its answer", buckets=_SECONDS)
        self.source_tokens = make(Counter, "source_tokens", "Tokens of summarized documents")
        self.cut_tokens = make(Counter, "cut_tokens", "Tokens of summarized documents that were not read")

    def exposition(self) -> bytes:
        """All values in Prometheus's text format."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        MultiProcessCollector(summed)
        return generate_latest(summed)


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


class Service:
    """A summarization pipeline that decodes the requests of many clients in batches.

    `start` returns at once; the model is loaded by the thread that decodes, and requests are taken after it has
    decoded once.

    Args:
        load: gives the pipeline.
        limits: of requests and batches.
        threads: number of threads of torch; by default, as torch chooses.

    Attributes:
        state: "loading", "ready", "draining" or "failed".
        problem: why it failed.
        metrics: what it has counted.
        generation_keys: the model's own settings of `generate()`, once it is loaded.
    """

    def __init__(self, load: Callable[[], Any], limits: Limits | None = None, threads: int | None = None):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.state = LOADING
        self.problem: Exception | None = None
        self.generation_keys: tuple[str, ...] = ()
        self._load = load
        self._threads = threads
        self._summarizer: Any = None
        self._batcher = Batcher(
            self._decode,
            self.limits.batch_size,
            self.limits.batch_wait / 1000,
            self.limits.limit_queue,
            self.metrics.waiting.set,
        )
        # a process may end while a batch is decoded whose clients have gone
        self._thread = Thread(target=self._run, name="decoding", daemon=True)

    def start(self) -> "Service":
        """Begin to load the model, in a thread; returns the service itself."""
        self._thread.start()
        return self

    def submit(self, request: SummaryRequest) -> Future:
        """The future `{"summary_text", "details"}` of a request's document, the latter if the pipeline has them.

        Its errors are ValueErrors and TypeErrors for what the document or its settings cause. Cancelling it frees its
        place if it has not begun.

        Raises:
            Refusal: 503 if the queue is full, or the service is not ready.
        """
        self.check_ready()
        try:
            return self._batcher.submit(request.document, request.settings)
        except QueueFull as error:
            raise unavailable(str(error), error.seconds) from None
        except Closed:
            raise self.ending() from None

    def check_ready(self) -> None:
        """Raise a Refusal of status 503 unless requests are taken."""
        if self.state == LOADING:
            raise unavailable("the model is being loaded: try again later", _LOADING_SECONDS)
        if self.state != READY:
            raise self.ending()

    @staticmethod
    def ending() -> Refusal:
        """The refusal of a request that comes too late."""
        return unavailable("the service is ending: try again later", _DRAINING_SECONDS)

    @property
    def unfinished(self) -> int:
        """Number of requests that wait or are being decoded."""
        return self._batcher.unfinished

    def information(self) -> dict[str, Any]:
        """What clients may want to know: the model and the limits of requests."""
        name = getattr(getattr(self._summarizer, "model", None), "name_or_path", None)
        if name and Path(name).exists():
            # its folder is private
            name = Path(name).resolve().name
        limits = {name: value for name, value in vars(self.limits).items() if name.startswith("limit_")}
        return {"model_id": name, "task": "summarization", "state": self.state, **limits}

    def drain(self) -> None:
        """Take no further requests; those that were taken are still decoded."""
        if self.state in (LOADING, READY):
            self.state = DRAINING
        self.metrics.ready.set(0)
        self._batcher.close()

    def stop(self, seconds: float) -> None:
        """Drain, and wait until all is decoded; what is not after so many seconds fails."""
        self.drain()
        end = time.monotonic() + seconds
        while self.unfinished and time.monotonic() < end:
            time.sleep(_INTERVAL)
        self._batcher.abandon()
        self._thread.join(_INTERVAL)

    def _run(self) -> None:
        try:
            if self._threads is not None:
                import torch

                # torch counts them for each thread that calls it
                torch.set_num_threads(self._threads)
            self._summarizer = self._load()
            self.generation_keys = tuple(getattr(self._summarizer.model, "generation_keys", ()))
            self._summarize([_FIRST_DOCUMENT], {})
        except Exception as error:
            self.problem, self.state = error, FAILED
            self._batcher.abandon()
            return
        if self.state == LOADING:
            self.state = READY
            self.metrics.ready.set(1)
        self._batcher.run()

    def _decode(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        for document in documents:
            self._check_length(document)
        began = time.perf_counter()
        results = self._summarize(documents, settings)
        self.metrics.batch_seconds.observe(time.perf_counter() - began)
        self.metrics.batch_size.observe(len(documents))
        for result in results:
            details = result.get("details", {})
            self.metrics.source_tokens.inc(details.get("source_tokens", 0))
            self.metrics.cut_tokens.inc(details.get("cut_tokens", 0))
        return results

    def _summarize(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        # a checkpoint's settings may be for several sequences
        given = {"num_return_sequences": 1, "batch_size": len(documents), "return_details": True}
        return self._summarizer(list(documents), **settings, **given)

    def _check_length(self, document: str) -> None:
        most = self.limits.limit_source_tokens
        # hardly any token is shorter than a byte: of most documents none need be counted
        if len(document.encode()) <= most:
            return
        length = len(self._summarizer.tokenizer(document, verbose=False)["input_ids"])
        if length > most:
            raise ValueError(f"the document has {length} tokens, but the service takes at most {most}: shorten it")
