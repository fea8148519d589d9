"""The reports of a run: scores of its summaries, files of predictions, and a comparison with LEAD."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers import EvalPrediction

from hf_summ.checkpoints.loading import Processor
from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.common.records import to_json
from hf_summ.data import lead
from hf_summ.data.columns import has_references, reference_texts, source_column
from hf_summ.data.languages import language_code
from hf_summ.evaluation.measures import MEASURES, Settings, check_metrics
from hf_summ.evaluation.rouge import RougeMode, Several
from hf_summ.evaluation.significance import Scored, rounded
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR
from hf_summ.training.rows.preparing import with_prefixes


class Scorer:
    """Computes a run's metrics, in each process separately.

    Args:
        metrics: some of `MEASURES`, as in `check_metrics`.
        rouge_mode: as for `RougeSettings`.
        language: language of the summaries, which determines how each metric splits texts into words.
        several: how ROUGE treats several references, as for `RougeSettings`.

    Attributes:
        clean: converts a text to the form that is scored, such as the washed form that a processor reads. Tags between
            sentences are read as their ends.
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
        self, predictions: Sequence[str], references: Sequence[str | list[str]], documents: Sequence[str] | None = None
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


def score(predictions: EvalPrediction, processor: Processor, scorer: Scorer, prefix: str) -> dict[str, float]:
    """The run's scores of generated token ids, and their mean length; `prefix` is as in `encode`."""
    sources = predictions.inputs
    texts = decode(processor, predictions.predictions, sources, prefix)
    scores = scorer(texts, predictions.label_ids, as_documents(sources[source_column(sources)]) if sources else None)
    lengths = [len(tokens) for tokens in predictions.predictions]
    return scores | {"gen_len": round(sum(lengths) / len(lengths), 2)}


def as_documents(examples: Sequence[str] | Sequence[list[str]]) -> list[str]:
    """The documents of each example as one text, with which summaries are compared."""
    return [example if isinstance(example, str) else DOCUMENT_SEPARATOR.join(example) for example in examples]


def decode(
    processor: Processor, predictions: list[list[int]], sources: Mapping[str, Sequence] | None, prefix: str
) -> list[str]:
    """Decode token ids to texts; copied words, and case if the processor restores it, are those of the documents.

    Args:
        sources: columns of rows, among them the documents.
    """
    source = {}
    if sources and hasattr(processor, "source_features"):
        source["documents"] = with_prefixes(sources, source_column(sources), prefix)
    texts = processor.batch_decode(predictions, skip_special_tokens=True, **source)
    if sources and getattr(processor, "restore_case", False):
        texts = processor.restore(texts, sources[source_column(sources)])
    return [text.strip() for text in texts]


def write_predictions(
    folder: str, dataset: datasets.Dataset, predictions: Sequence[str], values: Sequence[Mapping[str, float | None]]
) -> None:
    """Write `generated_predictions.txt`, a line per document, and `predictions.jsonl` with id, summary and prediction,
    and `references` if the rows have several.

    Args:
        values: further fields of each summary's line, such as `nll`, `tokens` and `support`.
    """
    ids = dataset["id"] if "id" in dataset.column_names else range(len(dataset))
    lines = map(one_line, predictions)
    several = [{"references": row} for row in reference_texts(dataset)] if has_references(dataset.features) else None
    columns = ids, dataset["summary"], several or [{}] * len(dataset), predictions, values
    rows = (
        to_json({"id": key, "summary": summary, **references, "prediction": prediction, **value})
        for key, summary, references, prediction, value in zip(*columns, strict=True)
    )
    write_atomically(Path(folder) / "generated_predictions.txt", "".join(f"{line}\n" for line in lines))
    write_atomically(Path(folder) / "predictions.jsonl", "".join(f"{row}\n" for row in rows))


def lead_metrics(dataset: datasets.Dataset, sentences: int, scorer: Scorer) -> dict[str, float]:
    """The scores of the first sentences of each document, with their intervals, as `lead<n>_rouge1` and so on."""
    examples, references = list(dataset[source_column(dataset.column_names)]), reference_texts(dataset)
    baseline, documents = [lead(one, sentences, language=scorer.language) for one in examples], as_documents(examples)
    scores = scorer(baseline, references, documents) | scorer.intervals(baseline, references, documents)
    return {f"lead{sentences}_{name}": value for name, value in scores.items()}


def comparison(metrics: dict[str, float], sentences: int | None, scorer: Scorer, documents: int) -> str:
    """The scores of the model and of LEAD, in a table for each metric, and which are not of all documents."""
    rows = {"model": "predict_"}
    if sentences is not None:
        rows[f"LEAD-{sentences}"] = f"predict_lead{sentences}_"
    tables = []
    for columns in scorer.columns:
        lines = [f"{'':10}" + "".join(f"{name:>11}" for name in columns)]
        for title, prefix in rows.items():
            lines.append(f"{title:10}" + "".join(f"{metrics[prefix + name]:11.2f}" for name in columns))
        tables.append("\n".join(lines))
        tables += [
            f"{title}: {name} is of {metrics[number]} of {documents} summaries; the others have none"
            for name in columns
            for title, prefix in rows.items()
            if (number := f"{prefix}{name}_rows") in metrics
        ]
    return "\n\n".join(tables)


def samples(dataset: datasets.Dataset, predictions: Sequence[str], number: int) -> str:
    """The first predictions beside their references."""
    pairs = zip(dataset["summary"][:number], predictions[:number], strict=True)
    return "\n\n".join(f"reference: {summary}\nmodel:     {prediction}" for summary, prediction in pairs)
