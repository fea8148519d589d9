"""`hf-summ summarize --text_column`: summarize the rows of files and data sets, in shards."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hf_summ.checkpoints.decoding import extracts
from hf_summ.cli.summarizers import (
    ExtractionFlags,
    LengthFlags,
    decoding_settings,
    find_model,
    load_summarizer,
    loading,
    read_phrases,
)
from hf_summ.common.flags import flag, values_of
from hf_summ.common.messages import print_note
from hf_summ.common.processes import end_on_sigterm
from hf_summ.models.checks import Range

_OF_ROWS, _OF_HUB = ("text_column",), ("dataset_name",)


@dataclass
class RowFlags:
    """Rows of files and data sets, written in shards to a folder."""

    text_column: str | None = flag(
        "data",
        "Column of the documents; the files are then .json, .jsonl, .csv (also compressed) or .parquet, or patterns "
        "such as 'news/*.jsonl.gz'",
        unset="the files are documents",
        needs=("output",),
    )
    dataset_name: str | None = flag(
        "data", "Data set on the Hub, streamed, instead of files", unset="files", needs=_OF_ROWS
    )
    dataset_config_name: str | None = flag(
        "data", "Configuration of that data set", unset="its only one", needs=_OF_HUB
    )
    split: str = flag("data", "Split of that data set", "train", needs=_OF_HUB)
    columns: list[str] | None = flag(
        "data", "Columns to keep in the output", unset="all", needs=_OF_ROWS, nargs="+", metavar="COLUMN"
    )
    output_column: str = flag("data", "Column for the summaries", "summary", needs=_OF_ROWS)
    rows_per_shard: int = flag(
        "reporting",
        "Number of rows per shard; an interrupted run repeats its unfinished shards",
        1000,
        range=Range(1),
        needs=_OF_ROWS,
    )
    num_processes: int | None = flag(
        "reporting",
        "Number of processes, each with its own model",
        unset="1, with --engine ray its GPUs or CPUs",
        range=Range(1),
        needs=_OF_ROWS,
    )
    engine: Literal["local", "ray"] = flag(
        "reporting", "Run on this machine, or on all of a Ray cluster", "local", needs=_OF_ROWS
    )
    ray_address: str | None = flag(
        "reporting", "Address of the Ray cluster", unset="a new cluster on this machine", needs=("engine=ray",)
    )


def run_rows(arguments: argparse.Namespace) -> None:
    """Summarize the rows."""
    if arguments.format == "text":
        raise ValueError("--format text: with --text_column, it must be one of parquet, jsonl")
    from hf_summ.data.streams import FileRows, HubRows, streamed_files
    from hf_summ.models.pipeline_documents import SOURCES
    from hf_summ.offline.engines import Work
    from hf_summ.offline.run import model_identity, run_plan
    from hf_summ.offline.shards import Plan, destination
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
        **destination(arguments.output, arguments.format),
    )
    # before the model, whose libraries load slowly
    plan.check()
    for name, (_, noun) in SOURCES.items():
        is_replaced = name == "phrases" and phrases is not None
        if name in source.schema.names and not is_replaced:
            print_note(f"models that read {noun} take those in the column {name}: rename it to leave them out")
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
    outcome = run_plan(plan, settings, _engine(arguments, work, plan), print_note)
    for message in _notes(outcome, arguments, plan):
        print_note(message)


def _load(arguments: argparse.Namespace, device: str | None = None):
    return load_summarizer(arguments, device=arguments.device or device)


def _engine(arguments: argparse.Namespace, work: Any, plan: Any):
    from hf_summ.offline.engines import in_processes, in_this_process, on_ray

    number = arguments.num_processes
    if arguments.engine == "ray":
        return partial(on_ray, work, plan, number=number, address=arguments.ray_address, announce=print_note)
    if number in (None, 1):
        return partial(in_this_process, work, plan)
    return partial(in_processes, work, plan, number=number)


def _notes(outcome: Any, arguments: argparse.Namespace, plan: Any) -> Iterator[str]:
    """Notes on the outcome of a run."""
    written = arguments.output
    if plan.file is None:
        written = f"{outcome.shards:,} shard{'s' * (outcome.shards != 1)} in {written}"
    yield f"{outcome.rows:,} rows summarized: {written}" if outcome.rows else f"nothing is left to do: {written}"
    if outcome.failed:
        yield f"{outcome.failed:,} of these rows have no summary: see their column 'error'"
    if outcome.empty:
        yield f"{outcome.empty:,} of them have an empty summary: set --min_new_tokens for longer ones"
    if outcome.unfinished:
        most = f"{outcome.unfinished:,} of them have a summary with the most tokens allowed"
        yield f"{most}: raise --max_new_tokens if summaries are cut off"
    if outcome.cut:
        read = 1 - outcome.cut_tokens / outcome.source_tokens
        shortens = extracts(vars(arguments))
        cause = "shortened by the extractive stage, which kept" if shortens else "too long for the model, which read"
        yield f"{outcome.cut:,} of them were {cause} {read:.0%} of their tokens"
