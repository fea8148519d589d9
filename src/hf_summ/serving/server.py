"""The web server: uvicorn in one or several processes."""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hf_summ.common.messages import one_line
from hf_summ.common.processes import threads_for
from hf_summ.serving.app import create_app
from hf_summ.serving.service import Service
from hf_summ.serving.settings import Limits

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer

# The seconds for which a connection may be idle. They are more than in proxies, which could otherwise reuse a
# connection that is being closed.
_KEEP_ALIVE = 75
# The seconds within which a worker must answer its supervisor. The import of a library may take some of them.
_HEALTH_CHECK = 20
# The seconds after which a worker that could not start is started again.
_START_AGAIN = 60
# The exit status of a command whose input is invalid.
_INVALID = 2


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on an address.

    Raises:
        ValueError: the address cannot be used, for example because another program uses the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror
        # Python appends the address to the message of a system's error, so the message is looked up again. An error of
        # a host's name has a negative number, which has no such message, and no address.
        if error.errno and error.errno > 0:
            reason = os.strerror(error.errno)
        raise ValueError(f"--port {port}: cannot listen on {host}: {reason}; name another port or --host") from error
    # Without this, a response on a kept connection would wait for the acknowledgement of its head. Sockets of accepted
    # connections inherit the option.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    address = listening.getsockname()
    # The address of a socket for IPv6 has four parts.
    host, port = address[0], address[1]
    if ":" in host:
        return f"http://[{host}]:{port}"
    return f"http://{host}:{port}"


def serve(load: Callable[[], "DocumentSummarizer"], limits: Limits, listening: socket.socket, workers: int = 1) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the accepted requests; a worker that dies is replaced.

    Args:
        load: returns the pipeline; picklable if there are several workers, each of which calls it.
        limits: limits of requests and batches.
        listening: the socket, see `bind`. Its connections wait until a model is loaded.
        workers: number of processes.

    Raises:
        Exception: the error of `load`, or of the pipeline on its first document, if there is one worker. Several
            workers print their errors instead.
        SystemExit: a worker could not start while no other worker was ready, if there are several workers.
    """
    create_service = partial(_create_service, load, limits, threads_for(workers), url(listening))
    if workers == 1:
        app = create_app(create_service())
        uvicorn.Server(server_config(app, limits)).run([listening])
        return
    config = server_config(partial(_create_worker_app, create_service), limits, factory=True, workers=workers)
    supervisor = _Supervisor(config, [listening])
    supervisor.run()
    if supervisor.has_failed:
        sys.exit(_INVALID)


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, which replaces dead workers, and lets the others go on if a replacement cannot start.

    Attributes:
        has_failed: whether a worker could not start while no other worker was ready.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]):
        super().__init__(config, sockets)
        self.has_failed = False
        self._next_start = 0.0

    def keep_subprocess_alive(self) -> None:
        """Replace dead workers.

        If a worker could not start while another worker is ready, the next attempt is made later. If no worker is
        ready, the service ends.
        """
        for process in list(self.processes):
            if self.should_exit.is_set():
                return
            if process.is_alive(self.config.timeout_worker_healthcheck):
                continue
            # A worker that does not answer is still running.
            process.kill()
            process.join()
            self.processes.remove(process)
            if process.exitcode == STARTUP_FAILURE:
                self._defer_or_end()
        waits = self.processes and time.monotonic() < self._next_start
        if self.should_exit.is_set() or waits:
            return
        while len(self.processes) < self.processes_num:
            process = Process(self.config, self.sockets)
            process.start()
            self.processes.append(process)

    def _defer_or_end(self) -> None:
        """Set the time of the next attempt after a worker could not start, or end if no other worker answers."""
        ready = sum(process.is_ready() for process in self.processes)
        if not ready:
            self.has_failed = True
            self.should_exit.set()
            return
        self._next_start = time.monotonic() + _START_AGAIN
        message = f"{ready} of {self.processes_num} workers answer; the next attempt is in {_START_AGAIN} seconds"
        print(f"hf-summ: {message}", file=sys.stderr, flush=True)


def server_config(app: Callable, limits: Limits, **settings: Any) -> uvicorn.Config:
    """The configuration of a server.

    Args:
        app: the application, or with `factory=True` a function that returns it.
        limits: limits of the service.
        settings: further settings of uvicorn.
    """
    return uvicorn.Config(
        app,
        # httptools loses the bodies of requests that ask for HTTP/2, as clients in Java do.
        http="h11",
        # With another value, an error at startup would become an error of each request.
        lifespan="on",
        timeout_graceful_shutdown=round(limits.drain_seconds),
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_worker_healthcheck=_HEALTH_CHECK,
        **settings,
    )


def _create_worker_app(create_service: Callable[[], Service]) -> FastAPI:
    """The application of one of several workers.

    If the service cannot be created, the error is printed, and the process ends.

    Args:
        create_service: creates the service of this process.
    """
    try:
        return create_app(create_service())
    except Exception as error:
        print(f"hf-summ: error: {one_line(error)}", file=sys.stderr)
        # With this status, the supervisor does not replace the worker at once.
        sys.exit(STARTUP_FAILURE)


def _create_service(
    load: Callable[[], "DocumentSummarizer"], limits: Limits, threads: int | None, address: str
) -> Service:
    """Create the service of this process, wait until it accepts requests, and print that it is ready.

    Args:
        load: returns the pipeline.
        limits: limits of requests and batches.
        threads: number of torch's threads; torch chooses it if None.
        address: the URL of the service, for the message that it is ready.

    Raises:
        Exception: the error of `load`, or of the pipeline on its first document.
    """
    service = Service(load, limits, threads).start()
    # transformers and this package have separate loggers, and both would warn of every document. Exported graphs run
    # without transformers, whose import takes seconds. So transformers is not imported here if `load` has not done so.
    if "transformers" in sys.modules:
        from transformers.utils.logging import set_verbosity_error

        set_verbosity_error()
    logging.getLogger("hf_summ").setLevel(logging.ERROR)
    print(f"hf-summ: ready: {address}", file=sys.stderr, flush=True)
    return service
