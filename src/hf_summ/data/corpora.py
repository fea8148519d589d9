"""Corpora of documents and summaries, from the Hub or from files."""

import difflib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets

from hf_summ.data.rows import locate, read_rows

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")
# the first that a corpus has is taken when no column is named
DOCUMENT_COLUMNS = ("document", "article", "text", "source", "dialogue", "body", "content", "description")
SUMMARY_COLUMNS = ("summary", "highlights", "target", "abstract", "headline", "title")
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
) -> datasets.DatasetDict:
    """A corpus with the columns `document` and `summary` in the splits train, validation and test, as far as given.

    It comes from the Hub (`dataset_name`) or from files: .json (a list of rows, or a row a line), .jsonl, .csv, or
    line-aligned pairs, `X.source` with `X.target` beside it or `documents.txt,summaries.txt`; each also as .gz. Files
    are checked on every call, and converted once for as long as they do not change.

    Columns that are not named are guessed (document/summary, article/highlights, text/summary, source/target, ...).
    Other columns are kept; one called `document` or `summary` that is not the chosen one gives way to it. CSV fields
    stay strings; values that differ in type within a column become strings of JSON. Lone surrogates, which no
    tokenizer can read, become U+FFFD. Rows with a blank document or summary are left out with one warning a split.

    Args:
        trust_remote_code: handed to `datasets`, whose versions from 4 on say that they run no data set's code.

    Raises:
        ValueError: no data or two kinds of it named; a file that is not there, empty or of no known kind; a line that
            is no row (cut-off JSON, wrong number of CSV fields, not UTF-8); missing or unusable columns; paired files
            of different length; no row that is not blank. Messages name file and line.
    """
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    files = {split: str(file) for split, file in files.items() if file is not None}
    if dataset_name is not None and files:
        raise ValueError(
            f"both dataset_name ({dataset_name}) and files ({', '.join(files.values())}) are given: leave one out"
        )
    if dataset_name is not None:
        options = {"trust_remote_code": True} if trust_remote_code else {}
        loaded = datasets.load_dataset(dataset_name, dataset_config_name, cache_dir=cache_dir, token=token, **options)
        return _from_hub(dataset_name, loaded, text_column, summary_column)
    if not files:
        raise ValueError("no data: give dataset_name, or train_file, validation_file or test_file")
    surveys = {split: survey(locate(file), text_column, summary_column) for split, file in files.items()}
    return datasets.DatasetDict({split: _from_files(surveyed, split, cache_dir) for split, surveyed in surveys.items()})


@dataclass
class Survey:
    """What one look at all rows of a file says.

    Args:
        paths: the file, or the two of a pair.
        document, summary: names of their columns in the file.
        kinds: every column's kinds of value.
        rows: how many rows there are.
        blank: how many of them have a blank document or summary.
        blank_places: where the first of these stand.
    """

    paths: tuple[Path, ...]
    document: str
    summary: str
    kinds: dict[str, set[str]] = field(default_factory=dict)
    rows: int = 0
    blank: int = 0
    blank_places: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ",".join(map(str, self.paths))


def survey(paths: tuple[Path, ...], text_column: str | None, summary_column: str | None) -> Survey:
    """Reads all rows once, so that what is wrong with one of them is told with its line before any work starts.

    Raises:
        ValueError: see `load_corpus`.
    """
    surveyed: Survey | None = None
    for place, row in read_rows(paths, show_progress=True):
        if surveyed is None:
            # pairs have no names of their own that a column could be chosen by
            names = (text_column, summary_column) if len(paths) == 1 else (None, None)
            surveyed = Survey(paths, *choose_columns(list(row), *names, f"{paths[0]}, {place}"))
        surveyed.rows += 1
        texts = [_text(row, column, f"{paths[0]}, {place}") for column in (surveyed.document, surveyed.summary)]
        if not all(map(_says_something, texts)):
            surveyed.blank += 1
            if len(surveyed.blank_places) < _LINES_NAMED:
                surveyed.blank_places.append(place)
        for name, value in row.items():
            surveyed.kinds.setdefault(name, set()).add(_kind(value))
    if surveyed is None:
        raise ValueError(f"{paths[0]} holds no rows: it must hold at least one document and its summary")
    if surveyed.blank == surveyed.rows:
        raise ValueError(f"{surveyed}: each of the {surveyed.rows} rows has a blank document or summary")
    return surveyed


def choose_columns(
    present: Sequence[str], text_column: str | None, summary_column: str | None, where: str
) -> tuple[str, str]:
    """The columns of documents and summaries: those named, or else the first known names that are present.

    Raises:
        ValueError: there is no such column; the message lists those present and the nearest name.
    """
    chosen = []
    for flag, named, known in (
        ("text_column", text_column, DOCUMENT_COLUMNS),
        ("summary_column", summary_column, SUMMARY_COLUMNS),
    ):
        free = [name for name in present if name not in (text_column, summary_column)]
        name = named or next((candidate for candidate in known if candidate in free), None)
        if name is None or name not in present:
            wanted = (named, *known) if named else known
            near = [match for candidate in wanted for match in difflib.get_close_matches(candidate, free, 1)]
            missing = f"no column '{named}'" if named else f"no column that is known to hold a {known[0]}"
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(
                f"{where}: {missing}, the columns are {', '.join(present) or '(none)'}. Name one with {flag}{hint}"
            )
        chosen.append(name)
    if chosen[0] == chosen[1]:
        raise ValueError(f"{where}: text_column and summary_column are both '{chosen[0]}': name two different columns")
    return chosen[0], chosen[1]


def _text(row: dict[str, Any], column: str, where: str) -> str:
    if column not in row:
        raise ValueError(f"{where}: no column '{column}' in this row, which has {', '.join(row) or 'none'}")
    value = row[column]
    if value is not None and not isinstance(value, str):
        hint = "join its parts into one text" if isinstance(value, list) else "write it as a string"
        raise ValueError(f"{where}: '{column}' holds {type(value).__name__}, not text ({value!r:.60}): {hint}")
    return value or ""


def _says_something(text: str) -> bool:
    """Whether any character is visible: neither space nor control nor zero-width."""
    return any(character.isprintable() and character != " " for character in text)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int64" if -(2**63) <= value < 2**63 else "json"
        case float():
            return "float64"
        case str():
            return "string"
        case list() if all(isinstance(part, str) for part in value):
            return "strings"
    return "json"


def _column_kind(kinds: set[str]) -> str:
    """One kind for all values of a column."""
    kinds = kinds - {"null"}
    if kinds == {"int64", "float64"}:
        return "float64"
    if len(kinds) > 1:
        return "json"
    return kinds.pop() if kinds else "string"


def _from_files(surveyed: Survey, split: str, cache_dir: str | None) -> datasets.Dataset:
    if surveyed.blank:
        places = ", ".join(surveyed.blank_places) + (", ..." if surveyed.blank > _LINES_NAMED else "")
        logger.warning(
            f"{surveyed}: {surveyed.blank} of {surveyed.rows} rows have a blank document or summary and are left out "
            f"({places})"
        )
    renamed = {surveyed.document: "document", surveyed.summary: "summary"}
    columns = {name: name for name in surveyed.kinds if name not in ("document", "summary")} | renamed
    kinds = {columns[name]: _column_kind(kinds) for name, kinds in surveyed.kinds.items() if name in columns}
    # a split in which every such column is null has no kind to go by
    kinds |= {"document": "string", "summary": "string"}
    order = ["document", "summary", *(name for name in kinds if name not in ("document", "summary"))]
    return datasets.Dataset.from_generator(
        _rows,
        features=datasets.Features({name: _feature(kinds[name]) for name in order}),
        cache_dir=cache_dir,
        split=datasets.NamedSplit(split),
        gen_kwargs={
            # size and time stand among what the cache goes by: a file that changed is converted anew
            "files": tuple(
                (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in surveyed.paths
            ),
            "columns": tuple(sorted(columns.items())),
            "json_columns": tuple(sorted(name for name, kind in kinds.items() if kind == "json")),
        },
    )


def _rows(files: tuple, columns: tuple, json_columns: tuple) -> Iterator[dict[str, Any]]:
    """The rows of a file that has been surveyed, columns renamed, blank rows left out."""
    for _, row in read_rows(tuple(Path(path) for path, _, _ in files)):
        row = {new: _storable(row.get(old), as_json=new in json_columns) for old, new in columns}
        if _says_something(row["document"] or "") and _says_something(row["summary"] or ""):
            yield row


def _storable(value: Any, as_json: bool) -> Any:
    if as_json and value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_storable(part, as_json=False) for part in value]
    return value


def _feature(kind: str) -> Any:
    if kind == "strings":
        return datasets.List(datasets.Value("string"))
    return datasets.Value("string" if kind == "json" else kind)


def _from_hub(
    name: str, loaded: datasets.DatasetDict, text_column: str | None, summary_column: str | None
) -> datasets.DatasetDict:
    splits = [split for split in SPLITS if split in loaded]
    if not splits:
        raise ValueError(f"{name} has the splits {', '.join(loaded)}: one of {', '.join(SPLITS)} is needed")
    return datasets.DatasetDict(
        {split: _name_columns(loaded[split], f"{name}, {split}", text_column, summary_column) for split in splits}
    )


def _name_columns(
    dataset: datasets.Dataset, where: str, text_column: str | None, summary_column: str | None
) -> datasets.Dataset:
    chosen = choose_columns(dataset.column_names, text_column, summary_column, where)
    for column in chosen:
        feature = dataset.features[column]
        if getattr(feature, "dtype", None) not in ("string", "large_string"):
            raise ValueError(f"{where}: the column '{column}' holds {feature}, not text: name another one")
    in_the_way = [name for name in ("document", "summary") if name in dataset.column_names and name not in chosen]
    renamed = dataset.remove_columns(in_the_way).rename_columns(dict(zip(chosen, ("document", "summary"), strict=True)))
    whole = renamed.filter(_is_whole, input_columns=["document", "summary"], desc="leaving out blank rows")
    if len(whole) < len(dataset):
        logger.warning(
            f"{where}: {len(dataset) - len(whole)} of {len(dataset)} rows have a blank document or summary and are "
            "left out"
        )
    if not len(whole):
        raise ValueError(f"{where}: each of the {len(dataset)} rows has a blank document or summary")
    return whole


def _is_whole(document: str | None, summary: str | None) -> bool:
    return _says_something(document or "") and _says_something(summary or "")
