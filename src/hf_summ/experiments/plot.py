"""A table as a plot: each row's difference from the baseline, ours with its interval and the published one."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_summ.common.files import moved_into_place
from hf_summ.experiments.report import data_line, title_of

_OURS, _PUBLISHED = "#1b5e9b", "#c8553d"
# of the font of 8 points in which a figure says what it is of
_CHARACTERS_PER_INCH = 16


def write_plot(report: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel for each data set and measure; without a baseline, it shows the scores themselves.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    blocks, measures = [_drawn(block) for block in report["datasets"]], report["measures"]
    blocks = [block for block in blocks if block["rows"]]
    if report["against"] is not None:
        blocks = [block for block in blocks if block.get("relations")]
    if not blocks:
        # without a result there is nothing to draw
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
    """Write the figure, with what it is of above its panels."""
    told = [f"{report['paper']}: {report['title']} (scale {report['scale']})", *(data_line(report, b) for b in blocks)]
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    lines = [part for line in told for part in textwrap.wrap(line, width)]
    # a PNG has room for all of it, a panel's title has not
    figure.set_figheight(figure.get_figheight() + 0.17 * len(lines))
    figure.suptitle("\n".join(lines), fontsize=8)
    canvas(figure)
    with moved_into_place(path) as part:
        figure.savefig(part, format="png", dpi=150)


def _relations(report: dict[str, Any], blocks: Sequence[dict[str, Any]], figure_class):
    """For each system and measure, a point a summary, and below it the mean of each span of the value."""
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
            # equal scores may differ from their mean by a rounding error, which must not give a negative length
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
