"""`hf-summ vocabulary`: fit a vocabulary to a corpus and write a processor with it."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Corpus, Reading
from hf_summ.data.units import UNITS
from hf_summ.models.text_documents import WASHINGS
from hf_summ.models.text_tagging import TAGS

# flags that a pruned BERT does not have
_OF_PROCESSORS = (
    *("units", "vocab_size", "lowercase", "restore_case", "digits_as_hash", "washing", "tags", "tagger"),
    *("max_source_length", "max_target_length"),
)


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "vocabulary",
        description="Fit subwords, words or characters to the documents and summaries of the files and write a "
        "processor folder for `--tokenizer_name` of `hf-summ train`, or prune the vocabulary of a BERT to them. From a "
        "folder in a --data_format, the training split is read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="Corpus files: json, jsonl, csv or X.source, also .gz")
    parser.add_argument("--output", required=True, help="Folder for the processor, or for BERT")
    parser.add_argument(
        "--prune_bert",
        help="Instead of a processor, write this BERT and its tokenizer with only the subwords that occur at least "
        "--min_frequency times, and the characters of all others, for `bert_name` and `--tokenizer_name`; a folder or "
        "a Hub name (default: fit a new vocabulary)",
    )
    parser.add_argument(
        "--units",
        choices=UNITS,
        default="subwords",
        help="Kind of tokens: subwords of a byte-level BPE, whole words, Chinese characters with whole words of other "
        "scripts, or single characters (default: %(default)s)",
    )
    parser.add_argument("--vocab_size", type=int, default=30000, help="Maximum number of tokens (default: %(default)s)")
    parser.add_argument(
        "--min_frequency",
        type=int,
        default=2,
        help="Minimum frequency of a pair to be merged, or of a word, a character or BERT's subword to be in the "
        "vocabulary (default: %(default)s)",
    )
    parser.add_argument(
        "--lowercase", action="store_true", help="Lowercase texts, except for the tagger (default: keep case)"
    )
    parser.add_argument(
        "--restore_case",
        action="store_true",
        help="Spell and join the words of summaries as their documents do; needs --lowercase or --washing "
        "(default: leave summaries in lower case)",
    )
    parser.add_argument(
        "--digits_as_hash", action="store_true", help="Read each digit as #, as in Gigaword (default: keep digits)"
    )
    parser.add_argument(
        "--washing",
        choices=tuple(WASHINGS),
        help="Delete white space, digits and punctuation from all texts, as DRGD's program does for LCSTS; the folder "
        "is then for DRGD, whose processor does the same (default: read texts as they are)",
    )
    parser.add_argument("--tags", choices=TAGS, help="Kind of word tags (default: pos, or none with --washing)")
    parser.add_argument(
        "--tagger",
        default="en_core_web_sm",
        help="spaCy pipeline that tags words, installed or a folder (default: %(default)s)",
    )
    parser.add_argument(
        "--max_source_length",
        type=int,
        default=500,
        help="Number of tokens to which documents are truncated (default: %(default)s)",
    )
    parser.add_argument(
        "--max_target_length",
        type=int,
        default=150,
        help="Number of tokens to which summaries are truncated (default: %(default)s)",
    )
    add_flags(parser, Reading)
    parser.set_defaults(run=run, default=parser.get_default)


def run(arguments: argparse.Namespace) -> None:
    """Fit the vocabulary and write the processor.

    Raises:
        ValueError: a number is too small, --washing is combined with tags, --restore_case lacks --lowercase,
            --prune_bert is combined with what makes a vocabulary, the output is a file, or as `load`, `fit_vocabulary`
            and `prune_bert`.
        ImportError: the tagger is not installed.
    """
    _check(arguments)
    if arguments.prune_bert is not None:
        from hf_summ.data.pruning import prune_bert

        size, of_bert = prune_bert(
            _texts(arguments), arguments.prune_bert, arguments.output, min_frequency=arguments.min_frequency
        )
        print(f"{arguments.output}: {size} of BERT's {of_bert} subwords")
        return
    from hf_summ.data.vocabulary import fit_processor

    processor = fit_processor(
        _texts(arguments),
        arguments.vocab_size,
        lowercase=arguments.lowercase,
        min_frequency=arguments.min_frequency,
        tags=arguments.tags or "pos",
        # an absolute path: a relative one could name a folder of the checkpoint itself
        tagger=os.path.abspath(arguments.tagger) if os.path.isdir(arguments.tagger) else arguments.tagger,
        units=arguments.units,
        digits_as_hash=arguments.digits_as_hash,
        washing=arguments.washing,
        restore_case=arguments.restore_case,
        max_source_length=arguments.max_source_length,
        max_target_length=arguments.max_target_length,
    )
    processor.save_pretrained(arguments.output)
    tags = len(getattr(processor, "word_tags", ())) or "none"
    print(f"{arguments.output}: {len(processor.tokenizer)} {arguments.units}, word tags: {tags}")


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("min_frequency", 1), ("max_source_length", 2), ("max_target_length", 2)):
        value = getattr(arguments, name)
        if value < least:
            raise ValueError(f"--{name} {value}: must be at least {least}")
    if arguments.washing is not None and arguments.tags not in (None, "none"):
        raise ValueError(
            f"--washing {arguments.washing} and --tags {arguments.tags} exclude each other: DRGD, which reads washed "
            "texts, has no tags"
        )
    if arguments.restore_case and not arguments.lowercase and arguments.washing is None:
        raise ValueError("--restore_case: needs --lowercase or --washing")
    for name in _OF_PROCESSORS if arguments.prune_bert is not None else ():
        if getattr(arguments, name) != arguments.default(name):
            raise ValueError(f"--prune_bert and --{name} exclude each other: BERT's tokenizer stays as it is")
    if Path(arguments.output).is_file():
        raise ValueError(f"--output {arguments.output}: must be a folder, but is a file")


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    from hf_summ.data.loading import load

    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    # checks all files before the first text is used
    for rows in [load(corpus)["train"] for corpus in corpora]:
        for row in rows:
            yield row["document"]
            yield row["summary"]
