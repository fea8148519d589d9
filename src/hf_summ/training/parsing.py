"""The command line of a training run: `CONFIG [--flag value ...]` is parsed into the arguments of the run.

Flags and files are first parsed into settings: the values of flags by name. None means that a flag is not given, or
that it is removed.
"""

import argparse
import dataclasses
import functools
import json
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import yaml
from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from hf_summ.checkpoints.overrides import NULL, MergeOverrides, override_item
from hf_summ.common import flags as declarations
from hf_summ.common.files import bundled_folder
from hf_summ.common.flags import Flag, check_ranges, given_settings, names, with_default
from hf_summ.common.messages import nearest, one_line, unknown_flag
from hf_summ.common.records import parse_json, parse_yaml
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.training.arguments import FLAGS, GROUPS, REPEATABLE, FlagValues, RunArguments
from hf_summ.training.checks import UNREAD

# the type of settings that a function only reads; those that it makes are `FlagValues`
Settings = Mapping[str, Any]

# folders of `configs` without configurations of runs: the papers' tables and their scales
_NO_CONFIGS = ("scales", "tables")


def _boolean_flags() -> set[str]:
    """The names of the flags whose value is True or False, or None if they are not set."""
    boolean_flags = set()
    for group in GROUPS:
        for name, hint in typing.get_type_hints(group).items():
            is_boolean = hint is bool or bool in typing.get_args(hint)
            if name in FLAGS and is_boolean:
                boolean_flags.add(name)
    return boolean_flags


def _negated_flags() -> dict[str, str]:
    """The spellings `--no_NAME` and `--no-NAME` of boolean flags, and the tokens `--NAME=false` in their place.

    HfArgumentParser has these spellings only for booleans that are on by default.
    """
    tokens = {}
    for name in _BOOLEANS:
        dashed_name = name.replace("_", "-")
        tokens[f"--no_{name}"] = f"--{name}=false"
        tokens[f"--no-{dashed_name}"] = f"--{name}=false"
    return tokens


_BOOLEANS = _boolean_flags()
_NEGATED = _negated_flags()


def parse_arguments(argv: Sequence[str]) -> RunArguments:
    """Parse `CONFIG.yaml [--flag value ...]`, `CONFIG.json [...]` or only flags; flags take precedence over the file.

    Instead of a file, a name of `bundled_configs` may be given. Flags that name corpus files replace the file's data
    set, with its columns and format, and vice versa. A checkpoint on the command line has its own tokenizer, which
    replaces the file's.

    Raises:
        ValueError: an unknown or invalid setting, or one without effect; the message says what to do.
    """
    if not argv or argv[0].startswith("-"):
        changes = parse_flags(argv)
        return make_arguments(merged(short_run(changes, changes), changes))
    settings = read_settings(argv[0])
    changes = parse_flags(argv[1:])
    for name in _settings_to_drop(changes, settings):
        settings.pop(name, None)
    return make_arguments(merged(settings, short_run(settings, changes), changes))


def _settings_to_drop(changes: Settings, settings: Settings) -> set[str]:
    """The names of settings to drop from the config file, as the command line gives another corpus or checkpoint.

    Args:
        changes: the settings of the command line.
        settings: the settings of the config file.
    """
    dropped: set[str] = set()
    # `train_file` and so on, the flags that name the rows of each split
    split_flags = {file_flag(split) for split in SPLITS}
    if "dataset_name" in changes:
        # columns and format in the config file describe the corpus there, and would not suit the new data set
        dropped.update(names(Corpus))
    elif "dataset_name" in settings and not split_flags.isdisjoint(changes):
        # The command line names files of rows in place of the config file's data set. Such files in the config file do
        # not belong to its data set, so they stay.
        dropped.update(names(Corpus))
        dropped -= split_flags
    if changes.get("model_name_or_path") is not None:
        # a checkpoint has its own tokenizer
        dropped.add("tokenizer_name")
    return dropped


def short_run(settings: Settings, changes: Settings) -> FlagValues:
    """The settings of a short run, with which `quick` replaces settings of a file that is meant for many more updates.

    Args:
        settings: the settings of the file.
        changes: the settings of the command line.

    Returns:
        The replacing settings; none without `quick`.
    """
    updates = changes.get("quick", settings.get("quick"))
    if updates is None:
        return {}
    replacing: FlagValues = {}
    has_adam = settings.get("optimizer") in ("adam", "adamw")
    has_default_optimizer = "optimizer" not in settings and "optim" not in settings
    suits_short_run = (has_adam or has_default_optimizer) and settings.get("schedule") != "noam"
    if not suits_short_run:
        # unlike the peak of Adam's rate, the rates of a Noam schedule, Adadelta or Adagrad do not suit a short run
        replacing["optimizer"] = "adam"
        replacing["optim"] = None
        replacing["learning_rate"] = 1e-3
        replacing["learning_rates"] = [NULL]
    replacing["schedule"] = None
    replacing["lr_scheduler_type"] = "cosine"
    replacing["lr_scheduler_kwargs"] = None
    replacing["max_steps"] = updates
    replacing["warmup_steps"] = updates // 10
    replacing["gradient_accumulation_steps"] = 1
    replacing["early_stopping_patience"] = None
    default_strategies = {"eval_strategy": "no", "save_strategy": "steps", "logging_strategy": "steps"}
    strategies = {**default_strategies, **settings, **changes}
    # how often each is done in the run
    for step, times in (("eval", 3), ("save", 3), ("logging", 20)):
        if strategies[f"{step}_strategy"] != "no":
            replacing[f"{step}_strategy"] = "steps"
            replacing[f"{step}_steps"] = max(1, updates // times)
    return replacing


def make_arguments(settings: Settings) -> RunArguments:
    """The arguments of a run from its settings.

    Raises:
        ValueError: a setting is invalid, or has no effect.
    """
    problems = list(without_effect(settings).values())
    if problems:
        raise ValueError(problems[0])
    given = given_settings(settings)
    check_ranges(given, FLAGS)
    # The given settings include those of a short run. A model card and run.yaml show them without `quick`, which would
    # replace the user's changes to them if the settings were used as a file.
    given.pop("quick", None)
    groups: list[Any] = []
    for group in GROUPS:
        flags = {field.name for field in dataclasses.fields(group)}
        group_settings = {name: value for name, value in given.items() if name in flags}
        groups.append(group(**group_settings))
    return RunArguments(*groups, given=given)


def read_settings(path: str) -> FlagValues:
    """Read a YAML or JSON file of flags, or a bundled configuration, into settings.

    Args:
        path: the file, or a name of `bundled_configs`.

    Raises:
        ValueError: the file cannot be read, or contains unknown or invalid settings.
    """
    file = bundled_configs().get(path) or Path(path)
    if file.suffix not in (".yaml", ".yml", ".json"):
        suggestion = nearest(path, bundled_configs())
        raise ValueError(
            f"{one_line(path):.255}: the first argument must be a .yaml or .json file, or a bundled configuration such "
            f"as gdlf/xsum{suggestion}; flags start with --"
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix == ".json":
            content = parse_json(text)
        else:
            content = parse_yaml(text)
        if not isinstance(content, dict) or not content:
            raise ValueError("must contain `key: value` lines")
        return settings_of(content)
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {one_line(error)}") from None


def settings_of(content: Settings) -> FlagValues:
    """Settings from the mapping in a file, which are converted and checked as on a command line.

    The values null, [] and {} remove a setting, which becomes None.

    Raises:
        ValueError: the mapping contains an unknown key or an invalid value.
    """
    settings: FlagValues = {}
    # values are written as a command line, so that one parser converts and checks both
    tokens: list[str] = []
    for name, value in content.items():
        if name not in FLAGS:
            raise ValueError(f"unknown key {name!r:.80}{nearest(str(name), FLAGS)}")
        if _is_empty(value):
            settings[name] = None
            continue
        try:
            if name == "config_overrides" and isinstance(value, dict):
                # the values become what they would be in a config.json
                settings[name] = json.loads(json.dumps(value))
            else:
                tokens.extend(as_flag(name, value))
        except TypeError as error:
            raise ValueError(f"{name}: {error}: put it in quotes") from None
    return settings | parse_flags(tokens)


def _is_empty(value: object) -> bool:
    """Whether the value of a setting removes it."""
    return value is None or value in ([], {})


def as_flag(name: str, value: object) -> list[str]:
    """The tokens of a setting on a command line, such as `["--seed=1"]` or `["--metrics", "rouge", "bleu"]`."""
    value = _builtin(value)
    if _is_empty(value):
        return [f"--{name}={NULL}"]
    if isinstance(value, dict):
        if name not in REPEATABLE:
            return [f"--{name}={json.dumps(value)}"]
        if name == "config_overrides":
            value = [override_item(key, item) for key, item in value.items()]
        else:
            value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, bool) and name not in _BOOLEANS:
        # YAML reads an unquoted `no` as false, and transformers writes "never" as no
        value = "yes" if value else "no"
    if not isinstance(value, list):
        return [f"--{name}={value}"]
    tokens = [f"--{name}"]
    for item in value:
        tokens.append(str(item))
    return tokens


def _builtin(value: Any) -> object:
    """A value with Python's numbers, texts and lists in place of NumPy's, and of enumerations and tuples."""
    if isinstance(value, Mapping):
        return {key: _builtin(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_builtin(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def parse_flags(tokens: Sequence[str], others: Iterable[str] = ()) -> FlagValues:
    """Settings from a command line: only the given flags, each converted and checked.

    `null` removes a flag, whose value becomes None. Among the items of a repeatable flag, `null` stays as it is here:
    `merged` then removes the items before it.

    Args:
        tokens: the arguments of the command line.
        others: names of flags that the caller parses itself. The message about an unknown flag can suggest them too.

    Raises:
        ValueError: a flag is unknown, or its value is invalid.
    """
    positive_tokens = [_NEGATED.get(token, token) for token in tokens]
    arguments, unknown = _parser().parse_known_args(positive_tokens)
    if unknown:
        message = unknown_flag(unknown, list(FLAGS) + list(others))
        if unknown[0].endswith((".yaml", ".yml", ".json")):
            message += "; a settings file must be the first argument"
        raise ValueError(message)
    settings = {}
    for name, value in vars(arguments).items():
        # the parser has made None of the `null` of other flags
        settings[name] = None if value == [NULL] else value
    return settings


def without_effect(settings: Settings) -> dict[str, str]:
    """Name of a setting that has no effect because of another setting -> a message that says what to do."""
    given = given_settings(settings)
    messages = {}
    for name, hint in UNREAD.items():
        if name in given and given[name] != FLAGS[name].default:
            messages[name] = f"--{name} {given[name]}: has no effect here: {hint}"
    return messages | declarations.without_effect(given, FLAGS, "omit it, or give {unset}")


def merged(*layers: Settings) -> FlagValues:
    """Merge layers of settings, such as the settings of a file and the settings of the command line.

    A later setting takes precedence over an earlier one. The items of a repeatable flag are added to the earlier items,
    and the item `null` removes all items before it. An earlier setting is dropped if a later one leaves it without
    effect.

    Args:
        layers: the settings, the earliest first.
    """
    settings: FlagValues = {}
    for layer in layers:
        ineffective_before = without_effect(settings)
        for name, value in layer.items():
            before = settings.get(name)
            if value is not None and name == "config_overrides":
                value = _extended_overrides(before or {}, value)
            elif value is not None and name in REPEATABLE:
                value = _extended_items(before or [], value)
            settings[name] = value
        # a setting that is dropped may leave further ones without effect
        while True:
            dropped = without_effect(settings).keys() - ineffective_before.keys() - layer.keys()
            if not dropped:
                break
            for name in dropped:
                del settings[name]
    return settings


def _extended_overrides(before: Settings, overrides: Settings) -> Settings | None:
    """The `config_overrides` so far, with further overrides, which take precedence; None if there are no overrides.

    Args:
        before: the overrides so far.
        overrides: the further overrides; the key `null` among them removes the overrides so far.
    """
    extended = dict(overrides)
    if NULL in extended:
        del extended[NULL]
    else:
        extended = {**before, **extended}
    return extended or None


def _extended_items(before: Sequence[str], items: Sequence[str]) -> list[str] | None:
    """The items of a repeatable flag after it is given again; None if there are none.

    Args:
        before: the items so far.
        items: the further items; `null` among them removes all before it.
    """
    extended = list(before)
    for item in items:
        if item == NULL:
            extended.clear()
        else:
            extended.append(item)
    return extended or None


class _ChoicesOrNull(list):
    """The choices of a flag, which also contain None, the value that `null` is converted to.

    Messages list only the other choices.
    """

    def __contains__(self, value: object) -> bool:
        """Whether a converted value is allowed."""
        return value is None or super().__contains__(value)


class _Parser(HfArgumentParser):
    """An HfArgumentParser that returns only the given flags, and raises errors instead of printing 300 flags' usage."""

    def error(self, message: str) -> NoReturn:
        """Raise the error of a command line as a ValueError."""
        raise ValueError(message)

    def add_argument(self, *names: str, flag: Flag | None = None, **settings: Any) -> argparse.Action:
        """Add a flag, whose help shows its default.

        The parser itself has no defaults. The dataclasses set the defaults of flags that are not given.

        Args:
            flag: the declaration, which the parser does not need.
        """
        default = settings.get("default")
        if default is not argparse.SUPPRESS and "(default: " not in settings.get("help", ""):
            settings["help"] = with_default(settings.get("help", ""), default)
        if settings.get("type") is string_to_bool:
            # transformers requires a value for boolean flags without a default
            settings["nargs"] = "?"
            settings["const"] = True
        if settings.get("action") is MergeOverrides:
            del settings["type"]
        elif settings.get("nargs") == "+":
            # `merged` and `parse_flags` read the `null` among items
            settings["type"] = _with_null(settings["type"], NULL)
        elif "type" in settings:
            settings["type"] = _with_null(settings["type"], None)
            if "choices" in settings:
                settings["choices"] = _ChoicesOrNull(settings["choices"])
        settings["default"] = argparse.SUPPRESS
        return super().add_argument(*names, **settings)


def _with_null(convert: Callable[[str], object], null: str | None) -> Callable[[str], object]:
    """A converter of a flag's text that converts the text `null` to the value `null`, and others with `convert`."""

    # the parser's messages contain the name of the converter, so it keeps the name of `convert`
    @functools.wraps(convert, updated=())
    def convert_unless_null(text: str) -> object:
        if text == NULL:
            return null
        return convert(text)

    return convert_unless_null


@functools.cache
def _parser() -> _Parser:
    """The parser of all flags of a run."""
    usage = "%(prog)s CONFIG.yaml [--flag value ...]"
    return _Parser(GROUPS, prog="run_summarization.py", usage=usage, allow_abbrev=False)


def bundled_configs() -> dict[str, Path]:
    """The files of the bundled configurations, by names such as `gdlf/xsum`."""
    folder = bundled_folder("configs")
    configs = {}
    for path in sorted(folder.rglob("*.yaml")):
        relative_path = path.relative_to(folder)
        if relative_path.parts[0] not in _NO_CONFIGS:
            name = relative_path.with_suffix("").as_posix()
            configs[name] = path
    return configs
