"""`hf-summ train`: the training recipe, from a configuration to a trained, evaluated and published model."""

import argparse
import traceback
import typing
from typing import Any

from hf_summ.common.flags import names, without_none
from hf_summ.training.__main__ import main

_USAGE = "hf-summ train [options] CONFIG"
_DESCRIPTION = (
    "Train, evaluate and predict as set by CONFIG and the flags. CONFIG is a .yaml or .json file, whose keys are names "
    "of flags, or a bundled configuration ({configs}). Flags take precedence. The same command "
    "resumes an interrupted run from its last complete checkpoint. For several processes, use `accelerate launch "
    "run_summarization.py CONFIG ...` or, without the repository, `accelerate launch -m hf_summ.training CONFIG ...`."
)


def add_parser(commands) -> None:
    """Add the command to the command line."""
    # the training recipe parses the flags
    commands.add_parser("train", add_help=False).set_defaults(run=run, more=[])


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe and return its exit status; see `hf_summ.training.__main__.main`."""
    if {"-h", "--help"} & set(arguments.more):
        print(_help(), end="")
        raise SystemExit(0)
    try:
        return main(arguments.more, "hf-summ: ")
    except BrokenPipeError:
        raise
    except Exception:
        # an error inside another library: print the full traceback
        traceback.print_exc()
        return 1


def _help() -> str:
    """The recipe's own flags in groups, and the names of transformers'."""
    return recipe_parser().format_help()


def recipe_parser() -> argparse.ArgumentParser:
    """A parser with the recipe's own flags in groups, whose help names those of transformers."""
    # imported here: it takes seconds
    from hf_summ.training.arguments import FLAGS, GROUPS, RunArguments
    from hf_summ.training.parsing import bundled_configs

    description = _DESCRIPTION.format(configs=", ".join(bundled_configs()))
    parser = argparse.ArgumentParser(usage=_USAGE, description=description, add_help=False)
    inherited = set(FLAGS)
    for title, declared in typing.get_type_hints(RunArguments).items():
        if declared not in GROUPS:
            continue
        purpose, *_ = declared.__doc__.splitlines()
        group = parser.add_argument_group(f"{title}: {purpose.rstrip('.')}")
        hints, fields = typing.get_type_hints(declared), declared.__dataclass_fields__
        for name in names(declared):
            group.add_argument(f"--{name}", **_shape(hints[name]), help=fields[name].metadata["help"])
        inherited -= {*names(declared)}
    parser.add_argument_group(
        "transformers' own",
        "The other flags of Seq2SeqTrainingArguments, explained by `python -m hf_summ.training --help`: "
        + ", ".join(sorted(inherited)),
    )
    return parser


def _shape(hint: Any) -> dict[str, Any]:
    """Arguments of `add_argument` for a flag of this type."""
    value_type = without_none(hint)
    if typing.get_origin(value_type) is typing.Literal:
        return {"choices": typing.get_args(value_type)}
    if typing.get_origin(value_type) is list:
        return {"nargs": "+", "metavar": "TEXT"}
    return {"metavar": {int: "N", float: "X", bool: "BOOL"}.get(value_type, "TEXT")}
