"""The table of the cases' outcomes, in the terminal and in the documentation."""

import platform
import re
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers

from hf_summ import __version__
from hf_summ.common.files import write_atomically
from hf_summ.common.pages import markdown_table
from tests.torture.areas import AREAS
from tests.torture.judge import Verdict

_BEGIN, _END = "<!-- made by make torture -->\n", "<!-- until here -->"


def table(counts: Mapping[tuple[str, Verdict], int]) -> str:
    """A row of numbers of verdicts for each area, and a row of sums."""
    areas = [area for area in AREAS if any(area == counted for counted, _ in counts)]
    rows = [[area, *(counts.get((area, verdict), 0) for verdict in Verdict)] for area in areas]
    rows.append(["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    return markdown_table(
        ["area", *Verdict, "cases"],
        [[area, *(f"{number:,}" for number in numbers), f"{sum(numbers):,}"] for area, *numbers in rows],
    )


def write(page: Path, counts: Mapping[tuple[str, Verdict], int], seed: int, minutes: float) -> None:
    """Put the table and its settings between the page's marks.

    Raises:
        ValueError: the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    number = sum(counts.values())
    made = (
        f"`make torture`, seed {seed}, {number:,} cases in {minutes:.0f} minutes of one core: hf_summ {__version__}, "
        f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}, Python "
        f"{platform.python_version()}."
    )
    found = re.sub(
        f"{re.escape(_BEGIN)}.*{re.escape(_END)}",
        lambda _: f"{_BEGIN}{made}\n\n{table(counts)}\n{_END}",
        text,
        flags=re.DOTALL,
    )
    if _BEGIN not in text or _END not in text:
        raise ValueError(f"{page} has no marks between which to write: put {_BEGIN.strip()} and {_END} there")
    write_atomically(page, found)
