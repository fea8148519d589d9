"""Forms of messages to users: a single line, an unknown choice, a suggestion, a progress bar; panics and warnings."""

import difflib
import logging
import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from huggingface_hub.utils import tqdm

# seconds before a bar is shown, so that quick steps show none
_PATIENCE = 3.0
# flags of transformers 4's script -> ours
_REPLACED = {
    "max_length": "max_new_tokens",
    "min_length": "min_new_tokens",
    "forced_bos_token": "target_lang",
    "group_by_length": "train_sampling_strategy",
    "no_cuda": "use_cpu",
    "overwrite_output_dir": "resume_from_checkpoint",
    "use_auth_token": "token",
}
# a quoted value, without apostrophes in words, or a word that is longer than errors show
_LONG_WORD = re.compile(r"""(?<!\w)'[^']{80,}'(?!\w)|(?<!\w)"[^"]{80,}"(?!\w)|\S{256,}""")


def one_line(message: object) -> str:
    """A text or an error's message with every run of whitespace replaced by a single space."""
    return " ".join(str(message).split())


def error_line(error: object, tokens: Iterable[str] = ()) -> str:
    """An error as a single line of at most 1,000 characters, with 80 of a quoted value or of an endless word.

    Args:
        tokens: the command line; a token of more than 255 characters is shortened to 80.
    """
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        # the folder of a draft, whose name is ours; names have at most 255 bytes
        path = os.path.dirname(error.filename) if error.filename.endswith(".part") else error.filename
        error = f"{one_line(path):.255}: {error.strerror[:1].lower()}{error.strerror[1:]}: name another path"
    line = one_line(error)
    for value in map(one_line, tokens):
        value = value.partition("=")[2] if value.startswith("--") else value
        if len(value) > 255:
            line = line.replace(value, f"{value:.80}…")
    return f"{_LONG_WORD.sub(lambda match: f'{match[0]:.80}…', line):.1000}"


def print_note(message: object) -> None:
    """Print a command's note to standard error, with the settings in backticks as flags."""
    line = re.sub("`([a-z_]+)`", r"--\1", one_line(message))
    print(f"hf-summ: {line}", file=sys.stderr)


def brief(value: object) -> str:
    """A user's value for a message: a single line of at most 80 characters."""
    return f"{one_line(value):.80}"


def unknown_choice(setting: str, value: object, choices: Iterable[object]) -> str:
    """The message for a value that is not one of the choices, with the choices and a suggestion.

    Args:
        setting: its name in messages, such as "`splitter`" in backticks or `--metrics`.
    """
    names = list(map(str, choices))
    value = brief(value)
    start = f"{setting} {value}:" if setting.startswith("--") else f"{setting} is '{value}', but"
    return f"{start} must be one of {', '.join(names)}{nearest(str(value), names)}"


def check_choice(setting: str, value: object, choices: Iterable[object]) -> None:
    """Raise a ValueError with the message of `unknown_choice` unless `value` is one of the choices."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(unknown_choice(setting, value, choices))


def unknown_flag(unknown: Sequence[str], flags: Iterable[str]) -> str:
    """The message for unknown flags or stray values on a command line, with the most similar flag."""
    flag = next((token for token in unknown if token.startswith("--")), None)
    if flag is None:
        # a shell replaces patterns by the names of files
        hint = "; put a pattern of files in quotes, as in 'train-*.jsonl'" if os.path.exists(unknown[0]) else ""
        return f"{brief(' '.join(unknown))}: does not belong to a flag{hint}"
    flag, *_ = flag.split("=")
    name = flag[2:].replace("-", "_")
    return f"unknown flag {brief(flag)}{nearest(_REPLACED.get(name, name), flags, prefix='--')}"


def nearest(name: str, names: Iterable[object], prefix: str = "", cutoff: float = 0.5) -> str:
    """`; did you mean X?`, or an empty string if none of `names` is similar; case is ignored.

    Args:
        prefix: text before the name, such as `--` before a flag.
        cutoff: how similar a name must be, from 0 to 1; see `difflib.get_close_matches`.
    """
    spelled = {other.lower(): other for other in map(str, names)}
    matches = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=cutoff)
    return f"; did you mean {prefix}{spelled[matches[0]]}?" if matches else ""


def progress_bar(steps: Iterable | None, title: str, total: int | None = None, **settings: Any) -> "tqdm":
    """A bar over `steps`, or one to update manually, that appears after three seconds and disappears at the end.

    `huggingface_hub.utils.disable_progress_bars` disables it along with those of the libraries.

    Args:
        total: number of steps, if `steps` has no length.
        settings: settings of tqdm, such as `unit` and `disable`.
    """
    # imported here: commands need messages when they start, but not bars
    from huggingface_hub.utils import tqdm

    return tqdm(steps, desc=title, total=total, delay=_PATIENCE, leave=False, **settings)


def delay_bars() -> None:
    """From now on, transformers' bars of weights appear and disappear as those of `progress_bar`."""
    from transformers.utils.logging import set_tqdm_hook

    set_tqdm_hook(lambda bar, args, settings: bar(*args, **{"delay": _PATIENCE, "leave": False, **settings}))


@contextmanager
def panics_as_errors() -> Generator[None]:
    """Within, a panic of a library in Rust, such as tokenizers, is a ValueError: PyO3's own is no Exception."""
    try:
        yield
    except BaseException as error:
        # each library has a class of its own
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"a library in Rust, probably the tokenizer, panicked: {one_line(error):.255}") from error


@contextmanager
def no_warnings(summarizer: Any) -> Generator[None]:
    """Silence the pipeline's warnings about truncated or unusual documents, which its caller reports."""
    # the logger of all modules beside the one that reads documents
    logger = logging.getLogger(type(summarizer).read.__module__.rpartition(".")[0])
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
