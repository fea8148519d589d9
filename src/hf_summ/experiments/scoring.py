"""The outcomes of a table's rows, their measures, and verdicts on published differences and claims."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import datasets
import numpy as np

from hf_summ.data.columns import reference_texts
from hf_summ.evaluation.measures import Settings, measure_of
from hf_summ.evaluation.rouge import RougeSettings, in_pieces
from hf_summ.evaluation.significance import (
    Comparison,
    Scored,
    bootstrap_interval,
    examples_to_decide,
    paired_bootstrap,
    perplexity,
)
from hf_summ.experiments.tables import ROUGE_MEASURES, Row, Table

# relations: spans with about equal numbers of documents, so that their means have similar errors
_SPANS = 8
# the problem of a row that is not trained yet
WAITING = "not run yet"
# text -> its subwords, for scores that count subwords
Pieces = Callable[[str], list[str]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row on a data set.

    Args:
        problem: why it has no measures: it was not run or, if `failed`, did not complete.
        predictions: one summary per test document; None for rows that are not trained.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference; None for rows that are not
            trained.
        values: name -> (N,), which the recipe wrote for each summary.
        facts: facts about the trained model: its run, parameters, updates, epochs, seed, documents summarized per
            second, `curve`, (update, nll) of each log entry, and the tokens and seconds of training if known.
        measures: measures by name: `Scored` for systems, numbers in tables that do not compare systems.
    """

    row: Row
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, Any] = field(default_factory=dict)


def over_seeds(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Merge the outcomes of each row's seeds; a row fails if any of its seeds did."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.row.row, []).append(outcome)
    return [_over_seeds(seeds) for seeds in rows.values()]


def _over_seeds(outcomes: Sequence[Outcome]) -> Outcome:
    done, failed = ([one for one in outcomes if one.measures], [one for one in outcomes if one.failed])
    row = (done or outcomes)[0]
    if len(done) > 1:
        measures = {name: _pooled([one.measures[name] for one in done]) for name in row.measures}
        row = replace(row, measures=measures, facts=_averaged([one.facts for one in done]))
    return replace(row, problem=failed[0].problem, failed=True) if failed else row


def _averaged(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts of several seeds' runs: those of the first, with the means of recorded quantities."""
    recorded = ("tokens", "seconds", "documents_per_second")
    means = {
        name: float(np.mean([one[name] for one in seeds])) for name in recorded if all(name in one for one in seeds)
    }
    # a run that stopped early has fewer entries
    points = zip(*(one.get("curve", ()) for one in seeds), strict=False)
    curve = [np.mean(point, axis=0).tolist() for point in points]
    return {**seeds[0], **means, "curve": curve, "seeds": [one["seed"] for one in seeds]}


def why_not_run(row: Row) -> str | None:
    """Why a row is not run, or None for other rows."""
    return row.unavailable if row.literature is None else f"literature: {row.literature}"


def score(
    table: Table,
    language: str,
    corpus: datasets.Dataset,
    predictions: Sequence[str],
    losses: np.ndarray | None,
    pieces: Pieces | None,
) -> dict[str, Scored]:
    """The table's measures of one system; perplexity only if losses are given.

    Args:
        corpus: the test documents with their summaries, and `references` if they have several.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference.
        pieces: splits texts into subwords, for tables that count subwords.
    """
    references, scored = reference_texts(corpus), {}
    rouge: dict[str, Any] = {"score": "fmeasure", "language": language, **table.rouge}
    settings = Settings(
        rouge_types=tuple(name for name in table.measures if name in ROUGE_MEASURES),
        sentences="lines" if table.unit == "wordpieces" else "split",
        count_punctuation=table.count_punctuation,
        rouge_part=rouge.pop("score"),
        **rouge,
    )
    for measure in dict.fromkeys(map(measure_of, table.measures)):
        if measure is None:
            continue
        texts = predictions, (corpus["document"] if measure.reads == "sources" else references)
        if measure.name == "rouge" and table.unit == "wordpieces":
            if pieces is None:
                raise ValueError("the table scores subwords, but this row has no model that defines them")
            reading = RougeSettings(language=language)
            texts = in_pieces(predictions, pieces, reading), in_pieces(references, pieces, reading)
        with warnings.catch_warnings():
            if "language" in table.rouge:
                # a table that reads another language's words means to
                warnings.simplefilter("ignore", UserWarning)
            scored |= measure.compute(*texts, settings)
    if losses is not None:
        scored["perplexity"] = Scored(losses, perplexity)
    return {name: scored[name] for name in table.measures if name in scored}


def compare(ours: Scored, baseline: Scored) -> Comparison | None:
    """A system's measure minus the baseline's, on the same resamples; None if it is undefined in one of them."""
    try:
        return paired_bootstrap(ours.statistics, baseline.statistics, measure=ours.measure)
    except ValueError:
        return None


def verdict(published: float | None, ours: Comparison | None) -> str | None:
    """Whether the direction of a published difference from the baseline holds here.

    "holds" and "fails" mean that our interval excludes zero, on the published side or on the other; "undecided" means
    that it does not. None if no difference was published, or it was zero, or nothing was run. Only the signs of the
    differences count, not whether higher or lower is better.
    """
    if not published or ours is None:
        return None
    if not ours.significant:
        return "undecided"
    return "holds" if (ours.mean > 0) == (published > 0) else "fails"


def claims(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The claims: for each `row` and a row that it should be `above`, the `measures` of ROUGE that both have.

    Each measure has its `difference` with `low` and `high`, a `verdict` as `verdict`, and
    the number of `documents` that would decide the claim, or None if no number would.
    """
    measures = {outcome.row.row: outcome.measures for outcome in outcomes}
    tested = []
    for outcome in outcomes:
        for other in outcome.row.above:
            ours, theirs = outcome.measures, measures.get(other, {})
            both = [name for name in ROUGE_MEASURES if name in ours and name in theirs]
            cells = {name: _claim(ours[name], theirs[name]) for name in both}
            tested.append({"row": outcome.row.row, "above": other, "measures": cells})
    return tested


def _claim(ours: Scored, theirs: Scored) -> dict[str, Any]:
    difference = compare(ours, theirs)
    assert difference is not None, "ROUGE has a value for every document"
    judged = verdict(1.0, difference)
    # if the ranges over seeds overlap, another seed might reverse the verdict
    seeds = ours.seeds, theirs.seeds
    if all(seeds) and max(map(min, seeds)) <= min(map(max, seeds)):
        judged = "undecided"
    (a, count), (b, other_count) = ours.statistics.T, theirs.statistics.T
    documents = examples_to_decide(a / count - b / other_count) if len(a) > 1 else math.inf
    return {
        "difference": {"value": difference.mean, "low": difference.low, "high": difference.high},
        "verdict": judged,
        "documents": None if math.isinf(documents) else documents,
    }


def relation(values: np.ndarray, scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The points, Spearman's rank correlation of each score with the value, and mean scores by spans of the value.

    Args:
        values: (N,).
        scores: measure -> (N,).

    Returns:
        `points`: (value, scores…) of each document; `correlations`: measure -> `value`, `low` and `high`, by bootstrap
        over documents with fixed ranks, or None if all values or scores are equal; `spans`: each from `low` to `high`,
        with its number of `documents` and mean `scores`.
    """
    order = np.argsort(values, kind="stable")
    spans = [
        {
            "low": float(values[span[0]]),
            "high": float(values[span[-1]]),
            "documents": len(span),
            "scores": {measure: float(score[span].mean()) for measure, score in scores.items()},
        }
        for span in np.array_split(order, min(_SPANS, len(order)))
    ]
    points = np.column_stack([values, *scores.values()]).tolist()
    correlations = {measure: rank_correlation(values, score) for measure, score in scores.items()}
    return {"points": points, "correlations": correlations, "spans": spans}


def rank_correlation(one: np.ndarray, other: np.ndarray) -> dict[str, float] | None:
    """Spearman's ρ with its 95% bootstrap interval; None if it is undefined."""
    if min(len(np.unique(one)), len(np.unique(other))) < 2:
        return None
    x, y = (_ranks(values) / len(values) - 0.5 for values in (one, other))
    statistics = np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])
    try:
        with np.errstate(all="ignore"):
            interval = bootstrap_interval(statistics, measure=_correlation)
    except ValueError:
        return None
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _pooled(scored: Sequence[Scored]) -> Scored:
    values = [one.value() for one in scored]
    seeds = tuple(value for value in values if value is not None)
    return Scored(np.sum([one.statistics for one in scored], axis=0), scored[0].measure, seeds)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values have their mean rank."""
    _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[numbers]


def _correlation(sums: np.ndarray) -> np.ndarray:
    number, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    return (number * xy - x * y) / np.sqrt((number * xx - x * x) * (number * yy - y * y))
