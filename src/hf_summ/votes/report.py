"""Votes as figures and tables: wins, intervals and p-values, agreement of voters, preference for a side."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

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
from hf_summ.votes.sheets import Votes, missing_votes

# significance level
_LEVEL = 0.05
# with fewer documents nothing is decided, whatever p: a single vote changes it, and their deviation is uncertain
_MIN_DOCUMENTS = 10
# beyond this, voting on more documents is unrealistic
_MAX_DOCUMENTS = 10_000
Level = Literal["nominal", "ordinal", "interval"]


def vote_report(votes: Votes, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
    """All figures, ready for JSON.

    - `pairs`: for each pair of systems its `first`, `second`, and `aspects`: name -> figures of the first:
      `wins`, `losses` and `ties` (numbers of votes); `preference`, (wins - losses) per vote in points, -100 to 100,
      over so many `documents` with its 95% bootstrap `interval`, and `p_value` by approximate randomization; Fleiss'
      `kappa` over the `kappa_documents` on which all voted; Krippendorff's `alpha`, and `ordinal_alpha` with ties
      between wins and losses; `sides`, the wins of `A` and `B` with the `p_value` of an exact sign test; and
      `more_documents`, see `examples_to_decide`: 0 if p is at most 0.05, null if more than 10,000 would be needed or
      there are fewer than 10. A figure that cannot be computed is null.
    - `documents`, `voters`: numbers of those with votes; `unit`, `digits`: see `Protocol`.
    - `settings`, and `notes` such as which votes are missing.

    Args:
        votes: the votes.
        resamples: number of resamples of the bootstrap, and of trials of the randomization.
        seed: their random seed.

    Raises:
        ValueError: `resamples` below 1.
    """
    protocol = votes.key.protocol
    voted = {votes.key.items[item].document for _, item in votes.choices}
    pairs = [
        {
            "first": pair[0],
            "second": pair[1],
            "aspects": {aspect: _figures(votes, pair, aspect, resamples, seed) for aspect in protocol.aspects},
        }
        for pair in votes.key.pairs()
    ]
    return {
        "settings": {"resamples": resamples, "seed": seed, "hf_summ": __version__},
        "documents": len(voted),
        "voters": len(votes.sheets()),
        "unit": protocol.unit,
        "digits": protocol.digits,
        "pairs": pairs,
        "notes": [*missing_votes(votes), *_left_out(pairs, protocol.documents)],
    }


def _left_out(pairs: list[dict[str, Any]], documents: int) -> Iterator[str]:
    """A note if Fleiss' kappa counts fewer documents than were drawn."""
    numbers = [figures["kappa_documents"] for pair in pairs for figures in pair["aspects"].values()]
    fewest = min((number for number in numbers if number is not None), default=documents)
    if fewest < documents:
        yield f"kappa counts only documents on which all voted, at least {fewest} of {documents}; alpha counts all"


def _figures(votes: Votes, pair: tuple[str, str], aspect: str, resamples: int, seed: int) -> dict[str, Any]:
    outcomes, sides = votes.outcomes(pair, aspect), votes.sides(pair, aspect)
    wins, losses, ties = (int((outcomes == value).sum()) for value in (1, -1, 0))
    on_a, on_b = (int((sides == value).sum()) for value in (1, -1))
    return {
        "wins": wins,
        "losses": losses,
        "ties": ties,
        **_preference(outcomes, resamples, seed),
        **_agreement(outcomes),
        "sides": {"A": on_a, "B": on_b, "p_value": sign_test(on_a, on_b)},
    }


def _preference(outcomes: np.ndarray, resamples: int, seed: int) -> dict[str, Any]:
    """Figures over documents, as the votes on one document are not independent."""
    numbers = (~np.isnan(outcomes)).sum(0)
    outcomes, numbers = outcomes[:, numbers > 0], numbers[numbers > 0]
    documents = len(numbers)
    if not documents:
        return {"preference": None, "more_documents": None}
    leads = np.nansum(outcomes, 0)
    mean = 100 * float(leads.sum() / numbers.sum())
    preference: dict[str, Any] = {"mean": mean, "documents": documents, "interval": None, "p_value": None}
    if documents == 1:
        return {"preference": preference, "more_documents": None}
    rows = np.column_stack((100 * leads, numbers))
    interval = bootstrap_interval(rows, resamples, seed=seed, measure=ratio)
    preference["interval"] = [interval.low, interval.high]
    preference["p_value"] = paired_randomization(leads, np.zeros(documents), resamples, seed)
    return {"preference": preference, "more_documents": _more(leads / numbers, preference["p_value"])}


def _more(leads: np.ndarray, p_value: float) -> int | None:
    if len(leads) < _MIN_DOCUMENTS:
        return None
    if p_value <= _LEVEL:
        return 0
    more = max(1, examples_to_decide(leads) - len(leads))
    return int(more) if more <= _MAX_DOCUMENTS else None


def _agreement(outcomes: np.ndarray) -> dict[str, float | None]:
    if len(outcomes) < 2:
        return dict.fromkeys(("kappa", "kappa_documents", "alpha", "ordinal_alpha"))
    complete = outcomes[:, ~np.isnan(outcomes).any(0)]
    documents = complete.shape[1]
    values = {
        "kappa": fleiss_kappa(complete) if documents else math.nan,
        "alpha": krippendorff_alpha(outcomes),
        "ordinal_alpha": krippendorff_alpha(outcomes, "ordinal"),
    }
    numbers = {name: None if math.isnan(value) else value for name, value in values.items()}
    return {**numbers, "kappa_documents": documents}


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    tables = []
    for pair in report["pairs"]:
        tables.append(f"{pair['first']} against {pair['second']}")
        tables += [_votes_table(report, pair), _preference_table(pair), _sides_table(pair)]
    return "\n\n".join((*tables, _settings_line(report))) + "\n"


def _votes_table(report: dict[str, Any], pair: dict[str, Any]) -> str:
    """The table of papers, with two more measures of agreement."""
    unit = "documents" if report["unit"] == "documents" else "%"
    columns = [f"Votes, {unit}", "Win", "Lose", "Tie", "Kappa", "Alpha", "Ordinal alpha"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        numbers = [figures[name] for name in ("wins", "losses", "ties")]
        # documents per voter on average, or a share of all votes
        total = report["voters"] if report["unit"] == "documents" else sum(numbers) / 100
        shares = [f"{number / total:.{report['digits']}f}" if total else "-" for number in numbers]
        agreement = (figures[name] for name in ("kappa", "alpha", "ordinal_alpha"))
        rows.append([_title(aspect), *shares, *("-" if value is None else f"{value:.3f}" for value in agreement)])
    return markdown_table(columns, rows)


def _preference_table(pair: dict[str, Any]) -> str:
    columns = ["Win - lose, points", "Mean", "95% interval", "p", "Documents to decide"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        preference, more = figures["preference"], figures["more_documents"]
        if preference is None:
            rows.append([_title(aspect), *["-"] * 4])
            continue
        if preference["documents"] < _MIN_DOCUMENTS:
            needed = f"at least {_MIN_DOCUMENTS}"
        else:
            needed = "not at this effect" if more is None else f"about {more} more" if more else "decided"
        row = [_title(aspect), f"{preference['mean']:+.1f}", shown_interval(preference["interval"], "+.1f")]
        rows.append([*row, shown_p_value(preference["p_value"]), needed])
    return markdown_table(columns, rows)


def _sides_table(pair: dict[str, Any]) -> str:
    rows = []
    for aspect, figures in pair["aspects"].items():
        a, b = figures["sides"]["A"], figures["sides"]["B"]
        share = f"{100 * a / (a + b):.1f}" if a + b else "-"
        rows.append([_title(aspect), str(a), str(b), share, shown_p_value(figures["sides"]["p_value"])])
    return markdown_table(["Wins by side", "A", "B", "A, %", "p"], rows)


def _title(aspect: str) -> str:
    return aspect[:1].upper() + aspect[1:]


def _settings_line(report: dict[str, Any]) -> str:
    settings = report["settings"]
    return (
        f"documents: {report['documents']}; voters: {report['voters']}; {settings['resamples']} resamples, seed "
        f"{settings['seed']}; hf_summ {settings['hf_summ']}"
    )


def fleiss_kappa(judgments: Sequence[Sequence[float]] | np.ndarray) -> float:
    """Fleiss' κ: 1 for full agreement, 0 for agreement by chance; NaN if all judgments are the same.

    Source: Fleiss (1971), "Measuring nominal scale agreement among many raters".

    Args:
        judgments: (V, N) codes of categories, none missing.

    Raises:
        ValueError: fewer than two judges, no units, or missing judgments.
    """
    values = _check(judgments)
    if np.isnan(values).any():
        judge, unit = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"`judgments` has none of judge {judge} on unit {unit}, but Fleiss' kappa needs all: omit the unit, "
            "or use `krippendorff_alpha`"
        )
    judges = len(values)
    counts = _counts(values)
    agreement = ((counts**2).sum(1) - judges) / (judges * (judges - 1))
    chance = float(((counts.sum(0) / values.size) ** 2).sum())
    return (float(agreement.mean()) - chance) / (1 - chance) if counts.shape[1] > 1 else math.nan


def krippendorff_alpha(judgments: Sequence[Sequence[float]] | np.ndarray, level: Level = "nominal") -> float:
    """Krippendorff's α: 1 for full agreement, 0 for agreement by chance; NaN if no two judgments differ.

    Units with fewer than two judgments do not count. Source: Krippendorff (2011), "Computing Krippendorff's
    alpha-reliability".

    Args:
        judgments: (V, N) numbers, NaN where one is missing.
        level: which properties of the numbers count: only whether they differ ("nominal"), also their order
            ("ordinal"), or also their distances ("interval").

    Raises:
        ValueError: fewer than two judges, or no units.
    """
    values = _check(judgments)
    counts = _counts(values)
    counts = counts[counts.sum(1) > 1]
    # each judgment is paired with the others of its unit
    shares = counts / (counts.sum(1, keepdims=True) - 1)
    coincidences = shares.T @ counts - np.diag(shares.sum(0))
    totals = coincidences.sum(0)
    if (totals > 0).sum() < 2:
        return math.nan
    distances = _DISTANCES[level](np.unique(values[~np.isnan(values)]), totals)
    # how often two would coincide by chance; pairs of equal values have no distance and do not matter
    expected = np.outer(totals, totals) / (totals.sum() - 1)
    return 1 - float((coincidences * distances).sum() / (expected * distances).sum())


def _check(judgments: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    values = np.asarray(judgments, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or not values.shape[1]:
        raise ValueError(
            f"`judgments` has shape {values.shape}, but must have a row for each of at least two judges, and a column "
            "for each unit"
        )
    return values


def _counts(values: np.ndarray) -> np.ndarray:
    """(N, K): how many judges gave each unit each of the K values, in their order."""
    return (values[:, :, None] == np.unique(values[~np.isnan(values)])).sum(0).astype(np.float64)


def _ordinal(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The squared number of judgments from one value to the other; both ends count half."""
    middles = np.cumsum(totals) - totals / 2
    return (middles[:, None] - middles) ** 2


# squared distances of all values, (K, K), from the values and how often they occur
_DISTANCES = {
    "nominal": lambda values, totals: 1 - np.eye(len(values)),
    "ordinal": _ordinal,
    "interval": lambda values, totals: (values[:, None] - values) ** 2,
}
