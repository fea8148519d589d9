"""`hf-summ extract`: extractive summaries."""

import argparse
import os
import re
import warnings
from dataclasses import dataclass, field
from typing import Literal

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
        unless=("words", "share"),
        metavar="N",
    )
    words: int | None = flag(
        "decoding", "Maximum number of words instead; whole sentences", unset="no limit", unless=("share",), metavar="N"
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
        "Document frequencies that `hf-summ idf` wrote, for --share and --words",
        unset="each document's own",
        needs=_CONSISTENT,
        metavar="FILE",
    )
    next_sentence_model: str | None = flag(
        "decoding",
        "BERT with a next-sentence head, which restores sentences between incoherent ones, for --share and --words: a "
        "folder or a Hub repository",
        unset="no sentences are restored",
        needs=_CONSISTENT,
        metavar="MODEL",
    )
    language: str = flag("data", "ISO 639 code of the documents' language", "en")
    splitter: Literal["sentencex", "spacy"] = flag(
        "data", "Sentence splitter; spacy is for English and needs the extra `extractive`", "sentencex"
    )
    output: str | None = flag("reporting", "File for the summaries", unset="standard output", metavar="FILE")


@dataclass
class _Texts:
    """The documents of all files, their names in messages, their references for the oracle, and notes on files."""

    documents: list[str | list[str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
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
    stage = {name: getattr(arguments, name) for name in ("share", "idf", "next_sentence_model")}
    stage = {name: value for name, value in stage.items() if value is not None}
    if stage and arguments.share is arguments.words is None:
        raise ValueError(f"--{next(iter(stage))}: needs --share or --words, what to keep of a document")
    texts = _read(arguments)
    from hf_summ.extractive import consistent_extract, extract

    documents, notes = texts.documents, texts.notes
    sets = sum(isinstance(document, list) for document in documents)
    if sets and arguments.method in ("lead", "tail"):
        notes.append(f"{sets} of {len(documents)} rows have several documents: --sentences are those of each")
    number = 3 if arguments.sentences is None else arguments.sentences
    options = {"language": arguments.language, "splitter": arguments.splitter}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if stage:
            joined = [text if isinstance(text, str) else DOCUMENT_SEPARATOR.join(text) for text in documents]
            summaries = consistent_extract(joined, tokens=arguments.words, **stage, **options)
        else:
            try:
                summaries = extract(
                    documents, arguments.method, number, texts.references, words=arguments.words, **options
                )
            except ValueError as error:
                names = texts.names
                raise ValueError(re.sub(r"^row (\d+)", lambda match: names[int(match[1])], str(error))) from error
    for note in (*notes, *(warning.message for warning in caught)):
        print_note(note)
    write_summaries("".join(f"{readable(summary)}\n" for summary in summaries), arguments.output)


def _read(arguments: argparse.Namespace) -> _Texts:
    """Read all files."""
    from hf_summ.data.files import is_row_file
    from hf_summ.evaluation.text_files import RowReading, part_sentences, read_documents, read_references

    reading = RowReading(**values_of(arguments, ColumnFlags))
    texts = _Texts()
    needs_references = arguments.method == "oracle"
    for file in arguments.files or [STANDARD_INPUT]:
        if not is_row_file(file) and not os.path.isdir(file):
            if needs_references:
                raise ValueError(f"--method oracle: {name_of(file)} has no references: name files of rows")
            if arguments.text_column is not None:
                raise ValueError(f"--text_column: {name_of(file)} is plain text, which has no columns")
            texts.documents.append(read_document(file, arguments.encoding or "utf-8"))
            texts.names.append(name_of(file))
            continue
        documents, tag_notes = part_sentences(read_documents(file, reading, taken=arguments.summary_column))
        texts.documents.extend(row[0] if len(row) == 1 else row for row in documents.rows)
        texts.names.extend(documents.labels())
        texts.notes.extend((*documents.notes, *tag_notes))
        if needs_references:
            if documents.column is None:
                raise ValueError(f"--method oracle: {file} has no references: name files of rows")
            references, tag_notes = part_sentences(read_references(file, reading, taken=documents.column))
            texts.references.extend(references.texts())
            texts.notes.extend((*references.notes, *tag_notes))
    return texts
