"""Votes read back from voters' files, with checks of their content."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hf_summ.common.messages import one_line, unknown_choice
from hf_summ.data.rows import ROW_FILES, kind_of_file, read_rows
from hf_summ.evaluation.words import first_of
from hf_summ.votes.sheets import CHOICES, Key

# the outcome for side A
_VALUES = dict(zip(CHOICES, (1.0, -1.0, 0.0), strict=True))
# spellings of choices that people write into tables
_AS_WRITTEN = {choice.lower(): choice for choice in CHOICES}


@dataclass(frozen=True)
class Votes:
    """The choices of all voters.

    Args:
        key: of their sheets.
        choices: (sheet, item) -> aspect -> "A", "B" or "tie"; without unanswered aspects.
    """

    key: Key
    choices: dict[tuple[str, str], dict[str, str]]

    def sheets(self) -> list[str]:
        """The sheets that have votes, in the key's order."""
        voted = {sheet for sheet, _ in self.choices}
        return [sheet for sheet in self.key.sheets if sheet in voted]

    def missing(self) -> dict[str, list[tuple[str, str]]]:
        """Voter -> item and aspect of each missing vote."""
        missing = {}
        for sheet, sides in self.key.sheets.items():
            missing[sides.voter] = [
                (item, aspect)
                for item in self.key.items
                for aspect in self.key.protocol.aspects
                if aspect not in self.choices.get((sheet, item), {})
            ]
        return {voter: votes for voter, votes in missing.items() if votes}

    def sides(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """(V, N) for sheets with votes and the items of a `pair`: 1 where the summary on side A won in the `aspect`.

        -1 where it lost, 0 for a tie, NaN for a missing vote.
        """
        items = self._items(pair)
        choices = [[self.choices.get((sheet, item), {}).get(aspect) for item in items] for sheet in self.sheets()]
        return np.array([[np.nan if choice is None else _VALUES[choice] for choice in row] for row in choices])

    def outcomes(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """As `sides` of the `pair` and `aspect`, but for the pair's first system instead of side A."""
        of_sheets = [self.key.sheets[sheet].on_a for sheet in self.sheets()]
        signs = [[1.0 if on_a[item] == pair[0] else -1.0 for item in self._items(pair)] for on_a in of_sheets]
        return self.sides(pair, aspect) * np.array(signs)

    def _items(self, pair: tuple[str, str]) -> list[str]:
        return [id for id, item in self.key.items.items() if (item.first, item.second) == pair]


def read_votes(files: Iterable[str | os.PathLike], key: Key) -> Votes:
    """Read `files` that voters downloaded from their pages (.json), or tables that they filled in (.csv).

    Raises:
        ValueError: a file that does not exist or has no rows of votes; votes on sheets or items that the key does not
            have, two votes of a voter on the same item, an unknown choice, or no votes. Messages name the file and row.
    """
    choices: dict[tuple[str, str], dict[str, str]] = {}
    read_at: dict[tuple[str, str], str] = {}
    for where, row in _rows(files, key):
        sheet, item = str(row["sheet"]), str(row["item"])
        if sheet not in key.sheets:
            raise ValueError(
                f"{where}: the sheet '{_short(sheet)}' is not in the key: name the key that was written with it"
            )
        if item not in key.items:
            raise ValueError(f"{where}: the sheet has no item '{_short(item)}': leave the first columns as they are")
        answers = {aspect: _choice(row[aspect], aspect, where) for aspect in key.protocol.aspects}
        answered = {aspect: choice for aspect, choice in answers.items() if choice is not None}
        if not answered:
            continue
        if (sheet, item) in choices:
            raise ValueError(
                f"{where}: {key.sheets[sheet].voter} has voted on {item} before, in {read_at[sheet, item]}: leave out "
                "one of them"
            )
        choices[sheet, item], read_at[sheet, item] = answered, where
    if not choices:
        raise ValueError("there are no votes: all files are empty")
    return Votes(key, choices)


def missing_votes(votes: Votes) -> list[str]:
    """A line for each voter with missing votes, which names the first of them."""
    expected = len(votes.key.items) * len(votes.key.protocol.aspects)
    return [
        f"{voter} has not voted at all"
        if len(missing) == expected
        else f"{len(missing)} of {expected} votes of {voter} are missing: "
        + first_of([f"{item} ({aspect})" for item, aspect in missing])
        for voter, missing in votes.missing().items()
    ]


def _rows(files: Iterable[str | os.PathLike], key: Key) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in files:
        path = Path(file)
        if kind_of_file(path) not in ROW_FILES or not path.is_file():
            raise ValueError(
                f"{path}: not a file of votes: name one that was downloaded from a page, or a filled-in .csv"
            )
        for line, row in read_rows((path,)):
            for column in ("sheet", "item", *key.protocol.aspects):
                if column not in row:
                    raise ValueError(
                        f"{path}, {line}: no column '{column}'; the columns are {_short(', '.join(row)) or '(none)'}: "
                        "name votes of the key's sheets, and save tables with commas between columns"
                    )
            yield f"{path}, {line}", row


def _short(text: str) -> str:
    """Content of a file, shortened for messages."""
    return f"{one_line(text):.200}"


def _choice(value: Any, aspect: str, where: str) -> str | None:
    written = "" if value is None else str(value).strip()
    if written and written.lower() not in _AS_WRITTEN:
        raise ValueError(f"{where}: {unknown_choice(f'`{aspect}`', written, CHOICES)}")
    return _AS_WRITTEN.get(written.lower())
