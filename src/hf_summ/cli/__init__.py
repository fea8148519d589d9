"""`hf-summ`: the package's command line, with one file per command."""

import argparse
import os
import sys

from hf_summ import __version__
from hf_summ.cli import (
    average,
    compare_lms,
    convert,
    evaluate,
    explain,
    idf,
    key_phrases,
    serve,
    summarize,
    table,
    train,
    vocabulary,
    votes,
)
from hf_summ.common.messages import one_line

__all__ = ["main"]

_COMMANDS = (
    *(summarize, serve, explain, vocabulary, key_phrases, idf, convert, train, average),
    *(compare_lms, evaluate, votes, table),
)
# the exit statuses with which a shell reports that these signals ended a command: 128 plus their number
_INTERRUPTED, _NOBODY_READS = 130, 141


def main(argv: list[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`.

    Returns:
        0 on success, 2 if something given to it cannot work, 130 after Ctrl-C, and 141 if its output is no longer read,
        as with `| head`.
    """
    try:
        try:
            return _run(argv)
        finally:
            # what is still buffered may meet a closed pipe as well
            sys.stdout.flush()
    except BrokenPipeError:
        # otherwise Python would flush once more at exit, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS
    except KeyboardInterrupt:
        # on a line below what is on the screen
        print("\nhf-summ: interrupted: the same command starts over", file=sys.stderr)
        return _INTERRUPTED


def _run(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser("hf-summ", description="Abstractive summarization: train, compare, summarize.")
    parser.add_argument("--version", action="version", version=f"hf-summ {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    arguments, more = parser.parse_known_args(argv)
    if more and not hasattr(arguments, "more"):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    arguments.more = more
    try:
        return arguments.run(arguments) or 0
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        if not hasattr(arguments, "interrupted"):
            raise
        print(f"\nhf-summ: interrupted: {arguments.interrupted}", file=sys.stderr)
        return _INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"hf-summ: error: {one_line(error)}", file=sys.stderr)
        return 2
