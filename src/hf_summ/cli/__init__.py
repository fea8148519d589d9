"""`hf-summ`: the package's command line, one command a file."""

import argparse
import sys

from hf_summ import __version__
from hf_summ.cli import average, compare_lms, evaluate, summarize, table, vocabulary
from hf_summ.common.messages import one_line

__all__ = ["main"]

_COMMANDS = (summarize, vocabulary, average, compare_lms, evaluate, table)


def main(argv: list[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`; 0 when it went well, 2 when something given to it cannot work."""
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
        arguments.run(arguments)
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"hf-summ: error: {one_line(error)}", file=sys.stderr)
        return 2
    return 0
