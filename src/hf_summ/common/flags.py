"""Command line flags declared once, as dataclass fields: help, default, effects, range and conditions."""

import argparse
import copy
import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

# what a flag affects, often several of these
EFFECTS: Mapping[str, str] = {
    "data": "which texts are read, and how",
    "model": "how the model is built",
    "training": "the weights that training yields",
    "updates": "the updates of a training run and which of its weights are kept: it resumes only with the same value",
    "decoding": "the summaries that a trained model generates",
    "reporting": "where a run writes, what it reports and how fast it is: neither weights nor summaries",
    "single": "something specific to a single run, which other runs cannot share",
    "secret": "the user's identity, which must not be stored",
}
# the values of flags that are switched off
_OFF = (None, False, "no", "none", -1)


@dataclasses.dataclass(frozen=True)
class Flag:
    """What is declared of a flag besides its name, type and help.

    A condition is the name of a flag, which must then be set, or `name=value`.

    Args:
        effects: one or more of `EFFECTS`, separated by spaces.
        range: the allowed numbers besides the default, such as a `Range` of `hf_summ.models.checks`.
        needs: conditions, one of which must hold for the flag to have an effect.
        unless: conditions under each of which the flag has no effect.
    """

    effects: str = "training"
    range: Any = None
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    default: Any = None


def flag(
    effects: str,
    help: str,
    default: Any = None,
    unset: str | None = None,
    range: Any = None,
    needs: tuple[str, ...] = (),
    unless: tuple[str, ...] = (),
    **settings: Any,
) -> Any:
    """A dataclass field that is a command line flag.

    Its metadata are `flag`, a `Flag`, `help`, which ends with the default unless the flag is required, and `settings`.

    Args:
        effects, range, needs, unless: as for `Flag`.
        help: the flag's help, without its default.
        default: the default value; a list or a mapping is copied for each object.
        unset: the default in words, if the value is None or not self-explanatory.
        settings: other settings for `ArgumentParser.add_argument`.
    """
    help = help if settings.get("required") else with_default(help, unset or default)
    metadata = {"flag": Flag(effects, range, needs, unless, default), "help": help, **settings}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(help: str, default: Any) -> str:
    """A flag's help followed by its default."""
    return f"{help} (default: {' '.join(map(str, default)) if isinstance(default, list | tuple) else default})"


def add_flags(parser: Any, declared: Any) -> None:
    """Add the flags of a dataclass to a parser: strings, numbers, booleans, choices and, with `nargs`, lists.

    In the help of a parser, but not of a group, they are a group, whose title is the purpose of the dataclass.
    """
    if isinstance(parser, argparse.ArgumentParser):
        purpose = (declared.__doc__ or "").partition("\n")[0]
        parser = parser.add_argument_group(re.split("[.;]", purpose)[0])
    hints = typing.get_type_hints(declared)
    for field in dataclasses.fields(declared):
        if "flag" not in field.metadata:
            continue
        settings = {"default": field.metadata["flag"].default, **field.metadata}
        del settings["flag"]
        value_type = without_none(hints[field.name])
        if typing.get_origin(value_type) is typing.Literal:
            settings["choices"] = typing.get_args(value_type)
        elif value_type is bool:
            settings["action"] = argparse.BooleanOptionalAction if field.default is None else "store_true"
        elif typing.get_origin(value_type) is None:
            settings["type"] = value_type
        parser.add_argument(f"--{field.name}", **settings)


def without_none(hint: Any) -> Any:
    """The type of a value that may also be None."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return next(member for member in members if member is not types.NoneType)


def flags_in(*declared: Any) -> dict[str, Flag]:
    """The flags of dataclasses by name."""
    fields = (field for group in declared for field in dataclasses.fields(group))
    return {field.name: field.metadata["flag"] for field in fields if "flag" in field.metadata}


def names(declared: Any) -> tuple[str, ...]:
    """The names of a dataclass's flags."""
    return tuple(flags_in(declared))


def values_of(arguments: argparse.Namespace, declared: Any) -> dict[str, Any]:
    """The values that a command line has for a dataclass's flags."""
    return {name: getattr(arguments, name) for name in names(declared)}


def check_flags(arguments: argparse.Namespace, flags: Mapping[str, Flag]) -> None:
    """Check a command's flags, of which it may lack some."""
    values = {name: getattr(arguments, name, flag.default) for name, flag in flags.items()}
    settings = {name: value for name, value in values.items() if value != flags[name].default}
    check_ranges(settings, flags)
    for problem in without_effect(settings, flags).values():
        raise ValueError(problem)


def check_ranges(settings: Mapping[str, Any], flags: Mapping[str, Flag]) -> None:
    """Raise a ValueError for a number that is neither the default of its flag nor in its range."""
    for name, value in settings.items():
        flag = flags[name]
        if flag.range is not None and value != flag.default and (problem := flag.range.problem(value)):
            raise ValueError(f"{_shown(name, value)}: must be {problem}")


def without_effect(
    settings: Mapping[str, Any], flags: Mapping[str, Flag], hint: str = "omit one of them"
) -> dict[str, str]:
    """The flags that have no effect beside the others, each with a message.

    Args:
        hint: what to do about a flag that another replaces; `{unset}` is the other at its default.
    """
    values = {**{name: flag.default for name, flag in flags.items()}, **settings}
    problems = {}
    for name, value in settings.items():
        needs, unless = flags[name].needs, flags[name].unless
        other = next((condition.split("=")[0] for condition in unless if _holds(condition, settings)), None)
        if value in _OFF:
            # it needs no other
            continue
        if needs and not any(_holds(condition, values) for condition in needs):
            needed = " or ".join(f"--{condition}".replace("=", " ") for condition in needs)
            problems[name] = f"{_shown(name, value)}: needs {needed}"
        elif other is not None:
            unset = True if settings[other] is False else flags[other].default
            remedy = hint.format(unset=_shown(other, "null" if unset is None else unset))
            problems[name] = f"{_shown(name, value)}: has no effect beside {_shown(other, settings[other])}: {remedy}"
    return problems


def _holds(condition: str, values: Mapping[str, Any]) -> bool:
    name, _, expected = condition.partition("=")
    value = values.get(name)
    items = value if isinstance(value, list) else [value]
    return any(str(item) == expected if expected else item not in _OFF for item in items)


def _shown(name: str, value: Any) -> str:
    """A flag as on a command line."""
    if value is True:
        return f"--{name}"
    return f"--{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
