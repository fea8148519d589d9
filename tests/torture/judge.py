"""Sorts the outcomes of hostile inputs into sensible, clear, deep, held, ignored and wrong."""

import dis
import enum
import re
import signal
import warnings
from collections.abc import Collection, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import hf_summ
from tests.torture.cases import Case, Held, Ignored, Refused

# CPU seconds that a case may take
SECONDS = 20
_PACKAGE = Path(hf_summ.__file__).parent
# types of error that hf_summ raises by design
_DESIGNED = (ValueError, TypeError, OSError, ImportError, NotImplementedError)
_LONGEST_MESSAGE = 2000
# transformers' checks of generation settings: they guard `generate()`, a function of transformers. An error counts as
# clear only if its message names one of the case's settings.
_DOORS = (
    "transformers/generation/configuration_utils.py",
    "transformers/generation/logits_process.py",
    "transformers/generation/stopping_criteria.py",
    "transformers/generation/utils.py",
)
# the last line that argparse prints before it exits
_USAGE_ERROR = re.compile(r"hf-summ.*: error: \S.*")


class Verdict(enum.StrEnum):
    """The kind of a case's outcome."""

    # a result that passes the area's checks
    SENSIBLE = enum.auto()
    # an error raised where the value enters that says in one line what to do
    CLEAR = enum.auto()
    # any other error, or the end of the process
    DEEP = enum.auto()
    # an endless loop, work that others wait for, or work that continues for no client
    HELD = enum.auto()
    # a setting that is accepted without an effect
    IGNORED = enum.auto()
    # a silently bad result, or changed files
    WRONG = enum.auto()


class Outcome(NamedTuple):
    """A verdict, and a line that describes the outcome."""

    verdict: Verdict
    told: str

    @property
    def is_bad(self) -> bool:
        """Whether this is a fault of the package."""
        return self.verdict not in (Verdict.SENSIBLE, Verdict.CLEAR)


class _TooLong(BaseException):
    """The case's time is over; `except Exception` does not catch it."""


def judge(case: Case, seconds: float = SECONDS) -> Outcome:
    """Try the case and sort its outcome."""
    printed = StringIO()
    try:
        with _limited(seconds), _quiet(printed):
            result = case.attempt()
    except _TooLong as error:
        outcome = Outcome(Verdict.HELD, f"more than {seconds:g} s of computing, at {_place(_frames(error)[-2:])}")
    except SystemExit as error:
        outcome = _of_exit(error, printed.getvalue())
    except KeyboardInterrupt:
        raise
    except Refused as refusal:
        outcome = Outcome(Verdict.CLEAR if _is_line(str(refusal)) else Verdict.DEEP, str(refusal))
    except BaseException as error:
        outcome = of_error(error, case.named)
    else:
        outcome = _of_result(case, result)
    left = case.after()
    return outcome if left is None else Outcome(Verdict.WRONG, f"{left} (after {outcome.verdict}: {outcome.told})")


def of_error(error: BaseException, named: Collection[str] = ()) -> Outcome:
    """Clear or deep.

    An error is clear if a `raise` of hf_summ raised it, its type is meant for users, and its message is one line. An
    error of transformers is clear if it names the user's setting.

    Args:
        named: names of the user's settings.
    """
    frames = _frames(error)
    message = str(error)
    told = f"{type(error).__name__}: {' '.join(message.split())[:300]}, at {_place(frames)}"
    innermost = frames[-1] if frames else None
    if innermost is None or not isinstance(error, _DESIGNED) or not _is_raised(innermost):
        return Outcome(Verdict.DEEP, told)
    file = innermost.tb_frame.f_code.co_filename
    if Path(file).is_relative_to(_PACKAGE):
        return Outcome(Verdict.CLEAR if _is_line(message) else Verdict.DEEP, told)
    is_named = any(re.search(rf"\b{re.escape(name)}\b", message) for name in named)
    return Outcome(Verdict.CLEAR if file.endswith(_DOORS) and is_named else Verdict.DEEP, told)


def _is_line(message: str) -> bool:
    """Whether a message is one line and short enough to read."""
    return 0 < len(message) <= _LONGEST_MESSAGE and "\n" not in message.strip()


def _of_exit(error: SystemExit, printed: str) -> Outcome:
    last = (printed.strip().splitlines() or [""])[-1]
    is_clear = error.code == 2 and _USAGE_ERROR.fullmatch(last) is not None
    return Outcome(Verdict.CLEAR if is_clear else Verdict.DEEP, f"exit {error.code}: {last[:300]}")


def _of_result(case: Case, result: object) -> Outcome:
    try:
        problem = case.problem(result)
    except Exception as error:
        problem = f"the result cannot be checked: {type(error).__name__}: {error}"
    if problem is not None:
        kinds = {Held: Verdict.HELD, Ignored: Verdict.IGNORED}
        return Outcome(kinds.get(type(problem), Verdict.WRONG), problem)
    return Outcome(Verdict.SENSIBLE, f"{result!r:.200}")


def _frames(error: BaseException) -> list[TracebackType]:
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _is_raised(innermost: TracebackType) -> bool:
    """Whether a `raise` raised the error, rather than a function written in C or Python itself."""
    code = innermost.tb_frame.f_code.co_code
    return dis.opname[code[innermost.tb_lasti]] == "RAISE_VARARGS"


def _place(frames: list[TracebackType]) -> str:
    """The innermost frame, and the frame of hf_summ that led to it."""
    if not frames:
        return "no frame"
    shown = [frames[-1]]
    ours = [frame for frame in frames if Path(frame.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE)]
    if ours and ours[-1] is not frames[-1]:
        shown.insert(0, ours[-1])
    return " > ".join(f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" for frame in shown)


@contextmanager
def _limited(seconds: float) -> Generator[None]:
    """Raise `_TooLong` after this many CPU seconds of this process, which do not depend on the machine's load."""

    def stop(*_):
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _quiet(printed: StringIO) -> Generator[None]:
    """A context that sends output to `printed` and ignores warnings."""
    with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
