"""Files of predictions, references and sources: reading, alignment of rows by their ids, tags between sentences.

A file has the texts of rows, which are the examples of a corpus: a file of rows with columns, such as .jsonl or .csv, a
.txt file with a text in each line, or a folder with a text in each file. A row may have an id, by which it is matched
with the same row in another file. A kind of texts is predictions, references or documents.
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hf_summ.data.columns import (
    DOCUMENT_COLUMNS,
    PREDICTION_COLUMNS,
    REFERENCES_COLUMN,
    SUMMARY_COLUMNS,
    choose_column,
    has_references,
    is_list_column,
    nonblank_texts,
)
from hf_summ.data.files import extension_of, read_files, read_lines
from hf_summ.evaluation.text_folders import is_folder_of_texts, read_folder, whole_text
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

if TYPE_CHECKING:
    from datasets import Dataset

# Tags between sentences, as PreSumm, Pegasus, the pointer-generator network, bottom-up summarization, ProphetNet,
# UniLM, arXiv and NeuSum write.
SENTENCE_TAGS = ("<q>", "<n>", "<s>", "</s>", "<t>", "</t>", "[X_SEP]", "<S_SEP>", "<S>", "</S>", "##SENT##")
# The separator by which tags stay in the texts.
NO_SEPARATOR = "none"
Kind = Literal["predictions", "references", "documents"]
# Kind of texts -> the field of `RowReading` by which the user names the column of these texts.
_COLUMN_SETTINGS: dict[Kind, str] = {
    "predictions": "prediction_column",
    "references": "summary_column",
    "documents": "text_column",
}
# Kind of texts -> usual names of the column of these texts.
_USUAL_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "predictions": PREDICTION_COLUMNS,
    "references": SUMMARY_COLUMNS,
    "documents": DOCUMENT_COLUMNS,
}
# The column with the ids of rows.
_ID_COLUMN = "id"
_WHOLE_FLOAT = re.compile(r"-?\d+\.0")


@dataclass(frozen=True, kw_only=True)
class RowReading:
    """How to read files of rows.

    Args:
        prediction_column, summary_column, text_column: columns of predictions, references and documents; by default the
            first of the usual names that the rows have.
        csv_separator: separator of the fields in CSV files; by default a comma, and a tab in .tsv files.
        encoding: encoding of text files; UTF-8 by default.
    """

    prediction_column: str | None = None
    summary_column: str | None = None
    text_column: str | None = None
    csv_separator: str | None = None
    encoding: str | None = None


# Columns with usual names, and files in UTF-8.
_USUAL_READING = RowReading()


@dataclass(frozen=True)
class TextFile:
    """The texts of a file or of a folder, in its order.

    Args:
        name: the path as it was given, or several paths with commas between them.
        column: the column of the texts; None for a .txt file and for a folder.
        rows: (N,), the texts of each row, at least one: a prediction, or one or several references or documents.
        ids: (N,), the id of each row: the value of the column `id` as a string. The id of a file in a folder is the
            numbers in the file's name, or the whole name if some files have the same numbers. `ids` is None for a .txt
            file, or if a row has no id.
        notes: what was chosen, such as a column, in sentences for readers of the scores.
        lacks_ids: whether the file has a column `id` in which some row has no value.
        is_reordered: whether `aligned` brought the rows into another order, by their ids.
    """

    name: str
    column: str | None
    rows: list[list[str]]
    ids: list[str] | None = None
    notes: tuple[str, ...] = ()
    lacks_ids: bool = False
    is_reordered: bool = False

    def texts(self) -> list[str]:
        """(N,), the first text of each row."""
        return [row[0] for row in self.rows]

    def labels(self) -> list[str]:
        """(N,), the name of each row in messages."""
        return [f"{self.name}, row {number}" for number in range(1, len(self.rows) + 1)]


def read_predictions(file: str, reading: RowReading = _USUAL_READING, excluded_column: str | None = None) -> TextFile:
    """Read predictions, one text per row.

    Args:
        file: rows as `hf_summ.data.files.read_files` reads them, a .txt file with a text in each line, where blank
            lines are blank texts, or a folder with a text in each file, as for ROUGE's script.
        reading: the columns and the format of files of rows.
        excluded_column: a column that has other texts, and so is not chosen.

    Raises:
        ValueError: the file cannot be read, the column does not exist or has lists, or values are not texts. The
            message names the file.
    """
    return _read(file, "predictions", reading, excluded_column)


def read_references(
    files: str | Sequence[str],
    reading: RowReading = _USUAL_READING,
    excluded_column: str | None = None,
    aligned_files: Sequence[TextFile] = (),
) -> TextFile:
    """Read references, one or several texts per row.

    If a column has lists, each item is a reference. Without a named column, a column `references` of lists is preferred
    to a column of summaries, as in the scores of training. Blank references are left out. A row whose references are
    all blank has a single blank text.

    Args:
        files: a file as for `read_predictions`, or several files, each with another reference of every row. In a
            folder, files whose names differ in a capital letter between stops have references of the same text.
        reading, excluded_column: as for `read_predictions`.
        aligned_files: files with the same rows in the order that the references shall have, such as the predictions; by
            default the references have the order of their first file.

    Raises:
        ValueError: a file cannot be read, a column does not exist, values are not texts, or the files do not have the
            same rows; see `aligned`.
    """
    if isinstance(files, str):
        files = [files]
    # Each file is aligned before the references of a row are joined, because only some of the files may have ids.
    reference_files: list[TextFile] = []
    for name in files:
        file = _read(name, "references", reading, excluded_column)
        reference_files.append(aligned_with_any(file, [*aligned_files, *reference_files]))
    rows = []
    for row in range(len(reference_files[0].rows)):
        texts: list[str] = []
        for file in reference_files:
            texts.extend(file.rows[row])
        # A row whose texts are all blank gets a single blank text.
        rows.append(nonblank_texts(texts) or [""])
    ids = None
    notes: list[str] = []
    for file in reference_files:
        ids = ids or file.ids
        notes.extend(file.notes)
    is_reordered = any(file.is_reordered for file in reference_files)
    name = ", ".join(files)
    return replace(reference_files[0], name=name, rows=rows, ids=ids, notes=tuple(notes), is_reordered=is_reordered)


def read_documents(file: str, reading: RowReading = _USUAL_READING, excluded_column: str | None = None) -> TextFile:
    """Read documents, one or several texts per row; see `read_predictions` for arguments and errors.

    If a column has lists, each item is a document.
    """
    return _read(file, "documents", reading, excluded_column)


def read_sources(file: str, reading: RowReading = _USUAL_READING) -> TextFile:
    """Read sources, one text per row: documents as `read_documents` reads them, joined by blank lines if several."""
    texts = read_documents(file, reading)
    rows = [[DOCUMENT_SEPARATOR.join(documents)] for documents in texts.rows]
    return replace(texts, rows=rows)


def read_systems(
    predictions: Sequence[str],
    references: str | Sequence[str] | None = None,
    sources: str | None = None,
    reading: RowReading = _USUAL_READING,
) -> tuple[list[TextFile], TextFile, TextFile | None]:
    """Read the predictions of several systems, and the references and sources of the same rows.

    Args:
        predictions: a file of predictions for each system, at least one.
        references: one or several files of references; by default another column of the first file of predictions.
        sources: a file of documents, if there are any.
        reading: the columns and the format of files of rows.

    Returns:
        The predictions of each system, the references, and the sources or None. All have the rows of the first file of
        predictions, in its order.

    Raises:
        ValueError: there are no references, or a file cannot be read or does not have the same rows; see
            `read_predictions` and `aligned`.
    """
    if references is None:
        first = read_predictions(predictions[0], reading, excluded_column=reading.summary_column)
        if first.column is None:
            raise ValueError(
                f"{first.name} has predictions but no references: give the file of references with `references`"
            )
        reference_file = read_references(first.name, reading, excluded_column=first.column)
    else:
        first = read_predictions(predictions[0], reading)
        reference_file = read_references(references, reading, aligned_files=[first])
    systems = [first]
    for name in predictions[1:]:
        systems.append(aligned_with_any(read_predictions(name, reading), [*systems, reference_file]))
    if sources is None:
        return systems, reference_file, None
    return systems, reference_file, aligned_with_any(read_sources(sources, reading), [*systems, reference_file])


def read_text(file: str | Path) -> str:
    """Read a whole file as one text.

    Raises:
        OSError: there is no such file, or it is a folder.
        ValueError: the file is blank, or not in UTF-8.
    """
    text = whole_text(Path(file))
    if not text.strip():
        raise ValueError(f"{file} is blank: give a text to judge")
    return text


def aligned_with_any(file: TextFile, aligned_files: Sequence[TextFile]) -> TextFile:
    """Bring the rows of a file into the order that several files have already.

    The file is aligned with the first of these files that has an id in common with it, as some of them may have no ids.
    If the ids changed the order of some file, a file without ids may have the rows in either order. A note then says
    with which order its rows are matched.

    Args:
        file: the file.
        aligned_files: files with the same rows in the same order; if there are none, the file stays as it is.

    Raises:
        ValueError: the files do not have the same rows; see `aligned`.
    """
    if not aligned_files:
        return file
    ids = set(file.ids or [])
    partner = aligned_files[0]
    for aligned_file in aligned_files:
        if not ids.isdisjoint(aligned_file.ids or []):
            partner = aligned_file
            break
        if partner.ids is None and aligned_file.ids is not None:
            # Without a common id, rows go by their order. Beside a file with ids, `aligned` says that the ids differ.
            partner = aligned_file
    file = aligned(file, partner)
    files_without_ids: list[TextFile] = []
    if file.is_reordered:
        files_without_ids.extend(aligned_files)
    elif any(aligned_file.is_reordered for aligned_file in aligned_files):
        files_without_ids.append(file)
    notes = list(file.notes)
    for file_without_ids in files_without_ids:
        # If only some rows have ids, `aligned` has told it.
        if file_without_ids.ids is None and not file_without_ids.lacks_ids:
            notes.append(_note_on_order(file_without_ids, partner, f"{file_without_ids.name} has no '{_ID_COLUMN}'"))
    return replace(file, notes=tuple(notes))


def aligned(file: TextFile, first: TextFile) -> TextFile:
    """Bring the rows of a file into the order of the rows of the first file.

    If both files have ids and at least one id in common, rows with the same id belong together. Otherwise rows at the
    same position belong together. A note says so if both files have ids of which no use is made.

    Returns:
        The file with its rows in the order of the first file's rows.

    Raises:
        ValueError: the files have ids in common, but some id is in only one of the files, or is twice in a file. Or
            the files have no ids in common, and different numbers of rows.
    """
    if file.ids is not None and first.ids is not None and file.ids != first.ids:
        common_ids = set(file.ids).intersection(first.ids)
        if common_ids:
            return _in_order_of_ids(file, first)
    if len(file.rows) != len(first.rows):
        raise ValueError(
            f"{first.name} has {len(first.rows)} texts and {file.name} has {len(file.rows)}: the files must match "
            "row by row"
        )
    has_ids = file.ids is not None or file.lacks_ids
    first_has_ids = first.ids is not None or first.lacks_ids
    if not has_ids or not first_has_ids or (file.ids is not None and file.ids == first.ids):
        return file
    reason = f"they have no '{_ID_COLUMN}' in common"
    for text_file in (first, file):
        if text_file.lacks_ids:
            reason = f"some rows of {text_file.name} have no '{_ID_COLUMN}'"
    return replace(file, notes=(*file.notes, _note_on_order(file, first, reason)))


def _note_on_order(file: TextFile, first: TextFile, reason: str) -> str:
    """The note that the rows of a file are matched with the rows of the first file at the same positions."""
    return f"{file.name}: rows are matched with those of {first.name} by their order, as {reason}"


def _in_order_of_ids(file: TextFile, first: TextFile) -> TextFile:
    """The file with its rows in the order of the first file's ids, and with a note that says so. Both files have ids.

    Raises:
        ValueError: some id is in only one of the files, or is twice in a file.
    """
    assert file.ids is not None
    assert first.ids is not None
    counts, first_counts = Counter(file.ids), Counter(first.ids)
    for id in first.ids + file.ids:
        if counts[id] != 1 or first_counts[id] != 1:
            raise ValueError(
                f"the id {id!r:.80} occurs {first_counts[id]} times in {first.name} and {counts[id]} times in "
                f"{file.name}: both files must have the same ids, each once"
            )
    row_of_id = dict(zip(file.ids, file.rows, strict=True))
    rows = [row_of_id[id] for id in first.ids]
    note = f"{file.name}: rows are matched with those of {first.name} by '{_ID_COLUMN}'"
    return replace(file, rows=rows, ids=first.ids, notes=(*file.notes, note), is_reordered=True)


def tag_pattern(separator: str | None = None) -> re.Pattern[str]:
    """The pattern of a tag between sentences.

    Args:
        separator: the tag or mark between sentences, such as `|||`; by default any of `SENTENCE_TAGS`.

    Raises:
        ValueError: `separator` is blank.
    """
    if separator is None:
        return re.compile("|".join([re.escape(tag) for tag in SENTENCE_TAGS]))
    if not separator.strip():
        raise ValueError(f"`separator` is {separator!r:.80}, but must be a tag or a mark between sentences")
    return re.compile(re.escape(separator.strip()))


def without_tags(text: str, tag: re.Pattern[str]) -> str:
    """The text with line ends in place of tags; a text without tags stays as it is.

    Sentences are stripped of white space at their ends, and blank sentences are left out.

    Args:
        tag: the pattern of a tag, from `tag_pattern`.
    """
    if tag.search(text) is None:
        return text
    sentences = []
    for part in tag.split(text):
        if part.strip():
            sentences.append(part.strip())
    return "\n".join(sentences)


def tags_to_line_ends(file: TextFile, separator: str | None = None) -> tuple[TextFile, list[str]]:
    """Replace the tags between sentences by line ends in all texts of a file.

    Args:
        separator: as for `tag_pattern`; "none" leaves the texts as they are.

    Returns:
        The file, and a sentence about each tag that occurs in it.

    Raises:
        ValueError: `separator` is blank.
    """
    if separator == NO_SEPARATOR:
        return file, []
    pattern = tag_pattern(separator)
    # For each tag, the number of rows that contain it.
    counts: Counter[str] = Counter()
    rows = []
    for texts in file.rows:
        tags = set()
        for text in texts:
            tags.update(pattern.findall(text))
        counts.update(tags)
        rows.append([without_tags(text, pattern) for text in texts])
    if not counts:
        return file, []
    notes = []
    for tag, number in sorted(counts.items()):
        notes.append(f"{file.name}: {number} of {len(rows)} rows contain {tag}, read as the end of a sentence")
    return replace(file, rows=rows), notes


def _read(file: str, kind: Kind, reading: RowReading, excluded_column: str | None) -> TextFile:
    """Read a file of a kind of texts.

    Args:
        file, reading, excluded_column: as for `read_predictions`.
        kind: predictions, references or documents.

    Raises:
        ValueError: as for `read_predictions`, or `reading` names a column for a file of plain text.
    """
    is_folder = is_folder_of_texts(file)
    if is_folder or extension_of(file) == ".txt":
        setting = _COLUMN_SETTINGS[kind]
        if getattr(reading, setting) is not None:
            raise ValueError(f"{file}: plain text has no columns: name none with `{setting}`")
        if is_folder:
            rows, ids = read_folder(file, kind == "references", reading.encoding)
            return TextFile(file, None, rows, ids)
        return TextFile(file, None, [[line] for line in read_lines(file, reading.encoding)])
    dataset = read_files(file, csv_separator=reading.csv_separator, encoding=reading.encoding)
    column = _choose_column(dataset, kind, reading, file, excluded_column)
    try:
        return _texts_of_column(dataset, column, kind, file)
    except UnicodeDecodeError as error:
        # The reader of JSON does not decode values, and this error does not name the file.
        raise ValueError(f"{file}: column '{column}' cannot be read: {error}") from error


def _texts_of_column(rows: "Dataset", column: str, kind: Kind, file: str) -> TextFile:
    """The texts of a column of a file of rows, with the ids of the column `id` if all rows have an id.

    Args:
        rows: the rows of the file.
        column: the name of the column.
        kind: what the texts are: predictions, references or documents.
        file: the path of the file, for messages.

    Raises:
        ValueError: the column has lists of predictions, or values that are not texts, which `is_list_column` refuses.
    """
    has_lists = is_list_column(rows, column, file)
    if has_lists and kind == "predictions":
        raise ValueError(f"{file}: column '{column}' has lists of texts, but must have one prediction in each row")
    texts = []
    for value in rows[column]:
        if has_lists:
            texts.append(nonblank_texts(value) or [""])
        else:
            texts.append([value or ""])
    ids = None
    lacks_ids = False
    if _ID_COLUMN in rows.column_names:
        ids = _ids_of_values(list(rows[_ID_COLUMN]))
        lacks_ids = ids is None
    return TextFile(file, column, texts, ids, (f"{file}: {kind} from '{column}'",), lacks_ids)


def _ids_of_values(values: list[object]) -> list[str] | None:
    """The values of the column `id` as strings; None if a row has no value, which is an empty field in a CSV file.

    The same number may be an integer in one file, a text in another, and a float such as 15.0 in a third, because
    pandas turns a column of integers into floats if a row has no value.
    """
    if None in values or "" in values:
        return None
    ids = [str(value) for value in values]
    if all(_WHOLE_FLOAT.fullmatch(id) for id in ids):
        ids = [id.removesuffix(".0") for id in ids]
    return ids


def _choose_column(rows: "Dataset", kind: Kind, reading: RowReading, file: str, excluded_column: str | None) -> str:
    """The column of a file of rows that has texts of a kind: the column that `reading` names, or a usual column.

    Args:
        file: the path of the file, for messages.
        excluded_column: a column that has texts of another kind, and so is not chosen.

    Raises:
        ValueError: the rows have no such column.
    """
    columns = [column for column in rows.column_names if column != excluded_column]
    setting = _COLUMN_SETTINGS[kind]
    named_column = getattr(reading, setting)
    if kind == "references" and named_column is None:
        if REFERENCES_COLUMN in columns and has_references(rows.features):
            return REFERENCES_COLUMN
        # As in training, the column of documents is chosen first, as a name such as `abstract` is usual for documents
        # and for summaries. A file of references may have no documents. Then `choose_column` raises an error, and no
        # column is removed.
        with suppress(ValueError):
            document_column = choose_column(columns, reading.text_column, DOCUMENT_COLUMNS, file, "text_column")
            columns.remove(document_column)
    return choose_column(columns, named_column, _USUAL_COLUMNS[kind], file, setting)
