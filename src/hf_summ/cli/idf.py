"""`hf-summ idf`: document frequencies of a corpus's words, for the extractive stage."""

import argparse

from hf_summ.cli.summarizers import CORPUS_FILES, check_output_file
from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Reading


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "idf",
        description="Count the documents in which each word occurs. The consistent extractive stage ranks sentences by "
        "these frequencies: pass the file to `hf-summ train` as --extract_idf. Of a folder whose format --data_format "
        "names, only the training split is read.",
    )
    parser.add_argument("files", nargs="+", metavar="CORPUS", help=CORPUS_FILES)
    parser.add_argument("--output", required=True, metavar="FILE.json", help="File for the frequencies")
    parser.add_argument("--language", default="en", help="ISO 639 code of the documents (default: %(default)s)")
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Count the documents and write the file."""
    from hf_summ.data.languages import language_code
    from hf_summ.data.loading import training_rows
    from hf_summ.extractive.frequencies import DocumentFrequencies

    check_output_file(arguments)
    # An unknown language is reported before the corpus is read.
    language_code(arguments.language)
    rows = training_rows(arguments.files, vars(arguments), with_summaries=False)
    documents = (row["document"] for row in rows)
    table = DocumentFrequencies.fit(documents, arguments.language)
    table.save(arguments.output)
    print(f"{arguments.output}: {len(table.frequencies)} words that occur in at least 2 of {table.documents} documents")
