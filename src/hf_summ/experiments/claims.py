"""Claims of the papers that a table tests without published figures: one row scores above another."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hf_summ.common.pages import markdown_table
from hf_summ.evaluation.significance import examples_to_decide
from hf_summ.experiments.scoring import Outcome, Scored, compare, verdict
from hf_summ.experiments.tables import ROUGE_MEASURES

_HEAD = (
    "The papers' claims, as differences in ROUGE with 95% intervals by paired bootstrap over test documents. "
    "A claim holds or fails if the interval excludes zero and the ranges over seeds do not overlap. Otherwise it is "
    "undecided: if the difference is the true one, the given total number of documents would decide it with a "
    "probability of 80%, or more seeds are needed."
)


def claims(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The claims: for each `row` and a row that it should be `above`, the `measures` of ROUGE that both have.

    Each measure has its `difference` with `low` and `high`, a `verdict` as `hf_summ.experiments.scoring.verdict`, and
    the number of `documents` that would decide the claim, or None if no number would.
    """
    measures = {outcome.row.row: outcome.measures for outcome in outcomes}
    found = []
    for outcome in outcomes:
        for other in outcome.row.above:
            ours, theirs = outcome.measures, measures.get(other, {})
            both = [name for name in ROUGE_MEASURES if name in ours and name in theirs]
            cells = {name: _claim(ours[name], theirs[name]) for name in both}
            found.append({"row": outcome.row.row, "above": other, "measures": cells})
    return found


def _claim(ours: Scored, theirs: Scored) -> dict[str, Any]:
    difference = compare(ours, theirs)
    assert difference is not None, "ROUGE has a value for every document"
    judged = verdict(1.0, difference)
    # if the ranges over seeds overlap, another seed might reverse the verdict
    if ours.seeds and theirs.seeds and not _are_apart(ours.seeds, theirs.seeds):
        judged = "undecided"
    (a, count), (b, other_count) = ours.statistics.T, theirs.statistics.T
    documents = examples_to_decide(a / count - b / other_count) if len(a) > 1 else math.inf
    return {
        "difference": {"value": difference.mean, "low": difference.low, "high": difference.high},
        "verdict": judged,
        "documents": None if math.isinf(documents) else documents,
    }


def _are_apart(values: Sequence[float], others: Sequence[float]) -> bool:
    return min(values) > max(others) or min(others) > max(values)


def markdown_of_claims(found: Sequence[Mapping[str, Any]], titles: Mapping[str, str], documents: int) -> list[str]:
    """The claims as lines of Markdown, with their verdicts where they have one.

    Args:
        found: from `claims`.
        titles: measure -> its title.
        documents: number of summarized documents.
    """
    kept = [name for name in titles if name in ROUGE_MEASURES]
    rows = [
        [claim["row"], claim["above"], *(_shown(claim["measures"].get(name), documents) for name in kept)]
        for claim in found
    ]
    return [_HEAD, "", markdown_table(["row", "above", *(titles[name] for name in kept)], rows, left=2)]


def _shown(cell: Mapping[str, Any] | None, documents: int) -> str:
    if cell is None:
        return "–"
    difference = cell["difference"]
    shown = f"{difference['value']:+.2f} [{difference['low']:+.2f}, {difference['high']:+.2f}]"
    if cell["verdict"] is None:
        return shown
    if cell["verdict"] != "undecided":
        return f"{shown} {cell['verdict']}"
    needed = cell["documents"]
    if needed is None:
        return f"{shown} undecided: –"
    return f"{shown} undecided: {'more seeds' if needed <= documents else f'{needed:,} documents'}"
