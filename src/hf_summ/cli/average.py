"""`hf-summ average`: average the weights of several checkpoints."""

import argparse

from hf_summ.pretrained import model_folder


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "average",
        description="Average the weights of the given checkpoints, or of a run's last or best ones, and write the "
        "result as a checkpoint. With --dtype, a single checkpoint is converted.",
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="Checkpoints, or one run's output folder")
    parser.add_argument("--output", required=True, help="Folder for the averaged checkpoint")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--last", type=int, metavar="N", help="Average the run's last N checkpoints")
    choice.add_argument(
        "--best", type=int, metavar="N", help="Average the run's best N checkpoints according to its validation metric"
    )
    parser.add_argument(
        "--dtype",
        choices=("int8", "float16", "bfloat16", "float32"),
        help="Type of the weights in the written file; the model still computes in the type that its config names "
        "(default: the type of the checkpoint's weights)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Average the checkpoints, and print their folders."""
    import torch

    from hf_summ.training.folder.averaging import average_checkpoints

    folders = [model_folder(name) for name in arguments.folders]
    dtype = None
    precision = ""
    if arguments.dtype is not None:
        dtype = getattr(torch, arguments.dtype)
        precision = f", in {arguments.dtype}"
    averaged_folders = average_checkpoints(folders, arguments.output, arguments.last, arguments.best, dtype)
    print(f"{arguments.output}: the mean of {', '.join(averaged_folders)}{precision}")
