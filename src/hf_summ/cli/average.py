"""`hf-summ average`: one checkpoint whose weights are the mean of several."""

import argparse
from pathlib import Path


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser(
        "average",
        help="average the weights of checkpoints",
        description="Writes a checkpoint whose weights are the mean of the given checkpoints', or of the last or best "
        "ones of a run.",
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="checkpoints, or one run's output folder")
    parser.add_argument("--output", required=True, help="folder to write the averaged checkpoint to")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--last", type=int, metavar="N", help="average the run's last N checkpoints")
    which.add_argument("--best", type=int, metavar="N", help="average the run's N best ones, by its validation metric")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Average the checkpoints.

    Raises:
        ValueError: a folder is not there, or see `average_checkpoints`.
        FileExistsError: the output holds something already.
    """
    from hf_summ.training.checkpoints import average_checkpoints

    for folder in arguments.folders:
        if not Path(folder).is_dir():
            raise ValueError(f"{folder}: there is no such folder")
    folders = average_checkpoints(arguments.folders, output=arguments.output, last=arguments.last, best=arguments.best)
    print(f"{arguments.output}: the mean of {', '.join(map(str, folders))}")
