"""The service itself, apart from HTTP: a model that is loaded, tried and decoded by one thread."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

from hf_summ.serving.batching import Batcher, Closed, QueueFull
from hf_summ.serving.limits import Limits
from hf_summ.serving.metrics import Metrics
from hf_summ.serving.refusals import Refusal, unavailable
from hf_summ.serving.requests import SummaryRequest

LOADING, READY, DRAINING, FAILED = "loading", "ready", "draining", "failed"
_FIRST_DOCUMENT = "The mayor opened the new bridge on Monday."
# what a client is told to wait while the model is being loaded, and while another process takes over
_LOADING_SECONDS, _DRAINING_SECONDS = 5.0, 2.0
# seconds between looks at what is unfinished
_INTERVAL = 0.05


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
        """The future `{"summary_text", "details"}` of a request's document, the latter if the pipeline tells them.

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
            # where it lies is nobody's business
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
        # a checkpoint may ask for several sequences
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
