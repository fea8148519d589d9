"""`hf-summ serve`: serve a model over HTTP, with a page."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hf_summ.cli.summarizers import (
    DecodingFlags,
    ExtractionFlags,
    ModelFlags,
    RuntimeFlags,
    check_flags,
    checkpoint_identity,
    decoding_settings,
    find_model,
    load_summarizer,
)
from hf_summ.common.flags import add_flags, flag, values_of
from hf_summ.models.checks import Range
from hf_summ.serving.settings import Limits


@dataclass
class ServerFlags:
    """Where and how often the service runs."""

    host: str = flag("reporting", "Address to listen on", "127.0.0.1")
    port: int = flag("reporting", "Port, or 0 for any free one", 8000, range=Range(0, 65535))
    workers: int = flag("reporting", "Number of processes, each with its own model", 1, range=Range(1))


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "serve",
        description="Serve a model over HTTP in the schema of Hugging Face's inference clients, with a page to paste a "
        "text into. Unset parameters of requests fall back to the decoding flags.",
    )
    add_flags(parser, ModelFlags)
    for declared in (ServerFlags, RuntimeFlags, Limits, ExtractionFlags, DecodingFlags):
        add_flags(parser, declared)
    parser.set_defaults(run=run, interrupted="accepted requests were answered")


def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    check_flags(arguments, ServerFlags)
    if arguments.host == "localhost" or arguments.host.startswith(("127.", "::1")):
        arguments.allowed_hosts = arguments.allowed_hosts or "localhost,127.0.0.1,[::1]"
    limits = Limits(**values_of(arguments, Limits))
    try:
        from hf_summ.serving.app import read_key
        from hf_summ.serving.server import bind, serve, url
    except ModuleNotFoundError as error:
        raise ImportError(f"`hf-summ serve` needs {error.name}: pip install 'hf-summ[serve]'") from error
    find_model(arguments)
    read_key(limits.api_key_file)
    listening = bind(arguments.host, arguments.port)
    print(f"hf-summ: listening on {url(listening)}; loading {arguments.model}", file=sys.stderr, flush=True)
    # workers need the flags, not the command
    del arguments.run
    load = partial(load_summarizer, arguments, **decoding_settings(arguments))
    if arguments.workers > 1:
        load = partial(_load_unchanged, load, arguments, checkpoint_identity(arguments))
    serve(load, limits, listening, arguments.workers)


def _load_unchanged(load: Callable[[], Any], arguments: argparse.Namespace, identity: dict[str, Any]) -> Any:
    """The pipeline of one of several workers, all of which have the same model.

    Raises:
        ValueError: the checkpoint is no longer that of this identity, so that a worker that replaces one would answer
            by another model.
    """
    summarizer = load()
    # after loading: what changes before is noticed
    if checkpoint_identity(arguments) != identity:
        raise ValueError(f"--model {arguments.model}: has changed since the service began: start the service again")
    return summarizer
