"""`hf-summ extract`: extractive summaries."""

import argparse
import warnings
from pathlib import Path

from hf_summ.cli.summarizers import (
    LINES_HELP,
    STANDARD_INPUT,
    ColumnFlags,
    check_output_file,
    name_of,
    read_document,
    write_summaries,
)
from hf_summ.common.flags import add_flags
from hf_summ.common.messages import print_note
from hf_summ.data.rows import ROW_FILES, kind_of_file
from hf_summ.data.sentence_rules import LINES
from hf_summ.extractive import METHODS
from hf_summ.models.text_documents import readable


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "extract",
        description=f"Summarize each file, or each row of {', '.join(ROW_FILES)} files, by some of its sentences. "
        "Each summary is one line, as `hf-summ evaluate` reads them.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="Text files, files of rows, or - for standard input (default: -)"
    )
    add_flags(parser, ColumnFlags)
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="lead",
        help="Sentences to select: the first or last; the most central (lexrank, textrank: extra `extractive`); those "
        "with the highest tf-idf, or the first three and these (consistent); those closest to the rows' references "
        "(oracle) (default: lead)",
    )
    parser.add_argument(
        "--sentences",
        type=int,
        metavar="N",
        help="Maximum number of sentences per summary; with lead and tail, of each of several documents (default: 3)",
    )
    parser.add_argument(
        "--words", type=int, metavar="N", help="Maximum number of words instead; whole sentences (default: no limit)"
    )
    parser.add_argument(
        "--lines",
        choices=LINES,
        default="auto",
        help=LINES_HELP,
    )
    parser.add_argument("--language", default="en", help="ISO 639 code of the documents' language (default: en)")
    parser.add_argument(
        "--splitter",
        choices=("sentencex", "spacy"),
        default="sentencex",
        help="Sentence splitter; spacy is for English and needs the extra `extractive` (default: sentencex)",
    )
    parser.add_argument("--encoding", default="utf-8", help="Encoding of text files (default: utf-8)")
    parser.add_argument("--output", metavar="FILE", help="File for the summaries (default: standard output)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write a summary of each document."""
    check_output_file(arguments)
    if arguments.summary_column is not None and arguments.method != "oracle":
        raise ValueError("--summary_column: needs --method oracle, which alone reads references")
    if arguments.words is not None and arguments.sentences is not None:
        raise ValueError("`sentences` and `words` exclude each other: set only one")
    from hf_summ.evaluation.text_files import read_documents, read_references
    from hf_summ.extractive import extract

    reading = {"lists": arguments.lists, "data_format": arguments.data_format}
    notes: list[str] = []
    documents: list[str | list[str]] = []
    references: list[str] = []
    for file in arguments.files or [STANDARD_INPUT]:
        if kind_of_file(Path(file)) in ROW_FILES or arguments.data_format is not None:
            read = read_documents(file, arguments.text_column, **reading)
            documents += [row[0] if len(row) == 1 else row for row in read.rows]
            notes += read.notes
            if arguments.method == "oracle":
                read = read_references(file, arguments.summary_column, **reading)
                references += read.texts()
                notes += read.notes
        elif arguments.method == "oracle":
            raise ValueError(f"--method oracle: {name_of(file)} has no references: name files of rows")
        elif arguments.text_column is not None:
            raise ValueError(f"--text_column: {name_of(file)} is plain text, which has no columns")
        else:
            documents.append(read_document(file, arguments.encoding))
    options = {name: getattr(arguments, name) for name in ("language", "splitter", "words", "lines")}
    if arguments.method in ("lead", "tail") and (sets := sum(isinstance(document, list) for document in documents)):
        notes.append(f"{sets} of {len(documents)} rows have several documents: --sentences are those of each")
    number = 3 if arguments.sentences is None else arguments.sentences
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        summaries = extract(documents, arguments.method, number, references, **options)
    for note in (*notes, *(warning.message for warning in caught)):
        print_note(note)
    write_summaries("".join(f"{readable(summary)}\n" for summary in summaries), arguments.output)
