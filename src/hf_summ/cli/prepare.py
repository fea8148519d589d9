"""`hf-summ prepare`: convert a public corpus to rows for the training recipe."""

import argparse
from pathlib import Path

from hf_summ.data.distributions import PUBLIC_CORPORA, prepare


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "prepare",
        description="Convert the distributed files of a corpus to train.jsonl, validation.jsonl and test.jsonl, and "
        "compare the numbers of rows with the published ones. Nothing is downloaded.",
    )
    names = list(PUBLIC_CORPORA)
    parser.add_argument("corpus", choices=names, help=f"One of {', '.join(names)}", metavar="CORPUS")
    parser.add_argument("folder", metavar="FOLDER", help="Folder of the unpacked files")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="Folder for the rows")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write the rows of each split, and print the number of rows as soon as a split is written.

    Raises:
        ValueError: the output folder is the folder of the corpus, or a file of the corpus is missing or cannot be read.
    """
    folder = Path(arguments.folder)
    output = Path(arguments.output)
    if output.resolve() == folder.resolve():
        raise ValueError(f"--output {output}: would replace files of the corpus: name another folder")
    for line in prepare(arguments.corpus, folder, output):
        print(line, flush=True)
