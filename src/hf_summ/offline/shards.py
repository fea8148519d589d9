"""Shards: equal numbers of consecutive rows, each of which becomes one file."""

import csv
import gzip
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.files import check_is_local, moved_into_place
from hf_summ.common.messages import one_line
from hf_summ.common.records import spreadsheet_text, to_json
from hf_summ.data.columns import has_text, is_list_column, nonblank_texts
from hf_summ.data.files import is_row_file
from hf_summ.runtimes.documents import EXTRA_INPUTS

if TYPE_CHECKING:
    from datasets.features.features import FeatureType

_FILE_PREFIX = "shard-"
# The formats of a folder's files, each with the end of their names.
FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
# The extension of a file, such as .xlsx; .v2 is the end of a folder's name.
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}")
# The ends of the names of a single file of all rows, each with the format of its shards.
_FILES = {".parquet": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".csv": "jsonl"}
# The columns that are written besides the summary, see `Summary`.
ADDED_COLUMNS = {"source_tokens": pa.int64(), "cut_tokens": pa.int64(), "error": pa.string(), "note": pa.string()}
# In this encoding, files begin with a byte-order mark, by which Excel recognizes UTF-8.
_CSV_ENCODING = "utf-8-sig"
# The pattern of a cell of a CSV file with a number, which is not a formula, although it may begin with a sign.
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")
_WRITE_AGAIN = "remove it, and rerun the command to write it again"


@dataclass(frozen=True)
class RowExample:
    """What a model reads of a row.

    Args:
        text: the document, or several documents to summarize together.
        extra_inputs: the values of the row's columns that `EXTRA_INPUTS` names, such as key phrases. Missing values are
            left out.
    """

    text: str | list[str]
    extra_inputs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """What a model reads of a shard's rows.

    Args:
        number: the number of the shard, from 0. Its first row has the index `number` · `rows_per_shard`.
        examples: what the model reads of each row; None for a row without a text.
    """

    number: int
    examples: list[RowExample | None]


class Summary(NamedTuple):
    """What is written beside a row, and whether the summary may be cut off.

    Args:
        text: the summary; None if there is none.
        source_tokens: number of tokens of the document.
        cut_tokens: number of these tokens that were not read.
        error: the reason why there is no summary; empty if there is one.
        note: what a reader of the summary should look at; empty if there is nothing.
        is_unfinished: whether the summary has the most tokens allowed. This is not written.
        is_full: whether the model read as many tokens as it can. This is not written.
    """

    text: str | None
    source_tokens: int | None = None
    cut_tokens: int | None = None
    error: str = ""
    note: str = ""
    is_unfinished: bool = False
    is_full: bool = False


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
        format: the format of the shards, one of `FORMATS`.
        file: a file for the rows of all shards, which replaces the folder at the end.
        inputs: the files of the rows.
        input_hashes: the hash of the content of each file in `inputs`, as the rows were read.
        csv_separator: separator of the fields in a .csv `file`.
        encoding: the encoding in which text files among the inputs were read; None for UTF-8.
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
    input_hashes: tuple[str, ...] = ()
    csv_separator: str = ","
    encoding: str | None = None

    @property
    def output(self) -> Path:
        """The path of the output that the user named: the file of all rows if there is one, or else the folder."""
        return self.file or self.folder

    @property
    def named_folder(self) -> str:
        """The beginning of a message about the folder, which ends with the folder or a colon.

        If the output is a file, the user does not know the folder, so the message also has the file.
        """
        if self.file is None:
            return f"--output {self.folder}:"
        return f"--output {self.file}: {self.folder}"

    def check(self) -> None:
        """Check the name of the output, the names of columns, and the documents.

        Raises:
            ValueError: a name cannot be used, or the column has no texts, or other values than texts or lists of texts.
        """
        problem = self._output_problem()
        if problem is not None:
            raise ValueError(f"--output {one_line(self.output.name)}: {problem}")
        self._check_columns()
        where = "the rows"
        if self.inputs:
            where = ", ".join([str(file) for file in self.inputs])
        # This raises a ValueError for values that are neither texts nor lists of texts.
        is_list_column(self.rows, self.text_column, where)
        if not self._has_texts():
            raise ValueError(f"{where}: column '{self.text_column}' holds no text: name another with `text_column`")

    def _has_texts(self) -> bool:
        """Whether at least one row has a text."""
        rows = self.rows.select_columns([self.text_column])
        return any(self._example(row, []) is not None for row in rows)

    def _output_problem(self) -> str | None:
        """The problem with the path of the output, a file or a folder; None if it has none."""
        path = self.output
        is_named_like_file = is_row_file(path) or _EXTENSION.fullmatch(path.suffix)
        if self.file is None and is_named_like_file and not path.is_dir():
            return f"must be a {', '.join(_FILES)} file, or a folder, which has no extension"
        if self.file is not None and path.is_dir():
            return "is a folder, but named like a file"
        input_paths = [os.path.realpath(file) for file in self.inputs]
        if os.path.realpath(path) in input_paths:
            return "would replace the input; give it another name"
        return None

    def _check_columns(self) -> None:
        """Raise a ValueError if a column to keep does not exist, or if the output would have a column twice."""
        for name in self.columns or []:
            if name not in self.rows.column_names:
                columns = one_line(", ".join(self.rows.column_names))
                raise ValueError(f"--columns {one_line(name)}: the columns are {columns}")
        names = self.kept_columns + [self.output_column] + list(ADDED_COLUMNS)
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"--output_column {one_line(self.output_column)}: the output would have two columns "
                    f"'{one_line(name)}': name another, or choose other --columns"
                )

    @property
    def kept_columns(self) -> list[str]:
        """The columns of the input that the output keeps, in the input's order."""
        replaced = self.replaced_columns
        kept = []
        for name in self.rows.column_names:
            is_chosen = self.columns is None or name in self.columns
            if is_chosen and name not in replaced:
                kept.append(name)
        return kept

    @property
    def replaced_columns(self) -> list[str]:
        """The columns of the input that the summaries' columns replace.

        There are such columns if the input is the output of an earlier run, and the user chose no columns to keep.
        """
        names = self.rows.column_names
        # The column `note` may be missing, as earlier versions did not write it.
        is_output = {"source_tokens", "cut_tokens", "error"}.issubset(names)
        if not is_output or self.columns is not None:
            return []
        added = {self.output_column, *ADDED_COLUMNS} - {self.text_column}
        return [name for name in names if name in added]

    @property
    def shard_count(self) -> int:
        """The number of shards. Each of them is identified by a number from 0, which other methods take as `number`."""
        return math.ceil(len(self.rows) / self.rows_per_shard)

    def rows_of(self, number: int) -> range:
        """The indices of a shard's rows."""
        first = number * self.rows_per_shard
        return range(first, min(first + self.rows_per_shard, len(self.rows)))

    def words_for(self, number: int) -> str:
        """The rows of a shard, counted from 1, in the words of a message."""
        indices = self.rows_of(number)
        return f"rows {indices.start + 1:,} to {indices.stop:,}"

    def shard(self, number: int) -> Shard:
        """What a model reads of a shard's rows."""
        extra_columns = [name for name in EXTRA_INPUTS if name in self.rows.column_names]
        rows = self.rows.select_columns([self.text_column] + extra_columns).select(self.rows_of(number))
        examples = [self._example(row, extra_columns) for row in rows]
        return Shard(number, examples)

    def _example(self, row: dict[str, Any], extra_columns: list[str]) -> RowExample | None:
        """What a model reads of a row; None if the row has no text.

        Args:
            row: the values by column.
            extra_columns: the columns that the model reads beside the documents, such as key phrases.
        """
        text = row[self.text_column]
        if isinstance(text, list):
            text = nonblank_texts(text)
        is_blank = isinstance(text, str) and not has_text(text)
        if is_blank or not text:
            return None
        extra_inputs = {}
        for name in extra_columns:
            if row[name] is not None:
                extra_inputs[name] = row[name]
        return RowExample(text, extra_inputs)

    def has_shards(self) -> bool:
        """Whether the folder has files that are named like shards, in any format."""
        return any(self.folder.glob(f"{_FILE_PREFIX}*"))

    def done(self) -> set[int]:
        """The numbers of the shards that are already in the folder, which need not be written again.

        Raises:
            ValueError: a file is named like a shard, but the plan has no such shard; or a shard is damaged or
                lacks rows.
        """
        numbers = set()
        for path in sorted(self.folder.glob(f"{_FILE_PREFIX}*{FORMATS[self.format]}")):
            number = self._number_of(path)
            if number is None:
                raise ValueError(f"{path} is not a shard of these summaries: remove it, or name another output")
            count = _rows_in(path)
            expected = len(self.rows_of(number))
            if count != expected:
                raise ValueError(f"{path}: has {count} rows, but was written with {expected}: {_WRITE_AGAIN}")
            numbers.add(number)
        return numbers

    def write(self, number: int, summaries: list[Summary]) -> None:
        """Write a shard's file, completely or not at all.

        Args:
            number: the number of the shard.
            summaries: the summaries of its rows.

        Raises:
            OSError: the file cannot be written.
        """
        indices = self.rows_of(number)
        kept_rows = self.rows.select_columns(self.kept_columns).with_format("arrow")
        kept = kept_rows[indices.start : indices.stop]
        # The columns make a new table, as one without columns has no rows to which the summaries could be added.
        columns = dict(zip(kept.column_names, kept.columns, strict=True))
        texts = [summary.text for summary in summaries]
        columns[self.output_column] = pa.array(texts, pa.string())
        for name, value_type in ADDED_COLUMNS.items():
            values = [getattr(summary, name) for summary in summaries]
            columns[name] = pa.array(values, value_type)
        table = pa.table(columns)
        path = self._path(number)
        try:
            with moved_into_place(path) as draft:
                if self.format == "parquet":
                    pq.write_table(table, draft)
                else:
                    _write_lines(table, kept_rows.features, draft)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise OSError(f"{path}: cannot be written ({reason}): rerun the command once it can") from error

    def join(self, file: Path) -> None:
        """Write the rows of all shards to one file, completely or not at all, and remove the folder of the shards.

        All shards must be written. The name of the file says whether it is a Parquet file, a CSV file or lines of JSON.
        """
        shards = [self._path(number) for number in range(self.shard_count)]
        with moved_into_place(file) as draft:
            if self.format == "parquet":
                _join_tables(shards, draft)
            elif file.suffix == ".csv":
                _join_as_csv(shards, draft, self.csv_separator)
            else:
                _join_lines(shards, draft, is_compressed=file.suffix == ".gz")
        # The folder gets a name that no run reads, in one step: an interrupted removal would leave some of the shards,
        # with which the command could not resume. What such a removal has left is removed first.
        joined_folder = self.folder.with_suffix(".joined")
        shutil.rmtree(joined_folder, ignore_errors=True)
        self.folder.rename(joined_folder)
        shutil.rmtree(joined_folder)

    def _number_of(self, path: Path) -> int | None:
        """The number of the shard with this path; None if no shard of the plan has it."""
        digits = path.name.removeprefix(_FILE_PREFIX).partition(".")[0]
        if not digits.isdecimal():
            return None
        number = int(digits)
        if number >= self.shard_count or path.name != self._path(number).name:
            return None
        return number

    def _path(self, number: int) -> Path:
        """The path of a shard's file."""
        return self.folder / f"{_FILE_PREFIX}{number:08d}{FORMATS[self.format]}"


@dataclass(frozen=True)
class Destination:
    """Where summaries are written.

    Attributes:
        folder: the folder of the shards.
        format: the format of the shards, one of `FORMATS`.
        file: the file for the rows of all shards, which replaces the folder at the end; None if the folder stays.
    """

    folder: Path
    format: str
    file: Path | None = None


def destination(output: str | Path, format: str | None) -> Destination:
    """Where the summaries for an output are written.

    Args:
        output: a folder, or a file for all rows, whose name has one of the endings in `_FILES`. The shards of such a
            file are written to a hidden folder beside it.
        format: the format of the shards, one of `FORMATS`. None stands for the format that the name of the file needs
            (see `_FILES`), or for `parquet` if the output is a folder.

    Raises:
        ValueError: the name of the file needs another format than `format`, or the output is a URL.
    """
    check_is_local("--output", output)
    path = Path(os.path.realpath(output))
    for ending, file_format in _FILES.items():
        if path.name.endswith(ending):
            if format is not None and format != file_format:
                raise ValueError(f"--format {format}: the name of --output {one_line(path.name)} sets another: omit it")
            return Destination(path.with_name(f".{path.name}.shards"), file_format, path)
    return Destination(path, format or "parquet")


def _write_lines(table: pa.Table, features: Mapping[str, "FeatureType"], path: Path) -> None:
    """Write the rows of a table as compressed lines of JSON. Equal tables have equal files, as no time is written.

    Args:
        table: the rows.
        features: the types of the columns that come from the input.
        path: the path of the file.
    """
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as lines:
        for row in table.to_pylist():
            for name, feature in features.items():
                row[name] = _decoded(row[name], feature)
            lines.write(f"{to_json(row)}\n".encode())


def _decoded(value: Any, feature: "FeatureType") -> object:
    """A value of an Arrow table, with the values that JSON texts in it stand for.

    If a column of a JSON file has values of several types, `datasets` stores them as JSON texts, with the type `Json`.

    Args:
        value: the value, which may contain such texts.
        feature: its type.
    """
    if value is None:
        return None
    if isinstance(feature, datasets.Json):
        return json.loads(value)
    if isinstance(feature, dict):
        return {name: _decoded(value[name], field) for name, field in feature.items()}
    if isinstance(feature, datasets.List | datasets.LargeList):
        return [_decoded(member, feature.feature) for member in value]
    return value


def _join_tables(shards: list[Path], path: Path) -> None:
    """Write the rows of Parquet files to one Parquet file."""
    with pq.ParquetWriter(path, pq.read_schema(shards[0])) as writer:
        for shard in shards:
            writer.write_table(pq.read_table(shard))


def _join_as_csv(shards: list[Path], path: Path, separator: str) -> None:
    """Write the rows of files of compressed lines of JSON to one CSV file, whose first row has the columns' names."""
    with open(path, "w", encoding=_CSV_ENCODING, newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        for index, row in enumerate(_read_lines(shards)):
            if index == 0:
                writer.writerow([spreadsheet_text(name) for name in row])
            writer.writerow([_cell(value) for value in row.values()])


def _read_lines(shards: list[Path]) -> Iterator[dict[str, object]]:
    """The rows of files of compressed lines of JSON."""
    for shard in shards:
        with gzip.open(shard, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _join_lines(shards: list[Path], path: Path, is_compressed: bool) -> None:
    """Write the lines of compressed files to one file, which may be compressed too."""
    # Compressed files, one after the other, are one compressed file. So their bytes are copied as they are, unless the
    # joint file is not compressed.
    opener = open if is_compressed else gzip.open
    with open(path, "wb") as lines:
        for shard in shards:
            with opener(shard, "rb") as shard_lines:
                shutil.copyfileobj(shard_lines, lines)


def _cell(value: object) -> str | None:
    """A value as a cell of a CSV file, which no spreadsheet reads as a formula; None for a missing value."""
    if value is None:
        return None
    text = value if isinstance(value, str) else to_json(value)
    if _NUMBER.fullmatch(text):
        return text
    return spreadsheet_text(text)


def _rows_in(path: Path) -> int:
    """The number of rows of a shard's file. Of a Parquet file, only the end is read.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        if path.suffix == ".parquet":
            return pq.read_metadata(path).num_rows
        with gzip.open(path) as lines:
            return sum(1 for _ in lines)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a complete file ({one_line(error)}): {_WRITE_AGAIN}") from error
