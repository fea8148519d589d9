"""What the trainings of a table took, and where their losses still fell."""

import pytest
from PIL import Image

from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import block_of_scores, make_report, markdown, markdown_of_trainings
from hf_summ.experiments.scoring import Outcome
from tests.experiments.made_up import equal_scores, table

# of 20 entries, of which two are a tenth
CURVE = [[50 * place, loss] for place, loss in enumerate([5.0] * 16 + [4.5, 4.3, 4.1, 3.9], start=1)]
ROW = {"row": "DC", "updates": 1000, "documents_per_second": 12.34, "curve": CURVE, "tokens": 3_000_000, "seconds": 800}


def last_cells(*rows):
    lines = markdown_of_trainings(rows)[-1].splitlines()
    return [cell.strip() for cell in lines[-1].strip("|").split("|")]


def test_speeds_and_losses_are_shown():
    assert last_cells(ROW) == ["DC", "3,750", "12.3", "4.000", "+0.400"]
    text = "\n".join(markdown_of_trainings([{"row": "LEAD-1"}, ROW]))
    assert "LEAD" not in text
    assert [title.strip() for title in text.splitlines()[3].strip("|").split("|")][1:] == [
        "tokens/s",
        "documents/s",
        "nll",
        "fall",
    ]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [(CURVE[-3:], ["3.900", "+0.200"]), (CURVE[-1:], ["3.900", "–"]), ([[5, 4.0], [9, 4.5]], ["4.500", "-0.500"])],
)
def test_short_curves_are_of_single_entries(curve, expected):
    assert last_cells({**ROW, "curve": curve})[3:] == expected


def test_what_is_not_known_is_left_empty():
    for name in ("tokens", "seconds"):
        assert last_cells({key: value for key, value in ROW.items() if key != name})[1] == "–"
    assert markdown_of_trainings([{"row": "LEAD-1"}, {"row": "T5", "curve": []}]) == []


def report_of(folder, *facts):
    """A report of rows with these facts."""
    read = table(folder, rows=[{"row": str(place)} for place in range(len(facts))], measures=["rouge1"])
    outcomes = [
        Outcome(row, facts={"seed": 1, **found}, measures={"rouge1": equal_scores(20)})
        for row, found in zip(read.rows, facts, strict=True)
    ]
    return make_report(read, "small", [block_of_scores(read, "xsum", "xsum", 9, outcomes)])


def test_report_has_them_below_its_scores(tmp_path):
    facts = {name: value for name, value in ROW.items() if name != "row"}
    lines = markdown(report_of(tmp_path, facts)).splitlines()
    assert [line for line in lines if "3,750" in line] == ["| 0   |    3,750 |        12.3 | 4.000 | +0.400 |"]


def test_curves_are_drawn_beside_the_scores_over_seconds_that_all_have(tmp_path):
    facts = {name: value for name, value in ROW.items() if name != "row"}
    pictures = []
    for name, others in (("a", [facts] * 11), ("b", [{**facts, "seconds": 400}] * 11), ("none", [{}])):
        write_plot(report_of(tmp_path, *others), tmp_path / f"{name}.v2.png")
        assert (tmp_path / f"{name}.v2.png").exists()
        curves = tmp_path / f"{name}.v2_curves.png"
        if name == "none":
            assert not curves.exists()
            continue
        with Image.open(curves) as image:
            assert min(image.size) > 600
            pictures.append(image.convert("L").tobytes())
    assert pictures[0] != pictures[1]
    unknown = {name: value for name, value in facts.items() if name != "seconds"}
    write_plot(report_of(tmp_path, unknown, facts), tmp_path / "c.png")
    assert (tmp_path / "c_curves.png").exists()
