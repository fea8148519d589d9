"""The service over HTTP: a real server, real clients, and real sockets."""

import concurrent.futures
import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from rdflib import Graph
from rdflib.namespace import DCTERMS

from tests.conftest import SENTENCES, run_python
from tests.serving.conftest import DOCUMENT, Gate, Watched, metric, served, wait_until


def connected(address: str) -> socket.socket:
    """A connection to the service."""
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port))


def head(length: int) -> bytes:
    """The head of a request whose body has this length."""
    return f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


CLIENT = """
import json, sys
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

address, document = sys.argv[1:]
client = InferenceClient(model=address)
results = {"plain": client.summarization(document).summary_text}
settings = {"clean_up_tokenization_spaces": True, "truncation": "longest_first"}
settings["generate_parameters"] = {"num_beams": 2, "max_new_tokens": 3}
results["with_settings"] = client.summarization(document, **settings).summary_text
try:
    client.summarization(document, generate_parameters={"num_beams": 10_000})
except HfHubHTTPError as error:
    results["status"] = error.response.status_code
    results["message"] = str(error)
endpoint = InferenceClient(model=address, provider="hf-inference")
results["is_healthy"] = endpoint.health_check()
results["task"] = endpoint.get_endpoint_info()["task"]
print(json.dumps(results))
"""


@pytest.mark.thorough
def test_the_inference_client_of_hugging_face_is_a_client(address, summarizer):
    # a separate process, as that of the tests was told that there is no network
    output, _ = run_python("-c", CLIENT, address, DOCUMENT, HF_HUB_OFFLINE="0")
    results = json.loads(output)
    assert results["plain"] == summarizer(DOCUMENT)[0]["summary_text"]
    assert results["with_settings"] == summarizer(DOCUMENT, num_beams=2, max_new_tokens=3)[0]["summary_text"]
    assert results["status"] == 422
    assert "num_beams`: Input should be less than or equal to 1000" in results["message"]
    assert results["is_healthy"] is True
    assert results["task"] == "summarization"


def test_an_answer_is_a_list(client, summarizer):
    response = client.post("/", json={"inputs": DOCUMENT})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == summarizer(DOCUMENT)
    # a blank text has a blank summary, as in the pipeline
    assert client.post("/", json={"inputs": " \n"}).json() == [{"summary_text": ""}]


@pytest.mark.thorough
def test_many_clients_have_the_summaries_that_each_has_alone(summarizer):
    gate = Gate()
    documents = [sentence[:length] for sentence in SENTENCES for length in range(40, 56)]
    with (
        served(lambda: Watched(summarizer, gate)) as running,
        httpx.Client(base_url=running.address) as client,
        concurrent.futures.ThreadPoolExecutor(32) as pool,
    ):
        responses = list(pool.map(lambda text: client.post("/", json={"inputs": text}), documents))
        assert metric(running.address, 'requests_total{status="200"}') == len(documents)
        assert metric(running.address, "waiting_requests") == 0
    assert [response.json() for response in responses] == [summarizer(document) for document in documents]
    assert gate.batches < len(documents) / 2


@pytest.mark.thorough
def test_bad_documents_fail_alone(client, summarizer):
    # the model reads 48 tokens
    long_text = " ".join(SENTENCES)
    message = "tokens, but the model reads at most 48: shorten it, or call the pipeline with `truncation=True`"
    texts = [DOCUMENT] * 40
    for place in (3, 13, 23, 33):
        texts[place] = long_text

    def post(text):
        return client.post("/", json={"inputs": text, "parameters": {"truncation": "do_not_truncate"}})

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(post, texts))
    for text, response in zip(texts, responses, strict=True):
        if text == long_text:
            assert response.status_code == 422
            assert response.json()["error"].endswith(message)
        else:
            assert response.json() == summarizer(DOCUMENT)


def test_paths_and_methods(client):
    assert client.get("/none").json() == {"error": "Not Found"}
    refusal = client.put("/")
    assert refusal.status_code == 405
    assert refusal.json() == {"error": "Method Not Allowed"}
    assert client.get("/ready").text == client.get("/health").text == "alive\n"
    assert client.get("/info").json() == {
        "model_id": "",
        "task": "summarization",
        "limit_queue": 256,
        "limit_characters": 10_000,
        "limit_beam_tokens": 4096,
    }


def test_an_answer_in_turtle(client, summarizer):
    text = f"<b>{DOCUMENT}</b>"
    headers = {"Accept": "application/json;q=0.5, text/turtle"}
    response = client.post("/", json={"inputs": text}, headers=headers)
    assert response.headers["content-type"].partition(";")[0] == "text/turtle"
    graph = Graph().parse(data=response.content)
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    strings = {subject: str(string) for subject, relation, string in graph if str(relation).endswith("isString")}
    assert strings == {source: text, summary: summarizer(text)[0]["summary_text"]}
    # errors are JSON in any case
    refusal = client.post("/", content=b"{", headers=headers)
    assert refusal.status_code == 422
    assert refusal.headers["content-type"] == "application/json"


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_long_documents_are_read_as_asked_for(client, address, summarizer, way):
    text, parameters = " ".join(SENTENCES), {"long_documents": way, "return_details": True}
    before = metric(address, "cut_tokens_total")
    (record,) = client.post("/", json={"inputs": text, "parameters": parameters}).json()
    assert [record] == summarizer(text, **parameters)
    assert metric(address, "cut_tokens_total") - before == record["details"]["cut_tokens"]
    assert record["details"]["source_tokens"] > summarizer.processor.max_source_length
    answer = client.post("/", json={"inputs": text, "parameters": parameters}, headers={"Accept": "text/turtle"})
    graph = Graph().parse(data=answer.content)
    sentences = {str(sentence) for _, relation, sentence in graph if "anchorOf" in str(relation)}
    kept = record["details"].get("sentences", [])
    assert sentences == {text[place["start"] : place["end"]] for place in kept}
    assert bool(sentences) == (way == "extract")


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
        waiting_clients = [connected(running.address) for _ in range(2)]
        for waiting_client in waiting_clients:
            waiting_client.sendall(head(len(body)) + body)
        wait_until(lambda: metric(running.address, "waiting_requests") == 2)
        full = httpx.post(running.address, content=body)
        assert (full.status_code, full.json()["error"]) == (503, "2 documents are waiting: try again later")
        assert full.headers["retry-after"] == "5"
        for waiting_client in waiting_clients:
            waiting_client.close()
        wait_until(lambda: metric(running.address, "waiting_requests") == 0)
        gate.is_shut = False
        assert first.result().status_code == 200
        assert client.post("/", content=body).status_code == 200
        # the documents of the two clients that hung up were not decoded
        assert gate.documents == 2
        assert metric(running.address, 'requests_total{status="499"}') == 2


def test_stopping_answers_what_was_accepted(summarizer):
    gate = Gate()
    with served(lambda: Watched(summarizer, gate)) as running, concurrent.futures.ThreadPoolExecutor(1) as pool:
        gate.is_shut, gate.documents = True, 0
        accepted = pool.submit(httpx.post, running.address, json={"inputs": DOCUMENT})
        wait_until(lambda: gate.documents == 1)
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


def test_an_error_that_is_not_the_clients(summarizer):
    def fail(documents):
        if "bad" in documents:
            raise RuntimeError("/a/path")

    with served(lambda: Watched(summarizer, fail)) as running:
        failure = httpx.post(running.address, json={"inputs": "bad"})
        assert failure.status_code == 500
        assert failure.json()["error"] == "the document could not be summarized: RuntimeError"
        assert httpx.post(running.address, json={"inputs": DOCUMENT}).status_code == 200


def test_a_list_has_a_list_of_summaries(client, summarizer):
    """So it is in the Inference API of Hugging Face."""
    documents = [DOCUMENT, SENTENCES[1], "", SENTENCES[2]]
    response = client.post("/", json={"inputs": documents, "parameters": {"num_beams": 2}})
    assert response.json() == [summarizer(document, num_beams=2)[0] for document in documents]
    assert client.post("/", json={"inputs": []}).json() == []
    turtle = client.post("/", json={"inputs": documents[:2]}, headers={"Accept": "text/turtle"}).text
    assert len(list(Graph().parse(data=turtle).subject_objects(DCTERMS.abstract))) == 2
    # a fault of one document refuses the list, and names the document
    parameters = {"truncation": "do_not_truncate"}
    refusal = client.post("/", json={"inputs": [DOCUMENT, "word " * 1500], "parameters": parameters})
    assert refusal.status_code == 422
    assert refusal.json()["error"].startswith("document 1 of `inputs`: the document has")


def test_max_time_ends_a_summary_as_it_is(client, summarizer):
    """A parameter of the Inference API; some clients also send `options`, such as argilla-io/distilabel#569."""
    options = {"wait_for_model": True, "use_cache": False}
    parameters = {"max_time": 60}
    response = client.post("/", json={"inputs": DOCUMENT, "parameters": parameters, "options": options})
    assert response.json() == summarizer(DOCUMENT)
    parameters = {"max_time": 1e-6, "max_new_tokens": 1000, "min_new_tokens": 1000}
    (record,) = client.post("/", json={"inputs": DOCUMENT, "parameters": parameters}).json()
    assert len(summarizer.tokenizer(record["summary_text"])["input_ids"]) < 100
