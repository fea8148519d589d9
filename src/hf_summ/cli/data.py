"""`hf-summ data`: what the files of a corpus contain."""

import argparse
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hf_summ.common.flags import add_flags, check_flags, flag, flags_in
from hf_summ.common.records import to_json
from hf_summ.data.corpora import Corpus, Reading
from hf_summ.models.checks import Range
from hf_summ.pretrained import DEFAULT_MODEL, model_folder

if TYPE_CHECKING:
    from hf_summ.data.corpus_report import Counter, Limits

# The value of --model with which no subwords are counted.
_NO_MODEL = "none"
# The largest limit in the report. The limit of a tokenizer without a limit is a number of 30 digits in transformers.
_LARGEST_LIMIT = 1_000_000


@dataclass
class DataFlags:
    """What is measured, and how it is written."""

    model: str = flag(
        "data",
        "Model whose subwords are counted, and whose limits are compared: a checkpoint or processor folder, or the "
        f"name of a bundled model or of a Hub repository; {_NO_MODEL} counts no subwords",
        DEFAULT_MODEL,
    )
    sample: int = flag(
        "data", "Number of rows, drawn at random, whose lengths are counted", 10_000, range=Range(1), metavar="N"
    )
    format: Literal["markdown", "json"] = flag("reporting", "Format of the printed report", "markdown")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "data",
        description="Print what the files of a corpus contain: columns, rows, blank rows, repeated documents, "
        "documents in two files, lengths beside the model's limits, examples. Name the files of all splits at once.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="Files of rows, as for `hf-summ train`")
    add_flags(parser, DataFlags)
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read the files, and print the report."""
    check_flags(arguments, flags_in(DataFlags))
    from hf_summ.data.corpus_report import as_tables, report_files

    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    for corpus in corpora:
        corpus.check()
    count = limits = None
    if arguments.model != _NO_MODEL:
        count, limits = _load_counter(arguments.model)
    reports = report_files(corpora, count, limits, arguments.sample)
    if arguments.format == "json":
        files = [dataclasses.asdict(report) for report in reports]
        print(to_json({"files": files}, indent=2))
    else:
        print(as_tables(reports))


def _load_counter(model: str) -> tuple["Counter", "Limits"]:
    """A function that counts the subwords of rows as training does, and the numbers of subwords that the model reads.

    Args:
        model: the model's folder or name.
    """
    from hf_summ.data.corpus_report import Limits
    from hf_summ.data.vocabulary import load_tokenizer
    from hf_summ.training.rows.preparing import whole_lengths

    processor = load_tokenizer(model_folder(model))
    if hasattr(processor, "max_source_length"):
        limits = Limits(processor.max_source_length, processor.max_target_length)
    else:
        # A processor of transformers may read speech or images as well.
        processor = getattr(processor, "tokenizer", processor)
        if processor.eos_token is None:
            # As in training, BERT's texts end with its separator.
            processor.eos_token = processor.sep_token
        limit = min(processor.model_max_length, _LARGEST_LIMIT)
        limits = Limits(limit, limit)

    def count(rows: Mapping[str, list]) -> tuple[list[int], list[int]]:
        documents = whole_lengths(rows, processor, prefix="")
        return documents, whole_lengths(rows, processor, prefix="", column="labels")

    return count, limits
