"""Columns of documents and summaries: how they are chosen, and the values that they may contain."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import nearest, one_line
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable

if TYPE_CHECKING:
    import datasets

# if no column is named, the first of these that a corpus has is used
DOCUMENT_COLUMNS = ("document", "documents", "article", "text", "source", "dialogue", "body", "content", "description")
SUMMARY_COLUMNS = ("summary", "highlights", "target", "abstract", "references", "headline", "title")
# of a file that need not have documents, in which an abstract may be the document
REFERENCE_COLUMNS = ("references", "reference", "summary", "highlights", "target", "headline", "title")
# of a loaded corpus, with the text to put before each row's document
PREFIX_COLUMN = "prefix"
# chosen column -> the column for its values if they are lists
LIST_COLUMNS = {"document": "documents", "summary": "references"}


def choose_columns(
    present: Sequence[str], text_column: str | None, summary_column: str | None, where: str
) -> tuple[str, str]:
    """The columns of documents and summaries: the named ones, otherwise the first known names that are present.

    Raises:
        ValueError: there is no such column; the message lists those present and suggests the most similar.
    """
    document = choose_column(present, text_column, DOCUMENT_COLUMNS, where, "with `text_column`", summary_column)
    summary = choose_column(present, summary_column, SUMMARY_COLUMNS, where, "with `summary_column`", text_column)
    if document == summary:
        raise ValueError(
            f"{where}: `text_column` and `summary_column` are both '{document}': name two different columns"
        )
    return document, summary


def choose_column(
    present: Sequence[str], named: str | None, known: Sequence[str], where: str, way: str, other: str | None = None
) -> str:
    """The named column, otherwise the first known name that is present.

    Args:
        way: how to name a column, for the message.
        other: a column that is chosen for something else.

    Raises:
        ValueError: as `choose_columns`.
    """
    free = [name for name in present if name not in (named, other)]
    name = named or next((candidate for candidate in known if candidate in free), None)
    if name is not None and name in present:
        return name
    wanted = (named, *known) if named else known
    hint = next(filter(None, (nearest(candidate, free, cutoff=0.6) for candidate in wanted)), "")
    missing = f"no column '{named:.80}'" if named else f"no {known[0]} column"
    listed = f"{missing}; the columns are {', '.join(present) or '(none)'}"
    # names of columns may contain line ends
    raise ValueError(f"{where}: {one_line(listed)}: name one {way}{hint}")


def choose_prefix(present: Sequence[str], named: str | None, chosen: Iterable[str], where: str) -> str | None:
    """The named column of prefixes, or None.

    Args:
        chosen: the columns of documents and summaries.

    Raises:
        ValueError: there is no such column, or it is chosen already.
    """
    if named in chosen:
        raise ValueError(f"{where}: `prefix_column` is '{named}', the column of documents or summaries: name another")
    return None if named is None else choose_column(present, named, (), where, "with `prefix_column`")


def source_column(columns: Collection[str]) -> str:
    """The column of a loaded corpus that a processor reads: `documents`, if rows have several, or `document`."""
    several = LIST_COLUMNS["document"]
    return several if several in columns else "document"


def has_references(columns: "datasets.Features") -> bool:
    """Whether a loaded corpus has a column with lists of references."""
    feature = columns.get(LIST_COLUMNS["summary"])
    return getattr(getattr(feature, "feature", None), "dtype", None) in ("string", "large_string")


def reference_texts(rows: "datasets.Dataset") -> list[str] | list[list[str]]:
    """The references of a loaded corpus for scoring: lists of several references, or the summaries.

    In a row without references, the summary is the only one.
    """
    summaries = list(rows["summary"])
    if not has_references(rows.features):
        return summaries
    several = ([text for text in texts or () if has_text(text)] for texts in rows[LIST_COLUMNS["summary"]])
    return [texts or [summary] for texts, summary in zip(several, summaries, strict=True)]


def text_or_texts(row: dict[str, Any], column: str, where: str) -> str | list[str | None] | None:
    """The value of a chosen column in a row: one text or a list of texts.

    Raises:
        ValueError: the row has no such column, or its value is not text.
    """
    if column not in row:
        raise ValueError(f"{where}: no column '{column}'; the columns are {', '.join(row) or '(none)'}")
    value = row[column]
    if isinstance(value, list):
        for part in value:
            if part is not None and not isinstance(part, str):
                raise ValueError(
                    f"{where}: '{column}' must be text, but is a list with {type(part).__name__} in it: {part!r:.60}; "
                    "make each member a string"
                )
    elif value is not None and not isinstance(value, str):
        raise ValueError(
            f"{where}: '{column}' must be text, but is {type(value).__name__}: {value!r:.60}; write it as a string"
        )
    return value


def has_text(value: str | Iterable[str | None] | None) -> bool:
    """Whether a text or a list of texts has a visible character: not space, control or zero-width."""
    if isinstance(value, str):
        # in most texts, the first character is visible
        return value[:1].isalnum() or any(character.isprintable() and character != " " for character in value)
    return any(map(has_text, value or ()))


def single_texts(row: dict[str, Any], columns: Sequence[str], separate: Callable | None = None) -> dict[str, Any]:
    """For a row with lists: `document` from `documents`, and `summary` from `references`, without blank members.

    Args:
        columns: those of `document` and `summary` for which the row has lists.
        separate: function that splits the text in `documents` into a list.
    """
    texts: dict[str, Any] = {}
    for column in columns:
        members = row[LIST_COLUMNS[column]] or []
        if separate is not None and isinstance(members, str):
            members = separate(members)
        members = [member for member in members if has_text(member)]
        joined = DOCUMENT_SEPARATOR.join(members) if column == "document" else next(iter(members), "")
        texts |= {column: joined, LIST_COLUMNS[column]: members}
    return texts


def kind_of_value(value: Any) -> str:
    """How a value is stored: as null, bool, int64, float64, string, strings (a list of strings) or json (the rest)."""
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


def kind_of_column(kinds: set[str]) -> str:
    """The kind that fits all values of a column."""
    kinds = kinds - {"null"}
    if kinds == {"int64", "float64"}:
        return "float64"
    if len(kinds) > 1:
        return "json"
    return kinds.pop() if kinds else "string"


def storable(value: Any, as_json: bool) -> Any:
    """The value in the form of its column: strings without lone surrogates and, with `as_json`, others as JSON."""
    if as_json and value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [storable(part, as_json=False) for part in value]
    return value


def feature_of(kind: str) -> Any:
    """The feature of a column of this kind."""
    # imported here, as the names and kinds of columns do not need it
    import datasets

    if kind == "strings":
        return datasets.List(datasets.Value("string"))
    return datasets.Value("string" if kind == "json" else kind)
