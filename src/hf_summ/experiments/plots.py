"""The plots of a table's report, as PNG files.

A plot is a `matplotlib.figure.Figure`, which is called a figure here, and has panels, which are matplotlib's axes.
A report has a block for each data set. A block has rows, with a cell for each measure, see `content.py`.
"""

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

# The colors of our values and of the published ones.
_OURS = "#1b5e9b"
_PUBLISHED = "#c8553d"
# About how many characters of a caption's 8-point font fit into an inch.
_CHARACTERS_PER_INCH = 16
# The height in inches of a line of the caption.
_LINE_HEIGHT = 0.17
# The most panels beside each other that are readable on a page.
_MOST_COLUMNS = 3


def write_plot(report: Report, path: Path) -> None:
    """Write the plots of a report: `path`, and beside it `<stem>_curves.png`.

    The file `path` has one of three contents:

    - If the report's measures are plotted against a value of each summary, which `report["against"]` names, it shows
      the scores of single summaries over this value. Without such relations, it is not written.
    - Otherwise, if the report has a baseline, it shows each row's differences from the baseline in each measure.
    - Otherwise it shows each row's values in each measure.

    The file of curves shows the training losses. It is written if a row has recorded them. Rows with a problem are in
    no plot. If all rows of the report have a problem, neither file is written.

    Args:
        report: the report of a table.
        path: the PNG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    # The class itself is used instead of `pyplot`, which may need a window system.
    figure_class = import_extra("matplotlib.figure", "plots need matplotlib", "tables").Figure
    blocks = []
    trained_blocks = []
    for report_block in report["datasets"]:
        block = _without_problems(report_block)
        if block["rows"]:
            blocks.append(block)
        if _rows_with_curve(block):
            trained_blocks.append(block)
    # All sizes are in inches: the width and the height of a figure.
    if trained_blocks:
        size = (8, 4.5 * len(trained_blocks))
        figure = figure_class(figsize=size, layout="constrained")
        _draw_all_curves(figure, trained_blocks)
        _save(figure, report, trained_blocks, path.with_name(f"{path.stem}_curves.png"))
    if report["against"] is not None:
        related_blocks = [block for block in blocks if block.get("relations")]
        relations = _named_relations(related_blocks)
        if relations:
            size = (3.2 * len(report["measures"]), 4.4 * len(relations))
            figure = figure_class(figsize=size, layout="constrained")
            _draw_relations(figure, report, relations)
            _save(figure, report, related_blocks, path)
    elif blocks:
        panel_rows, panel_columns = _grid(len(report["measures"]))
        most_rows = max(len(block["rows"]) for block in blocks)
        # A panel has a line for each row of the report. The names of the rows are to the left of the first column.
        panel_height = 1.2 + 0.32 * most_rows
        size = (2 + 2.6 * panel_columns, panel_height * panel_rows * len(blocks))
        figure = figure_class(figsize=size, layout="constrained")
        _draw_measures(figure, report, blocks)
        _save(figure, report, blocks, path)


def _without_problems(block: Block) -> Block:
    """A copy of the block without the rows that have a problem."""
    rows = []
    for row in block["rows"]:
        if not row["problem"]:
            rows.append(row)
    return {**block, "rows": rows}


def _rows_with_curve(block: Block) -> list[ReportRow]:
    """The rows of the block whose training losses were recorded."""
    rows = []
    for row in block["rows"]:
        if row.get("curve"):
            rows.append(row)
    return rows


def _grid(panels: int) -> tuple[int, int]:
    """The number of rows and the number of columns of a grid with room for so many panels."""
    panel_rows = math.ceil(panels / _MOST_COLUMNS)
    panel_columns = math.ceil(panels / panel_rows)
    return panel_rows, panel_columns


def _save(figure: "Figure", report: Report, blocks: Sequence[Block], path: Path) -> None:
    """Put a caption above the panels of a figure, and write the figure to a PNG file.

    Args:
        figure: the figure, which becomes higher by the height of the caption.
        report: the report; the caption has its paper, title and scale.
        blocks: the blocks that the figure shows; the caption has a line about the data of each.
        path: the PNG file.
    """
    captions = [f"{report['paper']}: {report['title']} (scale {report['scale']})"]
    for block in blocks:
        captions.append(data_line(report, block))
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    caption_lines = []
    for caption in captions:
        caption_lines.extend(textwrap.wrap(caption, width))
    figure.set_figheight(figure.get_figheight() + _LINE_HEIGHT * len(caption_lines))
    figure.suptitle("\n".join(caption_lines), fontsize=8)
    with moved_into_place(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _title_of_data(block: Block) -> str:
    """The data of a block for a title: the name of the data set and, in a second line, of the data read in its place.

    Without data in its place, there is no second line.
    """
    dataset = block["dataset"]
    data = Path(block["data"]).name
    if data == dataset:
        return dataset
    return f"{dataset}\n(ours: {data})"


def _draw_all_curves(figure: "Figure", blocks: Sequence[Block]) -> None:
    """Draw a panel of training losses for each block, one below the other.

    Args:
        figure: an empty figure.
        blocks: blocks with at least one row whose losses were recorded.
    """
    panels = figure.subplots(len(blocks), squeeze=False).flat
    for panel, block in zip(panels, blocks, strict=True):
        _draw_curves(panel, _rows_with_curve(block))
        if len(blocks) > 1:
            panel.set_title(_title_of_data(block), fontsize=9)


def _draw_curves(panel: "Axes", rows: Sequence[ReportRow]) -> None:
    """Draw the loss of each row over the seconds of training, or over updates if one of the rows has no seconds.

    Args:
        panel: an empty panel.
        rows: rows whose losses were recorded.
    """
    in_seconds = all("seconds" in row for row in rows)
    for index, row in enumerate(rows):
        time_per_update = 1.0
        if in_seconds:
            time_per_update = row["seconds"] / row["updates"]
        times = []
        losses = []
        for update, loss in row["curve"]:
            times.append(update * time_per_update)
            losses.append(loss)
        # Matplotlib repeats its ten default colors, so the eleventh and later curves are dashed.
        style = "-" if index < 10 else "--"
        panel.plot(times, losses, style, lw=1, label=row["row"])
    panel.set_xlabel("seconds of training" if in_seconds else "updates", fontsize=8)
    panel.set_ylabel("negative log-likelihood per token", fontsize=8)
    # The legend is to the right of the panel. Inside the panel, it would cover the ends of the curves.
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _named_relations(blocks: Sequence[Block]) -> list[tuple[str, Relation]]:
    """The relations of all blocks, each after the name of its row and data set.

    A relation says how the scores of a row's summaries depend on a value of each summary.
    """
    relations = []
    for block in blocks:
        for row, relation in block.get("relations", {}).items():
            relations.append((f"{row}, {_title_of_data(block)}", relation))
    return relations


def _draw_relations(figure: "Figure", report: Report, relations: Sequence[tuple[str, Relation]]) -> None:
    """Draw two panels for each relation and measure.

    The upper panel has a point for each summary, with the summary's value on the x axis and its score on the y axis.
    The lower panel has a point for each span, which is a group of summaries with similar values. The middle of their
    values is on the x axis, and their mean score on the y axis.

    Args:
        figure: an empty figure.
        report: the report, with the measures, and the name of the value as `report["against"]`.
        relations: from `_named_relations`.
    """
    measures = report["measures"]
    panels = figure.subplots(2 * len(relations), len(measures), squeeze=False)
    for index, (name, relation) in enumerate(relations):
        upper_panels = panels[2 * index]
        lower_panels = panels[2 * index + 1]
        # A point has the value of a summary, and then its scores in the order of the measures.
        values = [point[0] for point in relation["points"]]
        middles = [(span["low"] + span["high"]) / 2 for span in relation["spans"]]
        for column, measure in enumerate(measures):
            upper_panel = upper_panels[column]
            lower_panel = lower_panels[column]
            scores = [point[column + 1] for point in relation["points"]]
            means = [span["scores"][measure] for span in relation["spans"]]
            upper_panel.plot(values, scores, ".", ms=2, color=_OURS, alpha=0.4)
            upper_panel.set_title(name, fontsize=8)
            lower_panel.plot(middles, means, "o-", ms=4, color=_OURS)
            upper_panel.set_ylabel(title_of(measure), fontsize=8)
            lower_panel.set_ylabel(f"{title_of(measure)}, means of spans", fontsize=8)
            for panel in (upper_panel, lower_panel):
                panel.set_xlim(min(values), max(values))
                panel.tick_params(labelsize=8)
            lower_panel.set_xlabel(report["against"], fontsize=8)


def _draw_measures(figure: "Figure", report: Report, blocks: Sequence[Block]) -> None:
    """Draw a panel for each block and measure, and a legend for all panels.

    Args:
        figure: an empty figure.
        report: the report, with the measures and the baseline.
        blocks: the blocks, whose rows have no problems.
    """
    measures = report["measures"]
    panel_rows, panel_columns = _grid(len(measures))
    # The grids of the blocks are one below the other.
    panels = figure.subplots(len(blocks) * panel_rows, panel_columns, squeeze=False)
    panels_of_blocks = panels.reshape(len(blocks), panel_rows * panel_columns)
    for block, block_panels in zip(blocks, panels_of_blocks, strict=True):
        for index, measure in enumerate(measures):
            panel = block_panels[index]
            _draw_rows(panel, report["baseline"], block["rows"], measure)
            title = title_of(measure).replace("R-", "ROUGE-")
            if len(blocks) > 1:
                title = f"{title}, {_title_of_data(block)}"
            panel.set_title(title, fontsize=9)
            # Only the panels in the first column name the rows of the report.
            if index % panel_columns:
                panel.set_yticklabels([])
        # The last row of the grid may have more panels than there are measures.
        for unused_panel in block_panels[len(measures) :]:
            unused_panel.remove()
    # All panels have the same labels, such as "published". The legend shows each label once.
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
    """Draw what a measure says about each row: our value and the published figure, or their differences.

    Args:
        panel: an empty panel.
        baseline: name of the row whose differences to the other rows are drawn; without a baseline, values are drawn.
        rows: the rows. The first row is drawn at the top.
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
    # More than about four labels would overlap.
    panel.locator_params(axis="x", nbins=4)
    panel.set_ylim(-0.6, len(rows) - 0.4)


def _draw_score(panel: "Axes", cell: Cell, height: int) -> None:
    """Draw our value, with its interval if it has one, and the published figure.

    Args:
        panel: the panel.
        cell: the cell of a row. A missing value or figure is not drawn.
        height: the position of the row in the panel, counted from below.
    """
    value = cell["value"]
    if value is not None and "low" in cell:
        _draw_interval(panel, value, (cell["low"], cell["high"]), height)
    elif value is not None:
        panel.plot(value, height, "o", ms=4, color=_OURS, label="ours")
    if cell["published"] is not None:
        _draw_published(panel, cell["published"], height)


def _draw_difference(panel: "Axes", cell: Cell, height: int) -> None:
    """Draw our difference from the baseline, with its interval, and the published difference.

    Args:
        panel: the panel.
        cell: the cell of a row. A missing difference is not drawn.
        height: the position of the row in the panel, counted from below.
    """
    if "difference" in cell:
        difference = cell["difference"]
        _draw_interval(panel, difference["value"], (difference["low"], difference["high"]), height)
    published_difference = cell.get("published_difference")
    if published_difference is not None:
        _draw_published(panel, published_difference, height)


def _draw_interval(panel: "Axes", value: float, interval: tuple[float, float], height: int) -> None:
    """Draw our value and the 95% interval around it.

    Args:
        panel: the panel.
        value: our value, or our difference from the baseline.
        interval: the ends of the interval.
        height: the position of the row in the panel, counted from below.
    """
    low, high = interval
    # Matplotlib refuses negative lengths. The value may be outside the interval by a rounding error if all scores are
    # equal.
    lengths = [[max(value - low, 0)], [max(high - value, 0)]]
    panel.errorbar(value, height, xerr=lengths, fmt="o", ms=4, capsize=2, color=_OURS, label="ours, 95% interval")


def _draw_published(panel: "Axes", value: float, height: int) -> None:
    """Draw a published figure or difference at the position of its row, counted from below."""
    panel.plot(value, height, "D", ms=4, mfc="none", color=_PUBLISHED, label="published")
