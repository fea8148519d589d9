"""Loading a corpus: all rows are checked first, and then converted to a data set."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from hf_summ.common.messages import one_line
from hf_summ.data.columns import (
    LIST_COLUMNS,
    PREFIX_COLUMN,
    choose_columns,
    choose_prefix,
    feature_of,
    has_text,
    kind_of_column,
    kind_of_value,
    single_texts,
    storable,
    text_or_texts,
)
from hf_summ.data.corpora import SPLITS, Corpus, Reading
from hf_summ.data.raw_formats import DataFormat, format_of
from hf_summ.data.rows import ROW_FILES, kind_of_file

logger = logging.getLogger(__name__)

# number of lines that a warning about omitted rows lists
_LINES_NAMED = 5


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
        corpus: the corpus, and how to read it.
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


def _load_from_hub(
    corpus: Corpus, cache_dir: str | None, token: str | bool | None, trust_remote_code: bool
) -> datasets.DatasetDict:
    name = str(corpus.dataset_name)
    trust = {"trust_remote_code": True} if trust_remote_code else {}
    try:
        loaded = datasets.load_dataset(name, corpus.dataset_config_name, cache_dir=cache_dir, token=token, **trust)
    except Exception as error:
        # for broken files, libraries raise errors of any type, including bare OSErrors
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        if "scripts" in str(error):
            raise ValueError(
                f"{name} is a script, which `datasets` does not run: name a data set of files, such as its conversion "
                "to Parquet, or give `train_file` and the like"
            ) from None
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    splits = [split for split in SPLITS if split in loaded]
    if not splits:
        raise ValueError(f"{name} has the splits {', '.join(loaded)}, but needs one of {', '.join(SPLITS)}")
    parts = {}
    for split in splits:
        part, where = loaded[split], f"{name}, {split}"
        if corpus.option() is not None:
            part = _in_bin(part, where, corpus)
        parts[split] = _name_columns(part, where, corpus)
    return datasets.DatasetDict(parts)


class Survey:
    """The checked rows of a split's files; a problem is reported with its line before any work starts.

    Raises:
        ValueError: as `load`.
    """

    def __init__(self, corpus: Corpus, split: str):
        self._corpus, self._split, self._name, self._paths = corpus, split, corpus.files[split], corpus.paths(split)
        # `document` and `summary` -> their columns in the file, and column -> whether its values are lists of texts
        self._chosen: dict[str, str] = {}
        self._prefix: str | None = None
        self._lists: dict[str, bool] = {}
        # column -> the kinds of its values
        self._kinds: dict[str, set[str]] = {}
        # number of rows without document or summary, the places of the first ones, and of rows with NUL characters
        self._blank = 0
        self._blank_places: list[str] = []
        self._nul_places: list[str] = []
        how, option = corpus.format, corpus.option()
        # other kinds of file have no column names
        has_names = len(self._paths) == 1 and kind_of_file(self._paths[0]) in ROW_FILES
        columns = (corpus.text_column, corpus.summary_column) if has_names else (None, None)
        rows = left_out = 0
        for place, row in how.read(self._paths, True):
            where = f"{self._name}, {place}"
            if not how.keeps(row, option, where):
                left_out += 1
                continue
            if not rows:
                self._chosen = dict(zip(LIST_COLUMNS, choose_columns(list(row), *columns, where), strict=True))
                self._prefix = choose_prefix(list(row), corpus.prefix_column, self._chosen.values(), where)
            rows += 1
            self._look_at(place, row, how)
        if not rows and left_out:
            raise ValueError(f"{self._name}: {_none_passes(left_out, corpus)}")
        if not rows:
            raise ValueError(f"{self._name} has no rows: it must contain at least one document and its summary")
        if left_out:
            logger.info(f"{self._name}: {rows} of {rows + left_out} rows are used, those {_passing(corpus)}")
        _report_blank(self._name, self._blank, rows, self._blank_places)
        if self._nul_places:
            logger.warning(
                f"{self._name}: NUL characters in {_named(self._nul_places, len(self._nul_places))}, which are not "
                "text: was the file written completely?"
            )

    def _look_at(self, place: str, row: dict[str, Any], how: DataFormat) -> None:
        """Check a row, and record its kinds of values.

        Raises:
            ValueError: its document or summary is not text, or is a list unlike in earlier rows, or the reverse.
        """
        is_whole, has_nul = True, False
        where = f"{self._name}, {place}"
        for column, name in self._chosen.items():
            value = text_or_texts(row, name, where)
            if column == "document" and how.separate is not None and isinstance(value, str):
                value = how.separate(value)
            is_list = isinstance(value, list)
            if value is not None and self._lists.setdefault(name, is_list) != is_list:
                holds, hint = ("list", "join its parts into one text") if is_list else ("str", "make it a list of one")
                raise ValueError(f"{where}: '{name}' is {holds}, unlike in the rows before it ({value!r:.60}): {hint}")
            is_whole = is_whole and has_text(value)
            has_nul = has_nul or any("\0" in (text or "") for text in (value if is_list else [value]))
        if self._prefix is not None and isinstance(value := text_or_texts(row, self._prefix, where), list):
            raise ValueError(f"{where}: '{self._prefix}' must be text, but is a list: {value!r:.60}; give one prefix")
        if not is_whole:
            self._blank += 1
            if len(self._blank_places) < _LINES_NAMED:
                self._blank_places.append(place)
        elif has_nul:
            self._nul_places.append(place)
        for name, value in row.items():
            self._kinds.setdefault(name, set()).add(kind_of_value(value))

    def convert(self, cache_dir: str | None) -> datasets.Dataset:
        """The rows as a data set, from the cache if the files have not changed."""
        lists = tuple(column for column, name in self._chosen.items() if self._lists[name])
        columns = _renamed(self._kinds, self._chosen, lists, self._prefix)
        kinds = {columns[name]: kind_of_column(kinds) for name, kinds in self._kinds.items() if name in columns}
        # without this, a column with only null values would have no kind
        kinds |= {LIST_COLUMNS[column]: "strings" for column in lists} | dict.fromkeys(self._chosen, "string")
        order = [*self._chosen, *(name for name in kinds if name not in self._chosen)]
        return datasets.Dataset.from_generator(
            _rows,
            features=datasets.Features({name: feature_of(kinds[name]) for name in order}),
            cache_dir=cache_dir,
            split=datasets.NamedSplit(self._split),
            gen_kwargs={
                # size and time are in the cache's key, so a changed file is converted again
                "files": tuple(
                    (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in self._paths
                ),
                "columns": tuple(sorted(columns.items())),
                "lists": lists,
                "json_columns": tuple(sorted(name for name, kind in kinds.items() if kind == "json")),
                "data_format": self._corpus.data_format,
                "option": self._corpus.option(),
            },
        )


def columns_of(corpus: Corpus, split: str) -> tuple[str, str] | None:
    """The columns of documents and summaries in a split's file, or None if its kind has no column names.

    Raises:
        ValueError: as `load`.
    """
    paths = corpus.paths(split)
    if len(paths) != 1 or kind_of_file(paths[0]) not in ROW_FILES:
        return None
    place, row = next(iter(corpus.format.read(paths, True)))
    return choose_columns(list(row), corpus.text_column, corpus.summary_column, f"{corpus.files[split]}, {place}")


def _passing(reading: Reading) -> str:
    option = reading.option()
    return f"with a score of {option} or more" if reading.data_format == "lcsts" else f"in the density bin {option}"


def _none_passes(rows: int, reading: Reading) -> str:
    is_scored = reading.data_format == "lcsts"
    hint = "lower `min_score`" if is_scored else "choose another `density_bin`, or none"
    return f"none of the {rows} rows is one {_passing(reading)}: {hint}"


def _report_blank(where: str, blank: int, rows: int, places: Sequence[str] = ()) -> None:
    """Warn of blank rows, with the places of the first ones if known; raise a ValueError if all rows are blank."""
    if blank == rows:
        raise ValueError(f"{where}: all {rows} rows have a blank document or summary")
    if blank:
        named = f" ({_named(places, blank)})" if places else ""
        logger.warning(f"{where}: {blank} of {rows} rows have a blank document or summary and are left out{named}")


def _renamed(
    present: Iterable[str], chosen: dict[str, str], lists: Collection[str], prefix: str | None
) -> dict[str, str]:
    """Kept column -> its name in the data set; `chosen` has the columns of document and summary."""
    renamed = {name: LIST_COLUMNS[column] if column in lists else column for column, name in chosen.items()}
    renamed |= {} if prefix is None else {prefix: PREFIX_COLUMN}
    # other columns of these names would be read instead of the chosen ones
    taken = {*chosen, *renamed.values(), LIST_COLUMNS["document"], PREFIX_COLUMN}
    return {name: name for name in present if name not in taken} | renamed


def _named(places: Sequence[str], number: int) -> str:
    """The first places, in words."""
    return ", ".join(places[:_LINES_NAMED]) + (", ..." if number > _LINES_NAMED else "")


def _rows(
    files: tuple, columns: tuple, lists: tuple, json_columns: tuple, data_format: str | None, option: Any
) -> Iterator[dict[str, Any]]:
    """The rows of a surveyed file with renamed columns, without blank rows and rows excluded by the option."""
    how = format_of(data_format)
    for place, row in how.read(tuple(Path(path) for path, _, _ in files), False):
        if not how.keeps(row, option, place):
            continue
        row = {new: storable(row.get(old), as_json=new in json_columns) for old, new in columns}
        if lists:
            row |= single_texts(row, lists, how.separate)
        if has_text(row["document"]) and has_text(row["summary"]):
            yield row


def _in_bin(dataset: datasets.Dataset, where: str, reading: Reading) -> datasets.Dataset:
    density_bin = reading.density_bin
    if "density_bin" not in dataset.column_names:
        raise ValueError(
            f"{where}: no column 'density_bin', which `density_bin` '{density_bin}' needs; the columns are "
            f"{', '.join(dataset.column_names)}"
        )
    kept = [
        index
        for index, value in enumerate(dataset["density_bin"][:])
        if reading.format.keeps({"density_bin": value}, density_bin, f"{where}, row {index + 1}")
    ]
    if not kept:
        raise ValueError(f"{where}: {_none_passes(len(dataset), reading)}")
    return dataset.select(kept)


def _name_columns(dataset: datasets.Dataset, where: str, corpus: Corpus) -> datasets.Dataset:
    columns, how = (corpus.text_column, corpus.summary_column), corpus.format
    chosen = dict(zip(LIST_COLUMNS, choose_columns(dataset.column_names, *columns, where), strict=True))
    prefix = choose_prefix(dataset.column_names, corpus.prefix_column, chosen.values(), where)
    if prefix is not None and not _is_text(dataset.features[prefix]):
        raise ValueError(f"{where}: '{prefix}' must be text, but is {dataset.features[prefix]}: name another column")
    lists = []
    for column, name in chosen.items():
        feature = dataset.features[name]
        # the feature of a list of texts contains the feature of a text
        is_text, is_list = _is_text(feature), _is_text(getattr(feature, "feature", None))
        if not is_text and not is_list:
            raise ValueError(f"{where}: '{name}' must be text, but is {feature}: name another column")
        if is_list or (column == "document" and how.separate is not None):
            lists.append(column)
    kept = _renamed(dataset.column_names, chosen, lists, prefix)
    named = dataset.select_columns([name for name in dataset.column_names if name in kept])
    named = named.rename_columns({old: new for old, new in kept.items() if old != new})
    if lists:
        named = named.map(
            single_texts, fn_kwargs={"columns": lists, "separate": how.separate}, desc="joining lists of texts"
        )
    whole = named.filter(
        lambda *texts: all(map(has_text, texts)), input_columns=["document", "summary"], desc="leaving out blank rows"
    )
    _report_blank(where, len(dataset) - len(whole), len(dataset))
    return whole


def _is_text(feature: Any) -> bool:
    return getattr(feature, "dtype", None) in ("string", "large_string")
