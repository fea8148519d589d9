"""`hf-summ table`: reproduce a table of one of the papers, and compare it with the published figures."""

import argparse

from hf_summ.common.processes import end_on_sigterm


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
        "--output_dir",
        default="out/tables",
        metavar="FOLDER",
        help="Folder for the reports and the runs, which tables share (default: %(default)s)",
    )
    # the training recipe parses the rest
    parser.set_defaults(run=run, more=[], interrupted="rerun the command to resume where it stopped")


def run(arguments: argparse.Namespace) -> None:
    """Run the table."""
    from hf_summ.experiments.tables import load_table, table_titles

    if arguments.list:
        for name, title in table_titles().items():
            print(f"{name:20} {title}")
        return
    if arguments.name is None:
        raise ValueError("no table: name one; --list shows them")
    from hf_summ.experiments.report import markdown
    from hf_summ.experiments.run import run_table

    data = _data(arguments.data, load_table(arguments.name).datasets)
    # also ends the current training run
    end_on_sigterm()
    report = run_table(arguments.name, arguments.scale, data, arguments.more, arguments.output_dir)
    print(markdown(report), end="")
    rows = [row for block in report["datasets"] for row in block["rows"]]
    failed = [row["row"] for row in rows if row.get("failed")]
    if failed:
        raise ValueError(f"the runs of some rows failed, for reasons given in the table: {', '.join(failed)}")
    if all(row["problem"] for row in rows):
        raise ValueError("no row was run, for reasons given in the table")


def _data(items: list[str], datasets) -> dict[str, str]:
    """Data set -> folder; a folder without a data set replaces the only one."""
    data = {}
    for item in items:
        dataset, separator, folder = item.partition("=")
        if not separator:
            if len(datasets) != 1:
                raise ValueError(f"--data {item}: name the data set that it replaces: {', '.join(datasets)}")
            dataset, folder = next(iter(datasets)), item
        data[dataset] = folder
    return data
