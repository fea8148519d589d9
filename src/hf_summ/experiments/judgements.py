"""Tables of judgements: of text by language models, and of two systems' summaries by people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.common.records import parse_json
from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from hf_summ.evaluation.text_files import read_text
from hf_summ.experiments.report import block_of_values
from hf_summ.experiments.scoring import Outcome, why_not_run
from hf_summ.experiments.tables import JUDGEMENTS, VOTES, Row, Table
from hf_summ.models.checks import check_integer


def judge_texts(table: Table, dataset: str, folder: str | None) -> dict[str, Any]:
    """The block of a table of language models; in each row, a model judges a text at a percentile.

    Args:
        folder: folder with the texts as `<text>.txt`, for each `text` of the rows; the last one has random words.
    """
    if folder is None:
        files = ", ".join(f"{name}.txt" for name in _texts(table))
        return _without_data(table, dataset, f"no texts: give --data {dataset}=FOLDER with {files}")
    texts = {name: read_text(Path(folder) / f"{name}.txt") for name in _texts(table)}
    judged: dict[str, Outcome] = {}
    for name in dict.fromkeys(row.language_model for row in table.rows if row.language_model is not None):
        judged |= _judge(name, [row for row in table.rows if row.language_model == name], texts)
    outcomes = [judged.get(row.row, Outcome(row, why_not_run(row))) for row in table.rows]
    return block_of_values(table, dataset, folder, outcomes)


def count_votes(table: Table, dataset: str, file: str | None) -> dict[str, Any]:
    """The block of a table of people's votes; each row is an aspect about which they were asked.

    Args:
        file: report of `hf-summ votes collect --json`, whose files of predictions have the systems' names.
    """
    if file is None:
        return _without_data(table, dataset, f"no votes: give --data {dataset}=REPORT.json of `hf-summ votes collect`")
    counts, pairs = _read_votes(file, table.unit)
    names, rows = [system.lower() for system in table.systems], [row.row for row in table.rows]
    matching = [(systems, aspects) for systems, aspects in pairs if sorted(map(str.lower, systems)) == sorted(names)]
    if len(matching) != 1:
        compared = one_line(", ".join(" with ".join(systems) for systems, _ in pairs))
        raise ValueError(
            f"{file} compares {compared}, but {table.name} {' with '.join(table.systems)}: name the files of "
            "predictions like these systems when you make the sheets"
        )
    ((first, _), aspects) = matching[0]
    if not aspects.keys() >= set(rows):
        raise ValueError(
            f"{file} has votes on {one_line(', '.join(aspects))}, but {table.name} on {', '.join(rows)}: make the "
            "sheets with the paper's `--preset`"
        )
    measures = VOTES if first.lower() == names[0] else ("lose", "win", *VOTES[2:])
    outcomes = [Outcome(row, measures=dict(zip(measures, aspects[row.row], strict=True))) for row in table.rows]
    return block_of_values(table, dataset, file, outcomes) | counts


def _read_votes(file: str, unit: str) -> tuple[dict[str, int], list[tuple[list[str], dict[str, Any]]]]:
    """The numbers of documents and voters, and each pair's systems with the wins, losses, ties and κ by aspect."""
    try:
        report = parse_json(Path(file).read_text(encoding="utf-8"))
        counts = {name: report[name] for name in ("documents", "voters")}
        for name, number in counts.items():
            check_integer(name, number, 1)
        pairs = []
        for pair in report["pairs"]:
            # paths, with folders and extensions such as .jsonl.gz
            systems = [Path(pair[name]).name.split(".")[0] for name in ("first", "second")]
            aspects = pair["aspects"].items()
            pairs.append((systems, {aspect: _shares(figures, counts["voters"], unit) for aspect, figures in aspects}))
        return counts, pairs
    except (OSError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is not a report of votes ({one_line(error)}): name one written by `hf-summ votes collect --json`"
        ) from error


def _shares(figures: Mapping[str, Any], voters: int, unit: str) -> list[float | None]:
    numbers, kappa = [figures[name] for name in ("wins", "losses", "ties")], figures["kappa"]
    for number in numbers:
        check_integer("votes", number, 0)
    total = voters if unit == "documents" else sum(numbers) / 100
    return [*(number / total if total else None for number in numbers), None if kappa is None else float(kappa)]


def _without_data(table: Table, dataset: str, needed: str) -> dict[str, Any]:
    return block_of_values(table, dataset, dataset, [Outcome(row, why_not_run(row) or needed) for row in table.rows])


def _judge(name: str, rows: list[Row], texts: dict[str, str]) -> dict[str, Outcome]:
    """Row name -> outcome, for the rows of one language model."""
    *written, random = texts
    percentiles = list(dict.fromkeys(row.percentile for row in rows))
    try:
        compared = compare_language_models(
            [load_language_model(name)], [(text, texts[text]) for text in written], percentiles, texts[random]
        )
    except (ValueError, OSError) as error:
        return {row.row: Outcome(row, one_line(error)) for row in rows}
    # the row of random words is the last one of each percentile
    lines = {(line["percentile"], line["text"]): line for line in compared["models"][0]["rows"]}
    outcomes = {}
    for row in rows:
        line = lines[row.percentile, row.text if row.text != random else "random words"]
        outcomes[row.row] = Outcome(row, measures={name: line[name] for name in JUDGEMENTS})
    return outcomes


def _texts(table: Table) -> list[str]:
    return list(dict.fromkeys(row.text for row in table.rows if row.language_model is not None))
