"""`hf-summ extract`: extractive summaries."""

import argparse
import sys
import warnings
from pathlib import Path

from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    ColumnFlags,
    check_output_file,
    name_of,
    read_document,
    write_summaries,
)
from hf_summ.common.flags import add_flags
from hf_summ.data.rows import STREAMED_FILES, kind_of_file
from hf_summ.extractive import METHODS
from hf_summ.models.text_documents import readable


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "extract",
        description="Summarize each file, or each row of .json, .jsonl, .csv (also .gz) and .parquet files, by "
        "some of its sentences. Each summary is one line, as `hf-summ evaluate` reads them.",
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
        "--sentences", type=int, default=3, metavar="N", help="Maximum number of sentences per summary (default: 3)"
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
    from hf_summ.evaluation.text_files import read_references, read_sources
    from hf_summ.extractive import extract

    documents: list[str] = []
    references: list[str] = []
    for file in arguments.files or [STANDARD_INPUT]:
        if kind_of_file(Path(file)) in STREAMED_FILES:
            documents += read_sources(file, arguments.text_column).texts()
            if arguments.method == "oracle":
                references += read_references(file, arguments.summary_column).texts()
        elif arguments.method == "oracle":
            raise ValueError(f"--method oracle: {name_of(file)} has no references: name files of rows")
        elif arguments.text_column is not None:
            raise ValueError(f"--text_column: {name_of(file)} is plain text, which has no columns")
        else:
            documents.append(read_document(file, arguments.encoding))
    options = {"language": arguments.language, "splitter": arguments.splitter}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        summaries = extract(documents, arguments.method, arguments.sentences, references, **options)
    for warning in caught:
        print(f"hf-summ: {warning.message}", file=sys.stderr)
    write_summaries("".join(f"{readable(summary)}\n" for summary in summaries), arguments.output)
