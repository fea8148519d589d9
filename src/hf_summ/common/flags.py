"""Flags that are declared once: fields of dataclasses, each with its help and with what it decides."""

import argparse
import copy
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

# what a flag decides; it may be of several kinds
KINDS: Mapping[str, str] = {
    "data": "which texts are read, and how",
    "model": "what the model is made of",
    "training": "what its weights become",
    "decoding": "which summaries a trained model gives",
    "reporting": "where a run writes, what it tells and how fast it is: neither weights nor summaries",
    "single": "something of one run alone, which others cannot share",
    "secret": "who is asking, which must not be written down",
}


def flag(kinds: str, help: str, default: Any = None, unset: str | None = None, **settings: Any) -> Any:
    """A field of a dataclass that is a flag of a command line.

    Its metadata are `kinds`, `help` (which ends with the default) and `settings`.

    Args:
        kinds: of `KINDS`, with a space between them.
        help: what it is, without its default.
        default: a list or a mapping is copied for each object.
        unset: what happens without it, in words, for a default that does not say so itself.
        settings: further ones of `ArgumentParser.add_argument`.

    Raises:
        ValueError: no kind or one that does not exist, or a default of None without `unset`.
    """
    if not kinds.split() or not set(kinds.split()) <= KINDS.keys():
        raise ValueError(f"the flag '{help}' is of the kinds '{kinds}': name one or more of {', '.join(KINDS)}")
    if default is None and unset is None:
        raise ValueError(f"the flag '{help}' has no default: say with `unset` what happens without it")
    metadata = {"kinds": frozenset(kinds.split()), "help": with_default(help, unset or default), **settings}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(help: str, default: Any) -> str:
    """A flag's help with its default at the end."""
    shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else default
    return f"{help} (default: {shown})"


def add_flags(parser: argparse.ArgumentParser, declared: Any) -> None:
    """Adds the flags of a dataclass whose values are texts and numbers."""
    hints = typing.get_type_hints(declared)
    for field in dataclasses.fields(declared):
        (kind,) = (member for member in typing.get_args(hints[field.name]) if member is not types.NoneType)
        parser.add_argument(f"--{field.name}", type=kind, default=field.default, help=field.metadata["help"])


def names(declared: Any) -> tuple[str, ...]:
    """The names of a dataclass's flags."""
    return tuple(field.name for field in dataclasses.fields(declared))
