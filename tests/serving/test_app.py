"""The service over HTTP: a real server, real clients, and real sockets that misbehave."""

import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import pytest
from rdflib import Graph
from rdflib.namespace import DCTERMS

from hf_summ.serving.formats import FORMATS
from tests.conftest import SENTENCES
from tests.serving.conftest import DOCUMENT, Watched, metric, served, wait_until


def place(address: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def connected(address: str) -> socket.socket:
    return socket.create_connection(place(address))


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes, by a reset too."""
    connection.settimeout(30)
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(10_000):
            content += part
    return content


def head(length: int) -> bytes:
    return f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


CLIENT = """
import json, sys
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

address, document = sys.argv[1:]
client = InferenceClient(model=address)
told = [client.summarization(document).summary_text]
asked = {"clean_up_tokenization_spaces": True, "truncation": "longest_first"}
asked["generate_parameters"] = {"num_beams": 2, "max_new_tokens": 3}
told.append(client.summarization(document, **asked).summary_text)
try:
    client.summarization(document, generate_parameters={"num_beams": 10_000})
except HfHubHTTPError as error:
    told.append([error.response.status_code, str(error)])
endpoint = InferenceClient(model=address, provider="hf-inference")
told += [endpoint.health_check(), endpoint.get_endpoint_info()["task"]]
print(json.dumps(told))
"""


def test_inference_client_is_its_client(address, summarizer):
    # in a process of its own, as that of the tests was told that there is no network
    command = [sys.executable, "-c", CLIENT, address, DOCUMENT]
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    plain, asked, (status, message), *about = json.loads(done.stdout)
    assert plain == summarizer(DOCUMENT)[0]["summary_text"]
    assert asked == summarizer(DOCUMENT, num_beams=2, max_new_tokens=3)[0]["summary_text"]
    assert (status, "`num_beams` is 10000, but must be from 1 to 16" in message) == (422, True)
    assert about == [True, "summarization"]


def test_an_answer_is_a_list(client, summarizer):
    response = client.post("/", json={"inputs": DOCUMENT})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == summarizer(DOCUMENT)
    # as of the pipeline
    assert client.post("/", json={"inputs": " \n"}).json() == [{"summary_text": ""}]


def test_many_clients_have_the_summaries_that_each_has_alone(client, address, summarizer):
    before = metric(address, "batch_size_count")
    documents = [sentence[:length] for sentence in SENTENCES for length in range(40, 56)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        responses = list(pool.map(lambda text: client.post("/", json={"inputs": text}), documents))
    assert [response.json() for response in responses] == [summarizer(document) for document in documents]
    assert metric(address, "batch_size_count") - before < len(documents) / 2
    assert metric(address, 'requests_total{status="200"}') >= len(documents)
    assert metric(address, "waiting_requests") == 0


def test_bad_documents_fail_alone(client, summarizer):
    # 48 tokens fit
    long = " ".join(SENTENCES)
    asked = {"truncation": "do_not_truncate"}
    texts = [long if place % 10 == 3 else DOCUMENT for place in range(40)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(lambda text: client.post("/", json={"inputs": text, "parameters": asked}), texts))
    for text, response in zip(texts, responses, strict=True):
        if text == long:
            assert response.status_code == 422
            assert response.json()["error"].endswith(
                "tokens, but the model reads at most 48: shorten it, leave `truncation` out, or set `long_documents` "
                "to extract or windows"
            )
        else:
            assert response.json() == summarizer(DOCUMENT)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the body cannot be read: not JSON"),
        (b'{"inputs": "\xc3"}', 400, "the body cannot be read: not UTF-8"),
        (b'{"inputs": "x", "parameters": {"length_penalty": NaN}}', 422, "`length_penalty` is nan"),
        # not the tokens, but the bytes
        (json.dumps({"inputs": "word " * 2000}).encode(), 413, "the body has more than 10000 bytes: shorten it"),
        (json.dumps({"inputs": "word " * 1_000_000}).encode(), 413, "the body has more than 10000 bytes: shorten it"),
        (json.dumps({"inputs": "word " * 1500}).encode(), 422, "tokens, but the service takes at most 200: shorten"),
        # what is quoted may be no text
        (b'{"inputs": "x", "\\ud800": 1}', 422, "unknown key '\ufffd'"),
        # what only the model can tell
        (
            b'{"inputs": "x", "parameters": {"coverage_penalty": 1}}',
            422,
            "`coverage_penalty` is 1.0, but a gdlf that does not copy computes no coverage of the source",
        ),
    ],
)
def test_bad_requests_are_refused(client, body, status, message):
    response = client.post("/", content=body)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert client.post("/", json={"inputs": DOCUMENT}).status_code == 200


def test_a_body_without_a_length_is_limited_too(client):
    response = client.post("/", content=(b"x" * 1000 for _ in range(100)))
    assert (response.status_code, "more than 10000 bytes" in response.text) == (413, True)


def test_other_paths_and_methods(client):
    assert client.get("/none").json() == {"error": "Not Found"}
    refused = client.put("/")
    assert (refused.status_code, refused.json()) == (405, {"error": "Method Not Allowed"})
    assert {*refused.headers["allow"].split(", ")} == {"GET", "HEAD", "POST"}
    assert {*client.post("/info").headers["allow"].split(", ")} == {"GET", "HEAD"}
    assert client.get("/ready").text == "ready\n"
    for path in ("/", "/health", "/openapi.json"):
        answer, whole = client.head(path), client.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize("media_type", FORMATS)
def test_rdf(client, summarizer, media_type):
    text = f"<b>{DOCUMENT}</b>"
    accept = f"application/json;q=0.5, {media_type}"
    response = client.post("/", json={"inputs": text}, headers={"Accept": accept})
    assert response.headers["content-type"].partition(";")[0] == media_type
    graph = Graph().parse(data=response.content, format=FORMATS[media_type])
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    texts = {subject: str(text) for subject, relation, text in graph if str(relation).endswith("isString")}
    assert texts == {source: text, summary: summarizer(text)[0]["summary_text"]}
    # errors are JSON in any case
    refused = client.post("/", content=b"{", headers={"Accept": media_type})
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json")


@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_long_documents_are_read_as_asked_for(client, summarizer, way):
    text, parameters = " ".join(SENTENCES), {"long_documents": way, "return_details": True}
    (record,) = client.post("/", json={"inputs": text, "parameters": parameters}).json()
    assert [record] == summarizer(text, **parameters)
    assert record["details"]["source_tokens"] > summarizer.processor.max_source_length
    answer = client.post("/", json={"inputs": text, "parameters": parameters}, headers={"Accept": "text/turtle"})
    sentences = {str(text) for _, relation, text in Graph().parse(data=answer.content) if "anchorOf" in str(relation)}
    kept = record["details"].get("sentences", [])
    assert sentences == {text[place["start"] : place["end"]] for place in kept}
    assert bool(sentences) == (way == "extract")


def test_lines_of_one_header_are_one_list(client):
    headers = [("Accept", "application/json;q=0.5"), ("Accept", "text/turtle")]
    assert (
        client.post("/", json={"inputs": DOCUMENT}, headers=headers).headers["content-type"].startswith("text/turtle")
    )


def test_unknown_formats_are_refused(client):
    response = client.post("/", json={"inputs": DOCUMENT}, headers={"Accept": "image/png"})
    assert response.status_code == 406
    assert "use one of application/json, text/turtle, application/ld+json" in response.json()["error"]


def test_a_slow_body_is_answered(address):
    with connected(address) as slow:
        slow.sendall(head(100) + b"{")
        answer = received(slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body took longer than 0.5 s: send it faster" in answer


def test_a_request_that_does_not_end_is_closed(summarizer, monkeypatch):
    monkeypatch.setattr("hf_summ.serving.server._GRACE", 0.0)
    with served(lambda: summarizer, limit_seconds=0.3) as running, httpx.Client(base_url=running.address) as client:
        for beginning in (b"", b"POST / HTT"):
            began = time.monotonic()
            with connected(running.address) as slow:
                slow.sendall(beginning)
                assert received(slow) == b""
            assert 0.3 <= time.monotonic() - began < 10
        # also the second one of a connection
        with connected(running.address) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
            slow.sendall(b"GET /hea")
            assert b"HTTP" not in received(slow)
        assert [client.post("/", json={"inputs": DOCUMENT}).status_code for _ in range(2)] == [200, 200]


def test_a_client_that_does_not_read_is_closed(summarizer, monkeypatch):
    monkeypatch.setattr("hf_summ.serving.server._GRACE", 0.0)
    with served(lambda: summarizer, limit_seconds=0.3) as running, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(place(running.address))
        # the answers are more than the buffers of both sides hold
        slow.sendall(b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        time.sleep(1.5)
        assert 0 < received(slow).count(b"HTTP/1.1 200 ") < 100


class Gate:
    """Lets documents pass, unless it is shut, and counts them."""

    def __init__(self, is_shut: bool = False):
        self.is_shut, self.documents = is_shut, 0

    def __call__(self, documents: list[str]) -> None:
        self.documents += len(documents)
        wait_until(lambda: not self.is_shut)


def test_a_full_queue_and_clients_that_hang_up(summarizer):
    gate = Gate()
    body = json.dumps({"inputs": DOCUMENT}).encode()
    with (
        served(lambda: Watched(summarizer, gate), batch_size=1, limit_queue=2) as running,
        httpx.Client(base_url=running.address) as client,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        gate.is_shut, gate.documents = True, 0
        first = pool.submit(client.post, "/", content=body)
        wait_until(lambda: gate.documents == 1)
        waiting = [connected(running.address) for _ in range(2)]
        for one in waiting:
            one.sendall(head(len(body)) + body)
        wait_until(lambda: running.service.unfinished == 3)
        full = httpx.post(running.address, content=body)
        assert (full.status_code, full.json()["error"]) == (503, "2 requests are waiting: try again later")
        assert 1 <= int(full.headers["retry-after"]) <= 60
        assert full.headers["connection"] == "close"
        assert metric(running.address, "waiting_requests") == 2
        for one in waiting:
            one.close()
        wait_until(lambda: running.service.unfinished == 1)
        gate.is_shut = False
        assert first.result().status_code == 200
        assert client.post("/", content=body).status_code == 200
        # the two were not decoded
        assert gate.documents == 2
        assert metric(running.address, 'requests_total{status="499"}') == 2


@pytest.mark.parametrize(
    "framing",
    [
        # which programs on the way may take for one request or two
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        # a chunk without a length, after the request has begun
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nno length\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n",
    ],
)
def test_a_request_of_which_the_end_is_unclear_has_one_answer(address, caplog, framing):
    with connected(address) as one:
        one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + framing)
        answer = received(one)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_client_that_sends_no_more_has_its_answers(summarizer):
    gate = Gate()
    body = json.dumps({"inputs": DOCUMENT}).encode()
    with served(lambda: Watched(summarizer, gate)) as running, connected(running.address) as one:
        gate.is_shut = True
        one.sendall(head(len(body)) + body + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        one.shutdown(socket.SHUT_WR)
        wait_until(lambda: running.service.unfinished == 1)
        time.sleep(1.2)
        gate.is_shut = False
        answer = received(one)
    assert answer.startswith(b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert json.dumps(summarizer(DOCUMENT), ensure_ascii=False).encode() in answer
    assert answer.endswith(b"alive\n")


def test_a_client_that_goes_ends_the_decoding_of_its_request(summarizer):
    body = json.dumps({"inputs": DOCUMENT, "parameters": {"max_new_tokens": 20_000, "min_new_tokens": 20_000}})
    body = body.encode()
    with served(lambda: summarizer, limit_work=1e12, limit_new_tokens=20_000) as running:
        with connected(running.address) as one:
            one.sendall(head(len(body)) + body)
            wait_until(lambda: metric(running.address, "step_seconds") > 0)
        began = time.process_time()
        wait_until(lambda: running.service.unfinished == 0)
        assert time.process_time() - began < 1
        assert metric(running.address, 'requests_total{status="499"}') == 1


@pytest.mark.parametrize("search", [{}, {"do_sample": True}, {"num_beams": 1}, {"long_documents": "windows"}])
def test_a_costly_request_ends_in_time_while_others_are_answered(summarizer, search):
    costly = {"max_new_tokens": 20_000, "min_new_tokens": 20_000, "num_beams": 4} | search
    inputs = {"inputs": " ".join(SENTENCES), "parameters": costly}
    with (
        served(lambda: summarizer, limit_work=1e12, limit_new_tokens=20_000, limit_decode_seconds=1) as running,
        httpx.Client(base_url=running.address) as client,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.post, "/", json=inputs)
        wait_until(lambda: running.service.unfinished == 1)
        ordinary = [client.post("/", json={"inputs": DOCUMENT}) for _ in range(3)]
        assert not answer.done()
        assert [one.json() for one in ordinary] == [summarizer(DOCUMENT)] * 3
        assert (answer.result().status_code, "takes longer than the limit of 1 s" in answer.result().text) == (
            422,
            True,
        )


def test_a_costly_request_is_refused_at_once(client):
    parameters = {"long_documents": "windows", "num_beams": 16, "min_new_tokens": 1024, "max_new_tokens": 1024}
    before = time.monotonic()
    refused = client.post("/", json={"inputs": "word " * 1900, "parameters": parameters})
    assert (refused.status_code, refused.json()["error"][:20]) == (422, "the request is about")
    assert time.monotonic() - before < 1


def test_a_step_that_does_not_end_is_noticed(summarizer):
    gate = Gate()
    with (
        served(lambda: Watched(summarizer, gate), limit_decode_seconds=0.3) as running,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        # the metrics follow with the server's next tick
        wait_until(lambda: metric(running.address, "ready_workers") == 1)
        gate.is_shut = True
        stuck = pool.submit(httpx.post, running.address, json={"inputs": DOCUMENT})
        wait_until(lambda: metric(running.address, "ready_workers") == 0)
        ready = httpx.get(f"{running.address}/ready")
        assert (ready.status_code, ready.text) == (503, "stuck\n")
        assert metric(running.address, "step_seconds") > 0.3
        refused = httpx.post(running.address, json={"inputs": DOCUMENT})
        assert (refused.status_code, "a decoding step is stuck" in refused.text) == (503, True)
        gate.is_shut = False
        # its time is over, of which the first step learns
        assert stuck.result().status_code == 422
        wait_until(lambda: httpx.get(f"{running.address}/ready").status_code == 200)


def test_ready_neither_while_loading_nor_while_draining(summarizer):
    gate = Gate(is_shut=True)
    with (
        served(lambda: Watched(summarizer, gate), is_awaited=False) as running,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        address, service = running.address, running.service
        assert (httpx.get(f"{address}/health").status_code, httpx.get(f"{address}/ready").text) == (200, "loading\n")
        early = httpx.post(address, json={"inputs": DOCUMENT})
        assert (early.status_code, early.json()["error"]) == (503, "the model is being loaded: try again later")
        assert not running.told
        gate.is_shut = False
        wait_until(lambda: running.told == ["ready"])
        assert httpx.get(f"{address}/ready").status_code == 200
        gate.is_shut = True
        begun = pool.submit(httpx.post, address, json={"inputs": DOCUMENT})
        wait_until(lambda: service.unfinished == 1)
        running.server.should_exit = True
        wait_until(lambda: service.state == "draining")
        assert httpx.get(f"{address}/ready").status_code == 503
        late = httpx.post(address, json={"inputs": DOCUMENT})
        assert (late.status_code, late.json()["error"]) == (503, "the service is shutting down: try again later")
        assert late.headers["connection"] == "close"
        gate.is_shut = False
        assert begun.result().json() == summarizer(DOCUMENT)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")


def test_what_takes_too_long_to_drain_is_refused(summarizer):
    gate = Gate()
    with (
        served(lambda: Watched(summarizer, gate), batch_size=1, drain_seconds=0.5) as running,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        gate.is_shut = True
        answers = [pool.submit(httpx.post, running.address, json={"inputs": DOCUMENT}) for _ in range(2)]
        wait_until(lambda: running.service.unfinished == 2)
        running.server.should_exit = True
        assert [answer.result().status_code for answer in answers] == [503, 503]
        assert "the service is shutting down" in answers[0].result().text
        gate.is_shut = False


def test_an_error_that_is_not_the_clients(summarizer):
    def fail(documents):
        if "bad" in documents:
            raise RuntimeError("/a/path")

    with served(lambda: Watched(summarizer, fail)) as running:
        failed = httpx.post(running.address, json={"inputs": "bad"})
        assert (failed.status_code, failed.json()["error"]) == (
            500,
            "the document could not be summarized: RuntimeError",
        )
        assert httpx.post(running.address, json={"inputs": DOCUMENT}).status_code == 200


def test_what_cannot_be_loaded_ends_the_server():
    def load():
        raise ValueError("no such model")

    with served(load) as running:
        assert (running.service.state, str(running.service.problem)) == ("failed", "no such model")
