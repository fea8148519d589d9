"""Sheets and their key: the same for the same seed, blind, and readable as tables; protocols."""

import collections
import csv
import dataclasses
import io
import json
import re

import pytest

from hf_summ.votes import Protocol, as_csv, as_page, make_sheets, read_key
from tests.votes.made_up import DOCUMENTS, PROTOCOL, SYSTEMS, made_sheets


def test_every_voter_sees_the_same_documents_and_both_summaries():
    sheets, key = made_sheets(references=[f"Reference {number}." for number in range(6)])
    assert [sheet.voter for sheet in sheets] == ["voter-1", "voter-2", "voter-3"]
    drawn = {item.document for item in sheets[0].items}
    assert len(drawn) == 4
    assert drawn < set(DOCUMENTS)
    for sheet in sheets:
        assert {item.document for item in sheet.items} == drawn
        for item in sheet.items:
            row = DOCUMENTS.index(item.document)
            assert item.reference == f"Reference {row}."
            assert key.items[item.id].document == str(row)
            # the key has the names
            on_a = key.sheets[sheet.id].on_a[item.id]
            on_b = ({"one", "two"} - {on_a}).pop()
            assert item.summaries == (SYSTEMS[on_a][row], SYSTEMS[on_b][row])


def test_the_same_seed_gives_the_same_sheets():
    sheets, key = made_sheets(seed=3)
    again, key_again = made_sheets(seed=3)
    assert (sheets, key) == (again, key_again)
    assert [sheet.id for sheet in sheets] == [sheet.id for sheet in again]
    # a voter more changes nothing for the others
    more, _ = made_sheets(dataclasses.replace(PROTOCOL, voters=5), seed=3)
    assert [sheet.id for sheet in more][:3] == [sheet.id for sheet in sheets]
    others, _ = made_sheets(seed=4)
    assert not {sheet.id for sheet in sheets} & {sheet.id for sheet in others}


def test_sides_and_orders_are_drawn_for_each_voter():
    protocol = dataclasses.replace(PROTOCOL, documents=200, voters=4)
    texts = [f"{number}" for number in range(200)]
    sheets, key = make_sheets({"one": texts, "two": texts}, texts, protocol)
    on_a = [[sides.on_a[item] == "one" for item in key.items] for sides in key.sheets.values()]
    for voter, other in ((0, 1), (1, 2), (2, 3)):
        # binomial with 200 fair tosses: outside of these once in 100,000
        assert 70 < sum(on_a[voter]) < 130
        assert 70 < sum(a == b for a, b in zip(on_a[voter], on_a[other], strict=True)) < 130
    orders = [[item.id for item in sheet.items] for sheet in sheets]
    assert len({tuple(order) for order in orders}) == 4
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_sheets_do_not_tell_whose_summaries_they_are():
    systems = {"secret-gdlf": SYSTEMS["one"], "secret-baseline": SYSTEMS["two"]}
    sheets, key = made_sheets(systems=systems)
    for sheet in sheets:
        assert "secret" not in as_page(sheet) + as_csv(sheet)
    # nor do their names, which tables must not take for numbers
    assert all(re.fullmatch(r"i[0-9a-f]{12}", id) for id in key.items)


def test_of_several_systems_each_pair_is_compared():
    """If one system were in all comparisons, its summary would be the one that recurs."""
    systems = {**SYSTEMS, "three": [f"Summary {number} by 3." for number in range(6)]}
    sheets, key = made_sheets(systems=systems)
    assert key.pairs() == [("one", "two"), ("one", "three"), ("two", "three")]
    assert len(sheets[0].items) == 12
    seen = collections.Counter(text for item in sheets[0].items for text in item.summaries)
    assert set(seen.values()) == {2}


def test_blank_documents_are_not_drawn():
    documents = [" " if number in (1, 4) else text for number, text in enumerate(DOCUMENTS)]
    for seed in range(5):
        sheets, _ = make_sheets(SYSTEMS, documents, PROTOCOL, seed=seed)
        assert {item.document for item in sheets[0].items} == set(documents) - {" "}


def test_a_table_has_all_texts_and_room_for_votes():
    systems = {"one": ['=HYPERLINK("x")', "+1", "a,b\n“c”", "\ud800"], "two": ["-", "＠", "\t", "a\rb"]}
    documents = ["一", "two\r\nlines", "＝1", "four"]
    sheets, key = make_sheets(systems, documents, PROTOCOL)
    table = as_csv(sheets[0])
    assert table.startswith("\ufeffsheet,item,document,summary A,summary B,relevance,fluency\r\n")
    rows = list(csv.DictReader(io.StringIO(table.removeprefix("\ufeff"), newline="")))
    assert [row["item"] for row in rows] == [item.id for item in sheets[0].items]
    for row, item in zip(rows, sheets[0].items, strict=True):
        assert row["sheet"] == sheets[0].id
        assert (row["relevance"], row["fluency"]) == ("", "")
        for text, written in zip(
            (item.document, *item.summaries), (row["document"], row["summary A"], row["summary B"]), strict=True
        ):
            # no spreadsheet may compute what a text says
            assert not written.startswith(tuple("=+-@\t＝＋－＠"))
            assert written.removeprefix("'") == text.replace("\ud800", "\ufffd")
    with_references, _ = make_sheets(systems, documents, PROTOCOL, references=["r"] * 4)
    assert as_csv(with_references[0]).startswith("\ufeffsheet,item,document,reference,summary A,")
    blank, _ = make_sheets(systems, documents, PROTOCOL, references=["", " ", "\n", ""])
    assert as_csv(blank[0]) == table.replace(sheets[0].id, blank[0].id)


def test_a_key_is_read_as_it_was_written(tmp_path):
    _, key = made_sheets(labels=[f"ä, line {number}" for number in range(6)])
    (tmp_path / "key.json").write_text(key.to_json(), encoding="utf-8")
    assert read_key(tmp_path / "key.json") == key


@pytest.mark.parametrize(
    "change",
    [
        lambda told: "half a character: \ud800",
        lambda told: {**told, "protocol": {**told["protocol"], "documents": 0}},
        lambda told: {name: value for name, value in told.items() if name != "sheets"},
        lambda told: {**told, "protocol": {**told["protocol"], "digits": 1.5}},
        lambda told: {**told, "items": {id: {**item, "first": ["one"]} for id, item in told["items"].items()}},
        lambda told: {**told, "sheets": {id: {**sheet, "voter": []} for id, sheet in told["sheets"].items()}},
        lambda told: {**told, "sheets": {id: {**sheet, "voter": "one"} for id, sheet in told["sheets"].items()}},
        lambda told: {**told, "sheets": {id: {**sheet, "on_a": {}} for id, sheet in told["sheets"].items()}},
    ],
)
def test_what_is_no_key_is_told(tmp_path, change):
    _, key = made_sheets()
    (tmp_path / "key.json").write_text(key.to_json(), encoding="utf-8")
    told = json.loads((tmp_path / "key.json").read_text(encoding="utf-8"))
    (tmp_path / "key.json").write_text(json.dumps(change(told)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"key\.json is not a key of sheets \(.*\): name the one that was written"):
        read_key(tmp_path / "key.json")
    with pytest.raises(ValueError, match=r"none\.json is not a key of sheets"):
        read_key(tmp_path / "none.json")


SEVEN = dataclasses.replace(PROTOCOL, documents=7)


@pytest.mark.parametrize(
    ("systems", "settings", "message"),
    [
        ({"one": ["a"], "two": ["a"] * 6}, {}, "6 documents but 1 one: each needs its counterpart"),
        (SYSTEMS, {"references": ["a"]}, "6 documents but 1 references: each needs its counterpart"),
        (SYSTEMS, {"protocol": SEVEN}, "7 documents are required, but only 6 are not blank: lower `documents`, or"),
    ],
)
def test_bad_input_is_told(systems, settings, message):
    with pytest.raises(ValueError, match=message):
        made_sheets(systems=systems, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 3, {"fluency": "?"}), "`documents` is 0, but must be at least 1"),
        ((50, 0, {"fluency": "?"}), "`voters` is 0, but must be at least 1"),
        ((50, 3, {}), "`aspects` is empty, but must have a name and a question for each"),
        ((50, 3, {"fluency": ""}), "the aspect 'fluency' has the question '': give both"),
        (("50", 3, {"fluency": "?"}), "`documents` must be an integer, but is str: '50'"),
        ((50, 3, {"fluency": None}), "`aspects` must be a string, but is NoneType: None"),
        ((50, 3, {"fluency": "?"}, "votes"), "`unit` is 'votes', but must be one of documents, percent"),
        ((50, 3, {"fluency": "?"}, "percent", 10), "`digits` is 10, but must be at most 9"),
        ((50, 3, {"summary A": "?"}), "an aspect is named 'summary A', like another column of the sheets"),
    ],
)
def test_what_is_no_protocol_is_told(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Protocol(*settings)
