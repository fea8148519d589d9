"""`hf-summ votes`: make sheets for blind comparisons of systems' summaries, and count the votes."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from hf_summ.cli.summarizers import PREDICTION_COLUMN, ColumnFlags
from hf_summ.common.files import check_new_folder
from hf_summ.common.flags import add_flags, values_of
from hf_summ.common.messages import one_line, print_note
from hf_summ.common.processes import end_on_sigterm
from hf_summ.common.records import to_json

# the names of `hf_summ.votes.PROTOCOLS`, whose import is slow
_PROTOCOLS = ("gdlf", "highlight_transformer", "sagcopy")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "votes", description="Make sheets on which people compare summaries blindly, and count their votes."
    )
    steps = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_make(steps)
    _add_collect(steps)


def _add_make(steps) -> None:
    parser = steps.add_parser(
        "make",
        help="Make a sheet for each voter",
        description="Draw documents. Write a page and a table with the same pairs of summaries for each voter, and a "
        "key to the systems. Files are as for `hf-summ evaluate`.",
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        required=True,
        metavar="FILE",
        help="Predictions of two or more systems; each pair is compared, and wins are those of the first named",
    )
    parser.add_argument("--sources", required=True, metavar="FILE", help="Source documents")
    parser.add_argument(
        "--references", metavar="FILE", help="Human summaries to show beside the documents (default: none)"
    )
    add_flags(parser, ColumnFlags)
    parser.add_argument("--prediction_column", help=PREDICTION_COLUMN)
    parser.add_argument(
        "--preset",
        choices=_PROTOCOLS,
        default="gdlf",
        help="Paper whose questions and numbers of documents and voters to use (default: gdlf)",
    )
    parser.add_argument("--documents", type=int, metavar="N", help="Number of documents (default: the preset's)")
    parser.add_argument("--voters", type=int, metavar="N", help="Number of voters (default: the preset's)")
    parser.add_argument(
        "--aspect",
        action="append",
        metavar="NAME=QUESTION",
        help="A question for voters, in place of the preset's; may be repeated (default: the preset's)",
    )
    parser.add_argument(
        "--separator",
        metavar="TAG",
        help="Separator of sentences in all files, as for `hf-summ evaluate` (default: <q>, <n>, <s>, <t>, [X_SEP], "
        "<S_SEP> and ##SENT##)",
    )
    parser.add_argument("--seed", type=int, default=0, help="Random seed of documents, sides and orders (default: 0)")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="New or empty folder for the pages and tables"
    )
    parser.add_argument("--key", required=True, metavar="KEY.json", help="New file for the key, outside the folder")
    parser.set_defaults(run=make, interrupted="rerun the command to start over")


def _add_collect(steps) -> None:
    parser = steps.add_parser(
        "collect",
        help="Count the votes",
        description="Print wins, losses and ties as in the papers, with confidence intervals, the number of further "
        "documents needed for a decision, the agreement of voters and their preference for a side.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="Votes: files that voters downloaded from their pages, or completed tables",
    )
    parser.add_argument("--key", required=True, metavar="KEY.json", help="Key that was written with the sheets")
    parser.add_argument(
        "--complete", action="store_true", help="Fail if votes are missing (default: count the available ones)"
    )
    parser.add_argument(
        "--resamples",
        type=int,
        default=1000,
        metavar="N",
        help="Resamples of the bootstrap over documents, and trials of the randomization test (default: 1000)",
    )
    parser.add_argument("--seed", type=int, default=0, help="Random seed of both (default: 0)")
    parser.add_argument("--json", metavar="REPORT.json", help="File for all figures (default: none)")
    parser.set_defaults(run=collect)


def make(arguments: argparse.Namespace) -> None:
    """Write sheets and key."""
    _check_make(arguments)
    folder, key_file = Path(arguments.output), Path(arguments.key)
    from hf_summ.common.files import moved_into_place
    from hf_summ.models.text_documents import readable
    from hf_summ.votes import PROTOCOLS, as_csv, as_page, make_sheets

    settings: dict[str, Any] = {name: getattr(arguments, name) for name in ("documents", "voters")}
    settings["aspects"] = _aspects(arguments.aspect)
    changed = {name: value for name, value in settings.items() if value is not None}
    protocol = dataclasses.replace(PROTOCOLS[arguments.preset], **changed)
    files, notes = _read(arguments)
    # names may differ only in undecodable bytes, which the key replaces
    systems = {readable(name): files[name].texts() for name in arguments.systems}
    if len(systems) < len(arguments.systems):
        raise ValueError(
            f"--systems {' '.join(map(readable, arguments.systems))}: these names are equal in the key: rename a file"
        )
    sources = files["sources"]
    sheets, key = make_sheets(
        systems,
        sources.texts(),
        protocol,
        files["references"].texts() if "references" in files else None,
        sources.labels(),
        arguments.seed,
    )
    end_on_sigterm()
    with moved_into_place(folder) as draft:
        draft.mkdir()
        for sheet in sheets:
            (draft / f"{sheet.voter}.html").write_text(as_page(sheet), encoding="utf-8")
            (draft / f"{sheet.voter}.csv").write_text(as_csv(sheet), encoding="utf-8", newline="")
        # an existing key belongs to other sheets
        with key_file.open("x", encoding="utf-8") as file:
            file.write(key.to_json())
    equal = sum(one == other for one, other in (item.summaries for item in sheets[0].items))
    if equal:
        notes.append(f"{equal} of {len(key.items)} items have the same summary on both sides")
    for note in notes:
        print_note(note)
    print(f"{len(sheets)} sheets of {len(key.items)} items in {folder}; keep {key_file} from the voters")


def collect(arguments: argparse.Namespace) -> None:
    """Print the report on the votes."""
    _check_report(arguments)
    from hf_summ.common.files import write_atomically
    from hf_summ.models.text_documents import readable
    from hf_summ.votes import read_key, read_votes, vote_report
    from hf_summ.votes.collecting import missing_votes
    from hf_summ.votes.report import as_text

    votes = read_votes(arguments.files, read_key(arguments.key))
    if arguments.complete and (missing := missing_votes(votes)):
        raise ValueError(f"--complete: {'; '.join(missing)}")
    report = vote_report(votes, arguments.resamples, arguments.seed)
    if arguments.json is not None:
        files = {"votes": arguments.files, "key": arguments.key}
        content = to_json({"files": files, **report}, indent=2)
        write_atomically(arguments.json, readable(content) + "\n")
    for note in report["notes"]:
        print_note(note)
    print(as_text(report), end="")


def _read(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The texts of all files, systems' by their paths, and notes of the tags found in them."""
    from hf_summ.evaluation.text_files import (
        RowReading,
        aligned,
        part_sentences,
        read_predictions,
        read_references,
        read_sources,
    )

    reading = RowReading(prediction_column=arguments.prediction_column, **values_of(arguments, ColumnFlags))
    files = {"sources": read_sources(arguments.sources, reading)}
    if arguments.references is not None:
        files["references"] = read_references(arguments.references, reading)
    elif arguments.summary_column is not None:
        raise ValueError("--summary_column: needs --references")
    for name in arguments.systems:
        files[name] = read_predictions(name, reading)
    notes = []
    for name, file in files.items():
        file = aligned(file, files["sources"])
        notes += file.notes
        # tags would reveal the systems
        files[name], tag_notes = part_sentences(file, arguments.separator)
        notes += tag_notes
    return files, notes


def _aspects(items: list[str] | None) -> dict[str, str] | None:
    if items is None:
        return None
    from hf_summ.models.text_documents import readable

    aspects = {}
    # arguments may have undecodable bytes and line breaks
    for item in (one_line(readable(text)) for text in items):
        name, _, question = map(str.strip, item.partition("="))
        if not name or not question or name in aspects:
            raise ValueError(
                f"--aspect '{item}': must be a new name and a question, such as 'fluency=Which reads better?'"
            )
        aspects[name] = question
    return aspects


def _check_make(arguments: argparse.Namespace) -> None:
    folder, key = Path(arguments.output), Path(arguments.key)
    check_new_folder(folder)
    if folder.resolve() in key.resolve().parents:
        raise ValueError(f"--key {key}: must not be in the folder {folder}, which the voters receive")
    if key.exists() or not key.parent.is_dir():
        raise ValueError(f"--key {key}: must be a new file in an existing folder")


def _check_report(arguments: argparse.Namespace) -> None:
    for name, least in (("resamples", 1), ("seed", 0)):
        if getattr(arguments, name) < least:
            raise ValueError(f"--{name} {getattr(arguments, name)}: must be at least {least}")
    inputs = [Path(file).resolve() for file in (arguments.key, *arguments.files)]
    if arguments.json and Path(arguments.json).resolve() in inputs:
        raise ValueError(f"--json {arguments.json}: would replace an input; give the report another name")
