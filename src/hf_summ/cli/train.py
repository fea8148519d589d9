"""`hf-summ train`: the recipe, from a configuration to a trained, scored and published model."""

import argparse
import dataclasses
import traceback
import typing
from typing import Any

_USAGE = "hf-summ train CONFIG.yaml [--flag value ...]"
_DESCRIPTION = (
    "Trains a model, evaluates it and predicts, as CONFIG.yaml and the flags say; flags win over the file, whose keys "
    "are flags too. A run that was interrupted goes on from its last whole checkpoint when the same command is given "
    "again. For several processes: `accelerate launch run_summarization.py CONFIG.yaml ...`, or `accelerate launch -m "
    "hf_summ.training` without the repository."
)


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser("train", add_help=False, help="train, evaluate and predict by a configuration")
    parser.add_argument("-h", "--help", action=_Help)
    # what the parser does not know is the recipe's
    parser.set_defaults(run=run, more=[])


def run(arguments: argparse.Namespace) -> int:
    """The recipe's exit status: see `hf_summ.training.run.console_main`."""
    from hf_summ.training.run import console_main

    try:
        return console_main(arguments.more, "hf-summ: ")
    except BrokenPipeError:
        raise
    except Exception:
        # a mistake inside of another library, of which every line may be of use
        traceback.print_exc()
        return 1


class _Help(argparse.Action):
    """Prints the flags by what they are for; they are looked up only then, as that takes seconds."""

    def __init__(self, option_strings, dest, **kwargs):
        super().__init__(option_strings, dest, nargs=0)

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(_help(), end="")
        parser.exit()


def _help() -> str:
    from transformers import Seq2SeqTrainingArguments

    from hf_summ.training.arguments import RunArguments

    parser = argparse.ArgumentParser(usage=_USAGE, description=_DESCRIPTION, add_help=False)
    theirs = {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments) if field.init}
    listed = set()
    for name, kind in typing.get_type_hints(RunArguments).items():
        title, *_ = kind.__doc__.splitlines()
        group = parser.add_argument_group(f"{name}: {title.rstrip('.')}")
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            # what is only inherited is transformers' own
            if field.init and (field.name not in theirs or field.name in kind.__annotations__):
                listed.add(field.name)
                group.add_argument(f"--{field.name}", **_shape(hints[field.name]), help=field.metadata["help"])
    names = ", ".join(sorted(theirs - listed))
    parser.add_argument_group(
        "transformers' own",
        f"The rest of Seq2SeqTrainingArguments, which `python -m hf_summ.training --help` explains: {names}",
    )
    return parser.format_help()


def _shape(kind: Any) -> dict[str, Any]:
    """How a flag of this type is written."""
    if typing.get_origin(kind) is typing.Literal:
        return {"choices": typing.get_args(kind)}
    if typing.get_origin(kind) is list:
        return {"nargs": "+", "metavar": "TEXT"}
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    if members:
        return _shape(members[0])
    return {"metavar": {int: "N", float: "X", bool: "BOOL"}.get(kind, "TEXT")}
