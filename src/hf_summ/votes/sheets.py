"""Sheets for blind votes between systems' summaries: protocols, pages and tables, the key to them, and the votes."""

import csv
import dataclasses
import hashlib
import io
import itertools
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hf_summ.common.messages import check_choice, one_line, unknown_choice
from hf_summ.common.pages import render_page
from hf_summ.common.records import spreadsheet_text
from hf_summ.evaluation.words import check_lengths, first_of
from hf_summ.models.checks import check_integer, check_text
from hf_summ.models.text_documents import readable

# a vote: for the summary on one side or the other, or for neither
CHOICES = ("A", "B", "tie")
# the outcome for side A
_VALUES = dict(zip(CHOICES, (1.0, -1.0, 0.0), strict=True))
# spellings of choices that people write into tables
_AS_WRITTEN = {choice.lower(): choice for choice in CHOICES} | {"summary a": "A", "summary b": "B"}
# what Mechanical Turk prefixes to the columns of its input, and to the answers
_OF_TURK = re.compile(r"^(?:Input|Answer)\.")
_MOST_DIGITS = 9
# the columns of a sheet besides its aspects
COLUMNS = ("sheet", "item", "document", "reference", "summary A", "summary B")


@dataclass(frozen=True)
class Protocol:
    """A blind comparison of two summaries: for each aspect, voters choose one of them, or a tie.

    Args:
        documents: number of documents to draw from a corpus.
        voters: number of people who vote on each.
        aspects: name -> the question that voters answer.
        unit: of the printed wins, losses and ties: "percent" of the votes, or number of "documents" per voter.
        digits: number of printed decimal places.

    Raises:
        TypeError: a number or a question of another type.
        ValueError: no documents, voters or aspects; an aspect without a name or question, or named like a column; an
            unknown unit, or more than 9 digits.
    """

    documents: int
    voters: int
    aspects: Mapping[str, str]
    unit: Literal["documents", "percent"] = "percent"
    digits: int = 1

    def __post_init__(self):
        for name in ("documents", "voters"):
            check_integer(name, getattr(self, name), 1)
        check_integer("digits", self.digits, 0, _MOST_DIGITS)
        check_choice("`unit`", self.unit, ("documents", "percent"))
        if not self.aspects:
            raise ValueError("`aspects` is empty, but must have a name and a question for each")
        for name, question in self.aspects.items():
            check_text("aspects", question)
            if not name.strip() or not question.strip():
                raise ValueError(f"the aspect {name!r:.80} has the question {question!r:.80}: give both")
            if name in COLUMNS:
                raise ValueError(f"an aspect is named '{name}', like another column of the sheets: name it differently")


PROTOCOLS: Mapping[str, Protocol] = {
    # Kwon et al. 2021, section 5 and Table 3
    "gdlf": Protocol(
        # stated: "the same 50 documents", "voted on by three different participants"
        documents=50,
        voters=3,
        # stated: "choose the more relevant summary", which "better represents the source text"
        aspects={"relevance": "Which summary is more relevant, that is, better represents the document?"},
        # 25.7, 20.7 and 3.6, which add up to 50
        unit="documents",
    ),
    # Liu et al. 2021, section 4.4 and Table 3
    "highlight_transformer": Protocol(
        # stated: "50 samples from the test set", "four annotators"
        documents=50,
        voters=4,
        # stated, with these definitions
        aspects={
            "informativeness": "Which summary covers more of the information of the document?",
            "fluency": "Which summary is better organized and grammatically more correct?",
            "non-redundancy": "Which summary repeats less information?",
        },
    ),
    # Xu et al. 2020, section 5.3 and Table 4
    "sagcopy": Protocol(
        # stated, of Gigaword's test set
        documents=100,
        # chosen: the paper does not say, but all its percentages fit 300 votes
        voters=3,
        # stated; chosen: the questions, as the paper defines neither
        aspects={
            "importance": "Which summary has more of what is important in the document?",
            "readability": "Which summary is easier to read?",
        },
        digits=2,
    ),
}


@dataclass(frozen=True)
class Compared:
    """An item: a document, and two systems whose summaries of it are compared."""

    document: str
    first: str
    second: str


@dataclass(frozen=True)
class Sides:
    """A sheet: its voter, and for each item the system on side A."""

    voter: str
    on_a: Mapping[str, str]


@dataclass(frozen=True)
class Key:
    """The key that maps votes for sides to votes for systems.

    Args:
        protocol: the protocol of the sheets.
        seed: random seed of the sheets.
        items: item -> its document and systems.
        sheets: sheet -> its sides.
    """

    protocol: Protocol
    seed: int
    items: Mapping[str, Compared]
    sheets: Mapping[str, Sides]

    def pairs(self) -> list[tuple[str, str]]:
        """The compared pairs of systems, in their order."""
        return list(dict.fromkeys((item.first, item.second) for item in self.items.values()))

    def to_json(self) -> str:
        """The content of the key's file, which `read_key` reads."""
        # names of files may have bytes that are not text
        return readable(json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)) + "\n"


def read_key(path: str | os.PathLike) -> Key:
    """Read the key in the file `path`.

    Raises:
        ValueError: there is no such file, or it is not a key.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        key = Key(
            Protocol(**content["protocol"]),
            content["seed"],
            {id: Compared(**item) for id, item in content["items"].items()},
            {id: Sides(**sheet) for id, sheet in content["sheets"].items()},
        )
        if not _is_complete(key):
            raise ValueError("its sheets are not complete")
        return key
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a key of sheets ({one_line(error)}): name the one that was written with them"
        ) from error


def _is_complete(key: Key) -> bool:
    """Whether all values have their types, and each sheet has each item."""
    items, sheets = key.items, key.sheets.values()
    voters = {sides.voter for sides in sheets}
    return (
        isinstance(key.seed, int)
        and all(isinstance(text, str) for item in items.values() for text in vars(item).values())
        and all(isinstance(voter, str) for voter in voters)
        and len(voters) == len(sheets)
        and all(
            sides.on_a.keys() == items.keys()
            and all(on_a in (items[id].first, items[id].second) for id, on_a in sides.on_a.items())
            for sides in sheets
        )
    )


@dataclass(frozen=True)
class Item:
    """Two summaries of a document as a voter sees them: A, then B.

    Args:
        id: the same for all voters; reveals neither document nor systems.
        reference: a reference summary to show with the document, if there is one.
    """

    id: str
    document: str
    reference: str | None
    summaries: tuple[str, str]


@dataclass(frozen=True)
class Sheet:
    """The questions for one voter.

    Args:
        voter: name of the voter, such as "voter-1".
        aspects: name -> question.
        items: in an order drawn for the voter.
    """

    voter: str
    aspects: Mapping[str, str]
    items: Sequence[Item]

    @cached_property
    def id(self) -> str:
        """A name that differs between sheets of different content."""
        items = [(item.id, item.document, item.reference, item.summaries) for item in self.items]
        return _name("s", self.voter, dict(self.aspects), items)


def make_sheets(
    systems: Mapping[str, Sequence[str]],
    documents: Sequence[str],
    protocol: Protocol,
    references: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[list[Sheet], Key]:
    """A sheet for each voter, and the key to them.

    All voters get the same documents, each with every pair of systems. The sides are drawn for each voter and item, and
    the order of items for each voter. The same seed gives the same sheets, also if voters are added.

    Args:
        systems: name -> summaries, one per document; wins and losses are those of the first system in each pair.
        documents: (N,) texts; blank ones are never drawn.
        protocol: numbers of documents and voters, and the questions.
        references: (N,) texts to show with the documents; blank ones are not shown.
        labels: (N,), names of the documents in the key; by default their numbers, counted from 0.
        seed: random seed of documents, sides and orders.

    Raises:
        ValueError: fewer than two systems, texts without a counterpart, or too few documents that are not blank.
    """
    if len(systems) < 2:
        raise ValueError(f"`systems` has only {', '.join(map(repr, systems))}, but votes compare at least two")
    # lists, as rows of a Series would be looked up by its labels
    documents, systems = list(documents), {name: list(texts) for name, texts in systems.items()}
    labels = list(map(str, range(len(documents)) if labels is None else labels))
    references = [""] * len(documents) if references is None else list(references)
    for name, texts in {**systems, "references": references}.items():
        check_lengths(**{"documents": documents, name: texts})
    compared, contents = {}, {}
    for row in _draw(documents, protocol.documents, seed):
        for pair in itertools.combinations(systems, 2):
            id = _name("i", seed, row, pair)
            compared[id] = Compared(labels[row], *pair)
            texts = {name: systems[name][row] for name in pair}
            contents[id] = (documents[row], references[row] if references[row].strip() else None, texts)
    sheets, sides = [], {}
    for number in range(1, protocol.voters + 1):
        voter = f"voter-{number}"
        generator = random.Random(f"{seed} {voter}")
        on_a = {id: generator.choice((item.first, item.second)) for id, item in compared.items()}
        items = []
        for id, (document, reference, texts) in contents.items():
            b = next(name for name in texts if name != on_a[id])
            items.append(Item(id, document, reference, (texts[on_a[id]], texts[b])))
        generator.shuffle(items)
        sheets.append(Sheet(voter, protocol.aspects, items))
        sides[sheets[-1].id] = Sides(voter, on_a)
    return sheets, Key(protocol, seed, compared, sides)


def as_csv(sheet: Sheet) -> str:
    """The sheet as a table for spreadsheets, with an empty column for each aspect."""
    has_references = any(item.reference is not None for item in sheet.items)
    columns = [name for name in COLUMNS if name != "reference" or has_references]
    table = io.StringIO()
    # line ends of RFC 4180; with others, a lone carriage return in a text would not be quoted
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow([*columns, *sheet.aspects])
    for item in sheet.items:
        references = [item.reference or ""] if has_references else []
        texts = (item.document, *references, *item.summaries)
        texts = [spreadsheet_text(text) for text in texts]
        writer.writerow([sheet.id, item.id, *texts, *[""] * len(sheet.aspects)])
    # the byte-order mark by which spreadsheets recognize UTF-8
    return "\ufeff" + readable(table.getvalue())


def _draw(documents: Sequence[str], number: int, seed: int) -> list[int]:
    """The rows of `number` documents that are not blank."""
    rows = [row for row, text in enumerate(documents) if text.strip()]
    if len(rows) < number:
        raise ValueError(
            f"{number} documents are required, but only {len(rows)} are not blank: lower `documents`, or give more"
        )
    return random.Random(seed).sample(rows, number)


def _name(letter: str, *content: object) -> str:
    """A name computed from the content; the letter keeps spreadsheets from reading it as a number."""
    return letter + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def as_page(sheet: Sheet) -> str:
    """The sheet as a page of HTML, in which all texts are escaped. The browser stores the votes."""
    return readable(render_page("hf_summ.votes", sheet=sheet))


@dataclass(frozen=True)
class Votes:
    """The choices of all voters.

    Args:
        key: of their sheets.
        choices: (sheet, item) -> aspect -> "A", "B" or "tie"; without unanswered aspects.
    """

    key: Key
    choices: dict[tuple[str, str], dict[str, str]]

    def sheets(self) -> list[str]:
        """The sheets that have votes, in the key's order."""
        voted = {sheet for sheet, _ in self.choices}
        return [sheet for sheet in self.key.sheets if sheet in voted]

    def missing(self) -> dict[str, list[tuple[str, str]]]:
        """Voter -> item and aspect of each missing vote."""
        missing = {}
        for sheet, sides in self.key.sheets.items():
            missing[sides.voter] = [
                (item, aspect)
                for item in self.key.items
                for aspect in self.key.protocol.aspects
                if aspect not in self.choices.get((sheet, item), {})
            ]
        return {voter: votes for voter, votes in missing.items() if votes}

    def sides(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """(V, N) for sheets with votes and the items of a `pair`: 1 where the summary on side A won in the `aspect`.

        -1 where it lost, 0 for a tie, NaN for a missing vote.
        """
        items = self._items(pair)
        choices = [[self.choices.get((sheet, item), {}).get(aspect) for item in items] for sheet in self.sheets()]
        return np.array([[np.nan if choice is None else _VALUES[choice] for choice in row] for row in choices])

    def outcomes(self, pair: tuple[str, str], aspect: str) -> np.ndarray:
        """As `sides` of the `pair` and `aspect`, but for the pair's first system instead of side A."""
        of_sheets = [self.key.sheets[sheet].on_a for sheet in self.sheets()]
        signs = [[1.0 if on_a[item] == pair[0] else -1.0 for item in self._items(pair)] for on_a in of_sheets]
        return self.sides(pair, aspect) * np.array(signs)

    def _items(self, pair: tuple[str, str]) -> list[str]:
        return [id for id, item in self.key.items.items() if (item.first, item.second) == pair]


def read_votes(files: Iterable[str | os.PathLike], key: Key) -> Votes:
    """Read `files` that voters downloaded from their pages (.json), or tables that they filled in (.csv),
    also as results of Mechanical Turk, without rejected assignments.

    Raises:
        ValueError: a file that does not exist or has no rows of votes; votes on sheets or items that the key does not
            have, two votes of a voter on the same item, an unknown choice, or no votes. Messages name the file and row.
    """
    choices: dict[tuple[str, str], dict[str, str]] = {}
    read_at: dict[tuple[str, str], str] = {}
    for where, row in _rows(files, key):
        sheet, item = str(row["sheet"]).strip(), str(row["item"]).strip()
        if sheet not in key.sheets:
            raise ValueError(f"{where}: the sheet '{_short(sheet)}' is not in the key: name the key written with it")
        if item not in key.items:
            raise ValueError(f"{where}: the sheet has no item '{_short(item)}': leave the first columns as they are")
        answers = {aspect: _choice(row[aspect], aspect, where) for aspect in key.protocol.aspects}
        answered = {aspect: choice for aspect, choice in answers.items() if choice is not None}
        if not answered:
            continue
        if (sheet, item) in choices:
            raise ValueError(
                f"{where}: {key.sheets[sheet].voter} has voted on {item} before, in {read_at[sheet, item]}: leave out "
                "one of them"
            )
        choices[sheet, item], read_at[sheet, item] = answered, where
    if not choices:
        raise ValueError("there are no votes: all files are empty")
    return Votes(key, choices)


def missing_votes(votes: Votes) -> list[str]:
    """A line for each voter with missing votes, which names the first of them."""
    expected = len(votes.key.items) * len(votes.key.protocol.aspects)
    return [
        f"{voter} has not voted at all"
        if len(missing) == expected
        else f"{len(missing)} of {expected} votes of {voter} are missing: "
        + first_of([f"{item} ({aspect})" for item, aspect in missing])
        for voter, missing in votes.missing().items()
    ]


def _rows(files: Iterable[str | os.PathLike], key: Key) -> Iterator[tuple[str, dict[str, Any]]]:
    """The position and the values of each row that may have votes."""
    for file in files:
        path = Path(file)
        if path.suffix.lower() not in (".json", ".csv") or not path.is_file():
            raise ValueError(f"{path}: not a file of votes: name one downloaded from a page, or a filled-in .csv")
        try:
            rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{path}: cannot be read: {one_line(error)}") from error
        for number, values in enumerate(rows, 1):
            where = f"{path}, row {number}"
            row = {_OF_TURK.sub("", name): value for name, value in values.items()}
            for column in ("sheet", "item", *key.protocol.aspects):
                if column not in row:
                    raise ValueError(
                        f"{where}: no column '{column}'; the columns are {_short(', '.join(row)) or '(none)'}: "
                        "name votes of the key's sheets, and save tables with commas between columns"
                    )
            # spreadsheets may save empty rows at the end; Mechanical Turk's results keep work that was rejected
            if any(row.values()) and row.get("AssignmentStatus") != "Rejected":
                yield where, row


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    # a document may be longer than the default limit of 131,072 characters
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    for number, row in enumerate(rows, 1):
        # an unquoted comma would shift votes to other columns
        if None in row:
            raise ValueError(f"row {number} has more fields than the header")
    return rows


def _json_rows(path: Path) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of rows")
    return rows


def _short(text: str) -> str:
    return f"{one_line(text):.200}"


def _choice(value: Any, aspect: str, where: str) -> str | None:
    written = "" if value is None else str(value).strip()
    if written and written.lower() not in _AS_WRITTEN:
        raise ValueError(f"{where}: {unknown_choice(f'`{aspect}`', written, CHOICES)}")
    return _AS_WRITTEN.get(written.lower())
