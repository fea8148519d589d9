"""Rows of files and Hub data sets of any size, read lazily from any row on, with the types of their columns."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.files import content_hash
from hf_summ.common.messages import one_line
from hf_summ.data.former_columns import column_type, storable, value_type
from hf_summ.data.rows import ROW_FILES, UnreadRows, existing, kind_of_file, matching, saved_files, unread_rows

if TYPE_CHECKING:
    import datasets

# as in `columns.column_type`
_ARROW = {
    **{"bool": pa.bool_(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "json": pa.string()},
    "strings": pa.list_(pa.string()),
}
# rows that are decoded at a time
_DECODED = 256


def streamed_files(names: Sequence[str]) -> list[Path]:
    """The files of these names, which may be patterns, see `matching`."""
    named = [existing(path) for name in names for path in matching(name)]
    paths = [file for path in named for file in saved_files(path) or [path]]
    for path in paths:
        if kind_of_file(path) not in ROW_FILES:
            types = ", ".join(ROW_FILES)
            raise ValueError(f"{path}: unknown file type: rows must be in {types}; text also as .gz, .bz2, .xz or .zst")
    return paths


class FileRows:
    """Rows of files of rows, one file after the other.

    Files without types are first read once, with a progress bar, which yields the number of rows and the types of
    columns. This finds errors of whole files: text that is not UTF-8, broken compression, an invalid Parquet file. A
    single unreadable row is not an error of its file.

    Values are as in the file; a column with values of different types is a column of strings in the schema, see
    `stored`. A file is read row by row, but a .json file with one list as a whole.
    """

    def __init__(self, paths: Sequence[Path]):
        self._paths = {str(path): path for path in paths}

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return list(self._paths.values())

    @cached_property
    def _survey(self) -> tuple[dict[str, tuple[int, tuple[int, int]]], pa.Schema]:
        """Each file's number of rows and state, and the columns of all files."""
        numbers: dict[str, tuple[int, tuple[int, int]]] = {}
        types: dict[str, set[str]] = {}
        schemas = []
        for name, path in self._paths.items():
            state = _state(path)
            if _is_table(path):
                number, schema = _shape(path)
                numbers[name] = number, state
                schemas.append(_plain(schema))
            else:
                numbers[name] = _look_through(path, types), state
        own = pa.schema([(name, _ARROW[column_type(types[name])]) for name in types])
        try:
            schemas = [own, *schemas]
            return numbers, pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(f"{', '.join(self._paths)}: columns are incompatible: {one_line(error)}") from error

    @property
    def number(self) -> int:
        """Number of rows, including unreadable ones."""
        return sum(number for number, _ in self._survey[0].values())

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files."""
        return self._survey[1]

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the rows: the hash of each file's content, as a file may be moved."""
        return {"files": [content_hash(path) for path in self._paths.values()]}

    def read(self, start: int = 0) -> UnreadRows:
        """The rows from number `start` on; earlier rows are not parsed."""
        for name, path in self._paths.items():
            number, state = self._survey[0][name]
            index = min(start, number)
            start -= index
            if index == number:
                continue
            rows = table_rows(path, index) if _is_table(path) else islice(unread_rows(path), index, None)
            for position, read in rows:
                index += 1
                yield f"{name}, {position}", read
            # what is open can be read even if it is removed
            if index != number or (path.exists() and _state(path) != state):
                raise ValueError(f"{name} has changed since it was checked: start again once it is complete")


class HubRows:
    """Rows of a split of a data set on the Hub, or of a folder that `datasets` can load, streamed."""

    def __init__(self, name: str, config_name: str | None, split: str):
        self._name, self._config_name, self._split = name, config_name, split

    @cached_property
    def _builder(self):
        try:
            from datasets import load_dataset_builder

            return load_dataset_builder(self._name, self._config_name)
        except (ValueError, FileNotFoundError, RuntimeError) as error:
            raise ValueError(f"--dataset_name {self._name}: {one_line(error)}") from error

    @cached_property
    def _stream(self) -> "datasets.IterableDataset":
        splits = self._builder.as_streaming_dataset()
        if self._split not in splits:
            raise ValueError(f"--split {self._split}: {self._name} has the splits {', '.join(splits)}")
        rows = splits[self._split]
        # images and the like as they are stored
        return (rows if rows.features else rows._resolve_features()).decode(False)

    @property
    def number(self) -> int | None:
        """Number of rows, or None if the data set does not have it."""
        info = (self._builder.info.splits or {}).get(self._split)
        return getattr(info, "num_examples", None) or None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        return _plain(self._stream.features.arrow_schema)

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the rows: the data set's names, and its content's hash by `datasets`."""
        names = {"dataset_name": self._name, "dataset_config_name": self._builder.config.name, "split": self._split}
        return {**names, "content": self._builder.hash}

    def read(self, start: int = 0) -> UnreadRows:
        """The rows from number `start` on."""
        for index, row in enumerate(self._stream.skip(start), start + 1):
            yield f"{self._name}, row {index}", lambda row=row: row


def stored(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A row in the form of its columns: other values in string columns become JSON, lone surrogates U+FFFD."""
    return {field.name: storable(row.get(field.name), pa.types.is_string(field.type)) for field in schema}


def _state(path: Path) -> tuple[int, int]:
    """Size in bytes, and time of the last change in nanoseconds."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _is_table(path: Path) -> bool:
    return kind_of_file(path) in (".parquet", ".arrow")


def _look_through(path: Path, types: dict[str, set[str]]) -> int:
    """Count the rows, and add the types of their values to `types`."""
    number, problem = 0, None
    for _, read in unread_rows(path, show_progress=True):
        number += 1
        try:
            row = read()
        except ValueError as error:
            problem = problem or error
            continue
        for name, value in row.items():
            types.setdefault(name, set()).add(value_type(value))
    if problem is not None and not types:
        raise problem
    return number


def _shape(path: Path) -> tuple[int, pa.Schema]:
    """The number of rows and the columns of a table."""
    if kind_of_file(path) == ".parquet":
        with parquet_file(path) as file:
            return file.metadata.num_rows, file.schema_arrow
    number, schema = 0, pa.schema([])
    try:
        for _, batch in _arrow_batches(path):
            number, schema = number + len(batch), batch.schema
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be read after row {number} ({one_line(error)}): copy it again") from error
    return number, schema


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def table_rows(path: Path, start: int = 0) -> UnreadRows:
    """The position of each row from number `start` on, and a function that reads it.

    Args:
        path: a .parquet or .arrow file, or a folder of one split that `save_to_disk` of `datasets` wrote.
    """
    end = start
    try:
        for index, batch in _parquet_batches(path, start) if kind_of_file(path) == ".parquet" else _arrow_batches(path):
            skipped = min(max(start - index, 0), len(batch))
            yield from _batch_rows(batch.slice(skipped), index + skipped + 1)
            end = index + len(batch)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be read after row {end} ({one_line(error)}): copy it again") from error


def parquet_file(path: Path) -> pq.ParquetFile:
    """The opened file."""
    try:
        return pq.ParquetFile(path)
    # UnicodeDecodeError: column names that are not UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a complete Parquet file ({one_line(error)}): copy or write it again") from error


def plain_type(of: pa.DataType) -> pa.DataType:
    """The type with plain strings and lists in place of their large, viewed and dictionary-encoded forms."""
    if pa.types.is_dictionary(of):
        return plain_type(of.value_type)
    if pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return pa.string()
    if any(getattr(pa.types, f"is_{kind}")(of) for kind in ("list", "large_list", "list_view", "large_list_view")):
        return pa.list_(plain_type(of.value_type))
    return of


def _parquet_batches(path: Path, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches and the number of each one's first row; whole groups before the first row are skipped."""
    with parquet_file(path) as file:
        index, groups = 0, []
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if groups or index + rows > start:
                groups.append(group)
            else:
                index += rows
        for batch in file.iter_batches(_DECODED, row_groups=groups) if groups else ():
            yield index, batch
            index += len(batch)


def _arrow_batches(path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    index = 0
    for file in saved_files(path) or [path]:
        with pa.memory_map(str(file)) as source:
            try:
                batches = iter(pa.ipc.open_stream(source))
            except pa.ArrowInvalid:
                reader = pa.ipc.open_file(source)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                yield index, batch
                index += len(batch)


def _batch_rows(batch: pa.RecordBatch, first: int) -> UnreadRows:
    try:
        rows = batch.to_pylist()
    except UnicodeDecodeError:
        # one row is not UTF-8: decode them one by one, when they are read
        for offset in range(len(batch)):
            row = batch.slice(offset, 1)
            yield f"row {first + offset}", lambda row=row: row.to_pylist()[0]
        return
    for number, row in enumerate(rows, first):
        yield f"row {number}", lambda row=row: row
