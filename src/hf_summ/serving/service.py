"""The service without HTTP: one thread loads a model, tests it and decodes requests in batches."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from hf_summ.common.files import shared_name
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.serving.batching import Batcher
from hf_summ.serving.settings import Limits

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
        limits: limits of requests and batches.
        threads: number of torch's threads; by default, torch's choice.

    Attributes:
        metrics: its counters.
    """

    def __init__(self, load: Callable[[], Any], limits: Limits | None = None, threads: int | None = None):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self._load = load
        self._threads = threads
        self._summarizer: Any = None
        self._ready: Future = Future()
        self._batcher = Batcher(self._decode, self.limits, self.metrics.waiting.set)
        # daemon: the process may exit while a batch is being decoded
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
        place in the queue.

        Args:
            documents: texts.
            settings: settings of the pipeline; missing ones fall back to its own.

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
        """Whether the decoding thread runs in this process; one that was forked later has none."""
        return self._thread.is_alive()

    def information(self) -> dict[str, Any]:
        """The model and the limits, for clients."""
        model = self._summarizer.model
        name = getattr(model, "adapter_name", model.name_or_path)
        limits = {name: value for name, value in vars(self.limits).items() if name.startswith("limit_")}
        return {"model_id": name and shared_name(name), "task": "summarization", **limits}

    def stop(self) -> None:
        """Accept no further requests, and fail those that are waiting."""
        self._batcher.close()

    def _run(self) -> None:
        try:
            if self._threads is not None:
                # graphs are loaded with this number
                os.environ["OMP_NUM_THREADS"] = str(self._threads)
            self._summarizer = self._load()
            if self._threads is not None and (torch := sys.modules.get("torch")):
                # torch's setting is per calling thread
                torch.set_num_threads(self._threads)
            self._check_defaults()
            self._summarize([_FIRST_DOCUMENT], {})
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        self._batcher.run()

    def _check_defaults(self) -> None:
        """Raise a ValueError if a request that sets no parameters would exceed the limit."""
        beams, new_tokens = self._beams_and_tokens({})
        if beams * new_tokens > self.limits.limit_beam_tokens:
            raise ValueError(
                f"--limit_beam_tokens {self.limits.limit_beam_tokens}: the default is {beams} beams × {new_tokens} new "
                "tokens: raise the limit, or lower --num_beams or --max_new_tokens"
            )

    def _beams_and_tokens(self, settings: Mapping[str, Any]) -> tuple[int, int]:
        """Number of beams, and maximum number of new tokens of a summary."""
        requested = {name: value for name, value in settings.items() if name in SETTINGS}
        search = self._summarizer.search_settings(**requested)
        beams = search.get("num_beams") or 1
        if search.get("max_new_tokens") is not None:
            return beams, search["max_new_tokens"]
        # `max_length` includes the decoder's start token
        return beams, search["max_length"] - 1

    def _decode(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        results = self._summarize(documents, settings)
        for result in results:
            self.metrics.cut_tokens.inc(result.get("details", {}).get("cut_tokens", 0))
        return results

    def _summarize(self, documents: Sequence[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
        # a checkpoint may set several return sequences; the windows of one document are batched too
        required = {"num_return_sequences": 1, "batch_size": self.limits.batch_size, "return_details": True}
        # `hf_summ.summarizer` would show it for each batch
        required["show_progress"] = False
        return self._summarizer(list(documents), **settings, **required)
