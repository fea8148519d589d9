"""A run over all shards, which goes on where it was killed."""

import importlib.metadata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from hf_summ.common.files import content_hash
from hf_summ.common.hub import check_within_reach
from hf_summ.common.messages import one_line, progress_bar
from hf_summ.common.records import changed, read_record, shown, write_record
from hf_summ.offline.engines import Progress
from hf_summ.offline.shards import Plan, Summarized

RECORD, LOCK = "summaries.yaml", ".lock"

# summarizes what is not done, and reports its progress in rows
Engine = Callable[[set[int], Progress], Iterator[Summarized]]


@dataclass
class Outcome:
    """What a run did.

    Args:
        shards: number of shards in the folder.
        rows: number of rows that this run summarized, and of which
        failed: have no summary,
        cut: were cut.
        source_tokens, cut_tokens: tokens of the documents that were cut, and how many of them were cut off.
        unlike: how many rows are unlike the documents of the model's training, and
        difference: what the first of them has.
    """

    shards: int = 0
    rows: int = 0
    failed: int = 0
    cut: int = 0
    source_tokens: int = 0
    cut_tokens: int = 0
    unlike: int = 0
    difference: str = ""

    def add(self, shard: Summarized) -> None:
        """Count a shard."""
        self.shards += 1
        self.rows += len(shard.rows)
        self.failed += sum(bool(row["error"]) for row in shard.rows)
        cut = [row for row in shard.rows if row["cut_tokens"]]
        self.cut += len(cut)
        self.source_tokens += sum(row["source_tokens"] for row in cut)
        self.cut_tokens += sum(row["cut_tokens"] for row in cut)
        self.unlike += len(shard.unlike)
        self.difference = self.difference or next(iter(shard.unlike), "")


def summarize_rows(plan: Plan, settings: dict[str, Any], engine: Engine) -> Outcome:
    """Summarize the shards that are not yet in the plan's folder, which is made if necessary.

    This process alone writes files, each shard's completely or not at all, so that every row is in the folder once,
    whatever is killed when. `summaries.yaml` there says what the summaries are of.

    Args:
        plan: the shards.
        settings: which model and which settings give the summaries.
        engine: summarizes shards.

    Raises:
        ValueError: as `Plan.check`; or the folder is a file, has other content or summaries of other settings, or
            another command works in it; or as `Plan.done`.
        OSError: a file cannot be written.
    """
    plan.check()
    folder = plan.folder
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output {folder}: a file; name a folder, which need not exist")
    record = read_record(
        folder / RECORD, lambda content: None if isinstance(content["summaries"], dict) else "no summaries"
    )
    if record is None and folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise ValueError(
            f"--output {folder}: has files, but no {RECORD}: name an empty folder, or one that does not exist"
        )
    now = {
        **settings,
        **plan.source.identity,
        "text_column": plan.text_column,
        "columns": plan.kept,
        "output_column": plan.output_column,
        "rows_per_shard": plan.rows_per_shard,
        "format": plan.format,
    }
    before = {} if record is None else record["summaries"]
    # what was set and is now left out is other too
    differences = changed(before, {**dict.fromkeys(before), **now}) if before else []
    # a run that ended before its first shard, such as by a wrong setting, restricts no other
    if differences and any(folder.glob("shard-*")):
        raise ValueError(f"--output {folder}: has summaries of another run ({shown(differences)}): name another folder")
    with _locked(folder):
        if not before or differences:
            versions = {name: importlib.metadata.version(name) for name in ("hf-summ", "transformers", "torch")}
            write_record(folder / RECORD, {"summaries": now, "versions": versions})
        return _summarize(plan, engine)


def _locked(folder: Path) -> AcquireReturnProxy:
    """A context in which the folder, which is made if necessary, is this command's alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise ValueError(f"--output {folder}: another command writes there: wait for its end, or end it") from None
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise OSError(f"--output {folder}: cannot be written ({reason}): name another folder") from error


def _summarize(plan: Plan, engine: Engine) -> Outcome:
    # of a run that was killed as it wrote
    for part in plan.folder.glob(".shard-*.part"):
        part.unlink()
    done = plan.done()
    outcome = Outcome(shards=len(done))
    if outcome.shards == plan.number:
        return outcome
    before = len(done) * plan.rows_per_shard
    with progress_bar(None, "summarizing", plan.source.number, unit="row", initial=before) as bar:
        for shard in engine(done, bar.update):
            plan.write(shard)
            outcome.add(shard)
    return outcome


def model_identity(model: str, revision: str | None) -> dict[str, Any]:
    """What a checkpoint is, for a record: its name, and its commit or, of a folder, a hash of the content."""
    folder = Path(model)
    if folder.is_dir():
        kinds = (".safetensors", ".json", ".txt", ".model", ".onnx", ".py", ".bin")
        files = sorted(path for path in folder.iterdir() if path.suffix in kinds and path.is_file())
        # a folder may be moved
        return {"model": folder.resolve().name, "content": {path.name: content_hash(path) for path in files}}
    from transformers import PreTrainedConfig

    check_within_reach(model, revision)
    config, _ = PreTrainedConfig.get_config_dict(model, revision=revision)
    return {"model": model, "content": config.get("_commit_hash")}
