"""`hf-summ table`: reproduce a table of one of the papers, and compare it with the published figures."""

import argparse
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hf_summ.experiments.content import Report
    from hf_summ.experiments.tables import Table


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "table",
        description="Train and score the unfinished rows of a paper's table. Write the table with our figures beside "
        "the published ones, each row's difference from the baseline with its interval, and whether the published "
        "direction holds, as Markdown, LaTeX, JSON and plots. An interrupted table resumes where it stopped, and "
        "several commands in one folder share the work. Flags after NAME that are not listed here are passed to every "
        "training run, such as --bf16 or --config_overrides bert_name=FOLDER.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="Table such as gdlf_4 or thesis_7_5, or a .yaml file")
    parser.add_argument("--list", action="store_true", help="List the available tables and exit")
    parser.add_argument(
        "--scale",
        choices=("tiny", "small", "full"),
        default="small",
        help="Size of the runs: tiny takes seconds per row, on made-up news; small takes hours on two CPU cores; "
        "full is the paper's configuration (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="[DATASET=]FOLDER",
        help="Folder with train, validation and test as .jsonl, .json, .csv or .parquet (also compressed) that "
        "replaces one of the table's data sets; for a table of votes, the report of `hf-summ votes collect`. May be "
        "repeated; only these data sets are run (default: all of the table's, or made-up news for tiny)",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[],
        metavar="ROW",
        help="Names of the rows to run and to report; differences need the baseline among them (default: all)",
    )
    parser.add_argument(
        "--split",
        choices=("test", "validation"),
        default="test",
        help="Split whose documents are summarized and scored (default: %(default)s)",
    )
    parser.add_argument(
        "--language_model",
        action="append",
        default=[],
        metavar="[NAME=]FOLDER",
        help="Folder with one of the language models of the table, for tables that compare them. May be repeated "
        "(default: their names on the Hub)",
    )
    parser.add_argument(
        "--output_dir",
        # This spelling is allowed too, because an unknown flag is passed to the training runs, and the table sets their
        # folders.
        "--output-dir",
        default="out/tables",
        metavar="FOLDER",
        help="Folder for the reports and the runs, which tables share (default: %(default)s)",
    )
    # As the default of `more` is a list, `main` puts the arguments that are unknown here into it. The training recipe
    # parses them.
    parser.set_defaults(run=run, more=[], interrupted="rerun the command to resume where it stopped")


def run(arguments: argparse.Namespace) -> int:
    """Run the table, print it, and return 0, or 1 if a row could not be run.

    Raises:
        ValueError: no table is named, or as `run_table`.
        OSError: the output folder cannot be written to.
    """
    from hf_summ.experiments.tables import load_table, table_titles

    if arguments.list:
        for name, title in table_titles().items():
            print(f"{name:20} {title}")
        return 0
    if arguments.name is None:
        raise ValueError("no table: name one; --list shows them")
    from hf_summ.experiments.report import markdown
    from hf_summ.experiments.run import run_table

    table = load_table(arguments.name)
    data = _replacements("data", arguments.data, table.datasets)
    language_models = _replacements("language_model", arguments.language_model, table.language_models)
    report = run_table(
        arguments.name,
        arguments.scale,
        data,
        arguments.more,
        arguments.output_dir,
        rows=arguments.rows,
        split=arguments.split,
        language_models=language_models,
    )
    print(markdown(report), end="")
    stopped_rows = _stopped_rows(report, table)
    if not stopped_rows:
        return 0
    rows = ", ".join(stopped_rows)
    print(f"hf-summ: error: some rows could not be run, for reasons given in the table: {rows}", file=sys.stderr)
    return 1


def _stopped_rows(report: "Report", table: "Table") -> list[str]:
    """The names of the rows that should have been run, but could not be. Rows from the literature are never run."""
    from hf_summ.experiments.scoring import why_not_run

    expected_problems = {row.row: why_not_run(row) for row in table.rows}
    names = []
    for block in report["datasets"]:
        for row in block["rows"]:
            name = row["row"]
            if row["problem"] != expected_problems[name] and name not in names:
                names.append(name)
    return names


def _replacements(flag: str, items: list[str], names: Collection[str]) -> dict[str, str]:
    """Name of what the user replaces -> the folder that replaces it.

    Args:
        flag: the flag that has the items.
        items: each is `NAME=FOLDER` or, if there is only one name, may be the folder alone.
        names: the names that the items may have: of the table's data sets, or of its language models.

    Raises:
        ValueError: the table has nothing to replace, or an item has no name although there are several names.
    """
    folders = {}
    for item in items:
        if not names:
            raise ValueError(f"--{flag} {item}: the table has nothing that it could replace")
        name, separator, folder = item.partition("=")
        if separator:
            folders[name] = folder
        elif len(names) == 1:
            only_name = next(iter(names))
            folders[only_name] = item
        else:
            raise ValueError(f"--{flag} {item}: name what it replaces: {', '.join(names)}")
    return folders
