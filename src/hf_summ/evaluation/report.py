"""Scores of one or several systems on the same rows, and their differences; `report_tables` shows them."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from hf_summ import __version__
from hf_summ.evaluation.measures import MEASURES, Measure, Settings
from hf_summ.evaluation.report_tables import LEVEL, as_latex, as_text, shown_interval, shown_p_value, shown_value
from hf_summ.evaluation.report_types import Bounds, Difference, Report, RougeFigures, RougePart, ScoreFigures
from hf_summ.evaluation.rouge import rouge
from hf_summ.evaluation.rouge_counts import Scores
from hf_summ.evaluation.significance import (
    MeasureOfSums,
    Scored,
    holm,
    is_paired,
    mean_over_rows,
    paired_bootstrap,
    paired_randomization,
    rounded,
)
from hf_summ.evaluation.words import first_of, split_words

__all__ = ["OF_SEVERAL", "Evaluation", "as_latex", "as_text", "shown_interval", "shown_p_value", "shown_value"]

# How several references are combined, in words for readers.
OF_SEVERAL = {"best": "each score is that of the best one", "pooled": "scores pool the matches with all"}
# The scores of novelty that stand in the first table.
_COPYING_SCORES = ("copy_density", "copy_rate")
# Names of texts, which no other system can have.
_RESERVED_NAMES = ("predictions", "references")
# With fewer pairs than this, the bootstrap's intervals are too narrow.
_FEW_PAIRS = 100


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
        self.references = references
        self.labels = labels or [str(row) for row in range(len(predictions))]
        self.name = name
        self.systems = {"predictions": predictions}
        for system, texts in (against or {}).items():
            if system in _RESERVED_NAMES:
                raise ValueError(f"`against` has a system named '{system}': give it another name")
            self.systems[system] = texts
        self._measures = _measures_without_rouge(self.settings, has_sources=sources is not None)
        for measure in self._measures:
            if measure.needs:
                # A missing model is reported before long computations.
                measure.compute(["a"], ["a"], self.settings)
        self.rouge, self._warnings = self._rouge_of_systems()
        # Of several references, the first is compared with sources.
        self._first_texts = self.systems | {"references": [row[0] for row in references]}
        self._scored = self._scores_of_texts(sources)
        if sources is not None:
            self._warn_of_wordless(sources)

    def _rouge_of_systems(self) -> tuple[dict[str, dict[str, Scores]], list[str]]:
        """System -> type -> ROUGE, and the texts of warnings, once each though all systems share the references."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            scores = {}
            for name, texts in self.systems.items():
                scores[name] = rouge(texts, self.references, self.settings)
        messages = []
        for warning in caught:
            message = str(warning.message)
            if issubclass(warning.category, UserWarning) and message not in messages:
                messages.append(message)
        return scores, messages

    def _scores_of_texts(self, sources: Sequence[str] | None) -> dict[str, dict[str, Scored]]:
        """Name of texts -> score -> its value for each measure other than ROUGE."""
        scored: dict[str, dict[str, Scored]] = {name: {} for name in self._first_texts}
        with warnings.catch_warnings():
            # The notes list sources without words once, with their labels.
            warnings.simplefilter("ignore", UserWarning)
            for measure in self._measures:
                if measure.reads == "sources":
                    for name, texts in self._first_texts.items():
                        scored[name].update(measure.compute(texts, sources, self.settings))
                else:
                    for name, texts in self.systems.items():
                        scored[name].update(measure.compute(texts, self.references, self.settings))
        return scored

    def _warn_of_wordless(self, sources: Sequence[str]) -> None:
        wordless_labels = []
        for row, source in enumerate(sources):
            if not split_words(source, self.settings.language):
                wordless_labels.append(self.labels[row])
        if wordless_labels:
            self._warnings.append(
                f"{len(wordless_labels)} of {len(self.references)} sources have no words and are left out of novelty "
                f"and support: {first_of(wordless_labels)}"
            )

    def report(self) -> Report:
        """All figures, ready for JSON.

        - `rouge`: metric -> system -> precision, recall, fmeasure (macro means in points, 0 to 100) and their 95%
          `intervals`, null for a single pair.
        - `measures`: of the other measures, score -> system -> `mean` over the rows that have a value, or the corpus's
          value, and its 95% `interval`; null where there is none. With sources these are `support`, `copy_density` and
          `copy_rate`, and those of `settings.metrics`.
        - `differences`: other system -> score against the references -> predictions minus it: `mean`, the paired
          bootstrap's `interval`, `p_value` of approximate randomization, `p_holm`, adjusted for all of these tests, and
          `significant`, whether `p_holm` is at most 0.05. For ROUGE, `tested` names what is compared:
          fmeasure, or recall if summaries are truncated.
        - `texts`: predictions, other systems by name, references -> mean `length` in words and, with sources, all
          scores against them. The first of several references is used; a score without any value is null.
        - `rows`: the same texts -> score -> the number of rows over which it is a mean, where that is not all of them.
        - `name`, `settings`, `pairs`, and `notes`, which a reader of the scores needs.
        """
        settings = asdict(self.settings)
        settings["stemming"] = self.settings.stemming
        settings["hf_summ"] = __version__
        rouge_figures = {}
        for metric in self.rouge["predictions"]:
            rouge_figures[metric] = {name: self._rouge_figures(name, metric) for name in self.systems}
        score_figures = {}
        for score in self._scores_of_first_table():
            score_figures[score] = {name: self._score_figures(name, score) for name in self.systems}
        return {
            "settings": settings,
            "name": self.name,
            "pairs": len(self.references),
            "rouge": rouge_figures,
            "measures": score_figures,
            "tested": self._tested,
            "differences": self._differences(),
            "texts": {name: self._means_of_texts(name) for name in self._first_texts},
            "rows": {name: self._numbers_of_rows(name) for name in self._first_texts},
            "notes": self._warnings + self._notes(),
        }

    def rows(self) -> Iterator[dict[str, str | float | None]]:
        """Each row's scores of each system: label, ROUGE and the other measures; null for none."""
        for name in self.systems:
            columns = {}
            for metric, scores in self.rouge[name].items():
                for part, values in scores._asdict().items():
                    columns[f"{metric}_{part}"] = values
            for score, scored in self._scored[name].items():
                columns[score] = scored.rows()
            for row, label in enumerate(self.labels):
                record: dict[str, str | float | None] = {"system": name, "row": label}
                for column, values in columns.items():
                    record[column] = _number_or_none(float(values[row]))
                yield record

    @property
    def _tested(self) -> RougePart:
        """The part of ROUGE's scores whose differences are tested."""
        # Summaries of limited length are ranked by recall, as at DUC.
        return "recall" if self.settings.is_truncating else "fmeasure"

    def _scores_of_first_table(self) -> list[str]:
        """The scores other than ROUGE in the first table, of which novelty's come last."""
        scores = []
        for measure in self._measures:
            if measure.name != "novelty":
                scores.extend(measure.columns or measure.titles)
        if MEASURES["novelty"] in self._measures:
            scores.extend(_COPYING_SCORES)
        return scores

    def _scores_with_differences(self) -> list[str]:
        """The scores other than ROUGE in which systems are compared: those that read references."""
        scores = []
        for measure in self._measures:
            if measure.reads == "references":
                scores.extend(measure.columns or measure.titles)
        return scores

    def _rouge_figures(self, name: str, metric: str) -> RougeFigures:
        scores = self.rouge[name][metric]
        return {
            "precision": float(scores.precision.mean()),
            "recall": float(scores.recall.mean()),
            "fmeasure": float(scores.fmeasure.mean()),
            "intervals": {
                "precision": self._bounds(mean_over_rows(scores.precision)),
                "recall": self._bounds(mean_over_rows(scores.recall)),
                "fmeasure": self._bounds(mean_over_rows(scores.fmeasure)),
            },
        }

    def _score_figures(self, name: str, score: str) -> ScoreFigures:
        scored = self._scored[name][score]
        mean = rounded({score: scored})[score]
        return {"mean": _number_or_none(mean), "interval": self._bounds(scored)}

    def _bounds(self, scored: Scored) -> Bounds:
        """The bounds of the bootstrap interval, or None where there is none."""
        interval = scored.interval(self.settings.resamples, self.settings.seed)
        if interval is None:
            return None
        return [interval.low, interval.high]

    def _differences(self) -> dict[str, dict[str, Difference]]:
        """Other system -> score -> the difference, with p adjusted for the tests of all scores and systems."""
        differences = {}
        tests: list[Difference] = []
        for name in self.systems:
            if name != "predictions":
                differences[name] = self._differences_from(name)
                tests.extend(differences[name].values())
        adjusted_p_values = holm([test["p_value"] for test in tests])
        for test, p_holm in zip(tests, adjusted_p_values, strict=True):
            test["p_holm"] = p_holm
            test["significant"] = p_holm <= LEVEL
        return differences

    def _differences_from(self, name: str) -> dict[str, Difference]:
        """The predictions' scores minus those of another system, with p before Holm's adjustment."""
        differences = {}
        for metric, scores in self.rouge[name].items():
            prediction_scores = getattr(self.rouge["predictions"][metric], self._tested)
            differences[metric] = self._difference(prediction_scores, getattr(scores, self._tested))
        for score in self._scores_with_differences():
            prediction_scored, scored = self._scored["predictions"][score], self._scored[name][score]
            differences[score] = self._difference(prediction_scored.statistics, scored.statistics, scored.measure)
        return differences

    def _difference(
        self, prediction_scores: np.ndarray, system_scores: np.ndarray, measure: MeasureOfSums | None = None
    ) -> Difference:
        """The difference of two systems; scores and measure are those of `paired_bootstrap`."""
        resamples, seed = self.settings.resamples, self.settings.seed
        compared = paired_bootstrap(prediction_scores, system_scores, resamples, seed=seed, measure=measure)
        p_value = paired_randomization(prediction_scores, system_scores, resamples, seed, measure)
        return {
            "mean": compared.mean,
            "interval": None if compared.pairs == 1 else [compared.low, compared.high],
            "p_value": p_value,
            # Holm's adjustment needs the p-values of all tests.
            "p_holm": p_value,
            "significant": False,
        }

    def _means_of_texts(self, name: str) -> dict[str, float | None]:
        """All scores of texts against the sources; without sources, the mean number of words."""
        source_scores = self._scored["references"]
        if not source_scores:
            lengths = [len(split_words(text, self.settings.language)) for text in self._first_texts[name]]
            return {"length": float(np.mean(lengths))}
        means = rounded(self._scored[name])
        return {score: _number_or_none(means[score]) for score in source_scores}

    def _numbers_of_rows(self, name: str) -> dict[str, int]:
        """Score of texts -> the number of rows that have a value, where that is not all of them."""
        numbers = {}
        for score, scored in self._scored[name].items():
            number = scored.number()
            if number < len(self.references):
                numbers[score] = number
        return numbers

    def _notes(self) -> list[str]:
        """What a reader of the scores needs to know about the texts, the intervals and the tests."""
        notes = []
        for name, texts in self.systems.items():
            notes.extend(self._notes_on_system(name, texts))
        pairs = len(self.references)
        blank_rows = sum(not "".join(row).strip() for row in self.references)
        if blank_rows:
            notes.append(f"{blank_rows} of {pairs} references are blank: their pairs score 0")
        if pairs == 1:
            notes.append("there is only one pair, so there is no interval")
        elif len(self.systems) > 1 and pairs < _FEW_PAIRS:
            notes.append(
                f"there are only {pairs} pairs, so the bootstrap's intervals are too narrow (with 20 pairs, 8% of the "
                "intervals of chance differences exclude 0): rely on p"
            )
        scores = len(self.rouge["predictions"]) + len(self._scores_with_differences())
        tests = scores * (len(self.systems) - 1)
        # The smallest p of a test is 1 / (resamples + 1), and Holm's method multiplies it by the number of tests.
        if tests > LEVEL * (self.settings.resamples + 1):
            notes.append(
                f"with {self.settings.resamples} resamples, none of {tests} tests can be significant: use more"
            )
        rows_with_several = sum(len(row) > 1 for row in self.references)
        if rows_with_several:
            combination = OF_SEVERAL[self.settings.of_several]
            if self.settings.of_several == "pooled":
                combination += " (--several best takes the best score)"
            notes.append(
                f"{rows_with_several} of {pairs} pairs have several references: {combination}; lengths are those of "
                "the first"
            )
        return notes

    def _notes_on_system(self, name: str, texts: Sequence[str]) -> list[str]:
        """What is strange about a system's texts: blank, identical to the references, or in another order."""
        notes = []
        blank_texts = sum(not text.strip() for text in texts)
        if blank_texts:
            subject = name if name == "predictions" else f"texts of {name}"
            notes.append(f"{blank_texts} of {len(self.references)} {subject} are blank and score 0")
        if texts == self._first_texts["references"]:
            notes.append(f"{name} are identical to the references, perhaps from the same column")
        elif not is_paired(texts, self.references, self._rouge1):
            notes.append(
                f"{name} are no closer to their own references than to those of other rows: they may have another "
                "order, or be all alike"
            )
        return notes

    def _rouge1(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        settings = replace(self.settings, rouge_types=("rouge1",))
        return rouge(texts, references, settings)["rouge1"].fmeasure


def _measures_without_rouge(settings: Settings, has_sources: bool) -> list[Measure]:
    """The measures besides ROUGE: with sources, novelty and support; then those of the settings."""
    names = list(settings.metrics)
    if has_sources:
        names = ["novelty", "support", *names]
    # A measure may be named though it is computed anyway.
    return [MEASURES[name] for name in dict.fromkeys(names) if name != "rouge"]


def _number_or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
