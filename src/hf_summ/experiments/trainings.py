"""How fast a table's systems are, and whether their losses still fell when their trainings ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hf_summ.common.pages import markdown_table

_HEAD = (
    "Tokens trained a second (source and target, without padding; a CPU second where the device is a CPU), documents "
    "summarized a second of wall time, the training's mean negative log-likelihood of a token in the last tenth of its "
    "updates, and by how much it fell from the tenth before:"
)


def markdown_of_trainings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the runs of a report's rows recorded, as lines of Markdown; none if they recorded nothing."""
    cells = [_cells(row) for row in rows if row.get("curve")]
    table = markdown_table(["row", "tokens/s", "documents/s", "nll", "fall"], cells)
    return ["", _HEAD, "", table] if cells else []


def _cells(row: Mapping[str, Any]) -> list[str]:
    # a tenth of the entries, which are at equal distances
    losses, tenth = [loss for _, loss in row["curve"]], max(1, len(row["curve"]) // 10)
    last, before = np.mean(losses[-tenth:]), losses[-2 * tenth : -tenth]
    fall = f"{np.mean(before) - last:+.3f}" if before else "–"
    tokens = f"{row['tokens'] / row['seconds']:,.0f}" if {"tokens", "seconds"} <= row.keys() else "–"
    return [row["row"], tokens, f"{row['documents_per_second']:.1f}", f"{last:.3f}", fall]


def draw_curves(panel, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the loss of each row over the seconds of its training, or over updates if not all have them."""
    in_seconds = all("seconds" in row for row in rows)
    for place, row in enumerate(rows):
        updates, losses = zip(*row["curve"], strict=True)
        pace = row["seconds"] / row["updates"] if in_seconds else 1
        # the default colors are ten
        style = "-" if place < 10 else "--"
        panel.plot([update * pace for update in updates], losses, style, lw=1, label=row["row"])
    panel.set_xlabel("seconds of training" if in_seconds else "updates", fontsize=8)
    panel.set_ylabel("negative log-likelihood of a token", fontsize=8)
    panel.legend(fontsize=8, frameon=False)
