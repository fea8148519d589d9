"""The service as a web application."""

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import Counter
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hf_summ import __version__
from hf_summ.common.messages import one_line
from hf_summ.serving.batching import Unavailable
from hf_summ.serving.bodies import DISCONNECTED, TEXT, media_type_of, parse_request, read_body
from hf_summ.serving.rdf import TURTLE, as_turtle
from hf_summ.serving.schema import Problem, Summary, SummaryRecord, SummaryRequest
from hf_summ.serving.service import Service

logger = logging.getLogger(__name__)

# The paths of the page, each with a file and its media type.
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
_STRING = {"schema": {"type": "string"}}
_PROBLEM = {"model": Problem}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {TURTLE: _STRING}},
    400: _PROBLEM,
    401: _PROBLEM,
    413: _PROBLEM,
    422: _PROBLEM,
    500: _PROBLEM,
    503: _PROBLEM,
}
_SCHEMAS = "#/components/schemas/"
_REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": f"{_SCHEMAS}{SummaryRequest.__name__}"}},
        TEXT: _STRING,
        TURTLE: _STRING,
    },
}
# The key of a request's scope that marks a request to an allowed host.
_IS_HOST_ALLOWED = "hf_summ.is_host_allowed"
# The number of seconds after which a rejected client may try again.
_RETRY_SECONDS = 5


def create_app(service: Service) -> FastAPI:
    """Make the application of a service. It stops the service on shutdown.

    `POST /` summarizes and `GET /` is the page. `/health` and `/ready` answer while the process lives, `/info` has the
    model and the limits, `/docs` and `/openapi.json` the schema of requests, `/metrics` the counters of this process.
    Errors are `{"error": message}`.

    Args:
        service: a started service.

    Raises:
        OSError: the file of the API key cannot be read.
        ValueError: the API key is blank.
    """
    key = read_key(service.limits.api_key_file)
    key_dependencies = []
    if key:
        key_dependencies.append(Depends(_key_check(key)))
    app = FastAPI(title="hf-summ", version=__version__, lifespan=partial(_lifespan, service))
    hosts = []
    for name in service.limits.allowed_hosts.split(","):
        if name.strip():
            hosts.append(name.strip())
    app.add_middleware(_HostCheck, hosts=hosts or ["*"])
    # The middleware that is added last is the outermost one, so that it also sees the answers of the other.
    app.add_middleware(_AnswerCount, requests=service.metrics.requests)
    app.add_exception_handler(StarletteHTTPException, _refuse)
    app.openapi = partial(_describe, app)

    @app.post(
        "/",
        dependencies=key_dependencies,
        response_model=list[Summary],
        response_model_exclude_none=True,
        responses=_RESPONSES,
        openapi_extra={"requestBody": _REQUEST_BODY},
    )
    async def summarize(request: Request):
        """Summarize a document, or each of a list."""
        return await _answer(service, request)

    @app.get("/ready", response_class=PlainTextResponse)
    @app.get("/health", response_class=PlainTextResponse)
    async def health() -> str:
        """Whether the process is alive, once the model is loaded."""
        return "alive\n"

    @app.get("/info")
    async def info() -> dict[str, Any]:
        """The model and the limits."""
        return service.information()

    @app.get("/metrics", response_class=PlainTextResponse, dependencies=key_dependencies)
    async def counters():
        """Counters of this process, for Prometheus."""
        return PlainTextResponse(service.metrics.exposition(), media_type="text/plain; version=0.0.4")

    for path in _PAGE:
        app.add_route(path, _page, include_in_schema=False)
    return app


class _AnswerCount:
    """Counts all answers to `POST` by their status, also those that the application gives before a request is read.

    Args:
        app: the application.
        requests: the counter, with the label `status`.
    """

    def __init__(self, app: ASGIApp, requests: Counter):
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def count(message: Message) -> None:
            """Send a message of the answer, the first of which has the status."""
            if message["type"] == "http.response.start" and scope["method"] == "POST":
                self._requests.labels(message["status"]).inc()
            await send(message)

        await self._app(scope, receive, count)


class _HostCheck:
    """Refuses requests to hosts that are not allowed, by an error in JSON instead of Starlette's plain text.

    Args:
        app: the application.
        hosts: the allowed hosts, as `TrustedHostMiddleware` takes them.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]):
        self._app = app
        self._check = TrustedHostMiddleware(self._allow, hosts, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def discard(message: Message) -> None:
            """Send nothing of Starlette's own answer."""

        await self._check(scope, receive, discard)
        if _IS_HOST_ALLOWED in scope:
            await self._app(scope, receive, send)
            return
        response = JSONResponse({"error": "`Host` is none of `--allowed_hosts`"}, 400)
        await response(scope, receive, send)

    async def _allow(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Mark a request that Starlette's check passes on, as its host is allowed."""
        scope[_IS_HOST_ALLOWED] = True


@asynccontextmanager
async def _lifespan(service: Service, app: FastAPI):
    """A context of the whole life of the application, at whose end the service is stopped.

    Raises:
        RuntimeError: the service does not run in this process at the beginning.
    """
    if not service.is_running:
        # Requests would wait forever.
        raise RuntimeError("the service was not started in this process: start it in each worker, without preloading")
    yield
    service.stop()


def _describe(app: FastAPI) -> dict[str, object]:
    """FastAPI's description of the application, with the schema of requests.

    FastAPI does not know this schema, as the application parses requests itself.
    """
    # FastAPI makes the description once, and then returns the same object. The following lines may run again on it.
    description = FastAPI.openapi(app)
    request = SummaryRequest.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
    schemas = description["components"]["schemas"]
    schemas.update(request.pop("$defs"))
    schemas[SummaryRequest.__name__] = request
    return description


async def _page(request: Request) -> Response:
    """The response with a file of the page."""
    name, media_type = _PAGE[request.url.path]
    content = (files("hf_summ.serving") / name).read_bytes()
    return Response(content, media_type=media_type, headers=_PAGE_HEADERS)


async def _refuse(request: Request, error) -> JSONResponse:
    """The response to a request that fails with an HTTPException."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def read_key(file: str) -> bytes:
    """The API key in a file, stripped of surrounding white space.

    Args:
        file: the path of the file. If it is blank, the key is blank, and requests need no key.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is blank.
    """
    if not file:
        return b""
    key = Path(file).read_bytes().strip()
    if not key:
        raise ValueError(f"--api_key_file {file}: is blank; write a key into it")
    return key


def _key_check(key: bytes) -> Callable[..., None]:
    """Make a dependency of FastAPI that refuses requests without the key, by an HTTPException 401."""

    def check_key(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        problem = None
        if sent is None:
            problem = "an API key is needed"
        # Starlette decodes headers as Latin-1, so that this encoding gives the bytes that were sent. The comparison
        # takes equally long for all wrong keys of this length, so that its time tells nothing of the key.
        elif not hmac.compare_digest(sent.credentials.encode("latin-1"), key):
            problem = "the API key is wrong"
        if problem is not None:
            raise HTTPException(401, f"{problem}: send `Authorization: Bearer KEY`", {"WWW-Authenticate": "Bearer"})

    return check_key


async def _answer(service: Service, request: Request) -> Response | list[Summary]:
    """The summaries of a request's documents, in Turtle if the client accepts Turtle.

    Raises:
        HTTPException: the body cannot be read or is too long, or as for `_results`.
    """
    limit = service.limits.limit_characters
    body = await read_body(request, limit)
    # A long body takes time to parse, and is parsed in a thread so that other requests are not delayed.
    parsed = await run_in_threadpool(parse_request, body, media_type_of(request), limit, str(request.url))
    has_details = parsed.settings.pop("return_details", False)
    results = await _results(service, parsed.documents, parsed.settings, request)
    accepted_types = ",".join(request.headers.getlist("accept")).lower()
    if TURTLE in accepted_types:
        turtle = await run_in_threadpool(as_turtle, parsed.documents, results, parsed.uris)
        return Response(turtle, media_type=TURTLE)
    summaries = []
    for result in results:
        summary = Summary(summary_text=result["summary_text"])
        if has_details and "details" in result:
            summary.details = dict(result["details"])
        summaries.append(summary)
    return summaries


async def _results(
    service: Service, documents: Sequence[str], settings: Mapping[str, object], request: Request
) -> list[SummaryRecord]:
    """The pipeline's result for each document of a request.

    Raises:
        HTTPException: a document or a setting is at fault, the service is busy, or the client disconnects before the
            results are there.
    """
    try:
        futures = [asyncio.wrap_future(future) for future in service.submit(documents, settings)]
    except (Unavailable, ValueError, TypeError) as error:
        raise _http_error(error) from error
    decoding = asyncio.gather(*futures, return_exceptions=True)
    disconnecting = asyncio.ensure_future(_wait_until_disconnected(request))
    try:
        await asyncio.wait((decoding, disconnecting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnecting.cancel()
        # Documents that are still waiting lose their places in the queue.
        for future in futures:
            future.cancel()
    if not decoding.done():
        raise HTTPException(*DISCONNECTED)
    for row, future in enumerate(futures):
        error = future.exception()
        if error is not None:
            document = f"document {row} of `inputs`: " if len(documents) > 1 else ""
            raise _http_error(error, document) from error
    return [future.result() for future in futures]


async def _wait_until_disconnected(request: Request) -> None:
    """Return when the client has closed its connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _http_error(error: BaseException, document: str = "") -> HTTPException:
    """The response to an error at summarizing.

    Args:
        error: the error.
        document: the beginning of the message, which says which of several documents is at fault.
    """
    if isinstance(error, Unavailable):
        return HTTPException(503, str(error), {"Retry-After": str(_RETRY_SECONDS)})
    if isinstance(error, ValueError | TypeError):
        return HTTPException(422, f"{document}{one_line(error)}")
    logger.error("a document could not be summarized: %s", one_line(error), exc_info=error)
    return HTTPException(500, f"{document}the document could not be summarized: {type(error).__name__}")
