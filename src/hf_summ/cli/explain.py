"""`hf-summ explain`: a page that shows the source of each word of a summary."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hf_summ.cli.summarizers import (
    STANDARD_INPUT,
    DecodingFlags,
    DocumentFlags,
    ModelFlags,
    check_flags,
    check_is_text,
    check_output_file,
    decoding_settings,
    find_model,
    load_summarizer,
    read_document,
    read_phrases,
)
from hf_summ.common.flags import add_flags
from hf_summ.common.messages import print_note
from hf_summ.common.records import to_json

if TYPE_CHECKING:
    from hf_summ.runtimes.pipeline import SummarizationPipeline


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "explain",
        description="Summarize the files together with a model that copies. Write a page that shows the source words "
        "that the model attended to, and those that it copied. The page is a single file and needs no network.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="Text files, or - for standard input (default: -)")
    add_flags(parser, ModelFlags)
    parser.add_argument("--output", required=True, metavar="PAGE.html", help="File for the page")
    parser.add_argument(
        "--json", action="store_true", help="Write all numbers to PAGE.json as well, beside the page (default: do not)"
    )
    parser.add_argument("--summary", metavar="FILE", help="A summary to explain (default: the model's own)")
    add_flags(parser, DocumentFlags)
    add_flags(parser, DecodingFlags)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Summarize the files, or read the summary, and write the page.

    Raises:
        ValueError: wrong flags or files, or the model cannot be loaded or explained.
        OSError: a file cannot be read or written.
    """
    check_flags(arguments)
    check_output_file(arguments, ".html", beside=".json" if arguments.json else "")
    page = Path(arguments.output)
    files = arguments.files or [STANDARD_INPUT]
    for file in files:
        check_is_text(file, "name files of text")
    documents = [read_document(file, arguments.encoding) for file in files]
    summary = None
    if arguments.summary is not None:
        summary = read_document(arguments.summary, arguments.encoding)
    phrases = read_phrases(arguments.phrase)
    find_model(arguments)
    # The command has no --runtime, so PyTorch runs the model.
    summarizer = cast("SummarizationPipeline", load_summarizer(arguments))

    from hf_summ.common.files import write_atomically
    from hf_summ.inspection import as_page, explain

    # Several documents together are one example. A single document is given as a text, as processors expect.
    source: str | Sequence[str] = documents
    if len(documents) == 1:
        source = documents[0]
    try:
        # Without --summary, the page explains the summary that `hf-summ summarize` writes, so the search has the same
        # settings.
        settings = summarizer.generation_settings(**decoding_settings(arguments))
        explanation = explain(
            summarizer.model, summarizer.processor, source, summary, phrases, arguments.source_prefix, **settings
        )
    except ValueError as error:
        raise ValueError(f"{arguments.model}: {error}") from error
    write_atomically(page, as_page(explanation))
    if arguments.json:
        text = to_json(dataclasses.asdict(explanation), indent=1)
        write_atomically(page.with_suffix(".json"), f"{text}\n")
    unread_words = [word for word in explanation.source_words if not word.is_read]
    if unread_words:
        print_note(f"the model did not read the last {len(unread_words)} words, which exceed its maximum length")
    # The page keeps the model's tokens, which its numbers are about.
    (restored_summary,) = summarizer.processor.restore([explanation.summary], [documents])
    print(restored_summary.strip())
