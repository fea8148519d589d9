"""Tables in Markdown and LaTeX, and HTML pages in a single file with style and script, without network or libraries."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

# Characters that LaTeX reads as commands, in texts or at the start of a row, and those that OT1 fonts lack.
_LATEX_ESCAPES = {
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "*": "{*}",
    "[": "{[}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_LATEX = str.maketrans(_LATEX_ESCAPES)
# A pipe with the backslashes before it, which would escape its escape and are doubled.
_PIPE = re.compile(r"(\\*)\|")


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table with aligned columns, which is also readable in a terminal.

    Args:
        columns: titles, at least one.
        rows: one cell per column in each; `|` is escaped, and line ends become spaces.
        left: number of leading columns that are aligned left, for words; the others are aligned right, for figures.
    """
    lines = [_markdown_cells(columns)]
    for row in rows:
        lines.append(_markdown_cells(row))
    widths = []
    for cells in zip(*lines, strict=True):
        widest = max(len(cell) for cell in cells)
        widths.append(max(3, widest))
    rule = []
    for column, width in enumerate(widths):
        if column < left:
            rule.append("-" * width)
        else:
            # A colon aligns the column right.
            rule.append("-" * (width - 1) + ":")
    lines.insert(1, rule)
    table_lines = []
    for cells in lines:
        table_lines.append(_markdown_line(cells, widths, left))
    return "\n".join(table_lines)


def _markdown_cells(texts: Sequence[str]) -> list[str]:
    """Texts as cells of a table, on one line and with `|` escaped."""
    cells = []
    for text in texts:
        line = " ".join(text.split())
        cells.append(_PIPE.sub(r"\1\1\|", line))
    return cells


def _markdown_line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    """A line of a table: its first `left` cells are aligned left, the others right."""
    padded_cells = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if column < left:
            padded_cells.append(cell.ljust(width))
        else:
            padded_cells.append(cell.rjust(width))
    return f"| {' | '.join(padded_cells)} |"


def latex_table(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table with a named row for each system, in LaTeX with the package booktabs.

    Args:
        columns: titles of the figures.
        rows: name of a system -> its figures, from `latex_figure`.
    """
    titles = [latex_text(title) for title in columns]
    alignment = "l" + "r" * len(columns)
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", _latex_row("", titles), r"\midrule"]
    for name, figures in rows.items():
        lines.append(_latex_row(latex_text(name), figures))
    lines.append(r"\bottomrule")
    lines.append(r"\end{tabular}")
    return "\n".join(lines)


def _latex_row(name: str, cells: Sequence[str]) -> str:
    row = " & ".join([name, *cells])
    return rf"{row} \\"


def latex_figure(value: float | None, interval: Sequence[float] | None = None, is_marked: bool = False) -> str:
    r"""A figure, ± half the width of its interval, with a dagger if it is marked; `--` for none."""
    if value is None or math.isnan(value):
        return "--"
    figure = f"{value:.2f}"
    if interval is not None:
        low, high = interval
        figure += rf" \pm {(high - low) / 2:.2f}"
    if is_marked:
        figure += r"^{\dagger}"
    return f"${figure}$"


def latex_text(text: str) -> str:
    """A text with LaTeX's special characters escaped."""
    return text.translate(_LATEX)


def render_page(package: str, **values: object) -> str:
    """The page of a package's `page.html`, a Jinja template in which all texts are escaped.

    The template can also use `style`, which is `pages.css` of this package followed by `page.css` of the other, and
    `script`, which is `page.js`. A browser recognizes them by their hashes, `style_hash` and `script_hash`.

    Args:
        package: name such as `hf_summ.inspection`, whose folder has the three files.
        values: further variables of the template.
    """
    # Tables do not need Jinja, whose import takes time.
    from jinja2 import Environment

    assets = files(package)
    html = (assets / "page.html").read_text("utf-8")
    style = shared_style() + (assets / "page.css").read_text("utf-8")
    script = (assets / "page.js").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(html)
    return template.render(style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), **values)


def shared_style() -> str:
    """The style of all pages, with light and dark colors."""
    return (files("hf_summ.common") / "pages.css").read_text("utf-8")


def _hash(text: str) -> str:
    """A hash in the form in which a page names its styles and scripts to a browser."""
    # A Content Security Policy prescribes SHA-256 in Base64.
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
