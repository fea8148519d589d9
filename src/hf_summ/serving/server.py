"""The web server: uvicorn in one or several processes, with client timeouts and a shutdown that loses no request."""

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
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hf_summ.common.processes import Pool, Worker, threads_for
from hf_summ.serving.app import create_app
from hf_summ.serving.middleware import log
from hf_summ.serving.requests import unavailable
from hf_summ.serving.service import FAILED, LOADING, READY, Service
from hf_summ.serving.settings import Limits

# more than simultaneous connection attempts; the system may allow fewer
_BACKLOG = 2048
# seconds that a connection may be idle; longer than in proxies, which could otherwise reuse a closing connection
_KEEP_ALIVE = 75
# seconds for which a stopping server still responds that it is stopping
_LAST_CALL = 1.0
# seconds to wait for requests that were sent before the socket was closed
_UNDER_WAY = 0.3
_INTERVAL = 0.05
# seconds to send the remaining responses after decoding has ended
_ANSWERING = 5
# seconds beyond a request's time limit: a client that sends too much or too slowly receives a response first
_GRACE = 5.0
# seconds beyond a worker's drain time
_WORKER_GRACE = 10.0
# seconds between probes that check whether a half-closed client still reads
_PROBING = 0.5
# `Retry-After` while no worker is ready
_RESTARTING = 5.0
# seconds between polls of signals, and minimum seconds between replacements of workers
_WORKER_INTERVAL = 0.5


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ValueError: the port is in use, or the address does not exist on this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends the address to the system's message
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error
        raise ValueError(f"--port {port}: cannot listen on {host}: {reason}; name another port or --host") from error


def url(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    load: Callable[[], Any],
    limits: Limits,
    listening: socket.socket,
    threads: int | None = None,
    on_ready: Callable[[], object] = lambda: None,
    is_worker: bool = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the accepted requests.

    Args:
        load: returns the pipeline.
        listening: see `bind`; closed at the end.
        threads: see `Service`.
        on_ready: called once requests are accepted.
        is_worker: whether other processes accept connections too: this one then does so only once the model is loaded,
            and its lines of the log have its number.

    Raises:
        Exception: the error of `load`, or of the pipeline on its first document.
    """
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    # transformers and the pipeline, which have separate loggers, would warn for every document
    set_verbosity_error()
    if not sys.stderr.isatty():
        disable_progress_bar()
    logging.getLogger("hf_summ").setLevel(logging.ERROR)
    log.setLevel(logging.INFO)
    # requests are logged to standard error only
    handler = logging.StreamHandler()
    source = "worker %(process)d: " if is_worker else ""
    handler.setFormatter(logging.Formatter(f"hf-summ: %(asctime)s {source}%(message)s"))
    log.propagate, log.handlers[:] = False, [handler]
    service = Service(load, limits, threads).start()
    while is_worker and service.state == LOADING:
        time.sleep(_INTERVAL)
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
    """Serve with several processes until SIGTERM or Ctrl-C; a process that exits is replaced.

    Their metrics are summed through files in a temporary folder.

    Args:
        load: returns the pipeline; a picklable function, called in each process.
        listening: see `bind`; shared by the processes.
        on_ready: called when the first worker accepts requests.

    Raises:
        ValueError: a worker cannot load the model or decode with it.
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
    """Track the ready workers and replace those that exit, until `is_over()`."""
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
    """Within, this process responds too: alive on `/health`, and 503 on all other paths."""

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
    print(f"hf-summ: worker {pid} has exited ({code}): a new one replaces it", file=sys.stderr)
    mark_process_dead(pid, folder)
    time.sleep(_WORKER_INTERVAL)
    pool.replace(worker)


def _serve_requests(
    connection: Connection, load: Callable[[], Any], limits: Limits, listening: socket.socket, threads: int | None
) -> None:
    serve(load, limits, listening, threads, lambda: connection.send(("ready", None)), is_worker=True)


@contextmanager
def _caught_signals() -> Generator[list[int]]:
    """The numbers of the SIGTERM and SIGINT that arrive within."""
    # not an Event: its handler could interrupt the wait that holds the Event's lock
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
    """A folder for the metrics of processes that are started within."""
    with tempfile.TemporaryDirectory(prefix="hf_summ_metrics_") as folder:
        # prometheus_client reads it on import, which happens in the workers
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield folder
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


class Server(uvicorn.Server):
    """uvicorn's server for a service; it closes its socket only after all received requests have a response.

    Args:
        service: not started yet.
        on_ready: called once requests are accepted.
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
        # uvicorn would immediately close connections whose requests are still arriving
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
        # configuring logging closes other handlers; absl's would close its stream as well
        log_config=None,
        log_level="error",
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_ANSWERING,
        timeout_keep_alive=_KEEP_ALIVE,
        **settings,
    )


def _protocol(seconds: float) -> type[H11Protocol]:
    """uvicorn's HTTP protocol with a timeout for receiving a request and for a client that does not read its response.

    uvicorn itself waits forever for headers, bodies and clients that do not read. It also closes the connection of a
    half-closed client, which may still wait for its response.
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
                # otherwise the application would respond a second time
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                # a response to HEAD has no body
                with suppress(h11.LocalProtocolError):
                    super().send_400_response(msg)
            self.transport.close()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._sends_no_more and not self._is_answering():
                self.transport.close()

        def _is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _probe(self) -> None:
            # if the client has disconnected, the second of these fails; HTTP/1.0 has no 1xx responses
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
