"""Bytes on the service's sockets: requests truncated, split, doubled or framed twice, and clients that disconnect."""

import json
import logging
import random
import re
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from tests.torture import values
from tests.torture.cases import Case, Held, Refused
from tests.torture.checks import first_problem
from tests.torture.workshop import READERS, Workshop

# timeouts in seconds: of an answer, and of one that may never arrive
_PATIENCE, _SHORT = 30.0, 0.3
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")
_HEADS = (
    *(b"Host: x\r\n", b"Host: x\r\nHost: y\r\n", b"host:x\r\n", b"Host : x\r\n", b"", b"Host: \xff\r\n", b"Host: x\n"),
    *(b"Host: x\r\nConnection: close\r\n", b"Host: x\r\nExpect: 100-continue\r\n", b"Host: x\r\n folded: 1\r\n"),
    *(b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", b"Host: x\r\nX: " + b"y" * 70_000 + b"\r\n"),
    *(b"Host: x\r\nOrigin: http://evil\r\n", b"Host: x\r\n\0: 1\r\n", b"Host: x\r\nAccept-Encoding: gzip\r\n"),
)
_LINES = (
    *(b"POST / HTTP/1.1", b"POST / HTTP/1.1", b"POST / HTTP/1.1", b"GET /health HTTP/1.1", b"HEAD / HTTP/1.1"),
    *(
        b"POST / HTTP/1.0",
        b"POST / HTTP/3.0",
        b"POST http://x/ HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"POST /",
        b"\x16\x03",
    ),
    *(b"POST /\0 HTTP/1.1", b"post / HTTP/1.1", b"CONNECT x:1 HTTP/1.1", b"PRI * HTTP/2.0", b"POST  / HTTP/1.1", b""),
)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A connection with any bytes, then an ordinary one, which must be answered."""
    kind = draw.choice(READERS)
    address = shop.server(kind)
    is_whole = draw.random() < 0.4
    number = draw.choice((1, 1, 2, 5))
    sent = b"".join(_whole(draw) if is_whole else _any(draw) for _ in range(number))
    end = draw.choice(("shut", "shut", "wait", "wait", "close", "reset"))
    pieces, pause = _pieces(draw, sent), draw.choice((0.0, 0.0, 0.01))
    text = values.plain(draw)

    def attempt() -> bytes:
        expected = json.dumps(shop.reader(kind)([text]), ensure_ascii=False).encode()
        with _no_errors():
            answer = _exchange(address, pieces, pause, end, number if is_whole else None)
            ordinary = _exchange(address, [_post(json.dumps({"inputs": text}).encode())], 0, "shut", 1)
        if expected not in ordinary:
            raise TimeoutError(f"an ordinary request beside has the answer {ordinary!r:.200}")
        statuses = _answers(answer)
        if statuses and 200 not in statuses and problem(answer) is None:
            raise Refused(f"status {statuses[0]}")
        return answer

    def problem(answer: bytes) -> str | None:
        statuses = _answers(answer)
        wrong = [status for status in statuses if not (status == 200 or 400 <= status < 500)]
        return first_problem(
            f"statuses {wrong}" if wrong else None,
            f"the answer is {answer!r:.200}" if answer and not answer.startswith(b"HTTP/1.1 ") else None,
            # all whole requests are answered, also if the client sends no more
            Held(f"{number} requests, but the statuses {statuses}")
            if is_whole and end in ("shut", "wait") and len(statuses) != number
            else None,
        )

    return Case(f"{kind} {end} {len(pieces)} pieces {sent!r:.400}", attempt, problem)


def _answers(found: bytes) -> list[int]:
    """The statuses of answers, without interim ones."""
    return [int(status) for status in _STATUS.findall(found) if status != b"100"]


def _whole(draw: random.Random) -> bytes:
    """A request of valid HTTP with any body."""
    kind = draw.random()
    if kind < 0.2:
        return draw.choice((b"GET", b"HEAD", b"PUT")) + b" /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    document = values.some_text(draw).encode("utf-8", "replace").decode()
    body = json.dumps({"inputs": document, "parameters": {"max_new_tokens": draw.choice((1, 8, 0))}}).encode()
    if kind < 0.3:
        return _post(values.spoiled(draw, body))
    return _post(body) if kind < 0.7 else _chunked(draw, body)


def _post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _chunked(draw: random.Random, body: bytes) -> bytes:
    size = draw.choice((1, 7, 1000)) if len(body) < 2000 else 1000
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def _any(draw: random.Random) -> bytes:
    """Bytes that are seldom a valid request."""
    body = json.dumps({"inputs": values.plain(draw)}).encode()
    kind = draw.random()
    if kind < 0.3:
        return values.spoiled(draw, draw.choice((_post(body), _chunked(draw, body))))
    length = draw.choice((len(body), len(body), len(body) - 1, len(body) + 9, -1, 10**30))
    framing = draw.choice(
        (
            b"Content-Length: %d\r\n" % length,
            b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % length,
            b"Content-Length: 3\r\nContent-Length: %d\r\n" % length,
            b"Transfer-Encoding: gzip, chunked\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Length: x\r\n",
            b"",
        )
    )
    return draw.choice(_LINES) + b"\r\n" + draw.choice(_HEADS) + framing + b"\r\n" + body


def _pieces(draw: random.Random, sent: bytes) -> list[bytes]:
    places = sorted(draw.randrange(len(sent) + 1) for _ in range(draw.choice((0, 0, 1, 4))))
    return [sent[start:end] for start, end in zip([0, *places], [*places, len(sent)], strict=True)]


def _exchange(address: tuple[str, int], pieces: Sequence[bytes], pause: float, end: str, number: int | None) -> bytes:
    """The bytes received until the other side closes, or `number` answers are complete."""
    found = b""
    with socket.create_connection(address[:2]) as connection:
        connection.settimeout(_SHORT if number is None else _PATIENCE)
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            if end == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if end in ("close", "reset"):
                return b""
            if end == "shut":
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                found += part
                if end == "wait" and len(_answers(found)) == number:
                    break
        except OSError:
            # the other side closed, or nothing more arrives
            pass
    return found


class _no_errors(logging.Handler):
    """A context that fails if the server logs an error."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self._found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(f"{record.getMessage()} {record.exc_info and record.exc_info[1]!r}")

    def __enter__(self) -> None:
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addHandler(self)

    def __exit__(self, *_: object) -> None:
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).removeHandler(self)
        if self._found:
            raise RuntimeError(f"the server failed: {self._found[0]}")
