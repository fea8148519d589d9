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
    shown = [row for row in rows if row.get("curve")]
    if not shown:
        return []
    cells = [[row["row"], *_speeds(row), *_tenths(row["curve"])] for row in shown]
    return ["", _HEAD, "", markdown_table(["row", "tokens/s", "documents/s", "nll", "fall"], cells)]


def _speeds(row: Mapping[str, Any]) -> list[str]:
    tokens = f"{row['tokens'] / row['seconds']:,.0f}" if {"tokens", "seconds"} <= row.keys() else "–"
    return [tokens, f"{row['documents_per_second']:.1f}"]


def _tenths(curve: Sequence[Sequence[float]]) -> list[str]:
    """The mean loss of the last tenth of the entries, at least of one, and its difference from the tenth before."""
    losses, tenth = [loss for _, loss in curve], max(1, len(curve) // 10)
    last, before = np.mean(losses[-tenth:]), losses[-2 * tenth : -tenth]
    return [f"{last:.3f}", f"{np.mean(before) - last:+.3f}" if before else "–"]


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
    panel.tick_params(labelsize=8)
    panel.legend(fontsize=8, frameon=False)
