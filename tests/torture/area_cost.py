"""Costly requests to the service: beside ordinary ones, from clients that disconnect, and without limits."""

import asyncio
import json
import random
import time
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from hf_summ.serving import Service
from tests.torture import values
from tests.torture.area_requests import application, refusal_problem
from tests.torture.cases import Case, Held, Refused
from tests.torture.checks import first_problem
from tests.torture.workshop import HASTY, READERS, Workshop

# CPU seconds of a refusal, and seconds until decoding ends after its clients disconnect, at most
_AT_ONCE, _SOON = 0.25, 5.0
# a request, and the seconds after which its client disconnects
_Asked = tuple[dict[str, Any], float | None]


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Simultaneous requests, some as costly as possible; the others must be answered."""
    kind = draw.choice(READERS)
    is_lifted = draw.random() < 0.02
    service = shop.hasty_service(kind) if is_lifted else shop.frugal_service(kind)
    costly = [_costly(draw) for _ in range(draw.choice((1, 1, 2, 4)))]
    ordinary = [values.plain(draw) for _ in range(draw.choice((1, 2)))]
    expected = cache(lambda: [shop.reader(kind)([text]) for text in ordinary])

    async def attempt_together() -> tuple[list[httpx.Response | None], list[httpx.Response]]:
        transport = httpx.ASGITransport(application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            coming = [_answer(client, *asked) for asked in costly]
            others = [_answer(client, {"inputs": text}, None) for text in ordinary]
            answers = await asyncio.gather(*coming, *others)
        return answers[: len(costly)], answers[len(costly) :]

    def attempt() -> tuple[list[httpx.Response | None], list[httpx.Response]]:
        expected()
        answers, others = asyncio.run(attempt_together())
        found = [answer for answer in answers if answer is not None]
        if found and all(answer.status_code != 200 for answer in found) and problem((answers, others)) is None:
            raise Refused(found[0].json()["error"])
        return answers, others

    def problem(found: tuple[list[httpx.Response | None], list[httpx.Response]]) -> str | None:
        answers, others = found
        refused = [answer for answer in answers if answer is not None and answer.status_code != 200]
        return first_problem(
            *map(refusal_problem, refused),
            *(_ordinary_problem(answer, own) for answer, own in zip(others, expected(), strict=True)),
            _left_problem(service),
            *(_refusal_seconds_problem(service, asked) for asked, _ in costly if not is_lifted),
        )

    return Case(f"{kind} {'lifted ' if is_lifted else ''}{json.dumps(costly)[:400]}", attempt, problem)


def _costly(draw: random.Random) -> _Asked:
    """A request with values up to the limit of each parameter."""
    new_tokens = draw.choice((8, 200, 1024))
    parameters = {
        "num_beams": draw.choice((1, 4, 16)),
        draw.choice(("min_new_tokens", "min_length", "min_new_words")): new_tokens // draw.choice((1, 1, 2)),
        draw.choice(("max_new_tokens", "max_length")): new_tokens,
        "long_documents": draw.choice(("windows", "windows", "extract", "truncate")),
        "do_sample": draw.random() < 0.2,
    }
    document = (values.some_text(draw) or "a") * draw.choice((1, 10, 1000))
    goes = draw.choice((None, None, 0.0, 0.02))
    return {"inputs": document[:6000], "parameters": parameters}, goes


async def _answer(client: httpx.AsyncClient, content: dict[str, Any], seconds: float | None) -> httpx.Response | None:
    """The answer; None if the client disconnected first."""
    answer = asyncio.ensure_future(client.post("/", content=json.dumps(content).encode()))
    done, _ = await asyncio.wait((answer,), timeout=seconds)
    if done:
        return answer.result()
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    return None


def _ordinary_problem(answer: httpx.Response, expected: list[dict[str, str]]) -> str | None:
    if answer.status_code != 200:
        return Held(f"an ordinary request has status {answer.status_code}: {answer.text!r:.200}")
    return None if answer.json() == expected else f"beside costly requests {answer.json()}, alone {expected}"


def _left_problem(service: Service) -> str | None:
    end = time.monotonic() + _SOON + HASTY
    while service.unfinished:
        if time.monotonic() > end:
            return Held(f"{service.unfinished} requests are decoded without a client")
        time.sleep(0.01)
    return None


def _refusal_seconds_problem(service: Service, content: dict[str, Any]) -> str | None:
    """A problem if refusing too much work takes long while nothing else is decoded."""

    async def ask() -> httpx.Response | None:
        transport = httpx.ASGITransport(application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await _answer(client, content, _SOON)

    began = time.process_time()
    answer = asyncio.run(ask())
    seconds = time.process_time() - began
    if answer is not None and "units of work" in answer.text and seconds > _AT_ONCE:
        return Held(f"a refusal that takes {seconds:.2f} s")
    return None
