"""`hf-summ train`: the training recipe, from a configuration to a trained, evaluated and published model."""

import argparse
import dataclasses
import traceback
import typing
from typing import Any

from hf_summ.training.__main__ import main

_USAGE = "hf-summ train CONFIG [--flag value ...]"
_DESCRIPTION = (
    "Train, evaluate and predict as set by CONFIG and the flags. CONFIG is a .yaml or .json file, whose keys are names "
    "of flags, or a bundled configuration ({configs}). Flags take precedence. The same command "
    "resumes an interrupted run from its last complete checkpoint. For several processes, use `accelerate launch "
    "run_summarization.py CONFIG ...` or, without the repository, `accelerate launch -m hf_summ.training CONFIG ...`."
)


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("train", add_help=False)
    parser.add_argument("-h", "--help", action=_Help)
    # the training recipe parses the rest
    parser.set_defaults(run=run, more=[])


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe and return its exit status; see `hf_summ.training.__main__.main`."""
    try:
        return main(arguments.more, "hf-summ: ")
    except BrokenPipeError:
        raise
    except Exception:
        # an error inside another library: print the full traceback
        traceback.print_exc()
        return 1


class _Help(argparse.Action):
    """Prints the flags in groups; only then are they imported, which takes seconds."""

    def __init__(self, option_strings, dest, **kwargs):
        super().__init__(option_strings, dest, nargs=0)

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(_help(), end="")
        parser.exit()


def _help() -> str:
    from transformers import Seq2SeqTrainingArguments

    from hf_summ.training.arguments import RunArguments
    from hf_summ.training.parsing import bundled_configs

    description = _DESCRIPTION.format(configs=", ".join(bundled_configs()))
    parser = argparse.ArgumentParser(usage=_USAGE, description=description, add_help=False)
    theirs = {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments) if field.init}
    listed = set()
    for name, kind in typing.get_type_hints(RunArguments).items():
        title, *_ = kind.__doc__.splitlines()
        group = parser.add_argument_group(f"{name}: {title.rstrip('.')}")
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            # inherited fields are transformers' own
            if field.init and (field.name not in theirs or field.name in kind.__annotations__):
                listed.add(field.name)
                group.add_argument(f"--{field.name}", **_shape(hints[field.name]), help=field.metadata["help"])
    names = ", ".join(sorted(theirs - listed))
    parser.add_argument_group(
        "transformers' own",
        f"The other flags of Seq2SeqTrainingArguments, explained by `python -m hf_summ.training --help`: {names}",
    )
    return parser.format_help()


def _shape(kind: Any) -> dict[str, Any]:
    """Arguments of `add_argument` for a flag of this type."""
    if typing.get_origin(kind) is typing.Literal:
        return {"choices": typing.get_args(kind)}
    if typing.get_origin(kind) is list:
        return {"nargs": "+", "metavar": "TEXT"}
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    if members:
        return _shape(members[0])
    return {"metavar": {int: "N", float: "X", bool: "BOOL"}.get(kind, "TEXT")}
