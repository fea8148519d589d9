"""`hf-summ table`: a table of one of the papers, trained, scored and set beside the published figures."""

import argparse


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser(
        "table",
        allow_abbrev=False,
        help="run a table of one of the papers",
        description="Trains and scores the rows of a paper's table that are not done yet, and writes the table with "
        "ours beside the published figures, each row's difference to the baseline with its interval, and whether the "
        "published direction holds: as Markdown, JSON and a plot. An interrupted table goes on where it was; several "
        "commands in one folder share the work. Flags after NAME that are not listed here are those of the training "
        "recipe and are given to every training, such as --bf16 or --config_overrides bert_name=FOLDER.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="such as gdlf_4 or thesis_7_5, or a .yaml file")
    parser.add_argument("--list", action="store_true", help="name the tables that there are, and run none")
    parser.add_argument(
        "--scale",
        choices=("tiny", "small", "full"),
        default="small",
        help="tiny takes seconds a row, on made-up news; small takes hours on two CPU cores; full is the paper's own "
        "configuration (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="[DATASET=]FOLDER",
        help="folder with train, validation and test as .jsonl, .json, .csv or .source (also .gz) in place of one of "
        "the table's data sets; repeatable; only these are run then (default: all of the table's; made-up news for "
        "tiny)",
    )
    parser.add_argument(
        "--output_dir",
        default="out/tables",
        metavar="FOLDER",
        help="folder of the reports and of the runs, which tables share (default: %(default)s)",
    )
    # what the parser does not know is the recipe's
    parser.set_defaults(run=run, more=[])


def run(arguments: argparse.Namespace) -> None:
    """Run the table.

    Raises:
        ValueError: see `run_table`; or some rows' runs failed, which the report says too.
    """
    from hf_summ.experiments.tables import load_table, table_names

    if arguments.list:
        for name in table_names():
            table = load_table(name)
            print(f"{name:20} {table.paper}: {table.title}")
        return
    if arguments.name is None:
        raise ValueError("name a table; --list names those there are")
    from hf_summ.experiments.report import markdown
    from hf_summ.experiments.run import run_table

    data = _data(arguments.data, load_table(arguments.name).datasets)
    report = run_table(arguments.name, arguments.scale, data, arguments.more, arguments.output_dir)
    print(markdown(report), end="")
    failed = [row["row"] for block in report["datasets"] for row in block["rows"] if row.get("failed")]
    if failed:
        raise ValueError(f"runs failed, and the table says why, of {', '.join(failed)}")


def _data(given: list[str], datasets) -> dict[str, str]:
    """Data set -> folder; a folder alone stands for the only one."""
    data = {}
    for item in given:
        dataset, separator, folder = item.partition("=")
        if not separator:
            if len(datasets) != 1:
                raise ValueError(
                    f"--data {item}: say in place of which data set: {', '.join(datasets)}, as NAME=FOLDER"
                )
            dataset, folder = next(iter(datasets)), item
        data[dataset] = folder
    return data
