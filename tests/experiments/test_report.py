"""Reports of made-up scores, claims and losses, and their plots."""

import json
import sys
from dataclasses import replace

import pytest
from PIL import Image

from hf_summ import __version__
from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import (
    block_of_scores,
    block_of_values,
    make_report,
    markdown,
    markdown_of_trainings,
    title_of,
)
from hf_summ.experiments.scoring import Outcome, claims
from tests.experiments.made_up import equal_scores, table

FACTS = {"run": "0123456789abcdef", "parameters": 2_345_678, "updates": 900, "epochs": 1.5, "seed": 42}
EXPECTED = """# Somebody 2020, Table 1: Rows

Scale small; hf_summ {VERSION}; ROUGE-1.5.5 of words, byte limit 75.

## xsum

Ours: data/news, 9 test documents, updates 900, seed 42. Published: xsum. \
Our figures can be compared with each other, but not with the published ones.

| row    | parameters |                  R-1 |              perplexity | published R-1 | published perplexity |
| ------ | ---------: | -------------------: | ----------------------: | ------------: | -------------------: |
| DC     |      2.35M | 20.00 [20.00, 20.00] |    34.50 [34.50, 34.50] |            30 |                 9.10 |
| A\\|B   |      2.35M | 21.50 [21.50, 21.50] | 100.00 [100.00, 100.00] |         31.25 |                    9 |
| broken |            |                    – |                       – |            32 |                    – |
| others |            |                    – |                       – |            33 |                    1 |

Differences from DC, of one run each, with 95% intervals by paired bootstrap over test documents:

| row    |                  R-1 | published |       |              perplexity | published |       |
| ------ | -------------------: | --------: | ----: | ----------------------: | --------: | ----: |
| A\\|B   | +1.50 [+1.50, +1.50] |     +1.25 | holds | +65.50 [+65.50, +65.50] |     -0.10 | fails |
| broken |                    – |     +2.00 |     – |                       – |         – |     – |
| others |                    – |     +3.00 |     – |                       – |     -8.10 |     – |

Failed:

- broken: it broke

Not run:

- others: literature: Somebody 2019

- A note.
"""
TWO = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}
# of 20 entries, of which two are a tenth
CURVE = [[50 * place, loss] for place, loss in enumerate([5.0] * 16 + [4.5, 4.3, 4.1, 3.9], start=1)]
ROW = {"row": "DC", "updates": 1000, "documents_per_second": 12.34, "curve": CURVE, "tokens": 3_000_000, "seconds": 800}


def test_tiny_scale_has_no_verdicts(make, report):
    tiny = make("tiny")
    text = markdown(tiny)
    assert "holds" in markdown(report)
    assert "holds" not in text
    assert "fails" not in text
    row = next(line for line in text.splitlines() if line.startswith("| A") and "+1.50" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")[-4:]] == [
        "+1.50 [+1.50, +1.50]",
        "+1.25",
        "+65.50 [+65.50, +65.50]",
        "-0.10",
    ]
    assert not [
        cell for line in tiny["datasets"][0]["rows"] for cell in line["measures"].values() if cell.get("verdict")
    ]


def cells(text):
    """Those of all tables of a report."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture
def make(tmp_path):
    """Makes a report at a scale."""
    rows = [
        {"row": "DC", "published": [30, 9.1]},
        {"row": "A|B", "published": [31.25, 9]},
        {"row": "broken", "published": [32, None]},
        {"row": "others", "literature": "Somebody 2019", "published": [33, 1]},
    ]
    read = table(
        tmp_path,
        measures=["rouge1", "perplexity"],
        rows=rows,
        baseline="DC",
        notes=["A note."],
        rouge={"byte_limit": 75},
    )
    first, second, broken, others = read.rows
    outcomes = [
        Outcome(first, facts=FACTS, measures={"rouge1": equal_scores(20), "perplexity": equal_scores(34.5)}),
        Outcome(second, facts=FACTS, measures={"rouge1": equal_scores(21.5), "perplexity": equal_scores(100)}),
        Outcome(broken, "it broke", failed=True),
        Outcome(others, "literature: Somebody 2019"),
    ]
    return lambda scale: make_report(read, scale, [block_of_scores(read, "xsum", "data/news", 9, outcomes)])


@pytest.fixture
def report(make):
    return make("small")


def test_markdown_says_all_there_is(report):
    assert markdown(report) == EXPECTED.replace("{VERSION}", __version__)


def test_report_comes_back_from_json(report):
    text = json.dumps(report, allow_nan=False)
    assert json.loads(text) == report
    assert markdown(json.loads(text)) == markdown(report)


def test_rows_carry_what_was_trained(report):
    rows = report["datasets"][0]["rows"]
    assert {name: rows[0][name] for name in FACTS} == FACTS
    assert "run" not in rows[2]
    assert rows[1]["measures"]["rouge1"]["difference"] == {"value": 1.5, "low": 1.5, "high": 1.5, "p_value": 2 / 1001}


def test_failed_baseline_leaves_the_values_and_takes_the_differences(tmp_path):
    read = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}], baseline="DC", measures=["rouge1"])
    baseline, gdlf = read.rows
    outcomes = [Outcome(baseline, "it broke", failed=True), Outcome(gdlf, measures={"rouge1": equal_scores(20)})]
    block = block_of_scores(read, "xsum", "xsum", 9, outcomes)
    rows = cells(markdown(make_report(read, "full", [block])))
    assert ["GDLF", "20.00 [20.00, 20.00]"] in rows
    assert ["GDLF", "–"] in rows


def test_table_of_ours_has_seeds_updates_and_claims_but_no_published_figures(tmp_path):
    read = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}], measures=["rouge1"])
    outcomes = [
        Outcome(
            row, facts={**FACTS, "updates": updates, "seeds": [1, 2]}, measures={"rouge1": replace(scored, seeds=seeds)}
        )
        for row, updates, scored, seeds in zip(
            read.rows, (900, 1200), (equal_scores(20), equal_scores(22)), ((19.0, 21.0), (21.5, 22.5)), strict=True
        )
    ]
    block = {**block_of_scores(read, "xsum", "x.jsonl", 9, outcomes), "claims": claims(outcomes)}
    text = markdown(make_report(read, "full", [block]))
    assert "Ours: x.jsonl, 9 test documents, seed 1, 2. No figures are published for these rows.\n" in text
    assert "\nMeans over seeds, with 95% intervals over test documents, and the range over seeds:\n" in text
    rows = cells(text)
    assert rows[0] == ["row", "parameters", "updates", "R-1"]
    assert rows[2] == ["DC", "2.35M", "900", "20.00 [20.00, 20.00] 19.00 to 21.00"]
    assert rows[-1] == ["GDLF", "DC", "+2.00 [+2.00, +2.00] holds"]
    rows = cells(markdown(make_report(read, "tiny", [block])))
    assert rows[-1] == ["GDLF", "DC", "+2.00 [+2.00, +2.00]"]
    text = markdown(
        make_report(replace(read, baseline="DC"), "full", [block_of_scores(read, "xsum", "x", 9, outcomes)])
    )
    assert "\nDifferences from DC, means over seeds, with 95% intervals" in text


def test_documents_that_were_shortened_are_told(tmp_path):
    read = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}], measures=["rouge1"])
    plain, shortened = (
        Outcome(row, facts={**FACTS, **facts}, measures={"rouge1": equal_scores(20)})
        for row, facts in zip(read.rows, ({}, {"extraction": "50% of the sentences, unchecked"}), strict=True)
    )
    text = markdown(make_report(read, "full", [block_of_scores(read, "xsum", "xsum", 9, [plain, shortened])]))
    shown = "Documents were shortened before the model read them; what was kept:"
    assert f"\n{shown}\n\n- GDLF: 50% of the sentences, unchecked\n" in text


def test_values_are_shown_without_intervals_and_large_ones_without_decimals(tmp_path):
    measures = ["pairs", "document_words", "vocabulary"]
    read = table(
        tmp_path, kind="statistics", measures=measures, rows=[{"row": "news", "published": [204045, 431.1, None]}]
    )
    (row,) = read.rows
    outcome = Outcome(row, measures={"pairs": 36, "document_words": 12.25, "vocabulary": 21000})
    report = make_report(read, "full", [block_of_values(read, "xsum", "xsum", [outcome])])
    text = markdown(report)
    titles, *_, values = cells(text)
    assert titles[:5] == ["row", "pairs", "document words", "vocabulary", "published pairs"]
    assert values == ["news", "36", "12.25", "21,000", "204,045", "431.10", "–"]
    assert "Ours: xsum. Published: xsum.\n" in text
    assert "Differences" not in text


def test_measures_have_titles():
    assert [title_of(name) for name in ("rougeSU*", "novel3", "bleu", "test_pairs")] == [
        "R-SU*",
        "novel 3-grams",
        "BLEU",
        "test pairs",
    ]


def report_of(folder, scored, baseline=None, figures=(30, 20), datasets=TWO):
    """A report of two rows on each data set, with the same scores on both."""
    published = {"published": dict.fromkeys(datasets, figures)} if figures else {}
    rows = [{"row": "DC", **published}, {"row": "GDLF", **published}]
    read = table(folder, rows=rows, baseline=baseline, datasets=datasets)
    outcomes = [Outcome(row, measures=scored.get(row.row, {})) for row in read.rows]
    return make_report(read, "full", [block_of_scores(read, name, name, 9, outcomes) for name in datasets])


BOTH = {row: {"rouge1": equal_scores(20), "rougeL": equal_scores(10)} for row in ("DC", "GDLF")}


@pytest.mark.thorough
@pytest.mark.parametrize("baseline", ["DC", None])
@pytest.mark.parametrize("scored", [BOTH, {"GDLF": BOTH["GDLF"]}, {}], ids=["all", "one", "none"])
@pytest.mark.parametrize("figures", [[30, None], None], ids=["published", "unpublished"])
def test_plot_is_a_png_of_whatever_was_run(tmp_path, baseline, scored, figures):
    path = tmp_path / "plot.png"
    write_plot(report_of(tmp_path, scored, baseline, figures), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert min(image.size) > 200
    assert [file.name for file in tmp_path.iterdir() if "plot" in file.name] == ["plot.png"]


@pytest.mark.thorough
def test_plot_grows_with_data_sets(tmp_path):
    sizes = []
    for datasets in (TWO, {"xsum": TWO["xsum"]}):
        write_plot(report_of(tmp_path, BOTH, "DC", datasets=datasets), tmp_path / "plot.png")
        with Image.open(tmp_path / "plot.png") as image:
            sizes.append(image.size)
    assert sizes[0][0] == sizes[1][0]
    # panels of two rows, and another line about the data
    assert sizes[0][1] - sizes[1][1] == pytest.approx((1.2 + 2 * 0.32 + 0.17) * 150, abs=30)


@pytest.mark.thorough
def test_plot_shows_what_was_scored(tmp_path):
    pictures = []
    for number, scored in enumerate((BOTH, BOTH, {})):
        path = tmp_path / f"{number}.png"
        write_plot(report_of(tmp_path, scored, "DC"), path)
        with Image.open(path) as image:
            pictures.append(image.convert("L").tobytes())
    assert pictures[0] == pictures[1] != pictures[2]


@pytest.mark.thorough
def test_rows_that_were_not_run_are_left_out(tmp_path):
    report = report_of(tmp_path, BOTH, "DC")
    sizes = []
    for problem in (None, "not run yet"):
        for block in report["datasets"]:
            block["rows"][1]["problem"] = problem
        write_plot(report, tmp_path / "plot.png")
        with Image.open(tmp_path / "plot.png") as image:
            sizes.append(image.size[1])
    assert sizes[1] < sizes[0]
    for block in report["datasets"]:
        block["rows"][0]["problem"] = problem
    write_plot(report, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


@pytest.mark.thorough
def test_plot_says_what_it_is_of(tmp_path):
    pictures = []
    for updates in (900, 1800):
        report = report_of(tmp_path, BOTH, "DC")
        for row in report["datasets"][0]["rows"]:
            row |= {"updates": updates, "seed": 42}
        write_plot(report, tmp_path / "plot.png")
        pictures.append((tmp_path / "plot.png").read_bytes())
    assert pictures[0] != pictures[1]


@pytest.mark.thorough
def test_plot_names_data_that_are_not_the_published_ones(tmp_path):
    pictures = []
    for data in ("xsum", "folder/of_mine"):
        report = report_of(tmp_path, BOTH, "DC", datasets={"xsum": TWO["xsum"]})
        report["datasets"][0]["data"] = data
        write_plot(report, tmp_path / "plot.png")
        pictures.append((tmp_path / "plot.png").read_bytes())
    assert pictures[0] != pictures[1]


@pytest.mark.thorough
def test_score_is_not_drawn_among_differences_when_the_baseline_failed(tmp_path):
    pictures = []
    for number, scored in enumerate(({"GDLF": BOTH["GDLF"]}, {})):
        path = tmp_path / f"{number}.png"
        write_plot(report_of(tmp_path, scored, "DC"), path)
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]


def test_values_without_intervals_are_drawn_too(tmp_path):
    read = table(tmp_path, kind="statistics", measures=["pairs"], rows=[{"row": "news", "published": [9]}])
    outcome = Outcome(read.rows[0], measures={"pairs": 7})
    report = make_report(read, "full", [block_of_values(read, "xsum", "x", [outcome])])
    write_plot(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_missing_matplotlib_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'hf-summ\[tables\]'"):
        write_plot(report_of(tmp_path, BOTH), tmp_path / "plot.png")


@pytest.mark.thorough
def test_interval_that_is_off_by_a_rounding_is_drawn(tmp_path):
    report = report_of(tmp_path, BOTH, "DC")
    cell = report["datasets"][0]["rows"][1]["measures"]["rouge1"]["difference"]
    cell |= {"low": cell["value"] + 1e-12, "high": cell["value"] - 1e-12}
    write_plot(report, tmp_path / "plot.png")


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


def report_of_trainings(folder, *facts):
    """A report of rows with these facts."""
    read = table(folder, rows=[{"row": str(place)} for place in range(len(facts))], measures=["rouge1"])
    outcomes = [
        Outcome(row, facts={"seed": 1, **found}, measures={"rouge1": equal_scores(20)})
        for row, found in zip(read.rows, facts, strict=True)
    ]
    return make_report(read, "small", [block_of_scores(read, "xsum", "xsum", 9, outcomes)])


def test_report_has_them_below_its_scores(tmp_path):
    facts = {name: value for name, value in ROW.items() if name != "row"}
    lines = markdown(report_of_trainings(tmp_path, facts)).splitlines()
    assert [line for line in lines if "3,750" in line] == ["| 0   |    3,750 |        12.3 | 4.000 | +0.400 |"]


@pytest.mark.thorough
def test_curves_are_drawn_beside_the_scores_over_seconds_that_all_have(tmp_path):
    facts = {name: value for name, value in ROW.items() if name != "row"}
    pictures = []
    for name, others in (("a", [facts] * 11), ("b", [{**facts, "seconds": 400}] * 11), ("none", [{}])):
        write_plot(report_of_trainings(tmp_path, *others), tmp_path / f"{name}.v2.png")
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
    write_plot(report_of_trainings(tmp_path, unknown, facts), tmp_path / "c.png")
    assert (tmp_path / "c_curves.png").exists()
