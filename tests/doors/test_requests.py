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
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import Clear, door, is_line, strict_json
from tests.doors.test_pipeline import check_details
from tests.serving.conftest import Served, served

_NIF = rdflib.Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
_SETTINGS = our.choices(
    """long_documents=truncate|extract|windows return_details=true|false max_length=2|8 min_length=0|3
    truncation=longest_first|only_first|do_not_truncate clean_up_tokenization_spaces=true|false"""
)
# would read files, load code or exhaust the machine
_FORBIDDEN = our.choices(
    """stop_sequence=. num_return_sequences=3 batch_size=1000000 custom_generate=evil/code assistant_model=/etc/passwd
    generation_config={"num_beams":2} return_tensors=true phrases={"a":1} language=de __class__=1"""
)
_ACCEPTS = ("application/json", "text/turtle", "TEXT/TURTLE", "*/*", "", ",", ";", "q=1")
_TYPES = st.sampled_from(("application/json", "text/html", "", "application/json; charset=utf-16"))
_METHODS = st.sampled_from((("PUT", "/"), ("DELETE", "/"), ("BREW", "/"), ("POST", "/page"), ("POST", "/%00")))


@st.composite
def _requests(draw):
    """A request for `httpx`; its document, which is None if it is spoiled; and whether details are wanted."""
    settings = draw(our.few(_SETTINGS) | our.decoding(our.storable))
    settings |= draw(our.mostly(st.just({}), our.few(_FORBIDDEN, 1)))
    nested = {name: settings[name] for name in settings if draw(st.integers(0, 3)) == 3}
    parameters = {name: value for name, value in settings.items() if name not in nested}
    parameters |= {"generate_parameters": nested} if nested else {}
    content = {"inputs": draw(our.texts), "parameters": parameters}
    body = json.dumps(content, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    changed = our.spoiled_json(content).map(lambda value: json.dumps(value).encode()) | our.spoiled(body)
    sent = draw(our.mostly(st.just(body), changed))
    headers = {"Content-Type": draw(_TYPES), "Accept": draw(st.sampled_from(_ACCEPTS))}
    method, url = draw(our.mostly(st.just(("POST", "/")), our.mostly(st.just(("POST", "/")), _METHODS)))
    request = {"method": method, "url": url, "content": sent, "headers": headers}
    return request, content["inputs"] if sent is body else None, bool(settings.get("return_details"))


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, Served]]:
    limits = {"limit_characters": 10_000, "limit_beam_tokens": 32}
    with ExitStack() as stack:
        loads = {kind: partial(models.reader, kind) for kind in models.READERS}
        yield {kind: stack.enter_context(served(load, batch_wait=2, **limits)) for kind, load in loads.items()}


def _check_refusal(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    content = strict_json(answer.content)
    assert content.keys() == {"error"}
    assert is_line(content["error"])


def _check_summary(answer: httpx.Response, accepted: str, document: str, has_details: bool) -> None:
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type == (accepted if accepted == "text/turtle" else "application/json")
    if media_type == "application/json":
        (record,) = strict_json(answer.content)
        assert record.keys() == ({"summary_text", "details"} if has_details else {"summary_text"})
        assert isinstance(record["summary_text"], str)
        return check_details(document, record["details"], "en", models.READ) if has_details else None
    graph = rdflib.Graph().parse(data=answer.content)
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    assert str(graph.value(source, _NIF.isString)) == document
    assert graph.value(summary, _NIF.isString) is not None
    for sentence in graph.subjects(_NIF.referenceContext, source):
        start, end = (graph.value(sentence, name).toPython() for name in (_NIF.beginIndex, _NIF.endIndex))
        assert document[start:end] == str(graph.value(sentence, _NIF.anchorOf))
    return None


@door(kind=st.sampled_from(models.READERS), requests=st.lists(_requests(), min_size=1, max_size=3))
def test_requests(services, kind, requests):
    with httpx.Client(base_url=services[kind].address, timeout=60) as client, ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda one: client.request(**one[0]), requests))
        alone = [client.request(**request) for request, _, _ in requests]
    for (request, document, has_details), answer, other in zip(requests, together, alone, strict=True):
        if answer.status_code != 200:
            _check_refusal(answer)
        elif document is not None:
            _check_summary(answer, request["headers"]["Accept"].lower(), readable(document), has_details)
        assert (answer.status_code, answer.content) == (other.status_code, other.content)
    if all(answer.status_code != 200 for answer in together):
        raise Clear(together[0].text)
