"""Settings in JSON and YAML, cells of CSV files, and records: YAML files that describe the results in a folder.

A key that is given twice is an error, as one of its values would silently be ignored. A record prevents a run with
other settings from continuing a folder's results.
"""

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line

# Spreadsheets read texts that begin with these as formulas, the full-width ones in East Asian settings only.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# A message names at most so many differences. The record has all settings.
_NAMED = 4
_MERGE_TAG = "tag:yaml.org,2002:merge"


def parse_json(text: str) -> object:
    """The value of a JSON text; raises a ValueError if an object has a key twice."""
    return _DECODER.decode(text)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The values of a JSON object by key; raises a ValueError if it has a key twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        for key in values:
            if keys.count(key) > 1:
                raise ValueError(f"the key '{key}' occurs twice in one object")
    return values


# The decoder is made once, as `json.loads` would make one for each row of a corpus.
_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; raises a YAMLError if a mapping has a key twice."""
    # Functions import PyYAML when they need it, as a summary on the command line reads no YAML.
    import yaml

    return yaml.load(text, _loader())


@cache
def _loader() -> type:
    """PyYAML's loader of plain values, with an error for equal keys."""
    import yaml
    from yaml.constructor import ConstructorError

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = set()
            for key, _ in node.value:
                # The key `<<` merges another mapping, and may occur several times.
                if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                    continue
                if key.value in keys:
                    problem = f"the key '{key.value}' occurs twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                keys.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def read_record(path: Path, problem_of: Callable[[dict], str | None]) -> dict | None:
    """The content of a record, or None if there is none.

    Args:
        problem_of: returns the problem with the content, or None; its errors on malformed content count as problems.
    """
    import yaml

    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
        problem = problem_of(content)
        if problem is None:
            return content
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        problem = one_line(error)
    raise ValueError(f"{path}: cannot be read ({problem}): remove it only if you no longer need the folder's results")


def write_record(path: Path, content: Mapping[str, object]) -> None:
    """Write a record and, if necessary, its folder."""
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000)
    write_atomically(path, text)


def plain(value: Any) -> Any:
    """A value as a record gives it back: lists for tuples, Python's numbers for NumPy's, and texts for objects."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    # YAML lacks derived types, such as np.float64 and enumerations of texts. `str` of the latter gives their names.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "tolist"):
        # This is a number or an array of NumPy, or a tensor.
        return plain(value.tolist())
    return str(value)


def changed(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """The settings of `now` that differ from `before`, as `name BEFORE, now NOW`."""
    differences = []
    for name, value in now.items():
        earlier_value = before.get(name)
        if earlier_value != value:
            differences.append(f"{name} {_short(earlier_value)}, now {_short(value)}")
    return differences


def shown(differences: Sequence[str]) -> str:
    """Differences in the form of messages: the first ones, and the number of others."""
    text = "; ".join(differences[:_NAMED])
    unnamed = len(differences) - _NAMED
    if unnamed > 0:
        text += f"; and {unnamed} more"
    return text


def _short(value: object) -> str:
    """A setting's value in a message."""
    if value is None:
        return "not set"
    return textwrap.shorten(str(value), 60, placeholder=" ...")


def to_json(value: object, indent: int | None = None, sort_keys: bool = False) -> str:
    """A value as JSON, with null for numbers that JSON lacks, such as NaN, and strings for values of other types.

    Args:
        indent, sort_keys: as for `json.dumps`.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, sort_keys=sort_keys, default=str)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, indent=indent, sort_keys=sort_keys, default=str)


def spreadsheet_text(text: str) -> str:
    """A text as a cell of a CSV file, after an apostrophe if spreadsheets would run it as a formula."""
    if text.startswith(_FORMULAS):
        return f"'{text}"
    return text


def finite(value: object) -> object:
    """A value with None for the numbers in it that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [finite(member) for member in value]
    return value
