"""Files of predictions, references and sources: reading lines or rows, sentence tags, alignment."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

from hf_summ.data.former_columns import (
    DOCUMENT_COLUMNS,
    REFERENCE_COLUMNS,
    blank_columns,
    choose_column,
    has_text,
    prediction_column,
    text_or_texts,
)
from hf_summ.data.lines import joined_lines, wrapped_note
from hf_summ.data.lists import Lists, joined_sentences
from hf_summ.data.marks import SENTENCE_TAGS, notes_on_marks, without_separators
from hf_summ.data.raw_formats import format_of, separate_documents, with_line_ends
from hf_summ.data.rows import (
    ROW_FILES,
    Rows,
    existing,
    has_rows,
    ids_of_files,
    kind_of_file,
    locate,
    matching,
    read_lines,
    read_rows,
    read_whole,
    saved_files,
    texts_in,
)
from hf_summ.data.surveys import PEEKED
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

# kind of texts -> the setting that names their column
_SETTINGS = {"predictions": "prediction_column", "references": "summary_column", "documents": "text_column"}
_USUAL_COLUMNS = {"references": REFERENCE_COLUMNS, "documents": DOCUMENT_COLUMNS}
_LONE_MARK = re.compile(r"\S [.,](?!\S)|\w (?:n't|'s)\b")
# share of texts of a form in a file of others
_MOST_OTHERS = 0.1
# lines of fairseq-generate: (S)ource, (T)arget, (H)ypothesis and (D)etokenized hypothesis, the number of their example,
# the score of hypotheses, and the text
_GENERATED = re.compile(r"([STHD])-(\d+)\t(?:-?[\d.]+(?:e-?\d+)?\t)?(.*)")
_LETTERS = {"predictions": "DH", "references": "T", "documents": "S"}
_ID = re.compile(r"(?:\w+_)?(?:id|idx|guid|uuid|fname)", re.IGNORECASE)
# the separator that keeps tags as words
NO_SEPARATOR = "none"


def tag_pattern(separator: str | None = None) -> re.Pattern[str]:
    """The pattern of the tags between sentences.

    Args:
        separator: the mark between sentences, such as `|||`; by default any of `SENTENCE_TAGS`.
    """
    if separator is None:
        return re.compile("|".join(map(re.escape, SENTENCE_TAGS)))
    if not separator.strip():
        raise ValueError(f"`separator` is {separator!r:.80}, but must be a tag or a mark between sentences")
    return re.compile(re.escape(separator.strip()))


def without_tags(text: str, tag: re.Pattern[str]) -> str:
    """The text with line ends in place of tags."""
    sentences = list(map(str.strip, tag.split(text)))
    return text if len(sentences) == 1 else "\n".join(filter(None, sentences))


@dataclass(frozen=True)
class TextFile:
    """The texts of a file, in the file's order.

    Args:
        name: path of the file.
        column: column of the texts, or None for plain text.
        rows: (N,) lists of texts: one per row, or several references.
        places: (N,), where each row is in the file: `line 7`, or `row 7` of a .json list.
        ids: column of ids, of which every row has one -> (N,) ids; the column with the shortest name is the first.
        notes: what was taken for granted: the column, what its lists are, marks of other programs.
    """

    name: str
    column: str | None
    rows: list[list[str]]
    places: list[str]
    ids: Mapping[str, list[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """(N,): the first text of each row."""
        return [row[0] for row in self.rows]


def read_predictions(file: str, column: str | None = None) -> TextFile:
    """Read one text per row from `column`, by default the one that `prediction_column` finds.

    Plain text has one text per line; blank lines are kept for alignment. Files of rows have named columns; a list in
    them is one of sentences. Each file of a folder has one text.
    """
    texts = _read(file, "predictions", column, None, None)
    return replace(texts, notes=(*texts.notes, *notes_on_marks(file, texts.texts(), len(texts.rows))))


def read_references(
    file: str | Sequence[str],
    column: str | None = None,
    lists: Sequence[str] | None = None,
    data_format: str | None = None,
) -> TextFile:
    """Read one or several texts per row from `column`, by default the first of `REFERENCE_COLUMNS` that exists.

    Args:
        file: a file, or several with a reference each.
        lists, data_format: as for `hf_summ.data.Reading`.
    """
    files = [file] if isinstance(file, str) else file
    first, *others = (_read(name, "references", column, lists, data_format) for name in files)
    others = [aligned(other, first) for other in others]
    rows = [
        _written(text for row in of_files for text in row)
        for of_files in zip(first.rows, *(o.rows for o in others), strict=True)
    ]
    notes = (*first.notes, *notes_on_marks(", ".join(files), rows, len(rows)))
    return replace(first, name=", ".join(files), rows=rows, notes=notes)


def read_documents(
    file: str, column: str | None = None, lists: Sequence[str] | None = None, data_format: str | None = None
) -> TextFile:
    """Read one or several documents per row from `column`, by default the first of `DOCUMENT_COLUMNS`.

    Separators of corpora, such as `NEWLINE_CHAR`, become line ends.
    """
    texts = _read(file, "documents", column, lists, data_format)
    notes = notes_on_marks(file, map(DOCUMENT_SEPARATOR.join, texts.rows), len(texts.rows))
    rows = [[without_separators(text) for text in row] for row in texts.rows] if notes else texts.rows
    return replace(texts, rows=rows, notes=(*texts.notes, *notes))


def read_sources(
    file: str, column: str | None = None, lists: Sequence[str] | None = None, data_format: str | None = None
) -> TextFile:
    """Read one text per row as `read_documents`; blank lines join several documents."""
    texts = read_documents(file, column, lists, data_format)
    return replace(texts, rows=[[DOCUMENT_SEPARATOR.join(row)] for row in texts.rows])


def part_sentences(file: TextFile, separator: str | None = None) -> tuple[TextFile, list[str]]:
    """The texts with line ends in place of tags between sentences, and a note of each tag that occurs.

    Args:
        separator: as for `tag_pattern`; "none" leaves the texts as they are.
    """
    if separator == NO_SEPARATOR:
        return file, []
    tag = tag_pattern(separator)
    counts = Counter(name for row in file.rows for name in {name for text in row for name in tag.findall(text)})
    rows = [[without_tags(text, tag) for text in row] for row in file.rows] if counts else file.rows
    notes = [
        f"{file.name}: {number} of {len(rows)} rows contain {name}, read as the end of a sentence"
        for name, number in sorted(counts.items())
    ]
    return replace(file, rows=rows), notes


def part_lines(file: TextFile, lines: str = "auto") -> TextFile:
    """The texts with spaces for the line ends within sentences, see `hf_summ.data.lines.joined_lines`."""
    rows = [[joined_lines(text, lines) for text in row] for row in file.rows]
    number = sum(row != own for row, own in zip(rows, file.rows, strict=True))
    notes = (*file.notes, f"{file.name}: {wrapped_note(number, len(rows), 'rows')}") if number else file.notes
    return replace(file, rows=rows, notes=notes if lines == "auto" else file.notes)


def read_text(file: str | Path) -> str:
    """Read a whole file as one text."""
    text = "".join(line for _, line in read_lines(Path(file)))
    if not text.strip():
        raise ValueError(f"{file} is blank: give a text to judge")
    return text


def read_systems(
    predictions: Sequence[str],
    references: str | Sequence[str] | None = None,
    sources: str | None = None,
    *,
    prediction_column: str | None = None,
    summary_column: str | None = None,
    text_column: str | None = None,
    lists: Sequence[str] | None = None,
    data_format: str | None = None,
) -> tuple[list[TextFile], TextFile, TextFile | None]:
    """Read a file of predictions for each system, their references, by default beside the first ones, and sources."""
    systems = [read_predictions(file, prediction_column) for file in predictions]
    first = systems[0]
    of_rows = read_references(references or predictions[0], summary_column, lists, data_format)
    if references is None and of_rows.column == first.column:
        raise ValueError(f"{first.name} has no references beside its predictions: name their file with --references")
    documents = None if sources is None else read_sources(sources, text_column, lists, data_format)
    others = [aligned(system, first) for system in systems[1:]]
    return [first, *others], aligned(of_rows, first), None if documents is None else aligned(documents, first)


def notes_on_forms(one: TextFile, other: TextFile, has_case: bool = False) -> Iterator[str]:
    """A note if most texts of one file are tokenized, and few of the other; with `has_case`, also on lower case."""
    forms: list[tuple[str, Callable[[str], Any], str]] = [
        ("tokenized", _LONE_MARK.search, "so that words such as didn't differ: treat both alike")
    ]
    if has_case:
        forms.append(("in lower case", str.islower, "which only ROUGE, novelty and support ignore: treat both alike"))
    for form, has_form, effect in forms:
        shares = [sum(bool(has_form(row[0])) for row in file.rows) / len(file.rows) for file in (one, other)]
        if min(shares) <= _MOST_OTHERS and max(shares) >= 1 / 2:
            formed, plain = (one, other) if shares[0] > shares[1] else (other, one)
            yield f"{formed.name} is {form} and {plain.name} is not, {effect}"


def aligned(file: TextFile, first: TextFile) -> TextFile:
    """The file with its rows in the order of the first file's ids, if both have the same, or as they are.

    The columns of ids may have other names, except those of numbers, which may count the rows of each file.

    Raises:
        ValueError: they have other ids, or another number of rows.
    """
    notes = file.notes
    same = [column for column in file.ids if column in first.ids]
    others = [names for names in product(file.ids, first.ids) if names[0] != names[1]]
    for column, other in (*zip(same, same, strict=True), *others):
        # processing a corpus may have turned numbers into strings
        own, theirs = list(map(str, file.ids[column])), list(map(str, first.ids[other]))
        if own == theirs:
            same = []
            break
        row = {id: index for index, id in enumerate(own)}
        if len(row) < len(own) or sorted(own) != sorted(theirs):
            continue
        names = f"'{column}'" if column == other else f"'{column}' and '{other}'"
        if column != other and all(map(str.isdigit, own)):
            note = f"{names} have the same numbers as {first.name} in another order: name them alike if they are ids"
            notes += (f"{file.name}: {note}",)
            continue
        order = [row[id] for id in theirs]
        notes += (f"{file.name}: rows are matched with those of {first.name} by {names}",)
        ids = {name: [values[index] for index in order] for name, values in file.ids.items()}
        lists = {name: [getattr(file, name)[index] for index in order] for name in ("rows", "places")}
        return replace(file, **lists, ids=ids, notes=notes)
    for column in same[:1]:
        for place, id_1, own_place, id_2 in zip(
            first.places, first.ids[column], file.places, file.ids[column], strict=False
        ):
            if str(id_1) != str(id_2):
                raise ValueError(
                    f"{first.name}, {place} has the id {id_1!r:.80} and {file.name}, {own_place} has {id_2!r:.80}: "
                    "both files must have the same ids, each once"
                )
    if len(file.rows) != len(first.rows):
        shorter, longer = sorted((first, file), key=lambda file: len(file.rows))
        raise ValueError(
            f"{first.name} has {len(first.rows)} texts and {file.name} has {len(file.rows)}: "
            f"{longer.places[len(shorter.rows)]} of {longer.name} has no counterpart; both must have the same rows"
        )
    return replace(file, notes=notes)


def _read(file: str, texts: str, column: str | None, lists: Sequence[str] | None, data_format: str | None) -> TextFile:
    """Read a file of `texts`: predictions, references or documents."""
    path = Path(file)
    rows, places = [], []
    ids: dict[str, list[Any]] = {}
    chosen, seen, tabs = None, None, 0
    located = iter(_rows(path, texts, data_format))
    first = list(islice(located, PEEKED))
    notes: tuple[str, ...] = ()
    if any(isinstance(row, str) and _GENERATED.match(row) for _, row in first):
        first, located = _generated(chain(first, located), _LETTERS[texts]), iter(())
        notes = (f"{path}: {texts} from the output of fairseq-generate, in the order of its source",)
    for place, row in chain(first, located):
        where = f"{path}, {place}"
        if isinstance(row, str):
            if column is not None:
                raise ValueError(f"{path}: plain text has no columns: name none with `{_SETTINGS[texts]}`")
            value: str | list[str | None] | None = row
            tabs += "\t" in row.strip()
        else:
            if chosen is None:
                blank = blank_columns(row for _, row in first if isinstance(row, dict))
                chosen = _column(list(row), texts, column, where, blank)
                ids = {name: [] for name in sorted(row, key=len) if _ID.fullmatch(name) or name == "file"}
            value = text_or_texts(row, chosen, where)
            for name, values in ids.items():
                values.append(row.get(name))
        if data_format == "multi_news" and isinstance(value, str):
            value = with_line_ends(value)
            value = list(filter(has_text, separate_documents(value))) if texts == "documents" else value
        elif isinstance(value, list):
            seen = seen or Lists("document" if texts == "documents" else "summary", chosen or "", lists)
            seen.add(value)
            if texts != "predictions" and not value:
                raise ValueError(f"{where}: '{chosen}' must be text, but is an empty list")
            value = _written(value)
        listed = [value or ""] if isinstance(value, str | None) else value or [""]
        if nul := next((text for text in listed if text and "\0" in text), None):
            raise ValueError(
                f"{path}, {place}: NUL at character {nul.index(chr(0)) + 1}, so the file is not UTF-8 text, or was not "
                "written completely: convert it, or write it again"
            )
        rows.append(listed)
        places.append(place)
    if not rows:
        raise ValueError(f"{path} is empty: it must contain texts")
    notes += () if chosen is None else (f"{path}: {texts} from '{chosen}'",)
    if tabs:
        notes += (
            f"{path}: {tabs} of {len(rows)} lines have tabs, read as spaces: if they separate columns or references, "
            "name these in a first line, and the file .tsv",
        )
    if seen is not None and (texts == "predictions" or seen.meaning == "sentences"):
        rows = [[joined_sentences(row)] for row in rows]
    if texts == "predictions":
        if seen is not None and seen.meaning == "references" and seen.members > seen.rows:
            notes += (f"{path}: '{chosen}' has lists of similar texts, which are joined: keep one summary per row",)
    elif seen is not None and (note := seen.note()):
        notes += (f"{path}: {note}",)
    ids = {name: values for name, values in ids.items() if None not in values}
    # as `hf-summ summarize` names the files of documents
    if len(set(files := list(map(str, ids.pop("file", []))))) == len(files) > 0:
        ids["file_id"] = ids_of_files(list(map(Path, files)))
    return TextFile(str(path), chosen, rows, places, ids, notes)


def _written(texts: Iterable[str | None]) -> list[Any]:
    """The texts that are not blank, or a blank one: a row may have fewer than the columns or files that it is in."""
    return [text for text in texts if has_text(text) and text] or [""]


def _column(columns: list[str], texts: str, name: str | None, where: str, blank: set[str]) -> str:
    """The column `name` of the texts, or the usual one, which is none of the blank ones."""
    if texts == "predictions":
        return prediction_column(columns, name, where, blank)
    usual = _USUAL_COLUMNS[texts]
    if texts == "references" and {"article", "article_text"} & {*columns}:
        # an article's abstract is its summary, also beside a column of labels for extraction
        usual += ("abstract", "abstract_text")
    return choose_column(columns, name, usual, where, f"with `{_SETTINGS[texts]}`", blank=blank)


def _rows(path: Path, texts: str, data_format: str | None) -> Rows | Iterator[tuple[str, str]]:
    """The position of each row, and the row, or the text of a line."""
    if data_format not in (None, "multi_news"):
        reader = format_of(data_format)
        return reader.read(reader.locate(str(path), "test"), True)
    if os.path.isdir(path) and not saved_files(path):
        shards = sorted(file for file in path.iterdir() if file.name[0] not in "._")
        if shards and all(kind_of_file(file) in ROW_FILES for file in shards):
            return read_rows(tuple(shards), show_progress=True)
        # each file has a text, as for ROUGE's script
        files = texts_in(path, several=texts == "references").items()
        if texts == "references":
            return ((f"file {own[0].name}", {"file_id": id, texts: list(map(read_whole, own))}) for id, own in files)
        return ((f"file {file.name}", {"file_id": id, "text": read_whole(file)}) for id, (file,) in files)
    name = str(path)
    if ("," in name and has_rows(name)) or matching(name) != [path]:
        return read_rows(locate(name))
    # a pipe, such as `<(cut -f 2 all.tsv)` in a shell, has lines
    if not (os.path.exists(path) and path.is_fifo()) and kind_of_file(existing(path)) in ROW_FILES:
        return read_rows((path,), show_progress=True)
    return ((f"line {number}", line.rstrip("\r\n")) for number, line in read_lines(path, show_progress=True))


def _generated(lines: Iterable[tuple[str, Any]], letters: str) -> list[tuple[str, str]]:
    """The position and the text of each line of the first of these letters that occurs, in the order of their numbers.

    The first line of a number has its best hypothesis.
    """
    of_letters: dict[str, dict[int, tuple[str, str]]] = {letter: {} for letter in letters}
    for place, line in lines:
        if (match := _GENERATED.fullmatch(line)) and match[1] in of_letters:
            of_letters[match[1]].setdefault(int(match[2]), (place, match[3]))
    rows: dict[int, tuple[str, str]] = next(filter(None, of_letters.values()), {})
    return [rows[number] for number in sorted(rows)]
