"""The report of a table: our figures beside the published ones, as data, Markdown and plots."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_summ import __version__
from hf_summ.common.files import moved_into_place
from hf_summ.common.pages import markdown_table
from hf_summ.evaluation import measures
from hf_summ.evaluation.significance import Scored
from hf_summ.experiments.claims import markdown_of_claims
from hf_summ.experiments.relations import markdown_of_relation
from hf_summ.experiments.scoring import Outcome, compare, verdict
from hf_summ.experiments.tables import Row, Table
from hf_summ.experiments.trainings import draw_curves, markdown_of_trainings

_OURS, _PUBLISHED = "#1b5e9b", "#c8553d"
# for the 8-point font of a figure's caption
_CHARACTERS_PER_INCH = 16


def title_of(measure: str) -> str:
    """A measure's name as a column title."""
    if measures.measure_of(measure) is None:
        return measure.replace("_", " ")
    title = measures.title_of(measure).removesuffix(", %").replace("ROUGE-", "R-")
    return title[0].lower() + title[1:] if title[1].islower() else title


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
        # after seconds of training, scores allow no comparison with a paper's
        "datasets": [_without_verdicts(block) for block in blocks] if scale == "tiny" else list(blocks),
    }


def _without_verdicts(block: dict[str, Any]) -> dict[str, Any]:
    def kept(cells: dict[str, Any]) -> dict[str, Any]:
        return {name: {**cell, "verdict": None} if "verdict" in cell else cell for name, cell in cells.items()}

    parts = {part: block[part] for part in ("rows", "claims") if part in block}
    judged = {part: [{**row, "measures": kept(row["measures"])} for row in rows] for part, rows in parts.items()}
    return {**block, **judged}


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
        found = outcome.measures
        cells = {name: {"value": found.get(name), "published": published.get(name)} for name in table.measures}
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
    found = {"published_difference": theirs, "verdict": verdict(theirs, ours)}
    if ours is not None:
        found["difference"] = {"value": ours.mean, "low": ours.low, "high": ours.high, "p_value": ours.p_value}
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {report['paper']}: {report['title']}", "", _settings_line(report), ""]
    for block in report["datasets"]:
        lines += [f"## {block['dataset']}", "", data_line(report, block), ""]
        seeded = any("seeds" in row for row in block["rows"])
        if seeded:
            lines += ["Means over seeds, with 95% intervals over test documents, and the range over seeds:", ""]
        lines += [_scores(report, block), *markdown_of_trainings(block["rows"])]
        shortened = [f"- {row['row']}: {row['extraction']}" for row in block["rows"] if "extraction" in row]
        if shortened:
            lines += ["", "Documents were shortened before the model read them; what was kept:"]
            lines += ["", *shortened]
        if report["baseline"] is not None:
            # a single run per row does not show the variation over seeds
            trained = "of one run each, " if any("updates" in row for row in block["rows"]) else ""
            of = "means over seeds, " if seeded else trained
            intervals = "with 95% intervals by paired bootstrap over test documents"
            lines += ["", f"Differences from {report['baseline']}, {of}{intervals}:", ""]
            lines.append(_differences(report, block))
        titles = {measure: title_of(measure) for measure in report["measures"]}
        if block.get("claims"):
            lines += ["", *markdown_of_claims(block["claims"], titles, block["documents"])]
        for row, found in block.get("relations", {}).items():
            lines += ["", *markdown_of_relation(report["against"], row, found, titles)]
        for title, failed in (("Failed", True), ("Not run", False)):
            missing = [row for row in block["rows"] if row["problem"] and row["failed"] is failed]
            problems = [f"- {row['row']}: {row['problem']}" for row in missing]
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
    if report["kind"] == "votes":
        parts.append("votes in percent" if report["unit"] == "percent" else "documents per voter")
    if report["count_punctuation"]:
        parts.append("novelty counts punctuation marks as words")
    return "; ".join(parts) + "."


def data_line(report: dict[str, Any], block: dict[str, Any]) -> str:
    """The data of our figures on a data set, and whether the published figures are comparable."""
    trained = [row for row in block["rows"] if "updates" in row]
    seeds = sorted({seed for row in trained for seed in row.get("seeds", [row["seed"]])})
    updates = sorted({row["updates"] for row in trained})
    parts = [f"Ours: {block['data']}"]
    if block["documents"] is not None:
        parts.append(f"{block['documents']} test documents")
    if "voters" in block:
        parts.append(f"{block['voters']} voters")
    if trained:
        # different numbers are shown in the rows
        parts += [f"updates {updates[0]}"] if len(updates) == 1 else []
        parts.append(f"seed {', '.join(map(str, seeds))}")
    line = ", ".join(parts) + "."
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
    facts = {name: shown for name, shown in facts.items() if any(name in row for row in block["rows"])}
    published = _has_published(block)
    head = ["row", *facts, *titles, *(f"published {title}" for title in titles if published)]
    rows = []
    for row in block["rows"]:
        cells = [row["measures"][measure] for measure in measures]
        of_run = [shown(row[name]) if name in row else "" for name, shown in facts.items()]
        theirs = [number(cell["published"]) for cell in cells if published]
        rows.append([row["row"], *of_run, *(_value(cell, block["documents"]) for cell in cells), *theirs])
    return markdown_table(head, rows)


def _differences(report: dict[str, Any], block: dict[str, Any]) -> str:
    measures = report["measures"]
    published = _has_published(block)
    judges = published and report["scale"] != "tiny"
    theirs = (["published"] if published else []) + ([""] if judges else [])
    head = ["row", *(part for name in measures for part in (title_of(name), *theirs))]
    rows = []
    for row in block["rows"]:
        if row["row"] == report["baseline"]:
            continue
        cells = []
        for measure in measures:
            cell = row["measures"][measure]
            ours = cell.get("difference")
            shown = f"{ours['value']:+.2f} [{ours['low']:+.2f}, {ours['high']:+.2f}]" if ours else "–"
            cells += [shown, *([number(cell["published_difference"], "+")] if published else [])]
            cells += [cell["verdict"] or "–"] if judges else []
        rows.append([row["row"], *cells])
    return markdown_table(head, rows)


def _value(cell: dict[str, Any], documents: int | None) -> str:
    shown = number(cell["value"])
    if "low" in cell:
        shown = f"{cell['value']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"
    if "low" in cell and cell.get("seeds"):
        shown += f" {min(cell['seeds']):.2f} to {max(cell['seeds']):.2f}"
    return f"{shown} ({cell['rows']} of {documents})" if cell.get("rows") else shown


def number(value: float | None, sign: str = "") -> str:
    """A figure as tables show it, or a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    # a count, or a figure that was published without decimals
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{value:{sign},.0f}" if is_whole else f"{value:{sign}.2f}"


def write_plot(report: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel for each data set and measure, of differences from the baseline or, without one, scores.

    Beside it, `<stem>_curves.png` shows the training losses.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'hf-summ[tables]'") from error
    blocks, measures = [_drawn(block) for block in report["datasets"]], report["measures"]
    trained = [block for block in blocks if any(row.get("curve") for row in block["rows"])]
    if trained:
        figure = Figure(figsize=(8, 4.5 * len(trained)), layout="constrained")
        for panel, block in zip(figure.subplots(len(trained), squeeze=False).flat, trained, strict=True):
            draw_curves(panel, [row for row in block["rows"] if row.get("curve")])
            panel.set_title(_data_names(block), fontsize=9)
        _save(figure, report, trained, path.with_name(f"{path.stem}_curves.png"), FigureCanvasAgg)
    blocks = [block for block in blocks if block["rows"]]
    if report["against"] is not None:
        blocks = [block for block in blocks if block.get("relations")]
    if not blocks:
        # there are no results to draw
        return
    if report["against"] is not None:
        _save(_relations(report, blocks, Figure), report, blocks, path, FigureCanvasAgg)
        return
    rows = max(len(block["rows"]) for block in blocks)
    # a figure outside pyplot needs no window system
    figure = Figure(figsize=(2 + 2.6 * len(measures), (1.2 + 0.32 * rows) * len(blocks)), layout="constrained")
    panels = figure.subplots(len(blocks), len(measures), squeeze=False)
    for line, block in zip(panels, blocks, strict=True):
        for place, (panel, measure) in enumerate(zip(line, measures, strict=True)):
            _draw(panel, report["baseline"], block["rows"], measure)
            panel.set_title(f"{title_of(measure)}, {_data_names(block)}", fontsize=9)
            if place:
                panel.set_yticklabels([])
    drawn = (panel.get_legend_handles_labels() for panel in panels.flat)
    handles = {label: handle for pairs in drawn for handle, label in zip(*pairs, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    _save(figure, report, blocks, path, FigureCanvasAgg)


def _drawn(block: dict[str, Any]) -> dict[str, Any]:
    """The block without rows that were not run."""
    return {**block, "rows": [row for row in block["rows"] if not row["problem"]]}


def _save(figure, report: dict[str, Any], blocks: Sequence[dict[str, Any]], path: Path, canvas: type) -> None:
    """Write the figure, with captions above its panels."""
    captions = [
        f"{report['paper']}: {report['title']} (scale {report['scale']})",
        *(data_line(report, b) for b in blocks),
    ]
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    lines = [part for line in captions for part in textwrap.wrap(line, width)]
    # the figure has room for long captions, unlike a panel's title
    figure.set_figheight(figure.get_figheight() + 0.17 * len(lines))
    figure.suptitle("\n".join(lines), fontsize=8)
    canvas(figure)
    with moved_into_place(path) as part:
        figure.savefig(part, format="png", dpi=150)


def _relations(report: dict[str, Any], blocks: Sequence[dict[str, Any]], figure_class):
    """For each system and measure, a panel with a point per summary, and below it one with the means of the spans."""
    measures = report["measures"]
    systems = [(f"{row}, {_data_names(block)}", found) for block in blocks for row, found in block["relations"].items()]
    figure = figure_class(figsize=(3.2 * len(measures), 4.4 * len(systems)), layout="constrained")
    panels = figure.subplots(2 * len(systems), len(measures), squeeze=False)
    for place, (name, found) in enumerate(systems):
        for column, measure in enumerate(measures):
            above, below = panels[2 * place][column], panels[2 * place + 1][column]
            values, scores = [point[0] for point in found["points"]], [point[1 + column] for point in found["points"]]
            above.plot(values, scores, ".", ms=2, color=_OURS, alpha=0.4)
            above.set_title(name, fontsize=8)
            middles = [(span["low"] + span["high"]) / 2 for span in found["spans"]]
            below.plot(middles, [span["scores"][measure] for span in found["spans"]], "o-", ms=4, color=_OURS)
            for panel in (above, below):
                panel.set_ylabel(title_of(measure), fontsize=8)
                panel.set_xlim(min(values), max(values))
                panel.tick_params(labelsize=8)
            below.set_xlabel(f"{report['against']}, means of spans", fontsize=8)
    return figure


def _data_names(block: dict[str, Any]) -> str:
    """The published data set and, if it differs, the data of our figures."""
    dataset, data = block["dataset"], Path(block["data"]).name
    return dataset if data == dataset else f"{dataset}\n(ours: {data})"


def _draw(panel, baseline: str | None, rows: list[dict[str, Any]], measure: str) -> None:
    for height, row in enumerate(reversed(rows)):
        cell = row["measures"][measure]
        if baseline is None:
            ours, published = (cell if "low" in cell else None), cell["published"]
        else:
            ours, published = cell.get("difference"), cell.get("published_difference")
        if ours is not None:
            # rounding errors in the mean of equal scores must not give a negative length
            reach = [[max(ours["value"] - ours["low"], 0)], [max(ours["high"] - ours["value"], 0)]]
            panel.errorbar(
                ours["value"], height, xerr=reach, fmt="o", ms=4, capsize=2, color=_OURS, label="ours, 95% interval"
            )
        elif baseline is None and cell["value"] is not None:
            panel.plot(cell["value"], height, "o", ms=4, color=_OURS, label="ours")
        if published is not None:
            panel.plot(published, height, "D", ms=4, mfc="none", color=_PUBLISHED, label="published")
    if baseline is not None:
        panel.axvline(0, lw=0.8, color="grey")
        panel.set_xlabel(f"difference from {baseline}", fontsize=8)
    panel.set_yticks(range(len(rows)), [row["row"] for row in reversed(rows)], fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    # more labels would overlap
    panel.locator_params(axis="x", nbins=4)
    panel.set_ylim(-0.6, len(rows) - 0.4)
