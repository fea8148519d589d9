"""Loading a corpus: rows that `datasets` reads, with the columns `document` and `summary`."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
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
from hf_summ.data.raw_formats import DataFormat, RowOption
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

logger = logging.getLogger(__name__)

Rows = datasets.Dataset | datasets.IterableDataset
# other names of splits on the Hub
_SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
_BATCH_SIZE = 1000
# rows whose conversion takes seconds, and needs a progress bar
_MANY_ROWS = 100_000


def load(
    corpus: Corpus, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
) -> datasets.DatasetDict:
    """Load a corpus with the columns `document` and `summary`, and the splits train, validation and test.

    `datasets` reads the rows, and converts a file again only if it has changed. Other columns are kept, except columns
    called `document`, `documents`, `summary` or `prefix` that are not the chosen ones. A list of texts in the column of
    documents is kept as `documents`, and `document` joins its members by blank lines. A list in the column of summaries
    is kept as `references`, and `summary` is its first member. Lists of texts in a column `references` beside the
    summaries are several references. Blank members are left out, and so are rows with a blank document or summary,
    whose number is logged, as are the chosen columns.

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
    if corpus.dataset_name is None:
        rows_of_splits = {split: read_split(corpus, split, cache_dir) for split in corpus.files}
        where = corpus.files
    else:
        rows_of_splits = _read_data_set(corpus, corpus.dataset_name, cache_dir, token, trust_remote_code)
        where = {split: f"{corpus.dataset_name}, {split}" for split in rows_of_splits}
    # all splits are examined before the first is converted, which may take minutes
    columns = {split: _columns_of(rows, corpus, where[split]) for split, rows in rows_of_splits.items()}
    converted = datasets.DatasetDict()
    for split, rows in rows_of_splits.items():
        is_long = not isinstance(rows, datasets.IterableDataset) and len(rows) > _MANY_ROWS
        try:
            with bars_shown(is_long):
                converted[split] = _with_texts(rows, columns[split], corpus, where[split])
        except UnicodeDecodeError as error:
            # pyarrow reads JSON in any encoding, and decodes its texts when they are needed
            raise ValueError(f"{where[split]}: not text in UTF-8 ({error}): set `encoding`") from error
    return converted


def training_rows(files: Iterable[str], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of several training files, which are all read before the first row.

    Args:
        settings: those of `Corpus` among them say how to read each file.
    """
    corpora = [load(Corpus.among({**settings, "train_file": file}))["train"] for file in files]
    for rows in corpora:
        yield from rows


def cache_folder(cache_dir: str | None) -> Path:
    """The folder, which is made, of what is computed from corpora; by default in that of `datasets`.

    Raises:
        ValueError: it cannot be written to.
    """
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_summ"
    # an unknown user without HOME has no home: a folder of this name would be made
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
    # the state of the files is in the cache's key
    files = tuple((str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in corpus.paths(split))
    settings = {"data_format": data_format, "files": files}
    try:
        if is_stream:
            return datasets.IterableDataset.from_generator(_format_rows, gen_kwargs=settings)
        return datasets.Dataset.from_generator(_format_rows, cache_dir=cache_dir, gen_kwargs=settings)
    except datasets.exceptions.DatasetGenerationError as error:
        raise ValueError(f"{corpus.files[split]}: {one_line(error.__cause__ or error)}") from error


def _format_rows(data_format: DataFormat, files: tuple[tuple[str, int, int], ...]) -> Iterator[dict[str, Any]]:
    assert data_format.read is not None
    has_rows = False
    for row in data_format.read(tuple(Path(path) for path, _, _ in files)):
        has_rows = True
        yield row
    if not has_rows:
        raise ValueError("the split has no rows")


def _read_data_set(
    corpus: Corpus, name: str, cache_dir: str | None, token: str | bool | None, trust_remote_code: bool
) -> dict[str, Rows]:
    """The splits of a data set on the Hub, or in a folder."""
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
        # for broken files, libraries raise errors of any type, including bare OSErrors
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    if not isinstance(loaded, dict):
        # a folder of one split
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
            # these are read completely in any case
            splits[split] = datasets.Dataset.from_list(list(rows))
    return splits


def _columns_of(rows: Rows, corpus: Corpus, where: str) -> Columns:
    """The chosen columns, which are logged."""
    if rows.column_names is None or rows.features is None:
        # a stream knows its columns once its first rows are read
        rows = rows._resolve_features()
    columns = choose_columns(
        rows.column_names or [], corpus.text_column, corpus.summary_column, corpus.prefix_column, where
    )
    chosen = f"documents from '{columns.document}', summaries from '{columns.summary}'"
    if columns.summary != REFERENCES_COLUMN and has_references(rows.features or {}):
        chosen += f", references for scoring from '{REFERENCES_COLUMN}'"
    logger.info(f"{where}: {chosen}")
    return columns


def _with_texts(rows: Rows, columns: Columns, corpus: Corpus, where: str) -> Rows:
    """The rows with `document` and `summary`, without blank ones and those that the format's option excludes."""
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


def _passing(rows: Rows, option: RowOption | None, value: Any, where: str) -> Rows:
    """The rows that pass a format's option, if it is set."""
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


def _separated(row: dict[str, Any], column: str, separate: Any) -> dict[str, Any]:
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
    taken = {"document", DOCUMENTS_COLUMN, "summary", PREFIX_COLUMN}
    if has_summaries:
        taken.add(REFERENCES_COLUMN)
    dropped = [name for name in rows.column_names or [] if name in taken and name not in names]
    rows = rows.remove_columns(dropped)
    changed = {name: new for name, new in names.items() if name != new}
    return rows.rename_columns(changed)


def _with_document(documents: list[list[str] | None]) -> dict[str, list]:
    """Lists of documents without blank ones, and the text of each list."""
    members = [written_texts(texts) for texts in documents]
    return {DOCUMENTS_COLUMN: members, "document": [DOCUMENT_SEPARATOR.join(texts) for texts in members]}


def _with_summary(references: list[list[str] | None]) -> dict[str, list]:
    """Lists of references without blank ones, and the first of each list."""
    members = [written_texts(texts) for texts in references]
    return {REFERENCES_COLUMN: members, "summary": [texts[0] if texts else "" for texts in members]}


def _without_blank(rows: Rows, where: str) -> Rows:
    """The rows whose document and summary are not blank; the number of others is logged."""
    written = rows.filter(_have_texts, batched=True, batch_size=_BATCH_SIZE, input_columns=["document", "summary"])
    if isinstance(rows, datasets.IterableDataset):
        return written
    blank = len(rows) - len(written)
    if not len(written):
        raise ValueError(f"{where}: none of the {len(rows)} rows has both a document and a summary")
    if not blank:
        # without the index of a filter, rows are read faster
        return rows
    logger.warning(f"{where}: {blank} of {len(rows)} rows have a blank document or summary and are left out")
    return written


def _have_texts(documents: list[str | None], summaries: list[str | None]) -> list[bool]:
    return [has_text(document) and has_text(summary) for document, summary in zip(documents, summaries, strict=True)]
