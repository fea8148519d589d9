"""The table of measures: the function of each measure, what it reads, the titles of the scores, and which should fall.

A measure, such as "novelty", gives one or several scores, such as "novel1". A score is a `Scored`, the statistics of
each row with a function of their sums, so every score has an interval and can be compared. Training runs,
`hf-summ evaluate`, the papers' tables and model cards read this table, and `hf_summ.evaluation.metrics` turns its
entries into metrics of the library `evaluate`. A new measure is a function and an entry here. Other packages may add
entries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hf_summ.common.flags import flag
from hf_summ.common.messages import check_choice
from hf_summ.evaluation.bleu import TITLES as BLEU_TITLES
from hf_summ.evaluation.bleu import bleu, chrf
from hf_summ.evaluation.novelty import TITLES as NOVELTY_TITLES
from hf_summ.evaluation.novelty import Average, Count, novelty
from hf_summ.evaluation.rouge import ALL_TYPES, ROUGE155_TYPES, ROUGE_TYPES, RougeSettings, rouge
from hf_summ.evaluation.significance import Scored, mean_over_rows
from hf_summ.evaluation.support import support
from hf_summ.models.checks import Range

# One or several references per row.
References = Sequence[str | Sequence[str]]


@dataclass(frozen=True)
class Settings(RougeSettings):
    """The settings of all measures and of the bootstrap, with the fields of `RougeSettings` for ROUGE.

    Args:
        average: "macro" averages novelty over rows; "micro" computes it over the corpus. See `novelty`.
        count: "types" counts the distinct novel n-grams of a summary; "tokens" counts them as often as they occur.
        count_punctuation: whether punctuation marks are words in novelty.
        resamples: number of resamples of the bootstrap, and of trials of the randomization test.
        seed: random seed of the resamples and the trials.
        rouge_part: which part of ROUGE is the score: "fmeasure", "precision" or "recall".
        metrics: measure -> the model that the measure needs, a folder or a name on the Hub, or "" if it needs no model.
            `hf-summ evaluate` computes these measures besides ROUGE, and besides novelty and support if there are
            sources.
    """

    average: Average = flag("reporting", "Average novelty over rows, or over the corpus", "macro", needs=("sources",))
    count: Count = flag("reporting", "Count novel n-grams once each, or as they occur", "types", needs=("sources",))
    count_punctuation: bool = flag(
        "reporting",
        "Count punctuation marks as words in novelty, as papers do that count tokenized texts",
        False,
        "do not",
        needs=("sources",),
    )
    resamples: int = flag("reporting", "Resamples of the bootstrap", 1000, range=Range(1), metavar="N")
    seed: int = flag("reporting", "Random seed of the resamples", 0, range=Range(0))
    rouge_part: str = "fmeasure"
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measure:
    """An entry of the table of measures.

    Args:
        name: the measure's name in `--metrics`.
        titles: score -> the score's title in tables.
        compute: a function of predictions, (N,), of references or sources, (N,), as `reads` says, and of a `Settings`.
            It returns score -> `Scored`.
        note: a sentence for readers of the scores.
        reads: what the predictions are compared with: "references" or "sources".
        columns: the scores that a run's table and card show; empty for all scores.
        falling: the scores for which lower is better.
        needs: the kind of model that the measure needs, such as "encoder", for messages; None if it needs no model.
        source: the address of the measure's paper.
    """

    name: str
    titles: Mapping[str, str]
    compute: Callable[..., dict[str, Scored]]
    note: str
    reads: Literal["references", "sources"] = "references"
    columns: tuple[str, ...] = ()
    falling: tuple[str, ...] = ()
    needs: str | None = None
    source: str | None = None

    def scores(self, rouge_mode: str) -> tuple[str, ...]:
        """The names of the measure's scores, in the order of tables.

        Args:
            rouge_mode: "rouge155" or "rouge_score". Each mode has different types of ROUGE. Other measures have the
            same scores in both modes.
        """
        if self.name != "rouge":
            return tuple(self.titles)
        if rouge_mode == "rouge155":
            return ROUGE155_TYPES
        return ROUGE_TYPES


# The functions of the entries; see `Measure.compute`.


def _rouge(predictions: Sequence[str], references: References, settings: Settings) -> dict[str, Scored]:
    """ROUGE: the mean over the rows of the part that `settings.rouge_part` names, for each type of ROUGE."""
    scores = {}
    for rouge_type, rouge_scores in rouge(predictions, references, settings).items():
        values = getattr(rouge_scores, settings.rouge_part)
        scores[rouge_type] = mean_over_rows(values)
    return scores


def _bleu(predictions: Sequence[str], references: References, settings: Settings) -> dict[str, Scored]:
    """BLEU of the corpus, with its precisions and brevity penalty."""
    return bleu(predictions, references, settings.language)


def _chrf(predictions: Sequence[str], references: References, settings: Settings) -> dict[str, Scored]:
    """chrF of the corpus, which needs no settings."""
    return chrf(predictions, references)


def _bertscore(predictions: Sequence[str], references: References, settings: Settings) -> dict[str, Scored]:
    """BERTScore: the mean of F over the rows, by the encoder that `settings.metrics` names."""
    # The module is imported here, as it imports torch, which takes seconds. No other measure needs torch.
    from hf_summ.evaluation.pair_models import bertscore_scores

    scores = bertscore_scores(settings.metrics["bertscore"], predictions, references)
    return {"bertscore": mean_over_rows(scores)}


def _novelty(predictions: Sequence[str], sources: Sequence[str], settings: Settings) -> dict[str, Scored]:
    """Novelty, repetition, copying, compression and length of the predictions beside their sources."""
    return novelty(
        predictions,
        sources,
        language=settings.language,
        average=settings.average,
        count=settings.count,
        count_punctuation=settings.count_punctuation,
    )


def _support(predictions: Sequence[str], sources: Sequence[str], settings: Settings) -> dict[str, Scored]:
    """The support of the predictions by their sources."""
    return support(predictions, sources, settings.language)


# The measures, in the order of tables and of the help of `--metrics`.
_TABLE = (
    Measure(
        "rouge",
        {name: f"ROUGE-{name.removeprefix('rouge')}" for name in ALL_TYPES},
        _rouge,
        "ROUGE is computed as the Perl script ROUGE-1.5.5 or Google's rouge-score does, in points.",
        source="https://aclanthology.org/W04-1013",
    ),
    Measure(
        "bleu",
        BLEU_TITLES,
        _bleu,
        "BLEU is that of the corpus, computed by sacrebleu.",
        columns=("bleu",),
        source="https://aclanthology.org/P02-1040",
    ),
    Measure(
        "chrf",
        {"chrf": "chrF"},
        _chrf,
        "chrF is F2 of the corpus's character n-grams, computed by sacrebleu.",
        source="https://aclanthology.org/W15-3049",
    ),
    Measure(
        "bertscore",
        {"bertscore": "BERTScore F"},
        _bertscore,
        "BERTScore is F in points, not rescaled, so only scores of the same encoder can be compared.",
        needs="encoder",
        source="https://openreview.net/forum?id=SkeHuCVFDr",
    ),
    Measure(
        "novelty",
        NOVELTY_TITLES,
        _novelty,
        "Novel n-grams are those that the document does not have, and copied words those in fragments of the document.",
        reads="sources",
        columns=("novel1", "novel2", "novel3", "novel4", "copy_rate", "length"),
        falling=("repeated1", "repeated2", "repeated3", "repeated4"),
        source="https://aclanthology.org/N18-1065",
    ),
    Measure(
        "support",
        {"support": "Support, %"},
        _support,
        "Support is the mean of two shares: of a summary's content words that occur in the document, and of its "
        "adjacent pairs that occur together in one sentence of the document. It is not a fact check.",
        reads="sources",
    ),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _TABLE}
"""The table: name -> measure. `MEASURES["x"] = Measure("x", ...)` adds one."""


def falling_scores() -> tuple[str, ...]:
    """The scores for which lower is better, among them training's scores "nll" and "perplexity"."""
    scores = ["nll", "perplexity"]
    for measure in MEASURES.values():
        scores.extend(measure.falling)
    return tuple(scores)


def names_of_metrics() -> str:
    """The names that `--metrics` takes, for its help."""
    names = []
    for measure in MEASURES.values():
        if measure.needs:
            names.append(f"{measure.name}=MODEL")
        else:
            names.append(measure.name)
    return ", ".join(names)


def title_of(score: str) -> str:
    """The title of a measure's score, or of training's "perplexity", in tables.

    Raises:
        KeyError: no measure has this score.
    """
    if score == "perplexity":
        return "Perplexity"
    measure = measure_of(score)
    if measure is None:
        raise KeyError(score)
    return measure.titles[score]


def measure_of(score: str) -> Measure | None:
    """The measure that gives a score, or None if there is no such measure."""
    for measure in MEASURES.values():
        if score in measure.titles:
            return measure
    return None


def parse_metrics(metrics: Iterable[str]) -> dict[str, str]:
    """Parse the measures that are named on a command line, and check that each has a model only if it needs one.

    Args:
        metrics: for each measure, its name or, for a measure that needs a model, `name=MODEL`.

    Returns:
        Measure -> model, "" for a measure that needs no model.

    Raises:
        ValueError: there is no such measure, or a model is missing or not needed.
    """
    models = {}
    for text in metrics:
        name, _, model = text.partition("=")
        check_choice("--metrics", name, MEASURES)
        needed = MEASURES[name].needs
        if needed and not model:
            raise ValueError(f"--metrics {text}: needs a model: name its {needed}, as in {name}=MODEL")
        if model and not needed:
            raise ValueError(f"--metrics {text}: needs no model: give {name} alone")
        models[name] = model
    return models
