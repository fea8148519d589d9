"""Command line flags declared once, as dataclass fields with their help and what they affect."""

import argparse
import copy
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

# what a flag affects; it may have several kinds
KINDS: Mapping[str, str] = {
    "data": "which texts are read, and how",
    "model": "how the model is built",
    "training": "the weights that training yields",
    "updates": "the updates of a training run: an interrupted run resumes only with the same value",
    "decoding": "the summaries that a trained model generates",
    "reporting": "where a run writes, what it reports and how fast it is: neither weights nor summaries",
    "single": "something specific to a single run, which other runs cannot share",
    "secret": "the user's identity, which must not be stored",
}


def flag(kinds: str, help: str, default: Any = None, unset: str | None = None, **settings: Any) -> Any:
    """A dataclass field that is a command line flag.

    Its metadata are `kinds`, `help` (ending with the default) and `settings`.

    Args:
        kinds: one or more of `KINDS`, separated by spaces.
        help: the flag's help, without its default.
        default: the default value; a list or a mapping is copied for each object.
        unset: the default in words, if the value is None or not self-explanatory.
        settings: other settings for `ArgumentParser.add_argument`.

    Raises:
        ValueError: no kind or an unknown one, or a default of None without `unset`.
    """
    if not kinds.split() or not set(kinds.split()) <= KINDS.keys():
        raise ValueError(f"`kinds` of the flag '{help}' is '{kinds}', but must be one or more of {', '.join(KINDS)}")
    if default is None and unset is None:
        raise ValueError(f"the flag '{help}' has no default: describe with `unset` what happens without it")
    metadata = {"kinds": frozenset(kinds.split()), "help": with_default(help, unset or default), **settings}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(help: str, default: Any) -> str:
    """A flag's help followed by its default."""
    shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else default
    return f"{help} (default: {shown})"


def add_flags(parser: argparse.ArgumentParser, declared: Any) -> None:
    """Add the flags of a dataclass whose values are strings, numbers, choices or, with `nargs`, lists of strings."""
    hints = typing.get_type_hints(declared)
    for field in dataclasses.fields(declared):
        if "help" not in field.metadata:
            continue
        hint = hints[field.name]
        members = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        (kind,) = (member for member in members if member is not types.NoneType)
        settings = {name: value for name, value in field.metadata.items() if name != "kinds"}
        if typing.get_origin(kind) is typing.Literal:
            settings["choices"] = typing.get_args(kind)
        elif kind is bool:
            settings["action"] = "store_true"
        elif "nargs" not in settings:
            settings["type"] = kind
        parser.add_argument(f"--{field.name}", default=field.default, **settings)


def names(declared: Any) -> tuple[str, ...]:
    """The names of a dataclass's flags."""
    return tuple(field.name for field in dataclasses.fields(declared) if "help" in field.metadata)
