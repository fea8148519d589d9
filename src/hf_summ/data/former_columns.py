"""Columns of documents and summaries: how they are chosen, and the values that they may contain."""

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import nearest, one_line
from hf_summ.common.records import to_json
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable

if TYPE_CHECKING:
    import datasets

# if no column is named, the first of these that a corpus has is used
DOCUMENT_COLUMNS = (
    *("document", "documents", "article", "articles", "article_text", "text", "full_text", "maintext", "dialogue"),
    *("dialog", "conversation", "content", "story", "report", "book", "chapter", "transcript", "passage", "email_body"),
    *("selftext_without_tldr", "body", "news", "post", "reviewtext", "paragraphs", "source", "sources", "src", "input"),
    *("prompt", "description"),
)
SUMMARY_COLUMNS = (
    *("summary", "summaries", "highlights", "target", "abstract", "abstract_text", "tldr", "references", "reference"),
    *("summary_text", "recap", "headline", "headlines", "subject_line", "tl;dr", "tgt", "output"),
    *("completion", "title"),
)
# of a file that need not have documents, in which an abstract may be the document
REFERENCE_COLUMNS = (
    *("references", "reference", "summary", "summaries", "highlights", "target", "tldr", "headline", "subject_line"),
    *("summary_text", "recap", "headlines", "tl;dr", "ref", "refs", "tgt", "title", "gold", "ground_truth"),
    *("label", "labels"),
)
# of predictions; the first that contains one of the beginnings below comes before `summary`
PREDICTION_COLUMNS = "prediction predictions generated_summary summary_text generated_text filtered_resps".split()
_PREDICTED = re.compile(
    r"(?!(?:model|system|generator)(?:_?(?:name|id))?$).*(?:pred|^gen|generat|hyp|cand|decod|output|^sys|model|resp|complet|infer)",
    re.IGNORECASE,
)
_MEMBER = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
# members separated by commas, or by space alone as NumPy does
_LIST = re.compile(
    rf"\[\s*(?:{_MEMBER.pattern})(?:\s*,\s*(?:{_MEMBER.pattern})|\s+(?:{_MEMBER.pattern}))*+\s*\]\s*", re.DOTALL
)
# of the objects in a list: who speaks, and the text
_SPEAKERS = ("speaker", "role", "name", "from", "author", "sender")
_TEXTS = ("text", "content", "utterance", "value", "message")
# columns with the turns of a user and a language model, and their names there
_CHATS = {"messages": ("user", "assistant"), "conversations": ("human", "gpt")}
# of a loaded corpus, with the text to put before each row's document
PREFIX_COLUMN = "prefix"
# of any corpus, with the tags of each document's words
WORD_TAGS = "word_tags"
# as pandas' astype(str) writes missing texts
_MISSING = ("nan", "<NA>")
# chosen column -> the column for its values if they are lists
LIST_COLUMNS = {"document": "documents", "summary": "references"}
# what a list in a column is -> how that is told
MEANINGS = {
    "sentences": "the sentences of one text",
    "documents": "several documents",
    "references": "several references",
}


def choose_columns(
    columns: Sequence[str],
    text_column: str | None,
    summary_column: str | None,
    where: str,
    prefix_column: str | None = None,
    blank: Collection[str] = (),
) -> dict[str, str]:
    """The columns of `document`, `summary` and, if it is named, `prefix`.

    Unnamed columns of documents and summaries are the first usual ones among `columns`, but not `blank` ones.
    """
    document = choose_column(columns, text_column, DOCUMENT_COLUMNS, where, "with `text_column`", summary_column, blank)
    summary = choose_column(columns, summary_column, SUMMARY_COLUMNS, where, "with `summary_column`", document, blank)
    chosen = {"document": document, "summary": summary}
    if prefix_column is not None:
        chosen[PREFIX_COLUMN] = choose_column(columns, prefix_column, (), where, "with `prefix_column`")
    if len(set(chosen.values())) < len(chosen):
        settings = ", ".join(f"{name}: '{column}'" for name, column in chosen.items())
        raise ValueError(f"{where}: each column must be a different one, but they are {settings}")
    return chosen


def choose_column(
    columns: Sequence[str],
    name: str | None,
    usual: Sequence[str],
    where: str,
    hint: str,
    other: str | None = None,
    blank: Collection[str] = (),
) -> str:
    """The column `name` or, if it is None, the first usual one among `columns`, or `text` if it is alone but for ids.

    Args:
        hint: how to name a column, for the message.
        other: a column that is chosen for something else.
        blank: columns without text, see `blank_columns`, of which none is chosen unless all usual ones are among them.
    """
    free = [column for column in columns if column not in (name, other)]
    spelled = {column.strip().lower(): column for column in reversed(free)}
    written = {column: own for column, own in spelled.items() if own not in blank}
    alone = ("text",) if spelled.keys() <= {"id", "file_id", "text"} else ()
    first = (names[column] for names in (written, spelled) for column in (*usual, *alone) if column in names)
    choice = name or next(first, None) or _numbered(spelled, usual)
    if choice is not None and (choice in columns or ((several := names_in(choice)) and several <= {*columns})):
        return choice
    similar = (nearest(column, free, cutoff=0.6) for column in ((name, *usual) if name else usual))
    problem = f"no column '{name:.80}'" if name else f"no {usual[0]} column"
    # names of columns may contain line ends
    problem = one_line(f"{problem}; the columns are {', '.join(columns) or '(none)'}")
    turns = (f"; in a chat, {own}.{user} or {own}.{model}" for own, (user, model) in _CHATS.items() if own in free)
    raise ValueError(f"{where}: {problem}: name one {hint}{next(chain(turns, filter(None, similar)), '')}")


def _numbered(spelled: dict[str, str], usual: Sequence[str]) -> str | None:
    """Several columns such as summary1 and summary2, or ref0 and ref1, as one name."""
    for stem in dict.fromkeys((*(name.removesuffix("s") for name in usual), "ref" if "references" in usual else "")):
        columns = [spelled[column] for column in sorted(spelled) if stem and re.fullmatch(rf"{stem}s?_?\d+", column)]
        if len(columns) > 1:
            return ",".join(columns)
    return None


def blank_columns(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The columns that have neither text nor lists in any of the rows; an object that is written as text is none."""
    written: set[str] = set()
    columns: set[str] = set()
    for row in rows:
        columns |= row.keys()
        written.update(name for name, value in row.items() if _is_written(value))
    return columns - written


def _is_written(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_written(own) for one in value for own in (one.values() if isinstance(one, dict) else [one]))
    return isinstance(value, str) and has_text(value) and not value.startswith(('{"', "{'"))


def prediction_column(columns: Sequence[str], name: str | None, where: str, blank: Collection[str] = ()) -> str:
    """The column `name` of predictions; by default the first usual one, one named like predictions, or `summary`.

    Args:
        columns, blank: as for `choose_column`.
    """
    similar = (column for column in columns if column not in blank and _PREDICTED.match(column))
    usual = (*PREDICTION_COLUMNS, *map(str.lower, similar), "summary")
    return choose_column(columns, name, usual, where, "with `prediction_column`", blank=blank)


def names_in(column: str) -> set[str]:
    """The columns that a name refers to if it is none: several, separated by commas, or that of article.document.

    Values of several columns are read as a list; those within objects, or within the objects of a list, are read alone.
    """
    return {name.partition(".")[0] for name in column.split(",")} if "," in column or "." in column else set()


def source_column(columns: Collection[str]) -> str:
    """The column of a loaded corpus that a processor reads: `documents`, if rows have several, or `document`."""
    return LIST_COLUMNS["document"] if LIST_COLUMNS["document"] in columns else "document"


def has_references(columns: "datasets.Features") -> bool:
    """Whether a loaded corpus has a column with lists of references."""
    return is_text(getattr(columns.get(LIST_COLUMNS["summary"]), "feature", None))


def may_be_text(feature: Any) -> bool:
    """Whether a feature is that of texts, or of lists of texts, of objects or of such lists."""
    member = getattr(feature, "feature", feature)
    return is_text(member) or (member is not feature and (isinstance(member, dict) or may_be_text(member)))


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
    of their texts. Objects with a text and its speaker are the lines of a dialogue, other objects several texts; lists
    of words, or of sentences of words, in a list are joined.
    """
    if column in row:
        value = _listed(row[column])
    elif (names := names_in(column)) and names <= row.keys():
        values = [_listed(_value_within(row, name, where)) for name in column.split(",")]
        joined = (text for own in values for text in (own if isinstance(own, list) else [own]) if text is not None)
        value = list(joined) if len(values) > 1 else values[0]
    else:
        raise ValueError(f"{where}: no column '{column}'; the columns are {', '.join(row) or '(none)'}")
    # as pandas writes a missing text
    if isinstance(value, float) and math.isnan(value):
        return None
    value = _flattened(value) if isinstance(value, list) and value else value
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str | None):
            listed = "a list with " if isinstance(value, list) else ""
            hint = (
                f"; name a text within, such as {column}.{next(iter(text))}" if isinstance(text, dict) and text else ""
            )
            raise ValueError(
                f"{where}: '{column}' must be text, but is {listed}{type(text).__name__}: {text!r:.60}{hint}"
            )
    return value


def _value_within(value: Any, name: str, where: str) -> Any:
    """The value of a name such as article.document, within an object or the objects of a list.

    In a dialogue, a name such as messages.assistant is that of a speaker, whose turns are joined.
    """
    if isinstance(value, list):
        # annotations that were skipped, as Label Studio exports them
        value = [member for member in value if not (isinstance(member, Mapping) and member.get("was_cancelled"))]
        turns = [text for speaker, text in _turns(value) if speaker == name and text]
        return "\n".join(turns) if turns else [_value_within(member, name, where) for member in value]
    if not isinstance(value, Mapping):
        return None
    first, _, inner = (name, "", "") if name in value else name.partition(".")
    if first not in value:
        raise ValueError(f"{where}: no '{name}' in an object of {', '.join(value)}")
    return _value_within(value[first], inner, where) if inner else value[first]


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


def _flattened(members: list[Any]) -> Any:
    """The texts of a list of objects, or a dialogue as one text; the texts of a list of lists; or the list itself."""
    if turns := _turns(members):
        return "\n".join(f"{speaker}: {text}" for speaker, text in turns if text)
    if all(isinstance(member, dict) for member in members):
        text = _common(members, _TEXTS)
        return members if text is None else [member[text] for member in members]
    if all(isinstance(member, list) for member in members):
        texts = [_flattened(member) if member and isinstance(member[0], list) else member for member in members]
        return [" ".join(text) if all(isinstance(word, str) for word in text) else text for text in texts]
    return members


def _turns(members: list[Any]) -> list[tuple[Any, Any]]:
    """The speaker and the text of each object of a dialogue; empty if they are others."""
    speaker, text = _common(members, _SPEAKERS), _common(members, _TEXTS)
    return [] if speaker is None or text is None else [(member[speaker], member[text]) for member in members]


def _common(members: list[Any], names: Sequence[str]) -> str | None:
    """The first of these names that all objects have."""
    return next((name for name in names if all(isinstance(own, dict) and name in own for own in members)), None)


def has_text(value: str | Iterable[str | None] | None) -> bool:
    """Whether a text, or one of a list, is not missing, and not only space, control or zero-width characters."""
    if isinstance(value, str):
        # in most texts, the first character is visible
        is_visible = value[:1].isalnum() or any(character.isprintable() and character != " " for character in value)
        return is_visible and value not in _MISSING
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
    """How a value is stored: as null, bool, int64, float64, string, strings (a list of strings) or, otherwise, json.

    `long` is an int64 that no float64 equals.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int64" if abs(value) <= 2**53 else "long" if -(2**63) <= value < 2**63 else "json"
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
    types = {"int64" if name == "long" else name for name in types}
    if len(types) > 1:
        return "json"
    return types.pop() if types else "string"


def storable(value: Any, as_json: bool) -> Any:
    """The value in the form of its column: strings without lone surrogates and, with `as_json`, others as JSON."""
    if as_json and value is not None and not isinstance(value, str):
        # dates and the like, which JSON lacks, have no quotation marks
        value = to_json(value).strip('"')
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
