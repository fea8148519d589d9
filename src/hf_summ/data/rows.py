"""Rows of corpus files, read one at a time, with their places in the file."""

import csv
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hf_summ.common.messages import progress_bar
from hf_summ.common.records import parse_json
from hf_summ.models.text_documents import readable

# in bytes; a whole corpus may be a list in a single line, which needs several times its size in memory
_LONGEST_LINE = 2**30
ROW_FILES = (".json", ".jsonl", ".csv")
STREAMED_FILES = (*ROW_FILES, ".parquet")
KNOWN_FILES = (
    "a .json, .jsonl or .csv file, an X.source beside its X.target, or 'documents.txt,summaries.txt' "
    "(line-aligned); each also as .gz"
)


def locate(name: str) -> tuple[Path, ...]:
    """The corpus file `name`, or the two files of a line-aligned pair.

    Raises:
        ValueError: a file does not exist, is empty or is of an unknown kind.
    """
    parts = name.split(",")
    if len(parts) == 2 and not os.path.exists(name):
        pair = (Path(parts[0].strip()), Path(parts[1].strip()))
        if any(kind_of_file(path) in ROW_FILES for path in pair):
            raise ValueError(
                f"{name}: a pair must be two line-aligned plain texts: of {', '.join(ROW_FILES)} files, name one"
            )
        return existing(pair[0]), existing(pair[1])
    path = existing(Path(name))
    kind = kind_of_file(path)
    if kind == ".source":
        return path, _target_of(path)
    if kind not in ROW_FILES:
        raise ValueError(f"{path}: cannot tell from '{kind}' how to read this file: name {KNOWN_FILES}")
    return (path,)


def existing(path: Path) -> Path:
    """`path`, if it is a file that is not empty.

    Raises:
        ValueError: it does not exist, is a folder, or is empty.
    """
    # os.path, as Path's methods fail on names that are too long
    if os.path.isdir(path):
        raise ValueError(
            f"{path} is a folder: name the file in it, which must be {KNOWN_FILES}; or set `data_format`, if the data "
            "set is distributed in such folders"
        )
    if not os.path.isfile(path):
        raise ValueError(f"{path} does not exist: name {KNOWN_FILES}")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty: it must contain at least one document and its summary")
    return path


def kind_of_file(path: Path) -> str:
    """The extension that determines how to read the file; .gz is ignored."""
    return Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()


def read_rows(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of the files found by `locate`, and its place: `line 7`, or `row 7` in a .json list.

    Line-aligned pairs yield rows of `document` and `summary`. Byte-order marks and both kinds of line end are accepted.
    Blank lines are skipped, except in pairs, where every line counts.

    Raises:
        ValueError: text that is not UTF-8, broken compression, a line that is not a row, or a pair whose files differ
            in length. The message names the file and the line.
    """
    if len(paths) == 2:
        return _pair_rows(*paths, show_progress)
    return ((place, read()) for place, read in unread_rows(paths[0], show_progress))


def unread_rows(path: Path, show_progress: bool = False) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The place of each row of a .json, .jsonl or .csv file as in `read_rows`, and a function that reads the row.

    Rows can thus be skipped without parsing them, and an unreadable row does not end the iteration: its function raises
    the ValueError that `read_rows` would raise.

    Raises:
        ValueError: the file is unreadable: not UTF-8, broken compression, an unclosed quotation mark.
    """
    return (_csv_rows if kind_of_file(path) == ".csv" else _json_rows)(path, show_progress)


def read_lines(path: Path, show_progress: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of each line, including its end; only line feeds end a line.

    Raises:
        ValueError: the text is not UTF-8, has an endless line or lines that end with carriage returns only, or the
            compression is broken.
    """
    number = 0
    size, shown = path.stat().st_size, {"unit": "B", "unit_scale": True, "disable": not show_progress}
    with open(path, "rb") as raw, progress_bar(None, f"checking {path.name}", size, **shown) as bar:
        try:
            # decompressed in pieces, as a small file may contain a line that fills the memory
            source = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            for number, line in enumerate(iter(partial(source.readline, _LONGEST_LINE + 1), b""), 1):
                # concatenated files have byte-order marks in the middle
                text = line.decode("utf-8").lstrip("\ufeff")
                _check_line(line, number, f"{path}, line {number}")
                yield number, text
                if not number % 1000:
                    bar.update(raw.tell() - bar.n)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start + 1}): convert the file"
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}: not a complete .gz file, as reading ends after line {number} ({error}): copy or compress it "
                "again"
            ) from None


def _check_line(line: bytes, number: int, where: str) -> None:
    if len(line) > _LONGEST_LINE:
        raise ValueError(
            f"{where}: longer than {_LONGEST_LINE >> 20} MiB, too long for a document: write one row per line"
        )
    # a few NUL characters are only reported, see `Survey`
    if b"\0" in line and line.count(0) * 4 > len(line):
        raise ValueError(
            f"{where}: mostly NUL, so the file is not UTF-8 but perhaps UTF-16, or was not written completely: convert "
            "it, or write it again"
        )
    if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
        raise ValueError(f"{where}: its lines end with carriage returns only: convert them to line feeds")


def read_aligned(paths: Sequence[Path], show_progress: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Number of each line and its texts in all files, without line ends.

    Raises:
        ValueError: the files differ in length, or as `read_lines`.
    """
    readers = [read_lines(path, show_progress and path is paths[0]) for path in paths]
    together = zip_longest(*readers)
    for number, lines in enumerate(together, 1):
        if None in lines:
            counts = [number - 1 if line is None else number for line in lines]
            for later in together:
                counts = [count if line is None else line[0] for count, line in zip(counts, later, strict=True)]
            one, other = sorted((counts.index(max(counts)), counts.index(min(counts))))
            raise ValueError(
                f"{paths[one]} has {counts[one]} lines and {paths[other]} has {counts[other]}: line {number} has no "
                "counterpart; both must have the same lines"
            )
        yield number, [text.rstrip("\r\n") for _, text in lines]


def _json_rows(path: Path, show_progress: bool) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    lines = read_lines(path, show_progress)
    for number, line in lines:
        if line.isspace():
            continue
        if line.lstrip().startswith("["):
            yield from _json_list(path, number, line, lines)
            return
        yield f"line {number}", partial(_json_row, path, number, line)


def _json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        # control characters inside strings violate strict JSON, but are unambiguous
        row = parse_json(line, strict=False)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: not a JSON row ({_reason(error, error.pos + 1)}), perhaps truncated: each "
            'line must be a complete object such as {"document": "...", "summary": "..."}'
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: cannot be read as a row: {error}") from None
    return _object(path, f"line {number}", row)


def _json_list(
    path: Path, number: int, line: str, rest: Iterable[tuple[int, str]]
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    text = line + "".join(line for _, line in rest)
    try:
        rows = parse_json(text, strict=False)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number + error.lineno - 1}: the list of rows is not valid JSON ("
            f"{_reason(error, error.colno)}), perhaps truncated: repair it, or write one row per line"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: the list of rows cannot be read: {error}") from None
    for index, row in enumerate(rows, 1):
        yield f"row {index}", partial(_object, path, f"row {index}", row)


def _reason(error: json.JSONDecodeError, character: int) -> str:
    # one is "Unterminated string starting at"
    return f"{error.msg.removesuffix(' at')} at character {character}"


def _object(path: Path, place: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(
            f'{path}, {place}: a row must be an object such as {{"document": "...", "summary": "..."}}, but is '
            f"{type(row).__name__}: {row!r:.80}"
        )
    for name in row:
        # neither tables nor files can have a column of that name
        if name != readable(name):
            raise ValueError(f"{path}, {place}: the column {name!r:.80} has a lone surrogate in its name: rename it")
    return row


def _csv_rows(path: Path, show_progress: bool) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    # long documents exceed the module's default limit of 131,072 characters per field
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader((line for _, line in read_lines(path, show_progress)), strict=True)
    names: list[str] | None = None
    place = "line 1"
    try:
        while True:
            place = f"line {reader.line_num + 1}"
            values = next(reader, None)
            if values is None:
                return
            if not values:
                continue
            if names is None:
                names = [name.strip() for name in values]
                if len(set(names)) < len(names):
                    raise ValueError(
                        f"{path}, {place}: two columns have the same name ({', '.join(names)}): rename one"
                    )
                continue
            yield place, partial(_csv_row, path, place, names, values)
    except csv.Error as error:
        raise ValueError(
            f"{path}, {place}: not a CSV row ({error}): is a quotation mark not closed, or not doubled?"
        ) from None


def _csv_row(path: Path, place: str, names: list[str], values: list[str]) -> dict[str, Any]:
    if len(values) != len(names):
        raise ValueError(
            f"{path}, {place}: {len(values)} fields, but the header names {len(names)} ({', '.join(names)}): "
            'put fields that contain commas or line ends in "quotes"'
        )
    return dict(zip(names, values, strict=True))


def _pair_rows(source: Path, target: Path, show_progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, (document, summary) in read_aligned((source, target), show_progress):
        yield f"line {number}", {"document": document, "summary": summary}


def _target_of(source: Path) -> Path:
    stem = source.with_suffix("") if source.suffix == ".gz" else source
    candidates = [stem.with_suffix(".target"), stem.with_suffix(".target.gz")]
    for candidate in candidates:
        if candidate.exists():
            return existing(candidate)
    raise ValueError(f"{source} has no summaries beside it: {candidates[0]} (or .gz) does not exist")
