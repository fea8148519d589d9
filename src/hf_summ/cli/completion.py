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
    commands = _CommandsWithHelp(subparsers, COMMANDS)
    for name in COMMANDS:
        if name == "train":
            # The module of `train` declares no flags, as the recipe parses them.
            commands.add_parser("train", add_help=False, parents=[recipe_parser()])
        else:
            module_of(name).add_parser(commands)
    print(shtab.complete(parser, arguments.shell))


@dataclass
class _CommandsWithHelp:
    """Stands for argparse's action of subcommands, and gives each command its purpose as help.

    shtab leaves commands without a help out.

    Args:
        subparsers: argparse's action, to which commands are added; its type is private.
        purposes: name of a command -> its purpose.
    """

    subparsers: Any
    purposes: Mapping[str, str]

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command, as argparse does."""
        return self.subparsers.add_parser(name, help=self.purposes[name], **settings)
