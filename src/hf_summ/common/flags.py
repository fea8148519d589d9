"""Command line flags declared once, as dataclass fields: help, default, effects, range and conditions."""

import argparse
import copy
import dataclasses
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# What flags affect. A flag often has several of these effects.
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
# The values of flags that are switched off.
_OFF = (None, False, "no", "none", -1)


class NumberRange(Protocol):
    """The numbers that a flag allows, such as a `Range` of `hf_summ.models.checks`."""

    def problem(self, number: Any) -> str | None:
        """The bound that a number violates; None for numbers in the range."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """What is declared of a flag besides its name, type and help.

    A condition is the name of a flag, which must then be set, or `name=value`.

    Args:
        effects: one or more of `EFFECTS`, separated by spaces.
        range: the allowed numbers besides the default.
        needs: conditions, one of which must hold for the flag to have an effect.
        unless: conditions under each of which the flag has no effect.
    """

    effects: str = "training"
    range: NumberRange | None = None
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    default: object = None


def flag(
    effects: str,
    help: str,
    default: object = None,
    unset: str | None = None,
    range: NumberRange | None = None,
    needs: tuple[str, ...] = (),
    unless: tuple[str, ...] = (),
    **settings: object,
) -> Any:
    """A dataclass field that is a command line flag.

    Its metadata are `flag`, a `Flag`, `help`, which ends with the default unless the flag is required, and `settings`.

    Args:
        effects, range, needs, unless: as for `Flag`.
        help: the flag's help, without its default.
        default: the default value; a list or a mapping is copied for each object.
        unset: the default in words, if the value is None or not self-explanatory.
        settings: further settings for `ArgumentParser.add_argument`.
    """
    if not settings.get("required"):
        help = with_default(help, unset or default)
    metadata = {"flag": Flag(effects, range, needs, unless, default), "help": help, **settings}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(help: str, default: object) -> str:
    """A flag's help followed by its default."""
    if isinstance(default, list | tuple):
        default = _spaced(default)
    return f"{help} (default: {default})"


def _spaced(values: Sequence[object]) -> str:
    """Several values of a flag as on a command line."""
    return " ".join([str(value) for value in values])


def add_flags(parser: Any, declared: "type[DataclassInstance]") -> None:
    """Add the flags of a dataclass to a parser: strings, numbers, booleans, choices and, with `nargs`, lists.

    Args:
        parser: a parser, or a group of a parser's arguments; argparse has no public type for both. A parser gets the
            flags as a new group, whose title is the first sentence of the dataclass's docstring.
        declared: the dataclass.
    """
    if isinstance(parser, argparse.ArgumentParser):
        purpose = (declared.__doc__ or "").partition("\n")[0]
        parser = parser.add_argument_group(re.split("[.;]", purpose)[0])
    hints = typing.get_type_hints(declared)
    for field in dataclasses.fields(declared):
        if "flag" not in field.metadata:
            continue
        settings = dict(field.metadata)
        declaration = settings.pop("flag")
        settings.setdefault("default", declaration.default)
        value_type = without_none(hints[field.name])
        if typing.get_origin(value_type) is typing.Literal:
            settings["choices"] = typing.get_args(value_type)
        elif value_type is bool:
            # A boolean without a default can also be switched off, by `--no-NAME`.
            settings["action"] = argparse.BooleanOptionalAction if field.default is None else "store_true"
        elif typing.get_origin(value_type) is None:
            settings["type"] = value_type
        parser.add_argument(f"--{field.name}", **settings)


def without_none(hint: object) -> object:
    """The type of a value that may also be None."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        for member in typing.get_args(hint):
            if member is not types.NoneType:
                return member
    return hint


def flags_in(*declared: "type[DataclassInstance]") -> dict[str, Flag]:
    """The flags of dataclasses by name."""
    flags = {}
    for group in declared:
        for field in dataclasses.fields(group):
            if "flag" in field.metadata:
                flags[field.name] = field.metadata["flag"]
    return flags


def names(declared: "type[DataclassInstance]") -> tuple[str, ...]:
    """The names of a dataclass's flags."""
    return tuple(flags_in(declared))


def given_settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """The settings whose values are not None: None stands for a flag that is not given."""
    return {name: value for name, value in settings.items() if value is not None}


def values_of(arguments: argparse.Namespace, declared: "type[DataclassInstance]") -> dict[str, Any]:
    """The values that a command line has for a dataclass's flags."""
    return {name: getattr(arguments, name) for name in names(declared)}


def check_flags(arguments: argparse.Namespace, flags: Mapping[str, Flag]) -> None:
    """Check a command's flags, of which it may lack some."""
    settings = {}
    for name, declaration in flags.items():
        value = getattr(arguments, name, declaration.default)
        if value != declaration.default:
            settings[name] = value
    check_ranges(settings, flags)
    problems = list(without_effect(settings, flags).values())
    if problems:
        raise ValueError(problems[0])


def check_ranges(settings: Mapping[str, object], flags: Mapping[str, Flag]) -> None:
    """Raise a ValueError for a number that is neither the default of its flag nor in its range."""
    for name, value in settings.items():
        declaration = flags[name]
        if declaration.range is None or value == declaration.default:
            continue
        problem = declaration.range.problem(value)
        if problem:
            raise ValueError(f"{_shown(name, value)}: must be {problem}")


def without_effect(
    settings: Mapping[str, object], flags: Mapping[str, Flag], hint: str = "omit one of them"
) -> dict[str, str]:
    """The flags that have no effect beside the others, each with a message.

    Args:
        settings: the values of the flags that are set.
        hint: what to do about a flag that another replaces; `{unset}` is the other at its default.
    """
    values = {}
    for name, declaration in flags.items():
        values[name] = settings.get(name, declaration.default)
    problems = {}
    for name, value in settings.items():
        # A flag that is switched off needs no other.
        if value in _OFF:
            continue
        needs = flags[name].needs
        replacing_condition = _first_holding(flags[name].unless, settings)
        if needs and _first_holding(needs, values) is None:
            needed = " or ".join([f"--{condition}".replace("=", " ") for condition in needs])
            problems[name] = f"{_shown(name, value)}: needs {needed}"
        elif replacing_condition is not None:
            replacing = replacing_condition.partition("=")[0]
            replacing_value = settings[replacing]
            unset = True if replacing_value is False else flags[replacing].default
            if unset is None:
                unset = "null"
            remedy = hint.format(unset=_shown(replacing, unset))
            problems[name] = (
                f"{_shown(name, value)}: has no effect beside {_shown(replacing, replacing_value)}: {remedy}"
            )
    return problems


def _first_holding(conditions: Sequence[str], values: Mapping[str, object]) -> str | None:
    """The first of the conditions that holds, or None."""
    for condition in conditions:
        if _holds(condition, values):
            return condition
    return None


def _holds(condition: str, values: Mapping[str, object]) -> bool:
    """Whether a condition holds, for a list of values whether it holds for any of them."""
    name, _, expected = condition.partition("=")
    value = values.get(name)
    items = value if isinstance(value, list) else [value]
    if expected:
        return any(str(item) == expected for item in items)
    return any(item not in _OFF for item in items)


def _shown(name: str, value: object) -> str:
    """A flag as on a command line."""
    if value is True:
        return f"--{name}"
    if isinstance(value, list):
        value = _spaced(value)
    return f"--{name} {value}"
