"""The ratios in the table of docs/speed.md as bars: run `python docs/extensions/speed_bars.py` to write speed.svg."""

import math
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1]
# units of the picture; a row has a line of text
WIDTH, LABELS, LINE, MARGIN = 860, 430, 22, 26
# the ends of the logarithmic axis, and where it is marked
LEAST, MOST, MARKS = 0.5, 128, (0.5, 1, 2, 4, 8, 16, 32, 64, 128)
# the text and the lines have enough contrast on white and on black
GRAY, FASTER, SLOWER = "#7c7c7c", "#2f81c7", "#c4622d"


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Args:
        ratios: how many times as fast each kind of the work is.
    """

    work: str
    ratios: tuple[float, ...]


def rows_of(page: str) -> list[Row]:
    """The rows of the page's table with their ratios, without those of memory in parentheses."""
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").replace("`", "").split("|")]
        if line.startswith("|") and len(cells) == 5:
            ratios = re.findall(r"[\d.]+", cells[2].partition("(")[0])
            if ratios:
                rows.append(Row(f"{cells[0]} vs. {cells[1]}", tuple(map(float, ratios))))
    return rows


def draw(rows: list[Row]) -> str:
    """The picture: a bar for each ratio, which begins at 1 on a logarithmic axis."""
    height = len(rows) * LINE + 2 * MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">']
    parts.append("<title>How many times as fast as what it is compared with</title>")
    for mark in MARKS:
        parts.append(_line(_x(mark), MARGIN, height - MARGIN, is_one=mark == 1))
        parts.append(_text(_x(mark), height - 8, f"{mark:g}", "middle"))
    for number, row in enumerate(rows):
        top = MARGIN + number * LINE
        thickness = (LINE - 8) // len(row.ratios)
        for index, ratio in enumerate(row.ratios):
            parts.append(_bar(ratio, top + 4 + index * thickness, thickness))
        parts.append(_text(LABELS - 8, top + 16, row.work, "end"))
    parts.append("</svg>\n")
    return "\n".join(parts)


def _x(ratio: float) -> float:
    share = math.log(ratio / LEAST) / math.log(MOST / LEAST)
    return round(LABELS + share * (WIDTH - LABELS - MARGIN), 1)


def _bar(ratio: float, top: int, thickness: int) -> str:
    left, right = sorted((_x(1), _x(ratio)))
    color = FASTER if ratio >= 1 else SLOWER
    return f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{thickness - 1}" fill="{color}"/>'


def _line(x: float, top: int, bottom: int, is_one: bool) -> str:
    width = 1.5 if is_one else 0.4
    return f'<path d="M{x} {top}V{bottom}" stroke="{GRAY}" stroke-width="{width}"/>'


def _text(x: float, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" text-anchor="{anchor}" fill="{GRAY}">{escape(text)}</text>'


if __name__ == "__main__":
    page = (DOCS / "speed.md").read_text(encoding="utf-8")
    (DOCS / "images" / "speed.svg").write_text(draw(rows_of(page)), encoding="utf-8")
