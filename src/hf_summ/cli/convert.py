"""`hf-summ convert`: a checkpoint of another program as one that transformers reads."""

import argparse


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "convert",
        description="Write a pre-trained MASS, as its authors' program saved it, as a BART that computes the same, "
        "with its tokenizer: SAGCopy begins with it, and it can be trained or used as any other BART. Only weights are "
        "read; code in a checkpoint is refused.",
    )
    parser.add_argument("kind", choices=["mass"], help="What the checkpoint is of")
    parser.add_argument("checkpoint", metavar="CHECKPOINT.pt", help="File with the weights")
    parser.add_argument("dictionary", metavar="dict.txt", help="File with the pieces of words, beside the checkpoint")
    parser.add_argument("--output", required=True, help="Folder for the converted checkpoint")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Convert the checkpoint.

    Raises:
        ValueError: as `convert_mass`.
        OSError: a file is not there, or the output is a folder that is not empty.
    """
    from transformers import AutoConfig

    from hf_summ.training.conversion import convert_mass

    convert_mass(arguments.checkpoint, arguments.dictionary, arguments.output)
    config = AutoConfig.from_pretrained(arguments.output)
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
    print(f"{arguments.output}: {layers} of {config.d_model}, {config.vocab_size} pieces of words")
