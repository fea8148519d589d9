"""`hf-summ extract`: extractive summaries."""

import argparse
import os
import warnings
from dataclasses import dataclass, field, replace

from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    ColumnFlags,
    check_output_file,
    name_of,
    read_document,
    write_summaries,
)
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import distinct, print_note
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.text_documents import readable


@dataclass
class TextFlags:
    """How texts are read, and where summaries are written."""

    output: str | None = flag("reporting", "File for the summaries", unset="standard output", metavar="FILE")


@dataclass
class _Texts:
    """The documents of all files.

    Args:
        documents: a text, or several, for each summary.
        references: one for each document with the method "oracle"; empty with the others.
        notes: what was chosen or found in the files, such as columns and tags.
    """

    documents: list[str | list[str]] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "extract",
        description="Summarize each file, or each row of .jsonl, .json, .csv, .tsv, .parquet and .arrow files, by some "
        "of its sentences. Each summary is one line, as `hf-summ evaluate` reads them.",
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
    """Write a summary of each document.

    Raises:
        ValueError: wrong flags, or a file cannot be read.
    """
    check_output_file(arguments)
    if arguments.summary_column is not None and arguments.method != "oracle":
        raise ValueError("--summary_column: needs --method oracle, which alone reads references")
    check_flags(arguments, flags_in(ExtractiveSettings))
    settings = ExtractiveSettings(**values_of(arguments, ExtractiveSettings))
    texts = _read(arguments)
    from hf_summ.extractive import extract

    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", UserWarning)
        summaries = extract(texts.documents, settings, texts.references)
    for note in distinct(texts.notes):
        print_note(note)
    for warning in caught_warnings:
        print_note(warning.message)
    lines = [readable(summary) + "\n" for summary in summaries]
    write_summaries("".join(lines), arguments.output)


def _read(arguments: argparse.Namespace) -> _Texts:
    """Read all files, or standard input.

    Raises:
        ValueError: a file cannot be read, or lacks references or columns that the flags need.
    """
    # This module is imported late, as it takes time. The library that reads rows takes more, and only `_add_rows`
    # imports it: a plain text is one document and has no rows.
    from hf_summ.data.files import is_row_file

    texts = _Texts()
    for file in arguments.files or [STANDARD_INPUT]:
        if is_row_file(file) or os.path.isdir(file):
            _add_rows(texts, file, arguments)
            continue
        if arguments.method == "oracle":
            raise ValueError(f"--method oracle: {name_of(file)} has no references: name files of rows")
        if arguments.text_column is not None:
            raise ValueError(f"--text_column: {name_of(file)} is plain text, which has no columns")
        texts.documents.append(read_document(file, arguments.encoding or "utf-8"))
    return texts


def _add_rows(texts: _Texts, file: str, arguments: argparse.Namespace) -> None:
    """Add the documents in a file of rows or a folder, with the notes on them and, for --method oracle, the references.

    Args:
        texts: the texts so far, which are extended in place.
        file: the file or the folder.

    Raises:
        ValueError: the file cannot be read, or the oracle finds no references in it.
    """
    from hf_summ.evaluation.text_files import RowReading, read_documents, read_references, tags_to_line_ends

    reading = RowReading(**values_of(arguments, ColumnFlags))
    documents, tag_notes = tags_to_line_ends(read_documents(file, reading, excluded_column=arguments.summary_column))
    for row in documents.rows:
        if len(row) == 1:
            texts.documents.append(row[0])
        else:
            texts.documents.append(row)
    texts.notes.extend(documents.notes)
    texts.notes.extend(tag_notes)
    if arguments.method != "oracle":
        return
    if documents.column is None:
        raise ValueError(f"--method oracle: {file} has no references: name files of rows")
    # The column of documents is known, so that `abstract` beside it may have the references, as in training.
    reading = replace(reading, text_column=documents.column)
    references, tag_notes = tags_to_line_ends(read_references(file, reading, excluded_column=documents.column))
    texts.references.extend(references.texts())
    texts.notes.extend(references.notes)
    texts.notes.extend(tag_notes)
