"""Messages to users: notes and errors of one line, unknown names, progress bars, and warnings."""

import difflib
import logging
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub.utils import tqdm

# A bar is shown after so many seconds. Quick steps show none.
_PATIENCE = 3.0
# Settings of transformers' pipeline, and the flags that replace them.
_REPLACED = {"max_length": "max_new_tokens", "min_length": "min_new_tokens"}


def one_line(message: object) -> str:
    """A text or an error's message with every run of whitespace replaced by a single space."""
    return " ".join(str(message).split())


def print_note(message: object) -> None:
    """Print a command's note to standard error, with the settings in backticks as flags."""
    line = re.sub("`([a-z_]+)`", r"--\1", one_line(message))
    print(f"hf-summ: {line}", file=sys.stderr)


def distinct(notes: Iterable[str]) -> list[str]:
    """The notes in their order, each once.

    Several columns of a file may have the same note, for example on the tags in their texts.
    """
    distinct_notes = []
    for note in notes:
        if note not in distinct_notes:
            distinct_notes.append(note)
    return distinct_notes


def unknown_choice(setting: str, value: object, choices: Iterable[object]) -> str:
    """The message for a value that is not one of the choices.

    Args:
        setting: its name in messages, such as "`method`" in backticks or `--metrics`.
    """
    listed_choices = ", ".join([str(choice) for choice in choices])
    if setting.startswith("--"):
        return f"{setting} {value}: must be one of {listed_choices}"
    return f"{setting} is '{value}', but must be one of {listed_choices}"


def check_choice(setting: str, value: object, choices: Iterable[object]) -> None:
    """Raise a ValueError with the message of `unknown_choice` unless `value` is one of the choices."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(unknown_choice(setting, value, choices))


def unknown_flag(unknown: Sequence[str], flags: Iterable[str]) -> str:
    """The message for unknown flags or stray values on a command line, with the most similar flag."""
    unknown_flags = [token for token in unknown if token.startswith("--")]
    if not unknown_flags:
        return f"{' '.join(unknown)}: does not belong to a flag"
    flag = unknown_flags[0].partition("=")[0]
    name = flag.removeprefix("--").replace("-", "_")
    name = _REPLACED.get(name, name)
    suggestion = nearest(name, flags, prefix="--")
    return f"unknown flag {flag}{suggestion}"


def nearest(name: str, names: Iterable[object], prefix: str = "", cutoff: float = 0.5) -> str:
    """`; did you mean X?`, or an empty string if none of `names` is similar; case is ignored.

    Args:
        prefix: text before the name, such as `--` before a flag.
        cutoff: how similar a name must be, from 0 to 1; see `difflib.get_close_matches`.
    """
    spellings = {}
    for candidate in names:
        spelling = str(candidate)
        spellings[spelling.lower()] = spelling
    matches = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=cutoff)
    if not matches:
        return ""
    return f"; did you mean {prefix}{spellings[matches[0]]}?"


def progress_bar(steps: Iterable | None, title: str, total: int | None = None, **settings) -> "tqdm":
    """A bar over `steps`, or one to update manually, that appears after three seconds and disappears at the end.

    `huggingface_hub.utils.disable_progress_bars` disables it along with those of the libraries.

    Args:
        total: number of steps, if `steps` has no length.
        settings: settings of tqdm, such as `unit` and `disable`.
    """
    # Commands need messages when they start, but not bars, whose import takes time.
    from huggingface_hub.utils import tqdm

    return tqdm(steps, desc=title, total=total, delay=_PATIENCE, leave=False, **settings)


@contextmanager
def logged_from(name: str, least_level: int) -> Generator[None]:
    """Within, the logger of this name passes records from a level of `logging` on."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(least_level)
    try:
        yield
    finally:
        logger.setLevel(level)


def no_warnings(read: MethodType) -> AbstractContextManager[None]:
    """In this context, silence what a summarizer logs about documents below errors; the caller reports it instead.

    Args:
        read: the summarizer's method `read`, which reads documents.
    """
    # The logger of the package that defines the method silences all modules of the package.
    package = read.__module__.rpartition(".")[0]
    return logged_from(package, logging.ERROR)
