"""The speed of a table's systems, and whether their losses were still falling at the end of training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hf_summ.common.pages import markdown_table

_HEAD = (
    "Tokens trained per second (source and target, without padding; CPU seconds where the device is a CPU), documents "
    "summarized per second of wall time, the mean negative log-likelihood per training token in the last tenth of the "
    "updates, and its fall from the tenth before:"
)


def markdown_of_trainings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The recorded speeds and losses of a report's rows, as lines of Markdown; none if nothing was recorded."""
    cells = [_cells(row) for row in rows if row.get("curve")]
    table = markdown_table(["row", "tokens/s", "documents/s", "nll", "fall"], cells)
    return ["", _HEAD, "", table] if cells else []


def _cells(row: Mapping[str, Any]) -> list[str]:
    # a tenth of the entries, which are evenly spaced
    losses, tenth = [loss for _, loss in row["curve"]], max(1, len(row["curve"]) // 10)
    last, before = np.mean(losses[-tenth:]), losses[-2 * tenth : -tenth]
    fall = f"{np.mean(before) - last:+.3f}" if before else "–"
    tokens = f"{row['tokens'] / row['seconds']:,.0f}" if {"tokens", "seconds"} <= row.keys() else "–"
    return [row["row"], tokens, f"{row['documents_per_second']:.1f}", f"{last:.3f}", fall]


def draw_curves(panel, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw each row's loss over the seconds of training, or over updates if a row has no seconds."""
    in_seconds = all("seconds" in row for row in rows)
    for place, row in enumerate(rows):
        updates, losses = zip(*row["curve"], strict=True)
        pace = row["seconds"] / row["updates"] if in_seconds else 1
        # there are ten default colors
        style = "-" if place < 10 else "--"
        panel.plot([update * pace for update in updates], losses, style, lw=1, label=row["row"])
    panel.set_xlabel("seconds of training" if in_seconds else "updates", fontsize=8)
    panel.set_ylabel("negative log-likelihood per token", fontsize=8)
    panel.legend(fontsize=8, frameon=False)
