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

    Args:
        split: name of the split.
        documents: number of its documents that were scored.
        scores: by name, see `Scorer`; the bounds of an interval are `X_low` and `X_high`, and LEAD's scores have the
            prefix `lead<n>_`.
        columns: names of the summary scores to show, where present.
        settings: those with which the scores were computed.
        lead_sentences: LEAD's number of sentences, or None without LEAD.
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
        return [name for name in (*self.columns, "perplexity") if name in self.scores]

    def as_markdown(self) -> str:
        """A table of the model's scores, beside LEAD's if there are any."""
        prefixes = {"This model": ""}
        if self.lead_sentences is not None:
            prefixes[f"LEAD-{self.lead_sentences}"] = f"lead{self.lead_sentences}_"
        rows = []
        for name in self.shown:
            cells = [self._cell(f"{prefix}{name}") for prefix in prefixes.values()]
            rows.append([title_of(name), *cells])
        return markdown_table(["Score", *prefixes], rows)

    def _cell(self, name: str) -> str:
        cell = shown_value(self.scores.get(name), self.scores.get(f"{name}_rows"), self.documents)
        if f"{name}_low" in self.scores:
            cell += f" [{self.scores[f'{name}_low']:.2f}, {self.scores[f'{name}_high']:.2f}]"
        return cell

    def notes(self) -> list[str]:
        """How the table's figures were computed, in sentences."""
        sentences = []
        settings, mode = self.settings, self.settings.rouge_mode
        if any(name.startswith("rouge") for name in self.shown):
            sentences.append(
                f"ROUGE is F in points, computed like {_ROUGE_PROGRAMS[mode]} (`--rouge_mode {mode}`; "
                f"stemming: {settings.stemming}; sentences by {splitter_version()})."
            )
            if self.scores.get("references", 1) > 1:
                documents = f"{self.split.capitalize()} documents"
                number, kind = f"{self.scores['references']:g}", OF_SEVERAL[settings.of_several]
                sentences.append(f"{documents} have {number} references on average; {kind}.")
        if any(name.endswith("_low") for name in self.scores):
            sentences.append(
                "In brackets are 95% intervals of the mean over documents, from 1,000 bootstrap resamples."
            )
        if self.lead_sentences is not None:
            amount = "sentence" if self.lead_sentences == 1 else f"{self.lead_sentences} sentences"
            sentences.append(f"LEAD-{self.lead_sentences} is the first {amount} of each document.")
        measures = {measure_of(name) for name in self.shown}
        # ROUGE's is above
        sentences += [MEASURES[name].note for name in MEASURES if MEASURES[name] in measures and name != "rouge"]
        if "perplexity" in self.shown:
            sentences.append("Perplexity is per token of the references, so it depends on the vocabulary.")
        return sentences

    def as_model_index(self, dataset_type: str, dataset_name: str, dataset_config: str | None) -> list[EvalResult]:
        """The Hub's metrics among the scores, as entries of a card's `model-index`.

        Args:
            dataset_type, dataset_name, dataset_config: the data set, see `huggingface_hub.EvalResult`.
        """
        entries = []
        for name in self.shown:
            metric, value = _hub_metric(name), self.scores[name]
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
    """The Hub's name of a metric; scores against the sources describe summaries, and are none."""
    measure = measure_of(name)
    if measure is None:
        return name if name == "perplexity" else None
    return measure.name if measure.reads == "references" else None
