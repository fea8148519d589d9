"""The command line, `hf-summ`: each command has a file in this package."""

import argparse
import logging
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from hf_summ import __version__
from hf_summ.common.messages import logged_from, one_line, print_note, unknown_flag
from hf_summ.common.processes import INTERRUPTED, end_on_sigterm, open_missing_streams

__all__ = ["main"]

# The commands and their purposes. A command's file is imported only when the command is given, because some commands
# need libraries that load slowly.
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
# The flags that name a file or a folder that a command writes.
_OUTPUT_FLAGS = ("output", "output_dir", "scores", "key", "json")
# The commands that set up logging themselves.
_COMMANDS_WITH_LOGGING = ("train", "table")
# The exit status for invalid input.
_INVALID = 2
# The exit status that a shell reports of a command that SIGPIPE ended: 128 plus the signal's number.
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`.

    Returns:
        0 on success, 1 if a run or a row of a table failed, 2 for invalid input, 130 after Ctrl-C, 141 if the output
        pipe is closed, as by `| head`.

    Raises:
        SystemExit: the command line is wrong, or asks for the help or the version, or SIGTERM ends the command.
    """
    open_missing_streams()
    if argv is None:
        argv = sys.argv[1:]
    argv = list(argv)
    if argv[:1] == ["help"]:
        # `hf-summ help COMMAND` is `hf-summ COMMAND --help`, and `hf-summ help` is `hf-summ --help`.
        argv = argv[1:] + ["--help"]
    # The namespace is made here, because the handlers of errors read it.
    arguments = argparse.Namespace()
    try:
        return _run(argv, arguments)
    except BrokenPipeError:
        # At its exit, Python flushes standard output again. It would print an error if the output were still the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        hint = getattr(arguments, "interrupted", "rerun the command to start over")
        # The message is on a new line, below the progress bar.
        print(f"\nhf-summ: interrupted: {hint}", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = _with_flags(one_line(error), list(vars(arguments)))
        print(f"hf-summ: error: {message}", file=sys.stderr)
        return _INVALID


def _run(argv: list[str], arguments: argparse.Namespace) -> int:
    """Parse a command line into `arguments`, run its command, and return the exit status."""
    if not argv:
        _parser_for(None).print_help()
        return 0
    command = argv[0]
    # The parser refuses unknown arguments itself, unless the command passes them on to the training recipe.
    _, unknown_arguments = _parser_for(command).parse_known_args(argv, arguments)
    arguments.more = unknown_arguments
    _check_outputs(arguments)
    if command != "serve":
        # Temporary files are then removed and training runs of a table end, as after Ctrl-C. A server drains instead.
        end_on_sigterm()
    if command in _COMMANDS_WITH_LOGGING:
        status = arguments.run(arguments)
    else:
        with _notes_on_data():
            status = arguments.run(arguments)
    # Flushing raises BrokenPipeError here, and not at Python's exit, if the output pipe is closed.
    print(end="", flush=True)
    # A command that can only succeed, or raise an error, returns None.
    return status or 0


def _with_flags(message: str, settings: Sequence[str]) -> str:
    """The message with flags in place of settings in backticks. "`num_beams`" becomes "--num_beams", for example.

    Args:
        message: the message of an error.
        settings: the names of the command's settings; other texts in backticks stay.
    """
    for name in settings:
        message = message.replace(f"`{name}`", f"--{name}")
    return message


def _parser_for(command: str | None) -> argparse.ArgumentParser:
    """The parser of the command line.

    Args:
        command: the command whose flags the parser has. For None, or for an unknown command, the parser has the names
            and purposes of all commands, without their flags.
    """
    parser, commands = empty_parser()
    if command in COMMANDS:
        module_of(command).add_parser(commands)
        return parser
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    return parser


def module_of(command: str) -> ModuleType:
    """The module of a command: its `add_parser` adds the command's parser, whose default `run` runs the command."""
    return import_module(f"hf_summ.cli.{command.replace('-', '_')}")


def empty_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser of the command line without commands, and argparse's action to which commands are added.

    The action's type is private to argparse.
    """
    parser = _Parser("hf-summ", description="Abstractive summarization: train, compare, summarize.")
    parser.add_argument("--version", action="version", version=f"hf-summ {__version__}")
    return parser, parser.add_subparsers(metavar="COMMAND")


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise a ValueError if the name of an output is a URL."""
    # The version and the help do not need this module, whose import takes time.
    from hf_summ.common.files import check_is_local

    for name in _OUTPUT_FLAGS:
        output = getattr(arguments, name, None)
        if isinstance(output, str):
            check_is_local(f"--{name}", output)


class _NoteHandler(logging.Handler):
    """Prints log records as notes of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def _notes_on_data() -> Generator[None]:
    """A context in which log messages of `hf_summ.data` are printed as notes, such as which columns were chosen."""
    logger = logging.getLogger("hf_summ.data")
    handler = _NoteHandler()
    logger.addHandler(handler)
    try:
        # This sets the logger's level for the time of the context. By default, messages below WARNING are dropped.
        with logged_from(logger.name, logging.INFO):
            yield
    finally:
        logger.removeHandler(handler)


class _Parser(argparse.ArgumentParser):
    """The parser of the command line, or of a command: its errors are one line, and suggest the most similar flag."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings, allow_abbrev=False)

    def parse_known_args(self, args=None, namespace=None):
        """Parse as argparse does, and refuse unknown arguments.

        A command that passes unknown arguments on, as `table` does, has a default for `more`. The parsers of commands
        are of this class too, so that each of them refuses its unknown arguments.
        """
        arguments, unknown_arguments = super().parse_known_args(args, namespace)
        if unknown_arguments and not hasattr(arguments, "more"):
            flags = re.findall(r"--(\w+)", self.format_usage())
            self.error(unknown_flag(unknown_arguments, flags))
        return arguments, unknown_arguments

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with status 2."""
        self.exit(_INVALID, f"{self.prog}: error: {one_line(message)} (see {self.prog} --help)\n")
