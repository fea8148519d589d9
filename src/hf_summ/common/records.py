"""Records: YAML files that say what the results in a folder are of, so that no other settings continue them."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hf_summ.common.files import write_atomically
from hf_summ.common.mappings import parse_yaml
from hf_summ.common.messages import one_line

# differences that a message names; the record has all settings
_NAMED = 4


def read_record(path: Path, problem_of: Callable[[Any], str | None]) -> Any:
    """The content of a record, or None if there is none.

    Args:
        problem_of: what is wrong with the content, or None; it may raise what content of another form makes it raise.

    Raises:
        ValueError: the record cannot be read, or something is wrong with it.
    """
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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000))


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The settings of `now` that were others before, as `name BEFORE, now NOW`."""
    return [
        f"{name} {_short(before.get(name))}, now {_short(now[name])}" for name in now if before.get(name) != now[name]
    ]


def shown(found: Sequence[str]) -> str:
    """Differences as a message names them: the first ones, and how many more there are."""
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(found[:_NAMED]) + more


def _short(value: Any) -> str:
    return "not set" if value is None else textwrap.shorten(str(value), 60, placeholder=" ...")
