"""Finding and reading files of rows, which the library `datasets` reads, and files of texts.

A row is an example of a corpus: name of a column -> value. A saved folder is a folder that `save_to_disk` of `datasets`
wrote.
"""

import bz2
import glob
import gzip
import itertools
import json
import logging
import lzma
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hf_summ.common.messages import logged_from, one_line

if TYPE_CHECKING:
    import datasets
    from datasets.features.features import FeatureType

# Extension of a file -> the builder of `datasets` that reads it. Text files are read without their builder, which also
# ends a line at a carriage return.
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
# Extensions of compressed files of rows, and the compressions among them that text files may have too.
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# If files have more bytes than this, 64 MiB, reading them takes seconds, and a progress bar is shown.
_LARGE = 2**26
# A file that `save_to_disk` writes to the folder of a single split, and one that it writes to the folder of a data set.
_SAVED = ("state.json", "dataset_dict.json")


def extension_of(file: str | os.PathLike) -> str:
    """The extension of a file, or of a pattern of files, in lower case.

    The extension of a compression is left out: for `train-*.jsonl.gz`, the result is `.jsonl`. The result is empty if
    there is no extension.
    """
    path = Path(file)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    # A pattern such as `train.jsonl*` also stands for compressed files.
    return path.suffix.rstrip("*").lower()


def is_row_file(file: str | os.PathLike) -> bool:
    """Whether a file has an extension in `ROW_FILES`, or is a saved folder."""
    return extension_of(file) in ROW_FILES or is_saved(file)


def is_saved(folder: str | os.PathLike) -> bool:
    """Whether `save_to_disk` of `datasets` wrote this folder."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in _SAVED)


def files_of(names: str | Sequence[str]) -> list[str]:
    """The files that names stand for.

    Args:
        names: one name or several. A name is a file, a saved folder, another folder, which stands for the files of rows
            in it, or a pattern such as `train-*.jsonl`.

    Returns:
        The paths of the files, in the order of `names`; the files of one folder or pattern are sorted. A saved folder
        stays a folder.

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
    """The paths of the files of rows in a folder, in the order of their names.

    Raises:
        ValueError: there is no such file.
    """
    files = []
    for name in sorted(os.listdir(folder)):
        # Hidden and temporary files have names with these characters at the beginning. Libraries of Parquet files skip
        # such files too.
        is_skipped = name.startswith((".", "_"))
        if not is_skipped and extension_of(name) in ROW_FILES:
            files.append(os.path.join(folder, name))
    if not files:
        raise ValueError(f"{folder} is a folder without files of rows ({', '.join(ROW_FILES)})")
    return files


def open_text(file: str | os.PathLike, encoding: str | None = None) -> IO[str]:
    """Open a text file, which may be compressed, for reading. Only a line feed ends a line.

    Args:
        file: the path, whose extension tells the compression: .gz, .bz2 or .xz, in upper or lower case.
        encoding: the encoding of the file; UTF-8 by default, with or without a byte-order mark at the beginning.

    Raises:
        ValueError: the file is compressed by Zstandard (.zst).
        OSError: the file cannot be opened.
    """
    extension = Path(file).suffix.lower()
    # The library `datasets` unpacks .zst for files of rows, but Python's own library cannot unpack it.
    if extension in COMPRESSIONS and extension not in _OPENERS:
        raise ValueError(f"{file}: text files in {extension} cannot be read: unpack it, or compress it as .gz")
    opener = _OPENERS.get(extension, open)
    return opener(file, "rt", encoding=encoding or "utf-8-sig", newline="\n")


def read_lines(file: str, encoding: str | None = None) -> list[str]:
    """The lines of a text file, without the line feeds and carriage returns at their ends.

    Args:
        file, encoding: as for `open_text`.

    Raises:
        ValueError: the file does not exist, has no lines or cannot be read; the message names the file.
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
    """Yield each line of a text file in UTF-8 with its number; only line feeds end a line.

    Args:
        path: the file, which may be compressed.

    Yields:
        The number of the line, from 1 on, and its text with the line feed.

    Raises:
        ValueError: the file cannot be decoded or unpacked; the message names the last line that could be read. Or the
            file is compressed by Zstandard.
        OSError: the file cannot be opened.
    """
    line_number = 0
    try:
        with open_text(path) as file:
            for line_number, line in enumerate(file, 1):
                yield line_number, line
    except (UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}, after line {line_number}: cannot be read: {error}") from None


def read_files(
    names: str | Sequence[str],
    *,
    csv_separator: str | None = None,
    encoding: str | None = None,
    cache_dir: str | None = None,
    streaming: bool = False,
) -> "datasets.Dataset | datasets.IterableDataset":
    """Read the rows of files by `datasets`, with the columns of the files.

    A field of a CSV file stays a text, even if it looks like a number. So does a column of a JSON file whose texts all
    look like times, except in a stream. If a CSV file has a single column, a blank line is a row with a blank text. A
    line of a .txt file is a row of the column `text`; only a line feed ends a line.

    Args:
        names: the files, as for `files_of`: all of one type, or a single saved folder with one split.
        csv_separator: separator of the fields in CSV files; a comma by default, and a tab in .tsv files.
        encoding: encoding of text files; UTF-8 by default, with or without a byte-order mark at the beginning.
        cache_dir: folder in which `datasets` stores converted files; by default its usual cache. A file is converted
            again only if it has changed.
        streaming: whether to read rows when they are needed, without storing them. A saved folder is never streamed.

    Returns:
        A `Dataset` or, with `streaming`, an `IterableDataset`.

    Raises:
        ValueError: a file does not exist, is of an unknown type or cannot be read; a CSV file lacks a column of the
            other files; or the files are of several types. The message names the file.
    """
    # The library is imported here, as its import is slow, and commands that read no rows use this module too.
    import datasets

    if encoding == "utf-8":
        # The default is UTF-8 too, and also accepts a byte-order mark.
        encoding = None
    files = files_of(names)
    if len(files) == 1 and is_saved(files[0]):
        return _saved_split(files[0])
    builders = {BUILDERS.get(extension_of(file)) for file in files}
    if len(builders) > 1 or None in builders:
        raise ValueError(f"{_shown(files)}: files must be of one type, which is one of {', '.join(BUILDERS)}")
    builder = builders.pop()
    assert builder is not None
    if builder == "json":
        for file in files:
            _check_first_row(file)
    try:
        # The reader of JSON logs its errors and also raises them, so the log is silenced.
        silence = logged_from("datasets.packaged_modules", logging.CRITICAL)
        size = sum(os.path.getsize(file) for file in files)
        with silence, bars_shown(size > _LARGE):
            settings = {"files": file_states(files), "encoding": encoding}
            if builder == "text":
                return _generated(_line_rows, None, settings, cache_dir, streaming)
            options = _options(builder, files, csv_separator, encoding)
            rows = datasets.load_dataset(
                builder, data_files=files, split="train", cache_dir=cache_dir, streaming=streaming, **options
            )
            if builder != "json" or streaming:
                return rows
            features = datasets.Features({name: _untimed(feature) for name, feature in rows.features.items()})
            if features == rows.features:
                return rows
            # pyarrow has made times of texts that look like times, and the texts cannot be restored. So the files are
            # read again, without pyarrow.
            return _generated(_json_rows, features, settings, cache_dir, streaming)
    except Exception as error:
        # The readers of broken files raise errors of any type.
        reason = one_line(error.__cause__ or error) or "no rows"
        raise ValueError(f"{_shown(files)}: cannot be read: {reason:.300}") from error


def _generated(
    generator: Callable[..., Iterator[dict]],
    features: "datasets.Features | None",
    settings: dict[str, object],
    cache_dir: str | None,
    streaming: bool,
) -> "datasets.Dataset | datasets.IterableDataset":
    """The rows that a generator yields.

    Args:
        generator: a function that yields the rows: name of a column -> value.
        features: name of a column -> the type of its values; None to infer the types from the rows.
        settings: the arguments of `generator`.
        cache_dir, streaming: as for `read_files`.
    """
    import datasets

    if streaming:
        return datasets.IterableDataset.from_generator(generator, features, gen_kwargs=settings)
    return datasets.Dataset.from_generator(generator, features, cache_dir=cache_dir, gen_kwargs=settings)


def file_states(files: Iterable[str | os.PathLike]) -> tuple[tuple[str, int, int], ...]:
    """For each file its path, its size in bytes and the time of its last change in nanoseconds.

    `datasets` reads rows again if the arguments of their generator differ from those of earlier calls. With these
    arguments, changed files are read again.
    """
    states = []
    for file in files:
        state = os.stat(file)
        states.append((os.path.abspath(file), state.st_size, state.st_mtime_ns))
    return tuple(states)


def _line_rows(files: tuple[tuple[str, int, int], ...], encoding: str | None) -> Iterator[dict[str, str]]:
    """Yield a row for each line of text files: `text` -> the line, without the characters that end it.

    Args:
        files: the states of the files, from `file_states`.
        encoding: as for `open_text`.

    Raises:
        ValueError: the files have no lines, or a file cannot be read.
        OSError: a file cannot be read.
    """
    has_lines = False
    for path, _, _ in files:
        with open_text(path, encoding) as lines:
            for line in lines:
                has_lines = True
                yield {"text": line.rstrip("\r\n")}
    if not has_lines:
        raise ValueError("no lines")


def _untimed(feature: "FeatureType") -> "FeatureType":
    """The type of a column of a JSON file, with texts in place of times, as JSON has no times."""
    import datasets

    if isinstance(feature, dict):
        return {name: _untimed(field) for name, field in feature.items()}
    if isinstance(feature, datasets.List):
        return datasets.List(_untimed(feature.feature))
    # The type `Json` of columns with values of several types has no `dtype`.
    if getattr(feature, "dtype", "").startswith("timestamp"):
        return datasets.Value("string")
    return feature


def _json_rows(files: tuple[tuple[str, int, int], ...], encoding: str | None) -> Iterator[dict[str, object]]:
    """Yield the rows of JSON files, in which the reader of `datasets` has found no error.

    Args:
        files: the states of the files, from `file_states`.
        encoding: as for `open_text`.
    """
    # The library is imported here, as its import is slow. `datasets` needs it too.
    import fsspec

    for path, _, _ in files:
        # Unlike `open_text`, this also unpacks .zst.
        with fsspec.open(path, "rt", compression="infer", encoding=encoding or "utf-8-sig", newline="\n") as text:
            for line in text:
                if not line.strip():
                    continue
                try:
                    values = [json.loads(line)]
                except json.JSONDecodeError:
                    # A value has several lines, or a line has several values.
                    values = _json_values(line + text.read())
                for value in values:
                    rows = value if isinstance(value, list) else [value]
                    for row in rows:
                        yield _as_row(row)


def _json_values(text: str) -> Iterator[object]:
    """Yield the values of a text of JSON, between which there may be white space."""
    decoder = json.JSONDecoder()
    text = text.strip()
    start = 0
    while start < len(text):
        value, start = decoder.raw_decode(text, start)
        yield value
        while text[start : start + 1].isspace():
            start += 1


def _as_row(value: object) -> dict[str, object]:
    """A value of a JSON file as a row: a text is in the column `text`, and null is a row without values."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"text": value}


def _check_first_row(file: str) -> None:
    """Raise a ValueError if the first row of a JSON file is null, as pyarrow ends the process at such a row."""
    try:
        with open_text(file) as text:
            beginning = text.read(1000).lstrip()
    except (UnicodeDecodeError, EOFError, OSError, ValueError, lzma.LZMAError):
        # the reader of the rows says what is wrong with the file
        return
    # the rows stand one in a line, or in an array
    if beginning.removeprefix("[").lstrip().startswith("null"):
        raise ValueError(f"{file}: cannot be read: the first row is null")


def _options(builder: str, files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, object]:
    """The arguments of `load_dataset` that depend on the type of the files.

    Args:
        builder: the builder of `datasets`, one of the values of `BUILDERS`.
        files: the paths of the files.
        csv_separator, encoding: as for `read_files`.

    Returns:
        Name of an argument -> value. It is empty for Parquet and Arrow, and for JSON without an encoding.

    Raises:
        ParserWarning of pandas, ValueError: as `_csv_options`, for CSV files.
    """
    if builder == "csv":
        return _csv_options(files, csv_separator, encoding)
    if builder == "json" and encoding is not None:
        return {"encoding": encoding}
    return {}


def _csv_options(files: list[str], csv_separator: str | None, encoding: str | None) -> dict[str, object]:
    """The arguments of `load_dataset` with which every field of CSV files stays the text that the file has.

    Args:
        files: the paths of the files.
        csv_separator, encoding: as for `read_files`.

    Returns:
        Name of an argument -> value.

    Raises:
        ParserWarning of pandas: the first row of a file has more fields than the header.
        ValueError: a file lacks a column of another file, or begins with a blank line in place of its only column.
    """
    # The libraries are imported here, as their import is slow.
    import datasets
    import pandas

    separator = csv_separator
    if separator is None:
        separator = "\t" if extension_of(files[0]) == ".tsv" else ","
    encoding = encoding or "utf-8-sig"
    # File -> the names of its columns.
    headers: dict[str, list[str]] = {}
    for file in files:
        with warnings.catch_warnings():
            # If the first row has more fields than the header, pandas would drop fields, or shift them by a column, and
            # only warn. The warning becomes an error here.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            rows = pandas.read_csv(file, nrows=1, sep=separator, encoding=encoding, index_col=False)
        headers[file] = list(rows.columns)
    # The columns of all files, each once.
    columns = list(dict.fromkeys(itertools.chain.from_iterable(headers.values())))
    for file, header in headers.items():
        for column in columns:
            if column not in header:
                raise ValueError(f"{file} has no column '{column}', which another of these files has")
    # Without these arguments, pandas would change fields that look like numbers or like missing values, such as NA.
    texts = datasets.Features({column: datasets.Value("string") for column in columns})
    options = {"sep": separator, "encoding": encoding, "index_col": False, "keep_default_na": False, "features": texts}
    # In files of a single column, a blank line is a row with a blank text. Other rows have separators.
    options["skip_blank_lines"] = len(columns) > 1
    for file in files:
        if len(columns) == 1 and _begins_with_blank_line(file, separator, encoding):
            raise ValueError(f"{file} begins with a blank line in place of the column's name: remove the line")
    return options


def _begins_with_blank_line(file: str, separator: str, encoding: str) -> bool:
    """Whether the first line of a CSV file is blank."""
    import pandas

    try:
        rows = pandas.read_csv(file, nrows=0, sep=separator, encoding=encoding, skip_blank_lines=False)
        return rows.columns.empty
    except pandas.errors.EmptyDataError:
        # the file begins with several blank lines
        return True


def _saved_split(folder: str) -> "datasets.Dataset":
    """The rows in a saved folder.

    Raises:
        ValueError: the folder has several splits.
    """
    import datasets

    rows = datasets.load_from_disk(folder)
    if isinstance(rows, datasets.DatasetDict):
        raise ValueError(f"{folder} has the splits {', '.join(rows)}: name the folder of one split")
    return rows


def _shown(files: list[str]) -> str:
    """The name of files in messages: the first file, and the number of further files."""
    if len(files) == 1:
        return files[0]
    return f"{files[0]} and {len(files) - 1} more"


@contextmanager
def bars_shown(is_long: bool) -> Generator[None]:
    """A context in which `datasets` shows progress bars only if `is_long`.

    After the context, progress bars are shown or not as before. If the user has disabled progress bars, they stay
    disabled.
    """
    import datasets

    if is_long or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
