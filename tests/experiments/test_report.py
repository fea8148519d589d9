"""Reports of made-up scores, claims and losses, and their plots."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from hf_summ import __version__
from hf_summ.evaluation.significance import Scored, perplexity
from hf_summ.experiments.blocks import block_of_scores, block_of_values, make_report
from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import markdown, markdown_of_trainings, title_of
from hf_summ.experiments.scoring import Outcome, claims, over_seeds
from hf_summ.experiments.settings import flags_of_all_rows
from tests.experiments.made_up import equal_scores, make_table, make_workplace

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

Differences from DC, of one run each, with 95% intervals by paired bootstrap over documents:

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
DATASETS = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}
# a loss every 50 updates; a tenth of the entries are the last two
CURVE = [[50 * number, loss] for number, loss in enumerate([5.0] * 16 + [4.5, 4.3, 4.1, 3.9], start=1)]
ROW = {"row": "DC", "updates": 1000, "documents_per_second": 12.34, "curve": CURVE, "tokens": 3_000_000, "seconds": 800}


def cells(text):
    """The cells of each line of all tables of a report."""
    rows = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


@pytest.fixture
def make(tmp_path):
    """Makes a report at a scale."""
    rows = [
        {"row": "DC", "published": [30, 9.1]},
        {"row": "A|B", "published": [31.25, 9]},
        {"row": "broken", "published": [32, None]},
        {"row": "others", "literature": "Somebody 2019", "published": [33, 1]},
    ]
    measures = ["rouge1", "perplexity"]
    rouge = {"byte_limit": 75}
    table = make_table(tmp_path, rows=rows, measures=measures, baseline="DC", notes=["A note."], rouge=rouge)
    baseline, gdlf, broken, literature = table.rows
    outcomes = [
        Outcome(baseline, facts=FACTS, measures={"rouge1": equal_scores(20), "perplexity": equal_scores(34.5)}),
        Outcome(gdlf, facts=FACTS, measures={"rouge1": equal_scores(21.5), "perplexity": equal_scores(100)}),
        Outcome(broken, "it broke", failed=True),
        Outcome(literature, "literature: Somebody 2019"),
    ]
    return lambda scale: make_report(table, scale, [block_of_scores(table, "xsum", "data/news", 9, outcomes)])


# the scale, the data, the split, the user's flags, and whether our figures can be compared with the published ones
CASES_OF_COMPARABLE_FIGURES = [
    ("full", "xsum", "test", "", True),
    ("full", "xsum", "test", "--seed 43 --cache_dir cache --logging_steps 10", True),
    ("full", "xsum", "test", "--quick 300", False),
    ("full", "xsum", "test", "--max_predict_samples 100", False),
    ("full", "xsum", "test", "--config_overrides d_model=64", False),
    ("full", "xsum", "test", "--num_beams 1", False),
    ("full", "xsum", "test", "--density_bin mixed", False),
    ("full", "xsum", "validation", "", False),
    ("full", "data/news", "test", "", False),
    ("small", "xsum", "test", "", False),
]


@pytest.mark.parametrize(("scale", "data", "split", "flags", "is_comparable"), CASES_OF_COMPARABLE_FIGURES)
def test_line_says_whether_published_figures_can_be_compared(tmp_path, scale, data, split, flags, is_comparable):
    table = make_table(tmp_path, rows=[{"row": "DC", "published": [30]}], measures=["rouge1"])
    place = make_workplace(tmp_path, table, extra=flags_of_all_rows(flags.split()))
    block = block_of_scores(table, "xsum", data, 9, [Outcome(table.rows[0])])
    report = make_report(table, scale, [block], split, place.changing_flags)
    caveat = "Our figures can be compared with each other, but not with the published ones."
    assert (caveat not in markdown(report)) == is_comparable


@pytest.fixture
def report(make):
    return make("small")


def test_markdown_says_all_there_is(report):
    assert markdown(report) == EXPECTED.replace("{VERSION}", __version__)


def test_tiny_scale_has_no_verdicts(make):
    row = next(row for row in cells(markdown(make("tiny"))) if "+1.25" in row)
    assert row[2:] == ["+1.50 [+1.50, +1.50]", "+1.25", "+65.50 [+65.50, +65.50]", "-0.10"]


def test_rows_carry_what_was_trained(report):
    baseline, gdlf, broken, _ = report["datasets"][0]["rows"]
    assert {name: baseline[name] for name in FACTS} == FACTS
    assert "run" not in broken
    difference = {"value": 1.5, "low": 1.5, "high": 1.5, "p_value": 2 / 1001}
    assert gdlf["measures"]["rouge1"]["difference"] == difference


def test_failed_baseline_leaves_the_values_and_takes_the_differences(tmp_path):
    table = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}], baseline="DC", measures=["rouge1"])
    baseline, gdlf = table.rows
    outcomes = [Outcome(baseline, "it broke", failed=True), Outcome(gdlf, measures={"rouge1": equal_scores(20)})]
    block = block_of_scores(table, "xsum", "xsum", 9, outcomes)
    rows = cells(markdown(make_report(table, "full", [block])))
    assert ["GDLF", "20.00 [20.00, 20.00]"] in rows
    assert ["GDLF", "–"] in rows


def test_table_of_ours_has_seeds_updates_and_claims_but_no_published_figures(tmp_path):
    table = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}], measures=["rouge1"])
    baseline, gdlf = table.rows
    facts = {**FACTS, "seeds": [1, 2]}
    baseline_scores = replace(equal_scores(20), seeds=(19.0, 21.0))
    gdlf_scores = replace(equal_scores(22), seeds=(21.5, 22.5))
    outcomes = [
        Outcome(baseline, facts={**facts, "updates": 900}, measures={"rouge1": baseline_scores}),
        Outcome(gdlf, facts={**facts, "updates": 1200}, measures={"rouge1": gdlf_scores}),
    ]
    block = block_of_scores(table, "xsum", "x.jsonl", 9, outcomes)
    block["claims"] = claims(outcomes)
    text = markdown(make_report(table, "full", [block]))
    assert "Ours: x.jsonl, 9 test documents, seed 1, 2. No figures are published for these rows.\n" in text
    assert "\nMeans over seeds, with 95% intervals over documents, and the range over seeds:\n" in text
    rows = cells(text)
    assert rows[0] == ["row", "parameters", "updates", "R-1"]
    assert rows[2] == ["DC", "2.35M", "900", "20.00 [20.00, 20.00] 19.00 to 21.00"]
    assert rows[-1] == ["GDLF", "DC", "+2.00 [+2.00, +2.00] holds"]
    rows = cells(markdown(make_report(table, "tiny", [block])))
    assert rows[-1] == ["GDLF", "DC", "+2.00 [+2.00, +2.00]"]
    block_without_claims = block_of_scores(table, "xsum", "x", 9, outcomes)
    text = markdown(make_report(replace(table, baseline="DC"), "full", [block_without_claims]))
    assert "\nDifferences from DC, means over seeds, with 95% intervals" in text


def test_measures_of_the_corpus_are_pooled_over_seeds_and_said_to_be(tmp_path):
    rows = [{"row": "DC"}, {"row": "GDLF"}]
    table = make_table(tmp_path, rows=rows, measures=["rouge1", "perplexity", "bleu"], baseline="DC")
    tokens = np.full(9, 20.0)
    outcomes = []
    for row in table.rows:
        for seed, value in ((1, 10.0), (2, 40.0)):
            losses = Scored(np.column_stack([tokens * np.log(value), tokens]), perplexity)
            scores = {"rouge1": equal_scores(value), "perplexity": losses}
            outcomes.append(Outcome(row, facts={**FACTS, "seed": seed}, measures=scores))
    block = block_of_scores(table, "xsum", "x", 9, over_seeds(outcomes))
    cell = block["rows"][0]["measures"]
    # the perplexity of all tokens is the geometric mean, as both seeds have as many
    assert [cell[measure]["value"] for measure in ("rouge1", "perplexity")] == [pytest.approx(25), pytest.approx(20)]
    text = markdown(make_report(table, "full", [block]))
    assert "\nMeans over seeds (perplexity, BLEU of all seeds together), with 95% intervals" in text
    assert "\nDifferences from DC, means over seeds (perplexity, BLEU of all seeds together), with 95%" in text


def test_documents_that_were_shortened_are_told(tmp_path):
    table = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}], measures=["rouge1"])
    baseline, gdlf = table.rows
    measures = {"rouge1": equal_scores(20)}
    outcomes = [
        Outcome(baseline, facts=FACTS, measures=measures),
        Outcome(gdlf, facts={**FACTS, "extraction": "50% of the sentences, unchecked"}, measures=measures),
    ]
    text = markdown(make_report(table, "full", [block_of_scores(table, "xsum", "xsum", 9, outcomes)]))
    title = "Documents were shortened before the model read them; what was kept:"
    assert f"\n{title}\n\n- GDLF: 50% of the sentences, unchecked\n" in text


def test_values_are_shown_without_intervals_and_large_ones_without_decimals(tmp_path):
    measures = ["pairs", "document_words", "vocabulary"]
    rows = [{"row": "news", "published": [204045, 431.1, None]}]
    table = make_table(tmp_path, kind="statistics", measures=measures, rows=rows)
    (row,) = table.rows
    outcome = Outcome(row, numbers={"pairs": 36, "document_words": 12.25, "vocabulary": 21000})
    report = make_report(table, "full", [block_of_values(table, "xsum", "xsum", [outcome])])
    text = markdown(report)
    titles, *_, values = cells(text)
    assert titles[:5] == ["row", "pairs", "document words", "vocabulary", "published pairs"]
    assert values == ["news", "36", "12.25", "21,000", "204,045", "431.10", "–"]
    assert "Ours: xsum. Published: xsum.\n" in text
    assert "Differences" not in text
    write_plot(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_measures_have_titles():
    titles = {"rougeSU*": "R-SU*", "novel3": "novel 3-grams", "bleu": "BLEU", "test_pairs": "test pairs"}
    for name, title in titles.items():
        assert title_of(name) == title


def report_of(folder, measures_of_rows, baseline=None, figures=(30, 20), datasets=DATASETS):
    """A report of two rows on each data set, with the same scores on both."""
    rows = [{"row": "DC"}, {"row": "GDLF"}]
    if figures:
        for row in rows:
            row["published"] = dict.fromkeys(datasets, figures)
    table = make_table(folder, rows=rows, baseline=baseline, datasets=datasets)
    outcomes = [Outcome(row, measures=measures_of_rows.get(row.row, {})) for row in table.rows]
    blocks = [block_of_scores(table, name, name, 9, outcomes) for name in datasets]
    return make_report(table, "full", blocks)


def picture(folder, report):
    """The size and the pixels of a report's plot."""
    write_plot(report, folder / "plot.png")
    with Image.open(folder / "plot.png") as image:
        return image.size, image.convert("L").tobytes()


SCORES = {"rouge1": equal_scores(20), "rougeL": equal_scores(10)}
SCORES_OF_BOTH_ROWS = {"DC": SCORES, "GDLF": SCORES}
SCORES_OF_GDLF = {"GDLF": SCORES}


@pytest.mark.thorough
@pytest.mark.parametrize("baseline", ["DC", None])
@pytest.mark.parametrize("measures", [SCORES_OF_BOTH_ROWS, SCORES_OF_GDLF, {}], ids=["all", "one", "none"])
@pytest.mark.parametrize("figures", [[30, None], None], ids=["published", "unpublished"])
def test_whatever_was_run_is_drawn(tmp_path, baseline, measures, figures):
    size, _ = picture(tmp_path, report_of(tmp_path, measures, baseline, figures))
    assert min(size) > 200
    assert [file.name for file in tmp_path.iterdir() if "plot" in file.name] == ["plot.png"]


@pytest.mark.thorough
def test_plot_shows_scores_updates_and_data_of_rows_that_were_run(tmp_path):
    def drawn(measures=SCORES_OF_BOTH_ROWS, data="xsum", problems=(None, None), updates=900):
        report = report_of(tmp_path, measures, "DC", datasets={"xsum": DATASETS["xsum"]})
        (block,) = report["datasets"]
        block["data"] = data
        for row, problem in zip(block["rows"], problems, strict=True):
            row |= {"updates": updates, "seed": 42, "problem": problem}
        return picture(tmp_path, report)

    complete = drawn()
    without_a_row = drawn(problems=(None, "no"))
    pictures = {complete, without_a_row, drawn({}), drawn(data="folder/of_mine"), drawn(updates=1800)}
    assert len(pictures) == 5
    (_, height), _ = complete
    (_, height_without_a_row), _ = without_a_row
    assert height_without_a_row < height
    # without the baseline there is no difference to draw
    assert drawn(SCORES_OF_GDLF) == drawn({})
    (tmp_path / "plot.png").unlink()
    with pytest.raises(FileNotFoundError):
        drawn(problems=("no", "no"))


@pytest.mark.thorough
def test_interval_that_is_off_by_a_rounding_is_drawn(tmp_path):
    report = report_of(tmp_path, SCORES_OF_BOTH_ROWS, "DC")
    cell = report["datasets"][0]["rows"][1]["measures"]["rouge1"]["difference"]
    cell |= {"low": cell["value"] + 1e-12, "high": cell["value"] - 1e-12}
    write_plot(report, tmp_path / "plot.png")


def cells_of_training(row):
    """The cells of a row in the table of trainings."""
    return cells(markdown_of_trainings([row])[-1])[-1]


def test_speeds_and_losses_are_shown():
    assert cells_of_training(ROW) == ["DC", "3,750", "12.3", "4.000", "+0.400"]
    text = "\n".join(markdown_of_trainings([{"row": "LEAD-1"}, ROW]))
    assert "LEAD" not in text
    assert cells(text)[0][1:] == ["tokens/s", "documents/s", "nll", "fall"]


CASES_OF_SHORT_CURVES = [
    (CURVE[-3:], ["3.900", "+0.200"]),
    (CURVE[-1:], ["3.900", "–"]),
    ([[5, 4.0], [9, 4.5]], ["4.500", "-0.500"]),
]


@pytest.mark.parametrize(("curve", "expected"), CASES_OF_SHORT_CURVES)
def test_short_curves_are_of_single_entries(curve, expected):
    assert cells_of_training({**ROW, "curve": curve})[3:] == expected


def test_what_is_not_known_is_left_empty():
    for name in ("tokens", "seconds"):
        row = dict(ROW)
        del row[name]
        assert cells_of_training(row)[1] == "–"
    assert markdown_of_trainings([{"row": "LEAD-1"}, {"row": "T5", "curve": []}]) == []


def report_of_trainings(folder, facts_of_rows):
    """A report of a row for each of these facts."""
    rows = [{"row": str(number)} for number in range(len(facts_of_rows))]
    table = make_table(folder, rows=rows, measures=["rouge1"])
    outcomes = []
    for row, facts in zip(table.rows, facts_of_rows, strict=True):
        outcomes.append(Outcome(row, facts={"seed": 1, **facts}, measures={"rouge1": equal_scores(20)}))
    return make_report(table, "small", [block_of_scores(table, "xsum", "xsum", 9, outcomes)])


@pytest.mark.thorough
def test_trainings_are_shown_below_the_scores_and_drawn_over_seconds_that_all_have(tmp_path):
    facts = dict(ROW)
    del facts["row"]
    assert ["0", "3,750", "12.3", "4.000", "+0.400"] in cells(markdown(report_of_trainings(tmp_path, [facts])))
    pictures = []
    for name, seconds in {"slow": 800, "fast": 400}.items():
        rows = [{**facts, "seconds": seconds}] * 11
        write_plot(report_of_trainings(tmp_path, rows), tmp_path / f"{name}.v2.png")
        assert (tmp_path / f"{name}.v2.png").exists()
        with Image.open(tmp_path / f"{name}.v2_curves.png") as image:
            assert min(image.size) > 600
            pictures.append(image.convert("L").tobytes())
    assert pictures[0] != pictures[1]
    # without curves there is no such plot
    write_plot(report_of_trainings(tmp_path, [{}]), tmp_path / "none.v2.png")
    assert (tmp_path / "none.v2.png").exists()
    assert not (tmp_path / "none.v2_curves.png").exists()
    without_seconds = dict(facts)
    del without_seconds["seconds"]
    write_plot(report_of_trainings(tmp_path, [without_seconds, facts]), tmp_path / "c.png")
    assert (tmp_path / "c_curves.png").exists()
