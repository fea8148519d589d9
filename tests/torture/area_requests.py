"""Requests to the service: bodies, parameters, headers, and several at once."""

import asyncio
import dataclasses
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import rdflib
from rdflib.namespace import DCTERMS

from hf_summ.models.text_documents import readable
from hf_summ.serving import Service, create_app
from hf_summ.serving.rdf import FORMATS
from tests.torture import values
from tests.torture.cases import Case, Refused
from tests.torture.checks import details_problem, first_problem, no_constant
from tests.torture.workshop import READ, READERS, Workshop

_NIF = rdflib.Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
_SETTINGS: dict[str, tuple] = {
    "long_documents": ("truncate", "extract", "extract", "windows"),
    "return_details": (True, True, False),
    "truncation": ("longest_first", "only_first", "do_not_truncate"),
    "clean_up_tokenization_spaces": (True, False),
    "num_beams": (1, 2, 4),
    "max_new_tokens": (1, 2, 8),
    "max_length": (2, 8),
    "min_new_tokens": (0, 2, 8),
    "min_length": (0, 3),
    "length_penalty": (0, 1.0, -2.0, 100),
    "no_repeat_ngram_size": (0, 1, 3),
    "repetition_penalty": (0.01, 1, 2.5, 100),
    "temperature": (0.01, 1, 100),
    "top_k": (1, 50, 1000),
    "top_p": (0.01, 0.5, 1),
    "do_sample": (True, False),
    "early_stopping": (True, False),
    "no_repeat_word_ngram_size": (0, 1, 3),
    "min_new_words": (0, 2),
    "gnmt_length_penalty": (0, 0.9, 100),
    "gnmt_length_offset": (0, 5.0),
    "coverage_penalty": (0, 0.5, 1000),
    "english_articles": (True, False),
    "beam_stopping": ("opennmt", "drgd"),
    "ngram_blocking": ("token", "beam"),
    "support_weight": (0, 0.5, 1000),
    "replace_unk": (True, False),
}
# would read files, load code or exhaust the machine
_FORBIDDEN = {
    "stop_sequence": ".",
    "num_return_sequences": 3,
    "batch_size": 10**6,
    "custom_generate": "evil/code",
    "generation_config": {"num_beams": 2},
    "assistant_model": "/etc/passwd",
    "return_tensors": True,
    "phrases": {"a": 1},
    "language": "de",
    "": 1,
    "__class__": 1,
}
_ACCEPTS = (
    *("application/json", "text/turtle", "application/ld+json", "*/*", "text/*", "TEXT/TURTLE", "image/png", "", ";"),
    *("text/turtle;q=0.5, application/json", "application/ld+json;profile=x", ",".join(["text/x"] * 500), "\xe4\xff"),
)


_PATHS = ("/", "/", "/page", "/../etc/passwd", "/%00", "/metrics")
# the answers to a request sent with others, and alone
_Pair = tuple[httpx.Response, httpx.Response]


@dataclass(frozen=True)
class _Request:
    """A request; its `document` and `parameters` are known if it is whole."""

    body: bytes
    headers: tuple[tuple[str, bytes], ...]
    document: Any = None
    parameters: Any = None
    method: str = "POST"
    path: str = "/"
    pieces: int = 1
    is_whole: bool = True

    async def send(self, client: httpx.AsyncClient) -> httpx.Response:
        """The answer."""
        size = -(-len(self.body) // self.pieces) or 1

        async def parts():
            for start in range(0, len(self.body), size):
                yield self.body[start : start + size]

        content = self.body if self.pieces == 1 else parts()
        return await client.request(self.method, self.path, content=content, headers=list(self.headers))

    def asked(self, name: str) -> Any:
        """The value of a parameter in any of its places."""
        parameters = self.parameters if isinstance(self.parameters, dict) else {}
        inner = parameters.get("generate_parameters")
        values = {**(inner if isinstance(inner, dict) else {}), **parameters}
        return values.get(name)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """One request, or several simultaneous ones, whose answers must equal those to each alone."""
    kind = draw.choice(READERS)
    service = shop.service(kind)
    requests = [_request(draw) for _ in range(draw.choice((1, 1, 1, 2, 4)))]
    if len(requests) > 1 and draw.random() < 0.5:
        # equal settings, so that they are decoded together
        requests = [_described(draw, values.some_text(draw), requests[0].parameters) for _ in requests]

    def attempt() -> list[_Pair]:
        together = asyncio.run(_answers(service, requests, is_together=True))
        alone = asyncio.run(_answers(service, requests, is_together=False)) if len(requests) > 1 else together
        pairs = list(zip(together, alone, strict=True))
        if all(answer.status_code != 200 for answer in together) and problem(pairs) is None:
            raise Refused(together[0].json()["error"])
        return pairs

    def problem(pairs: list[_Pair]) -> str | None:
        return first_problem(*map(_problem, requests, pairs))

    return Case(f"{kind} {[(one.method, one.path, one.headers, one.body[:300]) for one in requests]}", attempt, problem)


def _request(draw: random.Random) -> _Request:
    """A request with any content."""
    document: Any = values.some_text(draw)
    parameters: Any = None
    if draw.random() < 0.8:
        parameters = _parameters(draw)
    kind = draw.random()
    if kind < 0.04:
        return _Request(values.spoiled(draw, values.text(draw).encode("utf-8", "surrogatepass")), _headers(draw))
    if kind < 0.08:
        return _Request(json.dumps(values.storable_junk(draw)).encode(), _headers(draw))
    if kind < 0.11:
        document = values.storable_junk(draw)
    elif kind < 0.14:
        parameters = values.storable_junk(draw)
    elif kind < 0.16:
        # too many tokens, or too many bytes
        document = " ".join([document or "a"] * draw.choice((50, 3000)))[:50_000]
    request = _described(draw, document, parameters)
    kind = draw.random()
    if kind < 0.06:
        return dataclasses.replace(request, body=values.spoiled(draw, request.body), is_whole=False)
    if kind < 0.08:
        content = {"inputs": document, draw.choice(("input", "", "model", "\ud800", "x" * 3000)): values.number(draw)}
        return dataclasses.replace(request, body=json.dumps(content).encode(), is_whole=False)
    if kind < 0.1:
        return dataclasses.replace(request, method=draw.choice(("PUT", "DELETE", "BREW")), path=draw.choice(_PATHS))
    return request


def _described(draw: random.Random, document: Any, parameters: Any) -> _Request:
    """A request for a document's summary."""
    content = {"inputs": document} if parameters is None else {"inputs": document, "parameters": parameters}
    body = json.dumps(content, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    return _Request(body, _headers(draw), document, parameters, pieces=draw.choice((1, 1, 7)))


def _headers(draw: random.Random) -> tuple[tuple[str, bytes], ...]:
    headers = []
    if draw.random() < 0.6:
        known = _ACCEPTS[: 3 if draw.random() < 0.6 else None]
        headers += [("Accept", draw.choice(known).encode("latin-1")) for _ in range(draw.choice((1, 1, 1, 2)))]
    if draw.random() < 0.1:
        headers.append(
            ("Content-Type", draw.choice((b"text/plain", b"", b"application/json; charset=utf-16", b"\xff")))
        )
    if draw.random() < 0.05:
        headers.append(("Content-Encoding", draw.choice((b"gzip", b"br", b"identity", b"", b"\xff"))))
    if draw.random() < 0.03:
        headers.append(("Content-Length", draw.choice((b"99999999", b"0" * 30, b"0"))))
    return tuple(headers)


def _parameters(draw: random.Random) -> dict[str, Any]:
    """A few settings, mostly with sensible values."""
    common = ["long_documents", "return_details"]
    chosen = {*draw.sample(common, k=draw.choice((0, 1, 2))), *draw.sample(sorted(_SETTINGS), k=draw.choice((0, 1, 3)))}
    found = {name: draw.choice(_SETTINGS[name]) for name in sorted(chosen)}
    kind = draw.random()
    if found and kind < 0.1:
        found[draw.choice(sorted(found))] = values.storable_junk(draw)
    elif found and kind < 0.18:
        found[draw.choice(sorted(found))] = values.number(draw)
    elif kind < 0.24:
        name = draw.choice(sorted(_FORBIDDEN))
        found[name] = _FORBIDDEN[name]
    nested = {name: found.pop(name) for name in sorted(found) if draw.random() < 0.2}
    if nested:
        found["generate_parameters"] = nested
    if draw.random() < 0.02:
        found["generate_parameters"] = values.storable_junk(draw)
    return found


async def _answers(service: Service, requests: Sequence[_Request], is_together: bool) -> list[httpx.Response]:
    transport = httpx.ASGITransport(application(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        coming = [request.send(client) for request in requests]
        try:
            return await asyncio.gather(*coming) if is_together else [await answer for answer in coming]
        except Exception as error:
            # a client would get status 500 for any error
            raise RuntimeError(f"the application failed: {error!r}") from error


@cache
def application(service: Service) -> Any:
    """The application of a started service."""
    return create_app(service)


def _problem(request: _Request, pair: _Pair) -> str | None:
    """What is wrong with the answer to a request that was sent with others and then alone."""
    answer, alone = pair
    if answer.status_code != 200:
        return refusal_problem(answer) or _difference(answer, alone)
    if request.document is None and request.is_whole:
        return f"a summary of {request.body!r:.80}"
    kind = _kind(answer)
    accepted = b",".join(value for name, value in request.headers if name == "Accept").decode("latin-1").lower()
    if kind != next((name for name in FORMATS if name in accepted), "application/json"):
        return f"{kind} for a client that accepts {accepted!r:.80}"
    if isinstance(request.document, list):
        return None if kind in FORMATS or len(answer.json()) == len(request.document) else f"{answer.text!r:.200}"
    document = readable(request.document) if request.is_whole else None
    check = _rdf_problem if kind in FORMATS else _json_problem
    return first_problem(
        check(request, answer, document), None if request.asked("do_sample") else _difference(answer, alone)
    )


def _kind(answer: httpx.Response) -> str:
    return answer.headers["content-type"].partition(";")[0]


def refusal_problem(answer: httpx.Response) -> str | None:
    """What is wrong with an answer without a summary."""
    if not 400 <= answer.status_code < 500:
        return f"status {answer.status_code}: {answer.text!r:.200}"
    content = json.loads(answer.content, parse_constant=no_constant)
    message = content.get("error")
    if content.keys() != {"error"} or not isinstance(message, str) or not message.strip() or len(message) > 1000:
        return f"a refusal is {answer.text!r:.200}"
    return f"a refusal of several lines: {message!r:.200}" if len(message.splitlines()) > 1 else None


def _difference(one: httpx.Response, other: httpx.Response) -> str | None:
    found, expected = ((answer.status_code, answer.content) for answer in (one, other))
    return None if found == expected else f"together {found!r:.300}, alone {expected!r:.300}"


def _json_problem(request: _Request, answer: httpx.Response, document: str | None) -> str | None:
    content = json.loads(answer.content, parse_constant=no_constant)
    ((record),) = content
    names = {"summary_text", "details"} if request.asked("return_details") is True else {"summary_text"}
    if (request.is_whole and record.keys() != names) or not isinstance(record["summary_text"], str):
        return f"a record is {record!r:.200}"
    if document is None or "details" not in record:
        return None
    return details_problem(document, record["details"], "en", READ)


def _rdf_problem(request: _Request, answer: httpx.Response, document: str | None) -> str | None:
    graph = rdflib.Graph().parse(data=answer.content, format=FORMATS[_kind(answer)])
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    text = str(graph.value(source, _NIF.isString))
    if document is not None and text != document:
        return f"the document became {text!r:.200}"
    if graph.value(summary, _NIF.isString) is None:
        return "no summary"
    for sentence in graph.subjects(_NIF.referenceContext, source):
        start, end = (graph.value(sentence, name).toPython() for name in (_NIF.beginIndex, _NIF.endIndex))
        if text[start:end] != str(graph.value(sentence, _NIF.anchorOf)) or not text[start:end].strip():
            return f"characters {start} to {end} are {text[start:end]!r:.100}"
    return None
