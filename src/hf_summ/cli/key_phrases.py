"""`hf-summ key-phrases`: a processor with the document frequencies that select key phrases."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Corpus, Reading


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "key-phrases",
        description="Count the examples in which each phrase of two or three words occurs, and write a processor for "
        "the Highlight-Transformer. It selects key phrases by these frequencies and has the vocabulary of --processor. "
        "From a folder in a --data_format, the training split is read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="Corpus files: json, jsonl, csv or X.source, also .gz")
    parser.add_argument(
        "--processor", required=True, help="Processor or tokenizer with the vocabulary: a folder or a Hub repository"
    )
    parser.add_argument("--output", required=True, help="Folder for the processor, possibly the same as --processor")
    parser.add_argument(
        "--max_source_length",
        type=int,
        help="Number of tokens to which documents are truncated, as in training (default: the processor's)",
    )
    parser.add_argument(
        "--max_frequencies",
        type=int,
        default=200_000,
        help="Maximum number of phrases to keep, the most frequent (default: %(default)s)",
    )
    parser.add_argument(
        "--num_phrases", type=int, default=10, help="Number of phrases to find in an example (default: %(default)s)"
    )
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit the frequencies and write the processor.

    Raises:
        ValueError: a number is too small, the output is a file, the processor cannot be read, or as `load`.
    """
    from hf_summ.data.phrases import fit_phrases, load_tokenizer

    for name, least in (("max_source_length", 2), ("max_frequencies", 1), ("num_phrases", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise ValueError(f"--{name} {value}: must be at least {least}")
    if Path(arguments.output).is_file():
        raise ValueError(f"--output {arguments.output}: must be a folder, but is a file")
    try:
        vocabulary = load_tokenizer(arguments.processor)
    except ValueError as error:
        raise ValueError(f"--processor {error}") from error
    processor = fit_phrases(
        _examples(arguments),
        vocabulary,
        arguments.max_frequencies,
        num_phrases=arguments.num_phrases,
        max_source_length=arguments.max_source_length,
    )
    processor.save_pretrained(arguments.output)
    print(
        f"{arguments.output}: {len(processor.document_frequencies)} phrases that occur in at least 2 of "
        f"{processor.fitted_examples} examples"
    )


def _examples(arguments: argparse.Namespace) -> Iterator[str | list[str]]:
    from hf_summ.data.columns import source_column
    from hf_summ.data.loading import load

    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    # checks all files before the first text is used
    for rows in [load(corpus)["train"] for corpus in corpora]:
        for row in rows:
            yield row[source_column(row)]
