"""The service itself, apart from HTTP: a model, loaded and tried by one thread, which decodes requests in batches."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.serving.batching import Batcher, Closed, QueueFull
from hf_summ.serving.cost import check_cost
from hf_summ.serving.requests import Refusal, SummaryRequest, unavailable
from hf_summ.serving.settings import Limits

# upper bounds of the histograms' buckets
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LOADING, READY, STUCK, DRAINING, FAILED = "loading", "ready", "stuck", "draining", "failed"
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
        self.step_seconds = make(
            Gauge,
            "step_seconds",
            "Time since the last step of what is decoded; the longest, if there are several processes",
            multiprocess_mode="livemax",
        )
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


class Service:
    """A summarization pipeline that decodes the requests of many clients in batches.

    `start` returns at once; the model is loaded by the thread that decodes, and requests are taken after it has
    decoded once.

    Args:
        load: gives the pipeline.
        limits: of requests and batches.
        threads: number of threads of torch; by default, as torch chooses.

    Attributes:
        problem: why it failed.
        metrics: what it has counted.
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
        # a process may end while a batch is decoded whose clients have gone
        self._thread = Thread(target=self._run, name="decoding", daemon=True)

    def start(self) -> "Service":
        """Begin to load the model, in a thread; returns the service itself."""
        self._thread.start()
        return self

    def submit(self, request: SummaryRequest) -> Future:
        """The future `{"summary_text", "details"}` of a request's document, the latter if the pipeline has them.

        Its errors are ValueErrors and TypeErrors for what the document or its settings cause. Cancelling it frees its
        place, or ends its decoding if no other request is decoded with it.

        Raises:
            Refusal: 503 if the queue is full, or the service is not ready; 422 as `check_cost`.
        """
        self.check_ready()
        try:
            work = check_cost(request, self._summarizer, self.limits)
            # to find sentences and tokens in a character takes about as long as a unit
            return self._batcher.submit(request.document, request.settings, work + len(request.document))
        except QueueFull as error:
            raise unavailable(str(error), error.seconds) from None
        except Closed:
            raise self.ending() from None
        except ValueError as error:
            raise Refusal(422, one_line(error)) from error

    def check_ready(self) -> None:
        """Raise a Refusal of status 503 unless requests are taken."""
        if self.state == LOADING:
            raise unavailable("the model is being loaded: try again later", _LOADING_SECONDS)
        if self.state == STUCK:
            raise unavailable("a step of decoding does not end: try again later", _LOADING_SECONDS)
        if self.state != READY:
            raise self.ending()

    @staticmethod
    def ending() -> Refusal:
        """The refusal of a request that comes too late."""
        return unavailable("the service is ending: try again later", _DRAINING_SECONDS)

    @property
    def state(self) -> str:
        """One of loading, ready, draining and failed; stuck while a step takes longer than a whole summary may."""
        is_stuck = self._state == READY and self._step_seconds > self.limits.limit_decode_seconds
        return STUCK if is_stuck else self._state

    @property
    def _step_seconds(self) -> float:
        """Seconds since the last step of what is being decoded; 0 if nothing is."""
        began = self._batcher.last_step
        return 0.0 if began is None else time.monotonic() - began

    def update_metrics(self) -> None:
        """Set those that change with time."""
        self.metrics.ready.set(self.state == READY)
        self.metrics.step_seconds.set(self._step_seconds)

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
        if self._state in (LOADING, READY):
            self._state = DRAINING
        self.update_metrics()
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
        # a checkpoint's settings may be for several sequences; windows of a document make batches too
        given = {"num_return_sequences": 1, "batch_size": self.limits.batch_size, "return_details": True}
        return self._summarizer(list(documents), **settings, **given)

    def _check_length(self, document: str) -> None:
        most = self.limits.limit_source_tokens
        # hardly any token is shorter than a byte: of most documents none need be counted
        if len(document.encode()) <= most:
            return
        length = len(self._summarizer.tokenizer(document, verbose=False)["input_ids"])
        if length > most:
            raise ValueError(f"the document has {length} tokens, but the service takes at most {most}: shorten it")


class _Steps:
    """A logits processor that calls `proceed` at each step, which every search of `generate()` has in common."""

    # a row's place in the batch does not matter
    is_by_row = True

    def __init__(self, proceed: Callable[[], None]):
        self._proceed = proceed

    def __call__(self, input_ids, scores):
        self._proceed()
        return scores
