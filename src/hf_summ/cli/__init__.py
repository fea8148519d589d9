"""`hf-summ`: the package's command line, with one file per command."""

import argparse
import logging
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from hf_summ import __version__
from hf_summ.common.messages import one_line, print_note, unknown_flag
from hf_summ.common.processes import INTERRUPTED

__all__ = ["main"]

# only the given command's file is imported, as the libraries of others load slowly
COMMANDS = {
    "summarize": "Summarize text files, or the rows of corpora",
    "extract": "Extractive summaries, without a model",
    "serve": "Serve a model over HTTP",
    "explain": "Make a page that shows where a summary's words came from",
    "data": "Report what a corpus contains, what looks wrong in it, and how to fix it",
    "prepare": "Convert a public corpus's files to rows, and check their number",
    "vocabulary": "Fit a vocabulary to your corpus and write a processor folder",
    "key-phrases": "Fit key phrases to your corpus and write a processor folder",
    "idf": "Count the documents of your corpus in which each word occurs",
    "export": "Export a checkpoint to ONNX Runtime",
    "convert": "Convert a MASS checkpoint to transformers",
    "train": "Train, evaluate and predict from a configuration",
    "average": "Average the weights of checkpoints",
    "compare-lms": "Compare language models as judges of text",
    "evaluate": "Score predictions against references",
    "compare": "Show the summaries of several systems side by side",
    "votes": "Make blind voting sheets, and count the votes",
    "table": "Reproduce a table of one of the papers",
    "completion": "Print a script with which a shell completes commands and flags",
}
# flags that name what a command writes
_OUTPUTS = ("output", "output_dir", "scores", "key", "json")
# commands that set up logging themselves
_LOGGING = ("train", "table")
_INVALID = 2
# as for `INTERRUPTED`, of SIGPIPE
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`.

    Returns:
        0 on success, 1 if a run or a row of a table failed, 2 for invalid input, 130 after Ctrl-C, 141 if the output
        pipe is closed, as by `| head`.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] == ["help"]:
        # of a command, or of all
        argv = [*argv[1:], "--help"]
    command = argv[0] if argv else None
    arguments = argparse.Namespace()
    try:
        parser = _parser(command)
        if command is None:
            parser.print_help()
            return 0
        _, unknown = parser.parse_known_args(argv, arguments)
        arguments.more = unknown
        _check_outputs(arguments)
        if command in _LOGGING:
            status = arguments.run(arguments)
        else:
            with _notes_on_data():
                status = arguments.run(arguments)
        print(end="", flush=True)
        return status or 0
    except BrokenPipeError:
        # otherwise Python would flush again at exit, and print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        hint = getattr(arguments, "interrupted", "rerun the command to start over")
        # on a new line, below the progress bar
        print(f"\nhf-summ: interrupted: {hint}", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError) as error:
        # settings are spelled as flags
        flags = {f"`{name}`": f"--{name}" for name in vars(arguments)}
        line = re.sub(r"`\w+`", lambda name: flags.get(name[0], name[0]), one_line(error))
        print(f"hf-summ: error: {line}", file=sys.stderr)
        return _INVALID


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of the command line: with the flags of the command, or with the names of all commands."""
    parser, commands = empty_parser()
    if command in COMMANDS:
        module_of(command).add_parser(commands)
        return parser
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    return parser


def module_of(command: str) -> Any:
    """The module of a command, which has its parser and runs it."""
    return import_module(f"hf_summ.cli.{command.replace('-', '_')}")


def empty_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser of the command line, and its action to which commands are added."""
    parser = _Parser("hf-summ", description="Abstractive summarization: train, compare, summarize.")
    parser.add_argument("--version", action="version", version=f"hf-summ {__version__}")
    return parser, parser.add_subparsers(metavar="COMMAND")


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise a ValueError if an output is named by a URL."""
    # imported here: it takes time, which the version and the help do not need
    from hf_summ.common.files import check_is_local

    for name in _OUTPUTS:
        output = getattr(arguments, name, None)
        if isinstance(output, str):
            check_is_local(f"--{name}", output)


class _Notes(logging.Handler):
    """Prints what is logged as notes of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def _notes_on_data() -> Generator[None]:
    """Within, the choices made when reading a corpus, such as its columns, are printed."""
    logger, notes = logging.getLogger("hf_summ.data"), _Notes()
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


class _Parser(argparse.ArgumentParser):
    """A parser, also of each command, whose errors are one line; it suggests the most similar flag."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings, allow_abbrev=False)

    def parse_known_args(self, args=None, namespace=None):
        """As in argparse, but only commands whose defaults include `more` accept unknown arguments."""
        arguments, more = super().parse_known_args(args, namespace)
        if more and not hasattr(arguments, "more"):
            flags = re.findall(r"--(\w+)", self.format_usage())
            self.error(unknown_flag(more, flags))
        return arguments, more

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with status 2."""
        self.exit(_INVALID, f"{self.prog}: error: {one_line(message)} (see {self.prog} --help)\n")
