"""`hf-summ completion`: a script with which a shell completes commands and flags."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_summ.common.lazy import import_extra


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "completion",
        description="Print a script with which a shell completes commands, flags and their choices. Write it to "
        "~/.local/share/bash-completion/completions/hf-summ for bash, or to _hf-summ in a folder of $fpath for zsh.",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="Shell that reads the script")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    shtab = import_extra("shtab", "hf-summ completion needs shtab", "completion")

    from hf_summ.cli import COMMANDS, empty_parser, module_of
    from hf_summ.cli.train import recipe_parser

    parser, subparsers = empty_parser()
    commands = _Described(subparsers, COMMANDS)
    for name in COMMANDS:
        if name == "train":
            # the recipe parses its flags itself
            commands.add_parser("train", add_help=False, parents=[recipe_parser()])
        else:
            module_of(name).add_parser(commands)
    print(shtab.complete(parser, arguments.shell))


@dataclass
class _Described:
    """Adds commands with their purposes, as shtab leaves out those without a help.

    Args:
        subparsers: the action to which commands are added.
        purposes: name of a command -> its purpose.
    """

    subparsers: Any
    purposes: Mapping[str, str]

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command, as argparse does."""
        return self.subparsers.add_parser(name, help=self.purposes[name], **settings)
