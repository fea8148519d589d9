"""The service as a web application."""

import asyncio
import gzip
import hmac
import io
import json
import logging
import os
import re
import signal
import time
import zlib
from collections.abc import Sequence
from contextlib import asynccontextmanager
from email.message import Message
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from hf_summ import __version__
from hf_summ.common.messages import error_line, nearest, one_line
from hf_summ.models.text_documents import readable
from hf_summ.serving.batching import Closed, Unavailable
from hf_summ.serving.rdf import FORMATS, as_rdf, read_contexts
from hf_summ.serving.schema import Problem, Summary, read_settings, request_schema
from hf_summ.serving.service import READY, Metrics, Service
from hf_summ.serving.settings import Limits

logger = logging.getLogger(__name__)

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
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {media_type: {"schema": {"type": "string"}} for media_type in FORMATS}},
    **{status: {"model": Problem} for status in (400, 401, 403, 408, 413, 415, 422, 500, 503)},
}
# content types of JSON; clients such as curl send the other two by default
_JSON = ("application/json", "", "application/x-www-form-urlencoded")
# and of documents without settings
_TEXT, _TURTLE = "text/plain", "text/turtle"
# for a client that has disconnected; only the metrics show it
_DISCONNECTED = 499, "the client has disconnected"
# what to do about a document that is too long
_CALL_HINT = "or call the pipeline with `truncation=True`"
_REQUEST_HINT = "omit `truncation`, or set `long_documents` to extract or windows"
# pydantic's words -> ours
_WORDS = {
    "Input should be": "must be",
    "less than or equal to": "at most",
    "greater than or equal to": "at least",
    "greater than": "above",
}
# the name or the address in `Host`, without the port and the root's dot
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*?)\.?(?::\d*)?")
# seconds between updates of the gauges
_INTERVAL = 0.1


def create_app(service: Service) -> FastAPI:
    """The application of a service, which it stops on shutdown.

    `POST /` summarizes and `GET /` is the page. `/health` reports whether the process is alive, `/ready` whether it
    accepts requests, `/info` the model and the limits, `/docs` and `/openapi.json` the schema of requests, `/metrics`
    the counters. Errors are `{"error": message}`. If the decoding thread ends, the process sends itself SIGTERM.

    Args:
        service: a started service.

    Raises:
        OSError: the file of the API key cannot be read.
        ValueError: the API key is blank.
    """
    limits, metrics, key = service.limits, service.metrics, read_key(service.limits.api_key_file)
    hosts = [name.strip().lower() for name in limits.allowed_hosts.split(",") if name.strip()]
    schema = request_schema(limits, service.generation_keys)
    parameters = {*schema.model_fields, *schema.model_json_schema()["$defs"]["Parameters"]["properties"]}
    # relative, as a proxy may serve them below a path of its own
    relative: dict[str, Any] = {"docs_url": None, "redoc_url": None, "servers": [{"url": "./"}]}
    app = FastAPI(title="hf-summ", version=__version__, lifespan=partial(_lifespan, service), **relative)
    app.add_middleware(BodyMiddleware, limits=limits, metrics=metrics)
    if hosts:
        app.add_middleware(HostMiddleware, hosts=hosts)
    keyed = [Depends(_key_check(key))] if key else []

    app.add_exception_handler(AnyHTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, partial(_refuse_body, parameters))

    @app.post(
        "/",
        dependencies=keyed,
        response_model=list[Summary],
        response_model_exclude_none=True,
        responses=_RESPONSES,
        openapi_extra={"requestBody": {"content": {name: {"schema": {"type": "string"}} for name in (_TEXT, _TURTLE)}}},
    )
    async def summarize(body: schema, request: Request):  # ty: ignore[invalid-type-form]
        """Summarize a document, or each of a list."""
        documents = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        try:
            settings = read_settings(body.parameters)
            with_details = settings.pop("return_details", False)
            results = await _results(service, documents, settings, request)
        except HTTPException:
            raise
        except Exception as error:
            raise _http_error(error) from error
        accepted = ",".join(request.headers.getlist("accept")).lower()
        media_type = next((name for name in FORMATS if name in accepted), None)
        if media_type is not None:
            uris = getattr(request.state, "uris", ())
            return Response(as_rdf(documents, results, media_type, uris), media_type=media_type)
        return [
            Summary(summary_text=result["summary_text"], details=result.get("details") if with_details else None)
            for result in results
        ]

    _add_status(app, service, keyed)
    for path in _PAGE:
        app.add_route(path, _page, include_in_schema=False)
    return app


def _add_status(app: FastAPI, service: Service, keyed: list[Any]) -> None:
    """Add the routes that describe the service; its metrics need the key."""

    @app.get("/docs", include_in_schema=False)
    async def documentation():
        return get_swagger_ui_html(openapi_url="openapi.json", title=app.title)

    @app.get("/health", response_class=PlainTextResponse)
    async def health() -> str:
        """Whether the process is alive."""
        return "alive\n"

    @app.get("/ready", response_class=PlainTextResponse, responses={503: {"content": {"text/plain": {}}}})
    async def ready():
        """Whether requests are accepted."""
        return PlainTextResponse(f"{service.state}\n", 200 if service.state == READY else 503)

    @app.get("/info")
    async def info() -> dict[str, Any]:
        """The model and the limits."""
        return service.information()

    @app.get("/metrics", response_class=PlainTextResponse, dependencies=keyed)
    async def counters():
        """Counters for Prometheus."""
        return PlainTextResponse(service.metrics.exposition(), media_type="text/plain; version=0.0.4")


@asynccontextmanager
async def _lifespan(service: Service, app: FastAPI):
    if not service.is_running:
        # requests would wait forever
        raise RuntimeError("the service was not started in this process: start it in each worker, without preloading")
    watching = asyncio.create_task(_watch(service))
    yield
    watching.cancel()
    await asyncio.to_thread(service.stop)


async def _watch(service: Service) -> None:
    """Update the gauges, and end the process with the decoding thread."""
    while service.problem is None:
        service.update_metrics()
        await asyncio.sleep(_INTERVAL)
    logger.error("the decoding thread has ended, and the process with it: %s", one_line(service.problem))
    os.kill(os.getpid(), signal.SIGTERM)


async def _page(request: Request) -> Response:
    """The response with a file of the page."""
    name, media_type = _PAGE[request.url.path]
    content = (files("hf_summ.serving") / name).read_bytes()
    return Response(content, media_type=media_type, headers=_PAGE_HEADERS)


def read_key(file: str) -> bytes:
    """The API key in a file, stripped of surrounding whitespace; blank if no file is set.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is blank.
    """
    key = Path(file).read_bytes().strip() if file else b""
    if file and not key:
        raise ValueError(f"--api_key_file {file}: is blank; write a key into it")
    return key


def _key_check(key: bytes):
    """A dependency that refuses requests without the key."""

    def check_key(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        if not hmac.compare_digest((sent.credentials if sent else "").encode("latin-1"), key):
            problem = "the API key is wrong" if sent else "an API key is needed"
            raise HTTPException(401, f"{problem}: send `Authorization: Bearer KEY`", {"WWW-Authenticate": "Bearer"})

    return check_key


async def _results(
    service: Service, documents: Sequence[str], settings: dict[str, Any], request: Request
) -> list[dict[str, Any]]:
    """The summaries, unless the client disconnects first."""
    futures = [asyncio.wrap_future(future) for future in service.submit(documents, settings)]
    decoding = asyncio.gather(*futures, return_exceptions=True)
    disconnecting = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((decoding, disconnecting), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # the server cancels requests that are unfinished after `drain_seconds`
        raise Closed from None
    finally:
        # drops the request, even during decoding
        for future in (*futures, disconnecting):
            future.cancel()
    if not decoding.done():
        raise HTTPException(*_DISCONNECTED)
    for row, future in enumerate(futures):
        if isinstance(error := future.exception(), ValueError) and len(documents) > 1:
            raise ValueError(f"document {row} of `inputs`: {error}") from error
    return [future.result() for future in futures]


async def _disconnected(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _http_error(error: Exception) -> HTTPException:
    """The response to an error at summarizing."""
    if isinstance(error, Unavailable):
        seconds = min(max(round(error.seconds), 1), 60)
        return HTTPException(503, str(error), {"Retry-After": str(seconds), "Connection": "close"})
    if isinstance(error, ValueError | TypeError):
        # a client sets parameters instead of calling the pipeline
        return HTTPException(422, error_line(error).replace(_CALL_HINT, _REQUEST_HINT))
    logger.error("a document could not be summarized: %s", one_line(error), exc_info=error)
    return HTTPException(500, f"the document could not be summarized: {type(error).__name__}")


def _body_problem(problems: Sequence[dict[str, Any]], parameters: set[str]) -> HTTPException:
    """The refusal of a body for pydantic's description of its problems."""
    # a list that is too long is also no string
    problem = problems[-1] if problems[-1]["type"] == "too_long" else problems[0]
    location, value, reason = problem["loc"][1:], problem["input"], problem["msg"]
    if problem["type"] == "json_invalid":
        # one is "Unterminated string starting at"
        reason = problem["ctx"]["error"].removesuffix(" at")
        return HTTPException(400, f"the body cannot be read: not JSON ({reason} at {location[0]})")
    name = next((str(name) for name in reversed(location) if name in parameters), "")
    if problem["type"] == "extra_forbidden":
        message = f"unknown parameter '{location[-1]:.80}'{nearest(location[-1][:80], parameters)}"
    elif problem["type"] == "missing" or not name:
        message = f"the body must be an object with `inputs`, but is {value!r:.80}"
    elif problem["type"] == "too_long":
        message = f"`inputs` has {len(value)} documents, but must have at most {problem['ctx']['max_length']}"
    elif name == "inputs":
        message = f"`inputs` must be a string or a list of strings, but is {value!r:.80}"
    else:
        for theirs, ours in _WORDS.items():
            reason = reason.replace(theirs, ours)
        message = f"`{name}` is {value!r:.80}, but {reason}"
    return HTTPException(422, error_line(message))


async def _refuse(request: Request, error) -> JSONResponse:
    if error.status_code == 400 and error.__cause__ is not None:
        # of a body in another encoding or with lists in lists, which FastAPI refuses without a reason
        error.detail = f"the body cannot be read: {one_line(error.__cause__)}"
    if error.status_code == 404:
        error.detail = f"nothing is at {request.url.path:.80}: `POST /` summarizes, and /docs lists what else there is"
    return _refusal(error)


async def _refuse_body(parameters: set[str], request: Request, error) -> JSONResponse:
    return _refusal(_body_problem(error.errors(), parameters))


def _refusal(error: HTTPException) -> JSONResponse:
    """The response `{"error": message}`; lone surrogates, which a quoted value may contain, are replaced."""
    return JSONResponse({"error": readable(error.detail)}, error.status_code, error.headers)


class HostMiddleware:
    """ASGI middleware that refuses requests to other hosts, as from pages of a name that leads to a local service.

    Clients that send no `Host`, as in HTTP/1.0, are no browsers.

    Args:
        app: the wrapped ASGI application.
        hosts: names and addresses in lower case; `*.example.org` stands for all names below example.org.
    """

    def __init__(self, app, hosts: Sequence[str]):
        self._app, self._hosts = app, hosts
        self._endings = tuple(own.removeprefix("*") for own in hosts if own.startswith("*"))

    async def __call__(self, scope, receive, send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        match = _HOST.fullmatch((host or "").lower())
        name = match[1] if match else ""
        if host is None or name in self._hosts or name.endswith(self._endings):
            await self._app(scope, receive, send)
            return
        problem = f"the service is not named '{host:.80}': name it with --allowed_hosts"
        await _refusal(HTTPException(400, problem))(scope, receive, send)


class BodyMiddleware:
    """ASGI middleware that reads the body of `POST /` and counts the responses.

    Args:
        app: the wrapped ASGI application, which gets the whole body at once, as uncompressed JSON.
        limits: for `limit_body` and `limit_seconds`.
        metrics: for the requests and their seconds.
    """

    def __init__(self, app, limits: Limits, metrics: Metrics):
        self._app, self._limits, self._metrics = app, limits, metrics

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # the server omits the body
            scope = {**scope, "method": "GET"}
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", "/"):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(message["status"]).inc()
                self._metrics.seconds.observe(time.perf_counter() - began)
            await send(message)

        request = Request(scope, receive)
        try:
            _check_origin(request)
            content = _as_json(request, await _read_body(request, self._limits))
            messages = [{"type": "http.request", "body": content, "more_body": False}]
        except HTTPException as error:
            await _refusal(error)(scope, receive, send_counted)
            return

        async def receive_body():
            return messages.pop() if messages else await receive()

        other = [header for header in scope["headers"] if header[0] not in (b"content-type", b"content-length")]
        await self._app(
            {**scope, "headers": [*other, (b"content-type", b"application/json")]}, receive_body, send_counted
        )


def _check_origin(request: Request) -> None:
    """Raise an HTTPException for a request from a page of another site, such as one open beside a local service."""
    # browsers set these headers, and pages cannot change them
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    host = request.headers.get("host", "")
    is_own = site in ("same-origin", "none") if site else origin is None or origin.partition("://")[2] == host
    if not is_own:
        raise HTTPException(403, "pages of other sites may not use the service: call it from a program or its own page")


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _as_json(request: Request, body: bytes) -> bytes:
    """The body as JSON; the URIs of documents in Turtle are stored in the request's state.

    Raises:
        HTTPException: 400 if it cannot be read.
    """
    try:
        if _media_type(request) == _TEXT:
            header = Message()
            header["content-type"] = request.headers["content-type"]
            text = body.decode(header.get_content_charset("utf-8"))
            # Windows' editors begin files with a byte-order mark
            return json.dumps({"inputs": text.removeprefix("\ufeff")}).encode()
        if _media_type(request) == _TURTLE:
            contexts = read_contexts(body)
            request.state.uris = list(contexts)
            return json.dumps({"inputs": list(contexts.values())}).encode()
    except (ValueError, LookupError) as error:
        raise HTTPException(400, f"the body cannot be read: {error_line(error)}") from None
    return body


async def _read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request, decompressed.

    Raises:
        HTTPException: 408 or 413 if it exceeds a limit, 415 if it is of another type or not compressed by gzip, 400 if
            it cannot be decompressed.
    """
    if _media_type(request) not in (*_JSON, _TEXT, _TURTLE):
        raise HTTPException(415, f"the body must be JSON, {_TEXT} or {_TURTLE}: name it in `Content-Type`")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        message = f"`Content-Encoding` is '{encoding:.80}', but must be gzip or identity"
        raise HTTPException(415, message, {"Accept-Encoding": "gzip"})
    too_long = HTTPException(413, f"the body has more than {limits.limit_body} bytes: shorten it")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.limit_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.limit_body:
                    raise too_long
    except TimeoutError:
        message = f"the body took longer than {limits.limit_seconds:g} s: send it faster"
        raise HTTPException(408, message, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise HTTPException(*_DISCONNECTED) from None
    if encoding == "identity":
        return bytes(body)
    try:
        # with all members, as of concatenated files
        with gzip.open(io.BytesIO(body)) as file:
            content = file.read(limits.limit_body + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise HTTPException(400, f"the body cannot be read: not a complete gzip ({error_line(error)})") from None
    if len(content) > limits.limit_body:
        raise too_long
    return content
