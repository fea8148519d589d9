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
    # The training recipe parses the flags, so this parser allows unknown arguments.
    commands.add_parser("train", add_help=False).set_defaults(run=run, more=[])


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe and return its exit status; see `hf_summ.training.__main__.main`.

    Raises:
        SystemExit: with status 0, after the help is printed.
        BrokenPipeError: the output pipe is closed.
    """
    if {"-h", "--help"} & set(arguments.more):
        print(_help(), end="")
        raise SystemExit(0)
    try:
        return main(arguments.more, "hf-summ: ")
    except BrokenPipeError:
        # The main function of the command line ends silently if the output pipe is closed.
        raise
    except Exception:
        # This is an error inside another library, which a message of one line would not explain.
        traceback.print_exc()
        return 1


def _help() -> str:
    """The help of the recipe: its flags in groups, and the names of the flags of transformers."""
    return recipe_parser().format_help()


def recipe_parser() -> argparse.ArgumentParser:
    """A parser with the flags that the recipe declares, in groups; its help also names the flags of transformers."""
    # The recipe is imported here, as its import takes seconds.
    from hf_summ.training.arguments import FLAGS, GROUPS, RunArguments
    from hf_summ.training.parsing import bundled_configs

    description = _DESCRIPTION.format(configs=", ".join(bundled_configs()))
    parser = argparse.ArgumentParser(usage=_USAGE, description=description, add_help=False)
    flags_of_transformers = set(FLAGS)
    for title, declared in typing.get_type_hints(RunArguments).items():
        if declared not in GROUPS:
            continue
        purpose = declared.__doc__.splitlines()[0]
        group = parser.add_argument_group(f"{title}: {purpose.rstrip('.')}")
        hints = typing.get_type_hints(declared)
        fields = declared.__dataclass_fields__
        for name in names(declared):
            group.add_argument(f"--{name}", **_settings_of(hints[name]), help=fields[name].metadata["help"])
        flags_of_transformers.difference_update(names(declared))
    parser.add_argument_group(
        "transformers' own",
        "The other flags of Seq2SeqTrainingArguments, explained by `python -m hf_summ.training --help`: "
        + ", ".join(sorted(flags_of_transformers)),
    )
    return parser


def _settings_of(hint: object) -> dict[str, Any]:
    """The arguments of `add_argument` for a flag with this type."""
    value_type = without_none(hint)
    if typing.get_origin(value_type) is typing.Literal:
        return {"choices": typing.get_args(value_type)}
    if typing.get_origin(value_type) is list:
        return {"nargs": "+", "metavar": "TEXT"}
    placeholders: dict[object, str] = {int: "N", float: "X", bool: "BOOL"}
    return {"metavar": placeholders.get(value_type, "TEXT")}
