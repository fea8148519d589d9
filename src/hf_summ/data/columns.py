"""Columns of documents and summaries: their usual names, the choice among them, and their types.

A text is blank if it is missing (None) or has only white space. `where` names the rows in the messages of all
functions: it is the name of a file, or of a data set and its split.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from hf_summ.common.messages import one_line

if TYPE_CHECKING:
    import datasets
    from datasets.features.features import FeatureType

logger = logging.getLogger(__name__)

# If the user names no column, the first of these names that the rows have is chosen.
DOCUMENT_COLUMNS = (
    "document",
    "documents",
    "article",
    "articles",
    "text",
    "dialogue",
    "source",
    "body",
    "content",
    "description",
    "abstract",
)
SUMMARY_COLUMNS = (
    "summary",
    "summaries",
    "references",
    "reference",
    "highlights",
    "target",
    "abstract",
    "tldr",
    "headline",
    "title",
)
PREDICTION_COLUMNS = ("prediction", "predictions", "generated_summary", "summary_text", "generated_text", "summary")
# Columns of a loaded corpus: lists of documents, lists of references, and texts to put before documents.
DOCUMENTS_COLUMN = "documents"
REFERENCES_COLUMN = "references"
PREFIX_COLUMN = "prefix"
# The column of any corpus with the tags of each document's words.
WORD_TAGS = "word_tags"
# The number of rows at the beginning of a column that are searched for lists stored as text, such as "['a', 'b']".
_EXAMINED = 10


@dataclass(frozen=True)
class Columns:
    """The names of the columns from which a corpus is read.

    `summary` is None if only documents are read, and `prefix` is None without a column of prefixes. A prefix is a text
    to put before the document of a row, such as "summarize: ".
    """

    document: str
    summary: str | None
    prefix: str | None = None


def choose_column(columns: Sequence[str], name: str | None, usual: Sequence[str], where: str, flag: str) -> str:
    """The column that the user names or, without a name, the column with the first usual name that the rows have.

    A usual name is also found in another case, and with white space around it.

    Args:
        columns: the names of all columns of the rows.
        name: the name that the user gives, or None. It must be spelled as in the rows.
        usual: usual names in lower case; a name that is preferred comes before others.
        where: the name of the rows in messages.
        flag: the setting by which the user names the column, for messages.

    Returns:
        One of `columns`.

    Raises:
        ValueError: there is no such column.
    """
    listed = f"the columns are {one_line(', '.join(columns))}"
    if not columns:
        listed = "there are no other columns"
    if name is not None:
        if name not in columns:
            raise ValueError(f"{where}: no column '{name}'; {listed}")
        return name
    # Several columns may have the same name in lower case. A later value of a key replaces an earlier value, so the
    # columns are read from last to first, and the first of them stays.
    by_lower_case = {column.strip().lower(): column for column in reversed(columns)}
    for candidate in usual:
        if candidate in by_lower_case:
            return by_lower_case[candidate]
    if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
        raise ValueError(
            f"{where}: a single column, '{one_line(columns[0])}': set `csv_separator` to the separator of its fields"
        )
    if columns:
        listed += f": name one with `{flag}`"
    raise ValueError(f"{where}: no {usual[0]} column; {listed}")


def choose_text_column(rows: "datasets.Dataset", name: str | None, where: str) -> str:
    """The name of the column of documents, chosen as by `choose_column`; the choice is logged.

    Args:
        name: the name that the user gives, or None.
        where: the name of the rows in messages.

    Raises:
        ValueError: there is no such column.
    """
    column = choose_column(rows.column_names, name, DOCUMENT_COLUMNS, where, "text_column")
    logger.info(f"{where}: documents from '{column}'")
    return column


def choose_columns(
    columns: Sequence[str], text_column: str | None, summary_column: str | None, prefix_column: str | None, where: str
) -> Columns:
    """Choose the columns of documents, summaries and, if the user names it, prefixes, each as by `choose_column`.

    A column that the user names for summaries is not chosen for documents, and the column of documents is not chosen
    for summaries.

    Args:
        columns: the names of all columns of the rows.
        text_column, summary_column, prefix_column: the names that the user gives, or None.
        where: the name of the rows in messages.

    Raises:
        ValueError: there is no such column, or the same column is named twice.
    """
    if text_column is not None and text_column == summary_column:
        raise ValueError(f"{where}: '{text_column}' cannot be the column of documents and of summaries")
    candidates = [column for column in columns if column != summary_column]
    document = choose_column(candidates, text_column, DOCUMENT_COLUMNS, where, "text_column")
    candidates = [column for column in columns if column != document]
    summary = choose_column(candidates, summary_column, SUMMARY_COLUMNS, where, "summary_column")
    if prefix_column is not None:
        choose_column(columns, prefix_column, (), where, "prefix_column")
        if prefix_column in (document, summary):
            raise ValueError(f"{where}: '{prefix_column}' is the column of documents or of summaries, not of prefixes")
    return Columns(document, summary, prefix_column)


def is_text(feature: "FeatureType | None") -> bool:
    """Whether the values of a column are texts, given the column's type in `datasets`; None stands for no column."""
    # `datasets` has several types for texts.
    return getattr(feature, "dtype", None) in ("string", "large_string", "string_view")


def _is_list_of_texts(feature: "FeatureType | None") -> bool:
    """Whether the values of a column are lists of texts, given the column's type in `datasets`.

    None stands for no column.
    """
    # The type of a column of lists has the type of the lists' elements as its attribute `feature`.
    element_type = getattr(feature, "feature", None)
    return is_text(element_type)


def is_list_column(rows: "datasets.Dataset | datasets.IterableDataset", column: str, where: str) -> bool:
    """Whether each row of a column has a list of texts (True) or a single text (False).

    A column in which all values are missing counts as a column of texts.

    Args:
        column: the name of the column.
        where: the name of the rows in messages.

    Raises:
        ValueError: the column has values of another type, or lists stored as text, such as "['a', 'b']".
    """
    feature = (rows.features or {}).get(column)
    if is_text(feature):
        _check_no_lists_as_text(rows, column, where)
        return False
    if _is_list_of_texts(feature):
        return True
    # In `datasets`, a column without any value has the type `null`.
    if getattr(feature, "dtype", None) == "null":
        return False
    # The column has another type, or its type is unknown. The first value that is not a text is shown in the message.
    for index, row in enumerate(rows.select_columns([column])):
        value = row[column]
        if value is None or isinstance(value, str):
            continue
        raise ValueError(
            f"{where}, row {index + 1}: column '{column}' has {type(value).__name__} ({value!r:.60}), but must have a "
            "text, or in each row a list of texts"
        )
    return False


def _check_no_lists_as_text(rows: "datasets.Dataset | datasets.IterableDataset", column: str, where: str) -> None:
    """Refuse a column of texts whose values are lists stored as text, such as "['a', 'b']", as CSV files have them.

    The first `_EXAMINED` rows are examined. Blank texts among them are skipped.

    Raises:
        ValueError: all texts that are examined look like lists of texts, and there is at least one.
    """
    texts = []
    for row in islice(rows.select_columns([column]), _EXAMINED):
        if has_text(row[column]):
            texts.append(row[column].strip())
    if not texts:
        return
    for text in texts:
        is_list = text.startswith(("['", '["')) and text.endswith("]")
        if not is_list:
            return
    raise ValueError(
        f"{where}: column '{column}' has lists that are written as text: store the rows as JSON Lines or Parquet"
    )


def source_column(columns: Collection[str]) -> str:
    """The column of a loaded corpus that a processor reads.

    Args:
        columns: the names of the corpus's columns.

    Returns:
        `documents`, with a list of texts in each row, if the corpus has this column; otherwise `document`.
    """
    return DOCUMENTS_COLUMN if DOCUMENTS_COLUMN in columns else "document"


def has_references(features: "datasets.Features") -> bool:
    """Whether a loaded corpus has a column `references` with a list of texts in each row.

    References are the human-written summaries to which the summaries of a model are compared.

    Args:
        features: name of a column -> the type of its values.
    """
    return _is_list_of_texts(features.get(REFERENCES_COLUMN))


def reference_texts(rows: "datasets.Dataset") -> list[str] | list[list[str]]:
    """The references of a loaded corpus, to which the summaries of a model are compared.

    Returns:
        If the corpus has lists of references, a list for each row: the references that are not blank, or the summary
        alone if all references are blank. Otherwise the summary of each row as a text.
    """
    summaries = list(rows["summary"])
    if not has_references(rows.features):
        return summaries
    references = []
    for texts, summary in zip(rows[REFERENCES_COLUMN], summaries, strict=True):
        references.append(nonblank_texts(texts) or [summary])
    return references


def nonblank_texts(texts: list[str] | None) -> list[str]:
    """The texts of a list that are not blank, unchanged and in order. None is read as an empty list."""
    return [text for text in texts or [] if has_text(text)]


def has_text(value: str | None) -> bool:
    """Whether a text is not blank."""
    return value is not None and bool(value.strip())
