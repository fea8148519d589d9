"""The service over HTTP: a real server, real clients, and real sockets."""

import concurrent.futures
import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
from rdflib import Graph
from rdflib.namespace import DCTERMS
from tokenizers import Regex
from tokenizers.normalizers import Replace

from hf_summ.serving import Limits
from hf_summ.serving.rdf import FORMATS
from hf_summ.serving.service import check_cost
from tests.conftest import SENTENCES, run_python
from tests.serving.conftest import DOCUMENT, Watched, metric, served, wait_until


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port))


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


@pytest.mark.thorough
def test_inference_client_is_its_client(address, summarizer):
    # in a process of its own, as that of the tests was told that there is no network
    output, _ = run_python("-c", CLIENT, address, DOCUMENT, HF_HUB_OFFLINE="0")
    plain, asked, (status, message), *about = json.loads(output)
    assert plain == summarizer(DOCUMENT)[0]["summary_text"]
    assert asked == summarizer(DOCUMENT, num_beams=2, max_new_tokens=3)[0]["summary_text"]
    assert (status, "`num_beams` is 10000, but must be at most 16" in message) == (422, True)
    assert about == [True, "summarization"]


def test_an_answer_is_a_list(client, summarizer):
    response = client.post("/", json={"inputs": DOCUMENT})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == summarizer(DOCUMENT)
    # as of the pipeline
    assert client.post("/", json={"inputs": " \n"}).json() == [{"summary_text": ""}]
    # half of an emoji
    assert client.post("/", content=rb'{"inputs": "a \ud800 b"}').json() == summarizer("a \ufffd b")


@pytest.mark.thorough
def test_many_clients_have_the_summaries_that_each_has_alone(client, address, summarizer):
    before = metric(address, "batch_size_count")
    documents = [sentence[:length] for sentence in SENTENCES for length in range(40, 56)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        responses = list(pool.map(lambda text: client.post("/", json={"inputs": text}), documents))
    assert [response.json() for response in responses] == [summarizer(document) for document in documents]
    assert metric(address, "batch_size_count") - before < len(documents) / 2
    assert metric(address, 'requests_total{status="200"}') >= len(documents)
    assert metric(address, "waiting_requests") == 0


@pytest.mark.thorough
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
                "tokens, but the model reads at most 48: shorten it, omit `truncation`, or set `long_documents` "
                "to extract or windows"
            )
        else:
            assert response.json() == summarizer(DOCUMENT)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the body cannot be read: not JSON"),
        # fastapi/fastapi#5521, smagafurov/fastapi-jsonrpc#48
        (b'{"inputs": "\xc3"}', 400, "the body cannot be read: 'utf-8' codec can't decode byte 0xc3 in position 12"),
        # as deep as no parser reads, or, since Python 3.13, not JSON
        (b"[" * 9000, 400, "the body cannot be read: "),
        (
            b'{"inputs": "x", "parameters": {"length_penalty": NaN}}',
            422,
            "`length_penalty` is nan, but must be a finite",
        ),
        # not the tokens, but the bytes
        (json.dumps({"inputs": "word " * 2000}).encode(), 413, "the body has more than 10000 bytes: shorten it"),
        (json.dumps({"inputs": "word " * 1_000_000}).encode(), 413, "the body has more than 10000 bytes: shorten it"),
        # a body without a length is limited too
        ([b"x" * 1000] * 100, 413, "the body has more than 10000 bytes: shorten it"),
        (json.dumps({"inputs": "word " * 1500}).encode(), 422, "tokens, but the service takes at most 200: shorten"),
        # what is quoted may be no text
        (b'{"inputs": "x", "\\ud800": 1}', 422, "the body must be an object with `inputs`, but is '\\ud800'"),
        # what only the model can tell
        (
            b'{"inputs": "x", "parameters": {"coverage_penalty": 1}}',
            422,
            "`coverage_penalty` is 1.0, which needs a model that copies: set it to 0",
        ),
    ],
)
def test_bad_requests_are_refused(client, body, status, message):
    response = client.post("/", content=body)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert client.post("/", json={"inputs": DOCUMENT}).status_code == 200


def test_other_paths_and_methods(client):
    assert client.get("/none").json() == {
        "error": "nothing is at /none: `POST /` summarizes, and /docs lists what else there is"
    }
    refused = client.put("/")
    assert (refused.status_code, refused.json()) == (405, {"error": "Method Not Allowed"})
    assert (refused.headers["allow"], client.post("/info").headers["allow"]) == ("POST", "GET")
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


@pytest.mark.parametrize("charset", ["", "; charset=latin-1"])
def test_a_plain_text_is_a_document(client, summarizer, charset):
    content = f"{DOCUMENT} Café.".encode(charset.partition("=")[2] or "utf-8")
    answer = client.post("/", content=content, headers={"Content-Type": f"text/plain{charset}"})
    assert answer.json() == summarizer(f"{DOCUMENT} Café.")
    refused = client.post("/", content=b"\xe9", headers={"Content-Type": "text/plain"})
    assert (refused.status_code, "cannot be read" in refused.text) == (400, True)


def test_documents_in_turtle_keep_their_uris(client, summarizer):
    texts = {"http://a.org/1#char=0,36": DOCUMENT, "http://a.org/2": SENTENCES[0]}
    turtle = "@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .\n"
    turtle += "".join(f"<{uri}> a nif:Context ; nif:isString {json.dumps(text)} .\n" for uri, text in texts.items())
    headers = {"Content-Type": "text/turtle", "Accept": "text/turtle"}
    graph = Graph().parse(data=client.post("/", content=turtle.encode(), headers=headers).content)
    strings = {subject: str(text) for subject, relation, text in graph if str(relation).endswith("isString")}
    summaries = {str(source): strings[summary] for source, summary in graph.subject_objects(DCTERMS.abstract)}
    assert summaries == {uri: summarizer(text)[0]["summary_text"] for uri, text in texts.items()}
    for content, message in ((b"{", "not Turtle"), (b"", "it has no `nif:isString`")):
        refused = client.post("/", content=content, headers=headers)
        assert (refused.status_code, message in refused.text) == (400, True)


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize("search", [{}, {"do_sample": True}, {"num_beams": 1}, {"long_documents": "windows"}])
def test_a_costly_request_ends_in_time_while_others_are_answered(summarizer, search):
    costly = {"max_new_tokens": 20_000, "min_new_tokens": 20_000, "num_beams": 4} | search
    inputs = {"inputs": " ".join(SENTENCES), "parameters": costly}
    with (
        served(lambda: summarizer, limit_work=1e12, limit_new_tokens=20_000, limit_decode_seconds=2) as running,
        httpx.Client(base_url=running.address) as client,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.post, "/", json=inputs)
        wait_until(lambda: running.service.unfinished == 1)
        ordinary = client.post("/", json={"inputs": DOCUMENT})
        assert not answer.done()
        assert ordinary.json() == summarizer(DOCUMENT)
        ended = answer.result()
        assert (ended.status_code, "takes longer than the limit of 2 s" in ended.text) == (422, True)


def test_a_costly_request_is_refused_at_once(client):
    parameters = {"long_documents": "windows", "num_beams": 16, "min_new_tokens": 1024, "max_new_tokens": 1024}
    before = time.monotonic()
    refused = client.post("/", json={"inputs": "word " * 1900, "parameters": parameters})
    assert (refused.status_code, refused.json()["error"][:20]) == (422, "the request is about")
    assert time.monotonic() - before < 1


@pytest.mark.thorough
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


def test_stopping_answers_what_was_accepted(summarizer):
    gate = Gate()
    with served(lambda: Watched(summarizer, gate)) as running, concurrent.futures.ThreadPoolExecutor(1) as pool:
        gate.is_shut = True
        accepted = pool.submit(httpx.post, running.address, json={"inputs": DOCUMENT})
        wait_until(lambda: running.service.unfinished == 1)
        running.server.should_exit = True
        wait_until(lambda: is_refused(running.address))
        gate.is_shut = False
        assert accepted.result().json() == summarizer(DOCUMENT)


def is_refused(address: str) -> bool:
    try:
        connected(address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_takes_too_long_to_stop_is_refused(summarizer):
    gate = Gate()
    with (
        served(lambda: Watched(summarizer, gate), batch_size=1, drain_seconds=1.0) as running,
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
        message = "the document could not be summarized: RuntimeError"
        assert (failed.status_code, failed.json()["error"]) == (500, message)
        assert httpx.post(running.address, json={"inputs": DOCUMENT}).status_code == 200


class Panicking:
    """A tokenizer of Rust that panics at some documents: its normalizer's search exceeds the limit of retries."""

    DOCUMENT = "a" * 60 + "! Mayor opened."

    def __init__(self):
        self.normalizer = Replace(Regex("(a+)+$"), "b")

    def __call__(self, documents: list[str]) -> None:
        for document in documents:
            self.normalizer.normalize_str(document)


@pytest.mark.thorough
def test_a_panic_of_rust_fails_its_request_alone(summarizer):
    """openai/tiktoken#15: a long text panics, and PanicException is no Exception."""
    panicking = Panicking()
    with pytest.raises(BaseException, match="retry") as panic:
        panicking([Panicking.DOCUMENT])
    assert not isinstance(panic.value, Exception)
    with served(lambda: Watched(summarizer, panicking), batch_wait=1000, batch_size=3) as running:
        texts = [DOCUMENT, Panicking.DOCUMENT, DOCUMENT]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda text: httpx.post(running.address, json={"inputs": text}), texts))
        assert [answer.status_code for answer in answers] == [200, 422, 200]
        assert answers[1].json()["error"].startswith("a library in Rust, probably the tokenizer, panicked: ")
        assert httpx.post(running.address, json={"inputs": DOCUMENT}).json() == summarizer(DOCUMENT)


def test_a_list_has_a_list_of_summaries(client, summarizer):
    """As in the Inference API of Hugging Face."""
    documents = [DOCUMENT, SENTENCES[1], "", SENTENCES[2]]
    response = client.post("/", json={"inputs": documents, "parameters": {"num_beams": 2}})
    assert response.json() == [summarizer(document, num_beams=2)[0] for document in documents]
    assert client.post("/", json={"inputs": []}).json() == []
    turtle = client.post("/", json={"inputs": documents[:2]}, headers={"Accept": "text/turtle"}).text
    assert len([*Graph().parse(data=turtle).subject_objects(DCTERMS.abstract)]) == 2
    # the fault of one is named, and refuses all
    refused = client.post("/", json={"inputs": [DOCUMENT, "word " * 1500]})
    assert (refused.status_code, refused.json()["error"][:40]) == (422, "document 1 of `inputs`: the document has")


def test_a_list_is_bounded_as_one_request(summarizer):
    work = check_cost(DOCUMENT, {}, summarizer, Limits())
    with served(lambda: summarizer, limit_work=3.5 * work, limit_queue=5) as running:
        assert httpx.post(running.address, json={"inputs": [DOCUMENT] * 3}).status_code == 200
        refused = httpx.post(running.address, json={"inputs": [DOCUMENT] * 4})
        assert (refused.status_code, refused.json()["error"][-27:]) == (422, " in one request: send fewer")
        refused = httpx.post(running.address, json={"inputs": [""] * 6})
        message = "`inputs` has 6 documents, but must have at most 5"
        assert (refused.status_code, refused.json()["error"]) == (422, message)
        assert running.service.unfinished == 0


def test_max_time_ends_a_summary_as_it_is(client, summarizer):
    """Of the Inference API; clients also send `options`, such as argilla-io/distilabel#569."""
    options = {"wait_for_model": True, "use_cache": False}
    parameters = {"max_time": 60}
    response = client.post("/", json={"inputs": DOCUMENT, "parameters": parameters, "options": options})
    assert response.json() == summarizer(DOCUMENT)
    parameters = {"max_time": 1e-6, "max_new_tokens": 1000, "min_new_tokens": 1000}
    (record,) = client.post("/", json={"inputs": DOCUMENT, "parameters": parameters}).json()
    assert len(summarizer.tokenizer(record["summary_text"])["input_ids"]) < 100
    refused = client.post("/", json={"inputs": DOCUMENT, "parameters": {"max_time": 0}})
    assert (refused.status_code, refused.json()["error"]) == (422, "`max_time` is 0, but must be above 0")
