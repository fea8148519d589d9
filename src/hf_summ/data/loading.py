"""Loading a corpus: all rows are checked first, and then converted to a data set."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets

from hf_summ.common.files import content_hash
from hf_summ.common.messages import one_line
from hf_summ.data.columns import (
    LIST_COLUMNS,
    PREFIX_COLUMN,
    choose_columns,
    column_type,
    feature_of,
    has_text,
    is_text,
    single_texts,
    storable,
    text_or_texts,
    value_type,
)
from hf_summ.data.corpora import SPLITS, Corpus, Reading
from hf_summ.data.raw_formats import format_of
from hf_summ.data.rows import ROW_FILES, kind_of_file
from hf_summ.models.text_documents import readable

logger = logging.getLogger(__name__)

# number of rows that a warning about blank rows lists
_ROWS_LISTED = 5


def load(
    corpus: Corpus, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
) -> datasets.DatasetDict:
    """Load a corpus with the columns `document` and `summary`, and the splits train, validation and test.

    Files are checked on every call, and converted only if they have changed.

    Other columns are kept, except columns called `document`, `documents`, `summary` or `prefix` that are not the chosen
    ones; the chosen column of prefixes is called `prefix`. CSV fields stay strings; values of different types within a
    column become JSON strings. Lone surrogates, which no tokenizer can read, become U+FFFD. Rows with a blank document
    or summary are skipped, with one warning per split.

    If documents are lists of texts, the lists are kept as `documents`, and `document` joins their members by blank
    lines. If summaries are lists, the lists are kept as `references`, and `summary` is the first member. Models are
    trained and scored on `summary`; `references` serves scoring with several. Blank members of lists are skipped.

    Args:
        corpus: the corpus, and how to read it. With `streaming`, the training rows are an `IterableDataset` of
            single texts.
        cache_dir: folder in which `datasets` stores downloads and converted files.
        token: token for private data sets on the Hub.
        trust_remote_code: passed to `datasets`, which no longer runs code of data sets from version 4 on.

    Raises:
        ValueError: as `Corpus.check`; a line that is not a row (truncated JSON, wrong number of CSV fields, not UTF-8);
            missing or unusable columns; paired files of different length; only blank rows, or none that pass the
            format's option. Messages name the file and the line.
        OSError: the data set cannot be reached.
    """
    corpus.check()
    if corpus.dataset_name is not None:
        return _load_from_hub(corpus, cache_dir, token, trust_remote_code)
    # check all splits before the first is converted
    surveys = {split: Survey(corpus, split) for split in corpus.files}
    return datasets.DatasetDict({split: survey.convert(cache_dir) for split, survey in surveys.items()})


def training_rows(files: Iterable[str], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of several training files, which are all checked before the first row.

    Args:
        settings: those of `Corpus` among them say how to read each file.

    Raises:
        ValueError: as `load`.
    """
    for rows in [load(Corpus.among({**settings, "train_file": file}))["train"] for file in files]:
        yield from rows


def _load_from_hub(
    corpus: Corpus, cache_dir: str | None, token: str | bool | None, trust_remote_code: bool
) -> datasets.DatasetDict:
    name = str(corpus.dataset_name)
    trust = {"trust_remote_code": True} if trust_remote_code else {}
    try:
        trust |= {"streaming": True} if corpus.streaming else {}
        loaded = datasets.load_dataset(name, corpus.dataset_config_name, cache_dir=cache_dir, token=token, **trust)
    except Exception as error:
        # for broken files, libraries raise errors of any type, including bare OSErrors
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    splits = datasets.DatasetDict({split: loaded[split] for split in SPLITS if split in loaded})
    if not splits:
        raise ValueError(f"{name} has the splits {', '.join(loaded)}, but needs one of {', '.join(SPLITS)}")
    for split, rows in splits.items():
        where = f"{name}, {split}"
        if corpus.streaming and split == "train":
            splits[split] = _stream(rows, where, corpus)
            continue
        if corpus.streaming:
            # these are read completely in any case
            rows = datasets.Dataset.from_list(list(rows))
        if corpus.density_bin is not None:
            values = rows.select_columns(["density_bin"])
            passing = [index for index, row in enumerate(values) if corpus.format.passes(row, corpus.density_bin)]
            _check_some_pass(where, len(passing), len(rows), corpus)
            rows = rows.select(passing)
        splits[split] = _name_columns(rows, where, corpus)
    return splits


def _stream(rows: datasets.IterableDataset, where: str, corpus: Corpus) -> datasets.IterableDataset:
    """The rows of a stream with `document`, `summary` and perhaps `prefix`, without blank ones."""
    first = next(iter(rows), None)
    if first is None:
        raise ValueError(f"{where} has no rows: it must have at least one document and its summary")
    chosen = choose_columns(list(first), corpus.text_column, corpus.summary_column, where, corpus.prefix_column)

    def texts(row: dict[str, Any]) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        for column, name in chosen.items():
            value = text_or_texts(row, name, where)
            if isinstance(value, list):
                raise ValueError(f"{where}: '{name}' has lists, which streams lack: leave out --streaming")
            values[column] = None if value is None else readable(value)
        return values

    features = datasets.Features(dict.fromkeys(chosen, datasets.Value("string")))
    named = rows.map(texts, remove_columns=list(first), features=features)
    return named.filter(lambda row: has_text(row["document"]) and has_text(row["summary"]))


def _name_columns(dataset: datasets.Dataset, where: str, corpus: Corpus) -> datasets.Dataset:
    separate = corpus.format.separate
    chosen = choose_columns(
        dataset.column_names, corpus.text_column, corpus.summary_column, where, corpus.prefix_column
    )
    lists = []
    for column, name in chosen.items():
        feature = dataset.features[name]
        is_list = column != PREFIX_COLUMN and is_text(getattr(feature, "feature", None))
        if not is_list and not is_text(feature):
            raise ValueError(f"{where}: '{name}' must be text, but is {feature}: name another column")
        if is_list or (column == "document" and separate is not None):
            lists.append(column)
    columns = _renamed(dataset.column_names, chosen, lists)
    dataset = dataset.select_columns([name for name in dataset.column_names if name in columns])
    dataset = dataset.rename_columns({old: new for old, new in columns.items() if old != new})
    if lists:
        dataset = dataset.map(
            single_texts, fn_kwargs={"columns": lists, "separate": separate}, desc="joining lists of texts"
        )
    texts = dataset.filter(
        lambda *texts: all(map(has_text, texts)), input_columns=["document", "summary"], desc="leaving out blank rows"
    )
    _report_blank(where, len(dataset) - len(texts), len(dataset))
    return texts


class Survey:
    """The checked rows of a split's files; a problem is reported with its line before any work starts.

    Raises:
        ValueError: as `load`.
    """

    def __init__(self, corpus: Corpus, split: str):
        self._corpus, self._split, self._name, self._paths = corpus, split, corpus.files[split], corpus.paths(split)
        # before they are read: a file that changes afterwards is converted again
        self._files = tuple((str(path.resolve()), content_hash(path)) for path in self._paths)
        # `document`, `summary` and perhaps `prefix` -> their columns in the file
        self._chosen: dict[str, str] = {}
        # chosen column -> whether its values are lists of texts
        self._lists: dict[str, bool] = {}
        # column -> the types of its values
        self._types: dict[str, set[str]] = {}
        self._blank: list[str] = []
        option = corpus.option()
        rows = total = 0
        for position, row in corpus.format.read(self._paths, True):
            total += 1
            if corpus.format.passes(row, option):
                rows += 1
                where = f"{self._name}, {position}"
                self._chosen = self._chosen or _choose_columns(corpus, self._paths, row, where)
                self._look_at(position, row)
        if not total:
            raise ValueError(f"{self._name} has no rows: it must have at least one document and its summary")
        _check_some_pass(self._name, rows, total, corpus)
        if rows < total:
            logger.info(f"{self._name}: {rows} of {total} rows are used, those {_passing(corpus)}")
        _report_blank(self._name, len(self._blank), rows, self._blank)

    def _look_at(self, position: str, row: dict[str, Any]) -> None:
        """Check a row, and record the types of its values.

        Raises:
            ValueError: its document or summary is not text, or is a list unlike in earlier rows, or the reverse.
        """
        is_blank, separate = False, self._corpus.format.separate
        for column, name in self._chosen.items():
            value = text_or_texts(row, name, f"{self._name}, {position}")
            if column == "document" and separate is not None and isinstance(value, str):
                value = separate(value)
            is_list = isinstance(value, list)
            # a prefix is never a list
            if value is not None and self._lists.setdefault(name, is_list and column != PREFIX_COLUMN) != is_list:
                form = "list" if is_list else "str"
                raise ValueError(f"{self._name}, {position}: '{name}' is {form}, unlike in other rows: {value!r:.60}")
            is_blank |= column != PREFIX_COLUMN and not has_text(value)
        if is_blank:
            self._blank.append(position)
        for name, value in row.items():
            self._types.setdefault(name, set()).add(value_type(value))

    def convert(self, cache_dir: str | None) -> datasets.Dataset:
        """The rows as a data set, from the cache if the files have not changed."""
        lists = tuple(column for column in LIST_COLUMNS if self._lists[self._chosen[column]])
        columns = _renamed(self._types, self._chosen, lists)
        types = {columns[name]: column_type(types) for name, types in self._types.items() if name in columns}
        # without this, a column with only null values would have no type
        types |= {LIST_COLUMNS[column]: "strings" for column in lists} | dict.fromkeys(self._chosen, "string")
        order = [*self._chosen, *(name for name in types if name not in self._chosen)]
        return datasets.Dataset.from_generator(
            _rows,
            features=datasets.Features({name: feature_of(types[name]) for name in order}),
            cache_dir=cache_dir,
            split=datasets.NamedSplit(self._split),
            gen_kwargs={
                # their content is in the cache's key, as archives and copies keep the time of a change
                "files": self._files,
                "columns": tuple(sorted(columns.items())),
                "lists": lists,
                "json_columns": tuple(sorted(name for name, type_name in types.items() if type_name == "json")),
                "data_format": self._corpus.data_format,
                "option": self._corpus.option(),
            },
        )


def columns_of(corpus: Corpus, split: str) -> tuple[str, str] | None:
    """The columns of documents and summaries in a split's file, or None if its type has no column names.

    Raises:
        ValueError: as `load`.
    """
    paths = corpus.paths(split)
    if not _has_column_names(paths):
        return None
    position, row = next(iter(corpus.format.read(paths, True)))
    chosen = _choose_columns(corpus, paths, row, f"{corpus.files[split]}, {position}")
    return chosen["document"], chosen["summary"]


def _choose_columns(corpus: Corpus, paths: Sequence[Path], row: dict[str, Any], where: str) -> dict[str, str]:
    names = (corpus.text_column, corpus.summary_column) if _has_column_names(paths) else (None, None)
    return choose_columns(list(row), *names, where, corpus.prefix_column)


def _has_column_names(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and kind_of_file(paths[0]) in ROW_FILES


def _passing(reading: Reading) -> str:
    option = reading.option()
    return f"with a score of {option} or more" if reading.data_format == "lcsts" else f"in the density bin {option}"


def _check_some_pass(where: str, passing: int, rows: int, reading: Reading) -> None:
    if not passing:
        hint = "`min_score`" if reading.data_format == "lcsts" else "`density_bin` (abstractive, mixed or extractive)"
        raise ValueError(f"{where}: none of the {rows} rows is one {_passing(reading)}: change {hint}")


def _report_blank(where: str, blank: int, rows: int, positions: Sequence[str] = ()) -> None:
    """Warn of blank rows, with the first ones if known; raise a ValueError if all rows are blank."""
    if blank == rows:
        raise ValueError(f"{where}: all {rows} rows have a blank document or summary")
    if blank:
        listed = ", ".join([*positions[:_ROWS_LISTED], *(["..."] if blank > _ROWS_LISTED else [])])
        listed = f" ({listed})" if positions else ""
        logger.warning(f"{where}: {blank} of {rows} rows have a blank document or summary and are left out{listed}")


def _renamed(columns: Iterable[str], chosen: dict[str, str], lists: Collection[str]) -> dict[str, str]:
    """Column of the file -> its name in the data set; `chosen` has the columns of document, summary and prefix."""
    renamed = {name: LIST_COLUMNS[column] if column in lists else column for column, name in chosen.items()}
    # other columns of these names would be read instead of the chosen ones
    taken = {*chosen, *renamed.values(), LIST_COLUMNS["document"], PREFIX_COLUMN}
    return {name: name for name in columns if name not in taken} | renamed


def _rows(
    files: tuple, columns: tuple, lists: tuple, json_columns: tuple, data_format: str | None, option: Any
) -> Iterator[dict[str, Any]]:
    """The rows of a surveyed file with renamed columns, without blank rows and rows excluded by the option."""
    reader = format_of(data_format)
    for _, row in reader.read(tuple(Path(path) for path, _ in files), False):
        if not reader.passes(row, option):
            continue
        row = {new: storable(row.get(old), as_json=new in json_columns) for old, new in columns}
        if lists:
            row |= single_texts(row, lists, reader.separate)
        if has_text(row["document"]) and has_text(row["summary"]):
            yield row
