"""The outcomes of a table's rows, their measures, and verdicts on the published differences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import datasets
import numpy as np

from hf_summ.data import split_sentences
from hf_summ.data.columns import reference_texts
from hf_summ.evaluation.measures import Settings, measure_of
from hf_summ.evaluation.significance import Comparison, Scored, paired_bootstrap, perplexity
from hf_summ.experiments.tables import ROUGE_MEASURES, Row, Table

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
    """One outcome for each row, over its seeds with measures; if a seed failed, the row has failed."""
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

    Raises:
        ValueError: different numbers of predictions and documents, or texts that cannot be scored.
        ImportError: a library that a measure needs is not installed.
    """
    references, scored = reference_texts(corpus), {}
    rouge: dict[str, Any] = {"score": "fmeasure", **table.rouge}
    settings = Settings(
        language=language,
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
            texts = _in_pieces(predictions, language, pieces), _in_pieces(references, language, pieces)
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


def _pooled(scored: Sequence[Scored]) -> Scored:
    """A measure over several seeds."""
    values = [one.value() for one in scored]
    seeds = tuple(value for value in values if value is not None)
    return Scored(np.sum([one.statistics for one in scored], axis=0), scored[0].measure, seeds)


def _in_pieces(texts: Sequence[str | Sequence[str]], language: str, pieces: Pieces | None) -> list:
    """Texts, or lists of them, as subwords between spaces, one sentence per line, as subwords hide its end."""
    if pieces is None:
        raise ValueError("the table scores subwords, but this row has no model that defines them")
    return [
        "\n".join(" ".join(pieces(sentence)) for sentence in split_sentences(text, language))
        if isinstance(text, str)
        else _in_pieces(text, language, pieces)
        for text in texts
    ]
