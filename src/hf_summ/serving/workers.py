"""Several processes that serve one socket, each with a model of its own."""

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.serving.server import available_threads, serve
from hf_summ.serving.settings import Limits

# seconds between looks at the processes, one of which that dies is replaced no more often
_INTERVAL = 0.5
# beyond the time that a worker has for its requests
_GRACE = 10.0


def serve_with_workers(
    load: Callable[[], Any],
    limits: Limits,
    listening: socket.socket,
    workers: int,
    on_ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve with several processes until SIGTERM or Ctrl-C; one that dies is replaced.

    Their metrics are summed, through files in a temporary folder.

    Args:
        load: gives the pipeline; it can be pickled, and is called in each process.
        listening: see `bind`; the processes share it.
        on_ready: called when the first of them takes requests.

    Raises:
        ValueError: a worker could not load the model, or decode with it.
    """
    with tempfile.TemporaryDirectory(prefix="hf_summ_metrics_") as folder:
        # read by prometheus_client where it is imported first, which is in the workers
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            _Workers(load, limits, listening, workers, folder).run(on_ready)
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


class _Workers:
    def __init__(self, load: Callable[[], Any], limits: Limits, listening: socket.socket, number: int, folder: str):
        # a forked copy of torch's threads would not run
        self._context = multiprocessing.get_context("spawn")
        self._problems = self._context.SimpleQueue()
        self._is_ready = self._context.Event()
        self._given = (load, limits, listening, available_threads(number), self._is_ready, self._problems)
        self._number = number
        self._listening = listening
        self._folder = folder
        self._seconds = limits.drain_seconds + _GRACE

    def run(self, on_ready: Callable[[], object]) -> None:
        # not an event: a handler that sets one may interrupt the very wait that holds its lock
        signals: list[int] = []
        handlers = {
            number: signal.signal(number, lambda number, _: signals.append(number))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        processes = [self._start() for _ in range(self._number)]
        was_ready = False
        try:
            while not signals and self._problems.empty():
                time.sleep(_INTERVAL)
                if self._is_ready.is_set() and not was_ready:
                    was_ready = True
                    on_ready()
                processes = [process if process.is_alive() else self._replaced(process) for process in processes]
        finally:
            # else clients could connect that nobody answers
            self._listening.close()
            self._end(processes)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if not self._problems.empty():
            raise ValueError(self._problems.get())

    def _start(self):
        process = self._context.Process(target=_work, args=self._given, name="worker")
        process.start()
        return process

    def _replaced(self, process):
        from prometheus_client.multiprocess import mark_process_dead

        process.join()
        if not self._problems.empty():
            return process
        print(f"hf-summ: worker {process.pid} has ended ({process.exitcode}): another takes its place", file=sys.stderr)
        mark_process_dead(process.pid, self._folder)
        return self._start()

    def _end(self, processes) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(self._seconds)
            process.kill()
            process.join()


def _work(load, limits: Limits, listening: socket.socket, threads: int | None, is_ready, problems) -> None:
    """A worker's whole life."""
    try:
        serve(load, limits, listening, threads, is_ready.set)
    except Exception as error:
        problems.put(one_line(error))
    except KeyboardInterrupt:
        # the parent says so
        pass
