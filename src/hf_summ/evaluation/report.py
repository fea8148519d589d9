"""One system's scores, alone or compared with another's, as figures and as a table to cite."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hf_summ import __version__
from hf_summ.common.markdown import markdown_table
from hf_summ.evaluation.novelty import Average, Count, novelty
from hf_summ.evaluation.rouge import rouge_scores_in_mode
from hf_summ.evaluation.rouge155_words import wordnet_exceptions
from hf_summ.evaluation.rouge_counts import Scores
from hf_summ.evaluation.significance import bootstrap_interval, paired_bootstrap
from hf_summ.evaluation.words import is_english, split_words

_TITLES = {
    "copy_rate": "Copied words, %",
    "copy_position": "Position of copied words, %",
    "copy_density": "Copy density, words",
    "compression": "Compression",
    "length": "Length, words",
}


@dataclass(frozen=True)
class Settings:
    """What scores depend on besides the texts: arguments of `rouge_scores_in_mode`, `novelty` and the bootstrap.

    Args:
        rouge_types: which of the mode's types; None for all.
    """

    rouge_mode: str = "rouge155"
    use_stemmer: bool = True
    language: str = "en"
    sentences: str = "split"
    splitter: str = "sentencex"
    byte_limit: int | None = None
    word_limit: int | None = None
    rouge_types: tuple[str, ...] | None = None
    resamples: int = 1000
    seed: int = 0
    average: Average = "macro"
    count: Count = "types"

    @property
    def stemming(self) -> str:
        """How the forms of a word are reduced to one."""
        if not self.use_stemmer or not is_english(self.language):
            return "none"
        if self.rouge_mode == "rouge_score":
            return "Porter (NLTK's)"
        return "Porter and WordNet's exceptions" if wordnet_exceptions() else "Porter without WordNet's exceptions"


def build_report(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None = None,
    against: Sequence[str] | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """All figures of a system, ready for JSON.

    - `rouge`: metric -> precision, recall, fmeasure (macro means in points, 0 to 100) and the 95% `interval` of F, null
      for a single pair; with `against` also the figures of `against`, and the `difference` of F (predictions - against)
      with `interval`, `p_value` and `significant` from the paired bootstrap.
    - `texts`: predictions, references, against -> mean `length` in words and, with sources, `novelty`'s measures. Of
      several references the first is used; a measure that no row has is null.
    - `settings`, `pairs`, and `notes`, which a reader of the scores should know.

    Args:
        references: one or several texts per row.
        against: another system's predictions.

    Raises:
        ValueError: see `rouge_scores_in_mode`, `novelty` and `paired_bootstrap`.
    """
    settings = settings or Settings()
    systems = {"predictions": predictions} | ({} if against is None else {"against": against})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        scores = {name: _rouge(texts, references, settings) for name, texts in systems.items()}
    said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    firsts = {**systems, "references": [row[0] for row in references]}
    return {
        "settings": {**asdict(settings), "stemming": settings.stemming, "hf_summ": __version__},
        "pairs": len(predictions),
        "rouge": {
            metric: _figures(values, scores["against"][metric] if against is not None else None, settings)
            for metric, values in scores["predictions"].items()
        },
        "texts": {name: _texts(texts, sources, settings) for name, texts in firsts.items()},
        # both systems are scored against the same references, whose warnings would appear twice
        "notes": [*dict.fromkeys(said), *_notes(systems, references)],
    }


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    return "\n\n".join((_rouge_table(report), _texts_table(report), _settings_line(report))) + "\n"


def _rouge(predictions: Sequence[str], references: Sequence[Sequence[str]], settings: Settings) -> dict[str, Scores]:
    options: dict[str, Any] = {} if settings.rouge_types is None else {"rouge_types": settings.rouge_types}
    return rouge_scores_in_mode(
        settings.rouge_mode,
        predictions,
        references,
        settings.use_stemmer,
        settings.language,
        sentences=settings.sentences,
        splitter=settings.splitter,
        byte_limit=settings.byte_limit,
        word_limit=settings.word_limit,
        **options,
    )


def _figures(scores: Scores, against: Scores | None, settings: Settings) -> dict[str, Any]:
    interval = bootstrap_interval(scores.fmeasure, settings.resamples)
    figures: dict[str, Any] = {name: float(column.mean()) for name, column in scores._asdict().items()}
    figures["interval"] = None if interval.pairs == 1 else [interval.low, interval.high]
    if against is not None:
        compared = paired_bootstrap(scores.fmeasure, against.fmeasure, settings.resamples, seed=settings.seed)
        figures["against"] = {name: float(column.mean()) for name, column in against._asdict().items()}
        figures["difference"] = {
            "fmeasure": compared.mean,
            "interval": None if compared.pairs == 1 else [compared.low, compared.high],
            "p_value": None if compared.pairs == 1 else compared.p_value,
            "significant": compared.significant,
        }
    return figures


def _texts(texts: Sequence[str], sources: Sequence[str] | None, settings: Settings) -> dict[str, float | None]:
    if sources is None:
        return {"length": float(np.mean([len(split_words(text, settings.language)) for text in texts]))}
    measures = novelty(texts, sources, settings.language, settings.average, settings.count)
    return {measure: None if math.isnan(value) else value for measure, value in measures.items()}


def _notes(systems: dict[str, Sequence[str]], references: Sequence[Sequence[str]]) -> list[str]:
    notes = []
    for name, texts in systems.items():
        blank = sum(not text.strip() for text in texts)
        if blank:
            which = "predictions" if name == "predictions" else "texts compared with"
            notes.append(f"{blank} of {len(texts)} {which} are blank and score 0")
    blank = sum(not any(text.strip() for text in row) for row in references)
    if blank:
        notes.append(f"{blank} of {len(references)} references are blank: their pairs score 0")
    if len(references) == 1:
        notes.append("there is only one pair, so there is no interval")
    several = sum(len(row) > 1 for row in references)
    if several:
        notes.append(f"{several} of {len(references)} pairs have several references: lengths are those of the first")
    return notes


def _rouge_table(report: dict[str, Any]) -> str:
    compared = any("against" in figures for figures in report["rouge"].values())
    columns = ["Metric", "P", "R", "F", "95% interval"]
    if compared:
        columns += ["Other's F", "Difference", "95% interval", "p", "Significant"]
    rows = []
    for metric, figures in report["rouge"].items():
        row = [f"ROUGE-{metric.removeprefix('rouge')}"]
        row += [f"{figures[name]:.2f}" for name in ("precision", "recall", "fmeasure")]
        row.append(_interval(figures["interval"], ".2f"))
        if compared:
            difference = figures["difference"]
            row += [f"{figures['against']['fmeasure']:.2f}", f"{difference['fmeasure']:+.2f}"]
            row += [_interval(difference["interval"], "+.2f"), _p_value(difference["p_value"], report)]
            row.append("yes" if difference["significant"] else "no")
        rows.append(row)
    return markdown_table(columns, rows)


def _interval(bounds: list[float] | None, form: str) -> str:
    return "none" if bounds is None else f"[{bounds[0]:{form}}, {bounds[1]:{form}}]"


def _p_value(p_value: float | None, report: dict[str, Any]) -> str:
    if p_value is None:
        return "none"
    # with this many resamples, smaller values cannot be told from 0
    least = 2 / report["settings"]["resamples"]
    return f"{p_value:.3f}" if p_value else f"<{least:.3g}"


def _texts_table(report: dict[str, Any]) -> str:
    titles = {"predictions": "Predictions", "against": "Other's", "references": "References"}
    named = [name for name in titles if name in report["texts"]]
    rows = []
    for measure in report["texts"]["predictions"]:
        values = (report["texts"][name][measure] for name in named)
        rows.append([measure_title(measure), *("-" if value is None else f"{value:.2f}" for value in values)])
    return markdown_table(["Texts", *(titles[name] for name in named)], rows)


def measure_title(measure: str) -> str:
    """The title of one of `novelty`'s measures in a table."""
    if measure in _TITLES:
        return _TITLES[measure]
    kind, size = measure[:-1], measure[-1]
    return f"{kind.capitalize()} {size}-grams, %"


def _settings_line(report: dict[str, Any]) -> str:
    """The settings on which the figures depend, in one line to cite with them."""
    settings = report["settings"]
    parts = [
        f"{settings['rouge_mode']}: macro means in points over {report['pairs']} pairs",
        f"stemming: {settings['stemming']}",
        f"language {settings['language']}",
        f"sentences by {settings['splitter']}" if settings["sentences"] == "split" else "one sentence per line",
    ]
    parts += [
        f"cut after {settings[name]} {unit}"
        for name, unit in (("byte_limit", "bytes"), ("word_limit", "words"))
        if settings[name] is not None
    ]
    parts.append(f"{settings['resamples']} resamples, seed {settings['seed']}")
    if len(report["texts"]["predictions"]) > 1:
        parts.append(f"novelty: {settings['average']} over {settings['count']}")
    return f"{'; '.join(parts)}; hf_summ {settings['hf_summ']}"
