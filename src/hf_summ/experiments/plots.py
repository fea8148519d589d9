"""The plots of a table's report."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_summ.common.files import moved_into_place
from hf_summ.common.lazy import import_extra
from hf_summ.experiments.content import Block, Cell, Relation, Report, ReportRow
from hf_summ.experiments.report import data_line, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS = "#1b5e9b"
_PUBLISHED = "#c8553d"
# The width of the 8-point font of a figure's caption.
_CHARACTERS_PER_INCH = 16
# The most panels beside each other that are readable on a page.
_MOST_COLUMNS = 3


def write_plot(report: Report, path: Path) -> None:
    """Write a PNG with a panel for each data set and measure, of differences from the baseline or, without one, scores.

    A report whose measures are plotted against a value has panels of points instead. Beside the file, the file
    `<stem>_curves.png` shows the training losses. Without results, nothing is written.

    Raises:
        ImportError: matplotlib is not installed.
    """
    # A figure outside pyplot needs no window system.
    figure_class = import_extra("matplotlib.figure", "plots need matplotlib", "tables").Figure
    blocks = []
    trained_blocks = []
    for report_block in report["datasets"]:
        block = _with_rows_that_ran(report_block)
        if block["rows"]:
            blocks.append(block)
        if _rows_with_curve(block):
            trained_blocks.append(block)
    if trained_blocks:
        figure = figure_class(figsize=(8, 4.5 * len(trained_blocks)), layout="constrained")
        _draw_all_curves(figure, trained_blocks)
        _save(figure, report, trained_blocks, path.with_name(f"{path.stem}_curves.png"))
    if report["against"] is not None:
        related_blocks = [block for block in blocks if block.get("relations")]
        systems = _systems_with_relation(related_blocks)
        if systems:
            size = (3.2 * len(report["measures"]), 4.4 * len(systems))
            figure = figure_class(figsize=size, layout="constrained")
            _draw_relations(figure, report, systems)
            _save(figure, report, related_blocks, path)
    elif blocks:
        lines, columns = _grid(len(report["measures"]))
        most_rows = max(len(block["rows"]) for block in blocks)
        size = (2 + 2.6 * columns, (1.2 + 0.32 * most_rows) * lines * len(blocks))
        figure = figure_class(figsize=size, layout="constrained")
        _draw_measures(figure, report, blocks)
        _save(figure, report, blocks, path)


def _with_rows_that_ran(block: Block) -> Block:
    """The block without the rows that have a problem."""
    rows = []
    for row in block["rows"]:
        if not row["problem"]:
            rows.append(row)
    return {**block, "rows": rows}


def _rows_with_curve(block: Block) -> list[ReportRow]:
    """The rows whose training losses were recorded."""
    rows = []
    for row in block["rows"]:
        if row.get("curve"):
            rows.append(row)
    return rows


def _grid(panels: int) -> tuple[int, int]:
    """The numbers of lines and of columns in which so many panels are arranged."""
    lines = math.ceil(panels / _MOST_COLUMNS)
    return lines, math.ceil(panels / lines)


def _save(figure: "Figure", report: Report, blocks: Sequence[Block], path: Path) -> None:
    """Put a caption above a figure, and write it.

    Args:
        figure: the figure.
        report: the report, whose title is in the caption.
        blocks: the blocks that the figure shows, whose data are in the caption.
        path: the PNG file.
    """
    captions = [f"{report['paper']}: {report['title']} (scale {report['scale']})"]
    for block in blocks:
        captions.append(data_line(report, block))
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    lines = []
    for caption in captions:
        lines.extend(textwrap.wrap(caption, width))
    # The figure has room for long captions, unlike a panel's title.
    figure.set_figheight(figure.get_figheight() + 0.17 * len(lines))
    figure.suptitle("\n".join(lines), fontsize=8)
    with moved_into_place(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _data_names(block: Block) -> str:
    """The published data set and, if it differs, the data of our figures."""
    dataset = block["dataset"]
    data = Path(block["data"]).name
    if data == dataset:
        return dataset
    return f"{dataset}\n(ours: {data})"


def _draw_all_curves(figure: "Figure", blocks: Sequence[Block]) -> None:
    """Draw a panel of training losses for each block."""
    panels = figure.subplots(len(blocks), squeeze=False).flat
    for panel, block in zip(panels, blocks, strict=True):
        _draw_curves(panel, _rows_with_curve(block))
        if len(blocks) > 1:
            panel.set_title(_data_names(block), fontsize=9)


def _draw_curves(panel: "Axes", rows: Sequence[ReportRow]) -> None:
    """Draw each row's loss over the seconds of training, or over updates if a row has no seconds."""
    in_seconds = all("seconds" in row for row in rows)
    for index, row in enumerate(rows):
        seconds_per_update = 1.0
        if in_seconds:
            seconds_per_update = row["seconds"] / row["updates"]
        times = []
        losses = []
        for update, loss in row["curve"]:
            times.append(update * seconds_per_update)
            losses.append(loss)
        # There are ten default colors.
        style = "-" if index < 10 else "--"
        panel.plot(times, losses, style, lw=1, label=row["row"])
    panel.set_xlabel("seconds of training" if in_seconds else "updates", fontsize=8)
    panel.set_ylabel("negative log-likelihood per token", fontsize=8)
    # The legend is beside the curves, as it would cover their ends.
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _systems_with_relation(blocks: Sequence[Block]) -> list[tuple[str, Relation]]:
    """The systems of all blocks that have a relation: the row and the data set, and the relation."""
    systems = []
    for block in blocks:
        for row, relation in block.get("relations", {}).items():
            systems.append((f"{row}, {_data_names(block)}", relation))
    return systems


def _draw_relations(figure: "Figure", report: Report, systems: Sequence[tuple[str, Relation]]) -> None:
    """Draw two panels for each system and measure: a point per summary, and below it the means of the spans.

    Args:
        figure: the figure.
        report: the report.
        systems: from `_systems_with_relation`.
    """
    measures = report["measures"]
    panels = figure.subplots(2 * len(systems), len(measures), squeeze=False)
    for index, (name, relation) in enumerate(systems):
        upper_panels = panels[2 * index]
        lower_panels = panels[2 * index + 1]
        # The first figure of a point is its value, and the scores follow.
        values, *scores_of_measures = zip(*relation["points"], strict=True)
        middles = [(span["low"] + span["high"]) / 2 for span in relation["spans"]]
        for column, measure in enumerate(measures):
            upper_panel = upper_panels[column]
            lower_panel = lower_panels[column]
            scores = scores_of_measures[column]
            means = [span["scores"][measure] for span in relation["spans"]]
            upper_panel.plot(values, scores, ".", ms=2, color=_OURS, alpha=0.4)
            upper_panel.set_title(name, fontsize=8)
            lower_panel.plot(middles, means, "o-", ms=4, color=_OURS)
            for panel in (upper_panel, lower_panel):
                panel.set_ylabel(title_of(measure), fontsize=8)
                panel.set_xlim(min(values), max(values))
                panel.tick_params(labelsize=8)
            lower_panel.set_xlabel(f"{report['against']}, means of spans", fontsize=8)


def _draw_measures(figure: "Figure", report: Report, blocks: Sequence[Block]) -> None:
    """Draw a panel for each block and measure, and a common legend."""
    measures = report["measures"]
    lines, columns = _grid(len(measures))
    panels = figure.subplots(len(blocks) * lines, columns, squeeze=False)
    for block, block_panels in zip(blocks, panels.reshape(len(blocks), -1), strict=True):
        for index, measure in enumerate(measures):
            panel = block_panels[index]
            _draw_rows(panel, report["baseline"], block["rows"], measure)
            title = title_of(measure).replace("R-", "ROUGE-")
            if len(blocks) > 1:
                title = f"{title}, {_data_names(block)}"
            panel.set_title(title, fontsize=9)
            # Only the first panel of a line names the rows.
            if index % columns:
                panel.set_yticklabels([])
        for unused_panel in block_panels[len(measures) :]:
            unused_panel.remove()
    # The same label in several panels is shown once.
    handles_by_label = {}
    for panel in panels.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles_by_label[label] = handle
    figure.legend(
        handles_by_label.values(),
        handles_by_label.keys(),
        loc="outside lower center",
        ncols=2,
        fontsize=8,
        frameon=False,
    )


def _draw_rows(panel: "Axes", baseline: str | None, rows: Sequence[ReportRow], measure: str) -> None:
    """Draw our and the published figure of each row in a measure, the first row at the top.

    Args:
        panel: the panel.
        baseline: the row from which differences are drawn; None draws scores.
        rows: the rows.
        measure: the measure.
    """
    rows_from_below = list(reversed(rows))
    for height, row in enumerate(rows_from_below):
        cell = row["measures"][measure]
        if baseline is None:
            _draw_score(panel, cell, height)
        else:
            _draw_difference(panel, cell, height)
    if baseline is not None:
        panel.axvline(0, lw=0.8, color="grey")
        panel.set_xlabel(f"difference from {baseline}", fontsize=8)
    panel.set_yticks(range(len(rows)), [row["row"] for row in rows_from_below], fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    # More labels would overlap.
    panel.locator_params(axis="x", nbins=4)
    panel.set_ylim(-0.6, len(rows) - 0.4)


def _draw_score(panel: "Axes", cell: Cell, height: int) -> None:
    """Draw our score, with its interval if it has one, and the published score."""
    value = cell["value"]
    if value is not None and "low" in cell:
        _draw_interval(panel, value, (cell["low"], cell["high"]), height)
    elif value is not None:
        panel.plot(value, height, "o", ms=4, color=_OURS, label="ours")
    if cell["published"] is not None:
        _draw_published(panel, cell["published"], height)


def _draw_difference(panel: "Axes", cell: Cell, height: int) -> None:
    """Draw our difference from the baseline with its interval, and the published difference."""
    if "difference" in cell:
        difference = cell["difference"]
        _draw_interval(panel, difference["value"], (difference["low"], difference["high"]), height)
    published_difference = cell.get("published_difference")
    if published_difference is not None:
        _draw_published(panel, published_difference, height)


def _draw_interval(panel: "Axes", value: float, interval: tuple[float, float], height: int) -> None:
    """Draw our value with its 95% interval."""
    low, high = interval
    # Rounding errors in the mean of equal scores must not give a negative length.
    lengths = [[max(value - low, 0)], [max(high - value, 0)]]
    panel.errorbar(value, height, xerr=lengths, fmt="o", ms=4, capsize=2, color=_OURS, label="ours, 95% interval")


def _draw_published(panel: "Axes", value: float, height: int) -> None:
    """Draw a published value."""
    panel.plot(value, height, "D", ms=4, mfc="none", color=_PUBLISHED, label="published")
