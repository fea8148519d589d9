"""Tables in Markdown and LaTeX, and HTML pages in a single file with style and script, without network or libraries."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

# characters with a meaning of their own in LaTeX, in texts or at the start of a row, and those that OT1 fonts lack
_LATEX = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {character: f"{{{character}}}" for character in "*["}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)
# with the backslashes before it, which would escape its escape
_PIPE = re.compile(r"(\\*)\|")


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table with aligned columns, which is also readable in a terminal.

    Args:
        columns: titles, at least one.
        rows: one cell per column in each; `|` is escaped, and line ends are spaces.
        left: number of leading columns that are aligned left, for words; the others are aligned right, for figures.
    """
    lines = [[_PIPE.sub(r"\1\1\|", " ".join(cell.split())) for cell in line] for line in (columns, *rows)]
    widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join(aligned(line) for line in (lines[0], rule, *lines[1:]))


def latex_table(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table with a named row for each system, in LaTeX with the package booktabs.

    Args:
        columns: titles of the figures.
        rows: name of a system -> its figures, from `latex_figure`.
    """
    lines = {latex_text(name): figures for name, figures in {"": [*map(latex_text, columns)], **rows}.items()}
    head, *body = (rf"{' & '.join((name, *figures))} \\" for name, figures in lines.items())
    start = rf"\begin{{tabular}}{{l{'r' * len(columns)}}}"
    return "\n".join((start, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"))


def latex_figure(value: float | None, interval: Sequence[float] | None = None, is_marked: bool = False) -> str:
    r"""A figure, ± half the width of its interval, with a dagger if it is marked; `--` for none."""
    if value is None or math.isnan(value):
        return "--"
    width = "" if interval is None else rf" \pm {(interval[1] - interval[0]) / 2:.2f}"
    mark = r"^{\dagger}" if is_marked else ""
    return f"${value:.2f}{width}{mark}$"


def latex_text(text: str) -> str:
    """A text with LaTeX's special characters escaped."""
    return text.translate(_LATEX)


def render_page(package: str, **values: Any) -> str:
    """The page of a package's `page.html`, a Jinja template in which all texts are escaped.

    The template can also use `style` (`pages.css` of this package and `page.css` of the other), `script` (`page.js`),
    and their hashes `style_hash` and `script_hash`, by which a browser recognizes them.

    Args:
        package: name such as `hf_summ.inspection`, whose folder has the three files.
        values: further variables of the template.
    """
    # imported here, as tables do not need it
    from jinja2 import Environment

    assets = files(package)
    html, own_style, script = ((assets / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    style = shared_style() + own_style
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(html)
    return template.render(style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), **values)


def shared_style() -> str:
    """The style of all pages, with light and dark colors."""
    return (files("hf_summ.common") / "pages.css").read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
