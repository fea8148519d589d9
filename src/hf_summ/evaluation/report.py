"""Scores of one or several systems and their differences, as figures and as tables."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from hf_summ import __version__
from hf_summ.common.pages import latex_figure, latex_table, latex_text, markdown_table
from hf_summ.data.sentences import splitter_version
from hf_summ.evaluation.measures import MEASURES, Settings, title_of
from hf_summ.evaluation.rouge import rouge
from hf_summ.evaluation.significance import (
    OfSums,
    Scored,
    holm,
    is_paired,
    mean_over_rows,
    paired_bootstrap,
    paired_randomization,
    rounded,
)
from hf_summ.evaluation.words import first_of, split_words

# how several references are combined, for readers
OF_SEVERAL = {"best": "each score is that of the best one", "pooled": "scores pool the matches with all"}
# the scores of novelty in the first table
_COPYING = ("copy_density", "copy_rate")
# names of texts that are not other systems
OURS = {"predictions", "references"}
# with fewer pairs than this, the bootstrap's intervals are too narrow
_FEW_PAIRS = 100
# the largest adjusted p of a difference that is called significant
_LEVEL = 0.05
# titles of columns, rows, and the number of columns with text
_Table = tuple[list[str], list[list[str]], int]
_COLUMNS = {"fmeasure": "F", "precision": "P", "recall": "R"}
# units of ROUGE other than the language's words
_UNITS = {"words": "", "lcsts": ", characters kept by DRGD's program for LCSTS"}


class Evaluation:
    """The scores of one or several systems on the same rows.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        sources: one document per row.
        against: name -> another system's predictions.
        labels: name of each row in messages; by default its number, counted from 0.
        name: the predictions' name in tables.
    """

    def __init__(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        sources: Sequence[str] | None = None,
        against: Mapping[str, Sequence[str]] | None = None,
        settings: Settings | None = None,
        labels: Sequence[str] | None = None,
        name: str = "Predictions",
    ):
        self.settings = settings or Settings()
        self.references, self.labels = references, labels or list(map(str, range(len(predictions))))
        self.name = name
        if taken := OURS & set(against or ()):
            raise ValueError(f"`against` has a system named '{taken.pop()}': give it another name")
        self.systems = {"predictions": predictions} | dict(against or {})
        compared = {"references": references, "sources": sources}
        names = dict.fromkeys((*(("novelty", "support") if sources is not None else ()), *self.settings.metrics))
        self._measures = [MEASURES[name] for name in names if name != "rouge"]
        for measure in self._measures:
            if measure.needs:
                # a missing model is reported before long computations
                measure.compute(["a"], ["a"], self.settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            self.rouge = {name: rouge(texts, references, self.settings) for name, texts in self.systems.items()}
        # all systems share the references, whose warnings would appear once per system
        self._warnings = dict.fromkeys(
            str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)
        )
        self._firsts = {**self.systems, "references": [row[0] for row in references]}
        # each text's scores of the measures other than ROUGE
        self._scored: dict[str, dict[str, Scored]] = {name: {} for name in self._firsts}
        with warnings.catch_warnings():
            # the notes list sources without words once, with their labels
            warnings.simplefilter("ignore", UserWarning)
            for measure in self._measures:
                for name in self._firsts if measure.reads == "sources" else self.systems:
                    self._scored[name] |= measure.compute(self._firsts[name], compared[measure.reads], self.settings)
        wordless = [row for row, text in enumerate(sources or ()) if not split_words(text, self.settings.language)]
        if wordless:
            rows = first_of([self.labels[row] for row in wordless])
            finding = f"{len(wordless)} of {len(references)} sources have no words and are left out"
            self._warnings[f"{finding} of novelty and support: {rows}"] = None

    def report(self) -> dict[str, Any]:
        """All figures, ready for JSON.

        - `rouge`: metric -> system -> precision, recall, fmeasure (macro means in points, 0 to 100) and their 95%
          `intervals`, null for a single pair.
        - `measures`: of the other measures, score -> system -> `mean` over the rows that have a value, or the corpus's
          value, and its 95% `interval`; null where there is none. With sources these are `support`, `copy_density` and
          `copy_rate`, and those of `settings.metrics`.
        - `differences`: other system -> score against the references -> predictions minus it: `mean`, the paired
          bootstrap's `interval`, `p_value` of approximate randomization, `p_holm`, adjusted for all of these tests, and
          `significant`, whether `p_holm` is at most 0.05. ROUGE's is that in `tested`, which is F, or recall if
          summaries are truncated.
        - `texts`: predictions, other systems by name, references -> mean `length` in words and, with sources, all
          scores against them. The first of several references is used; a score without any value is null.
        - `rows`: the same texts -> score -> the number of rows over which it is a mean, where that is not all of them.
        - `name`, `settings`, `pairs`, and `notes`, which a reader of the scores needs.
        """
        settings, pairs = self.settings, len(self.references)
        scores = [
            score
            # novelty's come last
            for measure in sorted(self._measures, key=lambda measure: measure.name == "novelty")
            for score in (_COPYING if measure.name == "novelty" else measure.columns or measure.titles)
        ]
        return {
            "settings": {**asdict(settings), "stemming": settings.stemming, "hf_summ": __version__},
            "name": self.name,
            "pairs": pairs,
            "rouge": {
                metric: {name: self._figures(name, metric) for name in self.systems}
                for metric in self.rouge["predictions"]
            },
            "measures": {score: {name: self._mean(name, score) for name in self.systems} for score in scores},
            "tested": self._tested,
            "differences": self._differences(),
            "texts": {name: self._of_texts(name) for name in self._firsts},
            "rows": {
                name: {score: number for score, scored in of_text.items() if (number := scored.number()) < pairs}
                for name, of_text in self._scored.items()
            },
            "notes": [*self._warnings, *self._notes()],
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row's scores of each system: label, ROUGE and the other measures; null for none."""
        for name in self.systems:
            columns: dict[str, np.ndarray] = {
                f"{metric}_{title}": column
                for metric, scores in self.rouge[name].items()
                for title, column in scores._asdict().items()
            }
            columns |= {score: scored.rows() for score, scored in self._scored[name].items()}
            for row, label in enumerate(self.labels):
                values = {column: float(values[row]) for column, values in columns.items()}
                numbers = {column: None if math.isnan(value) else value for column, value in values.items()}
                yield {"system": name, "row": label, **numbers}

    @property
    def _tested(self) -> str:
        # summaries of limited length are ranked by recall, as at DUC
        return "recall" if self.settings.is_truncating else "fmeasure"

    def _figures(self, name: str, metric: str) -> dict[str, Any]:
        columns = self.rouge[name][metric]._asdict()
        means = {title: float(column.mean()) for title, column in columns.items()}
        return {
            **means,
            "intervals": {title: self._interval(mean_over_rows(column)) for title, column in columns.items()},
        }

    @property
    def _compared(self) -> list[str]:
        measures = [measure for measure in self._measures if measure.reads == "references"]
        return [score for measure in measures for score in measure.columns or measure.titles]

    def _interval(self, scored: Scored) -> list[float] | None:
        interval = scored.interval(self.settings.resamples, self.settings.seed)
        return None if interval is None else [interval.low, interval.high]

    def _differences(self) -> dict[str, dict[str, Any]]:
        columns: dict[str, dict[str, Any]] = {
            name: {metric: (getattr(scores, self._tested), None) for metric, scores in self.rouge[name].items()}
            | {
                score: (self._scored[name][score].statistics, self._scored[name][score].measure)
                for score in self._compared
            }
            for name in self.systems
        }
        ours = columns.pop("predictions")
        differences = {
            name: {score: _difference(ours[score][0], *theirs[score], self.settings) for score in theirs}
            for name, theirs in columns.items()
        }
        tests = [test for of_system in differences.values() for test in of_system.values()]
        for test, p_value in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
            test |= {"p_holm": p_value, "significant": p_value <= _LEVEL}
        return differences

    def _mean(self, name: str, score: str) -> dict[str, Any]:
        scored = self._scored[name][score]
        return {"mean": _or_none(rounded({score: scored})[score]), "interval": self._interval(scored)}

    def _of_texts(self, name: str) -> dict[str, float | None]:
        against_sources = self._scored["references"]
        if not against_sources:
            return {"length": float(np.mean([len(split_words(t, self.settings.language)) for t in self._firsts[name]]))}
        values = rounded(self._scored[name])
        return {score: _or_none(values[score]) for score in against_sources}

    def _rouge1(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        return rouge(texts, references, replace(self.settings, rouge_types=("rouge1",)))["rouge1"].fmeasure

    def _notes(self) -> Iterator[str]:
        number = len(self.references)
        for name, texts in self.systems.items():
            if blank := sum(not text.strip() for text in texts):
                yield f"{blank} of {number} {'' if name == 'predictions' else 'texts of '}{name} are blank and score 0"
            if texts == [row[0] for row in self.references]:
                yield f"{name} are identical to the references, perhaps from the same column"
            elif not is_paired(texts, self.references, self._rouge1):
                yield (
                    f"{name} are no closer to their own references than to those of other rows: they may have another "
                    "order, or be all alike"
                )
        if blank := sum(not any(text.strip() for text in row) for row in self.references):
            yield f"{blank} of {number} references are blank: their pairs score 0"
        if number == 1:
            yield "there is only one pair, so there is no interval"
        elif len(self.systems) > 1 and number < _FEW_PAIRS:
            yield (
                f"there are only {number} pairs, so the bootstrap's intervals are too narrow (with 20 pairs, 8% of the "
                "intervals of chance differences exclude 0): rely on p"
            )
        tests = (len(self.rouge["predictions"]) + len(self._compared)) * (len(self.systems) - 1)
        if tests > _LEVEL * (self.settings.resamples + 1):
            yield f"with {self.settings.resamples} resamples, none of {tests} tests can be significant: use more"
        if several := sum(len(row) > 1 for row in self.references):
            which = OF_SEVERAL[self.settings.of_several]
            which += " (--several best takes the best score)" if self.settings.of_several == "pooled" else ""
            yield f"{several} of {number} pairs have several references: {which}; lengths are those of the first"


def _difference(ours: np.ndarray, theirs: np.ndarray, measure: OfSums | None, settings: Settings) -> dict[str, Any]:
    compared = paired_bootstrap(ours, theirs, settings.resamples, seed=settings.seed, measure=measure)
    return {
        "mean": compared.mean,
        "interval": None if compared.pairs == 1 else [compared.low, compared.high],
        "p_value": paired_randomization(ours, theirs, settings.resamples, settings.seed, measure),
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    tables = [markdown_table(*_scores_table(report))]
    if report["differences"]:
        tables += [markdown_table(*_differences_table(report)), _rule_line(report)]
    return "\n\n".join((*tables, markdown_table(*_texts_table(report)), _settings_line(report))) + "\n"


def as_latex(report: dict[str, Any]) -> str:
    """The scores as a paper's table, with a row for each system and a column for each measure, and how to read it."""
    tested = report["tested"]
    columns = {
        score: {name: (figures[tested], figures["intervals"][tested]) for name, figures in systems.items()}
        for score, systems in report["rouge"].items()
    } | {
        score: {name: (figures["mean"], figures["interval"]) for name, figures in systems.items()}
        for score, systems in report["measures"].items()
    }
    rows = {
        _system_title(report, name): [
            latex_figure(*figures[name], report["differences"].get(name, {}).get(score, {}).get("significant", False))
            for score, figures in columns.items()
        ]
        for name in next(iter(columns.values()))
    }
    legend = rf"{_COLUMNS[tested]} of ROUGE, $\pm$ half the width of the 95\% bootstrap interval."
    if report["differences"]:
        legend += (
            rf" $\dagger$ differs significantly from {latex_text(report['name'])}. {latex_text(_rule_line(report))}"
        )
    table = latex_table([title_of(score) for score in columns], rows)
    return "\n\n".join((table, legend, latex_text(_settings_line(report)))) + "\n"


def _scores_table(report: dict[str, Any]) -> _Table:
    columns = ["Metric", "System", "F or mean" if report["measures"] else "F", "95% interval"]
    for title in list(_COLUMNS.values())[1:]:
        columns += [title, "95% interval"]
    rows = []
    for metric, systems in report["rouge"].items():
        for name, figures in systems.items():
            row = [title_of(metric), _system_title(report, name)]
            for column in _COLUMNS:
                row += [f"{figures[column]:.2f}", shown_interval(figures["intervals"][column], ".2f")]
            rows.append(row)
    for score, systems in report["measures"].items():
        for name, figures in systems.items():
            mean = _shown(report, name, score, figures["mean"])
            interval = shown_interval(figures["interval"], ".2f")
            rows.append([title_of(score), _system_title(report, name), mean, interval, *["-"] * 4])
    if not report["differences"]:
        # a single system needs no name
        for row in (columns, *rows):
            del row[1]
    return columns, rows, 2 if report["differences"] else 1


def _differences_table(report: dict[str, Any]) -> _Table:
    columns = [f"{report['name']} minus", "Metric", "Difference", "95% interval", "p", "p, Holm", "Significant"]
    rows = []
    for name, tests in report["differences"].items():
        for score, test in tests.items():
            title = title_of(score) + (f" {_COLUMNS[report['tested']]}" if score in report["rouge"] else "")
            row = [name, title, f"{test['mean']:+.2f}", shown_interval(test["interval"], "+.2f")]
            row += map(shown_p_value, (test["p_value"], test["p_holm"]))
            rows.append([*row, "yes" if test["significant"] else "no"])
    return columns, rows, 2


def _rule_line(report: dict[str, Any]) -> str:
    tests = sum(map(len, report["differences"].values()))
    return (
        f"A difference is significant if p is at most {_LEVEL} after Holm's adjustment for {tests} tests. p is "
        "computed by approximate randomization; the intervals are those of the paired bootstrap, without adjustment."
    )


def _system_title(report: dict[str, Any], name: str) -> str:
    return {"predictions": report["name"], "references": "References"}.get(name, name)


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
    texts = report["texts"]
    rows = [
        [title_of(score), *(_shown(report, name, score, texts[name][score]) for name in texts)]
        for score in texts["predictions"]
    ]
    return ["Texts", *(_system_title(report, name) for name in texts)], rows, 1


def _shown(report: dict[str, Any], name: str, score: str, value: float | None) -> str:
    """The value and, if it is not a mean over all rows, over how many."""
    return shown_value(value, report["rows"][name].get(score), report["pairs"])


def shown_value(value: float | None, rows: float | None, pairs: int) -> str:
    """A value with two digits and, where given, the number of the pairs' rows over which it is a mean."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.2f}" if rows is None else f"{value:.2f} ({rows} of {pairs})"


def _settings_line(report: dict[str, Any]) -> str:
    """The settings on which the figures depend, in one line to cite with them."""
    settings = report["settings"]
    facts = [
        f"{settings['rouge_mode']}: macro means in points over {report['pairs']} pairs",
        f"stemming: {settings['stemming']}",
        f"language {settings['language']}"
        + (f", subwords of {tokenizer}" if (tokenizer := settings["rouge_tokenizer"]) else _UNITS[settings["units"]]),
        f"sentences by {splitter_version()}" if settings["sentences"] == "split" else "one sentence per line",
    ]
    if settings["byte_limit"] is not None:
        facts.append(f"truncated after {settings['byte_limit']} bytes")
    if settings["word_limit"] is not None:
        facts.append(f"truncated after {settings['word_limit']} words")
    facts.append(f"{settings['resamples']} resamples, seed {settings['seed']}")
    if len(report["texts"]["predictions"]) > 1:
        marks = " with punctuation marks" if settings["count_punctuation"] else ""
        facts.append(f"novelty: {settings['average']} over {settings['count']}{marks}")
    facts += [f"{name} by {model}" for name, model in settings["metrics"].items() if model]
    return f"{'; '.join(facts)}; hf_summ {settings['hf_summ']}"
