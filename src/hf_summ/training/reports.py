"""What a run leaves behind: result files, predictions, and the comparison with LEAD."""

import json
from collections.abc import Sequence
from pathlib import Path

import datasets

from hf_summ.data import lead
from hf_summ.evaluation import rouge
from hf_summ.training.files import write_atomically

_ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def write_results(folder: str, split: str, metrics: dict[str, float]) -> None:
    """`<split>_results.json`."""
    write_atomically(Path(folder) / f"{split}_results.json", json.dumps(metrics, indent=4, sort_keys=True) + "\n")


def write_predictions(folder: str, dataset: datasets.Dataset, predictions: Sequence[str]) -> None:
    """`generated_predictions.txt`, a line a document, and `predictions.jsonl` with id, summary and prediction."""
    ids = dataset["id"] if "id" in dataset.column_names else range(len(dataset))
    lines = (" ".join(prediction.split()) for prediction in predictions)
    rows = (
        json.dumps({"id": key, "summary": summary, "prediction": prediction}, ensure_ascii=False)
        for key, summary, prediction in zip(ids, dataset["summary"], predictions, strict=True)
    )
    write_atomically(Path(folder) / "generated_predictions.txt", "".join(f"{line}\n" for line in lines))
    write_atomically(Path(folder) / "predictions.jsonl", "".join(f"{row}\n" for row in rows))


def lead_metrics(dataset: datasets.Dataset, sentences: int, language: str) -> dict[str, float]:
    """ROUGE of each document's first sentences, as `lead<n>_rouge1` and so on."""
    baseline = [lead(document, sentences, language=language) for document in dataset["document"]]
    scores = rouge(baseline, list(dataset["summary"]), language=language)
    return {f"lead{sentences}_{name}": value for name, value in scores.items()}


def comparison(metrics: dict[str, float], sentences: int | None) -> str:
    """A table of the model's ROUGE and LEAD's."""
    rows = {"model": "predict_"}
    if sentences is not None:
        rows[f"LEAD-{sentences}"] = f"predict_lead{sentences}_"
    lines = [f"{'':10}" + "".join(f"{name:>11}" for name in _ROUGE)]
    for title, prefix in rows.items():
        lines.append(f"{title:10}" + "".join(f"{metrics[prefix + name]:11.2f}" for name in _ROUGE))
    return "\n".join(lines)


def samples(dataset: datasets.Dataset, predictions: Sequence[str], number: int) -> str:
    """The first predictions beside their references."""
    pairs = zip(dataset["summary"][:number], predictions[:number], strict=True)
    return "\n\n".join(f"reference: {summary}\nmodel:     {prediction}" for summary, prediction in pairs)
