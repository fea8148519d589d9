"""`hf-summ compare`: documents, references and several systems' summaries side by side."""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hf_summ.cli.summarizers import ColumnFlags, check_names, check_output_file
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import print_note
from hf_summ.models.checks import Range


@dataclass
class ExampleFlags:
    """What is shown of which rows."""

    names: list[str] | None = flag(
        "data", "Names of the systems, in the files' order", unset="the files' names", nargs="+", metavar="NAME"
    )
    references: str | None = flag(
        "data", "Reference summaries", unset="a column of the first file's rows", metavar="FILE"
    )
    sources: str | None = flag("data", "Source documents", unset="none", metavar="FILE")
    rows: list[int] | None = flag(
        "data", "Rows to show, counted from 1", unset="--samples at random", nargs="+", type=int, metavar="N"
    )
    samples: int = flag("data", "Number of rows to show", 5, range=Range(1), unless=("rows",), metavar="N")
    seed: int = flag("data", "Random seed of the rows", 0, unless=("rows",), range=Range(0))
    shade: Literal["reference", "document", "none"] = flag(
        "reporting", "Text that shares the shaded words with a summary", "reference"
    )
    language: str = flag("reporting", "ISO 639 code of the texts' language", "en")
    output: str | None = flag("reporting", "File to write", unset="print Markdown", metavar="PAGE.md|PAGE.html")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "compare",
        description="Show rows with their documents, references and the summaries of several systems, as Markdown or "
        "as a page of HTML. Words that a summary shares with the reference are shaded, in Markdown bold. Files are as "
        "for `hf-summ evaluate`.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="Predictions, a file for each system")
    add_flags(parser, ExampleFlags)
    add_flags(parser, ColumnFlags)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write the page."""
    from hf_summ.common.files import write_atomically
    from hf_summ.evaluation.text_files import RowReading, read_systems
    from hf_summ.inspection.side_by_side import as_html, as_markdown

    check_flags(arguments, flags_in(ExampleFlags))
    names = check_names(arguments.names, [Path(file).name for file in arguments.files], ("Document", "Reference"))
    output = None if arguments.output is None else Path(arguments.output)
    check_output_file(arguments, ".md", ".html")
    if arguments.shade == "document" and arguments.sources is None:
        raise ValueError("--shade document: needs --sources")
    reading = RowReading(**values_of(arguments, ColumnFlags))
    systems, references, sources = read_systems(arguments.files, arguments.references, arguments.sources, reading)
    columns = {"Document": sources, "Reference": references, **dict(zip(names, systems, strict=True))}
    for note in dict.fromkeys(note for column in columns.values() if column is not None for note in column.notes):
        print_note(note)
    first = systems[0]
    number = len(first.rows)
    if outside := [row for row in arguments.rows or () if not 1 <= row <= number]:
        raise ValueError(f"--rows {outside[0]}: must be from 1 to {number}, the number of rows")
    rows = arguments.rows or sorted(
        random.Random(arguments.seed).sample(range(1, number + 1), min(arguments.samples, number))
    )
    examples = {
        f"Row {row}" if first.ids is None else f"Row {row}: {first.ids[row - 1]}": {
            name: "\n".join(column.rows[row - 1]) for name, column in columns.items() if column is not None
        }
        for row in rows
    }
    shade = None if arguments.shade == "none" else arguments.shade.capitalize()
    page = (as_html if output and output.suffix == ".html" else as_markdown)(examples, shade, arguments.language)
    if output is None:
        print(page, end="")
    else:
        write_atomically(output, page)
