"""`hf-summ serve`: serve a model over HTTP, with a page."""

import argparse
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec

from hf_summ.cli.summarizers import (
    add_decoding_flags,
    add_model_flags,
    add_runtime_flag,
    check_flags,
    decoding_settings,
    find_model,
    load_summarizer,
)
from hf_summ.common.flags import add_flags, names
from hf_summ.serving.settings import Limits

_LARGEST_PORT = 65535


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "serve",
        description="Serve a model over HTTP in the schema of Hugging Face's inference clients, with a page to paste a "
        "text into. Unset parameters of requests fall back to the decoding flags.",
    )
    add_model_flags(parser)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="Port, or 0 for any free one (default: 8000)")
    parser.add_argument(
        "--workers", type=int, default=1, help="Number of processes, each with its own model (default: 1)"
    )
    add_runtime_flag(parser)
    add_flags(parser, Limits)
    add_decoding_flags(parser)
    parser.set_defaults(run=run, interrupted="accepted requests were answered")


def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        ValueError: a number is too small, the device does not exist, the port is not available, or the model cannot be
            loaded.
        ImportError: the extra is not installed.
    """
    check_flags(arguments, workers=1, port=0)
    if arguments.port > _LARGEST_PORT:
        raise ValueError(f"--port {arguments.port}: must be at most {_LARGEST_PORT}")
    if arguments.host == "localhost" or arguments.host.startswith(("127.", "::1")):
        arguments.allowed_hosts = arguments.allowed_hosts or "localhost"
    limits = Limits(**{name: getattr(arguments, name) for name in names(Limits)})
    _check_extra()
    find_model(arguments)

    from hf_summ.common.processes import threads_for
    from hf_summ.serving.middleware import read_key
    from hf_summ.serving.server import bind, serve, serve_with_workers, url

    read_key(limits.api_key_file)
    listening = bind(arguments.host, arguments.port)
    address = url(listening)
    _print_note(f"listening on {address}; loading {arguments.model}")
    # workers need the flags, not the command
    given = argparse.Namespace(**{name: value for name, value in vars(arguments).items() if name != "run"})
    load = partial(load_summarizer, given, **decoding_settings(arguments))
    on_ready = partial(_print_note, f"ready: {address}")
    if arguments.workers > 1:
        serve_with_workers(load, limits, listening, arguments.workers, on_ready)
    else:
        with _ended_well_by_sigterm():
            serve(load, limits, listening, threads_for(1), on_ready)


@contextmanager
def _ended_well_by_sigterm() -> Generator[None]:
    """Within, SIGTERM exits with status 0: uvicorn raises the signal again after its shutdown."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_extra() -> None:
    for name in ("prometheus_client", "rdflib", "starlette", "uvicorn"):
        if find_spec(name) is None:
            raise ImportError(f"`hf-summ serve` needs {name}: pip install 'hf-summ[serve]'")


def _print_note(message: str) -> None:
    print(f"hf-summ: {message}", file=sys.stderr, flush=True)
