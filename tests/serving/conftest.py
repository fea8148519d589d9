"""A service of a tiny model, on a port of its own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import torch
import uvicorn

from hf_summ import SummarizationPipeline
from hf_summ.serving import Limits, Service, create_app
from hf_summ.serving.server import bind, server_config, url
from tests.conftest import SENTENCES
from tests.training.tiny import gdlf, processor

DOCUMENT = SENTENCES[0]


@dataclass
class Served:
    """A running service."""

    address: str
    service: Service
    server: uvicorn.Server


@contextmanager
def served(load: Callable[[], Any], **limits) -> Iterator[Served]:
    """A service with these limits; it ends as after SIGTERM."""
    listening = bind("127.0.0.1", 0)
    service = Service(load, Limits(**limits)).start()
    server = uvicorn.Server(server_config(create_app(service), service.limits, log_config=None))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield Served(url(listening), service, server)
    finally:
        server.should_exit = True
        thread.join()


class Gate:
    """Lets documents pass, unless it is shut, and counts them and their batches."""

    def __init__(self):
        self.is_shut = False
        self.documents = 0
        self.batches = 0

    def __call__(self, documents: list[str]) -> None:
        self.documents += len(documents)
        self.batches += 1
        wait_until(lambda: not self.is_shut)


class Watched:
    """A pipeline that calls a function with its documents before it summarizes them."""

    def __init__(self, summarizer: SummarizationPipeline, before: Callable[[list[str]], object]):
        self.summarizer = summarizer
        self.before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self.summarizer, name)

    def __call__(self, documents: list[str], **settings) -> list[dict[str, Any]]:
        self.before(documents)
        return self.summarizer(documents, **settings)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Returns when the condition holds, and fails if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def metric(address: str, name: str) -> float:
    """A metric's value; 0 before it has one."""
    for line in httpx.get(f"{address}/metrics").text.splitlines():
        name_of_line, _, value = line.rpartition(" ")
        if name_of_line == f"hf_summ_{name}":
            return float(value)
    return 0.0


@pytest.fixture(scope="session")
def summarizer(tiny_tokenizer) -> SummarizationPipeline:
    """The pipeline of a tiny GDLF; shared by the session, so never change it."""
    tiny = processor(tiny_tokenizer)
    # with this seed, no summary is blank
    torch.manual_seed(1)
    model = gdlf(tiny)
    model.generation_config.max_new_tokens = 6
    return SummarizationPipeline(model.eval(), processor=tiny)


@pytest.fixture(scope="session")
def address(summarizer) -> Iterator[str]:
    """The URL of a service whose limits are the usual ones, except that on characters."""
    with served(lambda: summarizer, limit_characters=10_000) as running:
        yield running.address


@pytest.fixture
def client(address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address) as opened:
        yield opened
