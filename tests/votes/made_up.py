"""Votes that a test makes up."""

import json
from pathlib import Path

from hf_summ.votes import Key, Protocol, Sheet, make_sheets
from hf_summ.votes.collecting import Votes

PROTOCOL = Protocol(4, 3, {"relevance": "Which is more relevant?", "fluency": "Which reads better?"})
DOCUMENTS = [f"Document {number}." for number in range(6)]
SYSTEMS = {name: [f"Summary {number} by {who}." for number in range(6)] for name, who in (("one", 1), ("two", 2))}


def made_sheets(protocol: Protocol = PROTOCOL, systems=SYSTEMS, **settings) -> tuple[list[Sheet], Key]:
    return make_sheets(systems, DOCUMENTS, protocol, **settings)


def rows_of(sheet: Sheet, choose) -> list[dict]:
    """What a page writes, if `choose` gives the choice for an item and an aspect."""
    return [
        {"sheet": sheet.id, "item": item.id, **{aspect: choose(item, aspect) for aspect in sheet.aspects}}
        for item in sheet.items
    ]


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def votes_with(outcomes: dict[str, list[list[int | None]]], unit="percent", digits=1) -> Votes:
    """Votes of which (V, N) numbers say for each aspect who won: 1 for "one", -1 for "two", 0 for neither."""
    tables = list(outcomes.values())
    voters, documents = len(tables[0]), len(tables[0][0])
    protocol = Protocol(documents, voters, dict.fromkeys(outcomes, "Which?"), unit, digits)
    texts = [str(number) for number in range(documents)]
    sheets, key = make_sheets({"one": texts, "two": texts}, texts, protocol)
    choices = {}
    for voter, sheet in enumerate(sheets):
        for place, id in enumerate(key.items):
            first = "A" if key.sheets[sheet.id].on_a[id] == "one" else "B"
            as_choice = {1: first, -1: "AB".replace(first, ""), 0: "tie"}
            given = {aspect: table[voter][place] for aspect, table in outcomes.items()}
            answered = {aspect: as_choice[value] for aspect, value in given.items() if value is not None}
            if answered:
                choices[sheet.id, id] = answered
    return Votes(key, choices)
