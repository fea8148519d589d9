"""Sheets on which people vote blindly between systems' summaries, and the key that tells which was whose."""

import csv
import hashlib
import io
import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hf_summ.models.text_cleaning import readable
from hf_summ.votes.key import Compared, Key, Sides
from hf_summ.votes.protocols import COLUMNS, Protocol

# texts that begin with these are formulas to a spreadsheet
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Item:
    """Two summaries of a document as a voter sees them: A, then B.

    Args:
        id: the same for all voters; reveals neither document nor systems.
        reference: a reference summary to read beside the document, if there is one.
    """

    id: str
    document: str
    reference: str | None
    summaries: tuple[str, str]


@dataclass(frozen=True)
class Sheet:
    """What one voter is asked.

    Args:
        voter: name of the voter, such as "voter-1".
        aspects: name -> question.
        items: in the voter's own order.
    """

    voter: str
    aspects: Mapping[str, str]
    items: Sequence[Item]

    @cached_property
    def id(self) -> str:
        """A name that no sheet with other content has."""
        items = [(item.id, item.document, item.reference, item.summaries) for item in self.items]
        return _name("s", self.voter, dict(self.aspects), items)


def make_sheets(
    systems: Mapping[str, Sequence[str]],
    documents: Sequence[str],
    protocol: Protocol,
    references: Sequence[str] | None = None,
    places: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[list[Sheet], Key]:
    """A sheet for each voter, and the key to them.

    All voters get the same documents, each with every pair of systems; which summary is on which side is drawn for each
    voter and item, and so is the order. The same seed gives the same sheets, also if more voters are added.

    Args:
        systems: name -> summaries, one per document; in each pair, the first named wins or loses.
        documents: (N,) texts; blank ones are never drawn.
        protocol: how many documents and voters, and what is asked.
        references: (N,) texts to show beside the documents; of blank ones nothing is shown.
        places: (N,), what the key calls the documents; by default their numbers, counted from 0.
        seed: random seed of documents, sides and orders.

    Raises:
        ValueError: fewer than two systems, texts without a counterpart, or fewer documents than are to be drawn.
    """
    if len(systems) < 2:
        named = f"only '{next(iter(systems))}'" if systems else "none"
        raise ValueError(f"`systems` has {named}, but votes compare at least two")
    for name, texts in {**systems, "`references`": documents if references is None else references}.items():
        if len(texts) != len(documents):
            raise ValueError(f"{len(documents)} documents but {len(texts)} of {name}: each needs its counterpart")
    places = list(map(str, range(len(documents)))) if places is None else places
    references = [""] * len(documents) if references is None else references
    compared, shown = {}, {}
    for row in _draw(documents, protocol.documents, seed):
        for pair in itertools.combinations(systems, 2):
            id = _name("i", seed, row, pair)
            compared[id] = Compared(places[row], *pair)
            texts = {name: systems[name][row] for name in pair}
            shown[id] = (documents[row], references[row] if references[row].strip() else None, texts)
    sheets, sides = [], {}
    for number in range(1, protocol.voters + 1):
        voter = f"voter-{number}"
        generator = random.Random(f"{seed} {voter}")
        on_a = {id: generator.choice((item.first, item.second)) for id, item in compared.items()}
        items = []
        for id, (document, reference, texts) in shown.items():
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
    # as RFC 4180 has them; of other line ends, a lone carriage return in a text would not be quoted
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow([*columns, *sheet.aspects])
    for item in sheet.items:
        references = [item.reference or ""] if has_references else []
        texts = [_not_a_formula(text) for text in (item.document, *references, *item.summaries)]
        writer.writerow([sheet.id, item.id, *texts, *[""] * len(sheet.aspects)])
    # the mark by which spreadsheets know UTF-8
    return "\ufeff" + readable(table.getvalue())


def _draw(documents: Sequence[str], number: int, seed: int) -> list[int]:
    """The rows of `number` documents that are not blank."""
    rows = [row for row, text in enumerate(documents) if text.strip()]
    if len(rows) < number:
        raise ValueError(
            f"{number} documents are to be drawn, but only {len(rows)} are not blank: lower `documents`, or give more"
        )
    return random.Random(seed).sample(rows, number)


def _name(kind: str, *content: object) -> str:
    """A name from the content that is the same everywhere; with its letter, no spreadsheet takes it for a number."""
    return kind + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _not_a_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULAS) else text
