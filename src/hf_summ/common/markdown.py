"""Tables in Markdown."""

from collections.abc import Sequence


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table with aligned columns, which is readable in a terminal too.

    Args:
        columns: titles, at least one.
        rows: one cell per column each; `|` is escaped.
        left: number of leading columns that are aligned left, as suits words; the others are aligned right, as suits
            figures.
    """
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (columns, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if place < left else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return "\n".join(aligned(line) for line in (lines[0], rule, *lines[1:]))
