"""`hf-summ summarize` for rows of files and data sets, in shards."""

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hf_summ.checkpoints.decoding import extracts
from hf_summ.cli.summarizers import (
    ExtractionFlags,
    LengthFlags,
    checkpoint_identity,
    decoding_settings,
    find_model,
    load_summarizer,
    loading,
    read_phrases,
)
from hf_summ.common.flags import flag, flags_in, values_of
from hf_summ.common.hashes import content_hash, hashes_while_read
from hf_summ.common.messages import print_note
from hf_summ.data.files import is_row_file
from hf_summ.models.checks import Range
from hf_summ.runtimes.folders import model_identity

if TYPE_CHECKING:
    from datasets import Dataset

    from hf_summ.offline.engines import Outcome, Work
    from hf_summ.offline.run import Engine
    from hf_summ.offline.shards import Plan
    from hf_summ.runtimes.documents import DocumentSummarizer

# The flags that only summaries of text files have.
_TEXT_FILE_FLAGS = ("together", "details")
# The flags of a data set on the Hub have an effect if this condition holds.
_NEEDS_DATASET = ("dataset_name",)


@dataclass
class RowFlags:
    """Rows of files and data sets, written in shards to a folder."""

    text_column: str | None = flag(
        "data", "Column of the documents", unset="the first usual name, such as document, article or text"
    )
    csv_separator: str | None = flag("data", "Separator of the fields in CSV files", unset="a comma; a tab in .tsv")
    dataset_name: str | None = flag("data", "Data set on the Hub, instead of files", unset="files")
    dataset_config_name: str | None = flag(
        "data", "Configuration of that data set", unset="its only one", needs=_NEEDS_DATASET
    )
    split: str = flag("data", "Split of that data set", "train", needs=_NEEDS_DATASET)
    columns: list[str] | None = flag("data", "Columns to keep in the output", unset="all", nargs="+", metavar="COLUMN")
    output_column: str = flag("data", "Column for the summaries", "summary")
    rows_per_shard: int = flag(
        "reporting", "Number of rows per shard; an interrupted run repeats its unfinished shards", 1000, range=Range(1)
    )
    num_processes: int | None = flag(
        "reporting",
        "Number of processes, each with its own model",
        unset="1; with --engine ray, the number of its GPUs or, without GPUs, of its CPUs",
        range=Range(1),
    )
    engine: Literal["local", "ray"] = flag(
        "reporting", "Run on this machine (local), or on a Ray cluster (ray)", "local"
    )
    ray_address: str | None = flag(
        "reporting", "Address of the Ray cluster", unset="a new cluster on this machine", needs=("engine=ray",)
    )


def has_rows(arguments: argparse.Namespace) -> bool:
    """Whether the command line names rows: a data set, files of rows, or a column.

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
    """Summarize the rows, print notes on the outcome, and leave the summaries in the folder or the file of --output."""
    _check(arguments)
    from hf_summ.offline.engines import Work
    from hf_summ.offline.run import run_plan

    phrases = read_phrases(arguments.phrase)
    decoding = {**decoding_settings(arguments), **values_of(arguments, LengthFlags)}
    plan = _make_plan(arguments)
    # Faults of the rows are reported before the model is loaded, whose libraries load slowly.
    plan.check()
    for note in _notes_on_columns(plan, has_phrases=phrases is not None):
        print_note(note)
    arguments.interrupted = f"rerun the command to resume in {arguments.output}"
    find_model(arguments)
    settings = _recorded_settings(arguments, decoding, phrases)
    if Path(arguments.model).is_dir():
        # Other processes may have another working directory.
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
    for note in _notes_on_outcome(outcome, arguments, plan):
        print_note(note)


def _check(arguments: argparse.Namespace) -> None:
    """Raise a ValueError for flags that have no effect on rows, or if no output is named."""
    if arguments.format == "text":
        raise ValueError("--format text: for rows, it must be one of parquet, jsonl")
    if arguments.output is None:
        raise ValueError("--output: rows need a folder, or one .parquet, .jsonl, .jsonl.gz or .csv file")
    for name in _TEXT_FILE_FLAGS:
        if getattr(arguments, name):
            raise ValueError(f"--{name}: has no effect on rows: omit it")


def _make_plan(arguments: argparse.Namespace) -> "Plan":
    """The rows and their division into shards.

    Raises:
        ValueError: the rows cannot be read, or a file changes while it is read; or both files and --dataset_name are
            given, or neither.
    """
    from hf_summ.data.columns import choose_text_column
    from hf_summ.data.files import files_of
    from hf_summ.offline.shards import Plan, destination

    if (arguments.dataset_name is None) == (not arguments.files):
        raise ValueError("rows are those of files or of --dataset_name: give one of them")
    paths: list[str] = []
    if arguments.dataset_name is None:
        paths = files_of(arguments.files)
    with hashes_while_read(paths) as hashes:
        rows = _read_rows(arguments, paths)
    # Messages about columns name the data set or the first file.
    source = arguments.dataset_name or paths[0]
    column = choose_text_column(rows, arguments.text_column, source)
    output = destination(arguments.output, arguments.format)
    return Plan(
        rows=rows,
        text_column=column,
        columns=arguments.columns,
        output_column=arguments.output_column,
        rows_per_shard=arguments.rows_per_shard,
        folder=output.folder,
        format=output.format,
        file=output.file,
        inputs=tuple([Path(path) for path in paths]),
        input_hashes=hashes,
        csv_separator=arguments.csv_separator or ",",
        encoding=arguments.encoding,
    )


def _read_rows(arguments: argparse.Namespace, paths: list[str]) -> "Dataset":
    """The rows of the data set of --dataset_name or, without this flag, of the files with these paths."""
    import datasets

    from hf_summ.data.files import read_files

    if arguments.dataset_name is not None:
        return datasets.load_dataset(arguments.dataset_name, arguments.dataset_config_name, split=arguments.split)
    return read_files(paths, csv_separator=arguments.csv_separator, encoding=arguments.encoding)


def _notes_on_columns(plan: "Plan", has_phrases: bool) -> Iterator[str]:
    """A note for each column that some models read besides the documents.

    Args:
        has_phrases: whether the user gave key phrases, which replace the key phrases in a column.
    """
    from hf_summ.runtimes.documents import EXTRA_INPUTS

    for name, (_, noun) in EXTRA_INPUTS.items():
        is_replaced = name == "phrases" and has_phrases
        if name in plan.rows.column_names and not is_replaced:
            yield f"models that read {noun} take those in the column {name}: rename it to leave them out"


def _recorded_settings(
    arguments: argparse.Namespace, decoding: Mapping[str, object], phrases: dict[str, float] | None
) -> dict[str, object]:
    """What determines the summaries besides the rows. A run resumes only with the same settings.

    Args:
        decoding: settings of the pipeline's call.
        phrases: key phrases with their values, if the user gave some.
    """
    settings = {**checkpoint_identity(arguments), "int8": arguments.int8, **decoding}
    settings["dtype"] = arguments.dtype
    settings["seed"] = arguments.seed
    # These are recorded only if they are set.
    optional_settings = {"phrases": phrases, "source_prefix": arguments.source_prefix}
    optional_settings.update(values_of(arguments, ExtractionFlags))
    # The contents of the stage's file and of its model determine the summaries, and not their names.
    if arguments.extract_idf is not None:
        optional_settings["extract_idf"] = content_hash(arguments.extract_idf)
    if arguments.next_sentence_model is not None:
        with loading(arguments.next_sentence_model, "next_sentence_model"):
            optional_settings["next_sentence_model"] = model_identity(arguments.next_sentence_model, None)
    for name, value in optional_settings.items():
        if value is not None:
            settings[name] = value
    return settings


def _load(arguments: argparse.Namespace, device: str | None = None) -> "DocumentSummarizer":
    """Load the model of the flags, by default on this device."""
    return load_summarizer(arguments, device=arguments.device or device)


def _engine(arguments: argparse.Namespace, work: "Work", plan: "Plan") -> "Engine":
    """The function that summarizes the shards of the plan, in this process, in several, or on a Ray cluster."""
    from hf_summ.offline.engines import in_processes, in_this_process, on_ray

    processes = arguments.num_processes
    if arguments.engine == "ray":
        return partial(on_ray, work, plan, tasks=processes, address=arguments.ray_address)
    if processes in (None, 1):
        return partial(in_this_process, work, plan)
    return partial(in_processes, work, plan, processes=processes)


def _notes_on_outcome(outcome: "Outcome", arguments: argparse.Namespace, plan: "Plan") -> Iterator[str]:
    """Notes on what this run has done, and on rows with a summary that may not be as expected.

    Args:
        outcome: the counts of this run's rows, without those of earlier runs that it resumed. Only `shards` counts all
            shards in the folder.
        plan: the shards, whose `file` is None if they are the output.
    """
    output = arguments.output
    if plan.file is None:
        unit = "shard" if outcome.shards == 1 else "shards"
        output = f"{outcome.shards:,} {unit} in {output}"
    if outcome.rows:
        yield f"{outcome.rows:,} rows summarized: {output}"
    else:
        yield f"nothing is left to do: {output}"
    if outcome.failed:
        yield f"{outcome.failed:,} of these rows have no summary: see their column 'error'"
    if outcome.empty:
        yield f"{outcome.empty:,} of these rows have an empty summary: set --min_new_tokens for longer ones"
    if outcome.unfinished:
        yield (
            f"{outcome.unfinished:,} of these rows have a summary with the most tokens allowed: raise --max_new_tokens "
            "if summaries are cut off"
        )
    if outcome.cut:
        has_stage = extracts(vars(arguments))
        cause = "too long for the model, which"
        if has_stage:
            cause = "shortened by the extractive stage, and the model"
        # `source_tokens` counts the tokens of the cut rows only, of which each has at least one.
        read_share = 1 - outcome.cut_tokens / outcome.source_tokens
        yield f"{outcome.cut:,} of these rows were {cause} read {read_share:.0%} of their text"
        if has_stage and outcome.full:
            yield f"{outcome.full:,} of these rows were too long for the model, which read as many tokens as it can"
