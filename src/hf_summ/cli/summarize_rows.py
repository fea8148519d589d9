"""`hf-summ summarize` for rows of files and data sets, in shards."""

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
    checkpoint_identity,
    decoding_settings,
    find_model,
    load_summarizer,
    read_phrases,
)
from hf_summ.common.flags import flag, flags_in, values_of
from hf_summ.common.messages import print_note
from hf_summ.common.processes import end_on_sigterm
from hf_summ.data.files import is_row_file
from hf_summ.models.checks import Range

# flags of documents in text files, which have no effect on rows
_OF_DOCUMENTS = ("together", "details")
_OF_HUB = ("dataset_name",)


@dataclass
class RowFlags:
    """Rows of files and data sets, written in shards to a folder."""

    text_column: str | None = flag(
        "data", "Column of the documents", unset="the first usual name, such as document, article or text"
    )
    csv_separator: str | None = flag("data", "Separator of the fields in CSV files", unset="a comma; a tab in .tsv")
    dataset_name: str | None = flag("data", "Data set on the Hub, instead of files", unset="files")
    dataset_config_name: str | None = flag(
        "data", "Configuration of that data set", unset="its only one", needs=_OF_HUB
    )
    split: str = flag("data", "Split of that data set", "train", needs=_OF_HUB)
    columns: list[str] | None = flag("data", "Columns to keep in the output", unset="all", nargs="+", metavar="COLUMN")
    output_column: str = flag("data", "Column for the summaries", "summary")
    rows_per_shard: int = flag(
        "reporting", "Number of rows per shard; an interrupted run repeats its unfinished shards", 1000, range=Range(1)
    )
    num_processes: int | None = flag(
        "reporting",
        "Number of processes, each with its own model",
        unset="1, with --engine ray its GPUs or CPUs",
        range=Range(1),
    )
    engine: Literal["local", "ray"] = flag("reporting", "Run on this machine, or on all of a Ray cluster", "local")
    ray_address: str | None = flag(
        "reporting", "Address of the Ray cluster", unset="a new cluster on this machine", needs=("engine=ray",)
    )


def has_rows(arguments: argparse.Namespace) -> bool:
    """Whether a command summarizes rows: of a data set, of files of rows, or of a named column.

    Raises:
        ValueError: some of the files have rows and some do not, or flags of rows are given without rows.
    """
    row_files = [file for file in arguments.files if is_row_file(file)]
    if arguments.text_column is not None or arguments.dataset_name is not None:
        return True
    if not row_files:
        for name, row_flag in flags_in(RowFlags).items():
            if getattr(arguments, name) != row_flag.default:
                raise ValueError(f"--{name}: needs files of rows, such as .jsonl or .csv, or --dataset_name")
        return False
    if len(row_files) < len(arguments.files):
        raise ValueError(f"{row_files[0]} is a file of rows, and others are not: summarize them by two commands")
    return True


def run_rows(arguments: argparse.Namespace) -> None:
    """Summarize the rows."""
    if arguments.format == "text":
        raise ValueError("--format text: for rows, it must be one of parquet, jsonl")
    if arguments.output is None:
        raise ValueError("--output: rows need a folder, or one .parquet, .jsonl, .jsonl.gz or .csv file")
    for name in _OF_DOCUMENTS:
        if getattr(arguments, name):
            raise ValueError(f"--{name}: has no effect on rows: omit it")
    from hf_summ.offline.engines import Work
    from hf_summ.offline.run import run_plan
    from hf_summ.runtimes.documents import SOURCES

    phrases = read_phrases(arguments.phrase)
    decoding = {**decoding_settings(arguments), **values_of(arguments, LengthFlags)}
    plan = _make_plan(arguments)
    # before the model, whose libraries load slowly
    plan.check()
    for name, (_, noun) in SOURCES.items():
        is_replaced = name == "phrases" and phrases is not None
        if name in plan.rows.column_names and not is_replaced:
            print_note(f"models that read {noun} take those in the column {name}: rename it to leave them out")
    arguments.interrupted = f"rerun the command to resume in {arguments.output}"
    end_on_sigterm()
    find_model(arguments)
    settings = {**checkpoint_identity(arguments), "int8": arguments.int8, **decoding}
    settings |= {"dtype": arguments.dtype, "seed": arguments.seed}
    optional = {"phrases": phrases, "source_prefix": arguments.source_prefix, **values_of(arguments, ExtractionFlags)}
    settings |= {name: value for name, value in optional.items() if value is not None}
    if Path(arguments.model).is_dir():
        # other processes may have another working directory
        arguments.model = os.path.realpath(arguments.model)
    work = Work(
        load=partial(_load, arguments),
        settings=decoding,
        batch_size=arguments.batch_size,
        phrases=phrases,
        seed=arguments.seed or 0,
        uses_torch=arguments.runtime != "onnx",
    )
    outcome = run_plan(plan, settings, _engine(arguments, work, plan), print_note)
    for message in _notes(outcome, arguments, plan):
        print_note(message)


def _make_plan(arguments: argparse.Namespace) -> Any:
    """The rows and their division into shards."""
    import datasets

    from hf_summ.data.columns import choose_text_column
    from hf_summ.data.files import files_of, read_files
    from hf_summ.offline.shards import Plan, destination

    if (arguments.dataset_name is None) == (not arguments.files):
        raise ValueError("rows are those of files or of --dataset_name: give one of them")
    paths: list[str] = []
    if arguments.dataset_name is None:
        paths = files_of(arguments.files)
        encoding = None if arguments.encoding == "utf-8" else arguments.encoding
        rows = read_files(paths, csv_separator=arguments.csv_separator, encoding=encoding)
    else:
        rows = datasets.load_dataset(arguments.dataset_name, arguments.dataset_config_name, split=arguments.split)
    where = arguments.dataset_name or paths[0]
    column = choose_text_column(rows, arguments.text_column, where)
    written_to = destination(arguments.output, arguments.format)
    return Plan(
        rows=rows,
        text_column=column,
        columns=arguments.columns,
        output_column=arguments.output_column,
        rows_per_shard=arguments.rows_per_shard,
        folder=written_to.folder,
        format=written_to.format,
        file=written_to.file,
        inputs=tuple(Path(path) for path in paths),
        csv_separator=arguments.csv_separator or ",",
    )


def _load(arguments: argparse.Namespace, device: str | None = None):
    return load_summarizer(arguments, device=arguments.device or device)


def _engine(arguments: argparse.Namespace, work: Any, plan: Any):
    from hf_summ.offline.engines import in_processes, in_this_process, on_ray

    number = arguments.num_processes
    if arguments.engine == "ray":
        return partial(on_ray, work, plan, number=number, address=arguments.ray_address)
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
        yield f"{outcome.cut:,} of them were {cause} {read:.0%} of their text"
