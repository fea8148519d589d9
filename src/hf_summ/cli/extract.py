"""`hf-summ extract`: extractive summaries."""

import argparse
import warnings
from dataclasses import dataclass
from typing import Literal

from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    ColumnFlags,
    check_output_file,
    name_of,
    read_document,
    write_summaries,
)
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in
from hf_summ.common.messages import print_note
from hf_summ.data.rows import ROW_FILES, has_rows
from hf_summ.extractive import METHODS
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable

_CONSISTENT = ("method=consistent",)


@dataclass
class ExtractFlags:
    """Which sentences are selected, and how texts are read."""

    method: str | None = flag(
        "decoding",
        "Sentences to select: the first or last; the most central (lexrank, textrank: extra `extractive`); those with "
        "the highest tf-idf, or the first three and these (consistent); those closest to the rows' references (oracle)",
        unset="consistent with --share, otherwise lead",
        choices=METHODS,
    )
    sentences: int | None = flag(
        "decoding",
        "Maximum number of sentences per summary; with lead and tail, of each of several documents",
        unset="3",
        unless=("share",),
        metavar="N",
    )
    share: float | None = flag(
        "decoding",
        "Share of each document's sentences instead, with consistent",
        unset="a number of sentences",
        needs=_CONSISTENT,
        metavar="S",
    )
    idf: str | None = flag(
        "decoding",
        "Document frequencies that `hf-summ idf` wrote, for --share",
        unset="each document's own",
        needs=("share",),
        metavar="FILE",
    )
    next_sentence_model: str | None = flag(
        "decoding",
        "BERT with a next-sentence head, which restores sentences between incoherent ones, for --share: a folder or a "
        "Hub repository",
        unset="no sentences are restored",
        needs=("share",),
        metavar="MODEL",
    )
    language: str = flag("data", "ISO 639 code of the documents' language", "en")
    splitter: Literal["sentencex", "spacy"] = flag(
        "data", "Sentence splitter; spacy is for English and needs the extra `extractive`", "sentencex"
    )
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
    add_flags(parser, ExtractFlags)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write a summary of each document."""
    check_output_file(arguments)
    if arguments.summary_column is not None and arguments.method != "oracle":
        raise ValueError("--summary_column: needs --method oracle, which alone reads references")
    if arguments.method is None:
        arguments.method = "lead" if arguments.share is None else "consistent"
    check_flags(arguments, flags_in(ExtractFlags))
    from hf_summ.evaluation.text_files import part_sentences, read_documents, read_references
    from hf_summ.extractive import consistent_extract, extract

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
    options = {"language": arguments.language, "splitter": arguments.splitter}
    number = 3 if arguments.sentences is None else arguments.sentences
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if arguments.share is None:
            summaries = extract(documents, arguments.method, number, references, **options)
        else:
            texts = [text if isinstance(text, str) else DOCUMENT_SEPARATOR.join(text) for text in documents]
            stage = {name: getattr(arguments, name) for name in ("share", "idf", "next_sentence_model")}
            summaries = consistent_extract(texts, **stage, **options)
    for note in (*notes, *(warning.message for warning in caught)):
        print_note(note)
    write_summaries("".join(f"{readable(summary)}\n" for summary in summaries), arguments.output)
