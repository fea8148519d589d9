"""`hf-summ export`: export a checkpoint for another runtime."""

import argparse
import logging
import warnings
from pathlib import Path

from hf_summ.cli.summarizers import find_model, load_summarizer
from hf_summ.common.files import check_new_folder


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "export",
        description="Export a checkpoint as graphs for ONNX Runtime, to decode on CPUs with `--runtime onnx`. This "
        "takes a minute or more.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="Checkpoint folder, or name of a bundled model or of a Hub repository"
    )
    parser.add_argument("--revision", help="Branch, tag or commit of the repository (default: main)")
    parser.add_argument(
        "--trust_remote_code", action="store_true", help="Run code that comes with the checkpoint (default: do not)"
    )
    parser.add_argument("--to", choices=["onnx"], required=True, help="The runtime: onnx is ONNX Runtime")
    parser.add_argument(
        "--int8", dest="in_8_bits", action="store_true", help="Quantize matrices to 8 bits (default: 32 bits)"
    )
    parser.add_argument("--output", required=True, help="Folder for the graphs, processor and settings")
    parser.set_defaults(run=run, device="cpu", dtype="float32")


def run(arguments: argparse.Namespace) -> None:
    """Export the checkpoint, and print the size of its graphs."""
    from hf_summ.runtimes.folders import export

    output = Path(arguments.output)
    check_new_folder(output)
    find_model(arguments)
    summarizer = load_summarizer(arguments)
    # PyTorch's exporter warns of operations that it does not simplify, of packages that it could use, and of its own
    # code. A user can do nothing about them.
    for name in ("onnxscript", "torch.onnx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore", FutureWarning)
    export(summarizer.model, summarizer.processor or summarizer.tokenizer, output, arguments.in_8_bits)
    size = sum(file.stat().st_size for file in output.glob("*.onnx*"))
    bits = 8 if arguments.in_8_bits else 32
    print(f"{output}: {size / 1e6:.1f} MB of graphs in {bits} bits")
