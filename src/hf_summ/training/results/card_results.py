"""The scores in a model card: a table for readers, and entries for the Hub."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from huggingface_hub import EvalResult

from hf_summ.common.pages import markdown_table
from hf_summ.data.sentences import splitter_version
from hf_summ.evaluation.measures import MEASURES, Settings, measure_of, title_of
from hf_summ.evaluation.report import OF_SEVERAL, shown_value

_ROUGE_PROGRAMS = {"rouge_score": "Google's rouge-score", "rouge155": "the Perl script ROUGE-1.5.5"}


@dataclass(frozen=True)
class Results:
    """The scores of a split.

    LEAD is the baseline whose summary is the first sentences of a document.

    Args:
        split: the name of the split.
        documents: the number of its documents that were scored.
        scores: the scores by name, see `Scorer`. The bounds of the interval of a score X are `X_low` and `X_high`, and
            the number of documents that have the score is `X_rows`. LEAD's scores have the prefix `lead<n>_`.
        columns: the names of the summaries' scores to show, where present.
        settings: the settings with which the scores were computed.
        lead_sentences: the number of LEAD's sentences, or None without LEAD.
        is_whole: whether all documents of the split were scored.
    """

    split: str
    documents: int
    scores: Mapping[str, float]
    columns: Sequence[str]
    settings: Settings
    lead_sentences: int | None = None
    is_whole: bool = True

    @property
    def shown(self) -> list[str]:
        """The names of the scores in the table."""
        names = []
        for name in list(self.columns) + ["perplexity"]:
            if name in self.scores:
                names.append(name)
        return names

    def as_markdown(self) -> str:
        """A Markdown table with a row for each score of the model, beside LEAD's if there are any."""
        header = ["Score", "This model"]
        if self.lead_sentences is not None:
            header.append(f"LEAD-{self.lead_sentences}")
        rows = []
        for name in self.shown:
            row = [title_of(name), self._cell(name)]
            if self.lead_sentences is not None:
                row.append(self._cell(f"lead{self.lead_sentences}_{name}"))
            rows.append(row)
        return markdown_table(header, rows)

    def _cell(self, name: str) -> str:
        """A score in a table, with its interval, and the number of its documents if some have no score."""
        cell = shown_value(self.scores.get(name), self.scores.get(f"{name}_rows"), self.documents)
        if f"{name}_low" in self.scores:
            low, high = self.scores[f"{name}_low"], self.scores[f"{name}_high"]
            cell += f" [{low:.2f}, {high:.2f}]"
        return cell

    def notes(self) -> list[str]:
        """How the table's figures were computed, in sentences."""
        sentences = []
        settings = self.settings
        mode = settings.rouge_mode
        if any(name.startswith("rouge") for name in self.shown):
            sentences.append(
                f"ROUGE is F in points, computed like {_ROUGE_PROGRAMS[mode]} (`--rouge_mode {mode}`; "
                f"stemming: {settings.stemming}; sentences by {splitter_version()})."
            )
            references = self.scores.get("references", 1)
            if references > 1:
                sentences.append(
                    f"{self.split.capitalize()} documents have {references:g} references on average; "
                    f"{OF_SEVERAL[settings.of_several]}."
                )
        if any(name.endswith("_low") for name in self.scores):
            sentences.append(
                "In brackets are 95% intervals of the mean over documents, from 1,000 bootstrap resamples."
            )
        if self.lead_sentences is not None:
            amount = "sentence" if self.lead_sentences == 1 else f"{self.lead_sentences} sentences"
            sentences.append(f"LEAD-{self.lead_sentences} is the first {amount} of each document.")
        shown_measures = {measure_of(name) for name in self.shown}
        for name, measure in MEASURES.items():
            # the note on ROUGE is above, with its settings
            if measure in shown_measures and name != "rouge":
                sentences.append(measure.note)
        if "perplexity" in self.shown:
            sentences.append("Perplexity is per token of the references, so it depends on the vocabulary.")
        return sentences

    def as_model_index(self, dataset_type: str, dataset_name: str, dataset_config: str | None) -> list[EvalResult]:
        """The Hub's metrics among the scores, as entries of a card's `model-index`.

        Args:
            dataset_type, dataset_name, dataset_config: describe the data set, see `huggingface_hub.EvalResult`.
        """
        entries = []
        for name in self.shown:
            metric = _hub_metric(name)
            value = self.scores[name]
            if metric is None or not math.isfinite(value):
                continue
            entry = EvalResult(
                task_type="summarization",
                dataset_type=dataset_type,
                dataset_name=dataset_name,
                dataset_config=dataset_config,
                dataset_split=self.split,
                metric_type=metric,
                metric_name=title_of(name),
                metric_value=round(value, 4),
            )
            entries.append(entry)
        return entries


def _hub_metric(name: str) -> str | None:
    """The Hub's name of the metric to which a score belongs, or None if the Hub has no such metric.

    Measures that compare summaries with their sources describe summaries, and are not metrics of their quality.
    """
    if name == "perplexity":
        return name
    measure = measure_of(name)
    if measure is not None and measure.reads == "references":
        return measure.name
    return None
