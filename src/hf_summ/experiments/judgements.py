"""Tables of language models as judges of text."""

from pathlib import Path
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from hf_summ.evaluation.text_files import read_text
from hf_summ.experiments.report import block_of_values
from hf_summ.experiments.scoring import Outcome, why_not_run
from hf_summ.experiments.tables import JUDGEMENTS, Row, Table


def judge_texts(table: Table, dataset: str, folder: str | None) -> dict[str, Any]:
    """Run the rows of a table of language models, each of which judges a text at a percentile.

    Args:
        folder: folder with the texts as `<text>.txt`, named by the rows' `text`; the last of them has random words.

    Raises:
        ValueError: the folder or a text in it cannot be read, or is not UTF-8.
    """
    if folder is None:
        files = ", ".join(f"{name}.txt" for name in _texts(table))
        needed = f"no texts: give --data {dataset}=FOLDER with {files}"
        outcomes = [Outcome(row, why_not_run(row) or needed) for row in table.rows]
        return block_of_values(table, dataset, dataset, outcomes)
    texts = {name: read_text(Path(folder) / f"{name}.txt") for name in _texts(table)}
    judged: dict[str, Outcome] = {}
    for name in dict.fromkeys(row.language_model for row in table.rows if row.language_model is not None):
        judged |= _judge(name, [row for row in table.rows if row.language_model == name], texts)
    outcomes = [judged.get(row.row, Outcome(row, why_not_run(row))) for row in table.rows]
    return block_of_values(table, dataset, folder, outcomes)


def _judge(name: str, rows: list[Row], texts: dict[str, str]) -> dict[str, Outcome]:
    """The outcomes of the rows of one language model, by their names."""
    *written, random = texts
    percentiles = list(dict.fromkeys(row.percentile for row in rows))
    try:
        compared = compare_language_models(
            [load_language_model(name)], [(text, texts[text]) for text in written], percentiles, texts[random]
        )
    except (ValueError, OSError) as error:
        return {row.row: Outcome(row, one_line(error)) for row in rows}
    # the row of random words is the last of each percentile
    found = {(line["percentile"], line["text"]): line for line in compared["models"][0]["rows"]}
    outcomes = {}
    for row in rows:
        line = found[row.percentile, row.text if row.text != random else "random words"]
        outcomes[row.row] = Outcome(row, measures={name: line[name] for name in JUDGEMENTS})
    return outcomes


def _texts(table: Table) -> list[str]:
    return list(dict.fromkeys(row.text for row in table.rows if row.language_model is not None))
