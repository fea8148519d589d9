"""Whether a document is like those that a model was trained on: in length, and in how its text falls into tokens."""

from collections.abc import Mapping
from typing import Any

from .checks import is_list, is_number

# name -> the form and the unit of its values. Text in another language or without words falls into many short tokens
_SHOWN = {"tokens_per_character": ("{:.3g}", "tokens a character"), "characters": ("{:,.0f}", "characters")}


def measured(document: str | list[str], tokens: int) -> dict[str, float]:
    """What is compared of a document, or of several of one example, by name.

    Args:
        tokens: their number, before any cut.
    """
    characters = len(document) if isinstance(document, str) else sum(map(len, document))
    return {"tokens_per_character": tokens / max(characters, 1), "characters": characters}


def checked_ranges(ranges: Any) -> Mapping[str, Any]:
    """The `source_ranges` of a config: what is `measured` -> its least and greatest value in training, or no entry.

    Args:
        ranges: what the config has; None is no entries.

    Raises:
        ValueError: it is something else.
    """
    entries = {} if ranges is None else ranges
    is_known = isinstance(entries, Mapping) and entries.keys() <= _SHOWN.keys()
    if not is_known or not all(is_list(pair) and [*map(is_number, pair)] == [True, True] for pair in entries.values()):
        raise ValueError(f"`source_ranges` is {ranges!r:.80}, but must be two numbers for each of {', '.join(_SHOWN)}")
    return entries


def difference(document: str | list[str], tokens: int, ranges: Mapping[str, Any]) -> str | None:
    """How a document differs from those of the training, or None if it does not.

    Args:
        tokens: as for `measured`.
        ranges: as `checked_ranges` returns them.
    """
    for name, value in measured(document, tokens).items():
        least, most = ranges.get(name, (value, value))
        if not least <= value <= most:
            form, unit = _SHOWN[name]
            own, least, most = map(form.format, (value, least, most))
            return f"{own} {unit}, theirs {least} to {most}"
    return None
