"""Columns of documents and summaries: how they are chosen, and the values that they may contain."""

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import nearest, one_line
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable

if TYPE_CHECKING:
    import datasets

# if no column is named, the first of these that a corpus has is used
DOCUMENT_COLUMNS = (
    *("document", "documents", "article", "article_text", "text", "full_text", "maintext", "dialogue", "content"),
    *("story", "report", "book", "chapter", "transcript", "passage", "email_body", "body", "source", "input"),
    "description",
)
SUMMARY_COLUMNS = (
    *("summary", "summaries", "highlights", "target", "abstract", "abstract_text", "tldr", "references", "reference"),
    *("summary_text", "headline", "subject_line", "title"),
)
# of a file that need not have documents, in which an abstract may be the document
REFERENCE_COLUMNS = (
    *("references", "reference", "summary", "summaries", "highlights", "target", "tldr", "headline", "subject_line"),
    "title",
)
# of predictions; the first that contains one of the beginnings below comes before `summary`
PREDICTION_COLUMNS = ("prediction", "predictions", "generated_summary", "summary_text", "generated_text")
_PREDICTED = re.compile("predict|generat|hypothes|candidate|decoded|output|system", re.IGNORECASE)
_MEMBER = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
# members separated by commas, or by space alone as NumPy does
_LIST = re.compile(
    rf"\[\s*(?:{_MEMBER.pattern})(?:\s*,\s*(?:{_MEMBER.pattern})|\s+(?:{_MEMBER.pattern}))*+\s*\]\s*", re.DOTALL
)
# of a loaded corpus, with the text to put before each row's document
PREFIX_COLUMN = "prefix"
# chosen column -> the column for its values if they are lists
LIST_COLUMNS = {"document": "documents", "summary": "references"}


def choose_columns(
    columns: Sequence[str],
    text_column: str | None,
    summary_column: str | None,
    where: str,
    prefix_column: str | None = None,
) -> dict[str, str]:
    """The columns of `document`, `summary` and, if it is named, `prefix`.

    Unnamed columns of documents and summaries are the first usual ones among `columns`.
    """
    chosen = {
        "document": choose_column(columns, text_column, DOCUMENT_COLUMNS, where, "with `text_column`", summary_column),
        "summary": choose_column(columns, summary_column, SUMMARY_COLUMNS, where, "with `summary_column`", text_column),
    }
    if prefix_column is not None:
        chosen[PREFIX_COLUMN] = choose_column(columns, prefix_column, (), where, "with `prefix_column`")
    if len(set(chosen.values())) < len(chosen):
        settings = ", ".join(f"{name}: '{column}'" for name, column in chosen.items())
        raise ValueError(f"{where}: each column must be another one, but they are {settings}")
    return chosen


def choose_column(
    columns: Sequence[str], name: str | None, usual: Sequence[str], where: str, hint: str, other: str | None = None
) -> str:
    """The column `name` or, if it is None, the first usual one among `columns`.

    Args:
        hint: how to name a column, for the message.
        other: a column that is chosen for something else.
    """
    free = [column for column in columns if column not in (name, other)]
    spelled = {column.lower(): column for column in reversed(free)}
    choice = name or next((spelled[column] for column in usual if column in spelled), None) or _numbered(spelled, usual)
    if choice is not None and (choice in columns or ((several := names_in(choice)) and several <= {*columns})):
        return choice
    similar = (nearest(column, free, cutoff=0.6) for column in ((name, *usual) if name else usual))
    problem = f"no column '{name:.80}'" if name else f"no {usual[0]} column"
    # names of columns may contain line ends
    problem = one_line(f"{problem}; the columns are {', '.join(columns) or '(none)'}")
    raise ValueError(f"{where}: {problem}: name one {hint}{next(filter(None, similar), '')}")


def _numbered(spelled: dict[str, str], usual: Sequence[str]) -> str | None:
    """Several columns such as summary1 and summary2, or ref0 and ref1, as one name."""
    for stem in dict.fromkeys(
        (*(column.removesuffix("s") for column in usual), "ref" if "references" in usual else "")
    ):
        columns = [spelled[column] for column in sorted(spelled) if stem and re.fullmatch(rf"{stem}s?_?\d+", column)]
        if len(columns) > 1:
            return ",".join(columns)
    return None


def prediction_column(row: dict[str, Any], name: str | None, where: str) -> str:
    """The column `name` of predictions; by default the first usual one, one named like predictions, or `summary`."""
    similar = (column for column, value in row.items() if isinstance(value, str) and _PREDICTED.search(column))
    usual = (*PREDICTION_COLUMNS, *map(str.lower, similar), "summary")
    return choose_column(list(row), name, usual, where, "with `prediction_column`")


def names_in(column: str) -> set[str]:
    """The names of several columns, whose values are read as a list, that are separated by commas."""
    return set(column.split(",")) if "," in column else set()


def source_column(columns: Collection[str]) -> str:
    """The column of a loaded corpus that a processor reads: `documents`, if rows have several, or `document`."""
    return LIST_COLUMNS["document"] if LIST_COLUMNS["document"] in columns else "document"


def has_references(columns: "datasets.Features") -> bool:
    """Whether a loaded corpus has a column with lists of references."""
    return is_text(getattr(columns.get(LIST_COLUMNS["summary"]), "feature", None))


def is_text(feature: Any) -> bool:
    """Whether a feature of a data set is that of texts; the `feature` of a list's feature is that of its members."""
    return getattr(feature, "dtype", None) in ("string", "large_string", "string_view")


def reference_texts(rows: "datasets.Dataset") -> list[str] | list[list[str]]:
    """The references of a loaded corpus for scoring: lists of several references, or the summaries.

    In a row without references, the summary is the only one.
    """
    summaries = list(rows["summary"])
    if not has_references(rows.features):
        return summaries
    references = ([text for text in texts or () if has_text(text)] for texts in rows[LIST_COLUMNS["summary"]])
    return [texts or [summary] for texts, summary in zip(references, summaries, strict=True)]


def text_or_texts(row: dict[str, Any], column: str, where: str) -> str | list[str | None] | None:
    """The value of a chosen column in a row: one text or a list of texts.

    A list may be written as text, in JSON or as Python and NumPy print it; several columns, see `names_in`, are a list
    of their texts.
    """
    if column in row:
        value = _listed(row[column])
    elif (names := names_in(column)) and names <= row.keys():
        value = [row[name] for name in column.split(",") if row[name] is not None]
    else:
        raise ValueError(f"{where}: no column '{column}'; the columns are {', '.join(row) or '(none)'}")
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str | None):
            listed = "a list with " if isinstance(value, list) else ""
            raise ValueError(f"{where}: '{column}' must be text, but is {listed}{type(text).__name__}: {text!r:.60}")
    return value


def _listed(value: Any) -> Any:
    """The list that a text writes, or the value itself."""
    if not isinstance(value, str) or value[:1] != "[" or _LIST.fullmatch(value) is None:
        return value
    for read in (json.loads, lambda text: [ast.literal_eval(member) for member in _MEMBER.findall(text)]):
        try:
            return read(value)
        except (SyntaxError, ValueError):
            continue
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


def value_type(value: Any) -> str:
    """How a value is stored: as null, bool, int64, float64, string, strings (a list of strings) or, otherwise, json."""
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
        case list() if all(isinstance(member, str) for member in value):
            return "strings"
    return "json"


def column_type(types: set[str]) -> str:
    """The type that fits all values of a column."""
    types = types - {"null"}
    if types == {"int64", "float64"}:
        return "float64"
    if len(types) > 1:
        return "json"
    return types.pop() if types else "string"


def storable(value: Any, as_json: bool) -> Any:
    """The value in the form of its column: strings without lone surrogates and, with `as_json`, others as JSON."""
    if as_json and value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [storable(member, as_json=False) for member in value]
    return value


def feature_of(type_name: str) -> Any:
    """The feature of a column of this type."""
    # imported here, as the names and types of columns do not need it
    import datasets

    if type_name == "strings":
        return datasets.List(datasets.Value("string"))
    return datasets.Value("string" if type_name == "json" else type_name)
