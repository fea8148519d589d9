"""The service without HTTP: one thread loads a model, tests it and decodes requests in batches."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from hf_summ.common.files import shared_name
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.serving.batching import Batcher
from hf_summ.serving.settings import Limits

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer
    from hf_summ.serving.schema import SummaryRecord

# A service summarizes this document before it accepts requests.
_FIRST_DOCUMENT = "The mayor opened the new bridge on Monday."


class Metrics:
    """The counters of one process."""

    def __init__(self):
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "hf_summ_requests",
            "Requests for summaries by the status of their answer",
            ["status"],
            registry=self._registry,
        )
        self.waiting = Gauge("hf_summ_waiting_requests", "Documents waiting to be decoded", registry=self._registry)
        self.cut_tokens = Counter(
            "hf_summ_cut_tokens", "Tokens of summarized documents that were not read", registry=self._registry
        )

    def exposition(self) -> bytes:
        """All values in Prometheus's text format."""
        return generate_latest(self._registry)


class Service:
    """A summarization pipeline that decodes the requests of many clients in batches.

    Args:
        load: returns the pipeline.
        limits: limits of requests and batches; the defaults if None.
        threads: number of torch's threads; torch chooses it if None.

    Attributes:
        limits: limits of requests and batches.
        metrics: counters of requests, documents and tokens.
    """

    def __init__(
        self, load: Callable[[], "DocumentSummarizer"], limits: Limits | None = None, threads: int | None = None
    ):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self._load = load
        self._threads = threads
        # The decoding thread sets this attribute before `start` returns.
        self._summarizer: DocumentSummarizer
        # This future has the result None once the pipeline is loaded and tested, or the error of loading or testing.
        self._ready: Future = Future()
        self._batcher = Batcher(self._decode, self.limits, self.metrics.waiting.set)
        # As the thread is a daemon, the process may exit while a batch is being decoded.
        self._thread = Thread(target=self._run, name="decoding", daemon=True)

    def start(self) -> "Service":
        """Load the model and summarize a first document, after which requests are accepted; return the service itself.

        Raises:
            Exception: the error of `load`, or of the pipeline on the document.
        """
        self._thread.start()
        self._ready.result()
        return self

    def submit(self, documents: Sequence[str], settings: Mapping[str, object]) -> list[Future]:
        """The future `{"summary_text", "details"}` of each document of a request.

        A future fails with a ValueError or TypeError if the document or its settings are at fault. Cancelling a
        future frees its place in the queue.

        Args:
            documents: texts.
            settings: settings of the pipeline, by name; the pipeline has defaults for missing settings.

        Raises:
            ValueError: the beams and new tokens exceed `limit_beam_tokens`, or a setting is invalid.
            Unavailable: the queue is full, or the service has stopped.
        """
        beams, new_tokens = self._beams_and_tokens(settings)
        if beams * new_tokens > self.limits.limit_beam_tokens:
            raise ValueError(
                f"{beams} beams × {new_tokens} new tokens are {beams * new_tokens}, but the service allows at most "
                f"{self.limits.limit_beam_tokens}: lower `num_beams` or `max_new_tokens`"
            )
        return self._batcher.submit(documents, dict(settings))

    @property
    def is_running(self) -> bool:
        """Whether the decoding thread runs in this process; a process that was forked later has no such thread."""
        return self._thread.is_alive()

    def information(self) -> dict[str, object]:
        """The model and the limits, for clients."""
        model = self._summarizer.model
        name = getattr(model, "adapter_name", model.name_or_path)
        information = {"model_id": name and shared_name(name), "task": "summarization"}
        for limit, value in vars(self.limits).items():
            if limit.startswith("limit_"):
                information[limit] = value
        return information

    def stop(self) -> None:
        """Accept no further requests, and end the decoding thread after the batch that it is decoding.

        The futures of waiting documents fail with `Unavailable`.
        """
        self._batcher.close()

    def _run(self) -> None:
        """Load and test the pipeline, and decode batches until `stop`; this runs in the decoding thread."""
        try:
            self._load_summarizer()
            self._check_defaults()
            self._summarize([_FIRST_DOCUMENT], {})
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        self._batcher.run()

    def _load_summarizer(self) -> None:
        """Load the pipeline with the number of threads that was set, if any."""
        if self._threads is not None:
            # The runtime of exported graphs reads this number when it loads them.
            os.environ["OMP_NUM_THREADS"] = str(self._threads)
        self._summarizer = self._load()
        torch = sys.modules.get("torch")
        if self._threads is not None and torch is not None:
            # torch applies the number to the calling thread alone, which is the decoding thread.
            torch.set_num_threads(self._threads)

    def _check_defaults(self) -> None:
        """Raise a ValueError if a request that sets no parameters would exceed the limit."""
        beams, new_tokens = self._beams_and_tokens({})
        if beams * new_tokens > self.limits.limit_beam_tokens:
            raise ValueError(
                f"--limit_beam_tokens {self.limits.limit_beam_tokens}: the default is {beams} beams × {new_tokens} new "
                "tokens: raise the limit, or lower --num_beams or --max_new_tokens"
            )

    def _beams_and_tokens(self, settings: Mapping[str, object]) -> tuple[int, int]:
        """Number of beams, and maximum number of new tokens of a summary."""
        search_settings = {}
        for name, value in settings.items():
            if name in SETTINGS:
                search_settings[name] = value
        search_settings = self._summarizer.search_settings(**search_settings)
        beams = search_settings.get("num_beams") or 1
        new_tokens = search_settings.get("max_new_tokens")
        if new_tokens is None:
            # `max_length` includes the decoder's start token.
            new_tokens = search_settings["max_length"] - 1
        return beams, new_tokens

    def _decode(self, documents: Sequence[str], settings: Mapping[str, object]) -> "list[SummaryRecord]":
        """Summarize documents with equal settings, and count the tokens that were not read."""
        results = self._summarize(documents, settings)
        for result in results:
            self.metrics.cut_tokens.inc(result.get("details", {}).get("cut_tokens", 0))
        return results

    def _summarize(self, documents: Sequence[str], settings: Mapping[str, object]) -> "list[SummaryRecord]":
        """The pipeline's result for each document."""
        return self._summarizer(
            list(documents),
            **settings,
            # A checkpoint may set several return sequences.
            num_return_sequences=1,
            # If a document is summarized in windows, they are batched too.
            batch_size=self.limits.batch_size,
            return_details=True,
            # A pipeline may show a bar by default, which would appear for each batch.
            show_progress=False,
        )
