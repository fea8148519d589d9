"""`hf-summ idf`: document frequencies of a corpus's words, for the extractive stage."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Corpus, Reading


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "idf",
        description="Count the documents in which each word occurs. The consistent extractive stage ranks sentences by "
        "these frequencies: pass the file to `hf-summ train` as --extract_idf. From a folder in a --data_format, the "
        "training split is read.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="CORPUS", help="Corpus files: json, jsonl, csv or X.source, also .gz"
    )
    parser.add_argument("--output", required=True, metavar="FILE.json", help="File for the frequencies")
    parser.add_argument("--language", default="en", help="ISO 639 code of the documents (default: %(default)s)")
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Count the documents and write the file.

    Raises:
        ValueError: the output is not a .json file or would replace a corpus file, or as `load`.
    """
    from hf_summ.data.sentences import language_code
    from hf_summ.extractive.frequencies import DocumentFrequencies

    output = Path(arguments.output)
    if output.suffix != ".json" or output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"--output {output}: must be a .json file in an existing folder")
    if output.resolve() in [Path(file).resolve() for file in arguments.files]:
        raise ValueError(f"--output {output}: would replace the corpus; give the frequencies another name")
    language_code(arguments.language)
    table = DocumentFrequencies.fit(_documents(arguments), arguments.language)
    table.save(output)
    print(f"{output}: {len(table.frequencies)} words that occur in at least 2 of {table.documents} documents")


def _documents(arguments: argparse.Namespace) -> Iterator[str]:
    from hf_summ.data.loading import load

    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    # checks all files before the first text is used
    for rows in [load(corpus)["train"] for corpus in corpora]:
        for row in rows:
            yield row["document"]
