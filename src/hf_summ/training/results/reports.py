"""The reports of a run: scores of its summaries, files of predictions, and a comparison with LEAD."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import datasets
from transformers import EvalPrediction

from hf_summ.checkpoints.loading import Processor
from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.common.records import to_json
from hf_summ.data import lead
from hf_summ.data.columns import has_references, reference_texts, source_column
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR
from hf_summ.training.results.scores import Scorer
from hf_summ.training.rows.preparing import with_prefixes


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
    processor: Processor,
    predictions: list[list[int]],
    sources: Mapping[str, Sequence] | None,
    prefix: str,
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
            f"{title}: {name} is of {metrics[number]} of {documents} summaries, as the others have none"
            for name in columns
            for title, prefix in rows.items()
            if (number := f"{prefix}{name}_rows") in metrics
        ]
    return "\n\n".join(tables)


def samples(dataset: datasets.Dataset, predictions: Sequence[str], number: int) -> str:
    """The first predictions beside their references."""
    pairs = zip(dataset["summary"][:number], predictions[:number], strict=True)
    return "\n\n".join(f"reference: {summary}\nmodel:     {prediction}" for summary, prediction in pairs)
