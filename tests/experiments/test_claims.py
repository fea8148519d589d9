"""What papers claim of one row over another, and how it is judged."""

import numpy as np
import pytest

from hf_summ.evaluation.significance import Scored, examples_to_decide
from hf_summ.experiments.report import markdown_of_claims
from hf_summ.experiments.scoring import Outcome, claims
from tests.experiments.made_up import table

NOISE = np.random.default_rng(3).normal(0, 5, 200)
SPREAD = np.linspace(-4, 4, 200)
TITLES = {"rouge1": "R-1", "novel1": "novel 1-grams"}


@pytest.fixture
def judge(tmp_path):
    """The claim that GDLF is above DC, by the scores of each of 200 documents and the values of the seeds."""
    lower, higher = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}]).rows

    def of(row, scores, seeds):
        counts = np.full(len(scores), len(seeds) or 1)
        rouge = Scored(np.column_stack([scores * counts, counts]), lambda sums: sums[..., 0] / sums[..., 1], seeds)
        return Outcome(row, measures={"rouge1": rouge, "novel1": rouge})

    def found(ours, theirs, our_seeds=(), their_seeds=()):
        return claims([of(lower, theirs, their_seeds), of(higher, ours, our_seeds)])

    return found


@pytest.mark.parametrize(
    ("gain", "our_seeds", "their_seeds", "expected"),
    [
        (2, (), (), "holds"),
        (-2, (), (), "fails"),
        (0.1, (), (), "undecided"),
        (2, (31, 32), (29, 30), "holds"),
        (-2, (29, 30), (31, 32), "fails"),
        # one training of the other was better
        (2, (30, 34), (29, 31), "undecided"),
        # a row whose second seed is still to come
        (2, (30, 34), (), "holds"),
        (0.1, (31, 32), (29, 30), "undecided"),
    ],
)
def test_claim_needs_the_documents_and_the_seeds(judge, gain, our_seeds, their_seeds, expected):
    ours = 30 + NOISE + gain + SPREAD
    (claim,) = judge(ours, 30 + NOISE, our_seeds, their_seeds)
    assert (claim["row"], claim["above"], list(claim["measures"])) == ("GDLF", "DC", ["rouge1"])
    cell = claim["measures"]["rouge1"]
    assert cell["difference"]["value"] == pytest.approx(gain)
    assert cell["documents"] == examples_to_decide(ours - 30 - NOISE)
    assert cell["verdict"] == expected


def shown(claim):
    """The cells of a claim in Markdown."""
    head, empty, table = markdown_of_claims([claim], TITLES, 200)
    assert head.startswith("The papers' claims")
    assert empty == ""
    titles, _, row = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    assert titles == ["row", "above", "R-1"]
    assert row[:2] == ["GDLF", "DC"]
    return row[2]


def test_undecided_claim_says_what_would_decide(judge):
    (claim,) = judge(30 + NOISE + 0.1 + SPREAD, 30 + NOISE)
    documents = claim["measures"]["rouge1"]["documents"]
    assert documents > 200
    assert shown(claim).startswith("+0.10 [")
    assert shown(claim).endswith(f"] undecided: {documents:,} documents")
    (claim,) = judge(30 + NOISE + 2 + SPREAD, 30 + NOISE, (30, 34), (29, 31))
    assert shown(claim).endswith("] undecided: more seeds")
    (claim,) = judge(30 + NOISE + 2 + SPREAD, 30 + NOISE)
    assert shown(claim).endswith("] holds")


def test_equal_systems_are_decided_by_nothing(judge):
    (claim,) = judge(30 + NOISE, 30 + NOISE)
    assert claim["measures"]["rouge1"]["documents"] is None
    assert shown(claim) == "+0.00 [+0.00, +0.00] undecided: –"


def test_single_document_decides_nothing(judge):
    (claim,) = judge(np.array([31.0]), np.array([30.0]))
    assert {name: claim["measures"]["rouge1"][name] for name in ("verdict", "documents")} == {
        "verdict": "undecided",
        "documents": None,
    }


def test_claim_on_a_row_that_is_still_to_come_is_empty(tmp_path):
    lower, higher = table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}]).rows
    (claim,) = claims([Outcome(lower, "not run yet"), Outcome(higher, "not run yet")])
    assert claim["measures"] == {}
    assert shown(claim) == "–"
