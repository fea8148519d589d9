"""What votes say, against the papers' tables and against counting by hand."""

import itertools

import numpy as np
import pytest

from hf_summ.evaluation import examples_to_decide, sign_test
from hf_summ.votes import fleiss_kappa, krippendorff_alpha, read_votes, vote_report
from hf_summ.votes.report import as_text
from tests.votes.made_up import made_sheets, rows_of, votes_with, write


def spread(voters: int, wins: int, losses: int, ties: int) -> list[list[int]]:
    """(V, N) outcomes of V voters on N documents in random order, with the given total numbers."""
    flat = np.repeat([1, -1, 0], [wins, losses, ties])
    return np.random.default_rng(0).permutation(flat).reshape(voters, -1).tolist()


def spread_all(voters: int, counts: dict[str, tuple[int, int, int]]) -> dict[str, list[list[int]]]:
    """For each aspect, (V, N) outcomes with its numbers of wins, losses and ties."""
    outcomes = {}
    for aspect, (wins, losses, ties) in counts.items():
        outcomes[aspect] = spread(voters, wins, losses, ties)
    return outcomes


def line(text: str, start: str) -> list[str]:
    """The cells of the first row of a table whose first cell begins with `start`."""
    rows = [row for row in text.splitlines() if row.startswith(f"| {start}")]
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


def test_votes_are_printed_as_the_papers_print_them():
    # GDLF's Table 3, XSUM: 50 documents, 3 voters
    text = as_text(vote_report(votes_with({"relevance": spread(3, 73, 66, 11)}, "documents"), 100))
    assert line(text, "Votes")[:4] == ["Votes, documents", "Win", "Lose", "Tie"]
    assert line(text, "Relevance")[1:4] == ["24.3", "22.0", "3.7"]
    # Highlight-Transformer's Table 3: 50 documents, 4 voters
    aspects = {"informativeness": (93, 43, 64), "fluency": (59, 52, 89), "non-redundancy": (55, 51, 94)}
    votes = votes_with(spread_all(4, aspects))
    text = as_text(vote_report(votes, 100))
    assert line(text, "Votes")[:5] == ["Votes, %", "Win", "Lose", "Tie", "Kappa"]
    assert line(text, "Informativeness")[1:4] == ["46.5", "21.5", "32.0"]
    assert line(text, "Fluency")[1:4] == ["29.5", "26.0", "44.5"]
    assert line(text, "Non-redundancy")[1:4] == ["27.5", "25.5", "47.0"]
    # SAGCopy's Table 4: 100 documents, 3 voters
    aspects = {"importance": (62, 41, 197), "readability": (20, 11, 269)}
    votes = votes_with(spread_all(3, aspects), digits=2)
    text = as_text(vote_report(votes, 100))
    assert line(text, "Importance")[1:4] == ["20.67", "13.67", "65.67"]
    assert line(text, "Readability")[1:4] == ["6.67", "3.67", "89.67"]


@pytest.mark.parametrize("missing", [0, 0.2])
def test_figures_are_those_counted_by_hand(missing):
    generator = np.random.default_rng(1)
    table = generator.choice([1.0, 0.0, -1.0], p=[0.4, 0.3, 0.3], size=(3, 40))
    table[generator.random(table.shape) < missing] = np.nan
    is_given = ~np.isnan(table)
    outcomes = np.where(is_given, table, None).tolist()
    votes = votes_with({"fluency": outcomes})
    report = vote_report(votes, resamples=2000, seed=5)
    figures = report["pairs"][0]["aspects"]["fluency"]
    given = table[is_given].tolist()
    assert figures["wins"] == given.count(1)
    assert figures["losses"] == given.count(-1)
    assert figures["ties"] == given.count(0)
    assert figures["preference"]["mean"] == pytest.approx(100 * sum(given) / len(given))
    # the outcomes of each document that anybody voted on
    documents = []
    for place in range(40):
        values = table[is_given[:, place], place].tolist()
        if values:
            documents.append(values)
    means = []
    for _ in range(2000):
        values = []
        for place in generator.integers(len(documents), size=len(documents)):
            values.extend(documents[place])
        means.append(100 * sum(values) / len(values))
    means.sort()
    assert figures["preference"]["interval"] == pytest.approx([means[50], means[1949]], abs=2)
    signs = generator.choice([-1, 1], (2000, len(documents)))
    differences = np.array([sum(values) for values in documents])
    as_far = np.abs(signs @ differences) >= abs(differences.sum())
    assert figures["preference"]["p_value"] == pytest.approx(as_far.mean(), abs=0.04)
    complete = table[:, ~np.isnan(table).any(0)]
    assert figures["kappa"] == pytest.approx(fleiss_kappa(complete))
    assert figures["alpha"] == pytest.approx(krippendorff_alpha(table))
    assert figures["ordinal_alpha"] == pytest.approx(krippendorff_alpha(table, "ordinal"))
    needed = examples_to_decide(differences)
    assert figures["more_documents"] == needed - len(documents) > 0
    sides = [choices.get("fluency") for choices in votes.choices.values()]
    on_a, on_b = sides.count("A"), sides.count("B")
    assert figures["sides"] == {"A": on_a, "B": on_b, "p_value": sign_test(on_a, on_b)}
    assert figures["kappa_documents"] == complete.shape[1]
    note = f"kappa counts only documents on which all voted, at least {complete.shape[1]} of 40; alpha counts all"
    if missing:
        assert report["notes"][3:] == [note]
    else:
        assert report["notes"][3:] == []


def test_a_side_that_is_preferred_shows():
    """Whoever always chooses A prefers no system, but a side."""
    votes = votes_with({"fluency": spread(2, 30, 30, 20)})
    for place in votes.choices:
        votes.choices[place] = {"fluency": "A"}
    figures = vote_report(votes, 200)["pairs"][0]["aspects"]["fluency"]
    assert figures["sides"] == {"A": 80, "B": 0, "p_value": sign_test(80, 0)}
    assert figures["preference"]["p_value"] > 0.05
    text = as_text(vote_report(votes, 200))
    assert line(text.partition("Wins by side")[2], "Fluency")[1:] == ["80", "0", "100.0", "2e-24"]


# outcomes, each (V, N), and what the report says of them
CASES_OF_UNDECIDED_VOTES = [
    ([[1] * 20 + [0] * 5], "decided"),
    # ((1.960 + 0.842) · 0.959 / 0.333)² = 65, of which 30 are there
    ([[1, -1, 1, 1, -1, 1] * 5], "about 35 more"),
    ([[1, -1] * 10], "not at this effect"),
    ([[0] * 10], "not at this effect"),
    # The differences are 3 on five documents, 0 on ten, and -1 on five documents with a single vote. As in the test,
    # each vote has the same weight, so that their mean is 0.5 and their deviation 1.539:
    # ((1.960 + 0.842) · 1.539 / 0.5)² = 75, of which 20 are there
    (
        [[1] * 5 + [1, -1] * 5 + [-1] * 5, [1] * 5 + [-1, 1] * 5 + [None] * 5, [1] * 5 + [0] * 10 + [None] * 5],
        "about 55 more",
    ),
    # fewer than ten documents decide nothing, even if all agree
    ([[1] * 10], "decided"),
    ([[1] * 9], "at least 10"),
    ([[1] * 9 + [None]], "at least 10"),
    ([[1, -1] * 2], "at least 10"),
    ([[1]], "at least 10"),
]


@pytest.mark.parametrize(("outcomes", "said"), CASES_OF_UNDECIDED_VOTES)
def test_how_many_documents_more_would_decide(outcomes, said):
    text = as_text(vote_report(votes_with({"fluency": outcomes})))
    assert line(text.partition("points")[2], "Fluency")[-1] == said


def test_what_so_few_resamples_leave_open_is_not_decided():
    text = as_text(vote_report(votes_with({"fluency": [[1] * 10]}), resamples=9))
    assert line(text.partition("points")[2], "Fluency")[-2:] == ["0.100", "about 1 more"]


def test_what_cannot_be_computed_is_left_out():
    # There is one voter, and nobody voted on the second aspect.
    votes = votes_with({"fluency": [[1, 0, -1]], "agrees with DUC": [[None] * 3]})
    report = vote_report(votes, 50)
    figures = report["pairs"][0]["aspects"]
    assert figures["fluency"]["kappa"] is None
    assert figures["fluency"]["alpha"] is None
    assert figures["agrees with DUC"]["preference"] is None
    assert figures["agrees with DUC"]["more_documents"] is None
    assert line(as_text(report), "Agrees with DUC")[1:] == ["-"] * 6
    # Voters who agree on everything agree as chance would.
    report = vote_report(votes_with({"fluency": [[1, 1], [1, 1]]}), 50)
    figures = report["pairs"][0]["aspects"]["fluency"]
    assert figures["kappa"] is None
    assert figures["alpha"] is None
    assert figures["ordinal_alpha"] is None
    # There is no document on which all voted.
    report = vote_report(votes_with({"fluency": [[1, None], [None, 1]]}), 50)
    assert report["pairs"][0]["aspects"]["fluency"]["kappa"] is None


def test_the_same_seed_gives_the_same_report():
    votes = votes_with({"fluency": spread(3, 40, 30, 20)})
    assert vote_report(votes, 100, 7) == vote_report(votes, 100, 7)
    assert vote_report(votes, 100, 7) != vote_report(votes, 100, 8)
    with pytest.raises(ValueError, match="`resamples` is 0, but must be at least 1"):
        vote_report(votes, 0)


def test_each_pair_has_its_tables(tmp_path):
    systems = {name: [name] * 6 for name in ("one", "two", "three")}
    sheets, key = made_sheets(systems=systems)
    choices = itertools.cycle(["A", "tie", "B", "A"])
    rows = rows_of(sheets[0], lambda item, aspect: next(choices))
    votes = read_votes([write(tmp_path / "1.json", rows)], key)
    text = as_text(vote_report(votes, 50))
    for pair in ("one against two", "one against three", "two against three"):
        assert f"{pair}\n\n| Votes, %" in text
    assert "\n\ndocuments: 4; voters: 1; 50 resamples, seed 0; hf_summ " in text
