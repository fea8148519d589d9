"""The report of a table: our figures beside the published ones, as data and as Markdown."""

import math
from collections.abc import Sequence
from typing import Any

from hf_summ import __version__
from hf_summ.common.markdown import markdown_table
from hf_summ.experiments.outcomes import Outcome
from hf_summ.experiments.relations import markdown_of_relation
from hf_summ.experiments.scoring import compare, verdict
from hf_summ.experiments.tables import Row, Table

_TITLES = {
    **{f"rouge{kind}": f"R-{kind}" for kind in ("1", "2", "3", "L", "SU4", "SU*")},
    **{f"novel{n}": f"novel {n}-grams" for n in (1, 2, 3, 4)},
    "bleu": "BLEU",
}


def title_of(measure: str) -> str:
    """The name of a measure at the head of a column."""
    return _TITLES.get(measure, measure.replace("_", " "))


def make_report(table: Table, scale: str, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole table as data, ready for JSON.

    Args:
        blocks: one per data set, see `block_of_scores`.
    """
    return {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "kind": table.kind,
        "scale": scale,
        "unit": table.unit,
        "measures": list(table.measures),
        "baseline": table.baseline,
        "rouge": dict(table.rouge),
        "count_punctuation": table.count_punctuation,
        "against": table.against,
        "notes": list(table.notes),
        "hf_summ": __version__,
        # scores after seconds of training say nothing about a paper's
        "datasets": [_without_verdicts(block) for block in blocks] if scale == "tiny" else list(blocks),
    }


def _without_verdicts(block: dict[str, Any]) -> dict[str, Any]:
    def kept(cells: dict[str, Any]) -> dict[str, Any]:
        return {name: {**cell, "verdict": None} if "verdict" in cell else cell for name, cell in cells.items()}

    return {**block, "rows": [{**row, "measures": kept(row["measures"])} for row in block["rows"]]}


def block_of_scores(
    table: Table, dataset: str, data: str, documents: int | None, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """The rows on one data set, with measures that are `Scored`.

    Args:
        data: what was read in place of the data set, or its name.
        documents: number of documents that were summarized; None if the data cannot be read.
    """
    published = {outcome.row.row: _published(table, outcome.row, dataset) for outcome in outcomes}
    measures = {outcome.row.row: outcome.measures for outcome in outcomes}
    rows = []
    for outcome in outcomes:
        name = outcome.row.row
        ours, base = outcome.measures, measures.get(table.baseline or "", {})
        cells = {}
        for measure in table.measures:
            cell: dict[str, Any] = ours[measure].interval() if measure in ours else {"value": None}
            cell["published"] = published[name].get(measure)
            if table.baseline is not None and name != table.baseline:
                cell |= _difference(
                    cell["published"],
                    published.get(table.baseline, {}).get(measure),
                    compare(ours[measure], base[measure]) if measure in ours and measure in base else None,
                )
            cells[measure] = cell
        rows.append(_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": documents, "rows": rows}


def block_of_values(table: Table, dataset: str, data: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The rows of a table that does not compare systems, with measures that are numbers."""
    rows = []
    for outcome in outcomes:
        published = _published(table, outcome.row, dataset)
        found = outcome.measures
        cells = {name: {"value": found.get(name), "published": published.get(name)} for name in table.measures}
        rows.append(_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": None, "rows": rows}


def _row(outcome: Outcome, cells: dict[str, Any]) -> dict[str, Any]:
    said = {"row": outcome.row.row, "problem": outcome.problem, "failed": outcome.failed}
    return {**said, **outcome.facts, "measures": cells}


def _published(table: Table, row: Row, dataset: str) -> dict[str, float | None]:
    figures = row.published.get(dataset, (None,) * len(table.measures))
    return dict(zip(table.measures, figures, strict=True))


def _difference(published: float | None, published_baseline: float | None, ours) -> dict[str, Any]:
    is_known = published is not None and published_baseline is not None
    theirs = round(float(published - published_baseline), 6) if is_known else None
    found = {"published_difference": theirs, "verdict": verdict(theirs, ours)}
    if ours is not None:
        found["difference"] = {"value": ours.mean, "low": ours.low, "high": ours.high, "p_value": ours.p_value}
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {report['paper']}: {report['title']}", "", _settings_line(report), ""]
    for block in report["datasets"]:
        lines += [f"## {block['dataset']}", "", data_line(report, block), ""]
        lines.append(_scores(report, block))
        shortened = [f"- {row['row']}: {row['extraction']}" for row in block["rows"] if "extraction" in row]
        if shortened:
            lines += ["", "Documents from which sentences were left out before the model read them, and what was kept:"]
            lines += ["", *shortened]
        if report["baseline"] is not None:
            # one training per row says nothing about what another seed would change
            lines += [
                "",
                f"Differences from {report['baseline']}, of one training each, with 95% intervals by paired bootstrap "
                "over test documents:",
                "",
            ]
            lines.append(_differences(report, block))
        for row, found in block.get("relations", {}).items():
            titles = {measure: title_of(measure) for measure in report["measures"]}
            lines += ["", *markdown_of_relation(report["against"], row, found, titles)]
        for title, failed in (("Failed", True), ("Not run", False)):
            said = [row for row in block["rows"] if row["problem"] and row["failed"] is failed]
            problems = [f"- {row['row']}: {row['problem']}" for row in said]
            if problems:
                lines += ["", f"{title}:", "", *problems]
        lines.append("")
    lines += [f"- {note}" for note in report["notes"]]
    return "\n".join(lines).rstrip() + "\n"


def _settings_line(report: dict[str, Any]) -> str:
    parts = [f"Scale {report['scale']}", f"hf_summ {report['hf_summ']}"]
    if any(measure.startswith("rouge") for measure in report["measures"]):
        options = [f"{name.replace('_', ' ')} {value}" for name, value in report["rouge"].items()]
        parts.append(", ".join([f"ROUGE-1.5.5 of {report['unit']}", *options]))
    if report["count_punctuation"]:
        parts.append("novelty counts punctuation marks as words")
    return "; ".join(parts) + "."


def data_line(report: dict[str, Any], block: dict[str, Any]) -> str:
    """What our figures on a data set are of, and whether they may stand beside the published ones."""
    trained = [row for row in block["rows"] if "updates" in row]
    seeds = sorted({row["seed"] for row in trained})
    updates = sorted({row["updates"] for row in trained})
    parts = [f"Ours: {block['data']}"]
    if block["documents"] is not None:
        parts.append(f"{block['documents']} test documents")
    if trained:
        parts.append(f"updates {', '.join(map(str, updates))}")
        parts.append(f"seed {', '.join(map(str, seeds))}")
    line = ", ".join(parts) + f". Published: {block['dataset']}."
    stands_for = report["scale"] != "full" or block["data"] != block["dataset"]
    return (
        line + " Our figures can be compared with each other, but not with the published ones." if stands_for else line
    )


def _scores(report: dict[str, Any], block: dict[str, Any]) -> str:
    measures = report["measures"]
    titles = [title_of(measure) for measure in measures]
    counted = any("parameters" in row for row in block["rows"])
    head = ["row", *(["parameters"] if counted else []), *titles, *(f"published {title}" for title in titles)]
    rows = []
    for row in block["rows"]:
        cells = [row["measures"][measure] for measure in measures]
        size = [f"{row['parameters'] / 1e6:.2f}M" if "parameters" in row else ""] if counted else []
        rows.append([row["row"], *size, *map(_value, cells), *(number(cell["published"]) for cell in cells)])
    return markdown_table(head, rows)


def _differences(report: dict[str, Any], block: dict[str, Any]) -> str:
    measures = report["measures"]
    judges = report["scale"] != "tiny"
    head = ["row", *(part for name in measures for part in (title_of(name), "published", *([""] if judges else [])))]
    rows = []
    for row in block["rows"]:
        if row["row"] == report["baseline"]:
            continue
        cells = []
        for measure in measures:
            cell = row["measures"][measure]
            ours = cell.get("difference")
            shown = f"{ours['value']:+.2f} [{ours['low']:+.2f}, {ours['high']:+.2f}]" if ours else "–"
            cells += [shown, number(cell["published_difference"], "+")]
            cells += [cell["verdict"] or "–"] if judges else []
        rows.append([row["row"], *cells])
    return markdown_table(head, rows)


def _value(cell: dict[str, Any]) -> str:
    if "low" not in cell:
        return number(cell["value"])
    return f"{cell['value']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"


def number(value: float | None, sign: str = "") -> str:
    """A figure as tables show it, or a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    # a count, or a figure that was published without decimals
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{value:{sign},.0f}" if is_whole else f"{value:{sign}.2f}"
