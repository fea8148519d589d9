"""Files of predictions, references and sources: reading lines or rows, sentence tags, alignment."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hf_summ.data.columns import DOCUMENT_COLUMNS, REFERENCE_COLUMNS, choose_column
from hf_summ.data.rows import ROW_FILES, STREAMED_FILES, kind_of_file, read_lines, read_rows
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

# from PreSumm, Pegasus, the pointer-generator network, bottom-up summarization, ProphetNet, and UniLM and arXiv
SENTENCE_TAGS = ("<q>", "<n>", "<s>", "</s>", "<t>", "</t>", "[X_SEP]", "<S_SEP>", "<S>", "</S>")
# the separator that keeps tags as words
NO_SEPARATOR = "none"
# the first of these columns that a file has is used
PREDICTION_COLUMNS = ("prediction", "summary")


def tag_pattern(separator: str | None = None) -> re.Pattern[str]:
    """The pattern of the tags between sentences.

    Args:
        separator: the mark between sentences, such as `|||`; by default any of `SENTENCE_TAGS`.

    Raises:
        ValueError: `separator` is blank.
    """
    if separator is None:
        return re.compile("|".join(map(re.escape, SENTENCE_TAGS)))
    if not separator.strip():
        raise ValueError(f"`separator` is {separator!r:.80}, but must be a tag or a mark between sentences")
    return re.compile(re.escape(separator.strip()))


def without_tags(text: str, tag: re.Pattern[str]) -> str:
    """The text with line ends in place of tags."""
    sentences = list(map(str.strip, tag.split(text)))
    return text if len(sentences) == 1 else "\n".join(filter(None, sentences))


@dataclass(frozen=True)
class TextFile:
    """The texts of a file, in the file's order.

    Args:
        name: path of the file.
        column: column of the texts, or None for plain text.
        rows: (N,) lists of texts: one per row, or several references.
        places: (N,), where each row is in the file: `line 7`, or `row 7` of a .json list.
        ids: (N,), or None unless every row has one.
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
    """Read one text per row from the column `prediction` or, failing that, `summary`.

    Plain text has one text per line; blank lines are kept for alignment. .json, .jsonl, .csv and .parquet have rows
    with named columns. All but the last may be compressed as .gz.

    Raises:
        ValueError: a file that does not exist, is empty or not UTF-8; a broken row, a missing column, a value that is
            not a string, or NUL characters. Messages name the file and the line.
    """
    return _read(file, PREDICTION_COLUMNS, _one, None, "'prediction'")


def read_references(file: str, column: str | None = None) -> TextFile:
    """Read one or several texts per row from `column`, by default the first of `REFERENCE_COLUMNS` that exists."""
    return _read(file, REFERENCE_COLUMNS, _several, column, "with `summary_column`")


def read_sources(file: str, column: str | None = None) -> TextFile:
    """Read one text per row from `column`, by default the first of `DOCUMENT_COLUMNS`; blank lines join lists."""
    return _read(file, DOCUMENT_COLUMNS, _joined, column, "with `text_column`")


def part_sentences(file: TextFile, separator: str | None = None) -> tuple[TextFile, list[str]]:
    """The texts with line ends in place of tags between sentences, and a note of each tag that occurs.

    Args:
        separator: as for `tag_pattern`; "none" leaves the texts as they are.

    Raises:
        ValueError: as `tag_pattern`.
    """
    if separator == NO_SEPARATOR:
        return file, []
    tag = tag_pattern(separator)
    counts = Counter(name for row in file.rows for name in {name for text in row for name in tag.findall(text)})
    rows = [[without_tags(text, tag) for text in row] for row in file.rows] if counts else file.rows
    notes = [
        f"{file.name}: {number} of {len(rows)} rows contain {name}, read as the end of a sentence"
        for name, number in sorted(counts.items())
    ]
    return replace(file, rows=rows), notes


def read_text(file: str | Path) -> str:
    """Read a whole file as one text.

    Raises:
        OSError: it cannot be read.
        ValueError: it is blank or not UTF-8.
    """
    try:
        # a byte-order mark does not belong to the text
        text = Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text (byte {error.start}): convert it") from error
    if not text.strip():
        raise ValueError(f"{file} is blank: give a text to judge")
    return text


def check_aligned(one: TextFile, other: TextFile) -> None:
    """Check that the rows of two files belong together.

    Raises:
        ValueError: their ids differ (the message names the first such row), or their numbers of rows differ.
    """
    if one.ids is not None and other.ids is not None:
        for row, (id_1, id_2) in enumerate(zip(one.ids, other.ids, strict=False)):
            # processing a corpus may have turned numbers into strings
            if str(id_1) != str(id_2):
                raise ValueError(
                    f"{one.name}, {one.places[row]} has the id {id_1!r:.80} and {other.name}, {other.places[row]} has "
                    f"{id_2!r:.80}: both files must have their ids in the same order"
                )
    if len(one.rows) != len(other.rows):
        shorter, longer = sorted((one, other), key=lambda file: len(file.rows))
        raise ValueError(
            f"{one.name} has {len(one.rows)} texts and {other.name} has {len(other.rows)}: "
            f"{longer.places[len(shorter.rows)]} of {longer.name} has no counterpart; both must have the same rows"
        )


def _read(
    file: str,
    columns: Sequence[str],
    texts: Callable[[Any], list[str] | None],
    column: str | None,
    hint: str,
) -> TextFile:
    path = Path(file)
    # os.path, as Path's methods fail on names that are too long
    if not os.path.isfile(path):
        raise ValueError(f"{path!s:.255} is not a file: name one with a text per line, or with rows")
    rows, places, ids = [], [], []
    chosen = None
    for place, chosen, value, key in _values(path, columns, column, hint):
        row = texts(value)
        if row is None:
            raise ValueError(f"{path}, {place}: '{chosen}' must be text, but is {type(value).__name__}: {value!r:.60}")
        if nul := next((text for text in row if "\0" in text), None):
            raise ValueError(
                f"{path}, {place}: NUL at character {nul.index(chr(0)) + 1}, so the file is not UTF-8 text, or was not "
                "written completely: convert it, or write it again"
            )
        rows.append(row)
        places.append(place)
        ids.append(key)
    if not rows:
        raise ValueError(f"{path} is empty: it must contain texts")
    return TextFile(str(path), chosen, rows, places, None if None in ids else ids)


def _values(
    path: Path, columns: Sequence[str], column: str | None, hint: str
) -> Iterator[tuple[str, str | None, Any, Any]]:
    """Place, column, value and id of each row; the first row sets the column. Plain text has no columns and ids."""
    if kind_of_file(path) not in STREAMED_FILES:
        if column is not None:
            raise ValueError(f"{path}: plain text has no columns: name none {hint}")
        for number, line in read_lines(path, show_progress=True):
            yield f"line {number}", None, line.rstrip("\r\n"), None
        return
    chosen = None
    for place, row in _rows(path):
        chosen = chosen or choose_column(list(row), column, columns, f"{path}, {place}", hint)
        if chosen not in row:
            raise ValueError(f"{path}, {place}: no column '{chosen}'; the columns are {', '.join(row) or '(none)'}")
        yield place, chosen, row[chosen], row.get("id")


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if kind_of_file(path) in ROW_FILES:
        yield from read_rows((path,), show_progress=True)
        return
    # imported here, as it is slow
    from hf_summ.data.streams import FileRows

    for number, (_, read) in enumerate(FileRows([path]).read(), 1):
        yield f"row {number}", read()


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
