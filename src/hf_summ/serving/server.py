"""The web server: uvicorn in one or several processes."""

import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGTERM, signal
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hf_summ.common.lazy import after_import
from hf_summ.common.messages import error_line
from hf_summ.common.processes import end_with_parent, is_running, threads_for
from hf_summ.serving.app import create_app
from hf_summ.serving.service import Service
from hf_summ.serving.settings import Limits

logger = logging.getLogger(__name__)

# more than simultaneous connection attempts; the system may allow fewer
_BACKLOG = 2048
# seconds that a connection may be idle; longer than in proxies, which could otherwise reuse a closing connection
_KEEP_ALIVE = 75
# seconds until a new worker must be ready to replace one after SIGHUP
_PATIENCE = 300
# as after other invalid input
_INVALID = 2
# the folder of the workers' metrics, before the number of the supervisor
_METRICS = "hf_summ_metrics_"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends the address to the system's message; errors of names have negative numbers
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ValueError(f"--port {port}: cannot listen on {host}: {reason}; name another port or --host") from error
    # otherwise a response on a kept connection would wait for the acknowledgement of its head; accepted sockets inherit
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(load: Callable[[], Any], limits: Limits, listening: socket.socket, workers: int = 1) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the accepted requests; a worker that dies is replaced.

    Args:
        load: returns the pipeline; picklable if there are several workers, each of which calls it.
        listening: see `bind`; its connections wait until a model is loaded.

    Raises:
        Exception: the error of `load`, or of the pipeline on its first document; of several workers, SystemExit.
        SystemExit: SIGTERM or the end of the decoding thread has ended the only worker.
    """
    _log_to_stderr()
    start = partial(_start, load, limits, threads_for(workers), url(listening))
    if workers > 1:
        for leftover in Path(tempfile.gettempdir()).glob(f"{_METRICS}*"):
            process = leftover.name.removeprefix(_METRICS).partition("_")[0]
            # of a service that was killed
            if process.isdecimal() and not is_running(int(process)):
                shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{_METRICS}{os.getpid()}_") as folder:
            # the metrics of the workers are summed over files; prometheus_client reads the name on import
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            config = server_config(partial(_create_worker_app, start), limits, factory=True, workers=workers)
            supervisor = _Supervisor(config, [listening])
            supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            sys.exit(_INVALID)
        return
    service = start()
    # uvicorn raises the signal again after its shutdown
    signal(SIGTERM, lambda *_: sys.exit(service.problem is not None))
    uvicorn.Server(server_config(create_app(service), limits)).run([listening])


def server_config(app: Callable, limits: Limits, **settings: Any) -> uvicorn.Config:
    """The configuration of a server."""
    return uvicorn.Config(
        app,
        # httptools loses the bodies of requests that ask for HTTP/2, as Java's clients do
        http="h11",
        ws="none",
        # configuring logging closes other handlers; absl's would close its stream as well
        log_config=None,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=round(limits.drain_seconds),
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_worker_healthcheck=_PATIENCE,
        **settings,
    )


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, without its pings, which workers do not answer while they import libraries."""

    def keep_subprocess_alive(self) -> None:
        for index, process in enumerate(self.processes):
            if process.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
            elif process.exitcode is not None:
                logger.warning(f"worker {process.pid} has exited ({process.exitcode}): a new one replaces it")
                mark_process_dead(process.pid)
                self.processes[index] = Process(self.config, self.sockets)
                self.processes[index].start()

    def terminate_all(self) -> None:
        # otherwise clients could connect and get no answer
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


def _create_worker_app(start: Callable[[], Service]) -> FastAPI:
    """The application of one of several workers, which ends with its supervisor."""
    _log_to_stderr()
    end_with_parent()
    try:
        return create_app(start())
    except Exception as error:
        print(f"hf-summ: error: {error_line(error)}", file=sys.stderr)
        # with this status, the supervisor does not replace it
        sys.exit(STARTUP_FAILURE)


def _start(load: Callable[[], Any], limits: Limits, threads: int | None, address: str) -> Service:
    """The started service of this process."""
    # transformers and the pipeline, which have separate loggers, would warn for every document
    after_import({"transformers.utils.logging": _silence})
    logging.getLogger("hf_summ").setLevel(logging.ERROR)
    service = Service(load, limits, threads).start()
    print(f"hf-summ: ready: {address}", file=sys.stderr, flush=True)
    return service


def _silence(library: Any) -> None:
    """Let transformers neither warn nor, without a terminal, show progress bars."""
    library.set_verbosity_error()
    if not sys.stderr.isatty():
        library.disable_progress_bar()


def _log_to_stderr() -> None:
    """Log requests, and what happens to the server, with the time and the number of the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("hf-summ: %(asctime)s [%(process)d] %(message)s"))
    for name in ("uvicorn", "hf_summ.serving", "asyncio"):
        group = logging.getLogger(name)
        group.handlers[:], group.propagate = [handler], False
    logging.getLogger("uvicorn").setLevel(logging.INFO)
    logging.getLogger("asyncio").addFilter(_OncePerSecond())


class _OncePerSecond(logging.Filter):
    """Passes one record a second: asyncio logs thousands if there are too many connections to accept another."""

    _due = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if is_due := record.created >= self._due:
            self._due = record.created + 1
        return is_due
