"""The reports of a run: scores of its summaries, files of predictions, and a comparison with LEAD.

LEAD is the baseline whose summary is the first sentences of a document.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
from transformers import EvalPrediction

from hf_summ.checkpoints.loading import Processor
from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.common.records import to_json
from hf_summ.data import lead
from hf_summ.data.columns import has_references, reference_texts, source_column
from hf_summ.data.languages import language_code
from hf_summ.evaluation.measures import MEASURES, Settings, parse_metrics
from hf_summ.evaluation.rouge import RougeMode, Several
from hf_summ.evaluation.significance import Scored, rounded
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.models.generation_sentences import chosen_text
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR
from hf_summ.training.rows.preparing import with_prefixes


@dataclass(frozen=True)
class _Texts:
    """The texts of a scoring.

    Args:
        predictions: the generated summaries.
        references: the reference of each summary, or the list of its references.
        documents: the document of each summary; None if no measure needs the documents.
    """

    predictions: list[str]
    references: list[str | list[str]]
    documents: list[str] | None


class Scorer:
    """Computes a run's metrics, in each process separately.

    Args:
        metrics: some of `MEASURES`, as in `parse_metrics`.
        rouge_mode: as for `RougeSettings`.
        language: the language of the summaries, which determines how each metric splits texts into words.
        several: how ROUGE treats several references, as for `RougeSettings`.

    Attributes:
        measures: the measures in the order of `metrics`.
        needs_documents: whether a measure compares summaries with their documents.
        columns: for each measure, the names of the scores that tables show.
        clean: converts a text to the form that is scored, such as the washed form that a processor reads. Tags such as
            <q> are then read as ends of sentences.
    """

    def __init__(self, metrics: Sequence[str], rouge_mode: RougeMode, language: str, several: Several | None = None):
        # an unknown language is reported here, and not after the first epoch
        language_code(language)
        # name of each metric -> the model that it needs, or an empty text
        models_of_metrics = parse_metrics(metrics)
        self.settings = Settings(rouge_mode=rouge_mode, language=language, several=several, metrics=models_of_metrics)
        self.language = language
        self.clean: Callable[[str], str] = str
        self.measures = [MEASURES[name] for name in models_of_metrics]
        self.needs_documents = any(measure.reads == "sources" for measure in self.measures)
        self.columns = [measure.columns or measure.scores(rouge_mode) for measure in self.measures]
        # The texts that were scored last, and their scores. A run asks for values, intervals and rows of the same
        # texts.
        self._last_texts: _Texts | None = None
        self._last_scores: dict[str, Scored] = {}
        for measure in self.measures:
            # a missing library or model is reported here too
            measure.compute(["a"], ["a"], self.settings)

    def scored(
        self, predictions: Sequence[str], references: Sequence[str | list[str]], documents: Sequence[str] | None = None
    ) -> dict[str, Scored]:
        """The scores of the measures by name. The scores of the last texts are kept, so asking again is fast.

        Args:
            predictions: the summaries.
            references: the reference of each summary, or the list of its references.
            documents: the document of each summary, which measures that read sources need.
        """
        texts = _Texts(list(predictions), list(references), None if documents is None else list(documents))
        if texts != self._last_texts:
            cleaned_predictions = self._cleaned(predictions)
            cleaned_references = self._cleaned_references(references)
            cleaned_documents = self._cleaned(documents or ())
            scores: dict[str, Scored] = {}
            for measure in self.measures:
                compared = cleaned_documents if measure.reads == "sources" else cleaned_references
                scores.update(measure.compute(cleaned_predictions, compared, self.settings))
            self._last_texts = texts
            self._last_scores = scores
        return self._last_scores

    def __call__(
        self, predictions: Sequence[str], references: Sequence[str | list[str]], documents: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The value of each score in `scored`, to 4 digits.

        If some summaries do not have a score X, the value `X_rows` is the number of summaries that have the score. If
        summaries have several references, the value `references` is the mean number of references.
        """
        scored = self.scored(predictions, references, documents)
        values: dict[str, float] = {}
        numbers_of_references = []
        for row in references:
            if not isinstance(row, str):
                numbers_of_references.append(len(row))
        if numbers_of_references:
            values["references"] = round(sum(numbers_of_references) / len(numbers_of_references), 2)
        values.update(rounded(scored))
        for name, score in scored.items():
            scored_rows = score.number()
            if scored_rows < len(predictions):
                values[f"{name}_rows"] = scored_rows
        return values

    def row_scores(
        self, predictions: Sequence[str], references: Sequence[str | list[str]], documents: Sequence[str] | None = None
    ) -> list[dict[str, float | None]]:
        """The scores of each summary by name, None where undefined.

        Only measures with a single score, such as `support`, are among them.
        """
        scored = self.scored(predictions, references, documents)
        rows: list[dict[str, float | None]] = [{} for _ in predictions]
        for measure in self.measures:
            if len(measure.titles) != 1:
                continue
            (name,) = measure.titles
            for row, value in zip(rows, scored[name].rows(), strict=True):
                row[name] = None if math.isnan(value) else round(value, 4)
        return rows

    def intervals(
        self, predictions: Sequence[str], references: Sequence[str | list[str]], documents: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The bounds of the 95% bootstrap interval of each score in `columns`, as `rouge1_low` and `rouge1_high`.

        Scores without an interval, such as the scores of a single pair, are left out.
        """
        scored = self.scored(predictions, references, documents)
        bounds = {}
        for names in self.columns:
            for name in names:
                interval = scored[name].interval()
                if interval is not None:
                    bounds[f"{name}_low"] = round(interval.low, 4)
                    bounds[f"{name}_high"] = round(interval.high, 4)
        return bounds

    def _cleaned_references(self, references: Sequence[str | list[str]]) -> list[str | list[str]]:
        """The references of each row in the form that is scored: one text, or a list of several."""
        cleaned: list[str | list[str]] = []
        for row in references:
            if isinstance(row, str):
                cleaned.extend(self._cleaned([row]))
            else:
                cleaned.append(self._cleaned(row))
        return cleaned

    def _cleaned(self, texts: Sequence[str]) -> list[str]:
        """The texts in the form that is scored; warns if they have tags."""
        tag = tag_pattern()
        cleaned_texts = []
        has_tags = False
        for text in texts:
            cleaned = self.clean(text)
            untagged = without_tags(cleaned, tag)
            if untagged != cleaned:
                has_tags = True
            cleaned_texts.append(untagged)
        if has_tags:
            warnings.warn("texts to score contain tags such as <q>, read as the ends of sentences", stacklevel=3)
        return cleaned_texts


def score(
    predictions: EvalPrediction, processor: Processor, scorer: Scorer, prefix: str, whole_sentences: bool
) -> dict[str, float]:
    """The scores of generated summaries by name, and as `gen_len` the mean number of token ids of a summary.

    Args:
        predictions: what `RowwiseTrainer` gives to `compute_metrics`.
        processor: the processor that decodes the token ids.
        scorer: the scorer of the run.
        prefix: the text before each document, `source_prefix`.
        whole_sentences: whether the summaries are sentences of the documents.
    """
    sources = predictions.inputs
    token_ids = predictions.predictions
    texts = decode(processor, token_ids, sources, prefix, whole_sentences)
    documents = None
    if sources:
        documents = as_documents(sources[source_column(sources)])
    scores = scorer(texts, predictions.label_ids, documents)
    scores["gen_len"] = round(sum(len(ids) for ids in token_ids) / len(token_ids), 2)
    return scores


def as_documents(examples: Sequence[str | list[str]]) -> list[str]:
    """One text for each example, with which its summary is compared; several documents are joined."""
    texts = []
    for example in examples:
        if isinstance(example, str):
            texts.append(example)
        else:
            texts.append(DOCUMENT_SEPARATOR.join(example))
    return texts


def decode(
    processor: Processor,
    predictions: list[list[int]],
    sources: Mapping[str, Sequence] | None,
    prefix: str,
    whole_sentences: bool,
) -> list[str]:
    """Decode token ids to texts.

    Words that the model copied are spelled as in the documents, and so is the case of all words if the processor
    restores it. Whole sentences are spelled as in the documents too.

    Args:
        processor: the processor, or a tokenizer.
        predictions: the token ids of each summary.
        sources: columns of rows by name, among them the documents; without them, neither words nor case are restored.
        prefix: the text before each document, `source_prefix`.
        whole_sentences: whether the summaries are sentences of the documents.
    """
    if sources and whole_sentences:
        tokenizer = getattr(processor, "tokenizer", processor)
        special_tokens = not hasattr(processor, "source_features")
        documents = sources[source_column(sources)]
        sentences = []
        for ids, document in zip(predictions, documents, strict=True):
            sentences.append(chosen_text(ids, document, tokenizer, special_tokens).strip())
        return sentences
    settings = {}
    # only the package's processors can copy words of documents
    if sources and hasattr(processor, "source_features"):
        settings["documents"] = with_prefixes(sources, source_column(sources), prefix)
    texts = processor.batch_decode(predictions, skip_special_tokens=True, **settings)
    if sources and getattr(processor, "restore_case", False):
        texts = processor.restore(texts, sources[source_column(sources)])
    return [text.strip() for text in texts]


def write_predictions(
    folder: str,
    dataset: datasets.Dataset,
    predictions: Sequence[str],
    further_fields: Sequence[Mapping[str, float | None]],
) -> None:
    """Write the predictions of a split to two files.

    `generated_predictions.txt` has a line for each prediction. `predictions.jsonl` has an object for each row, with the
    keys `id`, `summary`, `references`, `prediction`, and the further fields of the row. `id` is the number of the row,
    from 0 on, if the data set has no ids. `summary` is the reference in the column `summary`. Only rows of a data set
    with lists of references have the key `references`, with the whole list.

    Args:
        folder: the folder of the files.
        dataset: the rows of the split.
        predictions: the prediction of each row.
        further_fields: further fields of each row's object, such as `nll`, `tokens` and `support`.
    """
    ids = list(dataset["id"]) if "id" in dataset.column_names else list(range(len(dataset)))
    references = reference_texts(dataset) if has_references(dataset.features) else None
    lines = []
    objects = []
    for index, reference in enumerate(dataset["summary"]):
        lines.append(one_line(predictions[index]) + "\n")
        row = {"id": ids[index], "summary": reference}
        if references is not None:
            row["references"] = references[index]
        row["prediction"] = predictions[index]
        row.update(further_fields[index])
        objects.append(to_json(row) + "\n")
    write_atomically(Path(folder) / "generated_predictions.txt", "".join(lines))
    write_atomically(Path(folder) / "predictions.jsonl", "".join(objects))


def lead_metrics(dataset: datasets.Dataset, sentences: int, scorer: Scorer) -> dict[str, float]:
    """The scores of the first sentences of each document, with their intervals, as `lead<n>_rouge1` and so on.

    Args:
        dataset: the rows of the split.
        sentences: the number n of sentences.
    """
    examples = list(dataset[source_column(dataset.column_names)])
    references = reference_texts(dataset)
    documents = as_documents(examples)
    tag = tag_pattern()
    baseline = []
    for example in examples:
        # a tag ends a sentence, as in scores
        if isinstance(example, str):
            untagged = without_tags(example, tag)
        else:
            untagged = [without_tags(document, tag) for document in example]
        baseline.append(lead(untagged, sentences, language=scorer.language))
    scores = scorer(baseline, references, documents)
    scores.update(scorer.intervals(baseline, references, documents))
    return {f"lead{sentences}_{name}": value for name, value in scores.items()}


def comparison(metrics: dict[str, float], sentences: int | None, scorer: Scorer, documents: int) -> str:
    """The scores of the model and of LEAD as a text, with a table for each measure.

    Below a table, a line names each score that some of the summaries do not have.

    Args:
        metrics: the scores of the test split by name; the names of the model's scores begin with `predict_`.
        sentences: the number of LEAD's sentences, or None without LEAD.
        scorer: the scorer that computed the scores.
        documents: the number of documents.
    """
    prefixes = {"model": "predict_"}
    if sentences is not None:
        prefixes[f"LEAD-{sentences}"] = f"predict_lead{sentences}_"
    paragraphs = []
    for names in scorer.columns:
        header = " " * 10
        for name in names:
            header += f"{name:>11}"
        lines = [header]
        for title, prefix in prefixes.items():
            line = f"{title:10}"
            for name in names:
                line += f"{metrics[prefix + name]:11.2f}"
            lines.append(line)
        paragraphs.append("\n".join(lines))
        for name in names:
            for title, prefix in prefixes.items():
                scored_rows = metrics.get(f"{prefix}{name}_rows")
                if scored_rows is not None:
                    paragraphs.append(
                        f"{title}: {name} is computed from {scored_rows} of {documents} summaries; the others have none"
                    )
    return "\n\n".join(paragraphs)


def samples(dataset: datasets.Dataset, predictions: Sequence[str], count: int) -> str:
    """The first predictions beside their references, as a text.

    Args:
        dataset: the rows of the split.
        predictions: the prediction of each row.
        count: the number of predictions to show.
    """
    paragraphs = []
    for summary, prediction in zip(dataset["summary"][:count], predictions[:count], strict=True):
        paragraphs.append(f"reference: {summary}\nmodel:     {prediction}")
    return "\n\n".join(paragraphs)
