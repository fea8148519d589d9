"""Rows of corpus files, one at a time, each with the place where it stands."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from huggingface_hub.utils import tqdm

ROW_FILES = (".json", ".jsonl", ".csv")
KNOWN_FILES = (
    "a .json, .jsonl or .csv file, an X.source with X.target beside it, or 'documents.txt,summaries.txt' "
    "(line-aligned); each also as .gz"
)
# a file that is read within this many seconds shows no bar
_PATIENCE = 3.0


def locate(name: str) -> tuple[Path, ...]:
    """The corpus file that `name` says, or the two files of a line-aligned pair.

    Raises:
        ValueError: a file is not there, is empty, or is of no known kind.
    """
    parts = name.split(",")
    if len(parts) == 2 and not Path(name).exists():
        pair = (Path(parts[0].strip()), Path(parts[1].strip()))
        if any(_kind(path) in ROW_FILES for path in pair):
            raise ValueError(
                f"{name}: a pair is two plain texts, line by line; of {', '.join(ROW_FILES)} name one file"
            )
        return _existing(pair[0]), _existing(pair[1])
    path = _existing(Path(name))
    kind = _kind(path)
    if kind == ".source":
        return path, _target_of(path)
    if kind not in ROW_FILES:
        raise ValueError(f"{path}: cannot tell from '{kind}' how to read this file. A corpus file is {KNOWN_FILES}")
    return (path,)


def read_rows(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of what `locate` found, and its place: `line 7`, or `row 7` in a .json list.

    Line-aligned pairs give rows of `document` and `summary`. A byte-order mark and either kind of line end are taken;
    blank lines are passed over, except in pairs, where every line counts.

    Raises:
        ValueError: the text is not UTF-8, the compression is broken, a line is not a row, or a pair's files differ in
            length. The message names the file and the line.
    """
    if len(paths) == 2:
        return _pair_rows(*paths, show_progress)
    reader = _csv_rows if _kind(paths[0]) == ".csv" else _json_rows
    return reader(paths[0], show_progress)


def read_lines(path: Path, show_progress: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of each line, its end included; only line feeds end a line.

    Raises:
        ValueError: the text is not UTF-8, or the compression is broken.
    """
    number = 0
    with (
        open(path, "rb") as raw,
        tqdm(
            total=path.stat().st_size,
            desc=f"checking {path.name}",
            unit="B",
            unit_scale=True,
            delay=_PATIENCE,
            disable=not show_progress,
        ) as bar,
    ):
        try:
            for number, line in enumerate(gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw, 1):
                yield number, line.decode("utf-8-sig")
                if not number % 1000:
                    bar.update(raw.tell() - bar.n)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start + 1}): convert the file"
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}: not a whole .gz file, reading ends after line {number} ({error}): copy or compress it again"
            ) from None


def _json_rows(path: Path, show_progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = read_lines(path, show_progress)
    for number, line in lines:
        if line.isspace():
            continue
        if line.lstrip().startswith("["):
            yield from _json_list(path, number, line, lines)
            return
        try:
            # control characters inside strings are not strict JSON, but what they say is plain
            row = json.loads(line, strict=False)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not a JSON row ({error.msg} at character {error.pos + 1}), perhaps cut off: "
                'each line must be one whole object such as {"document": "...", "summary": "..."}'
            ) from None
        yield f"line {number}", _object(path, f"line {number}", row)


def _json_list(
    path: Path, number: int, line: str, rest: Iterable[tuple[int, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    text = line + "".join(line for _, line in rest)
    try:
        rows = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number + error.lineno - 1}: the list of rows is not whole JSON ({error.msg} at character "
            f"{error.colno}), perhaps cut off: mend it, or write one row a line"
        ) from None
    for index, row in enumerate(rows, 1):
        yield f"row {index}", _object(path, f"row {index}", row)


def _object(path: Path, place: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(
            f"{path}, {place}: {type(row).__name__} where an object such as "
            f'{{"document": "...", "summary": "..."}} must stand: {row!r:.80}'
        )
    return row


def _csv_rows(path: Path, show_progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    # the module's own limit of 131,072 characters a field is below a long document
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
            if len(values) != len(names):
                raise ValueError(
                    f"{path}, {place}: {len(values)} fields where the header names {len(names)} ({', '.join(names)}): "
                    'a field that holds commas or line ends stands in "quotes"'
                )
            yield place, dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path}, {place}: not a CSV row ({error}): is a quotation mark left open there, or not doubled?"
        ) from None


def _pair_rows(source: Path, target: Path, show_progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    pairs = zip_longest(read_lines(source, show_progress), read_lines(target))
    for number, (document, summary) in enumerate(pairs, 1):
        if document is None or summary is None:
            longer = number + sum(1 for _ in pairs)
            counts = (number - 1, longer) if document is None else (longer, number - 1)
            raise ValueError(
                f"{source} has {counts[0]} lines and {target} has {counts[1]}: line {number} has no partner. Each line "
                "of the one must belong to the same line of the other"
            )
        yield f"line {number}", {"document": document[1].rstrip("\r\n"), "summary": summary[1].rstrip("\r\n")}


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name the file in it, which is {KNOWN_FILES}")
    if not path.is_file():
        raise ValueError(f"{path} is not there. A corpus file is {KNOWN_FILES}")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty: it must hold at least one document and its summary")
    return path


def _kind(path: Path) -> str:
    """The ending that says how to read it, without .gz."""
    return Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()


def _target_of(source: Path) -> Path:
    stem = source.with_suffix("") if source.suffix == ".gz" else source
    candidates = [stem.with_suffix(".target"), stem.with_suffix(".target.gz")]
    for candidate in candidates:
        if candidate.exists():
            return _existing(candidate)
    raise ValueError(f"{source} has no summaries beside it: {candidates[0]} (or .gz) is not there")
