"""Reports of made-up scores."""

import json

import pytest

from hf_summ import __version__
from hf_summ.experiments.report import block_of_scores, block_of_values, make_report, markdown, title_of
from hf_summ.experiments.scoring import Outcome
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

Differences from DC, of one training each, with 95% intervals by paired bootstrap over test documents:

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
    assert ["GDLF", "20.00 [20.00, 20.00]", "–"] in rows
    assert ["GDLF", "–", "–", "–"] in rows


def test_documents_that_were_shortened_are_told(tmp_path):
    read = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}], measures=["rouge1"])
    plain, shortened = (
        Outcome(row, facts={**FACTS, **facts}, measures={"rouge1": equal_scores(20)})
        for row, facts in zip(read.rows, ({}, {"extraction": "50% of the sentences, unchecked"}), strict=True)
    )
    text = markdown(make_report(read, "full", [block_of_scores(read, "xsum", "xsum", 9, [plain, shortened])]))
    told = "Documents from which sentences were left out before the model read them, and what was kept:"
    assert f"\n{told}\n\n- GDLF: 50% of the sentences, unchecked\n" in text


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
