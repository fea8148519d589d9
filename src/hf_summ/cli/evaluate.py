"""`hf-summ evaluate`: ROUGE with intervals, comparison with other systems, novelty and support."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hf_summ.cli.summarizers import PREDICTION_COLUMN, ColumnFlags, check_names, check_output_file
from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, values_of
from hf_summ.common.messages import distinct, print_note
from hf_summ.common.records import to_json
from hf_summ.evaluation.measures import MEASURES, Settings, names_of_metrics, parse_metrics

if TYPE_CHECKING:
    from hf_summ.evaluation.report_types import Report
    from hf_summ.evaluation.text_files import TextFile


@dataclass
class TextFlags:
    """The files with the texts, and the names of systems."""

    predictions: str = flag("data", "Summaries to score", required=True, metavar="FILE")
    references: list[str] | None = flag(
        "data",
        "Reference summaries; with several files, each has a further reference of every row",
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


@dataclass
class _Texts:
    """The texts of all files, and notes on how the files were read. All texts have the same rows.

    Args:
        predictions: the summaries to score.
        references: one or several reference summaries in each row.
        sources: the source documents, if there are any.
        against: name of a system of --against -> its predictions.
        notes: columns that were chosen, and tags that were found.
    """

    predictions: "TextFile"
    references: "TextFile"
    sources: "TextFile | None"
    against: dict[str, "TextFile"]
    notes: list[str]


@dataclass
class _SentenceSplitter:
    """Splits the texts of files into sentences at tags, and collects notes.

    Args:
        separator: the tag; None stands for the usual ones, and "none" for no tag.
        file_notes: notes on how the files were read so far, such as on their columns.
        tag_notes: notes on the tags that were found so far.
    """

    separator: str | None
    file_notes: list[str] = field(default_factory=list)
    tag_notes: list[str] = field(default_factory=list)

    def split(self, file: "TextFile") -> "TextFile":
        """The file with line ends in place of tags."""
        from hf_summ.evaluation.text_files import tags_to_line_ends

        self.file_notes.extend(file.notes)
        split_file, tag_notes = tags_to_line_ends(file, self.separator)
        self.tag_notes.extend(tag_notes)
        return split_file


def run(arguments: argparse.Namespace) -> None:
    """Score the predictions, print the report, and write it to files."""
    from hf_summ.common.files import write_atomically
    from hf_summ.evaluation.report import Evaluation

    check_flags(arguments, flags_in(TextFlags, ColumnFlags, Settings, ReportFlags))
    metrics = parse_metrics(arguments.metrics)
    _check(arguments, list(metrics))
    # The first name belongs to --predictions, and each of the other names to a file of --against.
    names = check_names(arguments.names, ["Predictions"] + (arguments.against or []))
    texts = _read(arguments, list(names[1:]))
    # A row has one prediction and one source, but may have several references, which are passed as lists.
    source_texts = None
    if texts.sources is not None:
        source_texts = texts.sources.texts()
    evaluation = Evaluation(
        predictions=texts.predictions.texts(),
        references=texts.references.rows,
        sources=source_texts,
        against={name: file.texts() for name, file in texts.against.items()},
        settings=Settings(**values_of(arguments, Settings), use_stemmer=not arguments.no_stemmer, metrics=metrics),
        labels=texts.predictions.labels(),
        name=names[0],
    )
    files = {
        "predictions": arguments.predictions,
        "references": arguments.references,
        "sources": arguments.sources,
        "against": arguments.against,
    }
    report: Report = {"files": files, **evaluation.report()}
    report["notes"] = texts.notes + report["notes"]
    if arguments.scores is not None:
        lines = [to_json(row) + "\n" for row in evaluation.rows()]
        write_atomically(arguments.scores, "".join(lines))
    if arguments.output is not None:
        write_atomically(arguments.output, _as_json(report))
        write_atomically(Path(arguments.output).with_suffix(".md"), _as_markdown(report))
    for note in report["notes"]:
        print_note(note)
    print(_printed_report(report, arguments.format), end="")


def _check(arguments: argparse.Namespace, metrics: list[str]) -> None:
    """Raise a ValueError for flags that do not go together, or for an output file that cannot be written.

    Args:
        metrics: the names of the further measures.
    """
    from hf_summ.evaluation.words import is_english

    for name in metrics:
        if MEASURES[name].reads == "sources" and arguments.sources is None:
            raise ValueError(f"--metrics {name}: needs --sources, with which it compares the summaries")
    if arguments.text_column is not None and arguments.sources is None:
        raise ValueError("--text_column: needs --sources, whose column it names")
    if arguments.no_stemmer and not is_english(arguments.language):
        raise ValueError(f"--no_stemmer: has no effect beside --language {arguments.language}, which has no stemmer")
    paths_against = arguments.against or []
    for path in paths_against:
        if paths_against.count(path) > 1:
            raise ValueError(f"--against {path}: is named twice; name each file once")
    check_output_file(arguments, ".json", beside=".md")
    check_output_file(arguments, ".jsonl", flag="scores")


def _read(arguments: argparse.Namespace, names_against: list[str]) -> _Texts:
    """Read all files, and split their texts into sentences.

    Args:
        names_against: the names of the systems of --against.
    """
    from hf_summ.evaluation.text_files import NO_SEPARATOR, RowReading, read_systems

    paths = [arguments.predictions] + (arguments.against or [])
    reading = RowReading(prediction_column=arguments.prediction_column, **values_of(arguments, ColumnFlags))
    systems, references, sources = read_systems(paths, arguments.references, arguments.sources, reading)
    # The notes on the reading of all files come first, and those on their tags last. Within each of these groups, the
    # notes are in the order in which the files are split here.
    splitter = _SentenceSplitter(arguments.separator)
    predictions = splitter.split(systems[0])
    references = splitter.split(references)
    if sources is not None:
        sources = splitter.split(sources)
    against = {}
    for name, file in zip(names_against, systems[1:], strict=True):
        against[name] = splitter.split(file)
    notes = distinct(splitter.file_notes + splitter.tag_notes)
    if arguments.separator not in (None, NO_SEPARATOR) and not splitter.tag_notes:
        notes.append(f"no text contains the separator {arguments.separator!r:.80}")
    return _Texts(predictions, references, sources, against, notes)


def _printed_report(report: "Report", format: str) -> str:
    """The report as it is printed.

    Args:
        format: the value of --format: "json", "latex" or "markdown". For "markdown", only the tables are printed: files
            and notes are on the page of `_as_markdown`, and notes are also printed to standard error.
    """
    from hf_summ.evaluation.report import as_latex, as_text

    if format == "json":
        return _as_json(report)
    if format == "latex":
        return as_latex(report)
    return as_text(report)


def _as_json(report: "Report") -> str:
    """The report as JSON, with all figures."""
    return to_json(report, indent=2) + "\n"


def _as_markdown(report: "Report") -> str:
    """The report as a page of Markdown: the files, the tables and the notes."""
    from hf_summ.evaluation.report import as_text

    file_lines = []
    for name, paths in report["files"].items():
        if isinstance(paths, str):
            paths = [paths]
        if paths:
            file_lines.append(f"- {name}: {', '.join(paths)}")
    note_lines = [f"- {note}" for note in report["notes"]]
    sections = ["# Evaluation", "\n".join(file_lines), as_text(report).rstrip()]
    if note_lines:
        sections.append("\n".join(note_lines))
    return "\n\n".join(sections) + "\n"
