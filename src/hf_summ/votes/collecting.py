"""Votes that voters made on their sheets: reading them, and their outcomes for sides and systems."""

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hf_summ.common.messages import one_line, unknown_choice
from hf_summ.evaluation.words import first_of
from hf_summ.votes.sheets import Key

# A vote is for the summary on side A or B, or for neither.
CHOICES = ("A", "B", "tie")
# The outcome of each choice for side A.
_OUTCOMES = {"A": 1.0, "B": -1.0, "tie": 0.0}
# The spellings of choices that people write into tables, in lower case.
_SPELLINGS = {"a": "A", "b": "B", "tie": "tie", "summary a": "A", "summary b": "B"}
# Mechanical Turk prefixes this to the columns of its input and to the answers.
_TURK_PREFIX = re.compile(r"^(?:Input|Answer)\.")


@dataclass(frozen=True)
class Votes:
    """The choices of all voters.

    A sheet has the votes of one voter. An item is a pair of summaries of a document, and an aspect is a question on it.

    Args:
        key: the key of the voters' sheets.
        choices: (sheet, item) -> aspect -> "A", "B" or "tie". Unanswered aspects are left out.
    """

    key: Key
    choices: dict[tuple[str, str], dict[str, str]]

    def sheets(self) -> list[str]:
        """The sheets that have votes, in the key's order."""
        voted = {sheet for sheet, _ in self.choices}
        return [sheet for sheet in self.key.sheets if sheet in voted]

    def missing(self) -> dict[str, list[tuple[str, str]]]:
        """Voter -> the item and the aspect of each missing vote. Voters without missing votes are left out."""
        missing = {}
        for sheet, sides in self.key.sheets.items():
            missing_of_voter = []
            for item in self.key.items:
                answers = self.choices.get((sheet, item), {})
                for aspect in self.key.protocol.aspects:
                    if aspect not in answers:
                        missing_of_voter.append((item, aspect))
            if missing_of_voter:
                missing[sides.voter] = missing_of_voter
        return missing

    def sides(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """The outcomes of votes in an aspect for the summaries on side A.

        Args:
            pair: the names of the two systems of a pair.
            aspect: the name of an aspect.

        Returns:
            (V, N), with a row for each of V sheets with votes, and a column for each of N items of the pair: 1 where
            the summary on side A won, -1 where it lost, 0 for a tie, NaN for a missing vote.
        """
        items = self._items(pair)
        rows = []
        for sheet in self.sheets():
            row = []
            for item in items:
                choice = self.choices.get((sheet, item), {}).get(aspect)
                row.append(np.nan if choice is None else _OUTCOMES[choice])
            rows.append(row)
        return np.array(rows)

    def outcomes(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """The outcomes of votes in an aspect for the first system of a pair, (V, N), in the form of `sides`.

        Args:
            pair: the names of the two systems of a pair.
            aspect: the name of an aspect.
        """
        items = self._items(pair)
        signs = []
        for sheet in self.sheets():
            on_a = self.key.sheets[sheet].on_a
            row = []
            for item in items:
                row.append(1.0 if on_a[item] == pair[0] else -1.0)
            signs.append(row)
        # Where the first system is on side B, its outcome is the opposite of the outcome of side A.
        return self.sides(pair, aspect) * np.array(signs)

    def _items(self, pair: tuple[str, str]) -> list[str]:
        """The items that compare the two systems."""
        return [id for id, item in self.key.items.items() if (item.first, item.second) == pair]


def read_votes(files: Iterable[str | os.PathLike], key: Key) -> Votes:
    """Read the votes of all voters.

    Args:
        files: files that voters downloaded from their pages (.json), or tables that they filled in (.csv). A table may
            also have the results of Mechanical Turk, of which rejected assignments are skipped.
        key: the key of the sheets on which the votes were made.

    Raises:
        ValueError: a file does not exist or has no rows of votes; the key does not have a sheet or an item; a voter has
            voted twice on the same item; a choice is unknown; or there are no votes. The message names the file and the
            row.
    """
    choices: dict[tuple[str, str], dict[str, str]] = {}
    # The file and the row of each sheet's vote on an item, for messages.
    positions: dict[tuple[str, str], str] = {}
    for row in _rows(files, key):
        sheet = str(row.values["sheet"]).strip()
        item = str(row.values["item"]).strip()
        _check_sheet_and_item(sheet, item, key, row.position)
        answers = _answers(row, key)
        if not answers:
            continue
        if (sheet, item) in choices:
            raise ValueError(
                f"{row.position}: {key.sheets[sheet].voter} has voted on {item} before, in {positions[sheet, item]}: "
                "leave out one of them"
            )
        choices[sheet, item] = answers
        positions[sheet, item] = row.position
    if not choices:
        raise ValueError("there are no votes: all files are empty")
    return Votes(key, choices)


def missing_votes(votes: Votes) -> list[str]:
    """A line for each voter with missing votes, which names the first missing votes."""
    expected = len(votes.key.items) * len(votes.key.protocol.aspects)
    lines = []
    for voter, missing in votes.missing().items():
        if len(missing) == expected:
            lines.append(f"{voter} has not voted at all")
        else:
            names = [f"{item} ({aspect})" for item, aspect in missing]
            lines.append(f"{len(missing)} of {expected} votes of {voter} are missing: {first_of(names)}")
    return lines


@dataclass(frozen=True)
class _Row:
    """A row of a file of votes.

    Attributes:
        position: the file and the number of the row, for messages.
        values: column -> value, without the prefixes of Mechanical Turk.
    """

    position: str
    values: Mapping[str, object]


def _rows(files: Iterable[str | os.PathLike], key: Key) -> Iterator[_Row]:
    """Yield the rows that may have votes: rows that are not empty, and were not rejected on Mechanical Turk.

    Raises:
        ValueError: a file cannot be read, or lacks a column.
    """
    for file in files:
        path = Path(file)
        for row_number, cells in enumerate(_read_rows(path), 1):
            values = {_TURK_PREFIX.sub("", name): value for name, value in cells.items()}
            row = _Row(f"{path}, row {row_number}", values)
            _check_columns(row, key)
            # Spreadsheets may save empty rows at the end. Mechanical Turk's results keep work that was rejected.
            if any(values.values()) and values.get("AssignmentStatus") != "Rejected":
                yield row


def _read_rows(path: Path) -> list[dict[str, object]]:
    """The rows of a file of votes, each as column -> value.

    Raises:
        ValueError: there is no such file, it is neither .json nor .csv, or it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv") or not path.is_file():
        raise ValueError(f"{path}: not a file of votes: name one downloaded from a page, or a filled-in .csv")
    try:
        if suffix == ".csv":
            return _csv_rows(path)
        return _json_rows(path)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {one_line(error)}") from error


def _csv_rows(path: Path) -> list[dict[str, object]]:
    """The rows of a table, as `_read_rows`.

    Raises:
        csv.Error: the file is not a table.
        ValueError: the file is not in UTF-8, or a row has more fields than the header.
    """
    # A document may be longer than the default limit of 131,072 characters.
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows: list[dict] = list(csv.DictReader(file, strict=True))
    for row_number, row in enumerate(rows, 1):
        # An unquoted comma would shift votes to other columns.
        if None in row:
            raise ValueError(f"row {row_number} has more fields than the header")
    return rows


def _json_rows(path: Path) -> list[dict[str, object]]:
    """The rows of a file that a page wrote, as `_read_rows`.

    Raises:
        ValueError: the file is not a list of rows in JSON.
    """
    rows = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of rows")
    return rows


def _check_columns(row: _Row, key: Key) -> None:
    """Raise a ValueError if the row lacks a column."""
    columns = ["sheet", "item"]
    columns.extend(key.protocol.aspects)
    for column in columns:
        if column not in row.values:
            found = _short(", ".join(row.values)) or "(none)"
            raise ValueError(
                f"{row.position}: no column '{column}'; the columns are {found}: name votes of the key's sheets, and "
                "save tables with commas between columns"
            )


def _check_sheet_and_item(sheet: str, item: str, key: Key, position: str) -> None:
    """Raise a ValueError unless the key has the sheet and the item."""
    if sheet not in key.sheets:
        raise ValueError(
            f"{position}: the sheet '{_short(sheet)}' is not in the key: give the key file written with the sheet"
        )
    if item not in key.items:
        raise ValueError(f"{position}: the sheet has no item '{_short(item)}': leave the first columns as they are")


def _answers(row: _Row, key: Key) -> dict[str, str]:
    """Aspect -> choice, for the aspects of a row that are answered.

    Raises:
        ValueError: a choice is unknown.
    """
    answers = {}
    for aspect in key.protocol.aspects:
        value = row.values[aspect]
        answer = "" if value is None else str(value).strip()
        if not answer:
            continue
        if answer.lower() not in _SPELLINGS:
            raise ValueError(f"{row.position}: {unknown_choice(f'`{aspect}`', answer, CHOICES)}")
        answers[aspect] = _SPELLINGS[answer.lower()]
    return answers


def _short(text: str) -> str:
    """The first 200 characters of a text, in one line."""
    return f"{one_line(text):.200}"
