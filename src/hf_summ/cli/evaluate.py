"""`hf-summ evaluate`: ROUGE with intervals, comparison with other systems, novelty and support."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hf_summ.cli.summarizers import add_column_flags
from hf_summ.common.flags import add_flags, names

_FILES = ("predictions", "references", "sources", "against")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "evaluate",
        description="Print ROUGE with 95% bootstrap intervals, the difference from other systems, novelty, "
        "support in the sources and lengths. Files contain one text per line, or rows (.jsonl, .json, .csv, each also "
        "as .gz, or .parquet) with predictions in the column `prediction` or `summary`.",
    )
    # imported here: other commands need none of it
    from hf_summ.evaluation.measures import NAMED, Settings

    _add_texts(parser.add_argument_group("texts"))
    group = parser.add_argument_group("measures")
    group.add_argument(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME[=MODEL]",
        help=f"Further measures: {NAMED}, with MODEL a folder or a name on the Hub (default: none)",
    )
    group.add_argument(
        "--no_stemmer", action="store_true", help="Compare words without stemming (default: with the Porter stemmer)"
    )
    add_flags(group, Settings)
    _add_results(parser.add_argument_group("results"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Score the predictions.

    Raises:
        ValueError: files cannot be read or do not belong together; fewer than one resample; an output has the wrong
            suffix, is in a folder that does not exist, or would replace an input; or as `Evaluation`.
    """
    _check(arguments)
    from hf_summ.common.files import write_atomically
    from hf_summ.evaluation.measures import check_metrics
    from hf_summ.evaluation.report import Evaluation, Settings, as_text

    files, tags = _read(arguments)
    predictions, references, sources = files["predictions"], files["references"], files.get("sources")
    given = {name: getattr(arguments, name) for name in names(Settings)}
    given |= {"use_stemmer": not arguments.no_stemmer, "metrics": check_metrics(arguments.metrics)}
    evaluation = Evaluation(
        predictions.texts(),
        references.rows,
        None if sources is None else sources.texts(),
        {name: files[name].texts() for name in arguments.against or ()},
        Settings(**given),
        [f"{(sources or predictions).name}, {place}" for place in (sources or predictions).places],
    )
    report = evaluation.report()
    report["notes"] = [*tags, *report["notes"]]
    if arguments.scores is not None:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in evaluation.rows())
        write_atomically(arguments.scores, "".join(lines))
    report = {"files": {name: getattr(arguments, name) for name in _FILES}, **report}
    if arguments.output is not None:
        _write(Path(arguments.output), report)
    for note in report["notes"]:
        print(f"hf-summ: {note}", file=sys.stderr)
    print(_as_json(report) if arguments.format == "json" else as_text(report, arguments.format == "latex"), end="")


def _add_texts(group) -> None:
    group.add_argument("--predictions", required=True, metavar="FILE", help="Summaries to score")
    group.add_argument(
        "--references", metavar="FILE", help="Summaries to score against (default: a column of the predictions' rows)"
    )
    group.add_argument("--sources", metavar="FILE", help="Source documents, for novelty and support (default: none)")
    group.add_argument(
        "--against",
        nargs="+",
        metavar="FILE",
        help="Predictions of other systems, each compared with --predictions (default: none)",
    )
    add_column_flags(group)
    group.add_argument(
        "--separator",
        metavar="TAG",
        help="Separator of sentences in all files; none counts tags as words (default: <q>, <n>, <s>, <t>, [X_SEP] and "
        "<S_SEP>; a note reports those found)",
    )


def _add_results(group) -> None:
    group.add_argument(
        "--output",
        metavar="REPORT.json",
        help="File for all figures, with the tables in REPORT.md beside it (default: none)",
    )
    group.add_argument(
        "--format",
        choices=("markdown", "latex", "json"),
        default="markdown",
        help="Format of the printed report; latex needs the package booktabs (default: markdown)",
    )
    group.add_argument(
        "--scores", metavar="SCORES.jsonl", help="File for the scores of each document by each system (default: none)"
    )


def _read(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The texts of all files, other systems' by their paths, and notes of the tags found in them."""
    from hf_summ.evaluation.text_files import (
        check_aligned,
        part_sentences,
        read_predictions,
        read_references,
        read_sources,
    )

    files = {"predictions": read_predictions(arguments.predictions)}
    files["references"] = read_references(arguments.references or arguments.predictions, arguments.summary_column)
    predictions = files["predictions"]
    if arguments.references is None and files["references"].column == predictions.column:
        raise ValueError(
            f"{predictions.name} has no references beside its predictions: name their file with --references"
        )
    if arguments.sources is not None:
        files["sources"] = read_sources(arguments.sources, arguments.text_column)
    files |= {name: read_predictions(name) for name in arguments.against or ()}
    notes = []
    for name, file in files.items():
        check_aligned(predictions, file)
        files[name], tags = part_sentences(file, arguments.separator)
        notes += tags
    if arguments.separator not in (None, "none") and not notes:
        notes.append(f"no text contains the separator {arguments.separator!r:.80}")
    return files, notes


def _check(arguments: argparse.Namespace) -> None:
    # imported here: the help needs none of it
    from hf_summ.evaluation.measures import MEASURES, check_metrics
    from hf_summ.evaluation.words import is_english

    if arguments.resamples < 1:
        raise ValueError(f"--resamples {arguments.resamples}: must be at least 1")
    if arguments.seed < 0:
        raise ValueError(f"--seed {arguments.seed}: must be at least 0")
    others = arguments.against or []
    if twice := next((name for name in others if others.count(name) > 1), None):
        raise ValueError(f"--against {twice}: named twice")
    of_sources = {"average": "macro", "count": "types", "count_punctuation": False, "text_column": None}
    for name, unset in of_sources.items():
        if arguments.sources is None and getattr(arguments, name) != unset:
            raise ValueError(f"--{name}: needs --sources, with which novelty is measured")
    if arguments.no_stemmer and not is_english(arguments.language):
        raise ValueError(f"--no_stemmer: has no effect with --language {arguments.language:.80}, which is not stemmed")
    for name in check_metrics(arguments.metrics):
        if MEASURES[name].reads == "sources" and arguments.sources is None:
            raise ValueError(f"--metrics {name}: needs --sources, with which it compares the summaries")
    _check_output(arguments, "output", ".json")
    _check_output(arguments, "scores", ".jsonl")


def _check_output(arguments: argparse.Namespace, flag: str, suffix: str) -> None:
    if getattr(arguments, flag) is None:
        return
    output = Path(getattr(arguments, flag))
    if output.suffix != suffix or output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"--{flag} {output}: must be a {suffix} file in an existing folder")
    named = [getattr(arguments, name) for name in _FILES if name != "against"]
    read = [Path(file).resolve() for file in (*named, *(arguments.against or ())) if file is not None]
    for written in (output, output.with_suffix(".md")) if flag == "output" else (output,):
        if written.resolve() in read:
            raise ValueError(f"--{flag} {output}: would replace the input {written}; give the report another name")


def _as_json(report: dict[str, Any]) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _write(output: Path, report: dict[str, Any]) -> None:
    from hf_summ.common.files import write_atomically
    from hf_summ.evaluation.report import as_text

    named = {name: [file] if isinstance(file, str) else file or [] for name, file in report["files"].items()}
    files = [f"- {name}: {', '.join(paths)}" for name, paths in named.items() if paths]
    notes = [f"- {note}" for note in report["notes"]]
    parts = ["# Evaluation", "\n".join(files), as_text(report).rstrip(), *(["\n".join(notes)] if notes else [])]
    write_atomically(output, _as_json(report))
    write_atomically(output.with_suffix(".md"), "\n\n".join(parts) + "\n")
