"""Requests to the service over HTTP: hostile ones, several at once."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import httpx
import pytest
import rdflib
from hypothesis import strategies as st
from rdflib.namespace import DCTERMS

from hf_summ.models.text_documents import readable
from tests.doors import models, strategies
from tests.doors.outcomes import Clear, door, is_line, strict_json
from tests.doors.test_pipeline import check_details
from tests.serving.conftest import Served, served

_NIF = rdflib.Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
_SETTINGS = strategies.choices(
    """long_documents=truncate|extract|windows return_details=true|false max_length=2|8 min_length=0|3
    truncation=longest_first|only_first|do_not_truncate clean_up_tokenization_spaces=true|false"""
)
# settings that would read files, load code or exhaust the machine
_FORBIDDEN = strategies.choices(
    """stop_sequence=. num_return_sequences=3 batch_size=1000000 custom_generate=evil/code assistant_model=/etc/passwd
    generation_config={"num_beams":2} return_tensors=true phrases={"a":1} language=de __class__=1"""
)
_ACCEPTS = ("application/json", "text/turtle", "TEXT/TURTLE", "*/*", "", ",", ";", "q=1")
_TYPES = st.sampled_from(("application/json", "text/html", "", "application/json; charset=utf-16"))
_METHODS = st.sampled_from((("PUT", "/"), ("DELETE", "/"), ("BREW", "/"), ("POST", "/page"), ("POST", "/%00")))


@st.composite
def _requests(draw):
    """A request for `httpx`; its document, which is None if it is spoiled; and whether details are wanted."""
    settings = draw(strategies.few(_SETTINGS) | strategies.decoding(strategies.storable))
    settings |= draw(strategies.mostly(st.just({}), strategies.few(_FORBIDDEN, 1)))
    parameters, generate_parameters = {}, {}
    for name, value in settings.items():
        if draw(st.integers(0, 3)) == 3:
            generate_parameters[name] = value
        else:
            parameters[name] = value
    if generate_parameters:
        parameters["generate_parameters"] = generate_parameters
    document = draw(strategies.texts)
    content = {"inputs": document, "parameters": parameters}
    body = json.dumps(content, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    changed = strategies.spoiled_json(content).map(lambda value: json.dumps(value).encode())
    sent = draw(strategies.mostly(st.just(body), changed | strategies.spoiled(body)))
    headers = {"Content-Type": draw(_TYPES), "Accept": draw(st.sampled_from(_ACCEPTS))}
    post = st.just(("POST", "/"))
    method, url = draw(strategies.mostly(post, strategies.mostly(post, _METHODS)))
    request = {"method": method, "url": url, "content": sent, "headers": headers}
    has_details = bool(settings.get("return_details"))
    if sent is body:
        return request, document, has_details
    return request, None, has_details


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, Served]]:
    """A running service of each kind of reader."""
    limits = {"limit_characters": 10_000, "limit_beam_tokens": 32}
    running = {}
    with ExitStack() as stack:
        for kind in models.READERS:
            load = partial(models.reader, kind)
            running[kind] = stack.enter_context(served(load, batch_wait=2, **limits))
        yield running


def _check_refusal(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    content = strict_json(answer.content)
    assert content.keys() == {"error"}
    assert is_line(content["error"])


def _check_summary(answer: httpx.Response, accepted: str, document: str, has_details: bool) -> None:
    media_type = answer.headers["content-type"].partition(";")[0]
    if accepted == "text/turtle":
        assert media_type == "text/turtle"
        _check_graph(answer, document)
        return
    assert media_type == "application/json"
    (record,) = strict_json(answer.content)
    assert isinstance(record["summary_text"], str)
    if has_details:
        assert record.keys() == {"summary_text", "details"}
        check_details(document, record["details"], "en", models.READ)
    else:
        assert record.keys() == {"summary_text"}


def _check_graph(answer: httpx.Response, document: str) -> None:
    graph = rdflib.Graph().parse(data=answer.content)
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    assert str(graph.value(source, _NIF.isString)) == document
    assert graph.value(summary, _NIF.isString) is not None
    for sentence in graph.subjects(_NIF.referenceContext, source):
        start = graph.value(sentence, _NIF.beginIndex).toPython()
        end = graph.value(sentence, _NIF.endIndex).toPython()
        assert document[start:end] == str(graph.value(sentence, _NIF.anchorOf))


@door(kind=st.sampled_from(models.READERS), requests=st.lists(_requests(), min_size=1, max_size=3))
def test_requests(services, kind, requests):
    with httpx.Client(base_url=services[kind].address, timeout=60) as client, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(client.request, **request) for request, _, _ in requests]
        together = [answer.result() for answer in answers]
        alone = [client.request(**request) for request, _, _ in requests]
    for (request, document, has_details), answer, answer_alone in zip(requests, together, alone, strict=True):
        if answer.status_code != 200:
            _check_refusal(answer)
        elif document is not None:
            _check_summary(answer, request["headers"]["Accept"].lower(), readable(document), has_details)
        assert (answer.status_code, answer.content) == (answer_alone.status_code, answer_alone.content)
    if all(answer.status_code != 200 for answer in together):
        raise Clear(together[0].text)
