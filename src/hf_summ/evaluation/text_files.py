"""Files of predictions, references and sources, line by line or row by row, and whether they belong together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_summ.data.columns import DOCUMENT_COLUMNS, DOCUMENT_SEPARATOR, SUMMARY_COLUMNS
from hf_summ.data.rows import ROW_FILES, kind_of_file, read_lines, read_rows

# the first that a file has is taken
PREDICTION_COLUMNS = ("prediction", "summary")
REFERENCE_COLUMNS = tuple(dict.fromkeys(("references", "reference", *SUMMARY_COLUMNS)))


@dataclass(frozen=True)
class TextFile:
    """The texts of a file in its order.

    Args:
        column: where they stand in each row, or None for plain text.
        rows: (N,) of texts: one a row, or several, as references may be.
        places: (N,), where each row stands: `line 7`, or `row 7` of a .json list.
        ids: (N,), or None where not every row has one.
    """

    name: str
    column: str | None
    rows: list[list[str]]
    places: list[str]
    ids: list[Any] | None = None

    def texts(self) -> list[str]:
        """(N,): the first text of each row."""
        return [row[0] for row in self.rows]


def read_predictions(file: str) -> TextFile:
    """One text a row: the column `prediction`, or else `summary`.

    Plain text has one text a line, blank lines included, so that files can be aligned; .json, .jsonl and .csv have rows
    with named columns. Each may be compressed as .gz.

    Raises:
        ValueError: a file that is not there, a folder, empty or not UTF-8, a broken row, no such column, something that
            is no text, NUL characters. Messages name the file and the line.
    """
    return _read(file, "predictions", PREDICTION_COLUMNS, _one)


def read_references(file: str) -> TextFile:
    """One text or several a row: the column `references`, `reference`, or `summary` or another name for summaries.

    Raises:
        ValueError: as `read_predictions`; no row holds more than space.
    """
    return _not_blank(_read(file, "references", REFERENCE_COLUMNS, _several), "references")


def read_sources(file: str) -> TextFile:
    """One text a row: the column `document` or another name for it; a list (`documents`) is joined by blank lines.

    Raises:
        ValueError: as `read_references`.
    """
    return _not_blank(_read(file, "sources", DOCUMENT_COLUMNS, _joined), "sources")


def read_text(file: str | Path) -> str:
    """A whole file as one text.

    Raises:
        ValueError: a file that is not there, blank or not UTF-8.
    """
    try:
        # a byte-order mark is no part of the text
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in UTF-8 (byte {error.start}): convert it") from error
    if not text.strip():
        raise ValueError(f"{file} is blank: give a text to judge")
    return text


def check_aligned(one: TextFile, other: TextFile) -> None:
    """Whether the rows of two files belong together.

    Raises:
        ValueError: their ids differ, which the first such row is named for, or they are not equally many.
    """
    if one.ids is not None and other.ids is not None:
        for row, (id_1, id_2) in enumerate(zip(one.ids, other.ids, strict=False)):
            # a number may have become a string on its way through a corpus
            if str(id_1) != str(id_2):
                raise ValueError(
                    f"{one.name}, {one.places[row]} has the id {id_1!r} and {other.name}, {other.places[row]} has "
                    f"{id_2!r}: rows of the same id must stand in the same order"
                )
    if len(one.rows) != len(other.rows):
        shorter, longer = sorted((one, other), key=lambda file: len(file.rows))
        raise ValueError(
            f"{one.name} has {len(one.rows)} texts and {other.name} has {len(other.rows)}: "
            f"{longer.places[len(shorter.rows)]} of {longer.name} has no partner. Each text of the one must belong to "
            "the same row of the other"
        )


def _read(file: str, kind: str, columns: Sequence[str], texts: Callable[[Any], list[str] | None]) -> TextFile:
    path = Path(file)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name the file of the {kind} in it")
    if not path.is_file():
        raise ValueError(f"{path} is not there: name a file of {kind}")
    column = None
    rows, places, ids = [], [], []
    for place, column, value, key in _values(path, kind, columns):
        row = texts(value)
        if row is None:
            raise ValueError(
                f"{path}, {place}: '{column}' holds {type(value).__name__}, not text ({value!r:.60}): write {kind} as "
                "strings"
            )
        _check_characters(row, f"{path}, {place}")
        rows.append(row)
        places.append(place)
        ids.append(key)
    if not rows:
        raise ValueError(f"{path} is empty: it must hold the {kind}")
    return TextFile(str(path), column, rows, places, None if None in ids else ids)


def _values(path: Path, kind: str, columns: Sequence[str]) -> Iterator[tuple[str, str | None, Any, Any]]:
    """Place, column, value and id of each row; the first row chooses the column. Plain text has no columns and ids."""
    if kind_of_file(path) not in ROW_FILES:
        for number, line in read_lines(path, show_progress=True):
            yield f"line {number}", None, line.rstrip("\r\n"), None
        return
    column = None
    for place, row in read_rows((path,), show_progress=True):
        column = column or next((name for name in columns if name in row), None)
        if column is None:
            raise ValueError(
                f"{path}, {place}: no column that is known to hold {kind}, the columns are "
                f"{', '.join(row) or '(none)'}: name one '{columns[0]}'"
            )
        if column not in row:
            raise ValueError(f"{path}, {place}: no column '{column}' in this row, which has {', '.join(row) or 'none'}")
        yield place, column, row[column], row.get("id")


def _check_characters(texts: list[str], where: str) -> None:
    for text in texts:
        if "\0" in text:
            raise ValueError(
                f"{where}: NUL at character {text.index(chr(0)) + 1}: not text in UTF-8, or not written to its end: "
                "convert the file or write it again"
            )


def _not_blank(read: TextFile, kind: str) -> TextFile:
    if not any(text.strip() for row in read.rows for text in row):
        raise ValueError(f"{read.name} is blank in all of its {len(read.rows)} rows: it must hold the {kind}")
    return read


def _one(value: Any) -> list[str] | None:
    if value is None:
        return [""]
    return [value] if isinstance(value, str) else None


def _several(value: Any) -> list[str] | None:
    if not isinstance(value, list):
        return _one(value)
    return value if value and all(isinstance(text, str) for text in value) else None


def _joined(value: Any) -> list[str] | None:
    several = _several(value)
    return None if several is None else [DOCUMENT_SEPARATOR.join(several)]
