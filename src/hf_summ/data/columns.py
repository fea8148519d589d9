"""Columns of documents and summaries: their usual names, the choice among them, and their types."""

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
# The number of rows that are examined for lists that are written as text.
_EXAMINED = 10


@dataclass(frozen=True)
class Columns:
    """The columns that a corpus is read from."""

    document: str
    summary: str
    prefix: str | None = None


def choose_column(columns: Sequence[str], name: str | None, usual: Sequence[str], where: str, flag: str) -> str:
    """The named column or, if no name is given, the first usual one, whatever its case.

    Args:
        where: the name of the rows in messages.
        flag: the setting that names the column.

    Raises:
        ValueError: there is no such column.
    """
    listed = one_line(", ".join(columns))
    if name is not None:
        if name not in columns:
            raise ValueError(f"{where}: no column '{name}'; the columns are {listed}")
        return name
    # Of several columns with the same name in lower case, the first is chosen.
    by_lower_case = {column.strip().lower(): column for column in reversed(columns)}
    for candidate in usual:
        if candidate in by_lower_case:
            return by_lower_case[candidate]
    if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
        raise ValueError(f"{where}: a single column, '{listed}': set `csv_separator` to the separator of its fields")
    raise ValueError(f"{where}: no {usual[0]} column; the columns are {listed}: name one with `{flag}`")


def choose_text_column(rows: "datasets.Dataset", name: str | None, where: str) -> str:
    """The column of the documents, which is logged.

    Raises:
        ValueError: there is no such column.
    """
    column = choose_column(rows.column_names, name, DOCUMENT_COLUMNS, where, "text_column")
    logger.info(f"{where}: documents from '{column}'")
    return column


def choose_columns(
    columns: Sequence[str], text_column: str | None, summary_column: str | None, prefix_column: str | None, where: str
) -> Columns:
    """The columns of documents, summaries and, if it is named, prefixes.

    Raises:
        ValueError: there is no such column, or one has two roles.
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
    """Whether the values of a column with this feature are texts; `datasets` has several types for texts."""
    return getattr(feature, "dtype", None) in ("string", "large_string", "string_view")


def is_list_column(rows: "datasets.Dataset | datasets.IterableDataset", column: str, where: str) -> bool:
    """Whether a column of texts holds a list of them in each row.

    Raises:
        ValueError: the column holds anything else, or lists that are written as text.
    """
    feature = (rows.features or {}).get(column)
    if is_text(feature):
        _check_written_lists(rows, column, where)
        return False
    if is_text(getattr(feature, "feature", None)):
        return True
    # Without any value, a column has this type.
    if getattr(feature, "dtype", None) == "null":
        return False
    for index, row in enumerate(rows.select_columns([column])):
        value = row[column]
        if value is None or isinstance(value, str):
            continue
        raise ValueError(
            f"{where}, row {index + 1}: column '{column}' has {type(value).__name__} ({value!r:.60}), but must have a "
            "text, or in each row a list of texts"
        )
    return False


def _check_written_lists(rows: "datasets.Dataset | datasets.IterableDataset", column: str, where: str) -> None:
    """Raise a ValueError if all texts in the first rows of a column are written lists, such as "['a', 'b']"."""
    texts = []
    for row in islice(rows.select_columns([column]), _EXAMINED):
        if has_text(row[column]):
            texts.append(row[column].strip())
    are_lists = [text.startswith(("['", '["')) and text.endswith("]") for text in texts]
    if texts and all(are_lists):
        raise ValueError(
            f"{where}: column '{column}' has lists that are written as text: store the rows as JSON Lines or Parquet"
        )


def source_column(columns: Collection[str]) -> str:
    """The column of a loaded corpus that a processor reads: `documents`, if rows have several, or `document`."""
    return DOCUMENTS_COLUMN if DOCUMENTS_COLUMN in columns else "document"


def has_references(features: "datasets.Features") -> bool:
    """Whether a loaded corpus has a column with lists of references."""
    return is_text(getattr(features.get(REFERENCES_COLUMN), "feature", None))


def reference_texts(rows: "datasets.Dataset") -> list[str] | list[list[str]]:
    """The references of a loaded corpus for scoring: lists of several references, or the summaries.

    In a row without references, the summary is the only reference.
    """
    summaries = list(rows["summary"])
    if not has_references(rows.features):
        return summaries
    references = []
    for texts, summary in zip(rows[REFERENCES_COLUMN], summaries, strict=True):
        references.append(written_texts(texts) or [summary])
    return references


def written_texts(texts: list[str] | None) -> list[str]:
    """The texts of a list that are not blank."""
    return [text for text in texts or [] if has_text(text)]


def has_text(value: str | None) -> bool:
    """Whether a text is neither missing nor blank."""
    return value is not None and bool(value.strip())
