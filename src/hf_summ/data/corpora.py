"""Corpora of documents and summaries, from the Hub or from files."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets

from hf_summ.data.columns import (
    LIST_COLUMNS,
    choose_columns,
    feature_of,
    kind_of_column,
    kind_of_value,
    says_something,
    single_texts,
    storable,
    text_or_texts,
)
from hf_summ.data.raw_formats import DataFormat, check_format, format_of
from hf_summ.data.rows import ROW_FILES, kind_of_file

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")
# line numbers that a warning about left-out rows gives
_LINES_NAMED = 5


def load_corpus(
    dataset_name: str | None = None,
    dataset_config_name: str | None = None,
    train_file: str | os.PathLike | None = None,
    validation_file: str | os.PathLike | None = None,
    test_file: str | os.PathLike | None = None,
    text_column: str | None = None,
    summary_column: str | None = None,
    cache_dir: str | None = None,
    token: str | bool | None = None,
    trust_remote_code: bool = False,
    data_format: str | None = None,
    min_score: int | None = None,
    density_bin: str | None = None,
) -> datasets.DatasetDict:
    """A corpus with the columns `document` and `summary` in the splits train, validation and test, as far as given.

    It comes from the Hub (`dataset_name`) or from files: .json (a list of rows, or a row a line), .jsonl, .csv, or
    line-aligned pairs, `X.source` with `X.target` beside it or `documents.txt,summaries.txt`; each also as .gz. Files
    are checked on every call, and converted once for as long as they do not change.

    Columns that are not named are guessed (document/summary, article/highlights, text/summary, source/target, ...).
    Other columns are kept; one called `document` or `summary` that is not the chosen one gives way to it. CSV fields
    stay strings; values that differ in type within a column become strings of JSON. Lone surrogates, which no
    tokenizer can read, become U+FFFD. Rows with a blank document or summary are left out with one warning a split.

    A column of documents that holds lists of texts is kept as `documents`, and `document` is these, joined by a blank
    line. One of summaries that holds lists is kept as `references`, and `summary` is the first: models learn and are
    scored on `summary`, `references` is there for scoring with several. Blank members of both lists are left out.

    Args:
        dataset_name, dataset_config_name: a data set on the Hub or a folder, and its configuration.
        train_file, validation_file, test_file: a file for each split; see above.
        text_column, summary_column: columns of documents and summaries; guessed unless given.
        cache_dir: where downloads and converted files are kept; `datasets`' own place unless given.
        token: of the Hub, for private data sets.
        trust_remote_code: handed to `datasets`, whose versions from 4 on say that they run no data set's code.
        data_format: how the files were distributed; they may then be folders, of which the split's part is taken.
            `gigaword`: line-aligned articles and titles. `lcsts`: PART_I.txt to PART_III.txt. `multi_news`: X.src and
            X.tgt, or rows, documents separated by `|||||` or `story_separator_special_tag`; on the Hub too. `duc`:
            input.txt and task1_ref0.txt and on. `newsroom`: rows with `density_bin`; on the Hub too. `cnn_dm`: folders
            of .story files (`cnn/stories,dailymail/stories`), or a list of such files. Without it, the file's ending
            says how to read it.
        min_score: of `lcsts`: pairs that were given a lower score (1 to 5) are left out; 3 unless given.
        density_bin: of `newsroom`: only `abstractive`, `mixed` or `extractive` rows; all unless given.

    Raises:
        ValueError: no data or two kinds of it named; a file that is not there, empty or of no known kind; a line that
            is no row (cut-off JSON, wrong number of CSV fields, not UTF-8); missing or unusable columns; paired files
            of different length; no row that is not blank; a format that there is not, an option of another one, or no
            row that passes it. Messages name file and line.
    """
    option = check_format(data_format, min_score, density_bin)
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    files = {split: str(file) for split, file in files.items() if file is not None}
    if dataset_name is not None and files:
        raise ValueError(
            f"both dataset_name ({dataset_name}) and files ({', '.join(files.values())}) are given: leave one out"
        )
    if dataset_name is not None:
        if not format_of(data_format).is_on_hub:
            raise ValueError(
                f"data_format {data_format} reads files as they were distributed, not {dataset_name}: leave it out, or "
                "give train_file, validation_file or test_file"
            )
        options = {"trust_remote_code": True} if trust_remote_code else {}
        loaded = datasets.load_dataset(dataset_name, dataset_config_name, cache_dir=cache_dir, token=token, **options)
        return _from_hub(dataset_name, loaded, (text_column, summary_column), data_format, option)
    if not files:
        raise ValueError("no data: give dataset_name, or train_file, validation_file or test_file")
    names = (text_column, summary_column)
    surveys = {split: survey(file, split, names, data_format, option) for split, file in files.items()}
    return datasets.DatasetDict({split: _from_files(surveyed, split, cache_dir) for split, surveyed in surveys.items()})


@dataclass
class Survey:
    """What one look at all rows of a file says.

    Args:
        name: what the user called it.
        data_format, option: how it is read and which rows count.
        paths: the file, the two of a pair, or all that make up the split.
        document, summary: names of their columns in the file.
        lists: whether these two hold lists of texts.
        kinds: every column's kinds of value.
        rows: how many rows there are.
        blank: how many of them have a blank document or summary.
        blank_places: where the first of these stand.
    """

    name: str
    data_format: str | None
    option: Any
    paths: tuple[Path, ...]
    document: str = ""
    summary: str = ""
    lists: dict[str, bool] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    rows: int = 0
    blank: int = 0
    blank_places: list[str] = field(default_factory=list)

    def look_at(self, place: str, row: dict[str, Any], data_format: DataFormat) -> None:
        """Counts a row.

        Raises:
            ValueError: its document or summary is no text, or a list where those before it are none.
        """
        self.rows += 1
        is_whole = True
        where = f"{self.name}, {place}"
        for column in (self.document, self.summary):
            value = text_or_texts(row, column, where)
            if column == self.document and data_format.separate is not None and isinstance(value, str):
                value = data_format.separate(value)
            is_list = isinstance(value, list)
            if value is not None and self.lists.setdefault(column, is_list) != is_list:
                holds, hint = ("list", "join its parts into one text") if is_list else ("str", "make it a list of one")
                raise ValueError(
                    f"{where}: '{column}' holds {holds}, unlike the rows before it ({value!r:.60}): {hint}"
                )
            is_whole = is_whole and says_something(value)
        if not is_whole:
            self.blank += 1
            if len(self.blank_places) < _LINES_NAMED:
                self.blank_places.append(place)
        for name, value in row.items():
            self.kinds.setdefault(name, set()).add(kind_of_value(value))


def survey(
    name: str, split: str, columns: tuple[str | None, str | None], data_format: str | None = None, option: Any = None
) -> Survey:
    """Reads all rows once, so that what is wrong with one of them is told with its line before any work starts.

    Args:
        columns: `text_column` and `summary_column`.

    Raises:
        ValueError: see `load_corpus`.
    """
    how = format_of(data_format)
    paths = how.locate(name, split)
    surveyed = Survey(name, data_format, option, paths)
    # the other kinds of file have no names of their own that a column could be chosen by
    has_names = len(paths) == 1 and kind_of_file(paths[0]) in ROW_FILES
    left_out = 0
    for place, row in how.read(paths, True):
        where = f"{name}, {place}"
        if not how.keeps(row, option, where):
            left_out += 1
            continue
        if not surveyed.rows:
            chosen = choose_columns(list(row), *(columns if has_names else (None, None)), where)
            surveyed.document, surveyed.summary = chosen
        surveyed.look_at(place, row, how)
    if not surveyed.rows and left_out:
        raise ValueError(f"{name}: {_none_passes(left_out, data_format, option)}")
    if not surveyed.rows:
        raise ValueError(f"{name} holds no rows: it must hold at least one document and its summary")
    if surveyed.blank == surveyed.rows:
        raise ValueError(f"{name}: each of the {surveyed.rows} rows has a blank document or summary")
    if left_out:
        total = surveyed.rows + left_out
        logger.info(f"{name}: {surveyed.rows} of {total} rows are taken, those {_passing(data_format, option)}")
    return surveyed


def _passing(data_format: str | None, option: Any) -> str:
    return f"with a score of {option} or more" if data_format == "lcsts" else f"in the density bin {option}"


def _none_passes(rows: int, data_format: str | None, option: Any) -> str:
    hint = "give a lower min_score" if data_format == "lcsts" else "choose another density_bin, or none"
    return f"none of the {rows} rows is one {_passing(data_format, option)}: {hint}"


def _from_files(surveyed: Survey, split: str, cache_dir: str | None) -> datasets.Dataset:
    if surveyed.blank:
        places = ", ".join(surveyed.blank_places) + (", ..." if surveyed.blank > _LINES_NAMED else "")
        logger.warning(
            f"{surveyed.name}: {surveyed.blank} of {surveyed.rows} rows have a blank document or summary and are left "
            f"out ({places})"
        )
    chosen = {"document": surveyed.document, "summary": surveyed.summary}
    lists = tuple(column for column, name in chosen.items() if surveyed.lists[name])
    renamed = {name: LIST_COLUMNS[column] if column in lists else column for column, name in chosen.items()}
    taken = {*chosen, *renamed.values()}
    columns = {name: name for name in surveyed.kinds if name not in taken} | renamed
    kinds = {columns[name]: kind_of_column(kinds) for name, kinds in surveyed.kinds.items() if name in columns}
    # a split in which every such column is null has no kind to go by
    kinds |= {LIST_COLUMNS[column]: "strings" for column in lists} | dict.fromkeys(chosen, "string")
    order = [*chosen, *(name for name in kinds if name not in chosen)]
    return datasets.Dataset.from_generator(
        _rows,
        features=datasets.Features({name: feature_of(kinds[name]) for name in order}),
        cache_dir=cache_dir,
        split=datasets.NamedSplit(split),
        gen_kwargs={
            # size and time stand among what the cache goes by: a file that changed is converted anew
            "files": tuple(
                (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in surveyed.paths
            ),
            "columns": tuple(sorted(columns.items())),
            "lists": lists,
            "json_columns": tuple(sorted(name for name, kind in kinds.items() if kind == "json")),
            "data_format": surveyed.data_format,
            "option": surveyed.option,
        },
    )


def _rows(
    files: tuple, columns: tuple, lists: tuple, json_columns: tuple, data_format: str | None, option: Any
) -> Iterator[dict[str, Any]]:
    """The rows of a file that has been surveyed, columns renamed, rows that are blank or do not count left out."""
    how = format_of(data_format)
    for place, row in how.read(tuple(Path(path) for path, _, _ in files), False):
        if not how.keeps(row, option, place):
            continue
        row = {new: storable(row.get(old), as_json=new in json_columns) for old, new in columns}
        if lists:
            row |= single_texts(row, lists, how.separate)
        if says_something(row["document"]) and says_something(row["summary"]):
            yield row


def _from_hub(
    name: str,
    loaded: datasets.DatasetDict,
    columns: tuple[str | None, str | None],
    data_format: str | None,
    option: Any,
) -> datasets.DatasetDict:
    splits = [split for split in SPLITS if split in loaded]
    if not splits:
        raise ValueError(f"{name} has the splits {', '.join(loaded)}: one of {', '.join(SPLITS)} is needed")
    parts = {}
    for split in splits:
        part, where = loaded[split], f"{name}, {split}"
        if option is not None:
            part = _in_bin(part, where, option, format_of(data_format))
        parts[split] = _name_columns(part, where, columns, format_of(data_format))
    return datasets.DatasetDict(parts)


def _in_bin(dataset: datasets.Dataset, where: str, density_bin: str, how: DataFormat) -> datasets.Dataset:
    if "density_bin" not in dataset.column_names:
        raise ValueError(
            f"{where}: no column 'density_bin', and density_bin {density_bin} goes by it; the columns are "
            f"{', '.join(dataset.column_names)}"
        )
    kept = [
        index
        for index, value in enumerate(dataset["density_bin"][:])
        if how.keeps({"density_bin": value}, density_bin, f"{where}, row {index + 1}")
    ]
    if not kept:
        raise ValueError(f"{where}: {_none_passes(len(dataset), 'newsroom', density_bin)}")
    return dataset.select(kept)


def _name_columns(
    dataset: datasets.Dataset, where: str, columns: tuple[str | None, str | None], how: DataFormat
) -> datasets.Dataset:
    chosen = dict(zip(LIST_COLUMNS, choose_columns(dataset.column_names, *columns, where), strict=True))
    lists = []
    for column, name in chosen.items():
        feature = dataset.features[name]
        # the feature of a list of texts holds that of a text
        is_text, is_list = _is_text(feature), _is_text(getattr(feature, "feature", None))
        if not is_text and not is_list:
            raise ValueError(f"{where}: the column '{name}' holds {feature}, not text: name another one")
        if is_list or (column == "document" and how.separate is not None):
            lists.append(column)
    renamed = {name: LIST_COLUMNS[column] if column in lists else column for column, name in chosen.items()}
    taken = {*chosen, *renamed.values()}
    in_the_way = [name for name in dataset.column_names if name in taken and name not in renamed]
    changed = {old: new for old, new in renamed.items() if old != new}
    named = dataset.remove_columns(in_the_way).rename_columns(changed)
    if lists:
        named = named.map(
            single_texts, fn_kwargs={"columns": lists, "separate": how.separate}, desc="joining lists of texts"
        )
    whole = named.filter(_is_whole, input_columns=["document", "summary"], desc="leaving out blank rows")
    if len(whole) < len(dataset):
        logger.warning(
            f"{where}: {len(dataset) - len(whole)} of {len(dataset)} rows have a blank document or summary and are "
            "left out"
        )
    if not len(whole):
        raise ValueError(f"{where}: each of the {len(dataset)} rows has a blank document or summary")
    return whole


def _is_text(feature: Any) -> bool:
    return getattr(feature, "dtype", None) in ("string", "large_string")


def _is_whole(document: str | None, summary: str | None) -> bool:
    return says_something(document) and says_something(summary)
