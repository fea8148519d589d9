"""Loading a corpus: `datasets` reads its rows, which get the columns `document` and `summary`.

A text is blank if it is missing (None) or has only white space. A stream is an `IterableDataset`: its rows are read
when they are needed, and their number is unknown.
"""

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
    DOCUMENT_COLUMNS,
    DOCUMENTS_COLUMN,
    PREFIX_COLUMN,
    REFERENCES_COLUMN,
    Columns,
    choose_column,
    choose_columns,
    has_references,
    has_text,
    is_list_column,
    nonblank_texts,
)
from hf_summ.data.corpora import SPLITS, Corpus
from hf_summ.data.files import bars_shown, file_states, is_saved, read_files
from hf_summ.data.raw_formats import DataFormat, Row
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

logger = logging.getLogger(__name__)

# The rows of a split.
Rows = datasets.Dataset | datasets.IterableDataset
# Split -> the names that data sets give it; the first name that a data set has is used.
_SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
# The number of rows that are converted at once.
_BATCH_SIZE = 1000
# If a split has more rows than this, their conversion takes seconds, and a progress bar is shown.
_MANY_ROWS = 100_000


def load(
    corpus: Corpus, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
) -> datasets.DatasetDict:
    """Load the splits of a corpus, whose rows get the columns `document` and `summary`.

    The columns are made as follows:

    - If the column of documents has texts, it is renamed to `document`. If it has a list of texts in each row, it is
      renamed to `documents`, and `document` joins the texts of each list by blank lines.
    - If the column of summaries has texts, it is renamed to `summary`, and a column `references` is kept as it is. If
      it has a list of texts in each row, it is renamed to `references`, another column of this name is dropped, and
      `summary` is the first text of each list.
    - A column of prefixes, if `corpus` names it, is renamed to `prefix`.
    - Other columns are kept, except columns called `document`, `documents`, `summary` or `prefix`.

    Blank texts are removed from the lists of `documents`, and from lists of `references` that were the column of
    summaries. Rows with a blank document or summary are left out. The chosen columns are logged, and so is the number
    of the rows that are left out, except for a stream.

    Args:
        corpus: the corpus, and how to read its rows.
        cache_dir: folder in which `datasets` stores downloads and converted files; by default its usual cache. A file
            is converted again only if it has changed.
        token: token for private data sets on the Hub. Files need none.
        trust_remote_code: whether `datasets` may run the code of a data set on the Hub. Its versions from 4 on run no
            such code, and refuse data sets that need it.

    Returns:
        Split -> its rows, for each of the splits `train`, `validation` and `test` that the corpus has. The rows are a
        `Dataset`. With `corpus.streaming`, the rows of `train` are a stream, whose texts are checked only when they are
        read.

    Raises:
        ValueError: `Corpus.check` fails; a file cannot be read; a column is missing or has no texts; all rows are
            blank; or no row passes the option of the format, such as `min_score`. The message names the file or the
            data set.
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
        converted[split.name] = _converted(split, split_columns, corpus)
    return converted


@dataclass(frozen=True)
class _Split:
    """A split of a corpus before its columns are chosen and renamed.

    Attributes:
        name: train, validation or test.
        rows: the rows of the split, with the columns of the file or the data set.
        where: the name of the rows in messages: the file, or the data set and the split.
    """

    name: str
    rows: Rows
    where: str


def training_rows(files: Iterable[str], settings: Mapping[str, Any], with_summaries: bool = True) -> Iterator[Row]:
    """Yield the rows of several training files, one file after another; all files are read before the first row.

    Args:
        files: the names of the files, as for `Corpus.train_file`.
        settings: name of a command's setting -> value. Settings that are fields of `Corpus` say how to read each file;
            others are ignored.
        with_summaries: whether rows need a summary. Without summaries, only blank documents are left out.

    Yields:
        Rows with `document` and, if `with_summaries`, `summary`, as `load` returns them.

    Raises:
        ValueError: as `load`, when the first row is asked for.
    """
    loaded = []
    for file in files:
        corpus = Corpus.among({**settings, "train_file": file})
        if with_summaries:
            loaded.append(load(corpus)["train"])
            continue
        corpus.check()
        split = _Split("train", read_split(corpus, "train"), where=file)
        # A column that the user names for summaries is not chosen for documents.
        names = [name for name in split.rows.column_names or [] if name != corpus.summary_column]
        column = choose_column(names, corpus.text_column, DOCUMENT_COLUMNS, file, "text_column")
        logger.info(f"{file}: documents from '{column}'")
        loaded.append(_converted(split, Columns(column, summary=None), corpus))
    for rows in loaded:
        yield from rows


def cache_folder(cache_dir: str | None) -> Path:
    """Make the folder `hf_summ`, in which this package stores what it computes from corpora, and return its path.

    Args:
        cache_dir: the folder that contains `hf_summ`; by default the cache of `datasets`.

    Raises:
        ValueError: the folder cannot be made or written to.
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
    """The rows of a split's files with the columns of the files, before any column is chosen or renamed.

    Args:
        corpus: a corpus in files.
        split: a split that has files: train, validation or test.
        cache_dir: folder in which `datasets` stores converted files; by default its usual cache.

    Returns:
        A `Dataset`, or a stream for the training rows of a corpus with `streaming`.

    Raises:
        ValueError: a file cannot be read; the message names it.
    """
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
    settings = {"data_format": data_format, "files": file_states(corpus.paths(split))}
    try:
        if is_stream:
            return datasets.IterableDataset.from_generator(_format_rows, gen_kwargs=settings)
        return datasets.Dataset.from_generator(_format_rows, cache_dir=cache_dir, gen_kwargs=settings)
    except datasets.exceptions.DatasetGenerationError as error:
        raise ValueError(f"{corpus.files[split]}: {one_line(error.__cause__ or error)}") from error


def _format_rows(data_format: DataFormat, files: tuple[tuple[str, int, int], ...]) -> Iterator[Row]:
    """Yield the rows of files in the format in which the authors of a corpus distribute it.

    Args:
        data_format: the format, whose `read` is not None.
        files: the states of the files, from `file_states`.

    Raises:
        ValueError: the files have no rows, or `data_format.read` cannot read them.
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
    """Read a data set on the Hub or in a folder.

    Args:
        corpus: gives the configuration of the data set, and whether to read the training rows as a stream.
        name: the name on the Hub, or the path of the folder.
        cache_dir, token, trust_remote_code: as for `load`.

    Returns:
        Split -> its rows, for each of train, validation and test that the data set has under a name in `_SPLIT_NAMES`.

    Raises:
        ValueError: the data set cannot be loaded, or has none of these splits.
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
        # For broken files, libraries raise errors of any type, also `OSError` itself. The subclasses of OSError, such
        # as ConnectionError, say that the data set cannot be reached, so they are raised as they are.
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    if not isinstance(loaded, dict):
        # `name` is a folder in which `save_to_disk` stored a single split.
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
            # Only training rows are streamed: validation and test rows are read completely in any case.
            splits[split] = datasets.Dataset.from_list(list(rows))
    return splits


def _columns_of(split: _Split, corpus: Corpus) -> Columns:
    """Choose the columns of documents, summaries and prefixes of a split, and log the first two.

    The log also names a column `references` with lists of texts, if it is not the column of summaries.

    Args:
        corpus: the columns that the user names; columns that are not named are chosen by their usual names.

    Raises:
        ValueError: as `choose_columns`.
    """
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


def _converted(split: _Split, columns: Columns, corpus: Corpus) -> Rows:
    """The rows as `_with_texts` returns them; a progress bar is shown if there are many.

    Raises:
        ValueError: as `_with_texts`, or a text cannot be decoded.
    """
    is_stream = isinstance(split.rows, datasets.IterableDataset)
    is_long = not is_stream and len(split.rows) > _MANY_ROWS
    try:
        with bars_shown(is_long):
            return _with_texts(split, columns, corpus)
    except UnicodeDecodeError as error:
        # pyarrow reads JSON in any encoding, and decodes its texts only when they are needed.
        raise ValueError(f"{split.where}: not text in UTF-8 ({error}): set `encoding`") from error


def _with_texts(split: _Split, columns: Columns, corpus: Corpus) -> Rows:
    """The rows of a split with the columns that `load` describes, without the rows that `load` leaves out.

    If `columns` has no column of summaries, the rows have none, and only rows with a blank document are left out.

    Args:
        columns: the chosen columns of the split.
        corpus: how to read the rows; a format may have an option that selects rows, such as `min_score`.

    Raises:
        ValueError: a chosen column has no texts; prefixes are lists; all rows are blank; or no row passes the option.
    """
    rows, where = split.rows, split.where
    if isinstance(rows, datasets.IterableDataset):
        # A stream does not know the types of its columns before its first rows are read.
        rows = rows._resolve_features()
    if corpus.format is not None:
        rows = _checked_passing(rows, corpus, where)
    has_document_lists = is_list_column(rows, columns.document, where)
    # The argument by which `_with_document` splits a text into documents; None if there is nothing to split.
    separator_settings = None
    if corpus.format is not None and corpus.format.separate is not None and not has_document_lists:
        # Data sets on the Hub have one text of all documents in a row. `format.read` makes lists from files.
        separator_settings = {"separate": corpus.format.separate}
        has_document_lists = True
    has_summary_lists = columns.summary is not None and is_list_column(rows, columns.summary, where)
    if columns.prefix is not None and is_list_column(rows, columns.prefix, where):
        raise ValueError(f"{where}: column '{columns.prefix}' of prefixes has lists, but must have texts")
    rows = _renamed(rows, columns, has_document_lists, has_summary_lists)
    if has_document_lists:
        rows = _with_text_and_list(rows, _with_document, "document", DOCUMENTS_COLUMN, separator_settings)
    if has_summary_lists:
        rows = _with_text_and_list(rows, _with_summary, "summary", REFERENCES_COLUMN)
    return _without_blank(rows, where)


def passing(rows: Rows, corpus: Corpus) -> Rows:
    """The rows that pass the option of the corpus's format, such as a minimum score.

    All rows pass if there is no option or no value, or if the option's column may be absent and is absent.
    """
    value = corpus.option()
    if corpus.format is None or corpus.format.option is None or value is None:
        return rows
    option = corpus.format.option
    if option.is_optional and option.column not in (rows.column_names or []):
        return rows
    return rows.filter(option.passes, input_columns=[option.column], fn_kwargs={"option": value})


def _checked_passing(rows: Rows, corpus: Corpus, where: str) -> Rows:
    """The rows of `passing`. If some rows do not pass, the number of those that pass is logged, except for a stream.

    Raises:
        ValueError: no row passes; for a stream, this is not checked.
    """
    passing_rows = passing(rows, corpus)
    if corpus.format is None or corpus.format.option is None or isinstance(rows, datasets.IterableDataset):
        return passing_rows
    setting = f"`{corpus.format.option.name}` {corpus.option()}"
    if not len(passing_rows):
        raise ValueError(f"{where}: none of the {len(rows)} rows passes {setting}: change it")
    if len(passing_rows) < len(rows):
        logger.info(f"{where}: {len(passing_rows)} of {len(rows)} rows pass {setting}")
    return passing_rows


def _renamed(rows: Rows, columns: Columns, has_document_lists: bool, has_summary_lists: bool) -> Rows:
    """The rows with the chosen columns under the names that `load` gives them.

    Columns that were not chosen and have one of these names are dropped.

    Args:
        columns: the chosen columns.
        has_document_lists, has_summary_lists: whether the columns of documents and summaries have lists, or will have
            them. They are then renamed to `documents` and `references`, otherwise to `document` and `summary`.
    """
    names = {columns.document: DOCUMENTS_COLUMN if has_document_lists else "document"}
    if columns.summary is not None:
        names[columns.summary] = REFERENCES_COLUMN if has_summary_lists else "summary"
    if columns.prefix is not None:
        names[columns.prefix] = PREFIX_COLUMN
    reserved = {"document", DOCUMENTS_COLUMN, "summary", PREFIX_COLUMN}
    if has_summary_lists:
        reserved.add(REFERENCES_COLUMN)
    dropped = [name for name in rows.column_names or [] if name in reserved and name not in names]
    rows = rows.remove_columns(dropped)
    changed = {name: new for name, new in names.items() if name != new}
    return rows.rename_columns(changed)


def _with_text_and_list(
    rows: Rows, convert: Callable[..., dict[str, list]], text: str, texts: str, settings: dict[str, Any] | None = None
) -> Rows:
    """The rows with two columns that `convert` makes: `text` has a text in each row, and `texts` a list of texts.

    Args:
        convert: takes the values of `texts` in a batch, and `settings` as further arguments.
    """
    features = None
    if isinstance(rows, datasets.IterableDataset):
        # A stream knows neither names nor types of the columns that `map` makes, unless it is told all types.
        string = datasets.Value("string")
        features = datasets.Features({**(rows.features or {}), text: string, texts: datasets.List(string)})
    return rows.map(
        convert, batched=True, batch_size=_BATCH_SIZE, input_columns=[texts], features=features, fn_kwargs=settings
    )


def _with_document(documents: list, separate: Callable[[str], list[str]] | None = None) -> dict[str, list]:
    """Remove blank documents, and join the documents of each row by blank lines.

    Args:
        documents: for each row of a batch, the list of its documents, or None. With `separate`, the documents of a row
            are one text, or None.
        separate: splits a text into documents.

    Returns:
        The columns `documents`, with a list for each row, and `document`, with a text for each row.
    """
    documents_of_rows = []
    joined_texts = []
    for texts in documents:
        if separate is not None:
            texts = separate(texts or "")
        documents_of_row = nonblank_texts(texts)
        documents_of_rows.append(documents_of_row)
        joined_texts.append(DOCUMENT_SEPARATOR.join(documents_of_row))
    return {DOCUMENTS_COLUMN: documents_of_rows, "document": joined_texts}


def _with_summary(references: list[list[str] | None]) -> dict[str, list]:
    """Remove blank references, and take the first reference of each row as the summary.

    Args:
        references: for each row of a batch, the list of its references, or None.

    Returns:
        The columns `references`, with a list for each row, and `summary`, with a text for each row. The summary of a
        row without references is empty.
    """
    references_of_rows = []
    summaries = []
    for texts in references:
        references_of_row = nonblank_texts(texts)
        references_of_rows.append(references_of_row)
        summary = references_of_row[0] if references_of_row else ""
        summaries.append(summary)
    return {REFERENCES_COLUMN: references_of_rows, "summary": summaries}


def _without_blank(rows: Rows, where: str) -> Rows:
    """The rows whose texts are not blank. The number of rows left out is logged, except for a stream.

    Args:
        rows: rows with the column `document` and, unless only documents are read, the column `summary`.
        where: the name of the rows in messages.

    Raises:
        ValueError: no row has its texts; for a stream, this is not checked.
    """
    columns = ["document"]
    if "summary" in (rows.column_names or []):
        columns.append("summary")
    complete_rows = rows.filter(_have_texts, batched=True, batch_size=_BATCH_SIZE, input_columns=columns)
    if isinstance(rows, datasets.IterableDataset):
        return complete_rows
    if not len(complete_rows):
        raise ValueError(f"{where}: none of the {len(rows)} rows has a {' and a '.join(columns)}")
    blank = len(rows) - len(complete_rows)
    if blank == 0:
        # `filter` makes a table of indices, with which rows are read more slowly, so the original rows are returned.
        return rows
    logger.warning(f"{where}: {blank} of {len(rows)} rows have a blank {' or '.join(columns)} and are left out")
    return complete_rows


def _have_texts(*columns: list[str | None]) -> list[bool]:
    """For each row of a batch, whether none of its texts is blank. A column has a text for each row."""
    have_texts = []
    for texts in zip(*columns, strict=True):
        have_texts.append(all(has_text(text) for text in texts))
    return have_texts
