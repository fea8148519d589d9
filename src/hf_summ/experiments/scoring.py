"""The outcomes of a table's rows, their measures, and verdicts on published differences and claims."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import datasets
import numpy as np

from hf_summ.data.columns import reference_texts
from hf_summ.evaluation.measures import Measure, Settings, measure_of
from hf_summ.evaluation.rouge import RougeSettings, in_pieces
from hf_summ.evaluation.significance import (
    Comparison,
    Scored,
    bootstrap_interval,
    examples_to_decide,
    paired_bootstrap,
    perplexity,
)
from hf_summ.experiments.content import Claim, ClaimCell, Relation, RunFacts, Span, ValueInterval
from hf_summ.experiments.tables import ROUGE_MEASURES, Entry, Row, Table

# A relation has at most so many spans. They have about equal numbers of documents, so that their means have similar
# errors.
_SPANS = 8
# The problem of a row that is not trained yet.
WAITING = "not run yet"
# A function from a text to its subwords, for scores that count subwords.
Pieces = Callable[[str], list[str]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row on a data set.

    Args:
        row: the row of the table.
        problem: why it has no measures: it was not run or, if `failed`, did not complete.
        failed: whether it was run and did not complete.
        predictions: one summary per test document; None for rows that are not trained.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference; None for rows that are not
            trained.
        values: name -> (N,), which the recipe wrote for each summary.
        facts: facts about the trained model; empty for rows that are not trained.
        measures: measure -> its score, for systems.
        figures: measure -> its number or None, in tables that do not compare systems.
    """

    row: Row
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: RunFacts = field(default_factory=RunFacts)
    measures: Mapping[str, Scored] = field(default_factory=dict)
    figures: Mapping[str, float | None] = field(default_factory=dict)


def over_seeds(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Merge the outcomes of each row's seeds; a row fails if any of its seeds did."""
    outcomes_of_rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        outcomes_of_rows.setdefault(outcome.row.row, []).append(outcome)
    merged_outcomes = []
    for outcomes_of_row in outcomes_of_rows.values():
        merged_outcomes.append(_merged_seeds(outcomes_of_row))
    return merged_outcomes


def _merged_seeds(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a row, from the outcomes of all its seeds."""
    scored = []
    failed = []
    for outcome in outcomes:
        if outcome.measures:
            scored.append(outcome)
        if outcome.failed:
            failed.append(outcome)
    merged = outcomes[0]
    if scored:
        merged = scored[0]
    if len(scored) > 1:
        measures = {}
        for name in merged.measures:
            measures[name] = _pooled([outcome.measures[name] for outcome in scored])
        facts = _averaged([outcome.facts for outcome in scored])
        merged = replace(merged, measures=measures, facts=facts)
    if failed:
        merged = replace(merged, problem=failed[0].problem, failed=True)
    return merged


def _averaged(facts_of_seeds: Sequence[RunFacts]) -> RunFacts:
    """The facts of several seeds' runs: the facts of the first run, with means of the quantities that runs record."""
    averaged = facts_of_seeds[0].copy()
    for name in ("tokens", "seconds", "documents_per_second"):
        values = []
        for facts in facts_of_seeds:
            if name in facts:
                values.append(facts[name])
        if len(values) == len(facts_of_seeds):
            averaged[name] = float(np.mean(values))
    curves = [facts.get("curve", []) for facts in facts_of_seeds]
    mean_curve = []
    # A run that stopped early has fewer entries, and the mean curve ends with it.
    for entries in zip(*curves, strict=False):
        mean_curve.append(np.mean(entries, axis=0).tolist())
    averaged["curve"] = mean_curve
    averaged["seeds"] = [facts["seed"] for facts in facts_of_seeds]
    return averaged


def why_not_run(row: Row) -> str | None:
    """Why a row is not run, or None for a row that is run."""
    if row.literature is not None:
        return f"literature: {row.literature}"
    return row.unavailable


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
        language: ISO 639 code of the texts.
        corpus: the test documents with their summaries, and `references` if they have several.
        predictions: one summary per test document.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference.
        pieces: splits texts into subwords, for tables that count subwords.

    Raises:
        ValueError: the table counts subwords, and there is no function that splits texts into them.
    """
    settings = _measure_settings(table, language)
    references = reference_texts(corpus)
    scores: dict[str, Scored] = {}
    for measure in _measures_of(table):
        system_texts = predictions
        compared_texts = references
        if measure.reads == "sources":
            compared_texts = corpus["document"]
        if measure.name == "rouge" and table.unit == "wordpieces":
            if pieces is None:
                raise ValueError("the table scores subwords, but this row has no model that defines them")
            rouge_settings = RougeSettings(language=language)
            system_texts = in_pieces(predictions, pieces, rouge_settings)
            compared_texts = in_pieces(references, pieces, rouge_settings)
        with warnings.catch_warnings():
            if "language" in table.rouge:
                # The table reads another language's words on purpose.
                warnings.simplefilter("ignore", UserWarning)
            scores |= measure.compute(system_texts, compared_texts, settings)
    if losses is not None:
        scores["perplexity"] = Scored(losses, perplexity)
    table_scores = {}
    for name in table.measures:
        if name in scores:
            table_scores[name] = scores[name]
    return table_scores


def _measure_settings(table: Table, language: str) -> Settings:
    """The settings with which the measures of a table are computed, for texts of a language."""
    options: Entry = {"language": language, **table.rouge}
    rouge_part = options.pop("score", "fmeasure")
    rouge_types = []
    for name in table.measures:
        if name in ROUGE_MEASURES:
            rouge_types.append(name)
    sentences = "split"
    if table.unit == "wordpieces":
        # Texts in subwords have a sentence in each line.
        sentences = "lines"
    return Settings(
        rouge_types=tuple(rouge_types),
        sentences=sentences,
        count_punctuation=table.count_punctuation,
        rouge_part=rouge_part,
        **options,
    )


def _measures_of(table: Table) -> list[Measure]:
    """The entries of the table of measures that compute a table's measures, each once."""
    entries: list[Measure] = []
    for name in table.measures:
        measure = measure_of(name)
        # Perplexity has no entry.
        if measure is not None and measure not in entries:
            entries.append(measure)
    return entries


def compare(scored: Scored, baseline: Scored) -> Comparison | None:
    """A system's measure minus the baseline's, on the same resamples; None if it is undefined in one of them."""
    try:
        return paired_bootstrap(scored.statistics, baseline.statistics, measure=scored.measure)
    except ValueError:
        return None


def verdict(published: float | None, comparison: Comparison | None) -> str | None:
    """Whether the direction of a published difference from the baseline holds here.

    "holds" means that our interval excludes zero on the published side, and "fails" that it does so on the opposite
    side. "undecided" means that our interval includes zero. Only the signs of the differences count, not whether higher
    or lower is better.

    Args:
        published: the published difference, or None.
        comparison: our difference, or None.

    Returns:
        The verdict; None if no difference was published, or it was zero, or nothing was run.
    """
    if not published or comparison is None:
        return None
    if not comparison.significant:
        return "undecided"
    if (comparison.mean > 0) == (published > 0):
        return "holds"
    return "fails"


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """The papers' claims, tested: for each row and each row that it should exceed, the measures of ROUGE of both."""
    measures_of_rows = {outcome.row.row: outcome.measures for outcome in outcomes}
    tested: list[Claim] = []
    for outcome in outcomes:
        for exceeded_row in outcome.row.above:
            measures = outcome.measures
            exceeded_measures = measures_of_rows.get(exceeded_row, {})
            cells = {}
            for name in ROUGE_MEASURES:
                if name in measures and name in exceeded_measures:
                    cells[name] = _claim_cell(measures[name], exceeded_measures[name])
            tested.append({"row": outcome.row.row, "above": exceeded_row, "measures": cells})
    return tested


def _claim_cell(scored: Scored, exceeded: Scored) -> ClaimCell:
    """The test of the claim that a row's measure exceeds that of another row."""
    difference = compare(scored, exceeded)
    assert difference is not None, "ROUGE has a value for every document"
    judged = verdict(1.0, difference)
    if _seeds_overlap(scored, exceeded):
        # Another seed might reverse the verdict.
        judged = "undecided"
    differences = _means_of_documents(scored) - _means_of_documents(exceeded)
    documents = math.inf
    if len(differences) > 1:
        documents = examples_to_decide(differences)
    return {
        "difference": {"value": difference.mean, "low": difference.low, "high": difference.high},
        "verdict": judged,
        "documents": None if math.isinf(documents) else documents,
    }


def _seeds_overlap(scored: Scored, exceeded: Scored) -> bool:
    """Whether both rows have several seeds, and the ranges of their values overlap."""
    if not scored.seeds or not exceeded.seeds:
        return False
    highest_minimum = max(min(scored.seeds), min(exceeded.seeds))
    lowest_maximum = min(max(scored.seeds), max(exceeded.seeds))
    return highest_minimum <= lowest_maximum


def _means_of_documents(scored: Scored) -> np.ndarray:
    """(N,), the mean score of each document over the seeds."""
    sums, counts = scored.statistics.T
    return sums / counts


def relation(values: np.ndarray, scores: Mapping[str, np.ndarray]) -> Relation:
    """The points, Spearman's rank correlation of each score with the value, and mean scores by spans of the value.

    Args:
        values: (N,), a value of each document's summary.
        scores: measure -> (N,), its score.

    Returns:
        `points`: (value, scores…) of each document; `correlations`: measure -> `value`, `low` and `high`, by bootstrap
        over documents with fixed ranks, or None if all values or scores are equal; `spans`: each from `low` to `high`,
        with its number of `documents` and mean `scores`.
    """
    order = np.argsort(values, kind="stable")
    spans: list[Span] = []
    for members in np.array_split(order, min(_SPANS, len(order))):
        means = {}
        for measure, score_values in scores.items():
            means[measure] = float(score_values[members].mean())
        low = float(values[members[0]])
        high = float(values[members[-1]])
        spans.append({"low": low, "high": high, "documents": len(members), "scores": means})
    points = np.column_stack([values, *scores.values()]).tolist()
    correlations = {}
    for measure, score_values in scores.items():
        correlations[measure] = rank_correlation(values, score_values)
    return {"points": points, "correlations": correlations, "spans": spans}


def rank_correlation(first: np.ndarray, second: np.ndarray) -> ValueInterval | None:
    """Spearman's ρ of two variables, both (N,), with its 95% bootstrap interval; None if it is undefined."""
    if len(np.unique(first)) < 2 or len(np.unique(second)) < 2:
        return None
    x = _centered_ranks(first)
    y = _centered_ranks(second)
    statistics = np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])
    try:
        with np.errstate(all="ignore"):
            interval = bootstrap_interval(statistics, measure=_correlation)
    except ValueError:
        return None
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _pooled(scores: Sequence[Scored]) -> Scored:
    """The score of a row over its seeds, from the score of each seed: their statistics are summed."""
    seed_values = []
    for scored in scores:
        value = scored.value()
        if value is not None:
            seed_values.append(value)
    statistics = np.sum([scored.statistics for scored in scores], axis=0)
    return Scored(statistics, scores[0].measure, tuple(seed_values))


def _centered_ranks(values: np.ndarray) -> np.ndarray:
    """(N,), the ranks of values as shares of their number, minus 1/2; equal values have their mean rank."""
    _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    return mean_ranks[numbers] / len(values) - 0.5


def _correlation(sums: np.ndarray) -> np.ndarray:
    """Pearson's correlation from the sums of (1, x, y, x², y², xy) over documents: (…, 6) -> (…)."""
    number, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    covariance = number * xy - x * y
    variance_x = number * xx - x * x
    variance_y = number * yy - y * y
    return covariance / np.sqrt(variance_x * variance_y)
