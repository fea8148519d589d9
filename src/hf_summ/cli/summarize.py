"""`hf-summ summarize`: summarize files, standard input, or rows of corpora."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
        "Output file; of rows, output folder, or one .parquet, .jsonl, .jsonl.gz or .csv file",
        unset="standard output",
    )
    format: Literal["text", "jsonl", "parquet"] | None = flag(
        "reporting", "Output format", unset="text; of rows, parquet or as the output is named"
    )
    batch_size: int = flag("reporting", "Number of documents per batch", 8, range=Range(1))


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "summarize",
        description="Summarize each file as one document, or all files together; with `-` or no file, summarize "
        "standard input. Of .jsonl, .json, .csv, .tsv, .parquet and .arrow files, and data sets, summarize each row.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="Text files, files of rows, or - for standard input (default: -)"
    )
    groups = (
        DocumentFlags,
        LengthFlags,
        ExtractionFlags,
        OutputFlags,
        RowFlags,
        Int8Flags,
        RuntimeFlags,
        DecodingFlags,
    )
    add_flags(parser, ModelFlags)
    for declared in groups:
        add_flags(parser, declared)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Summarize the files, or their rows."""
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
    # a checkpoint may set several return sequences
    settings = {**decoding_settings(arguments), **values_of(arguments, LengthFlags), "num_return_sequences": 1}
    settings["return_details"] = True
    written = [index for index, document in enumerate(documents) if document.strip()]
    for index in sorted(set(range(len(documents))) - set(written)):
        effect = "it is omitted" if arguments.together else "its summary is empty"
        print_note(f"{name_of(files[index])} is blank: {effect}")
    texts = [documents[index] for index in written]
    # a file name may contain undecodable bytes
    names: Sequence[str | list[str]] = list(map(readable, files))
    if arguments.together:
        names, written, texts = [list(map(readable, files))], [0] if texts else [], [texts] if texts else []
    summaries: list[dict[str, Any]] = [{"summary_text": ""}] * len(names)
    if phrases is not None:
        settings["phrases"] = [phrases] * len(texts)
    with no_warnings(summarizer):
        results = summarizer(
            texts, batch_size=min(arguments.batch_size, max(len(texts), 1)), show_progress=len(texts) > 1, **settings
        )
    for index, result in zip(written, results, strict=True):
        summaries[index] = result
    for note in _notes([(names[index], summaries[index]) for index in written], arguments):
        print_note(note)
    write_summaries("".join(_lines(names, summaries, arguments)), arguments.output)


def _notes(records: list[tuple[str | list[str], dict[str, Any]]], arguments: argparse.Namespace) -> Iterator[str]:
    """Notes on empty and unfinished summaries, and on shortened documents."""
    empty = [name for name, record in records if not record["summary_text"].strip()]
    if empty:
        yield f"the model's summary of {_shown(empty)} is empty: set --min_new_tokens for longer ones"
    read = [(name, record["details"]) for name, record in records]
    unfinished = [name for name, details in read if details["finish_reason"] == "length"]
    if unfinished:
        most = f"the summary of {_shown(unfinished)} has the most tokens allowed"
        yield f"{most}: raise --max_new_tokens if it is cut off"
    cut = [(name, details) for name, details in read if details["cut_tokens"]]
    if cut:
        shares = (
            f"{details['read_tokens'] / details['source_tokens']:.0%} of {_shown([name])}" for name, details in cut
        )
        if extracts(vars(arguments)):
            yield f"the extractive stage kept {shown([*shares])}"
        else:
            hint = ": set --long_documents to windows to read all, or to extract to read the most important sentences"
            hint = hint if arguments.long_documents == "truncate" else ""
            yield f"too long for the model, which read only {shown([*shares])}{hint}"


def _shown(names: Iterable[str | list[str]]) -> str:
    return shown([name_of(file) for name in names for file in ([name] if isinstance(name, str) else name)])


def _lines(
    names: Sequence[str | list[str]], summaries: Sequence[dict[str, Any]], arguments: argparse.Namespace
) -> Iterator[str]:
    """The lines of output; an entry of `names` is a file, or the files that were summarized together."""
    for name, record in zip(names, summaries, strict=True):
        summary = record["summary_text"]
        if arguments.format == "jsonl":
            source = {"file": name} if isinstance(name, str) else {"files": name}
            line = {**source, "summary": summary, **(record.get("details", {}) if arguments.details else {})}
            yield to_json(line) + "\n"
        else:
            heading = f"{one_line(name)}: " if len(names) > 1 else ""
            yield f"{heading}{summary}\n"
