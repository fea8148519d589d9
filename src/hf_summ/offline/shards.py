"""Shards: equal numbers of consecutive rows, each of which becomes one file."""

import csv
import gzip
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.files import check_is_local, moved_into_place
from hf_summ.common.messages import one_line
from hf_summ.common.records import spreadsheet_text, to_json
from hf_summ.data.columns import has_text, is_list_column, written_texts
from hf_summ.data.files import is_row_file
from hf_summ.runtimes.documents import SOURCES

_NAME = "shard-"
# format of a folder's files -> the end of their names
FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
# of files, such as .xlsx, but not .v2
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}")
# the end of the name of a single file of all rows -> the format of its shards
_FILES = {".parquet": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".csv": "jsonl"}
# columns besides the summary: the number of tokens of the document, how many of them were not read, why there is no
# summary, and what to look at. The last two are empty strings if there is nothing to say
ADDED_COLUMNS = {"source_tokens": pa.int64(), "cut_tokens": pa.int64(), "error": pa.string(), "note": pa.string()}
# with which Excel recognizes UTF-8
_CSV_ENCODING = "utf-8-sig"
# in a cell of a CSV file; columns of numbers stay what they are
_NUMBER = re.compile(r"[+-]?[\d.,]+")
_WRITE_AGAIN = "remove it, and rerun the command to write it again"


@dataclass(frozen=True)
class Example:
    """What a model reads of a row: its document, or its documents, and its columns of `SOURCES`."""

    text: str | list[str]
    source: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """Shard `number`: the rows from `number · rows_per_shard` on; None stands for a row without a text."""

    number: int
    examples: list[Example | None]


class Summary(NamedTuple):
    """What is written beside a row: the summary or, without one, the reason; numbers of tokens, and a note."""

    text: str | None
    source_tokens: int | None = None
    cut_tokens: int | None = None
    error: str = ""
    note: str = ""
    is_unfinished: bool = False


@dataclass(frozen=True)
class Plan:
    """The division of rows into shards, the columns to keep, and the output folder.

    Args:
        rows: the rows.
        text_column: the column of the documents; a list of texts is one example of several documents.
        columns: the columns to keep; all if None.
        output_column: the column for the summaries.
        rows_per_shard: number of rows of every shard but the last.
        folder: the output folder.
        format: one of `FORMATS`.
        file: a file for the rows of all shards, which replaces the folder at the end.
        inputs: the files of the rows.
        csv_separator: separator of the fields in a .csv `file`.
    """

    rows: datasets.Dataset
    text_column: str
    columns: list[str] | None
    output_column: str
    rows_per_shard: int
    folder: Path
    format: str
    file: Path | None = None
    inputs: tuple[Path, ...] = ()
    csv_separator: str = ","

    def check(self) -> None:
        """Check the names of the folder and of columns, and the texts' type.

        Raises:
            ValueError: a name cannot be used, or the column has no texts, or other values than texts or lists of texts.
        """
        path = self.file or self.folder
        problem = None
        is_named_like_file = is_row_file(path) or _EXTENSION.fullmatch(path.suffix)
        if self.file is None and is_named_like_file and not path.is_dir():
            problem = f"must be a {', '.join(_FILES)} file, or a folder, which has no extension"
        elif self.file is not None and path.is_dir():
            problem = "is a folder, but named like a file"
        elif os.path.realpath(path) in map(os.path.realpath, self.inputs):
            problem = "would replace the input; give it another name"
        if problem is not None:
            raise ValueError(f"--output {one_line(path.name)}: {problem}")
        for name in self.columns or []:
            if name not in self.rows.column_names:
                columns = one_line(", ".join(self.rows.column_names))
                raise ValueError(f"--columns {one_line(name)}: the columns are {columns}")
        names = [*self.kept_columns, self.output_column, *ADDED_COLUMNS]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"--output_column {one_line(self.output_column)}: the output would have two columns "
                    f"'{one_line(name)}': name another, or choose other --columns"
                )
        where = ", ".join(map(str, self.inputs)) or "the rows"
        is_list_column(self.rows, self.text_column, where)
        if not self._has_texts():
            raise ValueError(f"{where}: column '{self.text_column}' holds no text: name another with `text_column`")

    def _has_texts(self) -> bool:
        """Whether a row has a text."""
        rows = self.rows.select_columns([self.text_column])
        return any(self._example(row, []) is not None for row in rows)

    @property
    def kept_columns(self) -> list[str]:
        """The columns of the input that the output keeps, in the input's order."""
        if self.columns is not None:
            return [name for name in self.rows.column_names if name in self.columns]
        replaced = self.replaced_columns
        return [name for name in self.rows.column_names if name not in replaced]

    @property
    def replaced_columns(self) -> list[str]:
        """The columns of an earlier output, if the input is one and no columns are chosen: new ones replace them."""
        names = self.rows.column_names
        is_output = {"source_tokens", "cut_tokens", "error"}.issubset(names)
        if not is_output or self.columns is not None:
            return []
        added = {self.output_column, *ADDED_COLUMNS} - {self.text_column}
        return [name for name in names if name in added]

    @property
    def number(self) -> int:
        """Number of shards."""
        return math.ceil(len(self.rows) / self.rows_per_shard)

    def rows_of(self, number: int) -> range:
        """The indices of a shard's rows."""
        first = number * self.rows_per_shard
        return range(first, min(first + self.rows_per_shard, len(self.rows)))

    def words_for(self, number: int) -> str:
        """The rows of a shard, for messages."""
        indices = self.rows_of(number)
        return f"rows {indices.start + 1:,} to {indices.stop:,}"

    def shard(self, number: int) -> Shard:
        """What a model reads of a shard's rows."""
        sources = [name for name in SOURCES if name in self.rows.column_names]
        read_columns = [self.text_column, *sources]
        rows = self.rows.select_columns(read_columns).select(self.rows_of(number))
        return Shard(number, [self._example(row, sources) for row in rows])

    def _example(self, row: dict[str, Any], sources: list[str]) -> Example | None:
        value = row[self.text_column]
        text = written_texts(value) if isinstance(value, list) else value
        if isinstance(text, str) and not has_text(text):
            return None
        if not text:
            return None
        source = {name: row[name] for name in sources if row[name] is not None}
        return Example(text, source)

    def done(self) -> set[int]:
        """The numbers of the shards that are written.

        Raises:
            ValueError: a file of the folder is no shard, or not complete.
        """
        numbers = set()
        for path in sorted(self.folder.glob(f"{_NAME}*{FORMATS[self.format]}")):
            digits = path.name[len(_NAME) :].partition(".")[0]
            number = int(digits) if digits.isdecimal() else self.number
            if number >= self.number or path.name != self._path(number).name:
                raise ValueError(f"{path} is not a shard of these summaries: remove it, or name another folder")
            count, expected = _rows_in(path), len(self.rows_of(number))
            if count != expected:
                raise ValueError(f"{path}: has {count} rows, but was written with {expected}: {_WRITE_AGAIN}")
            numbers.add(number)
        return numbers

    def write(self, number: int, summaries: list[Summary]) -> None:
        """Write a shard's file, completely or not at all.

        Raises:
            OSError: it cannot be written.
        """
        indices = self.rows_of(number)
        kept_rows = self.rows.select_columns(self.kept_columns).with_format("arrow")
        table = kept_rows[indices.start : indices.stop].replace_schema_metadata(None)
        table = table.append_column(self.output_column, pa.array([summary.text for summary in summaries], pa.string()))
        for name, value_type in ADDED_COLUMNS.items():
            values = [getattr(summary, name) for summary in summaries]
            table = table.append_column(name, pa.array(values, value_type))
        path = self._path(number)
        try:
            with moved_into_place(path) as draft:
                if self.format == "parquet":
                    pq.write_table(table, draft)
                else:
                    _write_lines(table, draft)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise OSError(f"{path}: cannot be written ({reason}): rerun the command once it can") from error

    def join(self, file: Path) -> None:
        """Write the rows of all shards to one file, completely or not at all, and remove their folder."""
        shards = [self._path(number) for number in range(self.number)]
        with moved_into_place(file) as draft:
            if self.format == "parquet":
                _join_tables(shards, draft)
            elif file.suffix == ".csv":
                _join_as_csv(shards, draft, self.csv_separator)
            else:
                _join_lines(shards, draft, is_compressed=file.suffix == ".gz")
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{_NAME}{number:08d}{FORMATS[self.format]}"


@dataclass(frozen=True)
class Destination:
    """Where summaries are written, see `Plan`."""

    folder: Path
    format: str
    file: Path | None = None


def destination(output: str | Path, format: str | None) -> Destination:
    """The destination of an output folder, or of an output that is named like a file.

    Raises:
        ValueError: the name sets another format, or is a URL.
    """
    check_is_local("--output", output)
    path = Path(os.path.realpath(output))
    for ending, file_format in _FILES.items():
        if path.name.endswith(ending):
            if format not in (None, file_format):
                raise ValueError(f"--format {format}: the name of --output {one_line(path.name)} sets another: omit it")
            return Destination(path.with_name(f".{path.name}.shards"), file_format, path)
    return Destination(path, format or "parquet")


def _write_lines(table: pa.Table, path: Path) -> None:
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as lines:
        for row in table.to_pylist():
            lines.write(f"{to_json(row)}\n".encode())


def _join_tables(shards: list[Path], path: Path) -> None:
    with pq.ParquetWriter(path, pq.read_schema(shards[0])) as writer:
        for shard in shards:
            writer.write_table(pq.read_table(shard))


def _join_as_csv(shards: list[Path], path: Path, separator: str) -> None:
    with open(path, "w", encoding=_CSV_ENCODING, newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        for index, row in enumerate(_read_lines(shards)):
            if index == 0:
                writer.writerow(spreadsheet_text(name) for name in row)
            writer.writerow(_cell(value) for value in row.values())


def _read_lines(shards: list[Path]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        with gzip.open(shard, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _join_lines(shards: list[Path], path: Path, is_compressed: bool) -> None:
    # compressed files can follow each other
    opener = open if is_compressed else gzip.open
    with open(path, "wb") as lines:
        for shard in shards:
            with opener(shard, "rb") as shard_lines:
                shutil.copyfileobj(shard_lines, lines)


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else to_json(value)
    return text if _NUMBER.fullmatch(text) else spreadsheet_text(text)


def _rows_in(path: Path) -> int:
    """The number of rows of a shard's file; only the end of a Parquet file is read."""
    try:
        if path.suffix == ".parquet":
            return pq.read_metadata(path).num_rows
        with gzip.open(path) as lines:
            return sum(1 for _ in lines)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a complete file ({one_line(error)}): {_WRITE_AGAIN}") from error
