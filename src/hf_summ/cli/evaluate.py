"""`hf-summ evaluate`: ROUGE with intervals, comparison with other systems, novelty and support."""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hf_summ.cli.summarizers import PREDICTION_COLUMN, ColumnFlags, check_names, check_output_file
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import print_note
from hf_summ.common.records import to_json

if TYPE_CHECKING:
    from hf_summ.evaluation.report_types import Report


@dataclass
class TextFlags:
    """The files of texts."""

    predictions: str = flag("data", "Summaries to score", required=True, metavar="FILE")
    references: list[str] | None = flag(
        "data",
        "Summaries to score against; several files have a reference each",
        unset="a column of the predictions' rows",
        nargs="+",
        metavar="FILE",
    )
    sources: str | None = flag("data", "Source documents, for novelty and support", unset="none", metavar="FILE")
    against: list[str] | None = flag(
        "data",
        "Predictions of other systems, each compared with --predictions",
        unset="none",
        nargs="+",
        metavar="FILE",
    )
    names: list[str] | None = flag(
        "data",
        "Names of the systems in tables: of --predictions, and of each file of --against",
        unset="Predictions, and the files' paths",
        nargs="+",
        metavar="NAME",
    )


@dataclass
class ReportFlags:
    """Where and how the scores are written."""

    output: str | None = flag(
        "reporting", "File for all figures, with the tables in REPORT.md beside it", unset="none", metavar="REPORT.json"
    )
    format: Literal["markdown", "latex", "json"] = flag(
        "reporting", "Format of the printed report; latex is a paper's table, for the package booktabs", "markdown"
    )
    scores: str | None = flag(
        "reporting", "File for the scores of each document by each system", unset="none", metavar="SCORES.jsonl"
    )


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "evaluate",
        description="Print ROUGE with 95% bootstrap intervals, the difference from other systems, novelty, "
        "support in the sources and lengths. A .txt file has one text per line; other files have rows (.jsonl, .json, "
        ".csv, .tsv, .parquet, .arrow, also compressed), whose columns are named below. A folder has files of rows, or "
        "a text in each file, as for ROUGE's script.",
    )
    # imported here: other commands need none of it
    from hf_summ.evaluation.measures import Settings, names_of_metrics

    texts = parser.add_argument_group("texts")
    add_flags(texts, TextFlags)
    add_flags(texts, ColumnFlags)
    texts.add_argument("--prediction_column", help=PREDICTION_COLUMN)
    texts.add_argument(
        "--separator",
        metavar="TAG",
        help="Separator of sentences in all files; none counts tags as words (default: <q>, <n>, <s>, <t>, [X_SEP], "
        "<S_SEP> and ##SENT##; a note reports those found)",
    )
    measures = parser.add_argument_group("measures")
    measures.add_argument(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME[=MODEL]",
        help=f"Further measures: {names_of_metrics()}, with MODEL a folder or a name on the Hub (default: none)",
    )
    measures.add_argument(
        "--no_stemmer", action="store_true", help="Compare words without stemming (default: with the Porter stemmer)"
    )
    add_flags(measures, Settings)
    add_flags(parser.add_argument_group("results"), ReportFlags)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Score the predictions."""
    from hf_summ.common.files import write_atomically
    from hf_summ.evaluation.measures import MEASURES, Settings, check_metrics
    from hf_summ.evaluation.report import Evaluation, as_latex, as_text
    from hf_summ.evaluation.words import is_english

    check_flags(arguments, flags_in(TextFlags, Settings))
    metrics = check_metrics(arguments.metrics)
    for name in metrics:
        if MEASURES[name].reads == "sources" and arguments.sources is None:
            raise ValueError(f"--metrics {name}: needs --sources, with which it compares the summaries")
    if arguments.text_column is not None and arguments.sources is None:
        raise ValueError("--text_column: needs --sources, whose column it names")
    if arguments.no_stemmer and not is_english(arguments.language):
        raise ValueError(f"--no_stemmer: has no effect beside --language {arguments.language}, which has no stemmer")
    if twice := [name for name, number in Counter(arguments.against or ()).items() if number > 1]:
        raise ValueError(f"--against {twice[0]}: is named twice; name each file once")
    check_output_file(arguments, ".json", beside=".md")
    check_output_file(arguments, ".jsonl", flag="scores")
    own, *others = check_names(arguments.names, ["Predictions", *(arguments.against or ())])
    files, notes = _read(arguments)
    predictions, sources = files["predictions"], files.get("sources")
    evaluation = Evaluation(
        predictions.texts(),
        files["references"].rows,
        None if sources is None else sources.texts(),
        {name: files[file].texts() for name, file in zip(others, arguments.against or (), strict=True)},
        Settings(**values_of(arguments, Settings), use_stemmer=not arguments.no_stemmer, metrics=metrics),
        predictions.labels(),
        own,
    )
    paths = values_of(arguments, TextFlags)
    del paths["names"]
    report: Report = {"files": paths, **evaluation.report()}
    report["notes"] = notes + report["notes"]
    if arguments.scores is not None:
        lines = (to_json(row) + "\n" for row in evaluation.rows())
        write_atomically(arguments.scores, "".join(lines))
    if arguments.output is not None:
        write_atomically(arguments.output, _as_json(report))
        write_atomically(Path(arguments.output).with_suffix(".md"), _as_markdown(report))
    for note in report["notes"]:
        print_note(note)
    print({"json": _as_json, "latex": as_latex, "markdown": as_text}[arguments.format](report), end="")


def _read(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The texts of all files, other systems' by their paths, and notes of the tags found in them."""
    from hf_summ.evaluation.text_files import NO_SEPARATOR, RowReading, part_sentences, read_systems

    names = [arguments.predictions] + (arguments.against or [])
    reading = RowReading(prediction_column=arguments.prediction_column, **values_of(arguments, ColumnFlags))
    systems, references, sources = read_systems(names, arguments.references, arguments.sources, reading)
    files = {"predictions": systems[0], "references": references}
    if sources is not None:
        files["sources"] = sources
    files.update(zip(names[1:], systems[1:], strict=True))
    notes = []
    tag_notes = []
    for name, file in files.items():
        notes.extend(file.notes)
        files[name], notes_of_file = part_sentences(file, arguments.separator)
        tag_notes.extend(notes_of_file)
    if arguments.separator not in (None, NO_SEPARATOR) and not tag_notes:
        tag_notes.append(f"no text contains the separator {arguments.separator!r:.80}")
    return files, notes + tag_notes


def _as_json(report: "Report") -> str:
    return to_json(report, indent=2) + "\n"


def _as_markdown(report: "Report") -> str:
    from hf_summ.evaluation.report import as_text

    inputs = {name: [file] if isinstance(file, str) else file for name, file in report["files"].items() if file}
    sections = ["# Evaluation", "\n".join(f"- {name}: {', '.join(paths)}" for name, paths in inputs.items())]
    sections += [as_text(report).rstrip(), "\n".join(f"- {note}" for note in report["notes"])]
    return "\n\n".join(filter(None, sections)) + "\n"
