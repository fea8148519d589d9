"""Settings in JSON and YAML, cells of CSV files, and records: YAML files that describe the results in a folder.

A key that is given twice is an error, as one of its values would silently be ignored. A record prevents a run with
other settings from continuing a folder's results.
"""

import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line

# spreadsheets read texts that begin with these as formulas; full-width ones in East Asian settings only
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# most differences in a message; the record has all settings
_NAMED = 4
_MERGE_TAG = "tag:yaml.org,2002:merge"


def parse_json(text: str) -> Any:
    """The value of a JSON text; raises a ValueError if an object has a key twice."""
    return _DECODER.decode(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        numbers = Counter(key for key, _ in pairs)
        repeated = [key for key, number in numbers.items() if number > 1]
        raise ValueError(f"the key '{repeated[0]}' occurs twice in one object")
    return values


# made once, as `json.loads` would make one for each row of a corpus
_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; raises a YAMLError if a mapping has a key twice."""
    # imported in functions: a summary on the command line reads no YAML
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
                # `<<` merges another mapping, and may occur several times
                if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                    continue
                if key.value in keys:
                    problem = f"the key '{key.value}' occurs twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                keys.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def read_record(path: Path, problem_of: Callable[[Any], str | None]) -> Any:
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
    raise ValueError(f"{path}: cannot be read ({problem}): remove it if the folder's results may be lost")


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record and, if necessary, its folder."""
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000))


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The settings of `now` that differ from `before`, as `name BEFORE, now NOW`."""
    return [
        f"{name} {_short(before.get(name))}, now {_short(now[name])}" for name in now if before.get(name) != now[name]
    ]


def shown(differences: Sequence[str]) -> str:
    """Differences in the form of messages: the first ones, and the number of others."""
    more = f"; and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
    return "; ".join(differences[:_NAMED]) + more


def _short(value: Any) -> str:
    return "not set" if value is None else textwrap.shorten(str(value), 60, placeholder=" ...")


def to_json(value: Any, **settings: Any) -> str:
    """A value as JSON, with null for numbers that JSON lacks, such as NaN, and strings for values of other types."""
    settings = {"ensure_ascii": False, "default": str, **settings}
    try:
        return json.dumps(value, allow_nan=False, **settings)
    except ValueError:
        return json.dumps(finite(value), **settings)


def spreadsheet_text(text: str) -> str:
    """A text as a cell of a CSV file, after an apostrophe if spreadsheets would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def finite(value: Any) -> Any:
    """A value with None for the numbers in it that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(member) for name, member in value.items()}
    return [finite(member) for member in value] if isinstance(value, list | tuple) else value
