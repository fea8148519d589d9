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
        for aspect in sheet.aspects:
            row[aspect] = choose(item, aspect)
        writer.writerow(row)
    return table.getvalue()


def prefer_one(item, aspect) -> str:
    """The choice of a voter for whom system "one" is better, and no system is more fluent."""
    if aspect == "fluency":
        return "tie"
    if item.summaries[0].endswith("2."):
        return "B"
    return "A"


def as_typed_by_hand(item, aspect) -> str:
    """The choice in lower case and between spaces, as a person may write it into a table."""
    return f" {prefer_one(item, aspect).lower()} "


def test_votes_for_sides_are_votes_for_systems(tmp_path):
    sheets, key = made_sheets()
    write(tmp_path / "1.json", rows_of(sheets[0], prefer_one))
    # Tables are read too, whatever a spreadsheet or a person makes of the choices.
    (tmp_path / "2.csv").write_text(filled(sheets[1], as_typed_by_hand), encoding="utf-8")
    write(tmp_path / "3.json", rows_of(sheets[2], lambda item, aspect: "A"))
    votes = read_votes([tmp_path / "2.csv", tmp_path / "1.json", tmp_path / "3.json"], key)
    assert missing_votes(votes) == []
    outcomes = votes.outcomes(("one", "two"), "relevance")
    assert outcomes[:2].tolist() == [[1] * 4] * 2
    system_on_a = key.sheets[sheets[2].id].on_a
    outcomes_of_choosing_a = []
    for item in key.items:
        if system_on_a[item] == "one":
            outcomes_of_choosing_a.append(1)
        else:
            outcomes_of_choosing_a.append(-1)
    assert outcomes[2].tolist() == outcomes_of_choosing_a
    assert votes.sides(("one", "two"), "relevance")[2].tolist() == [1] * 4
    assert not votes.outcomes(("one", "two"), "fluency")[:2].any()


def test_partial_sheets_count_and_say_what_is_missing(tmp_path):
    sheets, key = made_sheets()
    complete_file = write(tmp_path / "1.json", rows_of(sheets[0], prefer_one))
    rows = rows_of(sheets[1], prefer_one)
    rows[0]["fluency"] = None
    rows[2]["fluency"] = None
    rows[2]["relevance"] = ""
    partial_file = write(tmp_path / "2.json", rows)
    votes = read_votes([complete_file, partial_file], key)
    first_item, third_item = sheets[1].items[0].id, sheets[1].items[2].id
    missing = sorted([(first_item, "fluency"), (third_item, "relevance"), (third_item, "fluency")])
    assert sorted(votes.missing()["voter-2"]) == missing
    line, absent = missing_votes(votes)
    assert line.startswith("3 of 8 votes of voter-2 are missing: ")
    assert all(f"{item} ({aspect})" in line for item, aspect in missing)
    assert absent == "voter-3 has not voted at all"
    # Those who have not voted are no voters.
    relevance = votes.outcomes(("one", "two"), "relevance")
    assert relevance.shape == (2, 4)
    assert np.isnan(relevance).sum() == 1


def test_two_halves_of_a_sheet_are_one(tmp_path):
    sheets, key = made_sheets()
    rows = rows_of(sheets[0], prefer_one)
    empty = [row | {"relevance": None, "fluency": None} for row in rows]
    first = write(tmp_path / "first.json", rows[:2] + empty[2:])
    second = write(tmp_path / "second.json", empty[:2] + rows[2:])
    assert "voter-1" not in read_votes([first, second], key).missing()


def test_votes_of_several_pairs_are_kept_apart(tmp_path):
    systems = {}
    for name in ("one", "two", "three"):
        systems[name] = [f"{number} by {name}" for number in range(6)]
    sheets, key = made_sheets(systems=systems)

    def prefer_three(item, aspect):
        summary_a, summary_b = item.summaries
        if summary_a.endswith(" by three"):
            return "A"
        if summary_b.endswith(" by three"):
            return "B"
        return "tie"

    votes = read_votes([write(tmp_path / "1.json", rows_of(sheets[0], prefer_three))], key)
    assert votes.outcomes(("one", "two"), "fluency").tolist() == [[0] * 4]
    assert votes.outcomes(("one", "three"), "fluency").tolist() == [[-1] * 4]
    assert votes.outcomes(("two", "three"), "fluency").tolist() == [[-1] * 4]


@pytest.fixture
def asked(tmp_path):
    """The sheets, their key, and a function that reads a file of the given rows after that of another voter."""
    sheets, key = made_sheets()
    file_of_second_voter = write(tmp_path / "other.json", rows_of(sheets[1], prefer_one))

    def read(rows):
        return read_votes([file_of_second_voter, write(tmp_path / "votes.json", rows)], key)

    return sheets, key, read


def test_two_votes_of_a_voter_on_an_item_are_told(asked, tmp_path):
    sheets, key, read = asked
    rows = rows_of(sheets[0], prefer_one)
    item = sheets[0].items[1].id
    message = rf"votes.json, row 5: voter-1 has voted on {item} before, in .*votes.json, row 2"
    with pytest.raises(ValueError, match=message):
        read(rows + rows[1:2])
    files = [write(tmp_path / "a.json", rows), write(tmp_path / "b.json", rows)]
    with pytest.raises(ValueError, match=r"b.json, row 1: voter-1 has voted on .* before, in .*a.json, row 1: leave"):
        read_votes(files, key)


def test_empty_rows_of_a_spreadsheet_are_passed_over(asked):
    sheets, _, read = asked
    rows = rows_of(sheets[0], prefer_one)
    empty_row = dict.fromkeys(rows[0], "")
    assert read(rows + [empty_row]).choices == read(rows).choices


def test_tables_have_documents_of_any_length_and_as_many_fields_as_columns(asked, tmp_path):
    sheets, key, read = asked
    table = filled(sheets[0], prefer_one)
    document = sheets[0].items[0].document
    (tmp_path / "1.csv").write_text(table.replace(document, "long " * 30_000, 1), encoding="utf-8")
    assert read_votes([tmp_path / "1.csv"], key).sheets() == [sheets[0].id]
    (tmp_path / "1.csv").write_text(table.replace(document, "one, two", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"1.csv: cannot be read: row 1 has more fields than the header"):
        read_votes([tmp_path / "1.csv"], key)


# hltcoe/turkle#1, mitcho/turktools#18: Mechanical Turk's results have other column names, and include rejected work.
def test_results_of_mechanical_turk_are_votes(asked, tmp_path):
    sheets, key, read = asked
    rows = rows_of(sheets[0], prefer_one)
    results = []
    for row in rows:
        result = {"AssignmentStatus": "Approved", "Input.sheet": f"{row['sheet']} ", "Input.item": row["item"]}
        for aspect in key.protocol.aspects:
            result[f"Answer.{aspect}"] = row[aspect].replace("A", "Summary A")
        results.append(result)
    rejected = results[0] | {"AssignmentStatus": "Rejected", "Answer.relevance": "B"}
    assert read([rejected] + results).choices == read(rows).choices


def test_votes_of_other_sheets_are_told(asked):
    foreign_sheets, foreign_key = made_sheets(seed=1)
    sheets, key, read = asked
    foreign_rows = rows_of(foreign_sheets[0], prefer_one)
    message = rf"row 1: the sheet '{foreign_sheets[0].id}' is not in the key: give the key file written"
    with pytest.raises(ValueError, match=message):
        read(foreign_rows)
    row = rows_of(sheets[0], prefer_one)[0]
    row["item"] = foreign_rows[0]["item"]
    with pytest.raises(ValueError, match=rf"row 1: the sheet has no item '{row['item']}': leave the first columns"):
        read([row])
    row["item"] = "a\nb " + "x" * 3000
    with pytest.raises(ValueError, match=r"row 1: the sheet has no item 'a b x{196}': leave"):
        read([row])
    assert not key.sheets.keys() & foreign_key.sheets.keys()


# a choice, and how the message shows it (a regular expression)
CASES_OF_UNKNOWN_CHOICES = [("C", "C"), ("left", "left"), (1, "1"), (["A"], r"\['A'\]")]


@pytest.mark.parametrize(("choice", "shown"), CASES_OF_UNKNOWN_CHOICES)
def test_an_unknown_choice_is_told(asked, choice, shown):
    sheets, _, read = asked
    rows = rows_of(sheets[0], prefer_one)
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
    whole = json.dumps(rows_of(sheets[0], prefer_one), indent=1)
    (tmp_path / "cut.json").write_text(whole[:-20], encoding="utf-8")
    with pytest.raises(ValueError, match=r"cut.json: cannot be read: Unterminated string"):
        read_votes([tmp_path / "cut.json"], key)
