"""Access control and request log in front of the application."""

import hmac
import logging
import time
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

from hf_summ.serving.requests import Refusal
from hf_summ.serving.settings import Limits

# one line per request, without its text; `hf-summ serve` prints it
log = logging.getLogger("hf_summ.requests")
# methods that change and compute nothing
_READING = ("GET", "HEAD")


class AccessMiddleware:
    """ASGI middleware that refuses requests by their headers and logs every request.

    Args:
        app: the wrapped ASGI application.
        limits: for `allowed_hosts` and `api_key_file`.
        requests: counter of requests for summaries by status.

    Raises:
        ValueError: the API key cannot be read.
    """

    def __init__(self, app, limits: Limits, requests):
        self._app, self._requests = app, requests
        self._hosts = [name.strip().lower() for name in limits.allowed_hosts.split(",") if name.strip()]
        self._key = read_key(limits.api_key_file)

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_and_note(message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        app = self._app
        try:
            self._check(scope)
        except Refusal as refusal:
            app = refusal.response()
            if scope["method"] not in _READING:
                self._requests.labels(refusal.status).inc()
        try:
            await app(scope, receive, send_and_note)
        finally:
            client = scope["client"][0] if scope.get("client") else "-"
            seconds = time.perf_counter() - began
            log.info(f"{client} {scope['method']} {quote(scope['path'])[:200]} {status} {seconds:.3f} s")

    def _check(self, scope) -> None:
        """Raise a Refusal for ambiguous lengths, an unknown host, a page of another site, or a missing key."""
        from starlette.datastructures import Headers

        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # proxies may disagree on where the request ends
            message = "`Content-Length` and `Transfer-Encoding` exclude each other: send only one"
            raise Refusal(400, message, Connection="close")
        host = headers.get("host", "")
        if self._hosts and host and not self._is_allowed(host):
            raise Refusal(403, f"`Host` is '{host:.80}', which is not allowed: name it with --allowed_hosts")
        # browsers set these headers, and pages cannot change them
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_own = site in ("same-origin", "none") if site else origin is None or origin.partition("://")[2] == host
        if scope["method"] not in _READING and not is_own:
            raise Refusal(403, "pages of other sites may not use the service: call it from a program or its own page")
        if self._key and (scope["method"] not in _READING or scope["path"] == "/metrics"):
            scheme, _, key = headers.get("authorization", "").partition(" ")
            key = key.strip() if scheme.lower() == "bearer" else ""
            if not hmac.compare_digest(key.encode("latin-1"), self._key):
                problem = "the API key is wrong" if key else "an API key is needed"
                raise Refusal(401, f"{problem}: send `Authorization: Bearer KEY`", WWW_Authenticate="Bearer")

    def _is_allowed(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            # after DNS rebinding, pages still send their site's name, not an address
            return name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


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
