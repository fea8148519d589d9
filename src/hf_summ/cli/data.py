"""`hf-summ data`: what a corpus contains, what looks wrong in it, and what to do about it."""

import argparse
import json
from dataclasses import dataclass
from typing import Any, Literal

from hf_summ.common.flags import add_flags, check_flags, flag, flags_in
from hf_summ.common.messages import print_note
from hf_summ.data.corpora import Corpus, Reading
from hf_summ.models.checks import Range
from hf_summ.pretrained import DEFAULT_MODEL, model_folder


@dataclass
class DataFlags:
    """What is measured, and how it is written."""

    model: str = flag(
        "data",
        "Model whose subwords are counted, and whose limits are compared: a checkpoint or processor folder, or the "
        "name of a bundled model or of a Hub repository; none counts words alone",
        DEFAULT_MODEL,
    )
    language: str = flag("data", "ISO 639 code of the texts", "en")
    sample: int = flag(
        "data",
        "Number of rows, drawn at random, whose texts are measured; rows, marks and duplicates are counted in all",
        10_000,
        range=Range(1),
        metavar="N",
    )
    format: Literal["markdown", "json"] = flag("reporting", "Format of the printed report", "markdown")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "data",
        description="Print what the files of a corpus contain: columns, blank rows and duplicates, documents in two "
        "files, lengths, lists, wrapped lines, marks of other programs, copied words. What looks wrong is "
        "listed with the flag that decides it. Name the files of all splits at once.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="Corpus files, as for `hf-summ train`")
    add_flags(parser, DataFlags)
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read the files, and print the report."""
    check_flags(arguments, flags_in(DataFlags))
    from hf_summ.data.languages import language_code
    from hf_summ.evaluation.corpus_report import FileReport, as_tables

    corpora = [Corpus.among({**vars(arguments), "train_file": file}) for file in arguments.files]
    for corpus in corpora:
        corpus.check()
    language = language_code(arguments.language)
    count, limits = (None, None) if arguments.model == "none" else _counter(arguments.model)
    earlier: dict[str, set[bytes]] = {}
    reports = [FileReport(corpus, earlier, count, limits, language, arguments.sample) for corpus in corpora]
    files = [report.figures() for report in reports]
    findings = [finding for report, figures in zip(reports, files, strict=True) for finding in report.findings(figures)]
    if arguments.format == "json":
        print(json.dumps({"files": files, "findings": findings}, indent=2, ensure_ascii=False))
        return
    print(as_tables(files))
    for finding in findings:
        print_note(finding)


def _counter(model: str) -> tuple[Any, tuple[int, int]]:
    """A function from texts to their numbers of subwords in a model, and the numbers that it reads and writes."""
    from hf_summ.data.vocabulary import load_tokenizer

    processor = load_tokenizer(model_folder(model))
    tokenizer: Any = getattr(processor, "tokenizer", processor)
    read = getattr(processor, "max_source_length", min(tokenizer.model_max_length, 1_000_000))

    def count(texts: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]

    return count, (read, getattr(processor, "max_target_length", read))
