"""`hf-summ compare`: documents, references and several systems' summaries side by side."""

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hf_summ.cli.summarizers import ColumnFlags, check_names, check_output_file
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import distinct, print_note
from hf_summ.models.checks import Range

if TYPE_CHECKING:
    from hf_summ.evaluation.text_files import TextFile


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
        "data",
        "Rows to show, counted from 1",
        unset="as many as --samples, drawn at random",
        nargs="+",
        type=int,
        metavar="N",
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
    """Read the files, and write or print the page; a ValueError reports wrong flags or files."""
    from hf_summ.common.files import write_atomically
    from hf_summ.inspection.side_by_side import as_html, as_markdown

    check_flags(arguments, flags_in(ExampleFlags))
    file_names = [Path(file).name for file in arguments.files]
    names = check_names(arguments.names, file_names, ("Document", "Reference"))
    check_output_file(arguments, ".md", ".html")
    if arguments.shade == "document" and arguments.sources is None:
        raise ValueError("--shade document: needs --sources")
    files = _read(arguments, names)
    # The rows of all files are in the order of the first system's rows.
    first_system = files[names[0]]
    rows = _choose_rows(arguments, len(first_system.rows))
    examples = {}
    for row in rows:
        examples[_title(first_system, row)] = _texts_of_row(files, row)
    # The title, as in `examples`, of the text that shares the shaded words with a summary.
    shade = None
    if arguments.shade != "none":
        shade = arguments.shade.capitalize()
    if arguments.output is None:
        print(as_markdown(examples, shade, arguments.language), end="")
        return
    output = Path(arguments.output)
    if output.suffix == ".html":
        page = as_html(examples, shade, arguments.language)
    else:
        page = as_markdown(examples, shade, arguments.language)
    write_atomically(output, page)


def _read(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, "TextFile"]:
    """Read all files with line ends in place of tags between sentences, and print each note on them once.

    Args:
        names: the names of the systems.

    Returns:
        Title of a column -> its texts. The titles are "Document" if the user gave documents, "Reference", and the names
        of the systems, in this order. All texts have the same rows.
    """
    from hf_summ.evaluation.text_files import RowReading, read_systems, tags_to_line_ends

    reading = RowReading(**values_of(arguments, ColumnFlags))
    systems, references, sources = read_systems(arguments.files, arguments.references, arguments.sources, reading)
    files = {}
    if sources is not None:
        files["Document"] = sources
    files["Reference"] = references
    files.update(zip(names, systems, strict=True))
    notes: list[str] = []
    split_files = {}
    for title, file in files.items():
        split_files[title], tag_notes = tags_to_line_ends(file)
        notes.extend(file.notes)
        notes.extend(tag_notes)
    for note in distinct(notes):
        print_note(note)
    return split_files


def _choose_rows(arguments: argparse.Namespace, row_count: int) -> list[int]:
    """The rows to show, counted from 1: the rows of --rows or, without this flag, rows that are drawn at random.

    Args:
        row_count: the number of rows in the files.

    Raises:
        ValueError: the files do not have a row of --rows.
    """
    if not arguments.rows:
        samples = min(arguments.samples, row_count)
        return sorted(random.Random(arguments.seed).sample(range(1, row_count + 1), samples))
    for row in arguments.rows:
        if not 1 <= row <= row_count:
            raise ValueError(f"--rows {row}: must be from 1 to {row_count}, the number of rows")
    return arguments.rows


def _title(file: "TextFile", row: int) -> str:
    """The title of a row, counted from 1, with its id in the file if it has one."""
    if file.ids is None:
        return f"Row {row}"
    return f"Row {row}: {file.ids[row - 1]}"


def _texts_of_row(files: Mapping[str, "TextFile"], row: int) -> dict[str, str]:
    """The texts of a row, by the titles of their columns.

    Args:
        files: title of a column -> its texts, as `_read` returns them.
        row: the number of the row, counted from 1.

    Returns:
        Title of a column -> its text in the row. If the row has several texts there, such as references, the text has
        one of them in each line.
    """
    texts = {}
    for title, file in files.items():
        texts[title] = "\n".join(file.rows[row - 1])
    return texts
