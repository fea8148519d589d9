"""Scores of one or several systems on the same rows, and their differences; `report_tables` shows them.

A row is a prediction with its references and perhaps a source. A system is what wrote the predictions of all rows. The
evaluated system has the name "predictions", and the systems with which it is compared have names from the caller. The
texts of an evaluation are the predictions of each system, and the references. A measure is an entry of `MEASURES`, such
as "novelty", and a score is a figure that a measure gives, such as "novel1".
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from hf_summ import __version__
from hf_summ.evaluation.measures import MEASURES, Measure, Settings, title_of
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

# How several references of a row are combined, in words for readers of a report.
OF_SEVERAL = {"best": "each score is that of the best one", "pooled": "scores pool the matches with all"}
# The scores of novelty that stand in the first table.
_COPYING_SCORES = ("copy_density", "copy_rate")
# The names of the evaluated system and of the references, which no other system can have.
_RESERVED_NAMES = ("predictions", "references")
# With fewer rows than this, the bootstrap's intervals are too narrow.
_FEW_ROWS = 100


class Evaluation:
    """The scores of one or several systems on the same rows.

    Args:
        predictions: (N,), one text per row.
        references: (N,), a list of one or several texts per row.
        sources: (N,), one document per row. With sources, novelty and support are computed too.
        against: system -> the other system's predictions, (N,).
        settings: which measures are computed, and how; `Settings()` by default.
        labels: (N,), the name of each row in messages; by default the row's number, counted from 0.
        name: the name of the evaluated system in tables.

    Attributes:
        systems: system -> its predictions; "predictions" is the first.
        rouge: system -> type of ROUGE -> precision, recall and F of each row.

    Raises:
        ImportError: a measure needs a library that is not installed.
        TypeError: texts are not lists, or `settings.metrics` has a measure that reads sources, but there are none.
        ValueError: `against` has a system named "predictions" or "references"; numbers of texts differ; no reference or
            no source has any words; or a measure's model cannot be loaded.
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
            # `needs` names the model that a measure needs. Such a measure scores a pair of texts as a trial: if the
            # model cannot be loaded, the error is raised before the long computations below.
            if measure.needs:
                measure.compute(["a"], ["a"], self.settings)
        self.rouge, self._warnings = self._rouge_of_systems()
        # The texts that are compared with sources: the predictions of each system, and the first reference of each row.
        self._texts = self.systems | {"references": [row[0] for row in references]}
        self._scores = self._scores_of_texts(sources)
        if sources is not None:
            self._note_wordless_sources(sources)

    def _rouge_of_systems(self) -> tuple[dict[str, dict[str, Scores]], list[str]]:
        """Compute ROUGE, and collect the warnings about it.

        Returns:
            System -> type of ROUGE -> scores, and the texts of the warnings. A warning about the references comes once
            for each system, but stands once in the list.
        """
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
        """Compute all measures other than ROUGE.

        Args:
            sources: (N,), one document per row; None only if no measure reads sources.

        Returns:
            For each system and for "references": score -> the score as a `Scored`, with the statistics of each row. The
            references have only the scores of measures that read sources.
        """
        scores: dict[str, dict[str, Scored]] = {name: {} for name in self._texts}
        with warnings.catch_warnings():
            # Measures warn of sources without words for each system. `_note_wordless_sources` reports these sources
            # once, with the labels of the rows.
            warnings.simplefilter("ignore", UserWarning)
            for measure in self._measures:
                if measure.reads == "sources":
                    for name, texts in self._texts.items():
                        scores[name].update(measure.compute(texts, sources, self.settings))
                else:
                    for name, texts in self.systems.items():
                        scores[name].update(measure.compute(texts, self.references, self.settings))
        return scores

    def _note_wordless_sources(self, sources: Sequence[str]) -> None:
        """Add a sentence to the notes of the report if some sources have no words."""
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
        """All figures, ready for JSON; `Report` describes each entry.

        The intervals and tests are computed now, which takes a while for many rows or resamples.
        """
        settings = asdict(self.settings)
        settings["stemming"] = self.settings.stemming
        settings["hf_summ"] = __version__
        rouge_figures = {}
        for rouge_type in self.rouge["predictions"]:
            rouge_figures[rouge_type] = {system: self._rouge_figures(system, rouge_type) for system in self.systems}
        score_figures = {}
        for score in self._scores_of_first_table():
            score_figures[score] = {system: self._score_figures(system, score) for system in self.systems}
        differences = self._differences()
        return {
            "settings": settings,
            "name": self.name,
            "pairs": len(self.references),
            "rouge": rouge_figures,
            "measures": score_figures,
            "tested": self._rouge_part,
            "differences": differences,
            "texts": {name: self._means_of_texts(name) for name in self._texts},
            "rows": {name: self._numbers_of_rows(name) for name in self._texts},
            "notes": self._warnings + self._notes(differences),
        }

    def rows(self) -> Iterator[dict[str, str | float | None]]:
        """Yield the scores of each row, for one system after the other.

        Yields:
            A dictionary with the keys `system`; `row`, the row's label; `rouge2_fmeasure` and the like, for each type
            and part of ROUGE; and the names of the other scores. The value of a score is None for a row that has none.
        """
        for system in self.systems:
            # Key -> the values of all rows.
            columns = {}
            for rouge_type, scores in self.rouge[system].items():
                for part, values in scores._asdict().items():
                    columns[f"{rouge_type}_{part}"] = values
            for score, scored in self._scores[system].items():
                columns[score] = scored.rows()
            for row, label in enumerate(self.labels):
                record: dict[str, str | float | None] = {"system": system, "row": label}
                for column, values in columns.items():
                    record[column] = _number_or_none(float(values[row]))
                yield record

    @property
    def _rouge_part(self) -> RougePart:
        """The part of ROUGE in which systems are compared."""
        # Summaries of limited length are ranked by recall, as in the DUC competitions.
        return "recall" if self.settings.is_truncating else "fmeasure"

    def _scores_of_first_table(self) -> list[str]:
        """The scores other than ROUGE in the report's first table. The scores of novelty come last."""
        scores = []
        for measure in self._measures:
            if measure.name != "novelty":
                scores.extend(measure.columns or measure.titles)
        if MEASURES["novelty"] in self._measures:
            scores.extend(_COPYING_SCORES)
        return scores

    def _scores_with_differences(self) -> list[str]:
        """The scores other than ROUGE in which systems are compared: the scores of measures that read references."""
        scores = []
        for measure in self._measures:
            if measure.reads == "references":
                scores.extend(measure.columns or measure.titles)
        return scores

    def _rouge_figures(self, system: str, rouge_type: str) -> RougeFigures:
        """The means and intervals of a type of ROUGE of a system."""
        scores = self.rouge[system][rouge_type]
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

    def _score_figures(self, system: str, score: str) -> ScoreFigures:
        """The value and interval of another score of a system."""
        scored = self._scores[system][score]
        mean = rounded({score: scored})[score]
        return {"mean": _number_or_none(mean), "interval": self._bounds(scored)}

    def _bounds(self, scored: Scored) -> Bounds:
        """The bounds of a score's bootstrap interval, or None for fewer than two rows with a value."""
        interval = scored.interval(self.settings.resamples, self.settings.seed)
        if interval is None:
            return None
        return [interval.low, interval.high]

    def _differences(self) -> dict[str, dict[str, Difference]]:
        """The differences of the predictions from each other system, with p adjusted for all tests of the report.

        Returns:
            Other system -> type of ROUGE, or score against the references -> difference.
        """
        differences = {}
        # Each difference is a test. Holm's method adjusts the p-values of all tests together.
        tests: list[Difference] = []
        for system in self.systems:
            if system != "predictions":
                differences[system] = self._differences_from(system)
                tests.extend(differences[system].values())
        adjusted_p_values = holm([test["p_value"] for test in tests])
        for test, p_holm in zip(tests, adjusted_p_values, strict=True):
            test["p_holm"] = p_holm
            test["significant"] = p_holm <= LEVEL
        return differences

    def _differences_from(self, system: str) -> dict[str, Difference]:
        """The differences of the predictions from another system, with p before Holm's adjustment.

        Returns:
            Type of ROUGE, or score against the references -> difference. A score without a value for one of the systems
            or in a resample is left out.
        """
        differences = {}
        for rouge_type, system_rouge in self.rouge[system].items():
            prediction_values = getattr(self.rouge["predictions"][rouge_type], self._rouge_part)
            system_values = getattr(system_rouge, self._rouge_part)
            differences[rouge_type] = self._difference(prediction_values, system_values)
        for score in self._scores_with_differences():
            prediction_score = self._scores["predictions"][score]
            system_score = self._scores[system][score]
            try:
                differences[score] = self._difference(
                    prediction_score.statistics, system_score.statistics, system_score.measure
                )
            except ValueError:
                # Too few rows have a value, as `_notes` says.
                continue
        return differences

    def _difference(
        self, prediction_scores: np.ndarray, system_scores: np.ndarray, measure: MeasureOfSums | None = None
    ) -> Difference:
        """The difference of the predictions from another system, with p before Holm's adjustment.

        Args:
            prediction_scores, system_scores: (N,), the scores of each row; with a measure (N, K), the statistics of
                each row.
            measure: maps sums of statistics, (…, K), to scores, (…).

        Raises:
            ValueError: a score is undefined for the corpus or for a resample.
        """
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
        """Score -> mean, for the predictions of a system or the "references".

        With sources, the scores are the figures of the measures that read sources. Without sources, the only score is
        `length`, the number of words.
        """
        # The references have only scores of measures that read sources.
        scores_against_sources = list(self._scores["references"])
        if not scores_against_sources:
            lengths = [len(split_words(text, self.settings.language)) for text in self._texts[name]]
            return {"length": float(np.mean(lengths))}
        means = rounded(self._scores[name])
        return {score: _number_or_none(means[score]) for score in scores_against_sources}

    def _numbers_of_rows(self, name: str) -> dict[str, int]:
        """Score -> the number of rows that have a value, for the predictions of a system or the "references".

        Scores that all rows have are left out.
        """
        numbers = {}
        for score, scored in self._scores[name].items():
            rows_with_value = scored.number()
            if rows_with_value < len(self.references):
                numbers[score] = rows_with_value
        return numbers

    def _notes(self, differences: Mapping[str, Mapping[str, Difference]]) -> list[str]:
        """What a reader of the scores needs to know about the texts, the intervals and the tests.

        Args:
            differences: the differences of the report.
        """
        notes = []
        for system, texts in self.systems.items():
            notes.extend(self._notes_on_system(system, texts))
        pairs = len(self.references)
        blank_rows = sum(not "".join(row).strip() for row in self.references)
        if blank_rows:
            notes.append(f"{blank_rows} of {pairs} references are blank: their pairs score 0")
        if pairs == 1:
            notes.append("there is only one pair, so there is no interval")
        elif len(self.systems) > 1 and pairs < _FEW_ROWS:
            notes.append(
                f"there are only {pairs} pairs, so the bootstrap's intervals are too narrow (with 20 pairs, 8% of the "
                "intervals of chance differences exclude 0): rely on p"
            )
        tests = 0
        for system, system_differences in differences.items():
            tests += len(system_differences)
            for score in self._scores_with_differences():
                if score not in system_differences:
                    notes.append(f"no difference from {system} in {title_of(score)}: too few rows have a value")
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

    def _notes_on_system(self, system: str, texts: Sequence[str]) -> list[str]:
        """What is strange about a system's predictions: blank, identical to the references, or in another order."""
        notes = []
        blank_texts = sum(not text.strip() for text in texts)
        if blank_texts:
            subject = system if system == "predictions" else f"texts of {system}"
            notes.append(f"{blank_texts} of {len(self.references)} {subject} are blank and score 0")
        if texts == self._texts["references"]:
            notes.append(f"{system} are identical to the references, perhaps from the same column")
        elif not is_paired(texts, self.references, self._rouge1):
            notes.append(
                f"{system} are no closer to their own references than to those of other rows: they may have another "
                "order, or be all alike"
            )
        return notes

    def _rouge1(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        """F of ROUGE-1 of each text, (N,)."""
        settings = replace(self.settings, rouge_types=("rouge1",))
        return rouge(texts, references, settings)["rouge1"].fmeasure


def _measures_without_rouge(settings: Settings, has_sources: bool) -> list[Measure]:
    """The measures other than ROUGE: with sources, novelty and support; then the measures in `settings.metrics`."""
    names = []
    if has_sources:
        names.extend(["novelty", "support"])
    names.extend(settings.metrics)
    # A measure that is computed anyway may stand in the settings too. `dict.fromkeys` keeps each name once.
    return [MEASURES[name] for name in dict.fromkeys(names) if name != "rouge"]


def _number_or_none(value: float) -> float | None:
    """The value, or None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value
