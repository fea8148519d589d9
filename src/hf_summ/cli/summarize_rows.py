"""`hf-summ summarize --text_column`: summarize the rows of files and data sets, in shards."""

import argparse
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hf_summ.checkpoints.decoding import extracts
from hf_summ.cli import end_on_sigterm
from hf_summ.cli.summarizers import (
    ExtractionFlags,
    LengthFlags,
    check_flags,
    check_is_text,
    decoding_settings,
    find_model,
    load_summarizer,
    loading,
    read_phrases,
)
from hf_summ.common.flags import values_of

# flags for rows only, and their defaults
_DEFAULTS = {
    "dataset_name": None,
    "dataset_config_name": None,
    "split": "train",
    "columns": None,
    "output_column": "summary",
    "rows_per_shard": 1000,
    "num_processes": None,
    "engine": "local",
    "ray_address": None,
}


def add_row_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for rows; unset flags are None."""
    rows = parser.add_argument_group("rows of files and data sets, written in shards to a folder")
    rows.add_argument(
        "--text_column",
        help="Column of the documents; the files are then .json, .jsonl, .csv (also .gz) or .parquet, or patterns such "
        "as 'news/*.jsonl.gz' (default: the files are documents)",
    )
    rows.add_argument("--dataset_name", help="Data set on the Hub, streamed, instead of files (default: files)")
    rows.add_argument("--dataset_config_name", help="Configuration of that data set (default: its only one)")
    rows.add_argument("--split", help="Split of that data set (default: train)")
    rows.add_argument("--columns", nargs="+", metavar="COLUMN", help="Columns to keep in the output (default: all)")
    rows.add_argument("--output_column", help="Column for the summaries (default: summary)")
    rows.add_argument(
        "--rows_per_shard",
        type=int,
        help="Number of rows per shard; an interrupted run repeats its unfinished shards (default: 1000)",
    )
    rows.add_argument(
        "--num_processes",
        type=int,
        help="Number of processes, each with its own model (default: 1, with --engine ray its GPUs or CPUs)",
    )
    rows.add_argument(
        "--engine", choices=("local", "ray"), help="Run on this machine, or on all of a Ray cluster (default: local)"
    )
    rows.add_argument("--ray_address", help="Address of the Ray cluster (default: a new cluster on this machine)")


def takes_rows(arguments: argparse.Namespace) -> bool:
    """Whether the command summarizes rows."""
    if arguments.text_column is None:
        flags = ["--format parquet"] if arguments.format == "parquet" else []
        flags += [f"--{name}" for name in _DEFAULTS if getattr(arguments, name) is not None]
        if flags:
            raise ValueError(f"{flags[0]} needs --text_column, the column of the documents")
        for file in arguments.files:
            check_is_text(file, "give --text_column, the column of the documents")
        return False
    for name, unset in (("together", False), ("details", False), ("encoding", "utf-8")):
        if getattr(arguments, name) != unset:
            raise ValueError(f"--text_column and --{name} exclude each other: --{name} is for files of text")
    if arguments.format == "text":
        raise ValueError("--format text: with --text_column, it must be one of parquet, jsonl")
    return True


def run_rows(arguments: argparse.Namespace) -> None:
    """Summarize the rows."""
    for name, value in _DEFAULTS.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    check_flags(arguments, batch_size=1, rows_per_shard=1, num_processes=1)
    _check_needs(arguments)
    from hf_summ.data.streams import FileRows, HubRows, streamed_files
    from hf_summ.models.pipeline_documents import SOURCES
    from hf_summ.offline.engines import Work
    from hf_summ.offline.run import model_identity, run_plan
    from hf_summ.offline.shards import Plan
    from hf_summ.runtimes.folders import find

    phrases = read_phrases(arguments.phrase)
    decoding = {**decoding_settings(arguments), **values_of(arguments, LengthFlags)}
    if (arguments.dataset_name is None) == (not arguments.files):
        raise ValueError("--text_column needs files of rows or --dataset_name: give one of them")
    if arguments.dataset_name is None:
        source = FileRows(streamed_files(arguments.files))
    else:
        source = HubRows(arguments.dataset_name, arguments.dataset_config_name, arguments.split)
    plan = Plan(
        source=source,
        text_column=arguments.text_column,
        columns=arguments.columns,
        output_column=arguments.output_column,
        rows_per_shard=arguments.rows_per_shard,
        folder=Path(arguments.output).resolve(),
        format=arguments.format or "parquet",
    )
    # before the model, whose libraries load slowly
    plan.check()
    for name, (_, what) in SOURCES.items():
        is_replaced = name == "phrases" and phrases is not None
        if name in source.schema.names and not is_replaced:
            _print_note(f"models that read {what} take those in the column {name}: rename it to leave them out")
    arguments.interrupted = f"rerun the command to resume in {arguments.output}"
    end_on_sigterm()
    find_model(arguments)
    with loading(arguments.model):
        checkpoint = str(find(arguments.model)) if arguments.runtime == "onnx" else arguments.model
        settings = {**model_identity(checkpoint, arguments.revision), "int8": arguments.int8, **decoding}
        settings |= {"dtype": arguments.dtype, "seed": arguments.seed}
    optional = {"phrases": phrases, "source_prefix": arguments.source_prefix, **values_of(arguments, ExtractionFlags)}
    settings |= {name: value for name, value in optional.items() if value is not None}
    if Path(arguments.model).is_dir():
        # other processes may have another working directory
        arguments.model = os.path.realpath(arguments.model)
    load, seed = partial(_load, arguments), arguments.seed or 0
    uses_torch = arguments.runtime != "onnx"
    work = Work(load, decoding, arguments.batch_size, arguments.output_column, phrases, seed, uses_torch)
    outcome = run_plan(plan, settings, _engine(arguments, work, plan), _print_note)
    for message in _notes(outcome, arguments):
        _print_note(message)


def _load(arguments: argparse.Namespace, device: str | None = None):
    return load_summarizer(arguments, device=arguments.device or device)


def _engine(arguments: argparse.Namespace, work: Any, plan: Any):
    from hf_summ.offline.engines import in_processes, in_this_process, on_ray

    number = arguments.num_processes
    if arguments.engine == "ray":
        return partial(on_ray, work, plan, number=number, address=arguments.ray_address, announce=_print_note)
    if number in (None, 1):
        return partial(in_this_process, work, plan)
    return partial(in_processes, work, plan, number=number)


def _check_needs(arguments: argparse.Namespace) -> None:
    for name, need, is_met in (
        ("text_column", "--output, the folder for the summaries", arguments.output is not None),
        ("dataset_config_name", "--dataset_name", arguments.dataset_name is not None),
        ("split", "--dataset_name", arguments.dataset_name is not None),
        ("ray_address", "--engine ray", arguments.engine == "ray"),
    ):
        if not is_met and getattr(arguments, name) != _DEFAULTS.get(name):
            raise ValueError(f"--{name} needs {need}")


def _notes(outcome: Any, arguments: argparse.Namespace) -> Iterator[str]:
    """Notes on the outcome of a run."""
    shards = f"{outcome.shards:,} shard{'s' * (outcome.shards != 1)} in {arguments.output}"
    yield f"{outcome.rows:,} rows summarized: {shards}" if outcome.rows else f"nothing is left to do: {shards}"
    if outcome.failed:
        yield f"{outcome.failed:,} of these rows have no summary: see their column 'error'"
    if outcome.empty:
        yield f"{outcome.empty:,} of them have an empty summary: set --min_new_tokens for longer ones"
    if outcome.cut:
        read = 1 - outcome.cut_tokens / outcome.source_tokens
        shortens = extracts(vars(arguments))
        what = "shortened by the extractive stage, which kept" if shortens else "too long for the model, which read"
        yield f"{outcome.cut:,} of them were {what} {read:.0%} of their tokens"
    if outcome.unlike:
        yield f"{outcome.unlike:,} of them differ from the training data: one has {outcome.difference}"


def _print_note(message: str) -> None:
    from huggingface_hub.utils import tqdm

    # above the progress bar
    tqdm.write(f"hf-summ: {message}", file=sys.stderr)
