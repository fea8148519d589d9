"""Config values from the command line: `key=JSON`, with dotted keys into nested configs and lists."""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from transformers import PreTrainedConfig

from hf_summ.common.messages import nearest, one_line

# JSON lacks these common forms of numbers.
_SHORT_FLOAT = re.compile(r"[-+]?(\d+\.|\.\d+)")
# Keys of a configuration's dictionary that libraries set, so that users cannot set them.
BOOKKEEPING = ("model_type", "transformers_version", "architectures", "auto_map", "custom_pipelines", "_name_or_path")
# This item in place of `key=JSON` removes what a settings file or an earlier flag sets.
NULL = "null"


def parse_overrides(items: Iterable[str]) -> dict[str, object]:
    """Parse `["key=JSON", ...]` into values by key.

    A value that is not JSON is a string, but `.5` and `5.` are numbers. If a key occurs several times, its last value
    applies.

    Raises:
        ValueError: an item has no key, or a value that begins like a list, a mapping or a string of JSON but is not
            JSON.
    """
    overrides: dict[str, object] = {}
    for item in items:
        key, separator, text = item.partition("=")
        key = key.strip()
        if not separator or not key:
            raise ValueError(f"--config_overrides {item!r:.80}: write key=JSON, for example d_model=512")
        if _SHORT_FLOAT.fullmatch(text):
            overrides[key] = float(text)
            continue
        try:
            overrides[key] = json.loads(text)
        except ValueError as error:
            if text.startswith(("[", "{", '"')):
                raise ValueError(f"--config_overrides {item!r:.80}: {text!r:.80} is not JSON ({error})") from None
            overrides[key] = text
    return overrides


class MergeOverrides(argparse.Action):
    """Collects the items `key=JSON` of a repeatable flag into one mapping.

    An item `null` removes the items of earlier flags, and becomes a key of the mapping. The key tells `merged` in
    `hf_summ.training.parsing` to remove the items of a settings file too.
    """

    def __call__(self, parser, namespace, values, option_string=None):
        """Merge the items of a flag into the items of earlier flags; a later item replaces an earlier with its key."""
        items = cast(list[str], values)
        overrides: dict[str, object] = {NULL: None}
        if NULL not in items:
            overrides = dict(getattr(namespace, self.dest, {}))
        key_items = [item for item in items if item != NULL]
        overrides.update(parse_overrides(key_items))
        setattr(namespace, self.dest, overrides)


def override_item(key: str, value: object) -> str:
    """The item `key=JSON` that `parse_overrides` reads back as the value.

    A string is written without quotation marks unless it would then be read back as another value.
    """
    if isinstance(value, str) and not value.startswith(("[", "{", '"')):
        unquoted = f"{key}={value}"
        # A string such as "true" would be read back as another value.
        if parse_overrides([unquoted])[key] == value:
            return unquoted
    return f"{key}={json.dumps(value, separators=(',', ':'))}"


def apply_overrides(config: PreTrainedConfig, overrides: Mapping[str, object]) -> PreTrainedConfig:
    """A new config of the same class with the overrides merged in and checked together.

    Keys that depend on each other, such as layers and their kernel sizes, can thus be changed at the same time.

    Raises:
        ValueError: a key is unknown, or the config refuses a value.
    """
    if not overrides:
        return config
    merged = config.to_dict()
    for key, value in overrides.items():
        container, index = _entry(merged, key, config)
        container[index] = value
    try:
        return type(config).from_dict(merged)
    except Exception as error:
        # transformers does not check some of its keys, whose values then raise errors of any type.
        items = ", ".join([f"{key}={json.dumps(value):.80}" for key, value in overrides.items()])
        raise ValueError(f"--config_overrides {items:.255}: {refusal(error)}") from error


def refusal(error: Exception) -> str:
    """Why a config rejected a value, in one line."""
    return one_line(error.__cause__ or error)


def value_of(config: PreTrainedConfig, key: str) -> object:
    """The value of a key, which may be dotted, in a config's dictionary; a ValueError suggests the most similar key."""
    container, index = _entry(config.to_dict(), key, config)
    return container[index]


def _entry(config_dict: dict[str, object], key: str, config: PreTrainedConfig) -> tuple[Any, Any]:
    """Find the place of a key, which may be dotted, in a config's dictionary.

    For the key `bert_config.hidden_size`, the place is the key `hidden_size` in the dictionary of `bert_config`.

    Args:
        config_dict: the dictionary.
        key: the key, as the user gives it.
        config: the config, which knows other names of its keys.

    Returns:
        The mapping or list that holds the value, and the key or index of the value there.

    Raises:
        ValueError: the key is unknown; the message suggests the most similar one.
    """
    path = key.split(".")
    # The first name may be an alias, such as `hidden_size` for `d_model`, or a name that the key had in an earlier
    # version.
    key_of_alias = {**config.attribute_map, **getattr(config, "renamed", {})}
    path[0] = key_of_alias.get(path[0], path[0])
    container: Any = config_dict
    last_depth = len(path) - 1
    depth = 0
    while True:
        name = path[depth]
        indices = _indices_by_name(container)
        if depth == 0:
            for bookkeeping_key in BOOKKEEPING:
                indices.pop(bookkeeping_key, None)
        if name not in indices:
            hint = nearest(name, indices)
            if not hint:
                names = ", ".join(sorted(indices)) or "none"
                hint = f"; the keys are {names}"
            owner = ".".join(path[:depth]) or config.model_type
            raise ValueError(f"--config_overrides {key}: unknown key {name!r:.80} in {owner}{hint}")
        if depth == last_depth:
            return container, indices[name]
        container = container[indices[name]]
        depth += 1


def _indices_by_name(container: object) -> dict[str, object]:
    """The keys of a mapping, or the indices of a list, by their text; none for any other value."""
    if isinstance(container, dict):
        return {str(key): key for key in container}
    if isinstance(container, list):
        return {str(index): index for index in range(len(container))}
    return {}
