"""Requests as clients of other languages send them, and services in processes that are forked."""

import asyncio
import os

import httpx
import pytest

from hf_summ.common.files import shared_name
from hf_summ.pretrained import bundled_model, graphs_of
from hf_summ.runtimes import OnnxSummarizer
from hf_summ.serving import Service, create_app
from hf_summ.serving.server import bind
from tests.serving.conftest import served

DOCUMENT = "We present a parser."


@pytest.fixture(scope="module")
def address():
    """The URL of a service on this machine, as `hf-summ serve` starts it."""

    def load() -> OnnxSummarizer:
        return OnnxSummarizer(bundled_model("arxiv-tldr"), num_beams=1, max_new_tokens=2)

    with served(load, allowed_hosts="127.0.0.1") as running:
        yield running.address


# Kludex/uvicorn#2722, MagicStack/httptools#124: Java's clients ask for HTTP/2 first
def test_requests_for_http_2_are_answered_in_http_1(address):
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    body = f'{{"inputs": "{DOCUMENT}"}}'.encode()
    # in chunks, as its length is not given
    answer = httpx.post(address, content=iter([body[:10], body[10:]]), headers=headers)
    assert answer.json() == httpx.post(address, content=body).json()


# google/gson#2780, #692: maps of Gson have numbers of one type, as those of JavaScript and Lua
def test_numbers_may_have_a_decimal_point(address):
    for number, status in (("2", 200), ("2.0", 200), ("2.5", 422), ("1e400", 422)):
        body = f'{{"inputs": "{DOCUMENT}", "parameters": {{"max_new_tokens": {number}}}}}'
        answer = httpx.post(address, content=body)
        assert answer.status_code == status, answer.text


def test_a_host_without_address_is_named():
    # the resolver's part of the message depends on the network
    message = r"cannot listen on no\.such\.invalid: (?!Unknown error)\w.*; name another port or"
    with pytest.raises(ValueError, match=message):
        bind("no.such.invalid", 0)


def test_graphs_have_the_name_of_their_model(address):
    assert shared_name(str(graphs_of("arxiv-tldr"))) == "arxiv-tldr"


# benoitc/gunicorn#2478, pytorch/pytorch#49555: workers that are forked have no threads of their parent
def test_a_service_that_was_started_before_a_fork_ends_its_worker():
    app = create_app(Service(lambda: OnnxSummarizer(bundled_model("arxiv-tldr"), num_beams=1)).start())
    worker = os.fork()
    if worker == 0:
        try:
            asyncio.run(app.router.lifespan_context(app).__aenter__())
        except RuntimeError as error:
            is_named = "start it in each worker" in str(error)
            os._exit(3 if is_named else 1)
        os._exit(0)
    _, status = os.waitpid(worker, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    asyncio.run(app.router.lifespan_context(app).__aenter__())
