"""The service without HTTP: one thread loads a model, tests it and decodes requests in batches."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from math import ceil
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from hf_summ.common.files import shared_name
from hf_summ.common.messages import panics_as_errors
from hf_summ.models.checks import SETTINGS
from hf_summ.serving.batching import Batcher, Unavailable
from hf_summ.serving.settings import Limits, request_range

# upper bounds of the histograms' buckets
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
READY, STUCK = "ready", "stuck"
_FIRST_DOCUMENT = "The mayor opened the new bridge on Monday."
# `Retry-After` while a step of decoding does not end
_STUCK_SECONDS = 5.0
# samples of a long text that estimate its number of tokens, and characters of each
_SAMPLES, _CHARACTERS = 8, 512
# settings of minimum and maximum length, which can contradict each other
_MIN_LENGTHS, _MAX_LENGTHS = ("min_new_tokens", "min_length", "min_new_words"), ("max_new_tokens", "max_length")
# seconds to wait for the decoding thread: a batch without clients ends with its next step
_JOIN_SECONDS = 0.05


class Metrics:
    """Counters, gauges and histograms of one service.

    If PROMETHEUS_MULTIPROC_DIR was set when prometheus_client was first imported, each process writes its values to
    that folder, and every process exposes the sums over all.
    """

    def __init__(self):
        self._registry = registry = CollectorRegistry()

        def make(metric, name: str, help: str, *labels: str, **settings):
            return metric(f"hf_summ_{name}", help, labels, registry=registry, **settings)

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
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        MultiProcessCollector(summed)
        return generate_latest(summed)


class Service:
    """A summarization pipeline that decodes the requests of many clients in batches.

    Args:
        load: returns the pipeline.
        limits: limits of requests and batches.
        threads: number of torch's threads; by default, torch's choice.

    Attributes:
        problem: the error that ended the decoding thread, or None.
        metrics: its counters.
        generation_keys: the model's own settings of `generate()`, once it is loaded.
    """

    def __init__(self, load: Callable[[], Any], limits: Limits | None = None, threads: int | None = None):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.problem: BaseException | None = None
        self.generation_keys: tuple[str, ...] = ()
        self._load = load
        self._threads = threads
        self._summarizer: Any = None
        self._ready: Future = Future()
        self._batcher = Batcher(self._decode, self.limits, self.metrics.waiting.set)
        # daemon: the process may exit while a batch without clients is being decoded
        self._thread = Thread(target=self._run, name="decoding", daemon=True)

    def start(self) -> "Service":
        """Load the model and summarize a first document, after which requests are accepted; return the service itself.

        Raises:
            Exception: the error of `load`, or of the pipeline on the document.
        """
        self._thread.start()
        self._ready.result()
        return self

    def submit(self, documents: Sequence[str], settings: Mapping[str, Any]) -> list[Future]:
        """The future `{"summary_text", "details"}` of each document of a request.

        It fails with a ValueError or TypeError if the document or its settings are at fault. Cancelling it frees its
        place, or ends the decoding if all requests of its batch are cancelled.

        Args:
            settings: settings of the pipeline; missing ones fall back to its own.

        Raises:
            ValueError: as `check_cost`; or the documents together exceed `limit_work`.
            Unavailable: the queue is full, a step of decoding does not end, or the service has stopped.
        """
        if self.state == STUCK:
            raise Unavailable("a decoding step is stuck", _STUCK_SECONDS)
        with panics_as_errors():
            works = [check_cost(document, settings, self._summarizer, self.limits) for document in documents]
        if sum(works) > self.limits.limit_work:
            raise ValueError(
                f"the {len(documents)} documents are about {sum(works):.2g} units of work, but the service takes at "
                f"most {self.limits.limit_work:.2g} in one request: send fewer"
            )
        futures: list[Future] = []
        try:
            for document, work in zip(documents, works, strict=True):
                # splitting and tokenizing one character takes about as long as one unit of work
                futures.append(self._batcher.submit(document, dict(settings), work + len(document)))
        except Unavailable:
            for future in futures:
                future.cancel()
            raise
        return futures

    @property
    def is_running(self) -> bool:
        """Whether the decoding thread runs in this process; one that was forked later has none."""
        return self._thread.is_alive()

    @property
    def state(self) -> str:
        """Ready, or stuck: a single step exceeds `limit_decode_seconds`."""
        return STUCK if self._step_seconds > self.limits.limit_decode_seconds else READY

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
        """Number of documents that are waiting or being decoded."""
        return self._batcher.unfinished

    def information(self) -> dict[str, Any]:
        """The model, the state and the limits, for clients."""
        model = self._summarizer.model
        name = getattr(model, "adapter_name", model.name_or_path)
        limits = {name: value for name, value in vars(self.limits).items() if name.startswith("limit_")}
        return {"model_id": name and shared_name(name), "task": "summarization", "state": self.state, **limits}

    def stop(self) -> None:
        """Accept no further requests, and fail those that are not finished."""
        self._batcher.close()
        self._thread.join(_JOIN_SECONDS)
        self.metrics.ready.set(0)

    def _run(self) -> None:
        try:
            if self._threads is not None:
                # graphs are loaded with this number
                os.environ["OMP_NUM_THREADS"] = str(self._threads)
            self._summarizer = self._load()
            if self._threads is not None and (torch := sys.modules.get("torch")):
                # torch's setting is per calling thread
                torch.set_num_threads(self._threads)
            check_defaults(self._summarizer, self.limits)
            self.generation_keys = tuple(getattr(self._summarizer.model, "generation_keys", ()))
            self._summarize([_FIRST_DOCUMENT], {})
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        try:
            self._batcher.run()
        except BaseException as error:
            self.problem = error
            raise

    def _decode(
        self, documents: Sequence[str], settings: dict[str, Any], proceed: Callable[[], None]
    ) -> list[dict[str, Any]]:
        began = time.perf_counter()
        with panics_as_errors():
            for document in documents:
                self._check_length(document)
            results = self._summarize(documents, {**settings, **self._summarizer.before_steps(proceed)})
        self.metrics.batch_seconds.observe(time.perf_counter() - began)
        self.metrics.batch_size.observe(len(documents))
        for result in results:
            details = result.get("details", {})
            self.metrics.source_tokens.inc(details.get("source_tokens", 0))
            self.metrics.cut_tokens.inc(details.get("cut_tokens", 0))
        return results

    def _summarize(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        # a checkpoint may set several return sequences; the windows of one document are batched too
        own = {"num_return_sequences": 1, "batch_size": self.limits.batch_size, "return_details": True}
        return self._summarizer(list(documents), **settings, **own)

    def _check_length(self, document: str) -> None:
        most = self.limits.limit_source_tokens
        # almost every token has at least one byte: most documents need no tokenization here
        if len(document.encode()) <= most:
            return
        length = len(self._summarizer.tokenizer(document, verbose=False)["input_ids"])
        if length > most:
            raise ValueError(f"the document has {length} tokens, but the service takes at most {most}: shorten it")


def check_cost(document: str, settings: Mapping[str, Any], summarizer: Any, limits: Limits) -> int:
    """The work of a document: windows × beams × new tokens × tokens that each new token attends to.

    The latter are the source's tokens, estimated from a few samples if the text is long, and the previous new tokens.

    Args:
        summarizer: the pipeline; unset settings of the request fall back to its own.
    """
    beams, new_tokens = _beams_and_tokens(summarizer, {name: settings[name] for name in settings if name in SETTINGS})
    in_windows = settings.get("long_documents", summarizer.long_documents) == "windows"
    length, limit = _length(document, summarizer, in_windows), summarizer.source_limit or 10**9
    windows = max(ceil(length / limit), 1) if in_windows else 1
    read = min(length, limit) + new_tokens
    work = windows * beams * new_tokens * read
    if work > limits.limit_work:
        raise ValueError(
            f"the request is about {work:.2g} units of work, of {windows} windows × {beams} beams × {new_tokens} new "
            f"tokens × {read} tokens attended to by each, but the service takes at most {limits.limit_work:.2g}: lower "
            f"`num_beams` or `max_new_tokens`, {'set `long_documents` to extract, ' if windows > 1 else ''}or shorten "
            "the document"
        )
    return work


def check_defaults(summarizer: Any, limits: Limits) -> None:
    """Raise a ValueError if a request that sets no parameters would exceed a limit."""
    for name, value in zip(("num_beams", "max_new_tokens"), _beams_and_tokens(summarizer, {}), strict=True):
        limit, most = SETTINGS[name].request_limit, request_range(SETTINGS[name], limits).most
        if value > most:
            raise ValueError(f"--{limit} {most}: `{name}` is {value} by default: raise the limit, or lower --{name}")


def _beams_and_tokens(summarizer: Any, requested: Mapping[str, Any]) -> tuple[int, int]:
    """Number of beams, and maximum number of new tokens of a summary."""
    settings = summarizer.search_settings(**requested)
    most = next(name for name in _MAX_LENGTHS if settings.get(name) is not None)
    # `max_length` includes the decoder's start token
    number = settings[most] - (most == "max_length")
    for least in _MIN_LENGTHS:
        if requested.get(least, 0) - (least == "min_length") > number:
            raise ValueError(f"`{least}` is {requested[least]}, but `{most}` is {settings[most]}: set the former lower")
    return settings.get("num_beams") or 1, number


def _length(document: str, summarizer: Any, is_read_whole: bool) -> int:
    """Estimated number of tokens of a document; an upper bound if it is truncated."""
    if not is_read_whole and summarizer.source_limit is not None:
        # almost every token has at least one byte
        return len(document.encode())
    step = max(_CHARACTERS, len(document) // _SAMPLES)
    samples = [document[start : start + _CHARACTERS] for start in range(0, len(document), step)]
    rows = summarizer.tokenizer(samples, add_special_tokens=False, verbose=False)["input_ids"] if samples else []
    return sum(map(len, rows)) * len(document) // max(sum(map(len, samples)), 1)
