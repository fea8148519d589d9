"""One system's scores, alone or compared with others', as figures and as tables."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from hf_summ import __version__
from hf_summ.common.pages import markdown_table
from hf_summ.evaluation.novelty import Average, Count, novelty_fractions
from hf_summ.evaluation.rouge import rouge_scores_in_mode
from hf_summ.evaluation.rouge_counts import Scores
from hf_summ.evaluation.significance import bootstrap_interval, paired_bootstrap, paired_randomization
from hf_summ.evaluation.support import mean_of, support_scores
from hf_summ.evaluation.words import first_of, is_english, split_words

# what counts of several references, for readers
OF_SEVERAL = {
    "best": "the best counts for each score",
    "mean": "scores are means over them",
    "pooled": "scores are of matches with all",
}
# what a source has of its summaries, in the first table, if it was measured
OF_SOURCES = ("support", "entailment", "copy_density", "copy_rate")
# names of texts that are not other systems
OURS = {"predictions", "references"}
# fewer pairs than this, and the bootstrap is too sure of differences
_FEW_PAIRS = 100
_PARTS = {"fmeasure": "F", "precision": "P", "recall": "R"}
# of ROUGE, where they are not the language's words
_UNITS = {
    "words": "",
    "characters": ", by characters of everything",
    "lcsts": ", by characters that DRGD's program for LCSTS leaves",
    "spaced": ", by what stands between spaces",
}
_TITLES = {
    "support": "Support, %",
    "entailment": "Entailment, %",
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
        nli: an `EntailmentModel` to measure entailment by, which needs sources; by default it is not measured.
        rouge_types: which of the mode's types; None for all.
    """

    rouge_mode: str = "rouge155"
    use_stemmer: bool = True
    language: str = "en"
    sentences: str = "split"
    splitter: str = "sentencex"
    units: str = "words"
    several: str | None = None
    byte_limit: int | None = None
    word_limit: int | None = None
    rouge_types: tuple[str, ...] | None = None
    resamples: int = 1000
    seed: int = 0
    average: Average = "macro"
    count: Count = "types"
    count_punctuation: bool = False
    nli: str | None = None

    @property
    def of_several(self) -> str:
        """What counts of several references, see `rouge_scores`."""
        return self.several or ("pooled" if self.rouge_mode == "rouge155" else "best")

    @property
    def stemming(self) -> str:
        """How the forms of a word are reduced to one."""
        if not self.use_stemmer or not is_english(self.language):
            return "none"
        return "Porter (NLTK's)" if self.rouge_mode == "rouge_score" else "Porter and WordNet's exceptions"


class Evaluation:
    """The scores of one or several systems on the same rows.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        sources: one document per row.
        against: name -> another system's predictions.
        places: what messages call each row; by default its number, counted from 0.

    Raises:
        ValueError: another system is named "predictions" or "references"; see also `rouge_scores_in_mode`,
            `novelty_scores` and `EntailmentModel`.
    """

    def __init__(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        sources: Sequence[str] | None = None,
        against: Mapping[str, Sequence[str]] | None = None,
        settings: Settings | None = None,
        places: Sequence[str] | None = None,
    ):
        self.settings = settings or Settings()
        self.references, self.places = references, places or list(map(str, range(len(predictions))))
        if taken := OURS & set(against or ()):
            raise ValueError(f"`against` has a system named '{taken.pop()}': give it another name")
        self.systems = {"predictions": predictions} | dict(against or {})
        # before anything that takes long
        entailment = None if self.settings.nli is None else _entailment(self.settings.nli, self.settings.language)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            self.rouge = {name: _rouge(texts, references, self.settings) for name, texts in self.systems.items()}
        # all systems are scored against the same references, whose warnings would appear several times
        self._warnings = dict.fromkeys(
            str(found.message) for found in caught if issubclass(found.category, UserWarning)
        )
        self._values: dict[str, dict[str, list[float]]] = {}
        self._means: dict[str, dict[str, float]] = {}
        self._firsts = {**self.systems, "references": [row[0] for row in references]}
        if sources is not None:
            with warnings.catch_warnings():
                # sources without words are among the notes, once and with their places
                warnings.simplefilter("ignore", UserWarning)
                for name, texts in self._firsts.items():
                    novelty = novelty_fractions(
                        texts, sources, self.settings.language, self.settings.count, self.settings.count_punctuation
                    )
                    found = {"support": support_scores(texts, sources, self.settings.language)}
                    if entailment is not None:
                        found["entailment"] = entailment(texts, sources)
                    self._values[name] = novelty.scores() | {measure: row.tolist() for measure, row in found.items()}
                    means = {measure: mean_of(row) for measure, row in found.items()}
                    self._means[name] = novelty.means(self.settings.average) | means
            wordless = [row for row, text in enumerate(sources) if not split_words(text, self.settings.language)]
            if wordless:
                named = first_of([self.places[row] for row in wordless])
                finding = f"{len(wordless)} of {len(sources)} sources have no words and are left out"
                self._warnings[f"{finding} of novelty and support: {named}"] = None

    def report(self) -> dict[str, Any]:
        """All figures, ready for JSON.

        - `rouge`: metric -> precision, recall, fmeasure (macro means in points, 0 to 100) and their 95% `intervals`,
          null for a single pair; `against`: name -> the other system's figures, and the `differences` of each
          (predictions - other): `mean`, `interval`, `p_value` and `significant` from the paired bootstrap, and
          `p_randomization`.
        - `of_sources`: with sources, the `mean` of `support`, `entailment` with a model, `copy_density` and `copy_rate`
          over the predictions, and its 95% `interval`; null where no row has a value.
        - `texts`: predictions, other systems by name, references -> mean `length` in words and, with sources, all of
          these and `novelty`'s. Of several references the first is used; a measure that no row has is null.
        - `settings`, `pairs`, and `notes`, which a reader of the scores should know.
        """
        settings = self.settings
        return {
            "settings": {**asdict(settings), "stemming": settings.stemming, "hf_summ": __version__},
            "pairs": len(self.references),
            "rouge": {metric: self._figures(metric) for metric in self.rouge["predictions"]},
            "of_sources": self._of_sources(),
            "texts": {name: self._measures(name) for name in self._firsts},
            "notes": [*self._warnings, *self._notes()],
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row's scores of each system: place, ROUGE and, with sources, novelty and support; null for none."""
        for name in self.systems:
            columns: dict[str, Sequence[float]] = {
                f"{metric}_{part}": column.tolist()
                for metric, scores in self.rouge[name].items()
                for part, column in scores._asdict().items()
            }
            columns |= self._values.get(name, {})
            for row, place in enumerate(self.places):
                values = {column: values[row] for column, values in columns.items()}
                numbers = {column: None if math.isnan(value) else value for column, value in values.items()}
                yield {"system": name, "row": place, **numbers}

    def _figures(self, metric: str) -> dict[str, Any]:
        ours = self.rouge["predictions"][metric]._asdict()
        figures: dict[str, Any] = {part: float(column.mean()) for part, column in ours.items()}
        figures["intervals"] = {part: _interval(column, self.settings) for part, column in ours.items()}
        figures["against"] = {}
        for name in list(self.systems)[1:]:
            theirs = self.rouge[name][metric]._asdict()
            figures["against"][name] = {part: float(column.mean()) for part, column in theirs.items()} | {
                "differences": {part: _difference(ours[part], theirs[part], self.settings) for part in ours}
            }
        return figures

    def _of_sources(self) -> dict[str, dict[str, Any]]:
        rows, means = self._values.get("predictions", {}), self._measures("predictions")
        found = {}
        for measure in (measure for measure in OF_SOURCES if measure in rows):
            values = np.array(rows[measure])
            values = values[~np.isnan(values)]
            # the interval is one of a mean over rows
            with_interval = self.settings.average == "macro" and len(values)
            interval = _interval(values, self.settings) if with_interval else None
            found[measure] = {"mean": means[measure], "interval": interval}
        return found

    def _measures(self, name: str) -> dict[str, float | None]:
        if not self._means:
            return {"length": float(np.mean([len(split_words(t, self.settings.language)) for t in self._firsts[name]]))}
        return {measure: None if math.isnan(value) else value for measure, value in self._means[name].items()}

    def _notes(self) -> Iterator[str]:
        number = len(self.references)
        for name, texts in self.systems.items():
            if blank := sum(not text.strip() for text in texts):
                yield f"{blank} of {number} {'' if name == 'predictions' else 'texts of '}{name} are blank and score 0"
        if blank := sum(not any(text.strip() for text in row) for row in self.references):
            yield f"{blank} of {number} references are blank: their pairs score 0"
        if number == 1:
            yield "there is only one pair, so there is no interval"
        elif len(self.systems) > 1 and number < _FEW_PAIRS:
            yield (
                f"there are only {number} pairs, for which the bootstrap is too sure (with 20, it calls 8% of chance "
                "differences significant at 5%): go by p of the randomization"
            )
        if several := sum(len(row) > 1 for row in self.references):
            which = OF_SEVERAL[self.settings.of_several]
            yield f"{several} of {number} pairs have several references: {which}; lengths are those of the first"


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
        units=settings.units,
        several=settings.several,
        byte_limit=settings.byte_limit,
        word_limit=settings.word_limit,
        **options,
    )


def _entailment(name: str, language: str) -> Callable[[Sequence[str], Sequence[str]], np.ndarray]:
    # which imports torch, as no other measure does
    from hf_summ.evaluation.entailment import EntailmentModel, entailment_scores

    return partial(entailment_scores, EntailmentModel(name), language=language)


def _interval(column: np.ndarray, settings: Settings) -> list[float] | None:
    interval = bootstrap_interval(column, settings.resamples)
    return None if interval.pairs == 1 else [interval.low, interval.high]


def _difference(ours: np.ndarray, theirs: np.ndarray, settings: Settings) -> dict[str, Any]:
    compared = paired_bootstrap(ours, theirs, settings.resamples, seed=settings.seed)
    one = compared.pairs == 1
    return {
        "mean": compared.mean,
        "interval": None if one else [compared.low, compared.high],
        "p_value": None if one else compared.p_value,
        "p_randomization": None if one else paired_randomization(ours, theirs, settings.resamples, settings.seed),
        "significant": compared.significant,
    }


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    others = next(iter(report["rouge"].values()))["against"]
    compared = [_difference_table(report, name) for name in others]
    return "\n\n".join((_rouge_table(report), *compared, _texts_table(report), _settings_line(report))) + "\n"


def _rouge_table(report: dict[str, Any]) -> str:
    of_sources = report["of_sources"]
    columns = ["Metric", "F or mean" if of_sources else "F", "95% interval"]
    for title in list(_PARTS.values())[1:]:
        columns += [title, "95% interval"]
    rows = []
    for metric, figures in report["rouge"].items():
        row = [_rouge_title(metric)]
        for part in _PARTS:
            row += [f"{figures[part]:.2f}", shown_interval(figures["intervals"][part], ".2f")]
        rows.append(row)
    for measure, found in of_sources.items():
        mean = "-" if found["mean"] is None else f"{found['mean']:.2f}"
        rows.append([measure_title(measure), mean, shown_interval(found["interval"], ".2f"), *["-"] * 4])
    return markdown_table(columns, rows)


def _difference_table(report: dict[str, Any], name: str) -> str:
    columns = [f"Against {name}", "Theirs", "Difference", "95% interval", "p, bootstrap", "p, randomization"]
    rows = []
    for metric, figures in report["rouge"].items():
        theirs = figures["against"][name]
        for part, title in _PARTS.items():
            found = theirs["differences"][part]
            row = [f"{_rouge_title(metric)} {title}", f"{theirs[part]:.2f}", f"{found['mean']:+.2f}"]
            row += [
                shown_interval(found["interval"], "+.2f"),
                shown_p_value(found["p_value"]),
                shown_p_value(found["p_randomization"]),
            ]
            rows.append([*row, "yes" if found["significant"] else "no"])
    return markdown_table([*columns, "Significant"], rows)


def _rouge_title(metric: str) -> str:
    return f"ROUGE-{metric.removeprefix('rouge')}"


def shown_interval(bounds: list[float] | None, form: str) -> str:
    """`[low, high]`, each in the format."""
    return "none" if bounds is None else f"[{bounds[0]:{form}}, {bounds[1]:{form}}]"


def shown_p_value(p_value: float | None) -> str:
    """Three digits, or the first that is not 0."""
    if p_value is None:
        return "none"
    # many resamples give values below the third digit
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"


def _texts_table(report: dict[str, Any]) -> str:
    named = list(report["texts"])
    rows = []
    for measure in report["texts"]["predictions"]:
        values = (report["texts"][name][measure] for name in named)
        rows.append([measure_title(measure), *("-" if value is None else f"{value:.2f}" for value in values)])
    return markdown_table(["Texts", *(name.capitalize() if name in OURS else name for name in named)], rows)


def measure_title(measure: str) -> str:
    """The title of a measure of texts in a table."""
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
        f"language {settings['language']}" + _UNITS[settings["units"]],
        f"sentences by {settings['splitter']}" if settings["sentences"] == "split" else "one sentence per line",
    ]
    parts += [
        f"cut after {settings[name]} {unit}"
        for name, unit in (("byte_limit", "bytes"), ("word_limit", "words"))
        if settings[name] is not None
    ]
    parts.append(f"{settings['resamples']} resamples, seed {settings['seed']}")
    if len(report["texts"]["predictions"]) > 1:
        marks = " with punctuation marks" if settings["count_punctuation"] else ""
        parts.append(f"novelty: {settings['average']} over {settings['count']}{marks}")
    if settings["nli"] is not None:
        parts.append(f"entailment by {settings['nli']}")
    return f"{'; '.join(parts)}; hf_summ {settings['hf_summ']}"
