"""Reading of request bodies, within limits of size and time, before the application parses them."""

import asyncio
import time
import zlib

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from hf_summ.models.text_documents import readable
from hf_summ.serving.service import Metrics
from hf_summ.serving.settings import Limits

# accepted content types; clients such as curl send the other two by default
_JSON = ("application/json", "", "application/x-www-form-urlencoded")
# status for a client that has disconnected; only the metrics show it
DISCONNECTED = 499


def refusal(error: HTTPException) -> JSONResponse:
    """The response `{"error": message}`; lone surrogates, which a quoted value may contain, are replaced."""
    return JSONResponse({"error": readable(error.detail)}, error.status_code, error.headers)


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
            check_origin(request)
            messages = [{"type": "http.request", "body": await read_body(request, self._limits), "more_body": False}]
        except HTTPException as error:
            await refusal(error)(scope, receive, send_counted)
            return

        async def receive_body():
            return messages.pop() if messages else await receive()

        other = [header for header in scope["headers"] if header[0] not in (b"content-type", b"content-length")]
        await self._app(
            {**scope, "headers": [*other, (b"content-type", b"application/json")]}, receive_body, send_counted
        )


def check_origin(request: Request) -> None:
    """Raise an HTTPException for a request from a page of another site, such as one open beside a local service."""
    # browsers set these headers, and pages cannot change them
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    host = request.headers.get("host", "")
    is_own = site in ("same-origin", "none") if site else origin is None or origin.partition("://")[2] == host
    if not is_own:
        raise HTTPException(403, "pages of other sites may not use the service: call it from a program or its own page")


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request, decompressed.

    Raises:
        HTTPException: 408 or 413 if it exceeds a limit, 415 if it is not JSON or compressed in another way than by
            gzip, 400 if it cannot be decompressed.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in _JSON:
        raise HTTPException(415, "the body must be JSON: send it with `Content-Type: application/json`")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
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
        raise HTTPException(DISCONNECTED, "the client has disconnected") from None
    if encoding == "identity":
        return bytes(body)
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = decompressor.decompress(body, limits.limit_body + 1)
    except zlib.error as error:
        raise HTTPException(400, f"the body cannot be read: not gzip ({error})") from None
    if len(content) > limits.limit_body:
        raise too_long
    if not decompressor.eof:
        raise HTTPException(400, "the body cannot be read: the gzip is truncated: send all of it")
    return content
