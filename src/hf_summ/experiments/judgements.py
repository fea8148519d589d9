"""Tables of language models as judges of text."""

from pathlib import Path
from typing import Any

from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from hf_summ.evaluation.text_files import read_text
from hf_summ.experiments.report import block_of_values
from hf_summ.experiments.systems import System, why_not_run
from hf_summ.experiments.tables import Row, Table


def judge_texts(table: Table, dataset: str, folder: str | None) -> dict[str, Any]:
    """The rows of a table of language models: each judges a text at a percentile.

    Args:
        folder: holds the texts as `<text>.txt`, by the rows' `text`; the last of them is of random words.

    Raises:
        ValueError: no such folder, or a text that is missing from it or no UTF-8.
    """
    systems = [System(row, dataset, problem=why_not_run(row)) for row in table.rows]
    values: dict[str, dict[str, float]] = {}
    if folder is None:
        for system in (system for system in systems if system.problem is None):
            system.problem = f"texts are needed: --data {dataset}=FOLDER with {', '.join(_files(table))}"
        return block_of_values(table, dataset, dataset, systems, values)
    texts = {name: read_text(Path(folder) / f"{name}.txt") for name in _texts(table)}
    for name in dict.fromkeys(row.language_model for row in table.rows if row.language_model is not None):
        rows = [row for row in table.rows if row.language_model == name]
        try:
            values |= _judge(name, rows, texts)
        except (ValueError, OSError) as error:
            for system in systems:
                if system.row.language_model == name:
                    system.problem = " ".join(str(error).split())
    return block_of_values(table, dataset, folder, systems, values)


def _judge(name: str, rows: list[Row], texts: dict[str, str]) -> dict[str, dict[str, float]]:
    *written, random = texts
    percentiles = list(dict.fromkeys(row.percentile for row in rows))
    compared = compare_language_models(
        [load_language_model(name)], [(text, texts[text]) for text in written], percentiles, texts[random]
    )
    # the row of random words is the last of each percentile
    found = {(row["percentile"], row["text"]): row for row in compared["models"][0]["rows"]}
    names = {row.row: (row.percentile, row.text if row.text != random else "random words") for row in rows}
    return {
        row: {key: found[place][key] for key in ("recall", "detection", "accuracy")} for row, place in names.items()
    }


def _texts(table: Table) -> list[str]:
    return list(dict.fromkeys(row.text for row in table.rows if row.language_model is not None))


def _files(table: Table) -> list[str]:
    return [f"{name}.txt" for name in _texts(table)]
