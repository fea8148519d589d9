"""The scores in a model card: tables for readers, and the Hub's two formats."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml

from hf_summ.common.files import shared_name
from hf_summ.common.pages import markdown_table
from hf_summ.data.sentences import splitter_version
from hf_summ.evaluation.measures import MEASURES, Settings, measure_of, title_of
from hf_summ.evaluation.report import OF_SEVERAL, shown_value


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

    @property
    def has_intervals(self) -> bool:
        """Whether any score has an interval."""
        return any(f"{name}_low" in self.scores for name in self.shown)

    @property
    def hub_scores(self) -> list[str]:
        """The names of the finite scores that are metrics of the Hub."""
        return [name for name in self.shown if _hub_metric(name) and math.isfinite(self.scores[name])]

    def as_markdown(self) -> str:
        """A table of the model's scores, beside LEAD's if there are any."""
        systems = {"This model": ""}
        if self.lead_sentences is not None:
            systems[f"LEAD-{self.lead_sentences}"] = f"lead{self.lead_sentences}_"
        columns = [column for name in systems for column in ((name, "95% interval") if self.has_intervals else (name,))]
        rows = []
        for name in self.shown:
            cells = [title_of(name)]
            for prefix in systems.values():
                number = self.scores.get(f"{prefix}{name}_rows")
                cells.append(shown_value(self.scores.get(f"{prefix}{name}"), number, self.documents))
                if self.has_intervals:
                    ends = [self.scores.get(f"{prefix}{name}_{end}") for end in ("low", "high")]
                    cells.append("-" if None in ends else " to ".join(f"{end:.2f}" for end in ends))
            rows.append(cells)
        amount = "all" if self.is_whole else "the first"
        title = f"### {self.split.capitalize()}: {amount} {self.documents:,} documents"
        return f"{title}\n\n{markdown_table(['Score', *columns], rows)}"

    def notes(self) -> list[str]:
        """How the table's figures were computed, in sentences."""
        sentences = []
        if any(name.startswith("rouge") for name in self.shown):
            program = {"rouge_score": "Google's rouge-score", "rouge155": "the Perl script ROUGE-1.5.5"}
            settings, mode = self.settings, self.settings.rouge_mode
            sentences.append(
                f"ROUGE is F in points, computed like {program[mode]} (`--rouge_mode {mode}`; "
                f"stemming: {settings.stemming}; sentences by {splitter_version()}"
                f"{f'; subwords of {shared_name(settings.rouge_tokenizer)}' if settings.rouge_tokenizer else ''})."
            )
            if self.scores.get("references", 1) > 1:
                which = OF_SEVERAL[settings.of_several]
                whose = f"{self.split.capitalize()} documents"
                sentences.append(f"{whose} have {self.scores['references']:g} references on average; {which}.")
        if self.has_intervals:
            sentences.append("Intervals are those of the mean over documents, from 1,000 bootstrap resamples.")
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
        return [
            EvalResult(
                task_type="summarization",
                task_name="Summarization",
                dataset_type=dataset_type,
                dataset_name=dataset_name,
                dataset_config=dataset_config,
                dataset_split=self.split,
                metric_type=str(_hub_metric(name)),
                metric_name=title_of(name),
                metric_value=round(self.scores[name], 4),
                metric_args={"rouge_mode": self.settings.rouge_mode} if name.startswith("rouge") else None,
            )
            for name in self.hub_scores
        ]

    def as_files(self, dataset_name: str, dataset_config: str | None) -> dict[str, str]:
        """ROUGE and BLEU as files of the folder `.eval_results`: name -> YAML.

        Each score has one file and is identified by its notes. Perplexities are left out, as they depend on the
        vocabulary. See https://huggingface.co/docs/hub/eval-results.

        Args:
            dataset_name: repository of the data set on the Hub.
            dataset_config: its configuration, None for the default.
        """
        files = {}
        for name in self.hub_scores:
            if name == "perplexity":
                continue
            notes = f"{title_of(name)}, {self.documents} documents of {self.split}"
            if name.startswith("rouge"):
                notes += f", F in points, {self.settings.rouge_mode}"
            if f"{name}_low" in self.scores:
                notes += f", 95% interval {self.scores[f'{name}_low']:.2f} to {self.scores[f'{name}_high']:.2f}"
            task = dataset_config or "default"
            entry = EvalResultEntry(
                dataset_id=dataset_name, task_id=task, value=round(self.scores[name], 4), notes=notes
            )
            content = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, width=1000)
            files[f"{dataset_name.replace('/', '_')}_{name.replace('*', '_star')}.yaml"] = content
        return files


def _hub_metric(name: str) -> str | None:
    """The Hub's name of a metric; scores against the sources describe summaries, and are none."""
    measure = measure_of(name)
    if measure is None:
        return name if name == "perplexity" else None
    return measure.name if measure.reads == "references" else None
