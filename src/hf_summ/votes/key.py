"""The key of sheets: which system wrote the summary on which side."""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hf_summ.common.files import write_atomically
from hf_summ.common.mappings import parse_json
from hf_summ.models.text_cleaning import readable
from hf_summ.votes.protocols import Protocol


@dataclass(frozen=True)
class Compared:
    """An item: a document, and the two systems whose summaries of it are compared."""

    document: str
    first: str
    second: str


@dataclass(frozen=True)
class Sides:
    """A sheet: its voter, and for each item the system on side A."""

    voter: str
    on_a: Mapping[str, str]


@dataclass(frozen=True)
class Key:
    """What turns votes for sides into votes for systems.

    Args:
        protocol: what was asked.
        seed: with which the sheets were made.
        items: item -> what it compares.
        sheets: sheet -> its sides.
    """

    protocol: Protocol
    seed: int
    items: Mapping[str, Compared]
    sheets: Mapping[str, Sides]

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of systems that are compared, in their order."""
        return list(dict.fromkeys((item.first, item.second) for item in self.items.values()))

    def write(self, path: str | os.PathLike) -> None:
        """Write the key to the file `path` as JSON."""
        # names of files may have bytes that are no text
        write_atomically(path, readable(json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)) + "\n")


def read_key(path: str | os.PathLike) -> Key:
    """Read the key that was written to the file `path`.

    Raises:
        ValueError: there is no such file, or it is not a key.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file} does not exist: name the key that was written with the sheets")
    try:
        told = parse_json(file.read_text(encoding="utf-8"))
        key = Key(
            Protocol(**told["protocol"]),
            told["seed"],
            {id: Compared(**item) for id, item in told["items"].items()},
            {id: Sides(**sheet) for id, sheet in told["sheets"].items()},
        )
        whole = _is_whole(key)
    except (AttributeError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{file} is not a key of sheets: name the one that was written with them")
    return key


def _is_whole(key: Key) -> bool:
    """Whether all that was read is what it must be, and each sheet has each item."""
    items, sheets = key.items, key.sheets.values()
    voters = {sides.voter for sides in sheets}
    return (
        isinstance(key.seed, int)
        and all(isinstance(text, str) for item in items.values() for text in vars(item).values())
        and all(isinstance(voter, str) for voter in voters)
        and len(voters) == len(sheets)
        and all(
            sides.on_a.keys() == items.keys()
            and all(on_a in (items[id].first, items[id].second) for id, on_a in sides.on_a.items())
            for sides in sheets
        )
    )
