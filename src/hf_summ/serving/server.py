"""The web server: uvicorn in one process or several, with time limits for clients and an end that loses no request."""

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
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
from hf_summ.serving.door import log
from hf_summ.serving.requests import unavailable
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
# between signs to a client that sends no more, which make known whether it still reads
_PROBING = 0.5
# seconds that a client is asked to wait while no worker is ready
_RESTARTING = 5.0
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
    log.setLevel(logging.INFO)
    # a line on standard error, and nowhere else
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("hf-summ: %(asctime)s %(message)s"))
    log.propagate, log.handlers[:] = False, [handler]
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
        ready: set[Worker] = set()
        try:
            with _stand_in(limits, listening):
                _watch(pool, folder, ready, lambda: signals or ready)
            if ready:
                on_ready()
            while not signals:
                _watch(pool, folder, ready, lambda: signals or not ready)
                with _stand_in(limits, listening):
                    _watch(pool, folder, ready, lambda: signals or ready)
        finally:
            # otherwise clients could connect and get no answer
            listening.close()


def _watch(pool: Pool, folder: str, ready: set[Worker], is_over: Callable[[], object]) -> None:
    """Keep account of the workers that are ready, and replace those that end, until something is so."""
    while not is_over():
        for worker in pool.wait_ready(_WORKER_INTERVAL):
            kind, value = worker.recv()
            if kind == "failed":
                raise ValueError(value)
            if kind == "ended":
                ready.discard(worker)
                _replace(pool, worker, folder)
            else:
                ready.add(worker)


@contextmanager
def _stand_in(limits: Limits, listening: socket.socket) -> Generator[None]:
    """Within, this process answers too: that it is alive, and to come back later."""

    async def answer(scope, receive, send) -> None:
        from starlette.responses import PlainTextResponse

        later = unavailable("no worker is ready: try again later", _RESTARTING)
        response = PlainTextResponse("alive\n") if scope["path"] == "/health" else later.response()
        await response(scope, receive, send)

    server = uvicorn.Server(_config(answer, limits, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening.dup()],))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


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
        super().__init__(_config(create_app(service), service.limits))
        self._service = service
        self._on_ready: Callable[[], object] | None = on_ready

    async def on_tick(self, counter: int) -> bool:
        self._service.update_metrics()
        if self._on_ready is not None and self._service.state == READY:
            self._on_ready()
            self._on_ready = None
        return await super().on_tick(counter) or self._service.state == FAILED

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info(f"ending: {self._service.unfinished} requests are unfinished")
        last_call = time.monotonic() + _LAST_CALL
        stopping = asyncio.ensure_future(asyncio.to_thread(self._service.stop, self._service.limits.drain_seconds))
        while not self.force_exit and not (stopping.done() and time.monotonic() > last_call):
            await asyncio.sleep(_INTERVAL)
        # uvicorn would at once close connections on which a request is under way
        for server in self.servers:
            server.close()
        await asyncio.sleep(_UNDER_WAY)
        await super().shutdown(sockets)


def _config(app, limits: Limits, **settings: Any) -> uvicorn.Config:
    """The configuration of a server."""
    return uvicorn.Config(
        app,
        http=_protocol(limits.limit_seconds + _GRACE),
        ws="none",
        # setting it up closes the handlers of others, and with absl's the stream that it was made with
        log_config=None,
        log_level="error",
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_ANSWERING,
        timeout_keep_alive=_KEEP_ALIVE,
        **settings,
    )


def _protocol(seconds: float) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, which ends a connection when a request takes longer, or an answer is not fetched sooner.

    uvicorn by itself waits for ever for a request's headers and body, and for a client that does not read. It closes
    the connection of a client that sends no more, which may still wait for its answer.
    """

    class TimedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _sends_no_more = False

        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._start_timer()
            else:
                self._stop_timer()

        def eof_received(self) -> bool:
            if not self._is_answering() or self.cycle.more_body:
                return False
            if not self._sends_no_more:
                self._sends_no_more = True
                self._probe()
            return True

        def send_400_response(self, msg: str) -> None:
            if self._is_answering():
                # the application would answer once more
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._sends_no_more and not self._is_answering():
                self.transport.close()

        def _is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _probe(self) -> None:
            # to a client that has gone, the second of these fails; HTTP/1.0 knows none
            if self.conn.our_state is h11.SEND_RESPONSE and self.conn.their_http_version == b"1.1":
                self.transport.write(self.conn.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            if self._is_answering() and not self.transport.is_closing():
                self.loop.call_later(_PROBING, self._probe)

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
