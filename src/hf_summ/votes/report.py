"""Votes as figures and tables: wins, intervals and p-values, agreement of voters, preference for a side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from hf_summ import __version__
from hf_summ.common.pages import markdown_table
from hf_summ.evaluation.report import shown_interval, shown_p_value
from hf_summ.evaluation.significance import (
    bootstrap_interval,
    examples_to_decide,
    paired_randomization,
    ratio,
    sign_test,
)
from hf_summ.votes.agreement import fleiss_kappa, krippendorff_alpha
from hf_summ.votes.collecting import Votes, missing_votes

# The largest p-value at which a preference counts as decided.
_SIGNIFICANCE_LEVEL = 0.05
# Votes on fewer documents than these decide nothing, whatever p: a single vote would change p, and the deviation of so
# few documents is uncertain.
_MIN_DOCUMENTS = 10
# If more further documents than these are needed, the number is not shown: nobody would vote on so many.
_MAX_DOCUMENTS = 10_000


class Preference(TypedDict):
    """Wins minus losses per vote, in points, over documents; see `vote_report`."""

    mean: float
    documents: int
    interval: list[float] | None
    p_value: float | None


class SideWins(TypedDict):
    """The wins of each side, with the p-value of a sign test."""

    A: int
    B: int
    p_value: float


class AspectFigures(TypedDict):
    """The figures of a pair's first system in an aspect; see `vote_report`."""

    wins: int
    losses: int
    ties: int
    preference: Preference | None
    more_documents: int | None
    kappa: float | None
    alpha: float | None
    ordinal_alpha: float | None
    kappa_documents: int | None
    sides: SideWins


class PairFigures(TypedDict):
    """The figures of a pair of systems."""

    first: str
    second: str
    aspects: dict[str, AspectFigures]


class ReportSettings(TypedDict):
    """The settings of a report, and the version of hf_summ that made it."""

    resamples: int
    seed: int
    hf_summ: str


class VoteReport(TypedDict):
    """All figures on votes, ready for JSON; see `vote_report`."""

    settings: ReportSettings
    documents: int
    voters: int
    unit: str
    digits: int
    pairs: list[PairFigures]
    notes: list[str]


def vote_report(votes: Votes, resamples: int = 1000, seed: int = 0) -> VoteReport:
    """All figures on votes, ready for JSON.

    The keys of the report are:

    - `pairs`: for each pair of systems, the names `first` and `second`, and `aspects`: name -> figures.
    - `documents`, `voters`: the number of documents that have votes, and the number of people who voted.
    - `unit`, `digits`: as in `Protocol`.
    - `settings`: the settings of the figures.
    - `notes`: sentences for readers of the figures, such as which votes are missing.

    The figures of an aspect are from the view of the first system. A figure that cannot be computed is None:

    - `wins`, `losses`, `ties`: numbers of votes.
    - `preference`: wins minus losses per vote, in points, -100 to 100, over so many `documents`, with the 95% bootstrap
      `interval` and the `p_value` by approximate randomization.
    - `more_documents`: how many further documents would probably decide, see `examples_to_decide`. It is 0 if p is at
      most 0.05. It is None if more than 10,000 are needed, or if fewer than 10 documents have votes.
    - `kappa`, `kappa_documents`: Fleiss' kappa, and the number of documents on which all voted, which it counts.
    - `alpha`: Krippendorff's alpha. `ordinal_alpha` is alpha with ties between wins and losses.
    - `sides`: the wins of side `A` and of side `B`, with the `p_value` of an exact sign test.

    Args:
        votes: the votes.
        resamples: number of resamples of the bootstrap, and of trials of the randomization.
        seed: random seed of the resamples and the trials.

    Raises:
        ValueError: `resamples` is below 1.
    """
    protocol = votes.key.protocol
    pairs: list[PairFigures] = []
    for pair in votes.key.pairs():
        aspects = {}
        for aspect in protocol.aspects:
            aspects[aspect] = _figures(votes, pair, aspect, resamples, seed)
        pairs.append({"first": pair[0], "second": pair[1], "aspects": aspects})
    notes = missing_votes(votes)
    fewest = _fewest_documents_of_kappa(pairs)
    if fewest is not None and fewest < protocol.documents:
        notes.append(
            f"kappa counts only documents on which all voted, at least {fewest} of {protocol.documents}; alpha counts "
            "all"
        )
    voted_documents = {votes.key.items[item].document for _, item in votes.choices}
    return {
        "settings": {"resamples": resamples, "seed": seed, "hf_summ": __version__},
        "documents": len(voted_documents),
        "voters": len(votes.sheets()),
        "unit": protocol.unit,
        "digits": protocol.digits,
        "pairs": pairs,
        "notes": notes,
    }


def _fewest_documents_of_kappa(pairs: Sequence[PairFigures]) -> int | None:
    """The smallest number of documents that a kappa of the report counts; None if there is no kappa."""
    document_counts = []
    for pair in pairs:
        for figures in pair["aspects"].values():
            if figures["kappa_documents"] is not None:
                document_counts.append(figures["kappa_documents"])
    return min(document_counts, default=None)


def _figures(votes: Votes, pair: tuple[str, str], aspect: str, resamples: int, seed: int) -> AspectFigures:
    """The figures of an aspect for a pair of systems; see `vote_report`.

    Args:
        votes: all votes.
        pair: the names of the first and of the second system.
        aspect: the name of the aspect.
        resamples, seed: as for `vote_report`.
    """
    outcomes = votes.outcomes(pair, aspect)
    preference = None
    more_documents = None
    document_votes = _document_votes(outcomes)
    if len(document_votes.counts):
        preference = _preference(document_votes, resamples, seed)
        more_documents = _more_documents(document_votes, preference["p_value"])
    agreement = _agreement(outcomes)
    sides = votes.sides(pair, aspect)
    wins_of_a = _votes_with(sides, 1)
    wins_of_b = _votes_with(sides, -1)
    return {
        "wins": _votes_with(outcomes, 1),
        "losses": _votes_with(outcomes, -1),
        "ties": _votes_with(outcomes, 0),
        "preference": preference,
        "more_documents": more_documents,
        "kappa": agreement.kappa,
        "alpha": agreement.alpha,
        "ordinal_alpha": agreement.ordinal_alpha,
        "kappa_documents": agreement.kappa_documents,
        "sides": {"A": wins_of_a, "B": wins_of_b, "p_value": sign_test(wins_of_a, wins_of_b)},
    }


def _votes_with(outcomes: np.ndarray, value: int) -> int:
    """How many votes have an outcome: 1 for a win, -1 for a loss, 0 for a tie."""
    return int((outcomes == value).sum())


@dataclass(frozen=True)
class _DocumentVotes:
    """The votes on each document that has votes.

    Attributes:
        differences: (D,), the first system's wins minus its losses.
        counts: (D,), the number of votes.
    """

    differences: np.ndarray
    counts: np.ndarray


def _document_votes(outcomes: np.ndarray) -> _DocumentVotes:
    """The votes on each document, given the outcomes of all votes, (V, N), as `Votes.outcomes` gives them."""
    counts = (~np.isnan(outcomes)).sum(0)
    has_votes = counts > 0
    differences = np.nansum(outcomes[:, has_votes], 0)
    return _DocumentVotes(differences, counts[has_votes])


def _preference(document_votes: _DocumentVotes, resamples: int, seed: int) -> Preference:
    """The mean of wins minus losses, with an interval and a p-value if there are at least two documents.

    The bootstrap and the randomization draw documents and not votes, as the votes on the same document are not
    independent.
    """
    differences, counts = document_votes.differences, document_votes.counts
    documents = len(counts)
    mean = 100 * float(differences.sum() / counts.sum())
    preference: Preference = {"mean": mean, "documents": documents, "interval": None, "p_value": None}
    if documents > 1:
        rows = np.column_stack((100 * differences, counts))
        interval = bootstrap_interval(rows, resamples, seed=seed, measure=ratio)
        preference["interval"] = [interval.low, interval.high]
        preference["p_value"] = paired_randomization(differences, np.zeros(documents), resamples, seed)
    return preference


def _more_documents(document_votes: _DocumentVotes, p_value: float | None) -> int | None:
    """How many further documents would probably decide which system is preferred.

    Args:
        document_votes: the votes on the documents that have votes.
        p_value: the p-value of the preference on these documents; None if it is unknown.

    Returns:
        0 if the documents with votes decide; None if the number is unknown or unrealistic.
    """
    documents = len(document_votes.counts)
    if documents < _MIN_DOCUMENTS or p_value is None:
        return None
    if p_value <= _SIGNIFICANCE_LEVEL:
        return 0
    more = max(1, examples_to_decide(document_votes.differences) - documents)
    if more > _MAX_DOCUMENTS:
        return None
    return int(more)


@dataclass(frozen=True)
class _Agreement:
    """The agreement of voters; None where it cannot be computed."""

    kappa: float | None = None
    alpha: float | None = None
    ordinal_alpha: float | None = None
    kappa_documents: int | None = None


def _agreement(outcomes: np.ndarray) -> _Agreement:
    """The agreement of voters, given the outcomes of all votes, (V, N)."""
    if len(outcomes) < 2:
        return _Agreement()
    all_voted = ~np.isnan(outcomes).any(0)
    documents = int(all_voted.sum())
    kappa = math.nan
    if documents:
        kappa = fleiss_kappa(outcomes[:, all_voted])
    return _Agreement(
        kappa=_none_for_nan(kappa),
        alpha=_none_for_nan(krippendorff_alpha(outcomes)),
        ordinal_alpha=_none_for_nan(krippendorff_alpha(outcomes, "ordinal")),
        kappa_documents=documents,
    )


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def as_text(report: VoteReport) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    parts = []
    for pair in report["pairs"]:
        parts.append(f"{pair['first']} against {pair['second']}")
        parts.append(_votes_table(report, pair))
        parts.append(_preference_table(pair))
        parts.append(_sides_table(pair))
    parts.append(_settings_line(report))
    return "\n\n".join(parts) + "\n"


def _votes_table(report: VoteReport, pair: PairFigures) -> str:
    """The table of wins, losses, ties and kappa, as papers have it, with two more measures of agreement."""
    is_in_documents = report["unit"] == "documents"
    unit = "documents" if is_in_documents else "%"
    columns = [f"Votes, {unit}", "Win", "Lose", "Tie", "Kappa", "Alpha", "Ordinal alpha"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        vote_counts = [figures["wins"], figures["losses"], figures["ties"]]
        if is_in_documents:
            # The cells are mean numbers of documents per voter.
            divisor = report["voters"]
        else:
            # The cells are percentages of the votes.
            divisor = sum(vote_counts) / 100
        row = [_title(aspect)]
        for vote_count in vote_counts:
            row.append(_quotient_cell(vote_count, divisor, report["digits"]))
        for agreement in (figures["kappa"], figures["alpha"], figures["ordinal_alpha"]):
            row.append(_agreement_cell(agreement))
        rows.append(row)
    return markdown_table(columns, rows)


def _quotient_cell(dividend: float, divisor: float, digits: int) -> str:
    """A quotient with `digits` decimal places, or "-" if the divisor is 0."""
    if not divisor:
        return "-"
    return f"{dividend / divisor:.{digits}f}"


def _agreement_cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _preference_table(pair: PairFigures) -> str:
    """The table of preferences: a row for each aspect."""
    columns = ["Win - lose, points", "Mean", "95% interval", "p", "Documents to decide"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        preference = figures["preference"]
        if preference is None:
            rows.append([_title(aspect), "-", "-", "-", "-"])
            continue
        row = [
            _title(aspect),
            f"{preference['mean']:+.1f}",
            shown_interval(preference["interval"], "+.1f"),
            shown_p_value(preference["p_value"]),
            _documents_to_decide(preference["documents"], figures["more_documents"]),
        ]
        rows.append(row)
    return markdown_table(columns, rows)


def _documents_to_decide(documents: int, more_documents: int | None) -> str:
    """The cell that says how many further documents are needed.

    Args:
        documents: the number of documents with votes.
        more_documents: as in `AspectFigures`.
    """
    if documents < _MIN_DOCUMENTS:
        return f"at least {_MIN_DOCUMENTS}"
    if more_documents is None:
        return "not at this effect"
    if more_documents == 0:
        return "decided"
    return f"about {more_documents} more"


def _sides_table(pair: PairFigures) -> str:
    """The table of wins of side A and side B: a row for each aspect."""
    rows = []
    for aspect, figures in pair["aspects"].items():
        sides = figures["sides"]
        share_of_a = _quotient_cell(100 * sides["A"], sides["A"] + sides["B"], 1)
        p_value = shown_p_value(sides["p_value"])
        rows.append([_title(aspect), str(sides["A"]), str(sides["B"]), share_of_a, p_value])
    return markdown_table(["Wins by side", "A", "B", "A, %", "p"], rows)


def _title(aspect: str) -> str:
    """The name of an aspect with a capital at its beginning."""
    return aspect[:1].upper() + aspect[1:]


def _settings_line(report: VoteReport) -> str:
    settings = report["settings"]
    return (
        f"documents: {report['documents']}; voters: {report['voters']}; {settings['resamples']} resamples, seed "
        f"{settings['seed']}; hf_summ {settings['hf_summ']}"
    )
