"""Reports of a run: result files, predictions, and the comparison with LEAD."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import datasets

from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.data import lead
from hf_summ.data.columns import has_references, reference_texts
from hf_summ.training.scores import Scorer


def write_results(folder: str, split: str, metrics: dict[str, float]) -> None:
    """Write `<split>_results.json`."""
    write_atomically(Path(folder) / f"{split}_results.json", json.dumps(metrics, indent=4, sort_keys=True) + "\n")


def read_results(folder: str, split: str) -> dict[str, float]:
    """What `write_results` has written."""
    return json.loads((Path(folder) / f"{split}_results.json").read_text(encoding="utf-8"))


def write_predictions(
    folder: str, dataset: datasets.Dataset, predictions: Sequence[str], losses: Sequence[Mapping[str, float]] = ()
) -> None:
    """Write `generated_predictions.txt`, a line per document, and `predictions.jsonl` with id, summary and prediction,
    and `references` if the rows have several.

    Args:
        losses: values of each summary, which are written beside it, such as `nll` and `tokens`; by default none.
    """
    losses = losses or [{}] * len(predictions)
    ids = dataset["id"] if "id" in dataset.column_names else range(len(dataset))
    lines = map(one_line, predictions)
    several = [{"references": row} for row in reference_texts(dataset)] if has_references(dataset.features) else None
    columns = ids, dataset["summary"], several or [{}] * len(dataset), predictions, losses
    rows = (
        json.dumps({"id": key, "summary": summary, **references, "prediction": prediction, **loss}, ensure_ascii=False)
        for key, summary, references, prediction, loss in zip(*columns, strict=True)
    )
    write_atomically(Path(folder) / "generated_predictions.txt", "".join(f"{line}\n" for line in lines))
    write_atomically(Path(folder) / "predictions.jsonl", "".join(f"{row}\n" for row in rows))


def lead_metrics(dataset: datasets.Dataset, sentences: int, scorer: Scorer) -> dict[str, float]:
    """The scores of each document's first sentences and their intervals, as `lead<n>_rouge1` and so on."""
    documents, references = list(dataset["document"]), reference_texts(dataset)
    baseline = [lead(document, sentences, language=scorer.language) for document in documents]
    scores = scorer(baseline, references, documents) | scorer.intervals(baseline, references)
    return {f"lead{sentences}_{name}": value for name, value in scores.items()}


def comparison(metrics: dict[str, float], sentences: int | None, scorer: Scorer) -> str:
    """The scores of the model and of LEAD, with one table for each of the run's metrics."""
    rows = {"model": "predict_"}
    if sentences is not None:
        rows[f"LEAD-{sentences}"] = f"predict_lead{sentences}_"
    tables = []
    for columns in scorer.columns:
        lines = [f"{'':10}" + "".join(f"{name:>11}" for name in columns)]
        for title, prefix in rows.items():
            lines.append(f"{title:10}" + "".join(f"{metrics[prefix + name]:11.2f}" for name in columns))
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def samples(dataset: datasets.Dataset, predictions: Sequence[str], number: int) -> str:
    """The first predictions beside their references."""
    pairs = zip(dataset["summary"][:number], predictions[:number], strict=True)
    return "\n\n".join(f"reference: {summary}\nmodel:     {prediction}" for summary, prediction in pairs)
