"""Scores of one or several systems and their differences, as figures and as tables."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from hf_summ import __version__
from hf_summ.common.pages import latex_table, latex_text, markdown_table
from hf_summ.evaluation.novelty import Average, Count, novelty_fractions
from hf_summ.evaluation.rouge import rouge_scores_in_mode
from hf_summ.evaluation.rouge_counts import Scores
from hf_summ.evaluation.significance import bootstrap_interval, holm, paired_bootstrap, paired_randomization
from hf_summ.evaluation.support import mean_of, support_scores
from hf_summ.evaluation.words import first_of, is_english, split_words

# how several references are combined, for readers
OF_SEVERAL = {
    "best": "each score is that of the best one",
    "mean": "scores are means over them",
    "pooled": "scores pool the matches with all",
}
# measures against the source in the first table, where they were computed
OF_SOURCES = ("support", "entailment", "copy_density", "copy_rate")
# names of texts that are not other systems
OURS = {"predictions", "references"}
# with fewer pairs than this, the bootstrap's intervals are too narrow
_FEW_PAIRS = 100
# the largest adjusted p of a difference that is called significant
_LEVEL = 0.05
# titles of columns, rows, and the number of columns with text
_Table = tuple[list[str], list[list[str]], int]
_PARTS = {"fmeasure": "F", "precision": "P", "recall": "R"}
# units of ROUGE other than the language's words
_UNITS = {
    "words": "",
    "characters": ", all characters",
    "lcsts": ", characters kept by DRGD's program for LCSTS",
    "spaced": ", words separated by spaces",
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
    """The settings of scores: arguments of `rouge_scores_in_mode`, `novelty` and the bootstrap.

    Args:
        nli: an `EntailmentModel` for the measure of entailment, which needs sources; by default there is none.
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
        """How several references are combined, see `rouge_scores`."""
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
        places: name of each row in messages; by default its number, counted from 0.

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
        # early: a missing model is reported before long computations
        entailment = None if self.settings.nli is None else _entailment(self.settings.nli, self.settings.language)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            self.rouge = {name: _rouge(texts, references, self.settings) for name, texts in self.systems.items()}
        # all systems share the references, whose warnings would appear once per system
        self._warnings = dict.fromkeys(
            str(found.message) for found in caught if issubclass(found.category, UserWarning)
        )
        self._values: dict[str, dict[str, list[float]]] = {}
        self._means: dict[str, dict[str, float]] = {}
        self._firsts = {**self.systems, "references": [row[0] for row in references]}
        if sources is not None:
            with warnings.catch_warnings():
                # the notes list sources without words once, with their places
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

        - `rouge`: metric -> system -> precision, recall, fmeasure (macro means in points, 0 to 100) and their 95%
          `intervals`, null for a single pair.
        - `differences`: other system -> metric -> predictions minus it in `tested`, which is F, or recall if summaries
          are truncated: `mean`, the paired bootstrap's `interval`, `p_value` of approximate randomization, `p_holm`,
          adjusted for all of these tests, and `significant`, whether `p_holm` is at most 0.05.
        - `of_sources`: with sources, measure -> system -> `mean` and its 95% `interval`, for `support`, `entailment`
          (with a model), `copy_density` and `copy_rate`; null where no row has a value.
        - `texts`: predictions, other systems by name, references -> mean `length` in words and, with sources, all of
          these and `novelty`'s. The first of several references is used; a measure without any value is null.
        - `settings`, `pairs`, and `notes`, which a reader of the scores needs.
        """
        settings = self.settings
        measures = [measure for measure in OF_SOURCES if measure in self._values.get("predictions", ())]
        return {
            "settings": {**asdict(settings), "stemming": settings.stemming, "hf_summ": __version__},
            "pairs": len(self.references),
            "rouge": {metric: {name: self._figures(name, metric) for name in self.systems} for metric in self._metrics},
            "tested": self._tested,
            "differences": self._differences(),
            "of_sources": {
                measure: {name: self._of_sources(name, measure) for name in self.systems} for measure in measures
            },
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

    @property
    def _metrics(self) -> list[str]:
        return list(self.rouge["predictions"])

    @property
    def _tested(self) -> str:
        # summaries of limited length are ranked by recall, as at DUC
        settings = self.settings
        return "fmeasure" if settings.byte_limit is settings.word_limit is None else "recall"

    def _figures(self, name: str, metric: str) -> dict[str, Any]:
        columns = self.rouge[name][metric]._asdict()
        means = {part: float(column.mean()) for part, column in columns.items()}
        return {**means, "intervals": {part: _interval(column, self.settings) for part, column in columns.items()}}

    def _differences(self) -> dict[str, dict[str, Any]]:
        columns = {
            name: {metric: getattr(scores, self._tested) for metric, scores in self.rouge[name].items()}
            for name in self.systems
        }
        ours = columns.pop("predictions")
        found = {
            name: {metric: _difference(ours[metric], column, self.settings) for metric, column in theirs.items()}
            for name, theirs in columns.items()
        }
        tests = [test for differences in found.values() for test in differences.values()]
        for test, p_value in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
            test |= {"p_holm": p_value, "significant": p_value <= _LEVEL}
        return found

    def _of_sources(self, name: str, measure: str) -> dict[str, Any]:
        values = np.array(self._values[name][measure])
        values = values[~np.isnan(values)]
        # the bootstrap is of a mean over rows
        with_interval = self.settings.average == "macro" and len(values)
        interval = _interval(values, self.settings) if with_interval else None
        return {"mean": self._measures(name)[measure], "interval": interval}

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
                f"there are only {number} pairs, so the bootstrap's intervals are too narrow (with 20 pairs, 8% of the "
                "intervals of chance differences exclude 0): rely on p"
            )
        tests = len(self._metrics) * (len(self.systems) - 1)
        if tests > _LEVEL * (self.settings.resamples + 1):
            yield f"with {self.settings.resamples} resamples, none of {tests} tests can be significant: use more"
        if several := sum(len(row) > 1 for row in self.references):
            which = OF_SEVERAL[self.settings.of_several]
            which += " (--several best takes the best score)" if self.settings.of_several == "pooled" else ""
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
    # imports torch, which no other measure needs
    from hf_summ.evaluation.entailment import EntailmentModel, entailment_scores

    return partial(entailment_scores, EntailmentModel(name), language=language)


def _interval(column: np.ndarray, settings: Settings) -> list[float] | None:
    interval = bootstrap_interval(column, settings.resamples, seed=settings.seed)
    return None if interval.pairs == 1 else [interval.low, interval.high]


def _difference(ours: np.ndarray, theirs: np.ndarray, settings: Settings) -> dict[str, Any]:
    compared = paired_bootstrap(ours, theirs, settings.resamples, seed=settings.seed)
    return {
        "mean": compared.mean,
        "interval": None if compared.pairs == 1 else [compared.low, compared.high],
        "p_value": paired_randomization(ours, theirs, settings.resamples, settings.seed),
    }


def as_text(report: dict[str, Any], latex: bool = False) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too, or for LaTeX's package booktabs."""
    table, line = (latex_table, latex_text) if latex else (markdown_table, str)
    parts = [table(*_scores_table(report))]
    if report["differences"]:
        parts += [table(*_differences_table(report)), line(_rule_line(report))]
    return "\n\n".join((*parts, table(*_texts_table(report)), line(_settings_line(report)))) + "\n"


def _scores_table(report: dict[str, Any]) -> _Table:
    columns = ["Metric", "System", "F or mean" if report["of_sources"] else "F", "95% interval"]
    for title in list(_PARTS.values())[1:]:
        columns += [title, "95% interval"]
    rows = []
    for metric, systems in report["rouge"].items():
        for name, figures in systems.items():
            row = [_rouge_title(metric), _system_title(name)]
            for part in _PARTS:
                row += [f"{figures[part]:.2f}", shown_interval(figures["intervals"][part], ".2f")]
            rows.append(row)
    for measure, systems in report["of_sources"].items():
        for name, found in systems.items():
            mean = "-" if found["mean"] is None else f"{found['mean']:.2f}"
            interval = shown_interval(found["interval"], ".2f")
            rows.append([measure_title(measure), _system_title(name), mean, interval, *["-"] * 4])
    if not report["differences"]:
        # a single system needs no name
        for row in (columns, *rows):
            del row[1]
    return columns, rows, 2 if report["differences"] else 1


def _differences_table(report: dict[str, Any]) -> _Table:
    columns = ["Predictions minus", "Metric", "Difference", "95% interval", "p", "p, Holm", "Significant"]
    rows = []
    for name, tests in report["differences"].items():
        for metric, found in tests.items():
            row = [name, f"{_rouge_title(metric)} {_PARTS[report['tested']]}", f"{found['mean']:+.2f}"]
            row += [shown_interval(found["interval"], "+.2f"), *map(shown_p_value, (found["p_value"], found["p_holm"]))]
            rows.append([*row, "yes" if found["significant"] else "no"])
    return columns, rows, 2


def _rule_line(report: dict[str, Any]) -> str:
    tests = sum(map(len, report["differences"].values()))
    return (
        f"A difference is significant if p is at most {_LEVEL} after Holm's adjustment for {tests} tests. p is "
        "computed by approximate randomization; the intervals are those of the paired bootstrap, without adjustment."
    )


def _system_title(name: str) -> str:
    return name.capitalize() if name in OURS else name


def _rouge_title(metric: str) -> str:
    return f"ROUGE-{metric.removeprefix('rouge')}"


def shown_interval(bounds: list[float] | None, form: str) -> str:
    """`[low, high]`, each in the format."""
    return "none" if bounds is None else f"[{bounds[0]:{form}}, {bounds[1]:{form}}]"


def shown_p_value(p_value: float | None) -> str:
    """p with three digits, or with its first that is not 0."""
    if p_value is None:
        return "none"
    # with many resamples, values can be below the third digit
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"


def _texts_table(report: dict[str, Any]) -> _Table:
    named = list(report["texts"])
    rows = []
    for measure in report["texts"]["predictions"]:
        values = (report["texts"][name][measure] for name in named)
        rows.append([measure_title(measure), *("-" if value is None else f"{value:.2f}" for value in values)])
    return ["Texts", *map(_system_title, named)], rows, 1


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
        f"truncated after {settings[name]} {unit}"
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
