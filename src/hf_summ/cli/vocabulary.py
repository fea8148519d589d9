"""`hf-summ vocabulary`: a subword vocabulary fitted on a corpus, and the processor made of it."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Corpus, Reading
from hf_summ.models.text_tagging import TAGS


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser(
        "vocabulary",
        help="fit a subword vocabulary on your corpus and write a processor folder",
        description="Fits a byte-level BPE on the documents and summaries of the files and writes a processor folder, "
        "which `--tokenizer_name` of the training recipe takes. Of a folder in a --data_format the training part is "
        "read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="corpus files: json, jsonl, csv or X.source, also .gz")
    parser.add_argument("--output", required=True, help="folder to write the processor to")
    parser.add_argument("--vocab_size", type=int, default=30000, help="subwords (default: %(default)s)")
    parser.add_argument(
        "--min_frequency", type=int, default=2, help="how often a merged pair must occur (default: %(default)s)"
    )
    parser.add_argument(
        "--lowercase", action="store_true", help="read text in lower case; tags see it as it is (default: as it is)"
    )
    parser.add_argument("--tags", choices=TAGS, default="pos", help="tags of words (default: %(default)s)")
    parser.add_argument(
        "--tagger", default="en_core_web_sm", help="spaCy pipeline that tags words (default: %(default)s)"
    )
    parser.add_argument(
        "--max_source_length", type=int, default=500, help="subwords of a document (default: %(default)s)"
    )
    parser.add_argument(
        "--max_target_length", type=int, default=150, help="subwords of a summary (default: %(default)s)"
    )
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit the vocabulary and write the processor.

    Raises:
        ValueError: a number is too small, the output is a file, or see `Corpus.load` and `fit_vocabulary`.
        ImportError: the tagger is not installed.
    """
    from hf_summ.data.vocabulary import fit_processor

    _check(arguments)
    processor = fit_processor(
        _texts(arguments),
        arguments.vocab_size,
        lowercase=arguments.lowercase,
        min_frequency=arguments.min_frequency,
        tags=arguments.tags,
        tagger=arguments.tagger,
        max_source_length=arguments.max_source_length,
        max_target_length=arguments.max_target_length,
    )
    processor.save_pretrained(arguments.output)
    print(
        f"{arguments.output}: {len(processor.tokenizer)} subwords, tags of words: {len(processor.word_tags) or 'none'}"
    )


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("min_frequency", 1), ("max_source_length", 2), ("max_target_length", 2)):
        value = getattr(arguments, name)
        if value < least:
            raise ValueError(f"--{name} is {value}, but at least {least} is needed")
    if Path(arguments.output).is_file():
        raise ValueError(f"--output {arguments.output} is a file: name a folder")


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    # all of them are looked at before the first text is given
    for rows in [corpus.load()["train"] for corpus in corpora]:
        for row in rows:
            yield row["document"]
            yield row["summary"]
