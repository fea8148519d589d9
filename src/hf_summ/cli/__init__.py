"""`hf-summ`: the package's command line, one command a file."""

import argparse
import os
import sys

from hf_summ import __version__
from hf_summ.cli import average, compare_lms, evaluate, summarize, table, train, vocabulary
from hf_summ.common.messages import one_line

__all__ = ["main"]

_COMMANDS = (summarize, vocabulary, train, average, compare_lms, evaluate, table)
# as the shell reports what was ended by these signals: 128 and their number
_INTERRUPTED, _NOBODY_READS = 130, 141


def main(argv: list[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`.

    Returns:
        0 when it went well, 2 when something given to it cannot work; 130 after Ctrl-C, and 141 when what it printed
        was no longer read, as by `| head`.
    """
    try:
        try:
            return _run(argv)
        finally:
            # what is still held back may meet a closed pipe as well
            sys.stdout.flush()
    except BrokenPipeError:
        # Python would try once more at its end, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS
    except KeyboardInterrupt:
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
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"hf-summ: error: {one_line(error)}", file=sys.stderr)
        return 2
