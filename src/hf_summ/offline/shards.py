"""Shards: equal numbers of consecutive rows, each of which becomes one file."""

import csv
import gzip
import json
import math
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import nearest, one_line
from hf_summ.common.records import to_json
from hf_summ.data.former_columns import has_text, names_in, text_or_texts
from hf_summ.data.lists import as_example
from hf_summ.data.rows import ROW_FILES, kind_of_file
from hf_summ.data.streams import FileRows, HubRows, stored
from hf_summ.models.pipeline_documents import SOURCES

_NAME = "shard-"
FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
# of files, such as .xlsx, but not .v2
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}")
# the end of the name of a single file of all rows -> the format of its shards
_FILES = {".parquet": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".csv": "jsonl"}
# columns besides the summary: the document's number of tokens before truncation, the number of removed tokens, and why
# there is no summary, or an empty string
ADDED_COLUMNS = ("source_tokens", "cut_tokens", "error")
_WRITE_AGAIN = "remove it, and rerun the command to write it again"


class Row(NamedTuple):
    """A row to summarize: its kept columns, its document or documents, and otherwise why it has none.

    `source` are its columns of `SOURCES`, which some models read beside the document.
    """

    values: dict[str, Any]
    text: str | list[str] | None
    error: str = ""
    source: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Shard:
    """Shard `number`: the rows from `number · rows_per_shard` on."""

    number: int
    rows: list[Row]


@dataclass(frozen=True)
class Summarized:
    """A shard's rows with their summaries, ready to be written.

    Args:
        empty: number of empty summaries.
        unfinished: number of summaries that have the most tokens allowed, and may be cut off.
    """

    number: int
    rows: list[dict[str, Any]]
    empty: int = 0
    unfinished: int = 0


@dataclass(frozen=True)
class Plan:
    """The division of rows into shards, the columns to keep, and the output folder.

    Args:
        source: the rows.
        text_column: the column of the documents; a list of texts is one example of several documents.
        columns: the columns to keep; all if None.
        output_column: the column for the summaries.
        rows_per_shard: number of rows of every shard but the last.
        folder: the output folder.
        format: one of `FORMATS`.
        file: a file for the rows of all shards, which replaces the folder at the end.
    """

    source: FileRows | HubRows
    text_column: str
    columns: list[str] | None
    output_column: str
    rows_per_shard: int
    folder: Path
    format: str
    file: Path | None = None

    def check(self) -> None:
        """Check the names of the folder and of columns."""
        path = self.file or self.folder
        inputs = [path.resolve() for path in self.source.paths] if isinstance(self.source, FileRows) else ()
        problem = None
        is_named_like_file = kind_of_file(path) in ROW_FILES or _EXTENSION.fullmatch(path.suffix)
        if self.file is None and is_named_like_file and not path.is_dir():
            problem = f"must be a {', '.join(_FILES)} file, or a folder, which has no extension"
        elif self.file is not None and path.is_dir():
            problem = "is a folder, but named like a file"
        elif path in inputs:
            problem = "would replace the input; give it another name"
        if problem is not None:
            raise ValueError(f"--output {one_line(path.name)}: {problem}")
        schema = self.source.schema
        # one within objects, whose texts are checked row by row
        is_within = self.text_column not in schema.names and set() < names_in(self.text_column) <= {*schema.names}
        for flag, names in (("text_column", [self.text_column] * (not is_within)), ("columns", self.columns or [])):
            for name in names:
                if name not in schema.names:
                    columns = one_line(", ".join(schema.names)) or "(none)"
                    hint = one_line(nearest(name, schema.names))
                    raise ValueError(f"--{flag} {one_line(name)}: the columns are {columns}{hint}")
        column_type = pa.string() if is_within else schema.field(self.text_column).type
        # lists of a fixed size or with large offsets have other types
        if not _is_text(getattr(column_type, "value_type", column_type)):
            raise ValueError(f"--text_column {one_line(self.text_column)}: must contain text, but has {column_type}")
        names = self.schema.names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(
                f"--output_column {one_line(self.output_column)}: the output would have two columns "
                f"'{one_line(twice)}': name another, or choose other --columns"
            )

    @property
    def kept_columns(self) -> list[str]:
        """The columns of the input that the output keeps, in the input's order."""
        return [name for name in self.source.schema.names if self.columns is None or name in self.columns]

    @property
    def _kept_schema(self) -> pa.Schema:
        return pa.schema([self.source.schema.field(name) for name in self.kept_columns])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the output."""
        added = zip(
            (self.output_column, *ADDED_COLUMNS), (pa.string(), pa.int64(), pa.int64(), pa.string()), strict=True
        )
        return pa.schema([*self._kept_schema, *(pa.field(name, column_type) for name, column_type in added)])

    @property
    def number(self) -> int | None:
        """Number of shards, if the number of rows is known."""
        rows = self.source.number
        return None if rows is None else -(-rows // self.rows_per_shard)

    def shards(self, done: set[int]) -> Iterator[Shard]:
        """The remaining shards, in order; rows before the first of them are not parsed."""
        first = next(number for number in range(len(done) + 1) if number not in done)
        schema = self._kept_schema
        number, rows = first, []
        for index, (where, read) in enumerate(self.source.read(first * self.rows_per_shard)):
            number = first + index // self.rows_per_shard
            if number not in done:
                rows.append(self._row(where, read, schema))
                if len(rows) == self.rows_per_shard:
                    yield Shard(number, rows)
                    rows = []
        if rows:
            yield Shard(number, rows)

    def rows_of(self, number: int) -> str:
        """The rows of a shard, in words."""
        first = number * self.rows_per_shard
        last = first + self.rows_per_shard
        return f"rows {first + 1:,} to {min(last, self.source.number or last):,}"

    def _row(self, where: str, read: Callable[[], dict[str, Any]], schema: pa.Schema) -> Row:
        values: dict[str, Any] = {}
        try:
            row = read()
            values = stored(row, schema)
            text = text_or_texts(row, self.text_column, where)
        except ValueError as error:
            return Row(values or dict.fromkeys(schema.names), None, one_line(error))
        if not has_text(text):
            return Row(values, None, f"{where}: '{self.text_column}' is blank")
        example = as_example(text, self.text_column) if isinstance(text, list) else text
        return Row(values, example, source={name: row[name] for name in SOURCES if row.get(name) is not None})

    def done(self) -> set[int]:
        """The numbers of the shards that are written."""
        numbers = set()
        for path in sorted(self.folder.glob(f"{_NAME}*{FORMATS[self.format]}")):
            digits = path.name[len(_NAME) :].partition(".")[0]
            number = int(digits) if digits.isdecimal() else 0
            if path.name != self._path(number).name or number >= (self.number or math.inf):
                raise ValueError(f"{path} is not a shard of these summaries: remove it, or name another folder")
            rows, expected = _rows_in(path), self.rows_per_shard
            if self.source.number is not None:
                expected = min(expected, self.source.number - number * expected)
            # if the source's length is unknown, the last shard may be shorter
            if rows != expected and (self.source.number is not None or not 0 < rows < expected):
                raise ValueError(f"{path}: has {rows} rows, but was written with {expected}: {_WRITE_AGAIN}")
            numbers.add(number)
        return numbers

    def write(self, shard: Summarized) -> None:
        """Write a shard's file, completely or not at all."""
        path = self._path(shard.number)
        try:
            with moved_into_place(path) as temporary:
                if self.format == "parquet":
                    pq.write_table(pa.Table.from_pylist(shard.rows, self.schema), temporary)
                    return
                with open(temporary, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as lines:
                    for row in shard.rows:
                        lines.write(f"{to_json(row)}\n".encode())
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise OSError(f"{path}: cannot be written ({reason}): rerun the command once it can") from error

    def join(self, file: Path) -> None:
        """Write the rows of all shards to one file, completely or not at all, and remove their folder."""
        shards = [self._path(number) for number in sorted(self.done())]
        with moved_into_place(file) as draft:
            if self.format == "parquet":
                with pq.ParquetWriter(draft, self.schema) as rows:
                    for shard in shards:
                        rows.write_table(pq.read_table(shard))
            elif file.suffix == ".csv":
                with open(draft, "w", encoding="utf-8", newline="") as lines:
                    rows = csv.writer(lines)
                    rows.writerow(self.schema.names)
                    for shard in shards:
                        with gzip.open(shard, "rt", encoding="utf-8") as own:
                            rows.writerows(map(_cell, json.loads(line).values()) for line in own)
            else:
                with open(draft, "wb") as lines:
                    for shard in shards:
                        # compressed files can follow each other
                        with open(shard, "rb") if file.suffix == ".gz" else gzip.open(shard) as own:
                            shutil.copyfileobj(own, lines)
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{_NAME}{number:08d}{FORMATS[self.format]}"


def destination(output: str | Path, format: str | None) -> dict[str, Any]:
    """The plan's `folder`, `format` and `file` for an output folder, or for an output that is named like a file."""
    path = Path(output).resolve()
    of_file = next((name for ending, name in _FILES.items() if path.name.endswith(ending)), None)
    if of_file is None:
        return {"folder": path, "format": format or "parquet"}
    if format not in (None, of_file):
        raise ValueError(f"--format {format}: the name of --output {one_line(path.name)} sets another: omit it")
    return {"folder": path.with_name(f".{path.name}.shards"), "format": of_file, "file": path}


def _cell(value: Any) -> str | None:
    return value if isinstance(value, str | None) else to_json(value)


def _rows_in(path: Path) -> int:
    """The number of rows of a shard's file; only the end of a Parquet file is read."""
    try:
        if path.suffix == ".parquet":
            return pq.read_metadata(path).num_rows
        with gzip.open(path) as lines:
            return sum(1 for _ in lines)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a complete file ({one_line(error)}): {_WRITE_AGAIN}") from error


def _is_text(column_type: pa.DataType) -> bool:
    return pa.types.is_string(column_type) or pa.types.is_large_string(column_type)
