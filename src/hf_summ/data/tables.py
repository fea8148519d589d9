"""Rows of Parquet and Arrow files, and of folders that `datasets` saved, decoded a batch at a time."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hf_summ.common.messages import one_line
from hf_summ.data.rows import UnreadRows, kind_of_file, saved_files

# rows that are decoded at a time
_DECODED = 256


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
    if (
        pa.types.is_large_list(of)
        or pa.types.is_list(of)
        or pa.types.is_list_view(of)
        or pa.types.is_large_list_view(of)
    ):
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
    """The rows of a decoded batch."""
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
