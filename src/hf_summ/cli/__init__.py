"""`hf-summ`: the package's command line, with one file per command."""

import argparse
import codecs
import io
import logging
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import NoReturn

from hf_summ import __version__
from hf_summ.common.messages import brief, error_line, nearest, print_note, unknown_choice, unknown_flag
from hf_summ.common.processes import INTERRUPTED, TERMINATED

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
}
# commands that set up logging themselves
_LOGGING = (["train"], ["table"])
_INVALID = 2
# as for `INTERRUPTED`, of SIGPIPE
_BROKEN_PIPE = 141
# commands whose result is what they print, unless they write it to --output
_PRINTING = ("summarize", "extract", "evaluate", "compare-lms")


def main(argv: list[str] | None = None) -> int:
    """Run `hf-summ COMMAND ...`.

    Returns:
        0 on success, 2 for invalid input, 130 after Ctrl-C, 141 if the output pipe is closed, as by `| head`, and 143
        after SIGTERM, if the command handles it.
    """
    is_closed, lost = _open_streams(), _replace_letters()
    try:
        try:
            status = _run(argv, is_closed)
        finally:
            # flushing the buffer may raise BrokenPipeError as well
            sys.stdout.flush()
    except BrokenPipeError:
        # otherwise Python would flush again at exit, and print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        # on a new line, below the progress bar
        print("\nhf-summ: interrupted: rerun the command to start over", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        print(f"hf-summ: error: standard output: {error_line(error.strerror)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _INVALID
    if lost:
        print(
            f"hf-summ: {sum(lost)} letters that {sys.stdout.encoding} lacks became ?: set PYTHONIOENCODING=utf-8",
            file=sys.stderr,
        )
    return status


def _replace_letters() -> list[int]:
    """From now on, standard output replaces letters that its encoding lacks; the list gets their numbers."""
    lost: list[int] = []

    def replace(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        lost.append(error.end - error.start)
        return "?" * lost[-1], error.end

    codecs.register_error("hf_summ.replace", replace)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="hf_summ.replace")
    return lost


def _open_streams() -> bool:
    """Open the null device for each closed standard stream, whose number the next file would get.

    Returns:
        Whether standard output is closed, as by `>&-`.
    """
    is_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    return is_closed


def _run(argv: list[str] | None, is_closed: bool) -> int:
    parser = _Parser("hf-summ", description="Abstractive summarization: train, compare, summarize.")
    parser.add_argument("--version", action="version", version=f"hf-summ {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] and argv[0] in COMMANDS:
        import_module(f"hf_summ.cli.{argv[0].replace('-', '_')}").add_parser(commands)
    else:
        for name, purpose in COMMANDS.items():
            commands.add_parser(name, help=purpose)
    arguments, more = parser.parse_known_args(argv)
    if not argv:
        parser.print_help()
        return 0
    arguments.more = more
    try:
        if is_closed and argv[:1] and argv[0] in _PRINTING and getattr(arguments, "output", None) is None:
            raise ValueError("standard output is closed: open it, or write to a file by --output if the command has it")
        with nullcontext() if argv[:1] in _LOGGING else _notes_on_data():
            return arguments.run(arguments) or 0
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, SystemExit) as error:
        status = getattr(error, "code", INTERRUPTED)
        if status not in (INTERRUPTED, TERMINATED) or not hasattr(arguments, "interrupted"):
            raise
        print(f"\nhf-summ: interrupted: {arguments.interrupted}", file=sys.stderr)
        return status
    except (ValueError, TypeError, OSError, ImportError) as error:
        # settings are spelled as flags
        flags = {f"`{name}`": f"--{name}" for name in vars(arguments)}
        line = re.sub(r"`\w+`", lambda name: flags.get(name[0], name[0]), error_line(error, argv))
        print(f"hf-summ: error: {line}", file=sys.stderr)
        return _INVALID


class _Notes(logging.Handler):
    """Prints what is logged as notes of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def _notes_on_data() -> Generator[None]:
    """Within, what reading a corpus takes for granted is told."""
    logger, notes = logging.getLogger("hf_summ.data"), _Notes()
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


class _Help(argparse.HelpFormatter):
    """Help whose usage line has only what is required: the help lists all flags below."""

    def add_usage(self, usage, actions, groups, prefix=None):
        """As in argparse, with `[options]` for the flags that may be omitted."""
        options = argparse.Action([], "options", metavar="[options]")
        needed = [action for action in actions if action.required or not action.option_strings]
        super().add_usage(usage, [options, *needed], [], prefix)


class _Parser(argparse.ArgumentParser):
    """A parser, also of each command, that takes `--output-dir` for `--output_dir`, and has errors of one line.

    It expands `~` in `--output=~/summaries`. Errors suggest the most similar command, flag or choice.
    """

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings, allow_abbrev=False)

    def parse_known_args(self, args=None, namespace=None):
        """As in argparse, but only commands whose defaults include `more` accept unknown arguments."""
        flags = re.findall(r"--([\w-]+)", self.format_usage())
        spelled = []
        for argument in args or ():
            name, *value = argument.split("=", 1)
            flag = name.removeprefix("--").replace("-", "_")
            if name.startswith("--"):
                # shells expand a leading ~ of an argument alone
                argument = "=".join([f"--{flag}" if flag in flags else name, *map(os.path.expanduser, value)])
            spelled.append(argument)
        arguments, more = super().parse_known_args(spelled, namespace)
        if more and not hasattr(arguments, "more"):
            self.error(unknown_flag(more, flags))
        return arguments, more

    def format_help(self) -> str:
        """As in argparse, with a usage of one line."""
        usual, self.formatter_class = self.formatter_class, _Help
        try:
            return super().format_help()
        finally:
            self.formatter_class = usual

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with status 2."""
        if choice := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            flag, value, choices = choice[1], choice[2], re.findall(r"[\w-]+", choice[3])
            message = unknown_choice(flag, value, choices)
            if not flag.startswith("-"):
                message = f"unknown command {brief(value)}{nearest(value, choices)}"
        hint = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(_INVALID, f"{self.prog}: error: {error_line(message)}{hint}\n")
