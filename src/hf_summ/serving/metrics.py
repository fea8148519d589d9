"""What the service counts, as Prometheus reads it; of several processes, their sums."""

import os

_PREFIX = "hf_summ"
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters, gauges and histograms of one service.

    If PROMETHEUS_MULTIPROC_DIR was set when prometheus_client was first imported, each process writes its own into
    that folder, and any of them shows the sums over all.
    """

    def __init__(self):
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()

        def make(kind, name: str, help: str, *labels: str, **settings):
            return kind(f"{_PREFIX}_{name}", help, labels, registry=registry, **settings)

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
