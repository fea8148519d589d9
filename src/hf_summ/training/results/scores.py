"""The scores of a run's summaries: the measures named by `--metrics`."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hf_summ.data.languages import language_code
from hf_summ.evaluation.measures import MEASURES, RougeMode, Settings, Several, check_metrics
from hf_summ.evaluation.significance import Scored, rounded
from hf_summ.evaluation.text_files import tag_pattern, without_tags


class Scorer:
    """Computes a run's metrics, in each process separately.

    Args:
        metrics: some of `MEASURES`, as in `check_metrics`.
        rouge_mode: as for `hf_summ.evaluation.rouge`.
        language: language of the summaries, which determines how each metric splits texts into words.
        several: how ROUGE treats several references, as for `rouge_scores`.

    Attributes:
        clean: converts a text to the form that is scored, such as the washed form that a processor reads. Tags between
            sentences are read as their ends.

    Raises:
        ImportError: a library that a measure needs is not installed.
        ValueError: `language` is not an ISO 639 code, or a measure's model cannot be loaded.
    """

    def __init__(self, metrics: Sequence[str], rouge_mode: RougeMode, language: str, several: Several | None = None):
        # report an unknown language here, not after the first epoch
        language_code(language)
        models = check_metrics(metrics)
        self.settings = Settings(rouge_mode=rouge_mode, language=language, several=several, metrics=models)
        self.language = language
        self.clean: Callable[[str], str] = str
        self.measures = [MEASURES[name] for name in models]
        self.needs_documents = any(measure.reads == "sources" for measure in self.measures)
        self.columns = [measure.columns or measure.scores(rouge_mode) for measure in self.measures]
        self._last: tuple[Any, dict[str, Scored]] | None = None
        for measure in self.measures:
            # likewise a missing library or model
            measure.compute(["a"], ["a"], self.settings)

    def scored(
        self,
        predictions: Sequence[str],
        references: Sequence[str | list[str]],
        documents: Sequence[str] | None = None,
    ) -> dict[str, Scored]:
        """Every score of the measures; those that read sources need `documents`. The last texts' scores are kept."""
        texts = [list(predictions), list(references), documents and list(documents)]
        if self._last is None or self._last[0] != texts:
            ours = self._cleaned(predictions)
            theirs = {"references": self._cleaned_rows(references), "sources": self._cleaned(documents or ())}
            computed = (measure.compute(ours, theirs[measure.reads], self.settings) for measure in self.measures)
            self._last = texts, {name: score for scores in computed for name, score in scores.items()}
        return self._last[1]

    def __call__(self, *texts: Any) -> dict[str, float]:
        """The values of `scored`.

        A score that is not a mean over all rows comes with the number of those that have a value, as `support_rows`. If
        rows have several references, the score `references` is their mean number.
        """
        scored, (predictions, references, *_) = self.scored(*texts), texts
        several = [len(row) for row in references if not isinstance(row, str)]
        means = {"references": round(sum(several) / len(several), 2)} if several else {}
        numbers = {f"{name}_rows": score.number() for name, score in scored.items()}
        return means | rounded(scored) | {name: rows for name, rows in numbers.items() if rows < len(predictions)}

    def of_rows(self, *texts: Any) -> list[dict[str, float | None]]:
        """Each summary's scores of the measures with a single one, such as `support`; None where undefined."""
        single = [name for measure in self.measures for name in measure.titles if len(measure.titles) == 1]
        columns = [
            [None if math.isnan(value) else round(value, 4) for value in self.scored(*texts)[name].rows()]
            for name in single
        ]
        return [
            {name: column[row] for name, column in zip(single, columns, strict=True)} for row in range(len(texts[0]))
        ]

    def intervals(self, *texts: Any) -> dict[str, float]:
        """The bounds of the 95% bootstrap interval of each score in `columns`, as `rouge1_low`, `rouge1_high`.

        Scores without an interval, as those of a single pair, are left out.
        """
        ends = {}
        for name in (name for names in self.columns for name in names):
            if (interval := self.scored(*texts)[name].interval()) is not None:
                ends |= {f"{name}_low": round(interval.low, 4), f"{name}_high": round(interval.high, 4)}
        return ends

    def _cleaned_rows(self, references: Sequence[str | list[str]]) -> list[str | list[str]]:
        return [self._cleaned([row])[0] if isinstance(row, str) else self._cleaned(row) for row in references]

    def _cleaned(self, texts: Sequence[str]) -> list[str]:
        tag = tag_pattern()
        cleaned = [self.clean(text) for text in texts]
        without = [without_tags(text, tag) for text in cleaned]
        if without != cleaned:
            warnings.warn("texts to score contain tags such as <q>, read as the ends of sentences", stacklevel=3)
        return without
