"""Votes that a test makes up."""

import json
from pathlib import Path

from hf_summ.votes import Key, Protocol, Sheet, make_sheets
from hf_summ.votes.collecting import Votes

PROTOCOL = Protocol(4, 3, {"relevance": "Which is more relevant?", "fluency": "Which reads better?"})
DOCUMENTS = [f"Document {number}." for number in range(6)]
SYSTEMS = {
    "one": [f"Summary {number} by 1." for number in range(6)],
    "two": [f"Summary {number} by 2." for number in range(6)],
}


def made_sheets(protocol: Protocol = PROTOCOL, systems=SYSTEMS, **settings) -> tuple[list[Sheet], Key]:
    return make_sheets(systems, DOCUMENTS, protocol, **settings)


def rows_of(sheet: Sheet, choose) -> list[dict]:
    """What a page writes, if `choose` gives the choice for an item and an aspect."""
    rows = []
    for item in sheet.items:
        row = {"sheet": sheet.id, "item": item.id}
        for aspect in sheet.aspects:
            row[aspect] = choose(item, aspect)
        rows.append(row)
    return rows


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
            if key.sheets[sheet.id].on_a[id] == "one":
                choice_of_outcome = {1: "A", -1: "B", 0: "tie"}
            else:
                choice_of_outcome = {1: "B", -1: "A", 0: "tie"}
            answers = {}
            for aspect, table in outcomes.items():
                outcome = table[voter][place]
                if outcome is not None:
                    answers[aspect] = choice_of_outcome[outcome]
            if answers:
                choices[sheet.id, id] = answers
    return Votes(key, choices)
