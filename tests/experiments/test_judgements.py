"""People's votes beside a paper's."""

import json

import pytest

from hf_summ.experiments.run import run_table
from hf_summ.votes import vote_report
from tests.experiments.made_up import strict_json, write_table
from tests.votes.made_up import votes_with

# a list for each voter, with an outcome for each document: 3 wins, 1 loss, 2 ties; and 2 wins, 4 losses
OUTCOMES = {"fluency": [[1, 1, 0], [1, -1, 0]], "relevance": [[1, -1, -1], [1, -1, -1]]}


def table_of_votes(folder, **changes):
    rows = [{"row": "relevance", "published": [24.5, 20, None]}, {"row": "fluency"}]
    entries = {"kind": "votes", "measures": ["win", "lose", "kappa"], "unit": "percent", "systems": ["GDLF", "DC"]}
    entries |= {"datasets": {"xsum": None}, "rows": rows}
    entries |= changes
    return write_table(folder, **entries)


def write_report(folder, systems=("out/gdlf.jsonl.gz", "DC.txt"), outcomes=OUTCOMES, **changes):
    """A report as `hf-summ votes collect --json` writes it; the first system is compared with each of the others."""
    report = vote_report(votes_with(outcomes), 10)
    (pair,) = report["pairs"]
    first, *seconds = systems
    report["pairs"] = [{**pair, "first": first, "second": second} for second in seconds]
    path = folder / "votes.json"
    path.write_text(json.dumps({"files": {}, **report, **changes}), encoding="utf-8")
    return str(path)


def values(block):
    """The values of each row, by their measures."""
    values_of_rows = {}
    for row in block["rows"]:
        values_of_rows[row["row"]] = {name: cell["value"] for name, cell in row["measures"].items()}
    return values_of_rows


# the unit of votes, and for each aspect the wins and losses in it
CASES_OF_UNITS = [
    ("percent", {"relevance": (100 / 3, 200 / 3), "fluency": (50, 100 / 6)}),
    # of two voters
    ("documents", {"relevance": (1, 2), "fluency": (1.5, 0.5)}),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("unit", "expected"), CASES_OF_UNITS)
def test_votes_stand_beside_the_published_ones(tmp_path, unit, expected):
    file = write_report(tmp_path)
    run_table(table_of_votes(tmp_path, unit=unit), "small", {"xsum": file}, [], str(tmp_path))
    (block,) = strict_json(tmp_path / "made_up_small.json")["datasets"]
    figures = json.loads((tmp_path / "votes.json").read_text(encoding="utf-8"))["pairs"][0]["aspects"]
    aspects = values(block)
    assert aspects.keys() == expected.keys()
    for aspect, (win, lose) in expected.items():
        kappa = figures[aspect]["kappa"]
        assert aspects[aspect] == {"win": pytest.approx(win), "lose": pytest.approx(lose), "kappa": kappa}
    text = (tmp_path / "made_up_small.md").read_text(encoding="utf-8")
    notes = {"percent": "; votes in percent.", "documents": "; documents per voter."}
    assert notes[unit] in text
    assert f"Ours: {file}, 3 test documents, 2 voters. Published: xsum. Our figures can be compared with each" in text
    assert "| published win | published lose | published kappa |" in text


@pytest.mark.thorough
def test_either_system_may_be_the_first(tmp_path):
    table = table_of_votes(tmp_path)
    (block,) = run_table(table, "small", {"xsum": write_report(tmp_path)}, [], str(tmp_path))["datasets"]
    file = write_report(tmp_path, ("dc", "third", "GDLF"))
    (reversed_block,) = run_table(table, "small", {"xsum": file}, [], str(tmp_path))["datasets"]
    expected = {}
    for aspect, cells in values(block).items():
        expected[aspect] = {**cells, "win": cells["lose"], "lose": cells["win"]}
    assert values(reversed_block) == expected


def test_aspect_without_votes_is_empty(tmp_path):
    file = write_report(tmp_path, outcomes={**OUTCOMES, "fluency": [[None] * 3] * 2})
    (block,) = run_table(table_of_votes(tmp_path), "small", {"xsum": file}, [], str(tmp_path))["datasets"]
    assert values(block)["fluency"] == {"win": None, "lose": None, "kappa": None}


def test_table_without_votes_says_what_it_needs(tmp_path):
    (block,) = run_table(table_of_votes(tmp_path), "tiny", {}, [], str(tmp_path))["datasets"]
    expected = "no votes: give --data xsum=REPORT.json of `hf-summ votes collect`"
    assert [row["problem"] for row in block["rows"]] == [expected] * 2


CASES_OF_WRONG_REPORTS = [
    (
        {"systems": ("GDLF.txt", "theirs.txt")},
        "compares GDLF with theirs, but made_up compares GDLF with DC: give the files",
    ),
    # two systems are DC, in two folders
    ({"systems": ("GDLF", "a/DC", "b/DC")}, "compares GDLF with DC, GDLF with DC, but made_up compares GDLF with DC"),
    (
        {"outcomes": {"relevance": [[1]], "clarity": [[1]]}},
        "has votes on relevance, clarity, but made_up has rows for relevance, fluency: make the sheets with the",
    ),
    ({"pairs": [{"first": "GDLF", "second": "DC"}]}, "is not a report of votes \\(.*\\): name one written by"),
    ({"voters": "two"}, "is not a report of votes"),
]


@pytest.mark.parametrize(("changes", "message"), CASES_OF_WRONG_REPORTS)
def test_votes_that_are_not_the_tables_are_told(tmp_path, changes, message):
    file = write_report(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        run_table(table_of_votes(tmp_path, unit="documents"), "small", {"xsum": file}, [], str(tmp_path))
    assert str(error.value).startswith(file)


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", b"sheet,item"])
def test_file_that_is_no_report_is_told(tmp_path, content):
    (tmp_path / "votes.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"votes\.csv is not a report of votes"):
        run_table(table_of_votes(tmp_path), "small", {"xsum": str(tmp_path / "votes.csv")}, [], str(tmp_path))
