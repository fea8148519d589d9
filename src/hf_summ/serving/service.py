"""The service without HTTP: one thread loads a model, tests it and decodes requests in batches."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from hf_summ.common.files import shared_name
from hf_summ.common.messages import error_line
from hf_summ.serving.batching import Batcher, Closed, QueueFull
from hf_summ.serving.cost import check_cost, check_defaults
from hf_summ.serving.requests import Refusal, SummaryRequest, unavailable
from hf_summ.serving.settings import Limits

# upper bounds of the histograms' buckets
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LOADING, READY, STUCK, DRAINING, FAILED = "loading", "ready", "stuck", "draining", "failed"
_FIRST_DOCUMENT = "The mayor opened the new bridge on Monday."
# `Retry-After` while the model is being loaded, and while another process takes over
_LOADING_SECONDS, _DRAINING_SECONDS = 5.0, 2.0
# seconds between polls of unfinished requests
_INTERVAL = 0.05


class Metrics:
    """Counters, gauges and histograms of one service.

    If PROMETHEUS_MULTIPROC_DIR was set when prometheus_client was first imported, each process writes its values to
    that folder, and every process exposes the sums over all.
    """

    def __init__(self):
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()

        def make(kind, name: str, help: str, *labels: str, **settings):
            return kind(f"hf_summ_{name}", help, labels, registry=registry, **settings)

        summed = {"multiprocess_mode": "livesum"}
        self.requests = make(Counter, "requests", "Requests for summaries by the status of their answer", "status")
        self.waiting = make(Gauge, "waiting_requests", "Requests waiting to be decoded", **summed)
        self.ready = make(Gauge, "ready_workers", "Processes that take requests", **summed)
        self.step_seconds = make(
            Gauge,
            "step_seconds",
            "Time since the last decoding step; the longest over all processes",
            multiprocess_mode="livemax",
        )
        self.batch_size = make(Histogram, "batch_size", "Documents per batch", buckets=_SIZES)
        self.batch_seconds = make(Histogram, "batch_seconds", "Decoding time of a batch", buckets=_SECONDS)
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


class Service:
    """A summarization pipeline that decodes the requests of many clients in batches.

    `start` returns immediately; the decoding thread loads the model. Requests are accepted after a first test document.

    Args:
        load: returns the pipeline.
        limits: limits of requests and batches.
        threads: number of torch's threads; by default, torch's choice.

    Attributes:
        problem: the error that made the service fail, or None.
        metrics: its counters.
        generation_keys: the model's own settings of `generate()`, once it is loaded.
    """

    def __init__(self, load: Callable[[], Any], limits: Limits | None = None, threads: int | None = None):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self._state = LOADING
        self.problem: Exception | None = None
        self.generation_keys: tuple[str, ...] = ()
        self._load = load
        self._threads = threads
        self._summarizer: Any = None
        self._batcher = Batcher(self._decode, self.limits, self.metrics.waiting.set)
        # daemon: the process may exit while a batch without clients is being decoded
        self._thread = Thread(target=self._run, name="decoding", daemon=True)

    def start(self) -> "Service":
        """Start loading the model in a thread, if it has not started, and return the service itself."""
        if self._thread.ident is None:
            self._thread.start()
        return self

    def submit(self, request: SummaryRequest) -> Future:
        """The future `{"summary_text", "details"}` of a request; `details` only if the pipeline returns them.

        It fails with a ValueError or TypeError if the document or its settings are at fault. Cancelling it frees its
        place, or ends the decoding if all requests of its batch are cancelled.

        Raises:
            Refusal: 503 if the queue is full or the service is not ready; 422 as `check_cost`.
        """
        self.check_ready()
        try:
            work = check_cost(request, self._summarizer, self.limits)
            # splitting and tokenizing one character takes about as long as one unit of work
            return self._batcher.submit(request.document, request.settings, work + len(request.document))
        except QueueFull as error:
            raise unavailable(str(error), error.seconds) from None
        except Closed:
            raise self.ending() from None
        except ValueError as error:
            raise Refusal(422, error_line(error)) from error

    def check_ready(self) -> None:
        """Raise a Refusal of status 503 unless requests are accepted."""
        if self.state == LOADING:
            raise unavailable("the model is being loaded: try again later", _LOADING_SECONDS)
        if self.state == STUCK:
            raise unavailable("a decoding step is stuck: try again later", _LOADING_SECONDS)
        if self.state != READY:
            raise self.ending()

    @staticmethod
    def ending() -> Refusal:
        """The refusal of a request during shutdown."""
        return unavailable("the service is shutting down: try again later", _DRAINING_SECONDS)

    @property
    def state(self) -> str:
        """One of loading, ready, draining, failed, and stuck: a single step exceeds `limit_decode_seconds`."""
        is_stuck = self._state == READY and self._step_seconds > self.limits.limit_decode_seconds
        return STUCK if is_stuck else self._state

    @property
    def _step_seconds(self) -> float:
        """Seconds since the last decoding step; 0 if no batch is being decoded."""
        began = self._batcher.last_step
        return 0.0 if began is None else time.monotonic() - began

    def update_metrics(self) -> None:
        """Update the gauges that change with time."""
        self.metrics.ready.set(self.state == READY)
        self.metrics.step_seconds.set(self._step_seconds)

    @property
    def unfinished(self) -> int:
        """Number of requests that are waiting or being decoded."""
        return self._batcher.unfinished

    def information(self) -> dict[str, Any]:
        """The model, the state and the limits, for clients."""
        name = getattr(getattr(self._summarizer, "model", None), "name_or_path", None)
        limits = {name: value for name, value in vars(self.limits).items() if name.startswith("limit_")}
        return {"model_id": name and shared_name(name), "task": "summarization", "state": self.state, **limits}

    def drain(self) -> None:
        """Accept no further requests; those already accepted are still decoded."""
        if self._state in (LOADING, READY):
            self._state = DRAINING
        self.update_metrics()
        self._batcher.close()

    def stop(self, seconds: float) -> None:
        """Drain, and wait until all requests are decoded; those unfinished after this many seconds fail."""
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

                # torch's setting is per calling thread
                torch.set_num_threads(self._threads)
            self._summarizer = self._load()
            check_defaults(self._summarizer, self.limits)
            self.generation_keys = tuple(getattr(self._summarizer.model, "generation_keys", ()))
            self._summarize([_FIRST_DOCUMENT], {})
        except Exception as error:
            self.problem, self._state = error, FAILED
            self._batcher.abandon()
            return
        if self._state == LOADING:
            self._state = READY
        self._batcher.run()

    def _decode(
        self, documents: Sequence[str], settings: dict[str, Any], proceed: Callable[[], None]
    ) -> list[dict[str, Any]]:
        for document in documents:
            self._check_length(document)
        began = time.perf_counter()
        results = self._summarize(documents, {**settings, "logits_processor": [_Steps(proceed)]})
        self.metrics.batch_seconds.observe(time.perf_counter() - began)
        self.metrics.batch_size.observe(len(documents))
        for result in results:
            details = result.get("details", {})
            self.metrics.source_tokens.inc(details.get("source_tokens", 0))
            self.metrics.cut_tokens.inc(details.get("cut_tokens", 0))
        return results

    def _summarize(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        # a checkpoint may set several return sequences; the windows of one document are batched too
        given = {"num_return_sequences": 1, "batch_size": self.limits.batch_size, "return_details": True}
        return self._summarizer(list(documents), **settings, **given)

    def _check_length(self, document: str) -> None:
        most = self.limits.limit_source_tokens
        # almost every token has at least one byte: most documents need no tokenization here
        if len(document.encode()) <= most:
            return
        length = len(self._summarizer.tokenizer(document, verbose=False)["input_ids"])
        if length > most:
            raise ValueError(f"the document has {length} tokens, but the service takes at most {most}: shorten it")


class _Steps:
    """A logits processor that calls `proceed` at each step; all decoding methods of `generate()` call it."""

    # the result does not depend on a row's place in the batch
    is_by_row = True

    def __init__(self, proceed: Callable[[], None]):
        self._proceed = proceed

    def __call__(self, input_ids, scores):
        self._proceed()
        return scores
