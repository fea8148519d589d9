"""`hf-summ vocabulary`: a subword vocabulary fitted on a corpus, and the processor made of it."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from hf_summ.models.text_tagging import TAGS

# the flags that say how a corpus is read
_READING = ("text_column", "summary_column", "data_format", "min_score", "density_bin")


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser(
        "vocabulary",
        help="fit a subword vocabulary on your corpus and write a processor folder",
        description="Fits a byte-level BPE on the documents and summaries of the files, and writes a processor folder, "
        "which is what `--tokenizer_name` of the training recipe takes.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="corpus files: json, jsonl, csv, X.source; also .gz; see --data_format"
    )
    parser.add_argument("--output", required=True, help="folder to write the processor to")
    parser.add_argument("--vocab_size", type=int, default=30000, help="subwords (30000)")
    parser.add_argument("--min_frequency", type=int, default=2, help="how often a merged pair must occur (2)")
    parser.add_argument("--lowercase", action="store_true", help="read text in lower case (tags see it as it is)")
    parser.add_argument("--tags", choices=TAGS, default="pos", help="tags of words (pos)")
    parser.add_argument("--tagger", default="en_core_web_sm", help="spaCy pipeline that tags (en_core_web_sm)")
    parser.add_argument("--max_source_length", type=int, default=500, help="subwords of a document (500)")
    parser.add_argument("--max_target_length", type=int, default=150, help="subwords of a summary (150)")
    parser.add_argument("--text_column", help="column of the documents; guessed when it has a usual name")
    parser.add_argument("--summary_column", help="column of the summaries; guessed when it has a usual name")
    parser.add_argument(
        "--data_format",
        help="how the data set was distributed: gigaword, lcsts, multi_news, duc, newsroom or cnn_dm; a FILE may then "
        "be its folder, whose training part is read",
    )
    parser.add_argument("--min_score", type=int, help="lcsts: leave out pairs that were scored lower (3)")
    parser.add_argument("--density_bin", help="newsroom: abstractive, mixed or extractive rows only")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit the vocabulary and write the processor.

    Raises:
        ValueError: a number is too small, the output is a file, or see `load_corpus` and `fit_vocabulary`.
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
    from hf_summ.data import load_corpus

    reading = {name: getattr(arguments, name) for name in _READING}
    # all of them are checked before the first is read
    corpora = [load_corpus(train_file=file, **reading)["train"] for file in arguments.files]
    for corpus in corpora:
        for row in corpus:
            yield row["document"]
            yield row["summary"]
