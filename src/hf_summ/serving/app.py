"""The service as a web application."""

import asyncio
import hmac
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from hf_summ import __version__
from hf_summ.common.messages import error_line, nearest, one_line
from hf_summ.serving.batching import Closed, Unavailable
from hf_summ.serving.middleware import DISCONNECTED, BodyMiddleware, refusal
from hf_summ.serving.rdf import FORMATS, as_rdf
from hf_summ.serving.schema import Problem, Summary, read_settings, request_schema
from hf_summ.serving.service import READY, Panic, Service

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
_REFUSALS = (400, 401, 403, 408, 413, 415, 422, 500, 503)
# what to do about a document that is too long
_OF_CALLS = "or call the pipeline with `truncation=True`"
_OF_REQUESTS = "leave `truncation` out, or set `long_documents` to extract or windows"
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
        ValueError: the API key cannot be read.
    """
    limits, metrics, key = service.limits, service.metrics, read_key(service.limits.api_key_file)
    hosts = [name.strip() for name in limits.allowed_hosts.split(",") if name.strip()]
    schema = request_schema(limits, service.generation_keys)

    @asynccontextmanager
    async def lifespan(app):
        watching = asyncio.create_task(_watch(service))
        yield
        watching.cancel()
        await asyncio.to_thread(service.stop)

    app = FastAPI(title="hf-summ", version=__version__, lifespan=lifespan, redoc_url=None)
    app.add_middleware(BodyMiddleware, limits=limits, metrics=metrics)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or ["*"], www_redirect=False)

    def check_key(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        if not hmac.compare_digest((sent.credentials if sent else "").encode("latin-1"), key):
            problem = "the API key is wrong" if sent else "an API key is needed"
            raise HTTPException(401, f"{problem}: send `Authorization: Bearer KEY`", {"WWW-Authenticate": "Bearer"})

    keyed = [Depends(check_key)] if key else []

    @app.exception_handler(AnyHTTPException)
    async def refuse(request, error):
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def refuse_body(request, error):
        names = {*schema.model_fields, *schema.model_json_schema()["$defs"]["Parameters"]["properties"]}
        return refusal(_body_problem(error.errors(), names))

    @app.post(
        "/",
        dependencies=keyed,
        response_model=list[Summary],
        response_model_exclude_none=True,
        responses={200: {"content": {media_type: {"schema": {"type": "string"}} for media_type in FORMATS}}}
        | {status: {"model": Problem} for status in _REFUSALS},
    )
    async def summarize(order: schema, request: Request):  # ty: ignore[invalid-type-form]
        """Summarize a document, or each of a list."""
        documents = [order.inputs] if isinstance(order.inputs, str) else order.inputs
        try:
            settings = read_settings(order.parameters)
            with_details = settings.pop("return_details", False)
            results = await _results(service, documents, settings, request)
        except HTTPException:
            raise
        except Unavailable as error:
            seconds = min(max(round(error.seconds), 1), 60)
            raise HTTPException(503, str(error), {"Retry-After": str(seconds), "Connection": "close"}) from error
        except (ValueError, TypeError) as error:
            # a client sets parameters instead of calling the pipeline
            raise HTTPException(422, error_line(error).replace(_OF_CALLS, _OF_REQUESTS)) from error
        except Exception as error:
            # the Rust code has printed where it panicked
            traceback = None if isinstance(error, Panic) else error
            logger.error("a document could not be summarized: %s", one_line(error), exc_info=traceback)
            raise HTTPException(500, f"the document could not be summarized: {type(error).__name__}") from error
        accepted = ",".join(request.headers.getlist("accept")).lower()
        media_type = next((name for name in FORMATS if name in accepted), None)
        if media_type is not None:
            return Response(as_rdf(documents, results, media_type), media_type=media_type)
        return [
            Summary(summary_text=result["summary_text"], details=result.get("details") if with_details else None)
            for result in results
        ]

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
        return PlainTextResponse(metrics.exposition(), media_type="text/plain; version=0.0.4")

    for path in _PAGE:
        app.add_route(path, _page, include_in_schema=False)
    return app


async def _page(request: Request) -> Response:
    """The response with a file of the page."""
    name, media_type = _PAGE[request.url.path]
    content = (files("hf_summ.serving") / name).read_bytes()
    return Response(content, media_type=media_type, headers=_PAGE_HEADERS)


async def _watch(service: Service) -> None:
    """Update the gauges, and end the process with the decoding thread."""
    while service.problem is None:
        service.update_metrics()
        await asyncio.sleep(_INTERVAL)
    logger.error("the decoding thread has ended, and the process with it: %s", one_line(service.problem))
    os.kill(os.getpid(), signal.SIGTERM)


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
        raise HTTPException(DISCONNECTED, "the client has disconnected")
    for row, future in enumerate(futures):
        if isinstance(error := future.exception(), ValueError) and len(documents) > 1:
            raise ValueError(f"document {row} of `inputs`: {error}") from error
    return [future.result() for future in futures]


async def _disconnected(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _body_problem(problems: Sequence[dict[str, Any]], names: set[str]) -> HTTPException:
    """The refusal of a body for pydantic's description of its problems."""
    # a list that is too long is also no string
    problem = problems[-1] if problems[-1]["type"] == "too_long" else problems[0]
    location, value, reason = problem["loc"][1:], problem["input"], problem["msg"]
    if problem["type"] == "json_invalid":
        return HTTPException(400, f"the body cannot be read: not JSON ({problem['ctx']['error']} at {location[0]})")
    name = next((str(name) for name in reversed(location) if name in names), "")
    if problem["type"] == "extra_forbidden":
        message = f"unknown parameter '{location[-1]:.80}'{nearest(location[-1][:80], names)}"
    elif problem["type"] == "missing" or not name:
        message = f"the body must be an object with `inputs`, but is {value!r:.80}"
    elif problem["type"] == "too_long":
        message = (
            f"`inputs` has {len(value)} documents, but must have at most {problem['ctx']['max_length']}: send fewer"
        )
    elif name == "inputs":
        message = f"`inputs` must be a string or a list of strings, but is {value!r:.80}"
    else:
        message = f"`{name}` is {value!r:.80}, but {reason.replace('Input should be', 'must be')}"
    return HTTPException(422, error_line(message))


def read_key(file: str) -> bytes:
    """The API key in a file, stripped of surrounding whitespace; blank if no file is set.

    Raises:
        ValueError: the file cannot be read, or is blank.
    """
    if not file:
        return b""
    try:
        key = Path(file).read_bytes().strip()
    except OSError as error:
        raise ValueError(f"--api_key_file {file}: cannot be read: {error.strerror}") from error
    if not key:
        raise ValueError(f"--api_key_file {file}: is blank; write a key into it")
    return key
