"""Tables of flags, generated from the recipe's dataclasses and the commands' parsers."""

import argparse
import dataclasses
import enum
import importlib
import re
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hf_summ.models.checks import Setting
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.serving.settings import request_range

Row = Sequence[str]


class Flags(SphinxDirective):
    """`{flags} module.Dataclass`: its flags; with `:inherited:`, those inherited from another library's class."""

    required_arguments = 1
    option_spec = {"inherited": directives.flag}

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        group = getattr(importlib.import_module(module), name)
        rows = flag_rows(group, inherited="inherited" in self.options)
        return [_table(("flag", "value", "meaning"), (30, 20, 50), rows)]


class Command(SphinxDirective):
    """`{command} name`, or `{command} name step`: the arguments of `hf-summ name`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return [_table(("argument", "meaning"), (34, 66), command_rows(self.arguments[0]))]


class RequestSettings(SphinxDirective):
    """`{request_settings}`: the settings of `generate()` that a request to the service may ask for."""

    def run(self) -> list[nodes.Node]:
        asked = {name: setting for name, setting in SETTINGS.items() if setting.request_limit}
        rows = [
            (f"`{name}`", _allowed(setting), _sentence(setting.help or "as for `generate()`"))
            for name, setting in asked.items()
        ]
        return [_table(("parameter", "value", "meaning"), (30, 30, 40), rows)]


def flag_rows(group: type, inherited: bool) -> list[Row]:
    """Flag, value and meaning of a dataclass's fields: ours, or those inherited from another library's class."""
    kinds = typing.get_type_hints(group)
    ours = [base for base in group.__mro__ if base.__module__.startswith("hf_summ.")]
    own = {name for base in ours for name in vars(base).get("__annotations__", {})}
    rows = []
    for field in dataclasses.fields(group):
        if field.init and (field.name not in own) == inherited:
            # a help may end with its default, in words if the value does not explain itself
            meaning, _, stated = field.metadata.get("help", "").partition(" (default: ")
            default = stated.removesuffix(")") or _default(field)
            value = "\n".join(filter(None, (_kind(kinds[field.name]), default and f"default: {default}")))
            rows.append((f"`--{field.name}`", value, _sentence(meaning)))
    return rows


def command_rows(name: str) -> list[Row]:
    """Name and meaning of the arguments of a command of `hf-summ`, or of one of its steps, such as `votes make`."""
    command, *steps = name.split()
    parser = argparse.ArgumentParser()
    importlib.import_module(f"hf_summ.cli.{command.replace('-', '_')}").add_parser(parser.add_subparsers())
    for step in (command, *steps):
        (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = commands.choices[step]
    return [
        (f"`{_usage(action)}`", _sentence((action.help or "") % vars(action)))
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    ]


def _allowed(setting: Setting) -> str:
    """The values that a request may ask for."""
    if setting.type is bool:
        return "true or false"
    if setting.choices:
        return " or ".join(setting.choices)
    return str(request_range(setting))


def _usage(action: argparse.Action) -> str:
    """`--flag VALUE`, as in the command's own help."""
    if action.nargs == 0:
        return action.option_strings[0]
    choices = None if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}"
    value = action.metavar or choices or action.dest.upper()
    value = {"+": f"{value} ...", "*": f"[{value} ...]", "?": f"[{value}]"}.get(str(action.nargs), value)
    return f"{action.option_strings[0]} {value}" if action.option_strings else value


def _kind(kind: Any) -> str:
    """A type's name for readers of a table, without None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(part) for part in typing.get_args(kind) if part is not types.NoneType))
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{str(value).lower()}`" for value in typing.get_args(kind))
    if typing.get_origin(kind) is list:
        return f"{_kind(typing.get_args(kind)[0])}, one or several"
    name = typing.get_origin(kind) or kind
    known = {str: "text", int: "integer", float: "number", bool: "true or false", dict: "JSON"}
    return known[name] if name in known else _enumeration(name)


def _enumeration(kind: type) -> str:
    return "name" if issubclass(kind, enum.Enum) else kind.__name__


def _default(field: dataclasses.Field) -> str:
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    value = value.value if isinstance(value, enum.Enum) else value
    if value is None or value in ("", []):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{' '.join(map(str, value)) if isinstance(value, list) else value}`"


def _sentence(text: str) -> str:
    """A help text on one line, without argparse's doubled percent signs, from a capital to a full stop."""
    text = " ".join(text.replace("%%", "%").split())
    text = text if text.endswith(".") or not text else f"{text}."
    # a first word such as newsroom:, max_steps or spaCy keeps its spelling
    return text if re.match(r"[\w-]*[_:.\d]|[a-z]+[A-Z]", text) else text[:1].upper() + text[1:]


def _table(titles: Row, widths: Sequence[int], rows: Iterable[Row]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(widths))
    group += nodes.thead("", _row(titles))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["flags"])


def _row(cells: Row) -> nodes.row:
    """A row of cells, each of whose lines is kept."""
    lines = ([nodes.line("", "", *_text(line)) for line in cell.splitlines()] for cell in cells)
    return nodes.row("", *(nodes.entry("", nodes.line_block("", *cell)) for cell in lines))


def _text(cell: str) -> list[nodes.Node]:
    """Text in which backticks mark code; flags are code without them."""
    parts = re.split(r"(`+[^`]+`+|(?<!\S)--\w+)", cell)
    return [nodes.literal("", part.strip("`")) if place % 2 else nodes.Text(part) for place, part in enumerate(parts)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("flags", Flags)
    app.add_directive("command", Command)
    app.add_directive("request_settings", RequestSettings)
    return {"parallel_read_safe": True}
