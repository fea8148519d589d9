"""Files of rows and texts: rows are read by `datasets`."""

import bz2
import glob
import gzip
import logging
import lzma
import os
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hf_summ.common.messages import logged_from, one_line

if TYPE_CHECKING:
    import datasets

# extension of a file -> the builder of `datasets` that reads it
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
# bytes of files that are read in seconds, and need a progress bar
_LARGE = 2**26
# files that `save_to_disk` of `datasets` writes to the folder of a split, and of a data set
_SAVED = ("state.json", "dataset_dict.json")


def extension_of(file: str | os.PathLike) -> str:
    """The extension of a file or of a pattern of files, before one of compression."""
    path = Path(file)
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.suffix.rstrip("*").lower()


def is_row_file(file: str | os.PathLike) -> bool:
    """Whether a file has rows by its name, or is the folder of a split that `save_to_disk` wrote."""
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
        elif matches := sorted(filter(os.path.isfile, glob.glob(name, recursive=True))):
            files.extend(matches)
        else:
            raise ValueError(f"{name} does not exist")
    return files


def _files_in(folder: str) -> list[str]:
    # names that begin with these characters are no data for the libraries of Parquet files either
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith((".", "_"))]
    files = [os.path.join(folder, name) for name in names if extension_of(name) in ROW_FILES]
    if not files:
        raise ValueError(f"{folder} is a folder without files of rows ({', '.join(ROW_FILES)})")
    return files


def open_text(file: str | os.PathLike, encoding: str | None = None) -> IO[str]:
    """A text file, also compressed, opened for reading lines, which line feeds alone end.

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


def read_files(
    names: str | Sequence[str],
    *,
    csv_separator: str | None = None,
    encoding: str | None = None,
    cache_dir: str | None = None,
    streaming: bool = False,
) -> Any:
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
    # imported here, as it is slow, and commands that read no rows ask for the type of files
    import datasets

    files = files_of(names)
    if len(files) == 1 and is_saved(files[0]):
        return _saved_split(files[0])
    builders = {BUILDERS.get(extension_of(file)) for file in files}
    builder = builders.pop()
    if builder is None or builders:
        raise ValueError(f"{_shown(files)}: files must be of one type, which is one of {', '.join(BUILDERS)}")
    try:
        # the reader of JSON logs its error, which is also raised
        silence = logged_from("datasets.packaged_modules", logging.CRITICAL)
        with silence, bars_shown(sum(map(os.path.getsize, files)) > _LARGE):
            options = _options(builder, files, csv_separator, encoding)
            return datasets.load_dataset(
                builder, data_files=files, split="train", cache_dir=cache_dir, streaming=streaming, **options
            )
    except Exception as error:
        # readers of broken files raise errors of any type
        reason = one_line(error.__cause__ or error) or "no rows"
        raise ValueError(f"{_shown(files)}: cannot be read: {reason:.300}") from error


def _options(builder: str, files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, Any]:
    if builder == "csv":
        return _csv_options(files, csv_separator, encoding)
    if builder == "text" or (builder == "json" and encoding is not None):
        return {"encoding": encoding or "utf-8-sig"}
    return {}


def _csv_options(files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, Any]:
    """Settings with which `datasets` keeps every field of CSV files as it is written."""
    # imported here, as they are slow
    import datasets
    import pandas

    separator = csv_separator
    if separator is None:
        separator = "\t" if extension_of(files[0]) == ".tsv" else ","
    encoding = encoding or "utf-8-sig"
    for file in files:
        with warnings.catch_warnings():
            # pandas would drop fields, or shift them by a column, if the first row has more of them than the header
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            rows = pandas.read_csv(file, nrows=1, sep=separator, encoding=encoding, index_col=False)
    # pandas would turn fields that look like numbers, or like missing values, into others
    texts = datasets.Features({column: datasets.Value("string") for column in rows.columns})
    return {"sep": separator, "encoding": encoding, "index_col": False, "keep_default_na": False, "features": texts}


def _saved_split(folder: str) -> "datasets.Dataset":
    import datasets

    rows = datasets.load_from_disk(folder)
    if isinstance(rows, datasets.DatasetDict):
        raise ValueError(f"{folder} has the splits {', '.join(rows)}: name the folder of one split")
    return rows


def _shown(files: list[str]) -> str:
    """The files in a message."""
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
