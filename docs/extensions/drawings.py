"""Drawings of architectures from text: boxes in rows, as SVG inside the page, in the page's light or dark colors."""

import textwrap
from collections.abc import Sequence
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# units of the drawing, which shrinks with the page
WIDTH, GAP, LINE, PADDING, BETWEEN, CHARACTERS = 196, 44, 18, 8, 22, 25


class Drawing(SphinxDirective):
    """`{drawing} title`: each line is a row of cells, a box each.

    `|` separates the cells, and `->` adds an arrow from the left one to the right one. A box has an arrow to the next
    one of its column. `*` marks what the paper adds, and `.` is a cell without a box.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", draw(self.arguments[0], self.content), format="html")]


def draw(title: str, rows: Sequence[str]) -> str:
    """The HTML of these rows: an SVG with its caption."""
    parts: list[str] = []
    # column -> the lower end of its last box
    ends: dict[int, int] = {}
    top = columns = 0
    for row in rows:
        cells = [cell.strip() for cell in row.replace("->", "|>").split("|")]
        lines = [textwrap.wrap(cell.lstrip(">* "), CHARACTERS) for cell in cells]
        height = max(map(len, lines)) * LINE + 2 * PADDING
        for column, (cell, words) in enumerate(zip(cells, lines, strict=True)):
            if cell == ".":
                continue
            left = column * (WIDTH + GAP)
            if column in ends:
                parts.append(_arrow(left + WIDTH // 2, ends[column], left + WIDTH // 2, top))
            if cell.startswith(">"):
                parts.append(_arrow(left - GAP, top + height // 2, left, top + height // 2))
            parts.append(_box(left, top, height, words, is_new="*" in cell[:3]))
            ends[column] = top + height
        top += height + BETWEEN
        columns = max(columns, len(cells))
    size = f"{columns * (WIDTH + GAP) - GAP + 2} {top - BETWEEN + 2}"
    caption = f"{escape(title)}. Framed in color: what the paper adds."
    svg = f'<svg viewBox="-1 -1 {size}" role="img"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    return f'<figure class="drawing">{svg}<figcaption>{caption}</figcaption></figure>'


def _box(left: int, top: int, height: int, lines: Sequence[str], is_new: bool) -> str:
    middle = left + WIDTH // 2
    first = top + (height - len(lines) * LINE) // 2 + LINE - 5
    text = "".join(f'<tspan x="{middle}" y="{first + i * LINE}">{escape(line)}</tspan>' for i, line in enumerate(lines))
    kind = ' class="new"' if is_new else ""
    return f'<g{kind}><rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" rx="5"/><text>{text}</text></g>'


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    """From (x1, y1) to (x2, y2), down or to the right."""
    head = "l-4 -7h8z" if x1 == x2 else "l-7 -4v8z"
    return f'<path d="M{x1} {y1}L{x2} {y2}M{x2} {y2}{head}"/>'


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
