"""What requests may contain, and who may send them."""

import json

import httpx
import pytest
from rdflib import Graph
from rdflib.namespace import DCTERMS

from hf_summ.serving.rdf import as_turtle
from tests.conftest import SENTENCES
from tests.serving.conftest import DOCUMENT, served

TURTLE = {"Content-Type": "text/turtle"}
TEXT = {"Content-Type": "text/plain"}
NIF = b"@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .\n"


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "application/x-www-form-urlencoded", None])
def test_json_needs_no_content_type(client, summarizer, media_type):
    headers = {"Content-Type": media_type} if media_type else {}
    answer = client.post("/", content=json.dumps({"inputs": DOCUMENT}), headers=headers)
    assert answer.json() == summarizer(DOCUMENT)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_plain_text_is_a_document(client, summarizer, mark):
    answer = client.post("/", content=mark + f"{DOCUMENT} Café.".encode(), headers=TEXT)
    assert answer.json() == summarizer(f"{DOCUMENT} Café.")


def test_documents_in_turtle_keep_their_uris(client, summarizer):
    texts = {"http://a.org/1#char=0,36": DOCUMENT, "http://a.org/2": SENTENCES[0]}
    contexts = [f"<{uri}> a nif:Context ; nif:isString {json.dumps(text)} .\n" for uri, text in texts.items()]
    answer = client.post("/", content=NIF + "".join(contexts).encode(), headers={**TURTLE, "Accept": "text/turtle"})
    graph = Graph().parse(data=answer.content)
    strings = {subject: str(text) for subject, relation, text in graph if str(relation).endswith("isString")}
    summaries = {str(source): strings[summary] for source, summary in graph.subject_objects(DCTERMS.abstract)}
    assert summaries == {uri: summarizer(text)[0]["summary_text"] for uri, text in texts.items()}


# the body and its headers, the status of the answer, and how its message begins
CASES_OF_BAD_BODIES = [
    (b"{", {}, 422, "Invalid JSON: EOF while parsing an object at line 1 column 1"),
    (b"[" * 9000, {}, 422, "Invalid JSON: recursion limit exceeded"),
    (b'{"inputs": "half an emoji: \\ud800"}', {}, 422, "Invalid JSON: "),
    (b"\xe9", {}, 422, "the body cannot be read: 'utf-8' codec can't decode byte 0xe9 in position 0"),
    (b"\xe9", TEXT, 422, "the body cannot be read: 'utf-8' codec can't decode byte 0xe9 in position 0"),
    (b"{", TURTLE, 422, "the body cannot be read: not Turtle"),
    (NIF + b'<a b> nif:isString "x" .', TURTLE, 422, "the body cannot be read: not Turtle"),
    (NIF + b'<http://a/\\u0020> nif:isString "x" .', TURTLE, 422, "the body cannot be read: not Turtle"),
    (NIF + b'"a b" nif:isString "x" .', TURTLE, 422, "the body cannot be read: not Turtle (the subject of"),
    (NIF + b"<a:" + b"b" * 3000 + b'> nif:isString "x" .', TURTLE, 422, "the body cannot be read: not Turtle (a URI"),
    (NIF + b"<a:a> nif:isString " + b"(" * 2000, TURTLE, 422, "the body cannot be read: not Turtle"),
    (
        NIF + b'<a:a> nif:isString "x", "y" .',
        TURTLE,
        422,
        "the body cannot be read: <a:a> has several values of `nif:isString`: name each text by a URI",
    ),
    (b'{"inputs": [1, 1, 1]}', {}, 422, "`inputs.str`: Input should be a valid string; `inputs.list[str].0`: "),
    (b"", TURTLE, 422, "the body cannot be read: it has no `nif:isString`"),
    # 10,001 characters, and more bytes than 10,000 characters may have
    (b"x" * 10_001, TEXT, 413, "the body has more than 10000 characters: shorten it"),
    (b"x" * 10**7, TEXT, 413, "the body has more than 10000 characters: shorten it"),
    # a body without a length
    ([b"x" * 1000] * 100, TEXT, 413, "the body has more than 10000 characters: shorten it"),
]


@pytest.mark.parametrize(("body", "headers", "status", "message"), CASES_OF_BAD_BODIES)
def test_bad_bodies_are_refused(client, body, headers, status, message):
    response = client.post("/", content=body, headers=headers)
    assert response.status_code == status
    assert response.json()["error"].startswith(message)


def test_a_request_with_many_problems_gets_a_short_answer(client):
    answer = client.post("/", content=b'{"inputs": [' + b"1," * 1000 + b"1]}")
    assert answer.status_code == 422
    assert answer.json()["error"].endswith("; and 997 more")


def test_documents_in_turtle_may_have_relative_names_or_none(client):
    turtle = NIF + f'<x#1> nif:isString "{DOCUMENT}" . [] nif:isString "A second one." .'.encode()
    answer = client.post("/", content=turtle, headers={**TURTLE, "Accept": "text/turtle"})
    sources = {str(source) for source in Graph().parse(data=answer.content).subjects(DCTERMS.abstract)}
    blank_name = as_turtle(["A second one."], [{"summary_text": ""}])
    (expected,) = Graph().parse(data=blank_name).subjects(DCTERMS.abstract)
    assert sources == {f"{client.base_url}/x#1", str(expected)}


def test_what_clients_send_is_not_logged(client, capfd, caplog):
    contexts = b'<a:b> nif:isString "\\nforged"^^<http://www.w3.org/2001/XMLSchema#int> ; a <a:\\u000Aforged> .'
    assert client.post("/", content=NIF + contexts, headers=TURTLE).status_code == 200
    assert "forged" not in capfd.readouterr().err + caplog.text


def test_characters_are_limited_and_not_bytes(client, summarizer):
    text = "ü" * 10_000
    assert client.post("/", content=text.encode(), headers=TEXT).json() == summarizer(text)


def test_only_names_of_the_service_are_answered(summarizer):
    with served(lambda: summarizer, allowed_hosts="localhost, [::1], Summaries.example, *.example.org") as running:
        for host in ("localhost:1", "[::1]:80", "summaries.example", "SUMMARIES.EXAMPLE:443", "a.example.org"):
            assert httpx.get(running.address, headers={"Host": host}).status_code == 200
        for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1", "[::1", ":80"):
            refusal = httpx.post(running.address, headers={"Host": host})
            assert refusal.status_code == 400
            assert refusal.json() == {"error": "`Host` is none of `--allowed_hosts`"}
        metrics = httpx.get(f"{running.address}/metrics", headers={"Host": "localhost"}).text.splitlines()
        assert 'hf_summ_requests_total{status="400"} 5.0' in metrics


def test_a_key_is_asked_for_before_the_body_is_read(summarizer, tmp_path):
    file = tmp_path / "key"
    file.write_text("a key\n")
    with (
        served(lambda: summarizer, api_key_file=str(file)) as running,
        httpx.Client(base_url=running.address) as client,
    ):
        for key in (None, "Bearer a kez", "Basic a key", "Bearer", "a key"):
            headers = {} if key is None else {"Authorization": key}
            # the body is too long, but only a client with the key is told so
            refusal = client.post("/", content=b"x" * 10**6, headers=headers)
            assert refusal.status_code == 401
            assert refusal.headers["www-authenticate"] == "Bearer"
            problem = "the API key is wrong" if key == "Bearer a kez" else "an API key is needed"
            assert refusal.json()["error"] == f"{problem}: send `Authorization: Bearer KEY`"
            assert client.get("/metrics", headers=headers).status_code == 401
        with_key = {"Authorization": "bearer a key"}
        assert client.post("/", content=b"x" * 10**6, headers=with_key).status_code == 413
        assert client.post("/", json={"inputs": DOCUMENT}, headers=with_key).json() == summarizer(DOCUMENT)
        metrics = client.get("/metrics", headers=with_key).text.splitlines()
        for status, number in (("200", 1), ("401", 5), ("413", 1)):
            assert f'hf_summ_requests_total{{status="{status}"}} {number}.0' in metrics
        for path in ("/", "/info", "/health", "/ready"):
            assert client.get(path).status_code == 200
        assert "key" not in client.get("/info").text
