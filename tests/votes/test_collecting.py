"""Votes as voters send them, and all that can be wrong with them."""

import csv
import io
import json

import numpy as np
import pytest

from hf_summ.votes import as_csv, read_votes
from hf_summ.votes.collecting import missing_votes
from tests.votes.made_up import made_sheets, rows_of, write


def filled(sheet, choose) -> str:
    """The sheet's table with choices in it."""
    rows = list(csv.DictReader(io.StringIO(as_csv(sheet).removeprefix("\ufeff"))))
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]))
    writer.writeheader()
    for row, item in zip(rows, sheet.items, strict=True):
        writer.writerow({**row, **{aspect: choose(item, aspect) for aspect in sheet.aspects}})
    return table.getvalue()


def for_one(item, aspect) -> str:
    """System "one" is better, and no system is more fluent."""
    return "tie" if aspect == "fluency" else "AB"[item.summaries[0].endswith("2.")]


def test_votes_for_sides_are_votes_for_systems(tmp_path):
    sheets, key = made_sheets()
    write(tmp_path / "1.json", rows_of(sheets[0], for_one))
    # tables are read too, whatever a spreadsheet or a person makes of the choices
    (tmp_path / "2.csv").write_text(filled(sheets[1], lambda *asked: f" {for_one(*asked).lower()} "), encoding="utf-8")
    write(tmp_path / "3.json", rows_of(sheets[2], lambda item, aspect: "A"))
    votes = read_votes([tmp_path / "2.csv", tmp_path / "1.json", tmp_path / "3.json"], key)
    assert missing_votes(votes) == []
    outcomes = votes.outcomes(("one", "two"), "relevance")
    assert outcomes[:2].tolist() == [[1] * 4] * 2
    third = key.sheets[sheets[2].id].on_a
    assert outcomes[2].tolist() == [1 if third[item] == "one" else -1 for item in key.items]
    assert votes.sides(("one", "two"), "relevance")[2].tolist() == [1] * 4
    assert not votes.outcomes(("one", "two"), "fluency")[:2].any()


def test_partial_sheets_count_and_say_what_is_missing(tmp_path):
    sheets, key = made_sheets()
    rows = rows_of(sheets[1], for_one)
    rows[0]["fluency"] = None
    rows[2] |= {"fluency": None, "relevance": ""}
    votes = read_votes([write(tmp_path / "1.json", rows_of(sheets[0], for_one)), write(tmp_path / "2.json", rows)], key)
    one, two = sheets[1].items[0].id, sheets[1].items[2].id
    missing = sorted([(one, "fluency"), (two, "relevance"), (two, "fluency")])
    assert sorted(votes.missing()["voter-2"]) == missing
    line, absent = missing_votes(votes)
    assert line.startswith("3 of 8 votes of voter-2 are missing: ")
    assert all(f"{item} ({aspect})" in line for item, aspect in missing)
    assert absent == "voter-3 has not voted at all"
    # those who have not voted are no voters
    relevance = votes.outcomes(("one", "two"), "relevance")
    assert relevance.shape == (2, 4)
    assert np.isnan(relevance).sum() == 1


def test_two_halves_of_a_sheet_are_one(tmp_path):
    sheets, key = made_sheets()
    rows = rows_of(sheets[0], for_one)
    empty = [{**row, "relevance": None, "fluency": None} for row in rows]
    first = write(tmp_path / "first.json", [*rows[:2], *empty[2:]])
    second = write(tmp_path / "second.json", [*empty[:2], *rows[2:]])
    assert "voter-1" not in read_votes([first, second], key).missing()


def test_votes_of_several_pairs_are_kept_apart(tmp_path):
    systems = {name: [f"{number} by {name}" for number in range(6)] for name in ("one", "two", "three")}
    sheets, key = made_sheets(systems=systems)

    def for_three(item, aspect):
        a, b = (text.partition(" by ")[2] for text in item.summaries)
        return "A" if a == "three" else "B" if b == "three" else "tie"

    votes = read_votes([write(tmp_path / "1.json", rows_of(sheets[0], for_three))], key)
    assert votes.outcomes(("one", "two"), "fluency").tolist() == [[0] * 4]
    assert votes.outcomes(("one", "three"), "fluency").tolist() == [[-1] * 4]
    assert votes.outcomes(("two", "three"), "fluency").tolist() == [[-1] * 4]


@pytest.fixture
def asked(tmp_path):
    """The sheets and key of a test, and a function that reads a file of these rows after one of another voter."""
    sheets, key = made_sheets()
    others = write(tmp_path / "other.json", rows_of(sheets[1], for_one))

    def read(rows):
        return read_votes([others, write(tmp_path / "votes.json", rows)], key)

    return sheets, key, read


def test_two_votes_of_a_voter_on_an_item_are_told(asked, tmp_path):
    sheets, key, read = asked
    rows = rows_of(sheets[0], for_one)
    item = sheets[0].items[1].id
    with pytest.raises(
        ValueError, match=rf"votes.json, row 5: voter-1 has voted on {item} before, in .*votes.json, row 2"
    ):
        read([*rows, rows[1]])
    files = [write(tmp_path / name, rows) for name in ("a.json", "b.json")]
    with pytest.raises(ValueError, match=r"b.json, row 1: voter-1 has voted on .* before, in .*a.json, row 1: leave"):
        read_votes(files, key)


def test_empty_rows_of_a_spreadsheet_are_passed_over(asked):
    sheets, _, read = asked
    rows = rows_of(sheets[0], for_one)
    assert read([*rows, dict.fromkeys(rows[0], "")]).choices == read(rows).choices


def test_tables_have_documents_of_any_length_and_as_many_fields_as_columns(asked, tmp_path):
    sheets, key, read = asked
    table = filled(sheets[0], for_one)
    document = sheets[0].items[0].document
    (tmp_path / "1.csv").write_text(table.replace(document, "long " * 30_000, 1), encoding="utf-8")
    assert read_votes([tmp_path / "1.csv"], key).sheets() == [sheets[0].id]
    (tmp_path / "1.csv").write_text(table.replace(document, "one, two", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"1.csv: cannot be read: row 1 has more fields than the header"):
        read_votes([tmp_path / "1.csv"], key)


# hltcoe/turkle#1, mitcho/turktools#18: its results have names of their own, and the work that was rejected
def test_results_of_mechanical_turk_are_votes(asked, tmp_path):
    sheets, key, read = asked
    rows = rows_of(sheets[0], for_one)
    results = [
        {
            **{"AssignmentStatus": "Approved", "Input.sheet": f"{row['sheet']} ", "Input.item": row["item"]},
            **{f"Answer.{aspect}": row[aspect].replace("A", "Summary A") for aspect in key.protocol.aspects},
        }
        for row in rows
    ]
    rejected = {**results[0], "AssignmentStatus": "Rejected", "Answer.relevance": "B"}
    assert read([rejected, *results]).choices == read(rows).choices


def test_votes_of_other_sheets_are_told(asked):
    others, other_key = made_sheets(seed=1)
    _, key, read = asked
    rows = rows_of(others[0], for_one)
    with pytest.raises(ValueError, match=rf"row 1: the sheet '{others[0].id}' is not in the key: name the key written"):
        read(rows)
    unknown = [{**rows_of(asked[0][0], for_one)[0], "item": rows[0]["item"]}]
    with pytest.raises(ValueError, match=rf"row 1: the sheet has no item '{rows[0]['item']}': leave the first columns"):
        read(unknown)
    with pytest.raises(ValueError, match=r"row 1: the sheet has no item 'a b x{196}': leave"):
        read([{**unknown[0], "item": "a\nb " + "x" * 3000}])
    assert not key.sheets.keys() & other_key.sheets.keys()


@pytest.mark.parametrize(("choice", "shown"), [("C", "C"), ("left", "left"), (1, "1"), (["A"], r"\['A'\]")])
def test_an_unknown_choice_is_told(asked, choice, shown):
    sheets, _, read = asked
    rows = rows_of(sheets[0], for_one)
    rows[3]["fluency"] = choice
    with pytest.raises(ValueError, match=rf"votes.json, row 4: `fluency` is '{shown}', but must be one of A, B, tie"):
        read(rows)


def test_files_that_are_no_votes_are_told(asked, tmp_path):
    sheets, key, read = asked
    with pytest.raises(ValueError, match="no column 'fluency'; the columns are sheet, item, relevance: name votes of"):
        read([{"sheet": sheets[0].id, "item": "i", "relevance": "A"}])
    (tmp_path / "votes.csv").write_text("sheet:item:relevance:fluency\ns:i:A:B\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no column 'sheet'; the columns are sheet:item:.*, and save tables with"):
        read_votes([tmp_path / "votes.csv"], key)
    (tmp_path / "votes.html").touch()
    for name in ("none.json", "votes.html"):
        with pytest.raises(ValueError, match=rf"{name}: not a file of votes: name one downloaded from a page"):
            read_votes([tmp_path / name], key)
    empty = write(tmp_path / "empty.json", rows_of(sheets[0], lambda item, aspect: None))
    with pytest.raises(ValueError, match="there are no votes: all files are empty"):
        read_votes([empty], key)
    whole = json.dumps(rows_of(sheets[0], for_one), indent=1)
    (tmp_path / "cut.json").write_text(whole[:-20], encoding="utf-8")
    with pytest.raises(ValueError, match=r"cut.json: cannot be read: Unterminated string"):
        read_votes([tmp_path / "cut.json"], key)
