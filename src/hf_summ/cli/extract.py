"""`hf-summ extract`: extractive summaries."""

import argparse
import warnings
from dataclasses import dataclass

from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    ColumnFlags,
    check_output_file,
    name_of,
    read_document,
    write_summaries,
)
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import print_note
from hf_summ.data.rows import ROW_FILES, has_rows
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.text_documents import readable


@dataclass
class TextFlags:
    """How texts are read, and where summaries are written."""

    encoding: str = flag("data", "Encoding of text files", "utf-8")
    output: str | None = flag("reporting", "File for the summaries", unset="standard output", metavar="FILE")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "extract",
        description=f"Summarize each file, or each row of {', '.join(ROW_FILES)} files, by some of its sentences. "
        "Each summary is one line, as `hf-summ evaluate` reads them.",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="Text files, folders of them, files of rows, or - for standard input (default: -)",
    )
    add_flags(parser, ColumnFlags)
    add_flags(parser, ExtractiveSettings)
    add_flags(parser, TextFlags)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write a summary of each document."""
    check_output_file(arguments)
    if arguments.summary_column is not None and arguments.method != "oracle":
        raise ValueError("--summary_column: needs --method oracle, which alone reads references")
    check_flags(arguments, flags_in(ExtractiveSettings))
    settings = ExtractiveSettings(**values_of(arguments, ExtractiveSettings))
    from hf_summ.evaluation.text_files import part_sentences, read_documents, read_references
    from hf_summ.extractive import extract

    reading = {"lists": arguments.lists, "data_format": arguments.data_format}
    notes: list[str] = []
    documents: list[str | list[str]] = []
    references: list[str] = []
    for file in arguments.files or [STANDARD_INPUT]:
        if has_rows(file) or arguments.data_format is not None:
            read, tags = part_sentences(read_documents(file, arguments.text_column, **reading))
            documents += [row[0] if len(row) == 1 else row for row in read.rows]
            notes += (*read.notes, *tags)
            if arguments.method == "oracle":
                gold, tags = part_sentences(read_references(file, arguments.summary_column, **reading))
                if gold.texts() == read.texts():
                    raise ValueError(f"--method oracle: {file} has no references: name them with --summary_column")
                references += gold.texts()
                notes += (*gold.notes, *tags)
        elif arguments.method == "oracle":
            raise ValueError(f"--method oracle: {name_of(file)} has no references: name files of rows")
        elif arguments.text_column is not None:
            raise ValueError(f"--text_column: {name_of(file)} is plain text, which has no columns")
        else:
            documents.append(read_document(file, arguments.encoding))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        summaries = extract(documents, settings, references)
    for note in (*notes, *(warning.message for warning in caught)):
        print_note(note)
    write_summaries("".join(f"{readable(summary)}\n" for summary in summaries), arguments.output)
