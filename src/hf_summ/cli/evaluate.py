"""`hf-summ evaluate`: ROUGE of predictions with its intervals, compared with another system's, and their novelty."""

import argparse
import json
import sys
from pathlib import Path

_FILES = ("predictions", "references", "sources", "against")
_SETTINGS = (
    "rouge_mode",
    "language",
    "sentences",
    "splitter",
    "byte_limit",
    "word_limit",
    "resamples",
    "seed",
    "average",
    "count",
)


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "evaluate",
        help="Score predictions against references",
        description="Print ROUGE with 95% bootstrap intervals, the difference from another system, novelty and "
        "lengths. Files contain one text per line, or rows (.jsonl, .json, .csv) with predictions in the column "
        "`prediction`, references in `references`, `reference` or `summary`, and sources in `document`; each also as "
        ".gz.",
    )
    parser.add_argument("--predictions", required=True, metavar="FILE", help="Summaries to score")
    parser.add_argument(
        "--references", metavar="FILE", help="Summaries to score against (default: columns of the predictions' rows)"
    )
    parser.add_argument(
        "--sources", metavar="FILE", help="Documents that were summarized, for novelty and compression (default: none)"
    )
    parser.add_argument(
        "--against", metavar="FILE", help="Predictions of another system, for a paired bootstrap (default: none)"
    )
    parser.add_argument(
        "--rouge_mode",
        choices=("rouge155", "rouge_score"),
        default="rouge155",
        help="Whether ROUGE is that of the Perl script ROUGE-1.5.5, which papers report, or of Google's rouge-score "
        "(default: rouge155)",
    )
    parser.add_argument(
        "--rouge_types", nargs="+", metavar="TYPE", help="Types such as rouge1 rouge2 rougeL (default: all)"
    )
    parser.add_argument("--language", default="en", help="ISO 639 code of the summaries' language (default: en)")
    parser.add_argument(
        "--no_stemmer", action="store_true", help="Count forms of a word as different words (default: as one)"
    )
    parser.add_argument(
        "--byte_limit", type=int, metavar="N", help="Cut summaries after N bytes, with rouge155 (default: no limit)"
    )
    parser.add_argument(
        "--word_limit", type=int, metavar="N", help="Cut summaries after N words, with rouge155 (default: no limit)"
    )
    parser.add_argument(
        "--sentences",
        choices=("split", "lines"),
        default="split",
        help="Whether to split lines into sentences or to treat each line as one (default: split)",
    )
    parser.add_argument(
        "--splitter",
        choices=("sentencex", "spacy"),
        default="sentencex",
        help="What splits lines into sentences: sentencex, or spaCy's sentencizer, which is for English and needs the "
        "extra `extractive` (default: sentencex)",
    )
    parser.add_argument(
        "--separator",
        metavar="TAG",
        help="What stands between sentences in all files; none counts tags as words (default: <q>, <n>, <s>, <t>, "
        "[X_SEP] and <S_SEP>, which a note reports)",
    )
    parser.add_argument(
        "--average",
        choices=("macro", "micro"),
        default="macro",
        help="Whether novelty is averaged over rows or over the whole corpus (default: macro)",
    )
    parser.add_argument(
        "--count",
        choices=("types", "tokens"),
        default="types",
        help="Whether novel n-grams are counted once each or as often as they occur (default: types)",
    )
    parser.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="Resamples of the bootstrap (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="Random seed of the paired bootstrap (default: 0)")
    parser.add_argument(
        "--output",
        metavar="REPORT.json",
        help="File for all figures, with the tables in REPORT.md beside it (default: none)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Score the predictions.

    Raises:
        ValueError: files that cannot be read or do not belong together; fewer than one resample; an output that is not
            a .json file, is in a folder that does not exist, or would replace an input; or as `build_report`.
    """
    _check(arguments)
    from hf_summ.evaluation.report import Settings, as_text, build_report
    from hf_summ.evaluation.text_files import (
        check_aligned,
        part_sentences,
        read_predictions,
        read_references,
        read_sources,
    )

    predictions = read_predictions(arguments.predictions)
    references = read_references(arguments.references or arguments.predictions)
    if arguments.references is None and references.column == predictions.column:
        raise ValueError(
            f"{predictions.name} has no references beside its predictions: name their file with --references"
        )
    sources = None if arguments.sources is None else read_sources(arguments.sources)
    against = None if arguments.against is None else read_predictions(arguments.against)
    for other in (references, sources, against):
        if other is not None:
            check_aligned(predictions, other)
    tags: list[str] = []

    def parted(file):
        file, found = part_sentences(file, arguments.separator)
        tags.extend(found)
        return file

    predictions, references = parted(predictions), parted(references)
    sources, against = (None if file is None else parted(file) for file in (sources, against))
    settings = Settings(
        use_stemmer=not arguments.no_stemmer,
        rouge_types=None if arguments.rouge_types is None else tuple(arguments.rouge_types),
        **{name: getattr(arguments, name) for name in _SETTINGS},
    )
    files = {name: getattr(arguments, name) for name in _FILES}
    report = build_report(
        predictions.texts(),
        references.rows,
        None if sources is None else sources.texts(),
        None if against is None else against.texts(),
        settings,
    )
    report["notes"] = [*tags, *report["notes"]]
    tables = as_text(report)
    if arguments.output is not None:
        _write(Path(arguments.output), {"files": files, **report}, tables)
    for note in report["notes"]:
        print(f"hf-summ: {note}", file=sys.stderr)
    print(tables, end="")


def _check(arguments: argparse.Namespace) -> None:
    if arguments.resamples < 1:
        raise ValueError(f"--resamples {arguments.resamples}: must be at least 1")
    if arguments.seed < 0:
        raise ValueError(f"--seed {arguments.seed}: must be at least 0")
    if arguments.output is None:
        return
    output = Path(arguments.output)
    if output.suffix != ".json" or output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"--output {output}: must be a .json file in an existing folder")
    read = [Path(file).resolve() for name in _FILES if (file := getattr(arguments, name)) is not None]
    for written in (output, output.with_suffix(".md")):
        if written.resolve() in read:
            raise ValueError(f"--output {output}: would replace the input {written}; give the report another name")


def _write(output: Path, report: dict, tables: str) -> None:
    from hf_summ.common.files import write_atomically

    files = [f"- {name}: {file}" for name, file in report["files"].items() if file is not None]
    notes = [f"- {note}" for note in report["notes"]]
    parts = ["# Evaluation", "\n".join(files), tables.rstrip(), *(["\n".join(notes)] if notes else [])]
    write_atomically(output, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    write_atomically(output.with_suffix(".md"), "\n\n".join(parts) + "\n")
