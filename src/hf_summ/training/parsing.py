"""The door of a training run: `CONFIG [--flag value ...]` becomes settings, and these the arguments of the run."""

import argparse
import dataclasses
import functools
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import starmap
from pathlib import Path
from typing import Any, NoReturn

import yaml
from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from hf_summ.checkpoints.overrides import NULL, MergeOverrides, override_item
from hf_summ.common import flags as declarations
from hf_summ.common.files import bundled_folder
from hf_summ.common.flags import Flag, check_ranges, names, with_default
from hf_summ.common.messages import nearest, one_line, unknown_flag
from hf_summ.common.records import parse_json, parse_yaml
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.training.arguments import FLAGS, GROUPS, REPEATABLE, RunArguments
from hf_summ.training.checks import UNREAD

# folders of `configs` that are not architectures: the papers' tables and their scales
_NO_CONFIGS = ("scales", "tables")
_BOOLEANS = {
    name
    for group in GROUPS
    for name, hint in typing.get_type_hints(group).items()
    if name in FLAGS and bool in (hint, *typing.get_args(hint))
}
# the parser has these only for booleans that are on by default
_NEGATED = {f"--no{dash}{name.replace('_', dash)}": f"--{name}=false" for name in _BOOLEANS for dash in "_-"}


def parse_arguments(argv: Sequence[str]) -> RunArguments:
    """Parse `CONFIG.yaml [--flag value ...]`, `CONFIG.json [...]` or only flags; flags take precedence over the file.

    Instead of a file, a name of `bundled_configs` may be given. Flags that name corpus files replace the file's data
    set, with its columns and format, and vice versa. A checkpoint on the command line has its own tokenizer, which
    replaces the file's.
    """
    if not argv or argv[0].startswith("-"):
        changes = parse_flags(argv)
        return make_arguments(merged(short_run(changes, changes), changes))
    settings, changes = read_settings(argv[0]), parse_flags(argv[1:])
    replaced: set[str] = set()
    if "dataset_name" in changes:
        replaced = set(names(Corpus))
    elif "dataset_name" in settings and changes.keys() & set(map(file_flag, SPLITS)):
        replaced = set(names(Corpus)) - set(map(file_flag, SPLITS))
    if changes.get("model_name_or_path") is not None:
        replaced.add("tokenizer_name")
    settings = {name: value for name, value in settings.items() if name not in replaced}
    return make_arguments(merged(settings, short_run(settings, changes), changes))


def short_run(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that `quick` replaces, of a file that is meant for many more updates; none without it."""
    updates = changes.get("quick", settings.get("quick"))
    if updates is None:
        return {}
    # the peak of Adam's rate suits a short run too, unlike the rates of a Noam schedule, Adadelta or Adagrad
    is_adam = settings.get("optimizer") in ("adam", "adamw") or not settings.keys() & {"optimizer", "optim"}
    optimizer = {"optimizer": "adam", "optim": None, "learning_rate": 1e-3, "learning_rates": [NULL]}
    effective = {"eval_strategy": "no", "save_strategy": "steps", **settings, **changes}
    counted = [step for step in ("eval", "save") if effective[f"{step}_strategy"] != "no"]
    return {
        **({} if is_adam and settings.get("schedule") != "noam" else optimizer),
        "schedule": None,
        "lr_scheduler_type": "cosine",
        "lr_scheduler_kwargs": None,
        "max_steps": updates,
        "warmup_steps": updates // 10,
        "gradient_accumulation_steps": 1,
        "early_stopping_patience": None,
        **{f"{step}_strategy": "steps" for step in counted},
        **{f"{step}_steps": max(1, updates // 3) for step in counted},
        "logging_steps": max(1, updates // 20),
    }


def make_arguments(settings: Mapping[str, Any]) -> RunArguments:
    """The arguments of a run from its settings, see `read_settings`; None means not given."""
    for problem in without_effect(settings).values():
        raise ValueError(problem)
    settings = {name: value for name, value in settings.items() if value is not None}
    check_ranges(settings, FLAGS)
    groups: list[Any] = []
    for group in GROUPS:
        flags = {field.name for field in dataclasses.fields(group)}
        groups.append(group(**{name: value for name, value in settings.items() if name in flags}))
    return RunArguments(*groups, given=settings)


def read_settings(path: str) -> dict[str, Any]:
    """Read a YAML or JSON file of flags, or a bundled one, into settings, converted like a command line."""
    file = bundled_configs().get(path) or Path(path)
    if file.suffix not in (".yaml", ".yml", ".json"):
        suggestion = nearest(path, bundled_configs())
        raise ValueError(
            f"{one_line(path):.255}: the first argument must be a .yaml or .json file, or a bundled configuration such "
            f"as gdlf/xsum{suggestion}; flags start with --"
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = parse_json(text) if file.suffix == ".json" else parse_yaml(text)
        if not isinstance(content, dict) or not content:
            raise ValueError("must contain `key: value` lines")
        return settings_of(content)
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {one_line(error)}") from None


def settings_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from the mapping in a file; null, which removes a setting, stays None."""
    settings: dict[str, Any] = {}
    # written as a command line, so that one parser converts and checks both
    tokens: list[str] = []
    for name, value in content.items():
        if name not in FLAGS:
            raise ValueError(f"unknown key {name!r:.80}{nearest(str(name), FLAGS)}")
        if value is None or value in ([], {}):
            settings[name] = None
            continue
        try:
            if name == "config_overrides" and isinstance(value, dict):
                # as in config.json
                settings[name] = json.loads(json.dumps(value))
            else:
                tokens += as_flag(name, value)
        except TypeError as error:
            raise ValueError(f"{name}: {error}: put it in quotes") from None
    return settings | parse_flags(tokens)


def as_flag(name: str, value: Any) -> list[str]:
    """A setting as on a command line."""
    value = _builtin(value)
    if value is None or value in ([], {}):
        value = "null"
    elif isinstance(value, dict):
        if name == "config_overrides":
            value = list(starmap(override_item, value.items()))
        else:
            value = [f"{key}={item}" for key, item in value.items()] if name in REPEATABLE else json.dumps(value)
    elif isinstance(value, bool) and name not in _BOOLEANS:
        # YAML reads an unquoted `no` as false, and transformers writes "never" as no
        value = "yes" if value else "no"
    return [f"--{name}", *map(str, value)] if isinstance(value, list) else [f"--{name}={value}"]


def _builtin(value: Any) -> Any:
    """A value whose scalars and arrays of NumPy, enumerations and tuples are Python's numbers, texts and lists."""
    if isinstance(value, Mapping):
        return {key: _builtin(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_builtin, value))
    if isinstance(value, Enum):
        return value.value
    return value.tolist() if hasattr(value, "tolist") else value


def parse_flags(tokens: Sequence[str], others: Iterable[str] = ()) -> dict[str, Any]:
    """Settings from a command line: only the given flags, each converted and checked.

    `null` removes a flag. In a repeatable one, it removes the items before it.

    Args:
        others: flags of the command itself, to suggest for an unknown one.
    """
    arguments, unknown = _parser().parse_known_args([_NEGATED.get(token, token) for token in tokens])
    if unknown:
        is_file = unknown[0].endswith((".yaml", ".yml", ".json"))
        hint = "; a settings file must be the first argument" if is_file else ""
        raise ValueError(f"{unknown_flag(unknown, [*FLAGS, *others])}{hint}")
    return {name: None if value == [NULL] else value for name, value in vars(arguments).items()}


def without_effect(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that have no effect because of others, each with a message that says what to do.

    Args:
        settings: flags and their values; None means not given.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    unread = {
        name: f"--{name} {settings[name]}: has no effect here: {hint}"
        for name, hint in UNREAD.items()
        if settings.get(name, FLAGS[name].default) != FLAGS[name].default
    }
    return unread | declarations.without_effect(settings, FLAGS, "omit it, or give {unset}")


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings: later ones take precedence, and those of repeatable flags are extended.

    The item `null` of a repeatable flag removes all before it. Earlier settings without effect because of later ones
    are dropped.
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        ineffective = without_effect(settings)
        for name, value in layer.items():
            before = settings.get(name)
            if value is not None and name == "config_overrides":
                value = {**({} if NULL in value else before or {}), **value}
                value.pop(NULL, None)
            elif value is not None and name in REPEATABLE:
                value = [*(before or ()), *value]
                value = value[len(value) - value[::-1].index(NULL) :] if NULL in value else value
            settings[name] = value or None if name in REPEATABLE else value
        while replaced := without_effect(settings).keys() - ineffective.keys() - layer.keys():
            settings = {name: value for name, value in settings.items() if name not in replaced}
    return settings


class _OrNull(list):
    """Choices of a flag that `null` removes; messages list the others."""

    def __contains__(self, value: object) -> bool:
        return value is None or super().__contains__(value)


class _Parser(HfArgumentParser):
    """An HfArgumentParser that returns only the given flags, and raises errors instead of printing 300 flags' usage."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def add_argument(self, *names: str, flag: Flag | None = None, **settings: Any) -> argparse.Action:
        """Add a flag whose default is only shown in its help; the dataclasses set it."""
        default = settings.get("default")
        if default is not argparse.SUPPRESS and "(default: " not in settings.get("help", ""):
            settings["help"] = with_default(settings.get("help", ""), default)
        if settings.get("type") is string_to_bool:
            # transformers requires a value for boolean flags without a default
            settings |= {"nargs": "?", "const": True}
        if settings.get("action") is MergeOverrides:
            del settings["type"]
        elif settings.get("nargs") != "+" and "type" in settings:
            convert = settings["type"]
            # the parser's messages contain the name of the type
            or_null = functools.wraps(convert, updated=())(lambda text: None if text == NULL else convert(text))
            settings["type"] = or_null
            if "choices" in settings:
                settings["choices"] = _OrNull(settings["choices"])
        return super().add_argument(*names, **{**settings, "default": argparse.SUPPRESS})


@functools.cache
def _parser() -> _Parser:
    usage = "%(prog)s CONFIG.yaml [--flag value ...]"
    return _Parser(GROUPS, prog="run_summarization.py", usage=usage, allow_abbrev=False)


def bundled_configs() -> dict[str, Path]:
    """The bundled configurations, by names such as `gdlf/xsum`."""
    folder = bundled_folder("configs")
    files = (file.relative_to(folder) for file in sorted(folder.rglob("*.yaml")))
    return {file.with_suffix("").as_posix(): folder / file for file in files if file.parts[0] not in _NO_CONFIGS}
