"""Sorts the outcomes of hostile inputs into sensible, clear, deep, held, ignored and wrong.

A test of a door returns if the result is sensible, and raises `Clear` if the package or a library below it refuses the
input by an error. `Deep` (the end of the process, or an error that `except Exception` does not catch), `Held` and
`Ignored` fail it; any other failed assertion means that the result is wrong.
"""

import functools
import json
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import event, given, settings
from hypothesis.strategies import SearchStrategy

from hf_summ import cli

# examples of a test by hypothesis' profile, see tests/conftest.py
EXAMPLES = {"portable": 4, "thorough": 25, "torture": 300}
# CPU seconds that a call may take
SECONDS = 20
# the last line that argparse prints before it exits
_USAGE_ERROR = re.compile(r"hf-summ.*: error: \S.*")
# the number of examples of the running test that had each outcome
outcomes = Counter[str]()


class Clear(Exception):
    """The input was refused by an error."""


class Deep(AssertionError):
    """The process would have ended, or an error is no `Exception`."""


class Held(AssertionError):
    """An endless loop."""


class Ignored(AssertionError):
    """A setting is accepted without an effect."""


class _TooLong(BaseException):
    """The time of a call is over; `except Exception` does not catch it."""


def door(**strategies: SearchStrategy) -> Callable[[Callable], Callable]:
    """A test of each drawn input, which must be sensible or clear."""

    def decorate(test: Callable) -> Callable:
        @settings(max_examples=EXAMPLES[settings.get_current_profile_name()])
        @given(**strategies)
        @functools.wraps(test)
        def example(**drawn: Any) -> None:
            torch.manual_seed(0)
            outcome = "sensible"
            try:
                test(**drawn)
            except Clear:
                outcome = "clear"
            event(outcome)
            outcomes[outcome] += 1

        return example

    return decorate


def tried(call: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The result of a call.

    Raises:
        Clear: an error; or exit status 2 after a line of argparse.
        Deep: any other exit, or an error that is no `Exception`.
        Held: more than this many CPU seconds, which do not depend on the machine's load.
    """
    printed = StringIO()

    def stop(*_):
        raise _TooLong

    previous_handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except _TooLong as error:
        raise Held(f"more than {seconds:g} s of computing") from error
    except SystemExit as error:
        lines = printed.getvalue().strip().splitlines()
        last_line = lines[-1] if lines else ""
        is_usage_error = error.code == 2 and _USAGE_ERROR.fullmatch(last_line) is not None
        outcome = Clear if is_usage_error else Deep
        raise outcome(f"exit {error.code}: {last_line}") from error
    except KeyboardInterrupt:
        raise
    except Exception as error:
        raise Clear(f"{type(error).__name__}: {error}") from error
    except BaseException as error:
        raise Deep(f"{type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous_handler)


def is_line(message: str) -> bool:
    """Whether a message is one line and short enough to read."""
    return 0 < len(message) <= 2000 and "\n" not in message.strip()


def command(*argv: object) -> None:
    """Run `hf-summ` in this process; its error is raised instead of reported."""
    reported = []
    one_line = cli.one_line

    def report(error: object) -> str:
        # argparse's errors are texts, and end in SystemExit
        if isinstance(error, BaseException):
            reported.append(error)
        return one_line(error)

    with mock.patch.object(cli, "one_line", report), mock.patch.object(sys, "stdin", TextIOWrapper(BytesIO())):
        status = cli.main([str(argument) for argument in argv])
    if reported:
        raise reported[0]
    assert status == 0, f"exit status {status} without an error"


@contextmanager
def unchanged(*paths: Path) -> Iterator[None]:
    """Fails if a file, or a file in a folder, differs afterwards, or if a half-written one is left beside it."""
    before = _contents(paths)
    try:
        yield
    finally:
        after = _contents(paths)
        changed = [path.name for path in before | after if before.get(path) != after.get(path)]
        for path in paths:
            changed.extend(part.name for part in path.parent.rglob("*.part"))
        assert not changed, changed


def _contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """The bytes of the files, and of the files in the folders."""
    contents = {}
    for path in paths:
        files = [path] if path.is_file() else path.rglob("*")
        for file in files:
            if file.is_file():
                contents[file] = file.read_bytes()
    return contents


def check_scores(values: Iterable[float | None], least: float = 0.0, most: float = 100.0) -> None:
    """Check that scores are within bounds, up to rounding; a score that cannot be computed is None."""
    for value in values:
        # NaN is within no bounds
        if value is not None:
            assert least - 1e-6 <= value <= most + 1e-6, value


def without_space(text: str) -> str:
    """The visible characters of a text."""
    return "".join(text.split())


def strict_json(content: str | bytes) -> Any:
    """The value of a JSON text; NaN fails, because not every program reads it."""
    return json.loads(content, parse_constant=pytest.fail)
