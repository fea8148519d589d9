"""Loading a corpus: all rows are checked first, and then converted to a data set."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import datasets

from hf_summ.common.files import content_hash, hash_of_code, write_atomically
from hf_summ.common.messages import one_line
from hf_summ.data.columns import (
    LIST_COLUMNS,
    PREFIX_COLUMN,
    blank_columns,
    choose_columns,
    column_type,
    feature_of,
    has_text,
    is_text,
    may_be_text,
    names_in,
    single_texts,
    storable,
    text_or_texts,
    value_type,
)
from hf_summ.data.corpora import SPLITS, Corpus, Reading
from hf_summ.data.lines import joined_lines
from hf_summ.data.lists import joined_sentences
from hf_summ.data.raw_formats import format_of
from hf_summ.data.surveys import PEEKED, ColumnSurvey, choose_corpus_columns, has_column_names

logger = logging.getLogger(__name__)

# rows of a data set on the Hub from which the meaning of lists is guessed
_SURVEYED = 1000
# of splits
_OTHER_NAMES = {"train": ("training",), "validation": ("val", "valid", "dev"), "test": ("testing",)}
# number of rows that a warning about blank rows lists
_ROWS_LISTED = 5


def load(
    corpus: Corpus, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
) -> datasets.DatasetDict:
    """Load a corpus with the columns `document` and `summary`, and the splits train, validation and test.

    Files are checked and converted only if they have changed.

    Other columns are kept, except columns called `document`, `documents`, `summary` or `prefix` that are not the chosen
    ones; the chosen column of prefixes is called `prefix`. CSV fields stay strings; values of different types within a
    column become JSON strings, as do all in a stream. Lone surrogates, which no tokenizer can read, become U+FFFD. Rows
    with a blank document or summary are skipped, with one warning per split.

    Lists of texts are the sentences of one text, which are joined, several documents, or several references: see
    `Reading.lists`. Those of documents are kept as `documents`, and `document` joins their members by blank lines.
    Those of references are kept as `references`, and `summary` is the first member. Models are trained and scored on
    `summary`; `references` serves scoring with several. Blank members of lists are skipped. The columns, what their
    lists are, and what looks wrong in them are logged.

    Args:
        corpus: the corpus, and how to read it. With `streaming`, the training rows are an `IterableDataset`.
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
    surveys = {split: Survey(corpus, split, cache_dir) for split in corpus.files}
    return datasets.DatasetDict({split: survey.convert(cache_dir) for split, survey in surveys.items()})


def training_rows(files: Iterable[str], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of several training files, which are all checked before the first row.

    Args:
        settings: those of `Corpus` among them say how to read each file.
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
        loaded = _saved(name) or datasets.load_dataset(
            name, corpus.dataset_config_name, cache_dir=cache_dir, token=token, **trust
        )
    except Exception as error:
        # for broken files, libraries raise errors of any type, including bare OSErrors
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise ValueError(f"{name}: cannot be loaded: {one_line(error.__cause__ or error)}") from error
    names = {split: next(filter(loaded.__contains__, (split, *_OTHER_NAMES.get(split, ()))), None) for split in SPLITS}
    splits = datasets.DatasetDict({split: loaded[own] for split, own in names.items() if own is not None})
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
    """The rows of a stream as those of a loaded corpus, without blank ones; the first rows tell what its lists are."""
    first = list(rows.take(PEEKED))
    names = (corpus.text_column, corpus.summary_column)
    chosen = choose_columns(list(next(iter(first), ())), *names, where, corpus.prefix_column, blank_columns(first))
    survey = ColumnSurvey(corpus, chosen)
    for index, row in enumerate(first):
        survey.look_at(row, f"{where}, row {index}")
    _log(survey.messages(where))
    lists, sentences = survey.lists, survey.sentences
    # without types, as later rows may have others
    others = dict.fromkeys(_others(first[0], chosen, lists), "json")

    def convert(row: dict[str, Any], index: int) -> dict[str, Any]:
        survey.look_at(row, f"{where}, row {index}")
        return _converted(row, others, _texts(row, chosen, lists, sentences, corpus.format.separate, corpus.lines))

    features = _features(others, chosen, lists)
    rows = rows.map(convert, with_indices=True, remove_columns=list(first[0]), features=features)
    return rows.filter(lambda row: has_text(row["document"]) and has_text(row["summary"]))


def _saved(name: str) -> Mapping[str, datasets.Dataset] | None:
    """The splits in a folder that `save_to_disk` wrote, in which a single one may have no name, or None."""
    if not any((Path(name) / file).is_file() for file in ("dataset_dict.json", "state.json")):
        return None
    loaded = datasets.load_from_disk(name)
    return loaded if isinstance(loaded, dict) else {str(loaded.split or "train"): loaded}


def _name_columns(dataset: datasets.Dataset, where: str, corpus: Corpus) -> datasets.Dataset:
    separate = corpus.format.separate
    texts = [name for name, feature in dataset.features.items() if may_be_text(feature)]
    first = dataset.select_columns(texts).select(range(min(len(dataset), PEEKED)))
    blank = blank_columns(first) | ({*dataset.column_names} - {*texts})
    names = corpus.text_column, corpus.summary_column
    chosen = choose_columns(dataset.column_names, *names, where, corpus.prefix_column, blank)
    own = {own for name in chosen.values() for own in ([name] if name in dataset.features else names_in(name))}
    survey = ColumnSurvey(corpus, chosen)
    for index, row in enumerate(dataset.select_columns([*own]).select(range(min(len(dataset), _SURVEYED)))):
        survey.look_at(row, f"{where}, row {index}")
    _log(survey.messages(where))
    lists, sentences = survey.lists, survey.sentences
    columns = {name: name for name in _others(dataset.column_names, chosen, lists)}
    columns |= {name: LIST_COLUMNS[column] if column in lists else column for column, name in chosen.items()}
    if corpus.lines or lists or not all(is_text(dataset.features.get(name)) for name in chosen.values()):
        dataset = dataset.map(
            lambda row: _texts(row, chosen, lists, sentences, separate, corpus.lines),
            remove_columns=[name for name in dataset.column_names if columns.get(name) != name],
            desc="joining lists of texts",
        )
    else:
        dataset = dataset.select_columns([name for name in dataset.column_names if name in columns])
        dataset = dataset.rename_columns({old: new for old, new in columns.items() if old != new})
    texts = dataset.filter(
        lambda *texts: all(map(has_text, texts)), input_columns=["document", "summary"], desc="leaving out blank rows"
    )
    _log(_blank_messages(where, len(dataset) - len(texts), len(dataset)))
    return texts


class Survey:
    """The checked rows of a split's files; a problem is reported with its line before any work starts.

    Files are checked again only if their content, the settings or the code has changed: otherwise, the cache has what
    was found in them. Of a stream, only the first rows with texts are checked, each time.
    """

    def __init__(self, corpus: Corpus, split: str, cache_dir: str | None):
        self._corpus, self._split, self._name, self._paths = corpus, split, corpus.files[split], corpus.paths(split)
        code = hash_of_code(map(str, Path(__file__).parent.glob("*.py")))
        # before they are read: a file that changes afterwards is converted again, as all are by other code
        self._files = tuple((str(path.resolve()), content_hash(path) + code) for path in self._paths)
        self._is_stream = bool(corpus.streaming) and split == "train"
        state = json.dumps([corpus.only([split]).given(), self._files], default=str)
        record = cache_folder(cache_dir) / f"{hashlib.sha256(state.encode()).hexdigest()[:32]}.json"
        if record.exists() and not self._is_stream:
            self._findings = json.loads(record.read_text(encoding="utf-8"))
            # log what the reader takes for granted
            next(corpus.format.read(self._paths, True), None)
        else:
            self._findings = self._check()
            if not self._is_stream:
                write_atomically(record, json.dumps(self._findings))
        if len(self._paths) > 1 and has_column_names(self._paths):
            first, *_, last = self._paths
            logger.info(f"{self._name}: {len(self._paths)} files, from {first.name} to {last.name}")
        _log(self._findings["messages"])

    def _check(self) -> dict[str, Any]:
        """What the rows contain, ready for JSON: the columns, their types and lists, and messages to log."""
        corpus = self._corpus
        types: dict[str, set[str]] = {}
        columns = None
        blank: list[str] = []
        option = corpus.option()
        rows = total = 0
        for position, row in corpus.format.read(self._paths, not self._is_stream):
            total += 1
            if corpus.format.passes(row, option):
                rows += 1
                where = f"{self._name}, {position}"
                columns = columns or ColumnSurvey(corpus, choose_corpus_columns(corpus, self._paths, row, where))
                if columns.look_at(row, where) is None:
                    blank.append(position)
                for name, value in row.items():
                    types.setdefault(name, set()).add(value_type(value))
            if self._is_stream and rows - len(blank) == PEEKED:
                break
        where = f"{self._name}, first {total} rows" if self._is_stream else self._name
        _check_some_pass(where, rows, total, corpus)
        passing = f"{where}: {rows} of {total} rows are used, those {_passing(corpus)}"
        messages = [(logging.INFO, passing)] if rows < total else []
        messages += _blank_messages(where, len(blank), rows, blank)
        assert columns is not None
        # for the rows of a stream, which are looked at later
        self._columns = columns
        others = _others(types, columns.chosen, columns.lists)
        return {
            # later rows of a stream may have others
            "types": {name: "json" if self._is_stream else column_type(types[name]) for name in others},
            "chosen": columns.chosen,
            "lists": columns.lists,
            "sentences": columns.sentences,
            "messages": messages + columns.messages(self._name),
        }

    def convert(self, cache_dir: str | None) -> datasets.Dataset | datasets.IterableDataset:
        """The rows as a data set, from the cache if the files have not changed, or as a stream."""
        types, chosen = self._findings["types"], self._findings["chosen"]
        settings = {
            # their content is in the cache's key, as archives and copies keep the time of a change
            "files": self._files,
            "types": tuple(types.items()),
            "chosen": tuple(chosen.items()),
            "lists": tuple(self._findings["lists"]),
            "sentences": tuple(self._findings["sentences"]),
            "lines": self._corpus.lines,
            "data_format": self._corpus.data_format,
            "option": self._corpus.option(),
        }
        features = _features(types, chosen, settings["lists"])
        if self._is_stream:
            return datasets.IterableDataset.from_generator(_rows, features, settings | {"survey": (self._columns,)})
        return datasets.Dataset.from_generator(
            _rows, features, cache_dir, gen_kwargs=settings, split=datasets.NamedSplit(self._split)
        )


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


def columns_of(corpus: Corpus, split: str) -> tuple[str, str] | None:
    """The columns of documents and summaries in a split's file, or None if its type has no column names."""
    paths = corpus.paths(split)
    if not has_column_names(paths):
        return None
    position, row = next(iter(corpus.format.read(paths, True)))
    chosen = choose_corpus_columns(corpus, paths, row, f"{corpus.files[split]}, {position}")
    return chosen["document"], chosen["summary"]


def _passing(reading: Reading) -> str:
    option = reading.option()
    return f"with a score of {option} or more" if reading.data_format == "lcsts" else f"in the density bin {option}"


def _check_some_pass(where: str, passing: int, rows: int, reading: Reading) -> None:
    if rows and not passing:
        hint = "`min_score`" if reading.data_format == "lcsts" else "`density_bin` (abstractive, mixed or extractive)"
        raise ValueError(f"{where}: none of the {rows} rows is one {_passing(reading)}: change {hint}")


def _blank_messages(where: str, blank: int, rows: int, positions: Sequence[str] = ()) -> list[tuple[int, str]]:
    """The warning of blank rows, with the first ones if known; raise a ValueError if all rows are blank."""
    if blank == rows:
        raise ValueError(
            f"{where}: all {rows} rows have a blank document or summary" if rows else f"{where} has no rows"
        )
    if not blank:
        return []
    listed = ", ".join([*positions[:_ROWS_LISTED], *(["..."] if blank > _ROWS_LISTED else [])])
    listed = f" ({listed})" if positions else ""
    message = f"{where}: {blank} of {rows} rows have a blank document or summary and are left out{listed}"
    return [(logging.WARNING, message)]


def _log(messages: Iterable[tuple[int, str]]) -> None:
    for level, message in messages:
        logger.log(level, message)


def _others(columns: Iterable[str], chosen: Mapping[str, str], lists: Collection[str]) -> list[str]:
    """The columns beside the chosen ones that a data set has, except those that would be read in their place."""
    names = {*chosen, *chosen.values(), *(LIST_COLUMNS[column] for column in ("document", *lists)), PREFIX_COLUMN}
    return [name for name in columns if name not in names]


def _features(types: Mapping[str, str], chosen: Iterable[str], lists: Collection[str]) -> datasets.Features:
    """The features of the texts, and of other columns of these types."""
    # without this, a column with only null values would have no type
    texts = dict.fromkeys(chosen, "string") | {LIST_COLUMNS[column]: "strings" for column in lists}
    return datasets.Features({name: feature_of(type_name) for name, type_name in {**texts, **types}.items()})


def _rows(files, types, chosen, lists, sentences, lines, data_format, option, survey=()) -> Iterator[dict[str, Any]]:
    """The rows of a file with renamed columns, without blank rows and rows excluded by the option.

    The settings are those of `Survey.convert`, with the survey of the columns if the rows have not been looked at.
    """
    reader = format_of(data_format)
    for position, row in reader.read(tuple(Path(path) for path, _ in files), False):
        if not reader.passes(row, option):
            continue
        for columns in survey:
            columns.look_at(row, f"{files[0][0]}, {position}")
        texts = _texts(row, dict(chosen), lists, sentences, reader.separate, lines)
        if has_text(texts["document"]) and has_text(texts["summary"]):
            yield _converted(row, dict(types), texts)


def _converted(row: Mapping[str, Any], types: Mapping[str, str], texts: Mapping[str, Any]) -> dict[str, Any]:
    """A data set's row: the other columns, of these types, and the texts."""
    others = {name: storable(row.get(name), as_json=type_name == "json") for name, type_name in types.items()}
    return others | {name: storable(value, as_json=False) for name, value in texts.items()}


def _texts(
    row: dict[str, Any],
    chosen: Mapping[str, str],
    lists: Sequence[str],
    sentences: Sequence[str],
    separate: Callable[[str], list[str]] | None,
    lines: str | None,
) -> dict[str, Any]:
    """The chosen columns of a row under their names in the data set; see `ColumnSurvey` for `lists` and `sentences`."""
    texts = {column: text_or_texts(row, name, "") for column, name in chosen.items()}
    texts |= {column: joined_sentences(texts[column] or []) for column in sentences}
    texts |= single_texts({LIST_COLUMNS[column]: texts[column] for column in lists}, lists, separate)
    if lines is None:
        return texts
    return {name: value if name == PREFIX_COLUMN else _joined(value, lines) for name, value in texts.items()}


def _joined(value: Any, lines: str) -> Any:
    """A text or a list of texts with other line ends, see `Reading.lines`."""
    if isinstance(value, list):
        return [_joined(text, lines) for text in value]
    return value and joined_lines(value, lines)
