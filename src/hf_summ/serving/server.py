"""The web server: uvicorn in one process or several, with time limits for clients and an end that loses no request."""

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hf_summ.common.processes import Pool, Worker, threads_for
from hf_summ.serving.app import create_app
from hf_summ.serving.service import FAILED, READY, Service
from hf_summ.serving.settings import Limits

# more than clients that connect at once; the system may allow fewer
_BACKLOG = 2048
# seconds that a connection may be idle; longer than proxies keep theirs, which would else use one as it is closed
_KEEP_ALIVE = 75
# seconds for which a server that ends still answers that it is ending
_LAST_CALL = 1.0
# how long requests that were sent before the socket was closed may be under way
_UNDER_WAY = 0.3
_INTERVAL = 0.05
# how many seconds answers may take to be sent after all that was begun is decoded or has failed
_ANSWERING = 5
# beyond the time that a request may take, as a client that sends too much or too slowly is answered first
_GRACE = 5.0
# beyond the time that a worker has for its requests
_WORKER_GRACE = 10.0
# seconds between looks at signals; a worker that ends is replaced no more often
_WORKER_INTERVAL = 0.5


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ValueError: another program uses the port, or there is no such address here.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python adds where to the system's words
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error
        raise ValueError(f"--port {port}: cannot listen on {host}: {reason}; name another port or --host") from error


def url(listening: socket.socket) -> str:
    """Where clients find a socket that listens."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    load: Callable[[], Any],
    limits: Limits,
    listening: socket.socket,
    threads: int | None = None,
    on_ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, and finish what was begun.

    Args:
        load: gives the pipeline.
        listening: see `bind`; it is closed at the end.
        threads: see `Service`.
        on_ready: called when requests are taken.

    Raises:
        Exception: what `load` raised, or the pipeline with its first document.
    """
    from transformers.utils.logging import set_verbosity_error

    # transformers and the pipeline, whose loggers are apart, would warn of document after document
    set_verbosity_error()
    logging.getLogger("hf_summ").setLevel(logging.ERROR)
    service = Service(load, limits, threads)
    Server(service, on_ready).run([listening])
    if service.problem is not None:
        raise service.problem


def serve_with_workers(
    load: Callable[[], Any],
    limits: Limits,
    listening: socket.socket,
    workers: int,
    on_ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve with several processes until SIGTERM or Ctrl-C; one that ends is replaced.

    Their metrics are summed, through files in a temporary folder.

    Args:
        load: gives the pipeline; it can be pickled, and is called in each process.
        listening: see `bind`; the processes share it.
        on_ready: called when the first of them takes requests.

    Raises:
        ValueError: a worker could not load the model, or decode with it.
    """
    with (
        _caught_signals() as signals,
        _metrics_folder() as folder,
        Pool(_serve_requests, limits.drain_seconds + _WORKER_GRACE) as pool,
    ):
        for _ in range(workers):
            pool.add(load, limits, listening, threads_for(workers))
        try:
            was_ready = False
            while not signals:
                for worker in pool.wait_ready(_WORKER_INTERVAL):
                    kind, value = worker.recv()
                    if kind == "failed":
                        raise ValueError(value)
                    if kind == "ended":
                        _replace(pool, worker, folder)
                    elif not was_ready:
                        was_ready = True
                        on_ready()
        finally:
            # otherwise clients could connect and get no answer
            listening.close()


def _replace(pool: Pool, worker: Worker, folder: str) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    pid, code = worker.process.pid, worker.process.exitcode
    print(f"hf-summ: worker {pid} has ended ({code}): another takes its place", file=sys.stderr)
    mark_process_dead(pid, folder)
    time.sleep(_WORKER_INTERVAL)
    pool.replace(worker)


def _serve_requests(
    connection: Connection, load: Callable[[], Any], limits: Limits, listening: socket.socket, threads: int | None
) -> None:
    serve(load, limits, listening, threads, lambda: connection.send(("ready", None)))


@contextmanager
def _caught_signals() -> Generator[list[int]]:
    """The numbers of the SIGTERM and SIGINT that arrive within."""
    # not an event: a handler that sets one may interrupt the very wait that holds its lock
    signals: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: signals.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _metrics_folder() -> Generator[str]:
    """A folder for the metrics of the processes that are started within."""
    with tempfile.TemporaryDirectory(prefix="hf_summ_metrics_") as folder:
        # read by prometheus_client where it is imported first, which is in the workers
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield folder
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


class Server(uvicorn.Server):
    """uvicorn's server of a service, which closes its socket only when all that clients have sent is answered.

    Args:
        service: not started yet.
        on_ready: called when requests are taken.
    """

    def __init__(self, service: Service, on_ready: Callable[[], object] = lambda: None):
        limits = service.limits
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=_protocol(limits.limit_seconds + _GRACE),
                ws="none",
                # setting it up closes the handlers of others, and with absl's the stream that it was made with
                log_config=None,
                log_level="error",
                server_header=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_ANSWERING,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._service = service
        self._on_ready: Callable[[], object] | None = on_ready

    async def on_tick(self, counter: int) -> bool:
        self._service.update_metrics()
        if self._on_ready is not None and self._service.state == READY:
            self._on_ready()
            self._on_ready = None
        return await super().on_tick(counter) or self._service.state == FAILED

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        last_call = time.monotonic() + _LAST_CALL
        stopping = asyncio.ensure_future(asyncio.to_thread(self._service.stop, self._service.limits.drain_seconds))
        while not self.force_exit and not (stopping.done() and time.monotonic() > last_call):
            await asyncio.sleep(_INTERVAL)
        # uvicorn would at once close connections on which a request is under way
        for server in self.servers:
            server.close()
        await asyncio.sleep(_UNDER_WAY)
        await super().shutdown(sockets)


def _protocol(seconds: float) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, which ends a connection when a request takes longer, or an answer is not fetched sooner.

    uvicorn by itself waits for ever for a request's headers and body, and for a client that does not read.
    """

    class TimedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._start_timer()
            else:
                self._stop_timer()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_timer()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _start_timer(self) -> None:
            if self._timer is None and not self.transport.is_closing():
                self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return TimedProtocol
