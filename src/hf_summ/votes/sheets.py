"""Sheets for blind votes between systems' summaries: protocols, pages and tables, and the key to them."""

import csv
import dataclasses
import io
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from hf_summ.common.hashes import hash_of_values
from hf_summ.common.messages import check_choice, one_line
from hf_summ.common.pages import render_page
from hf_summ.common.records import spreadsheet_text
from hf_summ.evaluation.words import check_lengths
from hf_summ.models.checks import check_integer, check_text
from hf_summ.models.text_documents import readable

# The largest number of decimal places that a protocol may ask for.
_MOST_DIGITS = 9
# The columns of a sheet besides its aspects.
COLUMNS = ("sheet", "item", "document", "reference", "summary A", "summary B")


@dataclass(frozen=True)
class Protocol:
    """A blind comparison of two summaries: for each aspect, voters choose one of them, or a tie.

    Args:
        documents: number of documents to draw from a corpus.
        voters: number of people who vote on each document.
        aspects: name -> the question that voters answer.
        unit: the unit in which wins, losses and ties are printed: "percent" of the votes, or the number of "documents"
            per voter.
        digits: number of printed decimal places.

    Raises:
        TypeError: a number or a question has another type.
        ValueError: there are no documents, voters or aspects; an aspect has no name or question, or is named like a
            column; the unit is unknown; or there are more than 9 digits.
    """

    documents: int
    voters: int
    aspects: Mapping[str, str]
    unit: Literal["documents", "percent"] = "percent"
    digits: int = 1

    def __post_init__(self):
        check_integer("documents", self.documents, 1)
        check_integer("voters", self.voters, 1)
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
    # The protocol of Kwon et al. 2021, section 5 and Table 3.
    "gdlf": Protocol(
        # The paper states "the same 50 documents", "voted on by three different participants".
        documents=50,
        voters=3,
        # The paper states "choose the more relevant summary", which "better represents the source text".
        aspects={"relevance": "Which summary is more relevant, that is, better represents the document?"},
        # The paper's wins, losses and ties, 25.7, 20.7 and 3.6, add up to 50, the number of documents.
        unit="documents",
    ),
    # The protocol of Liu et al. 2021, section 4.4 and Table 3.
    "highlight_transformer": Protocol(
        # The paper states "50 samples from the test set" and "four annotators".
        documents=50,
        voters=4,
        # The paper states the aspects with these definitions.
        aspects={
            "informativeness": "Which summary covers more of the information of the document?",
            "fluency": "Which summary is better organized and grammatically more correct?",
            "non-redundancy": "Which summary repeats less information?",
        },
    ),
    # The protocol of Xu et al. 2020, section 5.3 and Table 4.
    "sagcopy": Protocol(
        # The paper states 100 documents of Gigaword's test set.
        documents=100,
        # The paper does not state the number of voters. Three is chosen: all percentages of the paper fit 300 votes.
        voters=3,
        # The paper states the aspects. The questions are chosen, as it defines neither aspect.
        aspects={
            "importance": "Which summary has more of what is important in the document?",
            "readability": "Which summary is easier to read?",
        },
        digits=2,
    ),
}


@dataclass(frozen=True)
class Compared:
    """What the key says of an item: the label of its document, and the two systems whose summaries are compared."""

    document: str
    first: str
    second: str


@dataclass(frozen=True)
class Sides:
    """What the key says of a sheet: its voter, and for each item the system whose summary is on side A."""

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
        pairs = []
        for item in self.items.values():
            pair = (item.first, item.second)
            if pair not in pairs:
                pairs.append(pair)
        return pairs

    def to_json(self) -> str:
        """The content of the key's file, which `read_key` reads."""
        # Names of files may have bytes that are not text.
        content = json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)
        return readable(content) + "\n"


def read_key(path: str | os.PathLike) -> Key:
    """Read the key in the file `path`.

    Raises:
        ValueError: there is no such file, or it is not a key.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        protocol = Protocol(**content["protocol"])
        items = {id: Compared(**fields) for id, fields in content["items"].items()}
        sheets = {id: Sides(**fields) for id, fields in content["sheets"].items()}
        key = Key(protocol, content["seed"], items, sheets)
        if not _is_valid(key):
            raise ValueError("its sheets are not complete")
        return key
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a key file of sheets ({one_line(error)}): give the key file written with the sheets"
        ) from error


def _is_valid(key: Key) -> bool:
    """Whether all values have their types, each voter has a single sheet, and each sheet has each item."""
    if not isinstance(key.seed, int):
        return False
    for item in key.items.values():
        for text in (item.document, item.first, item.second):
            if not isinstance(text, str):
                return False
    voters = {sides.voter for sides in key.sheets.values()}
    if len(voters) != len(key.sheets):
        return False
    for sides in key.sheets.values():
        if not isinstance(sides.voter, str) or sides.on_a.keys() != key.items.keys():
            return False
        for id, system in sides.on_a.items():
            if system not in (key.items[id].first, key.items[id].second):
                return False
    return True


@dataclass(frozen=True)
class Item:
    """Two summaries of a document as a voter sees them: A, then B.

    Args:
        id: the name of the item, which is the same for all voters. It reveals neither the document nor the systems.
        document: the text of the document.
        reference: a reference summary to show with the document, if there is one.
        summaries: the summary on side A, and the summary on side B.
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
        items: the items, in a random order that is drawn for the voter.
    """

    voter: str
    aspects: Mapping[str, str]
    items: Sequence[Item]

    @cached_property
    def id(self) -> str:
        """A name that differs between sheets of different content."""
        items = [(item.id, item.document, item.reference, item.summaries) for item in self.items]
        return _hashed_name("s", self.voter, dict(self.aspects), items)


def make_sheets(
    systems: Mapping[str, Sequence[str]],
    documents: Sequence[str],
    protocol: Protocol,
    references: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[list[Sheet], Key]:
    """A sheet for each voter, and the key that says which system is on which side.

    All voters get the same documents, each with every pair of systems. The sides are drawn for each voter and item, and
    the order of items for each voter. The same seed gives the same sheets, also if voters are added.

    Args:
        systems: name -> summaries, one per document. In reports, wins and losses are those of the system that comes
            first here in each pair.
        documents: (N,), the texts of documents. Blank texts are never drawn.
        protocol: numbers of documents and voters, and the questions.
        references: (N,), texts to show with the documents. Blank texts are not shown.
        labels: (N,), names of the documents in the key, all different; by default their numbers, counted from 0.
        seed: random seed of documents, sides and orders.

    Raises:
        ValueError: there are fewer than two systems, the numbers of texts or labels differ, two documents have the same
            label, or too few documents are not blank.
    """
    if len(systems) < 2:
        names = ", ".join([repr(name) for name in systems])
        raise ValueError(f"`systems` has only {names}, but votes compare at least two")
    # The texts become lists, as rows of a Series would be looked up by its labels.
    documents = list(documents)
    summaries = {name: list(texts) for name, texts in systems.items()}
    row_labels = [str(row) for row in range(len(documents))]
    if labels is not None:
        row_labels = [str(label) for label in labels]
    references = [""] * len(documents) if references is None else list(references)
    for name, texts in summaries.items():
        check_lengths(**{"documents": documents, name: texts})
    check_lengths(documents=documents, references=references)
    check_lengths(documents=documents, labels=row_labels)
    for label, count in Counter(row_labels).items():
        if count > 1:
            raise ValueError(f"`labels` has {label!r:.80} {count} times: name each document differently")
    drawn_items = []
    for row in _draw_rows(documents, protocol.documents, seed):
        reference = references[row] if references[row].strip() else None
        for first, second in itertools.combinations(summaries, 2):
            item = _DrawnItem(
                id=_hashed_name("i", seed, row, (first, second)),
                compared=Compared(row_labels[row], first, second),
                document=documents[row],
                reference=reference,
                summaries={first: summaries[first][row], second: summaries[second][row]},
            )
            drawn_items.append(item)
    sheets = []
    sides_of_sheets = {}
    for voter in range(1, protocol.voters + 1):
        sheet, sides = _draw_sheet(f"voter-{voter}", drawn_items, protocol.aspects, seed)
        sheets.append(sheet)
        sides_of_sheets[sheet.id] = sides
    compared_of_items = {item.id: item.compared for item in drawn_items}
    return sheets, Key(protocol, seed, compared_of_items, sides_of_sheets)


@dataclass(frozen=True)
class _DrawnItem:
    """An item before its sides are drawn.

    Attributes:
        id, document, reference: as in `Item`.
        compared: the item's document and systems, for the key.
        summaries: name of each of the two systems -> the system's summary.
    """

    id: str
    compared: Compared
    document: str
    reference: str | None
    summaries: Mapping[str, str]


def _draw_sheet(
    voter: str, drawn_items: Sequence[_DrawnItem], aspects: Mapping[str, str], seed: int
) -> tuple[Sheet, Sides]:
    """Draw the sides and the order of a voter's items.

    Args:
        voter: the name of the voter.
        drawn_items: the items of all voters.
        aspects: name -> question.
        seed: random seed, with which the voter's name decides the draws.

    Returns:
        The sheet for the voter, and its sides for the key.
    """
    generator = random.Random(f"{seed} {voter}")
    items = []
    on_a = {}
    for drawn in drawn_items:
        first, second = drawn.compared.first, drawn.compared.second
        system_a = generator.choice((first, second))
        system_b = second if system_a == first else first
        summaries = (drawn.summaries[system_a], drawn.summaries[system_b])
        items.append(Item(drawn.id, drawn.document, drawn.reference, summaries))
        on_a[drawn.id] = system_a
    generator.shuffle(items)
    return Sheet(voter, aspects, items), Sides(voter, on_a)


def as_csv(sheet: Sheet) -> str:
    """The sheet as a table for spreadsheets, with an empty column for each aspect."""
    has_references = any(item.reference is not None for item in sheet.items)
    columns = list(COLUMNS)
    if not has_references:
        columns.remove("reference")
    table = io.StringIO()
    # These are the line ends of RFC 4180. With other line ends, a lone carriage return in a text would not be quoted.
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow(columns + list(sheet.aspects))
    for item in sheet.items:
        texts = [item.document]
        if has_references:
            texts.append(item.reference or "")
        texts.extend(item.summaries)
        cells = [sheet.id, item.id]
        for text in texts:
            cells.append(spreadsheet_text(text))
        # Voters write their votes into these empty cells.
        cells.extend([""] * len(sheet.aspects))
        writer.writerow(cells)
    # Spreadsheets recognize UTF-8 by the byte-order mark.
    return "\ufeff" + readable(table.getvalue())


def _draw_rows(documents: Sequence[str], count: int, seed: int) -> list[int]:
    """Draw the rows of `count` documents that are not blank.

    Raises:
        ValueError: fewer documents are not blank.
    """
    rows = [row for row, text in enumerate(documents) if text.strip()]
    if len(rows) < count:
        raise ValueError(
            f"{count} documents are required, but only {len(rows)} are not blank: lower `documents`, or give more"
        )
    return random.Random(seed).sample(rows, count)


def _hashed_name(letter: str, *content: object) -> str:
    """A name that is computed from the content. The letter keeps spreadsheets from reading the name as a number."""
    # Voters see the questions in the order of the dictionary, so the order is a part of the content.
    return letter + hash_of_values(content, sort_keys=False)[:12]


def as_page(sheet: Sheet) -> str:
    """The sheet as a page of HTML, in which all texts are escaped. The browser stores the votes."""
    return readable(render_page("hf_summ.votes", sheet=sheet))
