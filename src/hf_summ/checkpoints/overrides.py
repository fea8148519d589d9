"""Config values from the command line: `key=JSON`, with dotted keys into nested configs and lists."""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from transformers import PreTrainedConfig

from hf_summ.common.messages import nearest, one_line

# common forms of numbers that are not JSON
_SHORT_FLOAT = re.compile(r"[-+]?(\d+\.|\.\d+)")
# keys of a configuration's dictionary that users cannot set
BOOKKEEPING = ("model_type", "transformers_version", "architectures", "auto_map", "custom_pipelines", "_name_or_path")


def parse_overrides(items: Iterable[str]) -> dict[str, Any]:
    """Parse `["key=JSON", ...]` into a mapping; other values are strings, and the last of equal keys applies.

    `.5` and `5.` are numbers too. An item without a key or with incomplete JSON raises a ValueError.
    """
    overrides = {}
    for item in items:
        key, separator, text = item.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"--config_overrides {item!r:.80}: write key=JSON, for example d_model=512")
        try:
            value = float(text) if _SHORT_FLOAT.fullmatch(text) else json.loads(text)
        except ValueError as error:
            if text[:1] in ("[", "{", '"'):
                raise ValueError(f"--config_overrides {item!r:.80}: {text!r:.80} is not JSON ({error})") from None
            value = text
        overrides[key.strip()] = value
    return overrides


# removes what was set before
NULL = "null"


class MergeOverrides(argparse.Action):
    """Collects the items `key=JSON` of a repeatable flag into one mapping; `null` becomes a key, see `merged`."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Merge the items into the earlier ones; they take precedence."""
        items = cast(list[str], values)
        before = {NULL: None} if NULL in items else getattr(namespace, self.dest, {})
        setattr(namespace, self.dest, {**before, **parse_overrides(item for item in items if item != NULL)})


def override_item(key: str, value: Any) -> str:
    """The item `key=JSON` that `parse_overrides` reads back as the value; strings are not quoted if possible."""
    is_word = isinstance(value, str) and not value.startswith(("[", "{", '"'))
    if is_word and parse_overrides([f"{key}={value}"])[key] == value:
        return f"{key}={value}"
    return f"{key}={json.dumps(value, separators=(',', ':'))}"


def apply_overrides(config: PreTrainedConfig, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    """A new config of the same class with the overrides merged in and checked together.

    Keys that depend on each other, such as layers and their kernel sizes, can thus be changed at the same time.
    """
    if not overrides:
        return config
    merged = config.to_dict()
    for key, value in overrides.items():
        node, index = _entry(merged, key, config)
        node[index] = value
    try:
        return type(config).from_dict(merged)
    except Exception as error:
        # transformers does not check some of its keys
        items = ", ".join(f"{key}={json.dumps(value):.80}" for key, value in overrides.items())
        raise ValueError(f"--config_overrides {items:.255}: {refusal(error)}") from error


def refusal(error: Exception) -> str:
    """Why a config rejected a value, in one line."""
    return one_line(error.__cause__ or error)


def value_of(config: PreTrainedConfig, key: str) -> Any:
    """The value of a key, which may be dotted, in a config's dictionary; a ValueError suggests the most similar key."""
    node, index = _entry(config.to_dict(), key, config)
    return node[index]


def _entry(tree: dict[str, Any], key: str, config: PreTrainedConfig) -> tuple[Any, Any]:
    """The mapping or list of a config's dictionary that holds a key, and the key or index there."""
    first, *further = key.split(".")
    # another name of the key, or its former one
    path = [{**config.attribute_map, **getattr(config, "renamed", {})}.get(first, first), *further]
    node, index, value = tree, "", cast(Any, tree)
    for depth, name in enumerate(path):
        node, keys = value, range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        names = {str(entry): entry for entry in keys if depth or entry not in BOOKKEEPING}
        if name not in names:
            hint = nearest(name, names) or f"; the keys are {', '.join(sorted(names)) or 'none'}"
            owner = ".".join(path[:depth]) or config.model_type
            raise ValueError(f"--config_overrides {key}: unknown key {name!r:.80} in {owner}{hint}")
        index = names[name]
        value = node[index]
    return node, index
