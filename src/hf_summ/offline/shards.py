"""Shards: equal numbers of consecutive rows, each of which becomes one file."""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import nearest, one_line
from hf_summ.data.columns import has_text, text_or_texts
from hf_summ.data.streams import Unread, stored

_NAME = "shard-"
FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
# columns besides the summary: the document's number of tokens before truncation, the number of removed tokens, and why
# there is no summary, or an empty string
ADDED_COLUMNS = ("source_tokens", "cut_tokens", "error")


class Row(NamedTuple):
    """A row to summarize: its kept columns, its document or documents, and otherwise why it has none."""

    values: dict[str, Any]
    text: str | list[str] | None
    error: str


@dataclass(frozen=True)
class Shard:
    """Shard `number`: the rows from `number · rows_per_shard` on."""

    number: int
    rows: list[Row]


@dataclass(frozen=True)
class Summarized:
    """A shard's rows with their summaries, ready to be written.

    Args:
        unlike: how documents differ from those of the model's training, for documents that do.
    """

    number: int
    rows: list[dict[str, Any]]
    unlike: tuple[str, ...] = ()


class RowSource(Protocol):
    """`FileRows` or `HubRows`."""

    @property
    def number(self) -> int | None:
        """Number of rows, if known."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the rows."""
        ...

    def read(self, start: int = 0) -> Iterator[Unread]:
        """The rows from number `start` on."""
        ...


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
    """

    source: RowSource
    text_column: str
    columns: list[str] | None
    output_column: str
    rows_per_shard: int
    folder: Path
    format: str

    def check(self) -> None:
        """Check the names of columns.

        Raises:
            ValueError: a column does not exist, contains no text, or has the name of an added one.
        """
        schema = self.source.schema
        for flag, names in (("text_column", [self.text_column]), ("columns", self.columns or [])):
            for name in names:
                if name not in schema.names:
                    known = one_line(", ".join(schema.names)) or "(none)"
                    hint = one_line(nearest(name, schema.names))
                    raise ValueError(f"--{flag} {one_line(name)}: the columns are {known}{hint}")
        kind = schema.field(self.text_column).type
        if not _is_text(kind) and not (pa.types.is_list(kind) and _is_text(kind.value_type)):
            raise ValueError(
                f"--text_column {one_line(self.text_column)}: must contain text, but has {kind}: name another column"
            )
        if self.output_column in ADDED_COLUMNS:
            raise ValueError(
                f"--output_column {self.output_column}: {', '.join(ADDED_COLUMNS)} are added too: name another"
            )
        added = [self.output_column, *ADDED_COLUMNS]
        for name in self.kept:
            if name == self.output_column:
                raise ValueError(
                    f"--output_column {one_line(name)}: the input has such a column: name another, such as generated"
                )
            if name in added:
                raise ValueError(f"the input has a column '{name}', which is added: keep only others with --columns")

    @property
    def kept(self) -> list[str]:
        """The kept columns of the input, in its order."""
        return [name for name in self.source.schema.names if self.columns is None or name in self.columns]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the output."""
        kept = [self.source.schema.field(name) for name in self.kept]
        tokens, error = (
            [pa.field(name, pa.int64()) for name in ADDED_COLUMNS[:2]],
            pa.field(ADDED_COLUMNS[2], pa.string()),
        )
        return pa.schema([*kept, pa.field(self.output_column, pa.string()), *tokens, error])

    @property
    def number(self) -> int | None:
        """Number of shards, if the number of rows is known."""
        rows = self.source.number
        return None if rows is None else -(-rows // self.rows_per_shard)

    def shards(self, done: set[int]) -> Iterator[Shard]:
        """The remaining shards, in order; rows before the first of them are not parsed."""
        first = next(number for number in range(len(done) + 1) if number not in done)
        kept = pa.schema([self.source.schema.field(name) for name in self.kept])
        number, rows = first, []
        for index, (where, read) in enumerate(self.source.read(first * self.rows_per_shard)):
            number = first + index // self.rows_per_shard
            if number not in done:
                rows.append(self._row(where, read, kept))
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

    def _row(self, where: str, read: Callable[[], dict[str, Any]], kept: pa.Schema) -> Row:
        values: dict[str, Any] = {}
        try:
            row = read()
            values = stored(row, kept)
            text = text_or_texts(row, self.text_column, where)
        except ValueError as error:
            return Row(values or dict.fromkeys(kept.names), None, one_line(error))
        if not has_text(text):
            return Row(values, None, f"{where}: '{self.text_column}' is blank")
        return Row(values, [part for part in text if part and has_text(part)] if isinstance(text, list) else text, "")

    def done(self) -> set[int]:
        """The numbers of the shards that are written.

        Raises:
            ValueError: a file is named like a shard, but is not one of the plan's, or lacks rows.
        """
        found = set()
        for path in sorted(self.folder.glob(f"{_NAME}*{FORMATS[self.format]}")):
            digits = path.name[len(_NAME) :].partition(".")[0]
            number = int(digits) if digits.isdecimal() else 0
            if path.name != self._path(number).name or number >= (self.number or math.inf):
                raise ValueError(f"{path}: no shard of these summaries: remove it, or name another folder")
            rows, most = _rows_in(path), self.rows_per_shard
            if self.source.number is not None:
                most = min(most, self.source.number - number * most)
            # if the source's length is unknown, the last shard may be shorter
            if rows != most and (self.source.number is not None or not 0 < rows < most):
                raise ValueError(
                    f"{path}: has {rows} rows, but was written with {most}: remove it, and the same command writes it "
                    "again"
                )
            found.add(number)
        return found

    def write(self, shard: Summarized) -> None:
        """Write a shard's file, completely or not at all.

        Raises:
            OSError: it cannot be written.
        """
        path = self._path(shard.number)
        try:
            with moved_into_place(path) as part:
                if self.format == "parquet":
                    pq.write_table(pa.Table.from_pylist(shard.rows, self.schema), part)
                else:
                    with open(part, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                        for row in shard.rows:
                            packed.write(f"{_as_json(row)}\n".encode())
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise OSError(f"{path}: cannot be written ({reason}): the same command resumes once it can") from error

    def _path(self, number: int) -> Path:
        return self.folder / f"{_NAME}{number:08d}{FORMATS[self.format]}"


def _rows_in(path: Path) -> int:
    """The number of rows of a shard's file; only the end of a Parquet file is read."""
    try:
        if path.suffix == ".parquet":
            return pq.read_metadata(path).num_rows
        with gzip.open(path) as lines:
            return sum(1 for _ in lines)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path}: not a complete file ({one_line(error)}): remove it, and the same command writes it again"
        ) from error


def _as_json(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(row), ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    """The value with None for numbers that are not JSON, such as pandas' NaN for missing values."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
