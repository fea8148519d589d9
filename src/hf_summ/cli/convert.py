"""`hf-summ convert`: convert another program's checkpoint to transformers' format."""

import argparse


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "convert",
        description="Convert a MASS checkpoint of its authors' program to an equivalent BART with its tokenizer. A "
        "SAGCopy can start from this BART, which can also be trained and used like any other. Only weights and "
        "training settings are read; a checkpoint that contains code is rejected.",
    )
    parser.add_argument("kind", choices=["mass"], help="Kind of the checkpoint")
    parser.add_argument("checkpoint", metavar="CHECKPOINT.pt", help="File with the weights")
    parser.add_argument("dictionary", metavar="dict.txt", help="File with the checkpoint's word pieces")
    parser.add_argument("--output", required=True, help="Folder for the converted checkpoint")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Convert the checkpoint, and print the size of the BART."""
    from transformers import AutoConfig

    from hf_summ.checkpoints.mass import convert_mass

    convert_mass(arguments.checkpoint, arguments.dictionary, arguments.output)
    config = AutoConfig.from_pretrained(arguments.output)
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
    print(f"{arguments.output}: {layers} of {config.d_model}, {config.vocab_size} word pieces")
