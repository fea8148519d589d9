"""Sheets and their key: the same for the same seed, blind, and readable as tables; protocols."""

import collections
import csv
import dataclasses
import io
import json
import re

import numpy as np
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
            # Only the key has the names.
            on_a = key.sheets[sheet.id].on_a[item.id]
            assert on_a in ("one", "two")
            on_b = "two" if on_a == "one" else "one"
            assert item.summaries == (SYSTEMS[on_a][row], SYSTEMS[on_b][row])


def test_the_same_seed_gives_the_same_sheets():
    sheets, key = made_sheets(seed=3)
    again, key_again = made_sheets(seed=3)
    assert (sheets, key) == (again, key_again)
    ids = [sheet.id for sheet in sheets]
    assert ids == [sheet.id for sheet in again]
    # More voters change nothing for the first three.
    sheets_of_five, _ = made_sheets(dataclasses.replace(PROTOCOL, voters=5), seed=3)
    assert [sheet.id for sheet in sheets_of_five][:3] == ids
    sheets_of_seed_4, _ = made_sheets(seed=4)
    assert not {sheet.id for sheet in sheets_of_seed_4} & set(ids)


def test_sides_and_orders_are_drawn_for_each_voter():
    protocol = dataclasses.replace(PROTOCOL, documents=200, voters=4)
    texts = [f"{number}" for number in range(200)]
    sheets, key = make_sheets({"one": texts, "two": texts}, texts, protocol)
    # (V, N), whether system "one" is on side A
    one_on_a = []
    for sides in key.sheets.values():
        one_on_a.append([sides.on_a[item] == "one" for item in key.items])
    one_on_a = np.array(one_on_a)
    for voter, next_voter in ((0, 1), (1, 2), (2, 3)):
        # Of 200 fair tosses, the number is outside of these bounds once in 100,000 times.
        assert 70 < one_on_a[voter].sum() < 130
        assert 70 < (one_on_a[voter] == one_on_a[next_voter]).sum() < 130
    orders = [tuple(item.id for item in sheet.items) for sheet in sheets]
    assert len(set(orders)) == 4
    for order in orders:
        assert sorted(order) == sorted(orders[0])


def test_sheets_do_not_tell_whose_summaries_they_are():
    systems = {"secret-gdlf": SYSTEMS["one"], "secret-baseline": SYSTEMS["two"]}
    sheets, key = made_sheets(systems=systems)
    for sheet in sheets:
        assert "secret" not in as_page(sheet) + as_csv(sheet)
    # The items' names do not tell it either, and begin with a letter, so that tables do not take them for numbers.
    for id in key.items:
        assert re.fullmatch(r"i[0-9a-f]{12}", id)


def test_of_several_systems_each_pair_is_compared():
    """If one system were in all comparisons, its summary would be the one that recurs."""
    systems = SYSTEMS | {"three": [f"Summary {number} by 3." for number in range(6)]}
    sheets, key = made_sheets(systems=systems)
    assert key.pairs() == [("one", "two"), ("one", "three"), ("two", "three")]
    assert len(sheets[0].items) == 12
    occurrences = collections.Counter()
    for item in sheets[0].items:
        occurrences.update(item.summaries)
    assert set(occurrences.values()) == {2}


def test_blank_documents_are_not_drawn():
    documents = list(DOCUMENTS)
    documents[1] = documents[4] = " "
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
        texts = (item.document, item.summaries[0], item.summaries[1])
        written_texts = (row["document"], row["summary A"], row["summary B"])
        for text, written in zip(texts, written_texts, strict=True):
            # No spreadsheet may compute what a text says.
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


def text_in_place_of_a_key(content: dict) -> str:
    return "half a character: \ud800"


def without_sheets(content: dict) -> dict:
    del content["sheets"]
    return content


def with_protocol(**settings):
    """A change of settings of a key's protocol."""

    def change(content: dict) -> dict:
        content["protocol"].update(settings)
        return content

    return change


def with_all(part: str, **entries):
    """A change of entries of all of a key's items, or of all of its sheets."""

    def change(content: dict) -> dict:
        for member in content[part].values():
            member.update(entries)
        return content

    return change


CHANGES_THAT_BREAK_A_KEY = [
    text_in_place_of_a_key,
    with_protocol(documents=0),
    without_sheets,
    with_protocol(digits=1.5),
    with_all("items", first=["one"]),
    with_all("sheets", voter=[]),
    with_all("sheets", voter="one"),
    with_all("sheets", on_a={}),
]


@pytest.mark.parametrize("change", CHANGES_THAT_BREAK_A_KEY)
def test_what_is_no_key_is_told(tmp_path, change):
    _, key = made_sheets()
    content = json.loads(key.to_json())
    (tmp_path / "key.json").write_text(json.dumps(change(content)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"key\.json is not a key file of sheets \(.*\): give the key file written"):
        read_key(tmp_path / "key.json")
    with pytest.raises(ValueError, match=r"none\.json is not a key file of sheets"):
        read_key(tmp_path / "none.json")


SEVEN = dataclasses.replace(PROTOCOL, documents=7)


CASES_OF_BAD_INPUT = [
    ({"one": ["a"], "two": ["a"] * 6}, {}, "6 documents but 1 one: each needs its counterpart"),
    (SYSTEMS, {"references": ["a"]}, "6 documents but 1 references: each needs its counterpart"),
    (SYSTEMS, {"labels": ["a"]}, "6 documents but 1 labels: each needs its counterpart"),
    (SYSTEMS, {"labels": ["a"] * 7}, "6 documents but 7 labels: each needs its counterpart"),
    # The key and the report know a document by its label.
    (SYSTEMS, {"labels": ["a", "p", "b", "p", "c", "d"]}, "`labels` has 'p' 2 times: name each document differently"),
    (SYSTEMS, {"protocol": SEVEN}, "7 documents are required, but only 6 are not blank: lower `documents`, or"),
]


@pytest.mark.parametrize(("systems", "settings", "message"), CASES_OF_BAD_INPUT)
def test_bad_input_is_told(systems, settings, message):
    with pytest.raises(ValueError, match=message):
        made_sheets(systems=systems, **settings)


CASES_OF_WRONG_PROTOCOLS = [
    ((0, 3, {"fluency": "?"}), "`documents` is 0, but must be at least 1"),
    ((50, 0, {"fluency": "?"}), "`voters` is 0, but must be at least 1"),
    ((50, 3, {}), "`aspects` is empty, but must have a name and a question for each"),
    ((50, 3, {"fluency": ""}), "the aspect 'fluency' has the question '': give both"),
    (("50", 3, {"fluency": "?"}), "`documents` must be an integer, but is str: '50'"),
    ((50, 3, {"fluency": None}), "`aspects` must be a string, but is NoneType: None"),
    ((50, 3, {"fluency": "?"}, "votes"), "`unit` is 'votes', but must be one of documents, percent"),
    ((50, 3, {"fluency": "?"}, "percent", 10), "`digits` is 10, but must be at most 9"),
    ((50, 3, {"summary A": "?"}), "an aspect is named 'summary A', like another column of the sheets"),
]


@pytest.mark.parametrize(("settings", "message"), CASES_OF_WRONG_PROTOCOLS)
def test_what_is_no_protocol_is_told(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Protocol(*settings)
