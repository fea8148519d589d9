"""The report of a table: our figures beside the published ones, as data and Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hf_summ import __version__
from hf_summ.common.pages import latex_figure, latex_table, latex_text, markdown_table
from hf_summ.evaluation import measures
from hf_summ.evaluation.report import shown_interval
from hf_summ.evaluation.significance import Scored
from hf_summ.experiments.scoring import Outcome, compare, verdict
from hf_summ.experiments.tables import ROUGE_MEASURES, Row, Table

_CLAIMS = (
    "The papers' claims, as differences in ROUGE with 95% intervals by paired bootstrap over documents. "
    "A claim holds or fails if the interval excludes zero and the ranges over seeds do not overlap. Otherwise it is "
    "undecided: either more seeds are needed, or the given total number of documents, which would decide it with a "
    "probability of 80% if the measured difference is the true one."
)
_TRAININGS = (
    "Tokens trained per second (source and target, without padding; CPU seconds where the device is a CPU), documents "
    "summarized per second of wall time, the mean negative log-likelihood per training token in the last tenth of the "
    "updates, and its fall from the tenth before:"
)


def title_of(measure: str) -> str:
    """A measure's name as a column title."""
    if measures.measure_of(measure) is None:
        return measure.replace("_", " ")
    title = measures.title_of(measure).removesuffix(", %").replace("ROUGE-", "R-")
    return title[0].lower() + title[1:] if title[1:2].islower() else title


def make_report(table: Table, scale: str, blocks: Sequence[dict[str, Any]], split: str = "test") -> dict[str, Any]:
    """The whole table as data, ready for JSON.

    Args:
        blocks: one per data set, see `block_of_scores`.
        split: the split whose documents were summarized.
    """
    if scale == "tiny":
        # after seconds of training, scores allow no comparison with a paper's
        rows = [row for block in blocks for row in (*block["rows"], *block.get("claims", ()))]
        for cell in (cell for row in rows for cell in row["measures"].values() if "verdict" in cell):
            cell["verdict"] = None
    return {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "kind": table.kind,
        "scale": scale,
        "split": split,
        "unit": table.unit,
        "measures": list(table.measures),
        "baseline": table.baseline,
        "rouge": dict(table.rouge),
        "count_punctuation": table.count_punctuation,
        "against": table.against,
        "notes": list(table.notes),
        "hf_summ": __version__,
        "datasets": list(blocks),
    }


def block_of_scores(
    table: Table, dataset: str, data: str, documents: int | None, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """The rows on one data set, with measures that are `Scored`.

    Args:
        data: the data read instead of the data set, or the data set's name.
        documents: number of summarized documents; None if the data cannot be read.
    """
    published = {outcome.row.row: _published(table, outcome.row, dataset) for outcome in outcomes}
    scored = {outcome.row.row: outcome.measures for outcome in outcomes}
    rows = []
    for outcome in outcomes:
        name = outcome.row.row
        ours, base = outcome.measures, scored.get(table.baseline or "", {})
        cells = {}
        for measure in table.measures:
            cell = _cell(ours.get(measure))
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
        ours = outcome.measures
        cells = {name: {"value": ours.get(name), "published": published.get(name)} for name in table.measures}
        rows.append(_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": None, "rows": rows}


def _cell(scored: Scored | None) -> dict[str, Any]:
    """The corpus's `value`, the ends of its interval, the values of `seeds`, and `rows`, how many have a value.

    There is no interval if the value is undefined in resamples, and no `rows` if all have a value.
    """
    if scored is None:
        return {"value": None}
    interval, number = scored.interval(), scored.number()
    return {
        "value": scored.value(),
        **({} if interval is None else {"low": interval.low, "high": interval.high}),
        **({"seeds": list(scored.seeds)} if scored.seeds else {}),
        **({} if number == len(scored.statistics) else {"rows": number}),
    }


def _row(outcome: Outcome, cells: dict[str, Any]) -> dict[str, Any]:
    facts = {"row": outcome.row.row, "problem": outcome.problem, "failed": outcome.failed}
    return {**facts, **outcome.facts, "measures": cells}


def _published(table: Table, row: Row, dataset: str) -> dict[str, float | None]:
    figures = row.published.get(dataset, (None,) * len(table.measures))
    return dict(zip(table.measures, figures, strict=True))


def _difference(published: float | None, published_baseline: float | None, ours) -> dict[str, Any]:
    is_known = published is not None and published_baseline is not None
    theirs = round(float(published - published_baseline), 6) if is_known else None
    cell = {"published_difference": theirs, "verdict": verdict(theirs, ours)}
    if ours is not None:
        cell["difference"] = {"value": ours.mean, "low": ours.low, "high": ours.high, "p_value": ours.p_value}
    return cell


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {report['paper']}: {report['title']}", "", _settings_line(report), ""]
    for block in report["datasets"]:
        lines += [f"## {block['dataset']}", "", data_line(report, block), ""]
        seeded = any("seeds" in row for row in block["rows"])
        if seeded:
            lines += ["Means over seeds, with 95% intervals over documents, and the range over seeds:", ""]
        lines += [_scores(report, block), *markdown_of_trainings(block["rows"])]
        shortened = [f"- {row['row']}: {row['extraction']}" for row in block["rows"] if "extraction" in row]
        if shortened:
            lines += ["", "Documents were shortened before the model read them; what was kept:"]
            lines += ["", *shortened]
        if report["baseline"] is not None:
            # a single run per row does not show the variation over seeds
            trained = "of one run each, " if any("updates" in row for row in block["rows"]) else ""
            of = "means over seeds, " if seeded else trained
            intervals = "with 95% intervals by paired bootstrap over documents"
            lines += ["", f"Differences from {report['baseline']}, {of}{intervals}:", ""]
            lines.append(_differences(report, block))
        titles = {measure: title_of(measure) for measure in report["measures"]}
        if block.get("claims"):
            lines += ["", *markdown_of_claims(block["claims"], titles, block["documents"])]
        for row, relation in block.get("relations", {}).items():
            lines += ["", *markdown_of_relation(report["against"], row, relation, titles)]
        for title, failed in (("Failed", True), ("Not run", False)):
            missing = [row for row in block["rows"] if row["problem"] and row["failed"] is failed]
            problems = [f"- {row['row']}: {row['problem']}" for row in missing]
            if problems:
                lines += ["", f"{title}:", "", *problems]
        lines.append("")
    lines += [f"- {note}" for note in report["notes"]]
    return "\n".join(lines).rstrip() + "\n"


def latex(report: dict[str, Any]) -> str:
    """The scores as tables for a paper, one for each data set, and how to read them."""
    tables = []
    for block in report["datasets"]:
        rows = {
            row["row"]: [_latex_figure(row["measures"][name]) for name in report["measures"]] for row in block["rows"]
        }
        legend = rf"{latex_text(block['dataset'])}: $\pm$ half the width of the 95\% interval over documents."
        if report["baseline"] is not None:
            legend += rf" $\dagger$ the interval of the difference from {latex_text(report['baseline'])} excludes 0."
        tables += [latex_table(list(map(title_of, report["measures"])), rows), legend]
    return "\n\n".join((*tables, latex_text(_settings_line(report)))) + "\n"


def _latex_figure(cell: Mapping[str, Any]) -> str:
    difference = cell.get("difference")
    is_marked = difference is not None and not difference["low"] <= 0 <= difference["high"]
    return latex_figure(cell["value"], (cell["low"], cell["high"]) if "low" in cell else None, is_marked)


def _settings_line(report: dict[str, Any]) -> str:
    facts = [f"Scale {report['scale']}", f"hf_summ {report['hf_summ']}"]
    if any(measure.startswith("rouge") for measure in report["measures"]):
        options = [f"{name.replace('_', ' ')} {value}" for name, value in report["rouge"].items()]
        facts.append(", ".join([f"ROUGE-1.5.5 of {report['unit']}", *options]))
    if report["kind"] == "votes":
        facts.append("votes in percent" if report["unit"] == "percent" else "documents per voter")
    if report["count_punctuation"]:
        facts.append("novelty counts punctuation marks as words")
    return "; ".join(facts) + "."


def data_line(report: dict[str, Any], block: dict[str, Any]) -> str:
    """The data of our figures on a data set, and whether the published figures are comparable."""
    trained = [row for row in block["rows"] if "updates" in row]
    seeds = sorted({seed for row in trained for seed in row.get("seeds", [row["seed"]])})
    updates = sorted({row["updates"] for row in trained})
    facts = [f"Ours: {block['data']}"]
    if block["documents"] is not None:
        facts.append(f"{block['documents']} {report['split']} documents")
    if "voters" in block:
        facts.append(f"{block['voters']} voters")
    if trained:
        # different numbers are shown in the rows
        facts += [f"updates {updates[0]}"] if len(updates) == 1 else []
        facts.append(f"seed {', '.join(map(str, seeds))}")
    line = ", ".join(facts) + "."
    if not _has_published(block):
        return f"{line} No figures are published for these rows."
    line += f" Published: {block['dataset']}."
    stands_for = report["scale"] != "full" or block["data"] != block["dataset"]
    return (
        line + " Our figures can be compared with each other, but not with the published ones." if stands_for else line
    )


def _has_published(block: dict[str, Any]) -> bool:
    return any(cell["published"] is not None for row in block["rows"] for cell in row["measures"].values())


def _scores(report: dict[str, Any], block: dict[str, Any]) -> str:
    measures = report["measures"]
    titles = [title_of(measure) for measure in measures]
    facts = {"parameters": lambda size: f"{size / 1e6:.2f}M", "updates": str}
    if len({row["updates"] for row in block["rows"] if "updates" in row}) < 2:
        del facts["updates"]
    facts = {name: form for name, form in facts.items() if any(name in row for row in block["rows"])}
    published = _has_published(block)
    head = ["row", *facts, *titles, *(f"published {title}" for title in titles if published)]
    rows = []
    for row in block["rows"]:
        cells = [row["measures"][measure] for measure in measures]
        of_run = [form(row[name]) if name in row else "" for name, form in facts.items()]
        theirs = [number(cell["published"]) for cell in cells if published]
        rows.append([row["row"], *of_run, *(_value(cell, block["documents"]) for cell in cells), *theirs])
    return markdown_table(head, rows)


def _differences(report: dict[str, Any], block: dict[str, Any]) -> str:
    measures = report["measures"]
    published = _has_published(block)
    judges = published and report["scale"] != "tiny"
    theirs = (["published"] if published else []) + ([""] if judges else [])
    head = ["row", *(title for name in measures for title in (title_of(name), *theirs))]
    rows = []
    for row in block["rows"]:
        if row["row"] == report["baseline"]:
            continue
        cells = []
        for measure in measures:
            cell = row["measures"][measure]
            cells.append(_interval(cell.get("difference"), "+.2f"))
            cells += [number(cell["published_difference"], "+")] if published else []
            cells += [cell["verdict"] or "–"] if judges else []
        rows.append([row["row"], *cells])
    return markdown_table(head, rows)


def _value(cell: dict[str, Any], documents: int | None) -> str:
    value = _interval(cell, ".2f") if "low" in cell else number(cell["value"])
    if "low" in cell and cell.get("seeds"):
        value += f" {min(cell['seeds']):.2f} to {max(cell['seeds']):.2f}"
    return f"{value} ({cell['rows']} of {documents})" if cell.get("rows") else value


def number(value: float | None, sign: str = "") -> str:
    """A figure as tables show it, or a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    # a count, or a figure that was published without decimals
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{value:{sign},.0f}" if is_whole else f"{value:{sign}.2f}"


def markdown_of_claims(tested: Sequence[Mapping[str, Any]], titles: Mapping[str, str], documents: int) -> list[str]:
    """The claims as lines of Markdown, with their verdicts where they have one.

    Args:
        tested: from `claims` of `hf_summ.experiments.scoring`.
        titles: measure -> its title.
        documents: number of summarized documents.
    """
    measures = [name for name in titles if name in ROUGE_MEASURES]
    rows = [
        [claim["row"], claim["above"], *(_claim(claim["measures"].get(name), documents) for name in measures)]
        for claim in tested
    ]
    return [_CLAIMS, "", markdown_table(["row", "above", *(titles[name] for name in measures)], rows, left=2)]


def _claim(cell: Mapping[str, Any] | None, documents: int) -> str:
    if cell is None:
        return "–"
    difference = _interval(cell["difference"], "+.2f")
    if cell["verdict"] is None:
        return difference
    if cell["verdict"] != "undecided":
        return f"{difference} {cell['verdict']}"
    needed = cell["documents"]
    if needed is None:
        return f"{difference} undecided: –"
    return f"{difference} undecided: {'more seeds' if needed <= documents else f'{needed:,} documents'}"


def _interval(figures: Mapping[str, float] | None, form: str) -> str:
    if figures is None:
        return "–"
    return f"{figures['value']:{form}} {shown_interval([figures['low'], figures['high']], form)}"


def markdown_of_relation(value: str, row: str, relation: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """The correlations and the spans as lines of Markdown.

    Args:
        value, row: names of the value and of the system.
        relation: from `relation` of `hf_summ.experiments.scoring`.
        titles: measure -> its title.
    """
    correlations = {titles[measure]: figures for measure, figures in relation["correlations"].items()}
    listed = ", ".join(f"{title} {_interval(figures, '+.3f')}" for title, figures in correlations.items())
    head = f"{row}: Spearman's correlation of each summary's {value} with its {listed}. By {value}:"
    rows = [
        [
            f"{span['low']:.3f} to {span['high']:.3f}",
            str(span["documents"]),
            *(f"{score:.2f}" for score in span["scores"].values()),
        ]
        for span in relation["spans"]
    ]
    return [head, "", markdown_table([value, "documents", *correlations], rows)]


def markdown_of_trainings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The recorded speeds and losses of a report's rows, as lines of Markdown; none if nothing was recorded."""
    cells = [_training(row) for row in rows if row.get("curve")]
    table = markdown_table(["row", "tokens/s", "documents/s", "nll", "fall"], cells)
    return ["", _TRAININGS, "", table] if cells else []


def _training(row: Mapping[str, Any]) -> list[str]:
    # a tenth of the entries, which are evenly spaced
    losses, tenth = [loss for _, loss in row["curve"]], max(1, len(row["curve"]) // 10)
    last, before = np.mean(losses[-tenth:]), losses[-2 * tenth : -tenth]
    fall = f"{np.mean(before) - last:+.3f}" if before else "–"
    tokens = f"{row['tokens'] / row['seconds']:,.0f}" if {"tokens", "seconds"} <= row.keys() else "–"
    return [row["row"], tokens, f"{row['documents_per_second']:.1f}", f"{last:.3f}", fall]
