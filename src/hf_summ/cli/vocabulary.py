"""`hf-summ vocabulary`: fit a vocabulary to a corpus and write a processor with it."""

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hf_summ.cli.summarizers import CORPUS_FILES
from hf_summ.common.files import check_new_folder, moved_into_place
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import print_note
from hf_summ.data.columns import PREFIX_COLUMN, WORD_TAGS
from hf_summ.data.corpora import Reading
from hf_summ.data.units import UNITS
from hf_summ.models.checks import Range
from hf_summ.models.text_processing_gdlf import TAGS
from hf_summ.models.text_processing_recurrent import WASHINGS
from hf_summ.models.text_word_tags import pairs_of_texts


@dataclass
class VocabularyFlags:
    """The arguments of `fit_processor`, the BERT to prune instead, and a column that is read beside the texts."""

    prune_bert: str | None = flag(
        "data",
        "Instead of a processor, write this BERT and its tokenizer with only the subwords that occur at least "
        "--min_frequency times, and the characters of all others, for `bert_name` and `--tokenizer_name`; a folder or "
        "a Hub name",
        unset="fit a new vocabulary",
    )
    prefix_column: str | None = flag(
        "data",
        "Column of the text that training puts before each document; the text is counted with the document",
        unset="documents alone",
    )
    units: str = flag(
        "data",
        "Kind of tokens: subwords of a byte-level BPE, whole words, Chinese characters with whole words of other "
        "scripts, or single characters",
        "subwords",
        choices=UNITS,
    )
    vocab_size: int = flag("data", "Maximum number of tokens", 30000)
    min_frequency: int = flag(
        "data",
        "Minimum frequency of a pair to be merged, or of a word, a character or BERT's subword to be in the vocabulary",
        2,
        range=Range(1),
    )
    lowercase: bool = flag("data", "Lowercase texts, except for the tagger", False, "keep case")
    restore_case: bool = flag(
        "data",
        "Spell and join the words of summaries as their documents do; needs --lowercase or --washing",
        False,
        "leave summaries in lower case",
        needs=("lowercase", "washing"),
    )
    digits_as_hash: bool = flag("data", "Read each digit as #, as in Gigaword", False, "keep digits")
    washing: str | None = flag(
        "data",
        "Delete white space, digits and punctuation from all texts, as DRGD's program does for LCSTS; the folder is "
        "then for DRGD, whose processor does the same",
        unset="read texts as they are",
        choices=tuple(WASHINGS),
    )
    tags: str | None = flag(
        "data", "Kind of word tags", unset="pos, or none with --washing", unless=("washing",), choices=TAGS
    )
    tagger: str | None = flag(
        "data",
        "spaCy pipeline that tags words, installed or a folder",
        unset="the tags in the column word_tags, or en_core_web_sm",
    )
    max_source_length: int = flag("data", "Number of tokens to which documents are truncated", 500, range=Range(2))
    max_target_length: int = flag("data", "Number of tokens to which summaries are truncated", 150, range=Range(2))


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "vocabulary",
        description="Fit subwords, words or characters to the documents and summaries of the files and write a "
        "processor folder for `--tokenizer_name` of `hf-summ train`, or prune the vocabulary of a BERT to the words of "
        "the files. Of a folder whose format --data_format names, only the training split is read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help=CORPUS_FILES)
    parser.add_argument("--output", required=True, help="New or empty folder for the processor, or for BERT")
    add_flags(parser, VocabularyFlags)
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit the vocabulary and write the processor, or prune a BERT.

    Raises:
        ValueError: wrong flags, a file cannot be read, or the output folder is not empty.
    """
    flags = flags_in(VocabularyFlags)
    settings = values_of(arguments, VocabularyFlags)
    check_flags(arguments, flags)
    check_new_folder(arguments.output)
    bert = settings.pop("prune_bert")
    # The column is read with the rows.
    settings.pop("prefix_column")
    if bert is None:
        _fit_processor(arguments, settings)
        return
    for name, value in settings.items():
        # The other flags describe a new vocabulary. BERT's tokenizer keeps its kind of tokens and its normalization.
        if name != "min_frequency" and value != flags[name].default:
            raise ValueError(
                f"--{name}: has no effect beside --prune_bert {bert}, which only removes subwords: omit it"
            )
    from hf_summ.data.vocabulary import prune_bert

    size, size_of_bert = prune_bert(_texts(arguments), bert, arguments.output, min_frequency=arguments.min_frequency)
    print(f"{arguments.output}: {size} of BERT's {size_of_bert} subwords")


def _fit_processor(arguments: argparse.Namespace, flag_values: Mapping[str, Any]) -> None:
    """Fit a vocabulary to the files, write a processor with it, and print its size and kind of tags.

    Args:
        flag_values: the flags that are arguments of `fit_processor`, with their values.
    """
    from hf_summ.data.vocabulary import fit_processor

    settings = dict(flag_values)
    settings["tags"] = arguments.tags or "pos"
    needs_tagger = settings["tags"] != "none" and arguments.washing is None
    if arguments.tagger is None and needs_tagger:
        given_tags = _given_tags(arguments)
        if given_tags:
            settings["tag_vocabulary"] = sorted(given_tags)
            print_note(f"no --tagger: word tags are those in the column {WORD_TAGS}")
        else:
            settings["tagger"] = "en_core_web_sm"
    elif arguments.tagger is not None and os.path.isdir(arguments.tagger):
        # A relative path could also name a folder inside a checkpoint that is saved with the processor.
        settings["tagger"] = os.path.abspath(arguments.tagger)
    processor = fit_processor(_texts(arguments), **settings)
    with moved_into_place(arguments.output) as draft:
        processor.save_pretrained(draft)
    # The processor of DRGD has no word tags.
    number_of_tags = len(getattr(processor, "word_tags", ()))
    print(f"{arguments.output}: {len(processor.tokenizer)} {arguments.units}, word tags: {number_of_tags or 'none'}")


def _given_tags(arguments: argparse.Namespace) -> set[str]:
    """The tags in the column of word tags; none if there is no such column."""
    tags: set[str] = set()
    for row in _rows(arguments):
        for pairs in pairs_of_texts(row.get(WORD_TAGS) or []):
            tags.update([tag for _, tag in pairs])
    return tags


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    """The documents of the files, after the prefixes of their rows, and the summaries."""
    for row in _rows(arguments):
        prefix = row.get(PREFIX_COLUMN) or ""
        yield f"{prefix}{row['document']}"
        yield row["summary"]


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of the files, which are read anew by each call."""
    from hf_summ.data.loading import training_rows

    return training_rows(arguments.files, vars(arguments))
