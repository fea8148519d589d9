"""How a run goes on in its output folder: alone, with the settings it began with, from a checkpoint of its own."""

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from transformers import PreTrainedModel

from hf_summ.common.records import shown
from hf_summ.training.adapters import trained_weights
from hf_summ.training.arguments import SummarizationTrainingArguments, flags_of
from hf_summ.training.checkpoints import has_checkpoints, last_complete_checkpoint, resume_problem
from hf_summ.training.records import RunRecord, differences

logger = logging.getLogger(__name__)

LOCK = ".run.lock"


@dataclass(frozen=True)
class Resumption:
    """Where a training goes on.

    Args:
        checkpoint: the folder it goes on from; None if it starts.
        start: which start in the output folder it belongs to, see `RunRecord.start`.
        changes: settings other than those it began with, which apply from here on.
        is_trained: whether nothing is left to do, because the same training is complete.
    """

    checkpoint: str | None = None
    start: int = 1
    changes: tuple[str, ...] = ()
    is_trained: bool = False

    @property
    def noted_changes(self) -> list[str]:
        """The changes as run.yaml notes them."""
        return [f"from {Path(str(self.checkpoint)).name} on: {change}" for change in self.changes]


def check_folder(training: SummarizationTrainingArguments) -> None:
    """Check that the output folder can be created or written to, without creating it.

    Raises:
        ValueError: a file is in the way, or the folder is read-only.
    """
    folder = Path(training.output_dir).absolute()
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ValueError(f"--output_dir {training.output_dir}: {there} is not a folder: name another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"--output_dir {training.output_dir}: {there} is read-only: name another folder")


def check_room(training: SummarizationTrainingArguments, model: PreTrainedModel) -> None:
    """Check that the output folder's disk has room for the trained model and, if checkpoints are saved, for one.

    Raises:
        ValueError: it has not.
    """
    weights = sum(tensor.numel() * tensor.element_size() for tensor in trained_weights(model).values())
    # Adam, AdamW and Adadelta keep two numbers for each that is trained, others fewer
    optimizer = training.optimizer or str(getattr(training.optim, "value", training.optim))
    has_moments = optimizer.startswith("ada") and "8bit" not in optimizer and optimizer != "adafactor"
    trained = sum(parameter.numel() * 4 for parameter in model.parameters() if parameter.requires_grad)
    state = 2 * trained if has_moments and not training.save_only_model else 0
    needed = weights + (0 if training.save_strategy == "no" else weights + state)
    folder = Path(training.output_dir).absolute()
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        what = "the model needs" if training.save_strategy == "no" else "a checkpoint and the model need"
        raise ValueError(
            f"--output_dir {training.output_dir}: {what} {needed / 2**20:,.0f} MiB, but {free / 2**20:,.0f} MiB are "
            "free there: make room, or name a folder on another disk"
        )


def lock_folder(training: SummarizationTrainingArguments) -> FileLock | None:
    """Create a run's output folder and reserve it until the lock is released; None in processes that do not write.

    Raises:
        ValueError: another run works in the folder, or it cannot be written to.
    """
    if not training.has_output_dir or training.process_index != 0:
        return None
    lock = FileLock(Path(training.output_dir) / LOCK)
    try:
        Path(training.output_dir).mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"--output_dir {training.output_dir}: another run is working there: wait for its end, or give another "
            "folder"
        ) from None
    except NotImplementedError:
        # file systems of some clusters have no locks
        logger.warning(f"{training.output_dir} cannot be locked: start no other run there")
    except OSError as error:
        raise ValueError(
            f"--output_dir {training.output_dir}: cannot be written to ({error.strerror}): name another folder"
        ) from None
    return lock


def find_resumption(
    training: SummarizationTrainingArguments, record: RunRecord, description: Mapping[str, Any]
) -> Resumption:
    """Where this training goes on in its output folder.

    It goes on from the last complete checkpoint. `--resume_from_checkpoint` may name another one, or `no` for none;
    this is done once: when the same command is given again, the training goes on from its own checkpoints.

    Args:
        description: what the run is of, see `describe`.

    Raises:
        ValueError: as `named_checkpoint`; or the settings differ from those that the training began with.
    """
    named = named_checkpoint(training)
    before = record.of("train") or {}
    changes = differences(before, description, training) if before else []
    is_same = bool(before) and not changes and _named_by(before) == _named_by(description)
    if named is not None and not is_same:
        checkpoint = None if named == "no" else named
        folder = Path(training.output_dir)
        # checkpoints that are there are not this training's
        start = record.start + has_checkpoints(folder)
        changes = [] if checkpoint is None else _changes_since(checkpoint, description, training)
        return Resumption(checkpoint, start, _accepted(training, changes, str(checkpoint)))
    if is_same and record.has_finished("train") and _is_same_training(before, description):
        return Resumption(start=record.start, is_trained=True)
    checkpoint = last_complete_checkpoint(training.output_dir)
    if checkpoint is None and named not in (None, "no"):
        checkpoint = named
    if checkpoint is None and not record.has_finished("train"):
        # nothing is lost by starting over
        changes = []
    if changes and record.has_finished("train") and _length(before) == _length(description):
        # no update is left to which they could apply
        checkpoint = None
    return Resumption(checkpoint, record.start, _accepted(training, changes, checkpoint))


def _named_by(description: Mapping[str, Any]) -> str | None:
    return description["settings"].get("resume_from_checkpoint")


def _length(description: Mapping[str, Any]) -> list[Any]:
    return [description["settings"].get(name) for name in ("max_steps", "num_train_epochs")]


def named_checkpoint(training: SummarizationTrainingArguments) -> str | None:
    """The checkpoint named by --resume_from_checkpoint, `no`, or None for the run's last one.

    Raises:
        ValueError: it cannot be resumed from.
    """
    named = training.resume_from_checkpoint
    if named is None or named.lower() in ("true", "yes"):
        return None
    if named.lower() in ("false", "no"):
        return "no"
    problem = resume_problem(named)
    if problem is not None:
        raise ValueError(f"--resume_from_checkpoint {named}: {problem}")
    return named


def _changes_since(
    checkpoint: str, description: Mapping[str, Any], training: SummarizationTrainingArguments
) -> list[str]:
    """In what a run differs from the one that wrote a checkpoint, if that is known."""
    before = RunRecord(Path(checkpoint).parent).of("train")
    return [] if before is None else differences(before, description, training)


def _accepted(training: SummarizationTrainingArguments, changes: list[str], checkpoint: str | None) -> tuple[str, ...]:
    """The changes, if the user wants them.

    Raises:
        ValueError: there are changes without --accept_changes, or without a checkpoint from which they could apply.
    """
    if changes and not (training.accept_changes and checkpoint):
        apply = f"; --accept_changes goes on from {checkpoint} with these" if checkpoint else ""
        raise ValueError(
            f"--output_dir {training.output_dir}: its training has other settings ({shown(changes)}): give another "
            f"folder, or start over there with --resume_from_checkpoint no{apply}"
        )
    return tuple(changes)


def _is_same_training(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether every setting that the trained model depends on is the same, such as those of its evaluations."""
    counted = flags_of("data", "model", "training") - flags_of("reporting")
    old, new = ({name: side["settings"].get(name) for name in counted} for side in (before, now))
    data = [
        {split: side["data"].get(split) for split in before["data"] if split in now["data"]} for side in (before, now)
    ]
    return old == new and data[0] == data[1]
