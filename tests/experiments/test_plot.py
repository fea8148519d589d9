"""Plots of reports."""

import sys

import pytest
from PIL import Image

from hf_summ.experiments.report import block_of_scores, block_of_values, make_report, write_plot
from hf_summ.experiments.scoring import Outcome
from tests.experiments.made_up import equal_scores, table

TWO = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}


def report_of(folder, scored, baseline=None, figures=(30, 20), datasets=TWO):
    """A report of two rows on each data set, with the same scores on both."""
    published = {"published": dict.fromkeys(datasets, figures)} if figures else {}
    rows = [{"row": "DC", **published}, {"row": "GDLF", **published}]
    read = table(folder, rows=rows, baseline=baseline, datasets=datasets)
    outcomes = [Outcome(row, measures=scored.get(row.row, {})) for row in read.rows]
    return make_report(read, "full", [block_of_scores(read, name, name, 9, outcomes) for name in datasets])


BOTH = {row: {"rouge1": equal_scores(20), "rougeL": equal_scores(10)} for row in ("DC", "GDLF")}


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


def test_plot_grows_with_data_sets(tmp_path):
    sizes = []
    for datasets in (TWO, {"xsum": TWO["xsum"]}):
        write_plot(report_of(tmp_path, BOTH, "DC", datasets=datasets), tmp_path / "plot.png")
        with Image.open(tmp_path / "plot.png") as image:
            sizes.append(image.size)
    assert sizes[0][0] == sizes[1][0]
    # panels of two rows, and another line about the data
    assert sizes[0][1] - sizes[1][1] == pytest.approx((1.2 + 2 * 0.32 + 0.17) * 150, abs=30)


def test_plot_shows_what_was_scored(tmp_path):
    pictures = []
    for number, scored in enumerate((BOTH, BOTH, {})):
        path = tmp_path / f"{number}.png"
        write_plot(report_of(tmp_path, scored, "DC"), path)
        with Image.open(path) as image:
            pictures.append(image.convert("L").tobytes())
    assert pictures[0] == pictures[1] != pictures[2]


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


def test_plot_says_what_it_is_of(tmp_path):
    pictures = []
    for updates in (900, 1800):
        report = report_of(tmp_path, BOTH, "DC")
        for row in report["datasets"][0]["rows"]:
            row |= {"updates": updates, "seed": 42}
        write_plot(report, tmp_path / "plot.png")
        pictures.append((tmp_path / "plot.png").read_bytes())
    assert pictures[0] != pictures[1]


def test_plot_names_data_that_are_not_the_published_ones(tmp_path):
    pictures = []
    for data in ("xsum", "folder/of_mine"):
        report = report_of(tmp_path, BOTH, "DC", datasets={"xsum": TWO["xsum"]})
        report["datasets"][0]["data"] = data
        write_plot(report, tmp_path / "plot.png")
        pictures.append((tmp_path / "plot.png").read_bytes())
    assert pictures[0] != pictures[1]


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
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install matplotlib"):
        write_plot(report_of(tmp_path, BOTH), tmp_path / "plot.png")


def test_interval_that_is_off_by_a_rounding_is_drawn(tmp_path):
    report = report_of(tmp_path, BOTH, "DC")
    cell = report["datasets"][0]["rows"][1]["measures"]["rouge1"]["difference"]
    cell |= {"low": cell["value"] + 1e-12, "high": cell["value"] - 1e-12}
    write_plot(report, tmp_path / "plot.png")
