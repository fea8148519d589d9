"""Loading a corpus: `datasets` reads its rows, which get the columns `document` and `summary`."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from hf_summ.common.messages import one_line
from hf_summ.data.columns import (
    DOCUMENTS_COLUMN,
    PREFIX_COLUMN,
    REFERENCES_COLUMN,
    Columns,
    choose_columns,
    has_references,
    has_text,
    is_list_column,
    written_texts,
)
from hf_summ.data.corpora import SPLITS, Corpus
from hf_summ.data.files import bars_shown, is_saved, read_files
from hf_summ.data.raw_formats import DataFormat, Row, RowOption
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

logger = logging.getLogger(__name__)

Rows = datasets.Dataset | datasets.IterableDataset
# Split -> its names on the Hub.
_SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
# The number of rows that are converted at once.
_BATCH_SIZE = 1000
# The conversion of more rows takes seconds, so it gets a progress bar.
_MANY_ROWS = 100_000


def load(
    corpus: Corpus, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
) -> datasets.DatasetDict:
    """Load a corpus with the columns `document` and `summary`, and the splits train, validation and test.

    `datasets` reads the rows, and converts a file again only if it has changed. Other columns are kept, except columns
    called `document`, `documents`, `summary` or `prefix` that are not the chosen ones.

    If the column of documents has lists of texts, they are kept as `documents`, and `document` joins the texts of each
    list by blank lines. If the column of summaries has lists, they are kept as `references`, and `summary` is the first
    text of each list. Lists in a column `references` beside the summaries are several references too. Blank texts of
    lists are left out, and so are rows with a blank document or summary. The number of these rows, and the chosen
    columns, are logged.

    Args:
        corpus: the corpus, and how to read it. With `streaming`, the training rows are an `IterableDataset`.
        cache_dir: folder in which `datasets` stores downloads and converted files.
        token: token for private data sets on the Hub.
        trust_remote_code: passed to `datasets`, which no longer runs code of data sets from version 4 on.

    Raises:
        ValueError: as `Corpus.check`; a file that cannot be read; missing columns, or columns without texts; only blank
            rows, or none that pass the format's option. Messages name the file.
        OSError: the data set cannot be reached.
    """
    corpus.check()
    splits = []
    if corpus.dataset_name is None:
        for name, file in corpus.files.items():
            splits.append(_Split(name, read_split(corpus, name, cache_dir), where=file))
    else:
        loaded = _read_data_set(corpus, corpus.dataset_name, cache_dir, token, trust_remote_code)
        for name, rows in loaded.items():
            splits.append(_Split(name, rows, where=f"{corpus.dataset_name}, {name}"))
    # All splits are examined before the first one is converted, which may take minutes.
    columns = [_columns_of(split, corpus) for split in splits]
    converted = datasets.DatasetDict()
    for split, split_columns in zip(splits, columns, strict=True):
        is_stream = isinstance(split.rows, datasets.IterableDataset)
        is_long = not is_stream and len(split.rows) > _MANY_ROWS
        try:
            with bars_shown(is_long):
                converted[split.name] = _with_texts(split, split_columns, corpus)
        except UnicodeDecodeError as error:
            # pyarrow reads JSON in any encoding, and decodes its texts only when they are needed.
            raise ValueError(f"{split.where}: not text in UTF-8 ({error}): set `encoding`") from error
    return converted


@dataclass(frozen=True)
class _Split:
    """A split of a corpus, as it is written.

    Attributes:
        name: train, validation or test.
        rows: its rows.
        where: the name of the rows in messages.
    """

    name: str
    rows: Rows
    where: str


def training_rows(files: Iterable[str], settings: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of several training files, one after another; all files are read before the first row.

    Args:
        settings: settings of a command. Those that are fields of `Corpus` say how to read each file.
    """
    loaded = []
    for file in files:
        corpus = Corpus.among({**settings, "train_file": file})
        loaded.append(load(corpus)["train"])
    for rows in loaded:
        yield from rows


def cache_folder(cache_dir: str | None) -> Path:
    """Make the folder in which this package stores what it computes from corpora.

    Args:
        cache_dir: the folder above it; by default the cache of `datasets`.

    Raises:
        ValueError: the folder cannot be written to.
    """
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_summ"
    # If the home of the user is unknown, "~" stays in the path, and a folder of this name would be made.
    if folder.parts[0] != "~":
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder}: the cache cannot be written to: set HF_HOME or, for training, --cache_dir")
    return folder


def read_split(corpus: Corpus, split: str, cache_dir: str | None = None) -> Rows:
    """The rows of a split's files as they are written, before columns are chosen."""
    data_format = corpus.format
    is_stream = bool(corpus.streaming) and split == "train"
    if data_format is None or data_format.read is None:
        return read_files(
            [str(path) for path in corpus.paths(split)],
            csv_separator=corpus.csv_separator,
            encoding=corpus.encoding,
            cache_dir=cache_dir,
            streaming=is_stream,
        )
    # The key of the cache has the size and the time of each file, so that changed files are read again.
    files = []
    for path in corpus.paths(split):
        state = path.stat()
        files.append((str(path.resolve()), state.st_size, state.st_mtime_ns))
    settings = {"data_format": data_format, "files": tuple(files)}
    try:
        if is_stream:
            return datasets.IterableDataset.from_generator(_format_rows, gen_kwargs=settings)
        return datasets.Dataset.from_generator(_format_rows, cache_dir=cache_dir, gen_kwargs=settings)
    except datasets.exceptions.DatasetGenerationError as error:
        raise ValueError(f"{corpus.files[split]}: {one_line(error.__cause__ or error)}") from error


def _format_rows(data_format: DataFormat, files: tuple[tuple[str, int, int], ...]) -> Iterator[Row]:
    """Yield the rows of files in an authors' format.

    Args:
        files: the path, the size and the time of each file.

    Raises:
        ValueError: the files have no rows.
    """
    assert data_format.read is not None
    paths = [Path(path) for path, _, _ in files]
    has_rows = False
    for row in data_format.read(tuple(paths)):
        has_rows = True
        yield row
    if not has_rows:
        raise ValueError("the split has no rows")


def _read_data_set(
    corpus: Corpus, name: str, cache_dir: str | None, token: str | bool | None, trust_remote_code: bool
) -> dict[str, Rows]:
    """Split -> its rows, of a data set on the Hub or in a folder.

    Args:
        name: the name on the Hub, or the folder.
        cache_dir, token, trust_remote_code: as for `load`.

    Raises:
        ValueError: the data set cannot be loaded, or has no split of a usual name.
        OSError: the data set cannot be reached.
    """
    settings: dict[str, Any] = {"cache_dir": cache_dir, "token": token}
    if corpus.streaming:
        settings["streaming"] = True
    if trust_remote_code:
        settings["trust_remote_code"] = True
    try:
        if is_saved(name):
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, corpus.dataset_config_name, **settings)
    except Exception as error:
        # For broken files, libraries raise errors of any type, also plain OSErrors. Errors of its subclasses, such as
        # ConnectionError, have other causes.
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    if not isinstance(loaded, dict):
        # It is the folder of one split.
        loaded = {str(loaded.split or "train"): loaded}
    splits: dict[str, Rows] = {}
    for split in SPLITS:
        for candidate in _SPLIT_NAMES[split]:
            if candidate in loaded:
                splits[split] = loaded[candidate]
                break
    if not splits:
        raise ValueError(f"{name} has the splits {', '.join(loaded)}, but needs one of {', '.join(SPLITS)}")
    for split, rows in splits.items():
        if isinstance(rows, datasets.IterableDataset) and split != "train":
            # Validation and test rows are read completely in any case.
            splits[split] = datasets.Dataset.from_list(list(rows))
    return splits


def _columns_of(split: _Split, corpus: Corpus) -> Columns:
    """Choose the columns of a split, and log them."""
    rows, where = split.rows, split.where
    if rows.column_names is None or rows.features is None:
        # A stream does not know its columns before its first rows are read.
        rows = rows._resolve_features()
    columns = choose_columns(
        rows.column_names or [], corpus.text_column, corpus.summary_column, corpus.prefix_column, where
    )
    chosen = f"documents from '{columns.document}', summaries from '{columns.summary}'"
    if columns.summary != REFERENCES_COLUMN and has_references(rows.features or {}):
        chosen += f", references for scoring from '{REFERENCES_COLUMN}'"
    logger.info(f"{where}: {chosen}")
    return columns


def _with_texts(split: _Split, columns: Columns, corpus: Corpus) -> Rows:
    """The rows of a split with `document` and `summary`.

    Rows with a blank document or summary, and rows that the format's option excludes, are left out.
    """
    rows, where = split.rows, split.where
    if isinstance(rows, datasets.IterableDataset):
        rows = rows._resolve_features()
    if corpus.format is not None:
        rows = _passing(rows, corpus.format.option, corpus.option(), where)
        if corpus.format.separate is not None and columns.document != DOCUMENTS_COLUMN:
            rows = rows.map(_separated, fn_kwargs={"column": columns.document, "separate": corpus.format.separate})
    has_documents = is_list_column(rows, columns.document, where)
    has_summaries = is_list_column(rows, columns.summary, where)
    if columns.prefix is not None and is_list_column(rows, columns.prefix, where):
        raise ValueError(f"{where}: column '{columns.prefix}' of prefixes has lists, but must have texts")
    rows = _renamed(rows, columns, has_documents, has_summaries)
    if has_documents:
        rows = rows.map(_with_document, batched=True, batch_size=_BATCH_SIZE, input_columns=[DOCUMENTS_COLUMN])
    if has_summaries:
        rows = rows.map(_with_summary, batched=True, batch_size=_BATCH_SIZE, input_columns=[REFERENCES_COLUMN])
    return _without_blank(rows, where)


def _passing(rows: Rows, option: RowOption | None, value: int | str | None, where: str) -> Rows:
    """The rows that pass a format's option, if the format has one and it has a value."""
    if option is None or value is None:
        return rows
    if option.is_optional and option.column not in (rows.column_names or []):
        return rows
    passing = rows.filter(option.passes, input_columns=[option.column], fn_kwargs={"option": value})
    if isinstance(rows, datasets.IterableDataset):
        return passing
    if not len(passing):
        raise ValueError(f"{where}: none of the {len(rows)} rows passes `{option.name}` {value}: change it")
    if len(passing) < len(rows):
        logger.info(f"{where}: {len(passing)} of {len(rows)} rows pass `{option.name}` {value}")
    return passing


def _separated(row: Row, column: str, separate: Callable[[str], list[str]]) -> Row:
    """The column of documents of a row, with a list of documents in place of their text."""
    return {column: separate(row[column] or "")}


def _renamed(rows: Rows, columns: Columns, has_documents: bool, has_summaries: bool) -> Rows:
    """The rows with the chosen columns under the names of a loaded corpus."""
    names = {columns.document: "document", columns.summary: "summary"}
    if has_documents:
        names[columns.document] = DOCUMENTS_COLUMN
    if has_summaries:
        names[columns.summary] = REFERENCES_COLUMN
    if columns.prefix is not None:
        names[columns.prefix] = PREFIX_COLUMN
    reserved = {"document", DOCUMENTS_COLUMN, "summary", PREFIX_COLUMN}
    if has_summaries:
        reserved.add(REFERENCES_COLUMN)
    # Columns that were not chosen must not have a name of the chosen ones.
    dropped = []
    for name in rows.column_names or []:
        if name in reserved and name not in names:
            dropped.append(name)
    rows = rows.remove_columns(dropped)
    changed = {name: new for name, new in names.items() if name != new}
    return rows.rename_columns(changed)


def _with_document(documents: list[list[str] | None]) -> dict[str, list]:
    """The columns `documents`, without blank ones, and `document`, which joins those of each row."""
    documents_of_rows = []
    joined = []
    for texts in documents:
        written = written_texts(texts)
        documents_of_rows.append(written)
        joined.append(DOCUMENT_SEPARATOR.join(written))
    return {DOCUMENTS_COLUMN: documents_of_rows, "document": joined}


def _with_summary(references: list[list[str] | None]) -> dict[str, list]:
    """The columns `references`, without blank ones, and `summary`, the first reference of each row or an empty text."""
    references_of_rows = []
    summaries = []
    for texts in references:
        written = written_texts(texts)
        references_of_rows.append(written)
        summaries.append(written[0] if written else "")
    return {REFERENCES_COLUMN: references_of_rows, "summary": summaries}


def _without_blank(rows: Rows, where: str) -> Rows:
    """The rows whose document and summary are not blank; the number of others is logged."""
    written = rows.filter(_have_texts, batched=True, batch_size=_BATCH_SIZE, input_columns=["document", "summary"])
    if isinstance(rows, datasets.IterableDataset):
        return written
    blank = len(rows) - len(written)
    if not len(written):
        raise ValueError(f"{where}: none of the {len(rows)} rows has both a document and a summary")
    if not blank:
        # The filtered rows have an index, with which they would be read more slowly.
        return rows
    logger.warning(f"{where}: {blank} of {len(rows)} rows have a blank document or summary and are left out")
    return written


def _have_texts(documents: list[str | None], summaries: list[str | None]) -> list[bool]:
    """Whether each row has a document and a summary."""
    have_texts = []
    for document, summary in zip(documents, summaries, strict=True):
        have_texts.append(has_text(document) and has_text(summary))
    return have_texts
