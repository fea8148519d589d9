"""The service as a web application."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from hf_summ.common.messages import error_line
from hf_summ.serving.formats import FORMATS, JSON, as_rdf, preferred
from hf_summ.serving.middleware import AccessMiddleware
from hf_summ.serving.openapi import describe
from hf_summ.serving.requests import Refusal, SummaryRequest, in_json, read_request
from hf_summ.serving.service import READY, Closed, Service

logger = logging.getLogger(__name__)

_TEXT = "text/plain"
# accepted content types; clients such as curl send the other two by default
_SENT = (JSON, "", "application/x-www-form-urlencoded")
# path -> the page's file and its media type
_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
# what to do about a document that is too long
_OF_CALLS = "or call the pipeline with `truncation=True`"
_OF_REQUESTS = "leave `truncation` out, or set `long_documents` to extract or windows"
# status for a client that has disconnected; only the metrics show it
_GONE = 499


def create_app(service: Service):
    """The Starlette application of a service. It starts the service, and stops it on shutdown.

    `POST /` summarizes and `GET /` is the page. `/health` reports whether the process is alive, `/ready` whether it
    accepts requests, `/info` the model and the limits, `/openapi.json` the schema of requests, `/metrics` the counters.
    Errors are `{"error": message}`.

    Raises:
        ValueError: the API key cannot be read.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    @asynccontextmanager
    async def lifespan(app):
        service.start()
        yield
        await asyncio.to_thread(service.stop, service.limits.drain_seconds)

    async def root(request):
        return await answer(service, request) if request.method == "POST" else _page("/")

    async def refuse(request, error):
        return Refusal(error.status_code, error.detail, **(error.headers or {})).response()

    def get(path: str, make: Callable[[], Response]) -> Route:
        async def respond(request):
            return make()

        return Route(path, respond)

    return Starlette(
        routes=[
            Route("/", root, methods=["GET", "POST"]),
            *(get(path, partial(_page, path)) for path in _PAGE),
            get("/health", lambda: Response("alive\n", media_type=_TEXT)),
            get("/ready", lambda: Response(f"{service.state}\n", 200 if service.state == READY else 503, None, _TEXT)),
            get("/info", lambda: JSONResponse(service.information())),
            get("/openapi.json", lambda: JSONResponse(describe(service.limits, service.generation_keys))),
            get("/metrics", lambda: Response(service.metrics.exposition(), media_type=f"{_TEXT}; version=0.0.4")),
        ],
        exception_handlers={HTTPException: refuse},
        middleware=[Middleware(AccessMiddleware, limits=service.limits, requests=service.metrics.requests)],
        lifespan=lifespan,
    )


def _page(path: str):
    """The response with a file of the page."""
    from starlette.responses import Response

    name, media_type = _PAGE[path]
    content = (files("hf_summ.serving") / name).read_bytes()
    return Response(content, media_type=media_type, headers=_PAGE_HEADERS)


async def answer(service: Service, request):
    """The response to one summary request, for any server that uses Starlette's requests.

    Args:
        service: a started service.
        request: Starlette's request, with its body unread.

    Returns:
        Starlette's response in a format that the client accepts, or a refusal.
    """
    from starlette.responses import Response

    began = time.perf_counter()
    try:
        content, media_type = await _summarized(service, request)
        response = Response(content, media_type=media_type, headers={"Vary": "Accept"})
    except Refusal as refusal:
        response = refusal.response()
    service.metrics.requests.labels(response.status_code).inc()
    service.metrics.seconds.observe(time.perf_counter() - began)
    return response


async def _summarized(service: Service, request) -> tuple[bytes, str]:
    """The content of the response and its media type."""
    offered = (JSON, *FORMATS)
    # repeated header lines are equivalent to one comma-separated line
    media_type = preferred(",".join(request.headers.getlist("accept")), offered)
    if media_type is None:
        raise Refusal(406, f"no media type of the `Accept` header is supported: use one of {', '.join(offered)}")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in _SENT:
        raise Refusal(415, f"the body must be JSON: send it with `Content-Type: {JSON}`")
    body = await _body(request, service.limits.limit_body, service.limits.limit_seconds)
    # the available settings depend on the loaded model
    service.check_ready()
    order = read_request(body, service.limits, service.generation_keys)
    result = await _result(service, order, request)
    if media_type in FORMATS:
        return as_rdf(order.document, result, media_type), media_type
    names = ("summary_text", "details") if order.return_details else ("summary_text",)
    return in_json([{name: result[name] for name in names if name in result}]), media_type


async def _body(request, most: int, seconds: float) -> bytes:
    """The body of the request, within the limits of size and time."""
    from starlette.requests import ClientDisconnect

    too_long = Refusal(413, f"the body has more than {most} bytes: shorten it")
    # the server rejects a value that is not a number
    if int(request.headers.get("content-length", 0)) > most:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, f"the body took longer than {seconds:g} s: send it faster", Connection="close") from None
    except ClientDisconnect:
        raise Refusal(_GONE, "the client has disconnected") from None
    return bytes(body)


async def _result(service: Service, order: SummaryRequest, request) -> Mapping[str, Any]:
    """The summary, unless the client disconnects first."""
    future = asyncio.wrap_future(service.submit(order))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
    except Closed as error:
        raise service.ending() from error
    except (ValueError, TypeError) as error:
        # a client sets parameters instead of calling the pipeline
        raise Refusal(422, error_line(error).replace(_OF_CALLS, _OF_REQUESTS)) from error
    except Exception as error:
        logger.exception("a document could not be summarized")
        raise Refusal(500, f"the document could not be summarized: {type(error).__name__}") from error
    finally:
        # drops the request, even during decoding
        future.cancel()
        gone.cancel()
    raise Refusal(_GONE, "the client has disconnected")


async def _gone(request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
