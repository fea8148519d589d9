"""`hf-summ summarize`: summarize files, standard input, or rows of corpora."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hf_summ.checkpoints.decoding import extracts
from hf_summ.cli.summarize_rows import RowFlags, has_rows, run_rows
from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    DecodingFlags,
    DocumentFlags,
    ExtractionFlags,
    Int8Flags,
    LengthFlags,
    ModelFlags,
    RuntimeFlags,
    check_flags,
    check_output_file,
    decoding_settings,
    find_model,
    load_summarizer,
    name_of,
    read_document,
    read_phrases,
    write_summaries,
)
from hf_summ.common.flags import add_flags, flag, values_of
from hf_summ.common.messages import no_warnings, one_line, print_note
from hf_summ.common.records import shown, to_json
from hf_summ.models.checks import Range
from hf_summ.models.text_documents import readable

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer


@dataclass
class OutputFlags:
    """What is written."""

    together: bool = flag("decoding", "Write one summary of all files", False, "one per file")
    details: bool = flag(
        "reporting",
        "With --format jsonl, also write which parts of each document were read",
        False,
        "do not",
        needs=("format=jsonl",),
    )
    output: str | None = flag(
        "reporting",
        "Output file; for rows, an output folder, or one .parquet, .jsonl, .jsonl.gz or .csv file",
        unset="standard output",
    )
    format: Literal["text", "jsonl", "parquet"] | None = flag(
        "reporting", "Output format", unset="text; for rows, the format of the output's name, or parquet"
    )
    batch_size: int = flag("reporting", "Number of documents per batch", 8, range=Range(1))


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "summarize",
        description="Summarize each file as one document, or all files together; with `-` or no file, summarize "
        "standard input. In .jsonl, .json, .csv, .tsv, .parquet and .arrow files, and in data sets, summarize each "
        "row.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="Text files, files of rows, or - for standard input (default: -)"
    )
    add_flags(parser, ModelFlags)
    add_flags(parser, DocumentFlags)
    add_flags(parser, LengthFlags)
    add_flags(parser, ExtractionFlags)
    add_flags(parser, OutputFlags)
    add_flags(parser, RowFlags)
    add_flags(parser, Int8Flags)
    add_flags(parser, RuntimeFlags)
    add_flags(parser, DecodingFlags)
    parser.set_defaults(run=run)


@dataclass
class _Summary:
    """A file, or several files that are summarized together, and the summary.

    Args:
        name: the name of the file, or the names of the files.
        source: the text of the file, or the texts of the files that are not blank; empty if there is none.
        text: the summary; empty without a source.
        details: which parts of the source were read, as the pipeline returns them; empty without a source.
    """

    name: str | list[str]
    source: str | list[str]
    text: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def run(arguments: argparse.Namespace) -> None:
    """Summarize the files, or their rows.

    Raises:
        ValueError: wrong flags or files, or the model cannot be loaded.
    """
    check_flags(arguments, OutputFlags, RowFlags)
    if has_rows(arguments):
        run_rows(arguments)
        return
    if arguments.format == "parquet":
        raise ValueError("--format parquet: is for rows, not for text files")
    check_output_file(arguments)
    phrases = read_phrases(arguments.phrase)
    files = arguments.files or [STANDARD_INPUT]
    documents = [read_document(file, arguments.encoding) for file in files]
    find_model(arguments)
    summarizer = load_summarizer(arguments)
    for file, document in zip(files, documents, strict=True):
        if not document.strip():
            effect = "it is omitted" if arguments.together else "its summary is empty"
            print_note(f"{name_of(file)} is blank: {effect}")
    summaries = _without_texts(files, documents, arguments.together)
    written_summaries = [summary for summary in summaries if summary.source]
    _summarize(summarizer, written_summaries, phrases, arguments)
    for note in _notes(written_summaries, summarizer.source_limit, arguments):
        print_note(note)
    write_summaries("".join(_lines(summaries, arguments)), arguments.output)


def _without_texts(files: Sequence[str], documents: Sequence[str], together: bool) -> list[_Summary]:
    """The summaries that are to be made, with their sources and without texts.

    Args:
        files: the names of the files.
        documents: the text of each file.
        together: whether one summary of all files is made, instead of one of each file.
    """
    # A file's name may contain bytes that cannot be decoded.
    names = [readable(file) for file in files]
    if together:
        written_documents = [document for document in documents if document.strip()]
        return [_Summary(names, written_documents)]
    summaries = []
    for name, document in zip(names, documents, strict=True):
        source = document if document.strip() else ""
        summaries.append(_Summary(name, source))
    return summaries


def _summarize(
    summarizer: "DocumentSummarizer",
    summaries: Sequence[_Summary],
    phrases: dict[str, float] | None,
    arguments: argparse.Namespace,
) -> None:
    """Summarize the sources, and set `text` and `details` of each summary in place.

    Args:
        summaries: the summaries to make, each with a source that is not blank.
        phrases: key phrases of every source with their values; None if the user gave none.
    """
    settings = {**decoding_settings(arguments), **values_of(arguments, LengthFlags)}
    # The settings of a checkpoint may request several summaries of a source.
    settings["num_return_sequences"] = 1
    settings["return_details"] = True
    if phrases is not None:
        settings["phrases"] = [phrases] * len(summaries)
    sources = [summary.source for summary in summaries]
    settings["batch_size"] = min(arguments.batch_size, max(len(sources), 1))
    settings["show_progress"] = len(sources) > 1
    with no_warnings(summarizer.read):
        results = summarizer(sources, **settings)
    for summary, result in zip(summaries, results, strict=True):
        summary.text = result["summary_text"]
        summary.details = result["details"]


def _notes(summaries: Sequence[_Summary], limit: int | None, arguments: argparse.Namespace) -> Iterator[str]:
    """Notes on empty and unfinished summaries, and on sources of which the model did not read everything.

    Args:
        summaries: the summaries that `_summarize` has made.
        limit: the number of tokens that the model reads; None if it has no limit.
    """
    empty_summaries, unfinished_summaries = [], []
    extracted_shares, read_shares = [], []
    has_stage = extracts(vars(arguments))
    for summary in summaries:
        if not summary.text.strip():
            empty_summaries.append(summary)
        if summary.details["finish_reason"] == "length":
            unfinished_summaries.append(summary)
        if summary.details["cut_tokens"]:
            read_tokens = summary.details["read_tokens"]
            share = f"{read_tokens / summary.details['source_tokens']:.0%} of {_files_of([summary])}"
            # A model that read as many tokens as it can may have truncated what the stage kept.
            if has_stage and read_tokens != limit:
                extracted_shares.append(share)
            else:
                read_shares.append(share)
    if empty_summaries:
        yield f"the model's summary of {_files_of(empty_summaries)} is empty: set --min_new_tokens for longer ones"
    if unfinished_summaries:
        files = _files_of(unfinished_summaries)
        yield f"the summary of {files} has the most tokens allowed: raise --max_new_tokens if it is cut off"
    if extracted_shares:
        yield f"the extractive stage kept {shown(extracted_shares)}"
    if read_shares:
        hint = ""
        if arguments.long_documents == "truncate" and not has_stage:
            hint = ": set --long_documents to windows to read all, or to extract to read the most important sentences"
        yield f"too long for the model, which read only {shown(read_shares)}{hint}"


def _files_of(summaries: Sequence[_Summary]) -> str:
    """The files of summaries for a message: the names of the first ones, and the number of further ones."""
    files = []
    for summary in summaries:
        if isinstance(summary.name, str):
            files.append(summary.name)
        else:
            files.extend(summary.name)
    return shown([name_of(file) for file in files])


def _lines(summaries: Sequence[_Summary], arguments: argparse.Namespace) -> Iterator[str]:
    """The lines of output, one for each summary."""
    for summary in summaries:
        if arguments.format == "jsonl":
            key = "file" if isinstance(summary.name, str) else "files"
            line = {key: summary.name, "summary": summary.text}
            if arguments.details:
                line.update(summary.details)
            yield to_json(line) + "\n"
        elif len(summaries) > 1:
            yield f"{one_line(summary.name)}: {summary.text}\n"
        else:
            yield f"{summary.text}\n"
