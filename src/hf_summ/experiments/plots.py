"""The plots of a table's report."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_summ.common.files import moved_into_place
from hf_summ.common.lazy import import_extra
from hf_summ.experiments.report import data_line, title_of

_OURS, _PUBLISHED = "#1b5e9b", "#c8553d"
# for the 8-point font of a figure's caption
_CHARACTERS_PER_INCH = 16


def write_plot(report: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel for each data set and measure, of differences from the baseline or, without one, scores.

    Beside it, `<stem>_curves.png` shows the training losses.
    """
    figure_class = import_extra("matplotlib.figure", "plots need matplotlib", "tables").Figure
    blocks, measures = report["datasets"], report["measures"]
    # rows that were not run are left out
    blocks = [{**block, "rows": [row for row in block["rows"] if not row["problem"]]} for block in blocks]
    trained = [block for block in blocks if any(row.get("curve") for row in block["rows"])]
    if trained:
        figure = figure_class(figsize=(8, 4.5 * len(trained)), layout="constrained")
        for panel, block in zip(figure.subplots(len(trained), squeeze=False).flat, trained, strict=True):
            _draw_curves(panel, [row for row in block["rows"] if row.get("curve")])
            if len(trained) > 1:
                panel.set_title(_data_names(block), fontsize=9)
        _save(figure, report, trained, path.with_name(f"{path.stem}_curves.png"))
    blocks = [block for block in blocks if block["rows"]]
    if report["against"] is not None:
        blocks = [block for block in blocks if block.get("relations")]
    if not blocks:
        # there are no results to draw
        return
    if report["against"] is not None:
        _save(_relations(report, blocks, figure_class), report, blocks, path)
        return
    rows = max(len(block["rows"]) for block in blocks)
    # more panels beside each other would be unreadable on a page
    lines = -(-len(measures) // 3)
    columns = -(-len(measures) // lines)
    # a figure outside pyplot needs no window system
    size = (2 + 2.6 * columns, (1.2 + 0.32 * rows) * lines * len(blocks))
    figure = figure_class(figsize=size, layout="constrained")
    panels = figure.subplots(len(blocks) * lines, columns, squeeze=False)
    for block, of_block in zip(blocks, panels.reshape(len(blocks), -1), strict=True):
        for number, (measure, panel) in enumerate(zip(measures, of_block, strict=False)):
            _draw(panel, report["baseline"], block["rows"], measure)
            title = title_of(measure).replace("R-", "ROUGE-")
            panel.set_title(f"{title}, {_data_names(block)}" if len(blocks) > 1 else title, fontsize=9)
            if number % columns:
                panel.set_yticklabels([])
        for panel in of_block[len(measures) :]:
            panel.remove()
    drawn = (panel.get_legend_handles_labels() for panel in panels.flat)
    handles = {label: handle for pairs in drawn for handle, label in zip(*pairs, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    _save(figure, report, blocks, path)


def _save(figure, report: dict[str, Any], blocks: Sequence[dict[str, Any]], path: Path) -> None:
    captions = [
        f"{report['paper']}: {report['title']} (scale {report['scale']})",
        *(data_line(report, b) for b in blocks),
    ]
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    lines = [line for caption in captions for line in textwrap.wrap(caption, width)]
    # the figure has room for long captions, unlike a panel's title
    figure.set_figheight(figure.get_figheight() + 0.17 * len(lines))
    figure.suptitle("\n".join(lines), fontsize=8)
    with moved_into_place(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _relations(report: dict[str, Any], blocks: Sequence[dict[str, Any]], figure_class):
    """For each system and measure, a panel with a point per summary, and below it one with the means of the spans."""
    measures = report["measures"]
    systems = [(f"{row}, {_data_names(block)}", own) for block in blocks for row, own in block["relations"].items()]
    figure = figure_class(figsize=(3.2 * len(measures), 4.4 * len(systems)), layout="constrained")
    panels = figure.subplots(2 * len(systems), len(measures), squeeze=False)
    for number, (name, relation) in enumerate(systems):
        for column, measure in enumerate(measures):
            above, below = panels[2 * number][column], panels[2 * number + 1][column]
            values, scores = ([point[index] for point in relation["points"]] for index in (0, 1 + column))
            above.plot(values, scores, ".", ms=2, color=_OURS, alpha=0.4)
            above.set_title(name, fontsize=8)
            middles = [(span["low"] + span["high"]) / 2 for span in relation["spans"]]
            below.plot(middles, [span["scores"][measure] for span in relation["spans"]], "o-", ms=4, color=_OURS)
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


def _draw_curves(panel, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw each row's loss over the seconds of training, or over updates if a row has no seconds."""
    in_seconds = all("seconds" in row for row in rows)
    for number, row in enumerate(rows):
        updates, losses = zip(*row["curve"], strict=True)
        pace = row["seconds"] / row["updates"] if in_seconds else 1
        # there are ten default colors
        style = "-" if number < 10 else "--"
        panel.plot([update * pace for update in updates], losses, style, lw=1, label=row["row"])
    panel.set_xlabel("seconds of training" if in_seconds else "updates", fontsize=8)
    panel.set_ylabel("negative log-likelihood per token", fontsize=8)
    # beside the curves, whose ends it would cover
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
