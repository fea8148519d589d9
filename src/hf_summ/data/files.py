"""Files of rows and texts: rows are read by `datasets`."""

import bz2
import glob
import gzip
import logging
import lzma
import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hf_summ.common.messages import logged_from, one_line

if TYPE_CHECKING:
    import datasets

# Extension of a file -> the builder of `datasets` that reads it.
BUILDERS = {
    ".jsonl": "json",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
ROW_FILES = tuple(extension for extension, builder in BUILDERS.items() if builder != "text")
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Files with more bytes take seconds to read, so they get a progress bar.
_LARGE = 2**26
# The files that `save_to_disk` of `datasets` writes to the folder of a split, and to that of a data set.
_SAVED = ("state.json", "dataset_dict.json")


def extension_of(file: str | os.PathLike) -> str:
    """The extension of a file or of a pattern of files, such as `.jsonl` for `train-*.jsonl.gz`."""
    path = Path(file)
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.suffix.rstrip("*").lower()


def is_row_file(file: str | os.PathLike) -> bool:
    """Whether a file has the extension of files of rows, or is a folder that `save_to_disk` of `datasets` wrote."""
    return extension_of(file) in ROW_FILES or is_saved(file)


def is_saved(folder: str | os.PathLike) -> bool:
    """Whether `save_to_disk` of `datasets` wrote this folder."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in _SAVED)


def files_of(names: str | Sequence[str]) -> list[str]:
    """The files that names stand for: a file, a pattern such as `train-*.jsonl`, or the row files in a folder.

    Raises:
        ValueError: a name stands for no file.
    """
    names = [names] if isinstance(names, str) else names
    files: list[str] = []
    for name in names:
        if os.path.isfile(name) or is_saved(name):
            files.append(name)
        elif os.path.isdir(name):
            files.extend(_files_in(name))
        else:
            matches = [match for match in glob.glob(name, recursive=True) if os.path.isfile(match)]
            if not matches:
                raise ValueError(f"{name} does not exist")
            files.extend(sorted(matches))
    return files


def _files_in(folder: str) -> list[str]:
    """The files of rows in a folder, in the order of their names; a ValueError if there are none."""
    files = []
    for name in sorted(os.listdir(folder)):
        # Libraries of Parquet files also skip names that begin with these characters.
        is_skipped = name.startswith((".", "_"))
        if not is_skipped and extension_of(name) in ROW_FILES:
            files.append(os.path.join(folder, name))
    if not files:
        raise ValueError(f"{folder} is a folder without files of rows ({', '.join(ROW_FILES)})")
    return files


def open_text(file: str | os.PathLike, encoding: str | None = None) -> IO[str]:
    """Open a text file, which may be compressed, for reading; only a line feed ends a line.

    Args:
        encoding: UTF-8 by default, with or without a mark at the start.
    """
    opener = _OPENERS.get(Path(file).suffix, open)
    return opener(file, "rt", encoding=encoding or "utf-8-sig", newline="\n")


def read_lines(file: str, encoding: str | None = None) -> list[str]:
    """The lines of a text file without their ends.

    Raises:
        ValueError: it does not exist, has no lines or cannot be read; the message names it.
    """
    try:
        with open_text(file, encoding) as text:
            lines = [line.rstrip("\r\n") for line in text]
    except FileNotFoundError as error:
        raise ValueError(f"{file} does not exist") from error
    except (UnicodeDecodeError, EOFError, OSError, lzma.LZMAError) as error:
        raise ValueError(f"{file}: cannot be read: {error}") from error
    if not lines:
        raise ValueError(f"{file}: cannot be read: it has no lines")
    return lines


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a file in UTF-8, including its end; only line feeds end a line.

    Raises:
        ValueError: the file cannot be read; the message names the last line that can.
    """
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except (UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}, after line {number}: cannot be read: {error}") from None


def read_files(
    names: str | Sequence[str],
    *,
    csv_separator: str | None = None,
    encoding: str | None = None,
    cache_dir: str | None = None,
    streaming: bool = False,
) -> "datasets.Dataset | datasets.IterableDataset":
    """The rows of files as they are written, with columns as `datasets` reads them.

    A field of a CSV file stays a text. A line of a .txt file is a row of the column `text`.

    Args:
        names: see `files_of`; also the folder of one split that `save_to_disk` wrote.
        csv_separator: separator of the fields in CSV files; a comma by default, and a tab in .tsv files.
        encoding: encoding of text files; UTF-8 by default, with or without a mark at the start.
        cache_dir: the cache of `datasets`, which converts a file again only if it has changed.
        streaming: read rows when they are needed, without storing them.

    Returns:
        A `Dataset` or, when streaming, an `IterableDataset`.

    Raises:
        ValueError: a file does not exist, is of an unknown type or cannot be read; the message names it.
    """
    # The library is imported here, as its import is slow, and commands that read no rows use this module too.
    import datasets

    files = files_of(names)
    if len(files) == 1 and is_saved(files[0]):
        return _saved_split(files[0])
    builders = {BUILDERS.get(extension_of(file)) for file in files}
    builder = builders.pop()
    if builder is None or builders:
        raise ValueError(f"{_shown(files)}: files must be of one type, which is one of {', '.join(BUILDERS)}")
    try:
        # The reader of JSON logs its errors and raises them too.
        silence = logged_from("datasets.packaged_modules", logging.CRITICAL)
        size = sum(os.path.getsize(file) for file in files)
        with silence, bars_shown(size > _LARGE):
            options = _options(builder, files, csv_separator, encoding)
            return datasets.load_dataset(
                builder, data_files=files, split="train", cache_dir=cache_dir, streaming=streaming, **options
            )
    except Exception as error:
        # The readers of broken files raise errors of any type.
        reason = one_line(error.__cause__ or error) or "no rows"
        raise ValueError(f"{_shown(files)}: cannot be read: {reason:.300}") from error


def _options(builder: str, files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, object]:
    """The settings of a builder of `datasets` for these files."""
    if builder == "csv":
        return _csv_options(files, csv_separator, encoding)
    if builder == "text" or (builder == "json" and encoding is not None):
        return {"encoding": encoding or "utf-8-sig"}
    return {}


def _csv_options(files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, object]:
    """Settings with which `datasets` keeps every field of CSV files as it is written."""
    # The libraries are imported here, as their import is slow.
    import datasets
    import pandas

    separator = csv_separator
    if separator is None:
        separator = "\t" if extension_of(files[0]) == ".tsv" else ","
    encoding = encoding or "utf-8-sig"
    for file in files:
        with warnings.catch_warnings():
            # If the first row has more fields than the header, pandas would drop fields, or shift them by a column.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            rows = pandas.read_csv(file, nrows=1, sep=separator, encoding=encoding, index_col=False)
    # Without these settings, pandas would change fields that look like numbers or like missing values.
    texts = datasets.Features({column: datasets.Value("string") for column in rows.columns})
    return {"sep": separator, "encoding": encoding, "index_col": False, "keep_default_na": False, "features": texts}


def _saved_split(folder: str) -> "datasets.Dataset":
    """The rows of a split that `save_to_disk` wrote; a ValueError if the folder has several splits."""
    import datasets

    rows = datasets.load_from_disk(folder)
    if isinstance(rows, datasets.DatasetDict):
        raise ValueError(f"{folder} has the splits {', '.join(rows)}: name the folder of one split")
    return rows


def _shown(files: list[str]) -> str:
    """The files as messages name them."""
    if len(files) == 1:
        return files[0]
    return f"{files[0]} and {len(files) - 1} more"


@contextmanager
def bars_shown(is_long: bool) -> Generator[None]:
    """Show the progress bars of `datasets` only for work that takes long."""
    import datasets

    if is_long or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
