"""The outcomes of a table's rows: their scores, verdicts on published differences, and tests of the papers' claims.

An outcome is the result of running a row on a data set, with one seed. A measure is the name of a score, such as
"rouge1". The published figures are the numbers that a paper prints.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from datasets import Dataset

from hf_summ.data.columns import reference_texts
from hf_summ.evaluation.measures import Measure, Settings, measure_of
from hf_summ.evaluation.rouge import RougeSettings, in_subwords
from hf_summ.evaluation.significance import (
    Comparison,
    Scored,
    bootstrap_interval,
    examples_to_decide,
    paired_bootstrap,
    perplexity,
    ratio,
)
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.experiments.content import Claim, ClaimCell, Relation, RunFacts, Span, ValueInterval
from hf_summ.experiments.tables import ROUGE_MEASURES, Entry, Row, Table

# The most spans of a relation. Spans have about equal numbers of documents, so that the errors of their means are
# similar.
_SPANS = 8
# The problem of a row whose training or decoding has not begun.
WAITING = "not run yet"
# A function that splits a text into subwords, for tables that score subwords in place of words.
Pieces = Callable[[str], list[str]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row on a data set. N is the number of summarized documents.

    Args:
        row: the row of the table, with one of the table's seeds among its flags if the table has seeds.
        problem: why the row has no result, or None. The row was not run or, if `failed`, did not complete.
        failed: whether the row was run and did not complete.
        predictions: N summaries; None before decoding and for rows that are not trained.
        losses: (N, 2), the negative log-likelihood and the number of tokens of each reference; None if unknown.
        values: name -> (N,), a value that the recipe wrote for each summary, such as the divergence.
        facts: facts about the trained model; empty for rows that are not trained.
        measures: measure -> the row's score, in tables that score systems; empty before scoring.
        numbers: measure -> the row's number or None, in all other tables.
    """

    row: Row
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: RunFacts = field(default_factory=RunFacts)
    measures: Mapping[str, Scored] = field(default_factory=dict)
    numbers: Mapping[str, float | None] = field(default_factory=dict)


def over_seeds(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Merge the outcomes of the same row with different seeds. The order of the rows stays.

    A merged outcome has the pooled scores of the seeds that were scored. It has failed if one of its seeds failed.
    """
    outcomes_of_rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        outcomes_of_rows.setdefault(outcome.row.row, []).append(outcome)
    merged_outcomes = []
    for outcomes_of_row in outcomes_of_rows.values():
        merged_outcomes.append(_merged_seeds(outcomes_of_row))
    return merged_outcomes


def _merged_seeds(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a row, merged from its outcomes with several seeds.

    The predictions, losses and values are taken from the first seed that was scored or, if no seed was scored, from the
    first seed.

    Args:
        outcomes: the outcome with each seed, at least one.
    """
    scored_outcomes = []
    failed_outcomes = []
    for outcome in outcomes:
        if outcome.measures:
            scored_outcomes.append(outcome)
        if outcome.failed:
            failed_outcomes.append(outcome)
    merged = outcomes[0]
    if scored_outcomes:
        merged = scored_outcomes[0]
    if len(scored_outcomes) > 1:
        measures = {}
        for name in merged.measures:
            measures[name] = _pooled([outcome.measures[name] for outcome in scored_outcomes])
        facts = _averaged([outcome.facts for outcome in scored_outcomes])
        merged = replace(merged, measures=measures, facts=facts)
    if failed_outcomes:
        merged = replace(merged, problem=failed_outcomes[0].problem, failed=True)
    return merged


def _averaged(facts_of_seeds: Sequence[RunFacts]) -> RunFacts:
    """The facts of a row with several seeds: the facts of the first seed, with means over all seeds.

    Means are taken of the tokens, the seconds, the documents per second and the curve. A quantity that is unknown for
    some of the seeds keeps the value of the first seed. `seeds` lists all seeds.
    """
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
    # The mean curve is as long as the shortest curve: a run that stopped early has fewer log entries.
    for entries in zip(*curves, strict=False):
        mean_curve.append(np.mean(entries, axis=0).tolist())
    averaged["curve"] = mean_curve
    averaged["seeds"] = [facts["seed"] for facts in facts_of_seeds]
    return averaged


def why_not_run(row: Row) -> str | None:
    """Why the table says that a row is not run: it is from other literature, or unavailable. None if it is run."""
    if row.literature is not None:
        return f"literature: {row.literature}"
    return row.unavailable


def texts_without_tags(texts: Iterable[str | Sequence[str]]) -> list:
    """The texts with line ends in place of tags between sentences, as the training recipe and `hf-summ evaluate` do.

    Args:
        texts: texts, or lists of texts, such as the references of each document.

    Returns:
        A list with the shape of `texts`.
    """
    tag = tag_pattern()
    untagged: list[str | list[str]] = []
    for text in texts:
        if isinstance(text, str):
            untagged.append(without_tags(text, tag))
        else:
            untagged.append([without_tags(part, tag) for part in text])
    return untagged


def score(
    table: Table,
    language: str,
    corpus: Dataset,
    predictions: Sequence[str],
    losses: np.ndarray | None,
    pieces: Pieces | None,
) -> dict[str, Scored]:
    """Score the summaries of one system in the measures of a table. Tags in the texts are read as ends of sentences.

    Args:
        table: a table that scores systems.
        language: ISO 639 code of the language in which the documents and summaries are written.
        corpus: the N summarized documents with their reference summaries. Its column `references` is optional: it has
            a list of references for each document that has several.
        predictions: the N summaries of the system.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference, for perplexity; None if unknown.
        pieces: function that splits a text into subwords. Only tables with the unit "wordpieces" need it.

    Returns:
        Measure of the table -> the system's score. Perplexity is missing if `losses` is None.

    Raises:
        ValueError: ROUGE cannot be computed, or the table scores subwords and `pieces` is None.
        ImportError: a library that a measure needs is not installed.
    """
    settings = _measure_settings(table, language)
    predictions = texts_without_tags(predictions)
    references = texts_without_tags(reference_texts(corpus))
    scores: dict[str, Scored] = {}
    for measure in _measures_of(table):
        system_texts = predictions
        compared_texts = references
        if measure.reads == "sources":
            compared_texts = texts_without_tags(corpus["document"])
        if measure.name == "rouge" and table.unit == "wordpieces":
            if pieces is None:
                raise ValueError("the table scores subwords, but this row has no model that defines them")
            # Texts are split into sentences by the rules of their own language. `settings` may have another language,
            # which the table chose for the words that ROUGE compares.
            sentence_settings = RougeSettings(language=language)
            system_texts = in_subwords(predictions, pieces, sentence_settings)
            compared_texts = in_subwords(references, pieces, sentence_settings)
        with warnings.catch_warnings():
            if "language" in table.rouge:
                # ROUGE warns that the texts are not in the language of the settings, but the table chose it on purpose.
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
    """The settings of a table's measures.

    Args:
        table: a table that scores systems. Its `rouge` may name another language, whose words ROUGE compares.
        language: ISO 639 code of the language of the texts.
    """
    # Later entries override earlier ones: the language of `table.rouge` overrides the language of the texts.
    options: Entry = {"language": language, **table.rouge}
    rouge_part = options.pop("score", "fmeasure")
    rouge_types = []
    for name in table.measures:
        if name in ROUGE_MEASURES:
            rouge_types.append(name)
    sentences = "split"
    if table.unit == "wordpieces":
        # Only ROUGE reads `sentences`, and `score` gives it texts in subwords, with one sentence in each line.
        sentences = "lines"
    return Settings(
        rouge_types=tuple(rouge_types),
        sentences=sentences,
        count_punctuation=table.count_punctuation,
        rouge_part=rouge_part,
        **options,
    )


def _measures_of(table: Table) -> list[Measure]:
    """The entries of `hf_summ.evaluation.measures` that compute the measures of a paper's table, each once.

    One entry may compute several measures: the entry `rouge` computes all types of ROUGE.
    """
    entries: list[Measure] = []
    for name in table.measures:
        measure = measure_of(name)
        # Perplexity has no entry, as it is computed from losses instead of texts.
        if measure is not None and measure not in entries:
            entries.append(measure)
    return entries


def compare(scored: Scored, baseline: Scored) -> Comparison | None:
    """The value of a system minus the value of the baseline, by paired bootstrap over documents.

    Both systems are scored on the same resamples of documents. The result is None if a value is undefined for the
    corpus or for a resample.
    """
    try:
        return paired_bootstrap(scored.statistics, baseline.statistics, measure=scored.measure)
    except ValueError:
        return None


def verdict(published: float | None, comparison: Comparison | None, seeds_overlap: bool = False) -> str | None:
    """Whether the direction of a published difference from the baseline holds here.

    Only the signs of the differences count, not whether higher or lower values are better.

    Args:
        published: the published difference, or None.
        comparison: our difference with its interval, or None.
        seeds_overlap: whether the values of the two rows overlap over seeds, see `do_seeds_overlap`.

    Returns:
        "holds": our interval excludes zero, and our difference has the sign of the published difference.
        "fails": our interval excludes zero, and our difference has the opposite sign.
        "undecided": our interval includes zero, or the seeds overlap. With other seeds, the verdict might be the
            opposite one.
        None: no difference was published, the published difference is zero, or there is no difference of ours.
    """
    if not published or comparison is None:
        return None
    if not comparison.significant or seeds_overlap:
        return "undecided"
    if (comparison.mean > 0) == (published > 0):
        return "holds"
    return "fails"


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Test the claims of a paper: each row should exceed the rows of its `above` in all measures of ROUGE.

    A claim is tested in the measures in which both rows have scores; there may be none.

    Args:
        outcomes: the outcome of each row, merged over seeds.
    """
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
    """Test in one measure whether a row exceeds another row.

    Args:
        scored: the score of the row, a type of ROUGE.
        exceeded: the score of the row that should be exceeded, in the same measure and on the same documents.
    """
    difference = compare(scored, exceeded)
    assert difference is not None, "ROUGE has a value for every document"
    # A claim is a published difference above zero, whose size does not matter.
    judged = verdict(1.0, difference, do_seeds_overlap(scored, exceeded))
    differences = _means_of_documents(scored) - _means_of_documents(exceeded)
    documents = math.inf
    if len(differences) > 1:
        documents = examples_to_decide(differences)
    return {
        "difference": {"value": difference.mean, "low": difference.low, "high": difference.high},
        "verdict": judged,
        "documents": None if math.isinf(documents) else documents,
    }


def do_seeds_overlap(scored: Scored, baseline: Scored) -> bool:
    """Whether the ranges of two rows' values over their seeds overlap. A row that was scored once has a single value.

    Args:
        scored, baseline: the scores of the rows in the same measure. Each has a value for the corpus.
    """
    values = _values_of_seeds(scored)
    baseline_values = _values_of_seeds(baseline)
    highest_minimum = max(min(values), min(baseline_values))
    lowest_maximum = min(max(values), max(baseline_values))
    return highest_minimum <= lowest_maximum


def _values_of_seeds(scored: Scored) -> Sequence[float]:
    """The value of each seed, for a score with a value for the corpus; one value for a row that was scored once."""
    if scored.seeds:
        return scored.seeds
    value = scored.value()
    assert value is not None, "rows are compared only if both have values"
    return [value]


def _means_of_documents(scored: Scored) -> np.ndarray:
    """(N,), the mean score of each document over the seeds, for a score that is a mean over documents."""
    # The statistics of a document are the sum of its scores over the seeds, and the number of seeds.
    sums, counts = scored.statistics.T
    return sums / counts


def relation(values: np.ndarray, scores: Mapping[str, np.ndarray]) -> Relation:
    """How scores of summaries depend on a value of each summary, such as the divergence of the model.

    The documents are sorted by the value and divided into at most `_SPANS` spans of about equal size. The correlation
    is Spearman's rank correlation, see `rank_correlation`.

    Args:
        values: (N,), the value of each document's summary.
        scores: measure -> (N,), the score of each document's summary.
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
    """Spearman's rank correlation ρ of two variables, both (N,), with a 95% bootstrap interval over their N pairs.

    The ranks are computed once, from all pairs, and not again in each resample. The result is None if ρ is undefined:
    all values of a variable are equal, in the data or in a resample.
    """
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
    """The score of a row over its seeds. The statistics of each document are summed over the seeds.

    A score that is a mean over documents becomes the mean of the seeds' values, each of which has the same weight even
    if the seeds have values for different numbers of documents. A measure of a whole corpus, such as perplexity, is
    computed once, from the sums.

    Args:
        scores: the score of each seed in one measure, at least one.
    """
    seed_values = []
    statistics_of_seeds = []
    for scored in scores:
        statistics = scored.statistics
        value = scored.value()
        if value is not None:
            seed_values.append(value)
            if scored.measure is ratio:
                # The denominator then sums to the number of all documents, and is the same for each seed.
                statistics = statistics * (len(statistics) / statistics[:, 1].sum())
        statistics_of_seeds.append(statistics)
    return Scored(np.sum(statistics_of_seeds, axis=0), scores[0].measure, tuple(seed_values))


def _centered_ranks(values: np.ndarray) -> np.ndarray:
    """(N,), the ranks of values, 1 to N, divided by N, minus 1/2. Equal values share the mean of their ranks."""
    # `indices`, (N,), has the index of each value among the distinct values, which are in ascending order. `counts` has
    # the number of values that are equal to each distinct value.
    _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
    # The last rank of equal values is the number of values that are not greater.
    last_ranks = np.cumsum(counts)
    mean_ranks = last_ranks - (counts - 1) / 2
    return mean_ranks[indices] / len(values) - 0.5


def _correlation(sums: np.ndarray) -> np.ndarray:
    """Pearson's correlation of x and y, (…), from the sums of (1, x, y, x², y², xy) over documents, (…, 6)."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    # All three are larger by the same factor, the squared count, which cancels.
    covariance = count * xy - x * y
    variance_x = count * xx - x * x
    variance_y = count * yy - y * y
    return covariance / np.sqrt(variance_x * variance_y)
