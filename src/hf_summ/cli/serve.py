"""`hf-summ serve`: serve a model over HTTP, with a page."""

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer


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
    add_flags(parser, ServerFlags)
    add_flags(parser, RuntimeFlags)
    add_flags(parser, Limits)
    add_flags(parser, ExtractionFlags)
    add_flags(parser, DecodingFlags)
    parser.set_defaults(run=run, interrupted="accepted requests were answered")


@dataclass(frozen=True)
class _Loader:
    """Loads the service's model when it is called. It is sent to the worker processes.

    Args:
        arguments: the command's flags.
        identity: with several workers, the identity of the checkpoint when the service began. All workers must have the
            same model, also one that later replaces a dead one.
    """

    arguments: argparse.Namespace
    identity: dict[str, object] | None = None

    def __call__(self) -> "DocumentSummarizer":
        """Load the model.

        Raises:
            ValueError: it cannot be loaded, or the checkpoint has changed since the service began.
        """
        summarizer = load_summarizer(self.arguments, **decoding_settings(self.arguments))
        # The identity is compared after loading, so that a change during loading is noticed too.
        if self.identity is not None and checkpoint_identity(self.arguments) != self.identity:
            raise ValueError(
                f"--model {self.arguments.model}: has changed since the service began: start the service again"
            )
        return summarizer


def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        ValueError: wrong flags, or the model cannot be loaded.
        ImportError: a library of the service is not installed.
    """
    check_flags(arguments, ServerFlags)
    is_local = arguments.host == "localhost" or arguments.host.startswith(("127.", "::1"))
    if is_local and not arguments.allowed_hosts:
        arguments.allowed_hosts = "localhost,127.0.0.1,[::1]"
    limits = Limits(**values_of(arguments, Limits))
    try:
        from hf_summ.serving.app import read_key
        from hf_summ.serving.server import bind, serve, url
    except ModuleNotFoundError as error:
        raise ImportError(f"`hf-summ serve` needs {error.name}: pip install 'hf-summ[serve]'") from error
    find_model(arguments)
    # An unreadable key is reported before the model is loaded, which takes longer.
    read_key(limits.api_key_file)
    listening_socket = bind(arguments.host, arguments.port)
    address = url(listening_socket)
    print(f"hf-summ: listening on {address}; loading {arguments.model}", file=sys.stderr, flush=True)
    # The arguments are sent to the workers, which do not run the command.
    del arguments.run
    identity = None
    if arguments.workers > 1:
        identity = checkpoint_identity(arguments)
    serve(_Loader(arguments, identity), limits, listening_socket, arguments.workers)
