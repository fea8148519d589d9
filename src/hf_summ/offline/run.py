"""A run over all shards, which resumes after an interruption."""

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from hf_summ.common.hashes import hashes_while_read
from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.common.records import changed, plain, read_record, shown, write_record
from hf_summ.data.columns import choose_text_column
from hf_summ.data.files import files_of, read_files
from hf_summ.models.checks import check_integer
from hf_summ.offline.engines import in_processes, in_this_process
from hf_summ.offline.shards import FORMATS, Plan, destination
from hf_summ.offline.summarizing import Outcome, Progress, Work
from hf_summ.pretrained import model_folder
from hf_summ.runtimes.folders import model_identity

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer

logger = logging.getLogger(__name__)

# Libraries that read a folder of Parquet files leave out files whose names begin with "_" or ".".
RECORD = "_summaries.yaml"
LOCK = ".lock"

# The record has the versions of these libraries, which determine the summaries, if they are installed.
_LIBRARIES = ("hf-summ", "transformers", "torch", "onnxruntime")

# A function that summarizes and writes the shards that are not finished, and yields the counts of each. It gets the
# numbers of the finished shards, and a function to which it reports its progress in rows.
Engine = Callable[[set[int], Progress], Iterator[Outcome]]


def summarize_rows(
    files: str | Path | Sequence[str | Path],
    model: str | Path,
    output: str | Path,
    *,
    text_column: str | None = None,
    columns: list[str] | None = None,
    output_column: str = "summary",
    rows_per_shard: int = 1000,
    format: str | None = None,
    num_processes: int = 1,
    batch_size: int = 8,
    device: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
    **settings: Any,
) -> Outcome:
    """Summarize the rows of files into a folder of shards, like `hf-summ summarize FILES --output FOLDER`.

    The same call resumes an interrupted run. If `output` is one file, a finished run is repeated.

    Args:
        files: .jsonl, .json, .csv, .tsv (also compressed), .parquet or .arrow files, or patterns such as
            `news/*.jsonl.gz`.
        model: the folder of a checkpoint, or the name of a bundled model or of a Hub repository.
        output: the folder, which need not exist, or one .parquet, .jsonl (also .gz) or .csv file for all rows.
        text_column: the column of the documents, by default the first usual one, such as `document`; a list of texts is
            one example of several documents.
        columns: columns to keep; all by default.
        output_column: the column for the summaries.
        rows_per_shard: number of rows that are written at a time.
        format: the format of the folder's files, `parquet` (the default) or `jsonl` (.jsonl.gz).
        num_processes: number of processes, each with its own model. With more than one, a script must call this
            function under `if __name__ == "__main__":`.
        batch_size: number of documents that are decoded together.
        device: the device of each model; by default, a GPU for each process if there are any.
        csv_separator, encoding: how to read text files, as in `hf_summ.data.Reading`. A .csv file is written with the
            same separator.
        settings: settings of the pipeline's call, such as `num_beams` and `long_documents`. A run with a function among
            them cannot be resumed by another process, which cannot tell whether it is the same function.

    Returns:
        The counts of this call, as from `run_plan`.

    Raises:
        TypeError: a number is not an integer.
        ValueError: a number is below 1, a format is unknown, several summaries of a document are wanted, a file or a
            column does not exist, a file changes while it is read, or an error of `run_plan`.
        OSError: a file cannot be read, or an error of `run_plan`.
    """
    numbers = {"rows_per_shard": rows_per_shard, "num_processes": num_processes, "batch_size": batch_size}
    for name, number in numbers.items():
        check_integer(name, number, 1)
    check_choice("`format`", format, (*FORMATS, None))
    # A row has one summary, as in the service.
    check_choice("`num_return_sequences`", settings.get("num_return_sequences"), (1, None))
    if isinstance(files, str | Path):
        files = [files]
    paths = files_of([str(file) for file in files])
    with hashes_while_read(paths) as hashes:
        rows = read_files(paths, csv_separator=csv_separator, encoding=encoding)
    column = choose_text_column(rows, text_column, paths[0])
    written_to = destination(output, format)
    plan = Plan(
        rows=rows,
        text_column=column,
        columns=columns,
        output_column=output_column,
        rows_per_shard=rows_per_shard,
        folder=written_to.folder,
        format=written_to.format,
        file=written_to.file,
        inputs=tuple(Path(path) for path in paths),
        input_hashes=hashes,
        csv_separator=csv_separator or ",",
        encoding=encoding,
    )
    name = model_folder(str(model))
    if Path(name).is_dir():
        # Other processes may have another working directory, in which a relative path would name another folder.
        name = os.path.realpath(name)
    work = Work(partial(_load, name, device), settings, batch_size)
    engine: Engine = partial(in_this_process, work, plan)
    if num_processes > 1:
        engine = partial(in_processes, work, plan, processes=num_processes)
    identity = {**model_identity(name, None), **settings}
    return run_plan(plan, identity, engine)


def _load(model: str, named_device: str | None, device: str | None = None) -> "DocumentSummarizer":
    """Load the pipeline.

    Args:
        model: the folder or the name of a checkpoint.
        named_device: the device that the user names, if any.
        device: the device if the user names none.
    """
    from transformers import pipeline

    return pipeline("summarization", model=model, device=named_device or device)


def run_plan(
    plan: Plan, settings: Mapping[str, object], engine: Engine, announce: Callable[[str], None] = logger.info
) -> Outcome:
    """Summarize the shards that are not yet in the plan's folder, which is created if necessary.

    Each shard is written completely or not at all. Thus every row is in the folder once, even if processes are killed.
    `_summaries.yaml` there describes the summaries. With `plan.file`, the shards are joined to this file at the end.

    Args:
        plan: the shards.
        settings: the model and the settings of the summaries.
        engine: summarizes and writes shards.
        announce: called with a note if the run resumes, or replaces columns.

    Returns:
        The counts of this call. `shards` also counts the shards that earlier calls have written. All other counts are
        those of the rows that this call has summarized.

    Raises:
        ValueError: the folder has other files, or summaries of another run, or another command writes there.
        OSError: a shard cannot be written.
    """
    plan.check()
    if plan.replaced_columns:
        replaced = ", ".join(plan.replaced_columns)
        announce(f"the rows are an earlier output: new columns replace {replaced}, unless `columns` chooses others")
    folder = plan.folder
    # The lock is a file too, so this is checked before it is acquired.
    if folder.is_dir() and not (folder / RECORD).exists():
        unknown_files = set(os.listdir(folder)) - {LOCK}
        if unknown_files:
            remedy = "name a new or empty folder" if plan.file is None else "name another output"
            raise ValueError(f"{plan.named_folder} has files, but no {RECORD}: {remedy}")
    with _locked(plan):
        _start_or_continue(plan, settings)
        outcome = _summarize_remaining(plan, engine, announce)
        if plan.file is not None:
            plan.join(plan.file)
        return outcome


def _start_or_continue(plan: Plan, settings: Mapping[str, object]) -> None:
    """Write the record of a new run, or check that the folder has summaries of the same run.

    The folder must be locked: until then, another command may begin and end there.

    Args:
        plan: the shards.
        settings: the model and the settings of the summaries.

    Raises:
        ValueError: the folder has summaries of another run.
    """
    run_settings = dict(settings)
    run_settings.update(_identity_of_rows(plan))
    run_settings["text_column"] = plan.text_column
    run_settings["columns"] = plan.kept_columns
    run_settings["output_column"] = plan.output_column
    run_settings["rows_per_shard"] = plan.rows_per_shard
    run_settings["format"] = plan.format
    # The settings are compared in the form in which the record gives them back.
    run_settings = plain(run_settings)
    record = read_record(plan.folder / RECORD, _record_problem)
    recorded_settings = record["summaries"] if record else {}
    if recorded_settings:
        # `changed` compares the settings that its second argument has. So a setting that is recorded, but not set now,
        # is added as None.
        differences = changed(recorded_settings, dict.fromkeys(recorded_settings) | run_settings)
        if not differences:
            return
        # A run that ended before its first shard, for example because of a wrong setting, restricts no other run.
        if plan.has_shards():
            raise ValueError(
                f"{plan.named_folder} has summaries of another run ({shown(differences)}): name another output"
            )
    write_record(plan.folder / RECORD, {"summaries": run_settings, "versions": _versions()})


def _record_problem(content: Any) -> str | None:
    """The problem with the content of a record, or None; errors on malformed content are problems too."""
    if isinstance(content["summaries"], dict):
        return None
    return "no summaries"


def _identity_of_rows(plan: Plan) -> dict[str, object]:
    """What identifies the rows: a hash of each file's content and the encoding, or the fingerprint of a data set.

    The names of files do not matter, as a file may be moved before the run is resumed. The separator of CSV files is
    not needed, as another one gives other columns.
    """
    if not plan.inputs:
        return {"rows": plan.rows._fingerprint}
    identity: dict[str, object] = {"files": list(plan.input_hashes)}
    # The default is left out, so that it does not matter whether the user names it.
    if plan.encoding not in (None, "utf-8"):
        identity["encoding"] = plan.encoding
    return identity


def _versions() -> dict[str, str]:
    """The versions of the libraries that determine the summaries, as far as they are installed."""
    versions = {}
    for name in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _locked(plan: Plan) -> AcquireReturnProxy:
    """A context in which only this command uses the plan's folder, which is created if necessary.

    Raises:
        ValueError: another command uses the folder.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(plan.folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise ValueError(f"--output {plan.output}: another command writes there: wait for its end, or end it") from None


def _summarize_remaining(plan: Plan, engine: Engine, announce: Callable[[str], None]) -> Outcome:
    """Summarize the shards that are not finished, with a progress bar.

    The counts are as for `run_plan`.
    """
    done = plan.done()
    outcome = Outcome(shards=len(done))
    if outcome.shards == plan.shard_count:
        return outcome
    if done:
        announce(f"resuming: {len(done):,} of {plan.shard_count:,} shards exist")
    finished_rows = 0
    for number in done:
        finished_rows += len(plan.rows_of(number))
    with progress_bar(None, "summarizing", len(plan.rows), unit="row", initial=finished_rows) as bar:
        for shard in engine(done, bar.update):
            outcome.add(shard)
    return outcome
