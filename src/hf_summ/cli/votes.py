"""`hf-summ votes`: make sheets for blind comparisons of systems' summaries, and count the votes."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_summ.cli.summarizers import PREDICTION_COLUMN, ColumnFlags
from hf_summ.common.files import check_new_folder
from hf_summ.common.flags import add_flags, values_of
from hf_summ.common.messages import distinct, one_line, print_note
from hf_summ.common.records import to_json

if TYPE_CHECKING:
    from hf_summ.evaluation.text_files import TextFile
    from hf_summ.votes import Key, Protocol, Sheet

# The names of `hf_summ.votes.PROTOCOLS`, whose import is slow.
_PROTOCOLS = ("gdlf", "highlight_transformer", "sagcopy")


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "votes", description="Make sheets on which people compare summaries blindly, and count their votes."
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_make(subcommands)
    _add_collect(subcommands)


def _add_make(subcommands) -> None:
    """Add the subcommand that makes sheets."""
    parser = subcommands.add_parser(
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


def _add_collect(subcommands) -> None:
    """Add the subcommand that counts votes."""
    parser = subcommands.add_parser(
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
    parser.add_argument("--seed", type=int, default=0, help="Random seed of resamples and trials (default: 0)")
    parser.add_argument("--json", metavar="REPORT.json", help="File for all figures (default: none)")
    parser.set_defaults(run=collect)


@dataclasses.dataclass
class _Texts:
    """The texts of all files.

    Args:
        systems: path of a system's file -> its summaries, one per document.
        sources: the documents.
        references: the human summaries, if there are any.
        notes: columns that were chosen, and tags that were found.
    """

    systems: dict[str, "TextFile"]
    sources: "TextFile"
    references: "TextFile | None"
    notes: list[str]


def make(arguments: argparse.Namespace) -> None:
    """Write sheets and key."""
    _check_outputs(arguments)
    from hf_summ.votes import make_sheets

    protocol = _protocol(arguments)
    texts = _read(arguments)
    reference_texts = None
    if texts.references is not None:
        reference_texts = texts.references.texts()
    sheets, key = make_sheets(
        _named_systems(arguments.systems, texts),
        texts.sources.texts(),
        protocol,
        reference_texts,
        texts.sources.labels(),
        arguments.seed,
    )
    folder, key_file = Path(arguments.output), Path(arguments.key)
    _write(sheets, key, folder, key_file)
    for note in texts.notes:
        print_note(note)
    # There is at least one sheet, as `Protocol` refuses a number of voters below 1. All sheets have the same items.
    equal_items = _items_with_equal_summaries(sheets[0])
    if equal_items:
        print_note(f"{equal_items} of {len(key.items)} items have the same summary on both sides")
    print(f"{len(sheets)} sheets of {len(key.items)} items in {folder}; keep {key_file} from the voters")


def _items_with_equal_summaries(sheet: "Sheet") -> int:
    """The number of items of a sheet that have the same summary on both sides."""
    count = 0
    for item in sheet.items:
        summary_a, summary_b = item.summaries
        if summary_a == summary_b:
            count += 1
    return count


def _protocol(arguments: argparse.Namespace) -> "Protocol":
    """The questions and the numbers of documents and voters: what the user gave, and otherwise the preset's.

    Raises:
        ValueError: a number or a question that the user gave is not allowed.
    """
    from hf_summ.votes import PROTOCOLS

    preset = PROTOCOLS[arguments.preset]
    documents = preset.documents
    if arguments.documents is not None:
        documents = arguments.documents
    voters = preset.voters
    if arguments.voters is not None:
        voters = arguments.voters
    aspects = preset.aspects
    if arguments.aspect is not None:
        aspects = _aspects(arguments.aspect)
    return dataclasses.replace(preset, documents=documents, voters=voters, aspects=aspects)


def _named_systems(paths: Sequence[str], texts: _Texts) -> dict[str, list[str]]:
    """Name of each system in the key -> its summaries.

    Args:
        paths: the systems' files, as the user named them.

    Raises:
        ValueError: two names are equal.
    """
    from hf_summ.models.text_documents import readable

    # The key replaces bytes that cannot be decoded, and some names may differ only in these.
    names = [readable(path) for path in paths]
    if len(set(names)) < len(names):
        raise ValueError(f"--systems {' '.join(names)}: these names are equal in the key: rename a file")
    systems = {}
    for path, name in zip(paths, names, strict=True):
        systems[name] = texts.systems[path].texts()
    return systems


def _write(sheets: Sequence["Sheet"], key: "Key", folder: Path, key_file: Path) -> None:
    """Write the sheets and the key. Either all files are written, or none.

    Args:
        sheets: the sheet of each voter, which becomes a page and a table.
        key: the key to the systems.
        folder: the new folder of the pages and tables.
        key_file: the new file of the key.
    """
    from hf_summ.common.files import moved_into_place, write_atomically
    from hf_summ.votes import as_csv, as_page

    # An existing key belongs to other sheets, so creating it is an error.
    key_file.touch(exist_ok=False)
    try:
        with moved_into_place(folder) as draft:
            draft.mkdir()
            for sheet in sheets:
                (draft / f"{sheet.voter}.html").write_text(as_page(sheet), encoding="utf-8")
                (draft / f"{sheet.voter}.csv").write_text(as_csv(sheet), encoding="utf-8", newline="")
            write_atomically(key_file, key.to_json())
    except BaseException:
        key_file.unlink()
        raise


def collect(arguments: argparse.Namespace) -> None:
    """Print the report on the votes, and write its figures.

    Raises:
        ValueError: wrong flags or files, or votes are missing although --complete is given.
    """
    _check_collection(arguments)
    from hf_summ.common.files import write_atomically
    from hf_summ.models.text_documents import readable
    from hf_summ.votes import read_key, read_votes, vote_report
    from hf_summ.votes.collecting import missing_votes
    from hf_summ.votes.report import as_text

    votes = read_votes(arguments.files, read_key(arguments.key))
    if arguments.complete:
        missing = missing_votes(votes)
        if missing:
            raise ValueError(f"--complete: {'; '.join(missing)}")
    report = vote_report(votes, arguments.resamples, arguments.seed)
    if arguments.json is not None:
        files = {"votes": arguments.files, "key": arguments.key}
        content = to_json({"files": files, **report}, indent=2)
        write_atomically(arguments.json, readable(content) + "\n")
    for note in report["notes"]:
        print_note(note)
    print(as_text(report), end="")


def _read(arguments: argparse.Namespace) -> _Texts:
    """Read all files, match their rows with the sources, and split their texts into sentences.

    Raises:
        ValueError: a file cannot be read, or has other rows than the sources.
    """
    from hf_summ.evaluation.text_files import (
        RowReading,
        aligned_with_any,
        read_predictions,
        read_references,
        read_sources,
        tags_to_line_ends,
    )

    reading = RowReading(prediction_column=arguments.prediction_column, **values_of(arguments, ColumnFlags))
    sources = read_sources(arguments.sources, reading)
    # The files that have a row for each source, in the order of the sources.
    aligned_files = [sources]
    references = None
    if arguments.references is not None:
        references = read_references(arguments.references, reading, aligned_files=aligned_files)
        aligned_files.append(references)
    elif arguments.summary_column is not None:
        raise ValueError("--summary_column: needs --references")
    systems = {}
    for path in arguments.systems:
        systems[path] = aligned_with_any(read_predictions(path, reading), aligned_files)
        aligned_files.append(systems[path])
    notes: list[str] = []

    def prepare(file: "TextFile") -> "TextFile":
        """The file with line ends between sentences. Notes on the file are added to `notes`."""
        # Tags would tell the voters which system wrote a summary, so `tags_to_line_ends` replaces them by line ends.
        split_file, tag_notes = tags_to_line_ends(file, arguments.separator)
        notes.extend(file.notes)
        notes.extend(tag_notes)
        return split_file

    # The notes are in the order in which the files are prepared.
    prepared_sources = prepare(sources)
    if references is not None:
        references = prepare(references)
    prepared_systems = {path: prepare(file) for path, file in systems.items()}
    return _Texts(prepared_systems, prepared_sources, references, distinct(notes))


def _aspects(items: Sequence[str]) -> dict[str, str]:
    """Name of an aspect -> the question for voters.

    Args:
        items: the values of --aspect, each `NAME=QUESTION`.

    Raises:
        ValueError: an item has no name or no question, or two items have the same name.
    """
    from hf_summ.models.text_documents import readable

    aspects = {}
    for item in items:
        # Arguments may have bytes that cannot be decoded, and line breaks.
        text = one_line(readable(item))
        name, _, question = text.partition("=")
        name, question = name.strip(), question.strip()
        if not name or not question or name in aspects:
            raise ValueError(
                f"--aspect '{text}': must be a new name and a question, such as 'fluency=Which reads better?'"
            )
        aspects[name] = question
    return aspects


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise a ValueError unless the folder is new or empty, and the key is a new file outside of the folder."""
    folder, key_file = Path(arguments.output), Path(arguments.key)
    check_new_folder(folder)
    if folder.resolve() in key_file.resolve().parents:
        raise ValueError(f"--key {key_file}: must not be in the folder {folder}, which the voters receive")
    if key_file.exists() or not key_file.parent.is_dir():
        raise ValueError(f"--key {key_file}: must be a new file in an existing folder")


def _check_collection(arguments: argparse.Namespace) -> None:
    """Check the flags of `collect`.

    Raises:
        ValueError: --resamples or --seed is out of its range, or --json would replace an input.
    """
    if arguments.resamples < 1:
        raise ValueError(f"--resamples {arguments.resamples}: must be at least 1")
    if arguments.seed < 0:
        raise ValueError(f"--seed {arguments.seed}: must be at least 0")
    if not arguments.json:
        return
    inputs = [Path(file).resolve() for file in [arguments.key] + arguments.files]
    if Path(arguments.json).resolve() in inputs:
        raise ValueError(f"--json {arguments.json}: would replace an input; give the report another name")
