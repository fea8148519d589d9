"""Where training resumes in its output folder."""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from hf_summ.checkpoints.folders import check_fits, checkpoint_folders, resume_problem
from hf_summ.common.records import changed, shown
from hf_summ.training.arguments import SummarizationTrainingArguments, flags_of
from hf_summ.training.folder.ledger import Ledger

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resumption:
    """Where a training run resumes.

    Args:
        checkpoint: the folder from which it resumes; None if it starts.
        changes: settings that differ from those at its start, and apply from now on.
        is_trained: whether the same training run is complete already.
        discarded: the output folder's checkpoints of another run, which this one replaces.
    """

    checkpoint: str | None = None
    changes: tuple[str, ...] = ()
    is_trained: bool = False
    discarded: tuple[Path, ...] = ()


def find_resumption(
    training: SummarizationTrainingArguments, ledger: Ledger, description: Mapping[str, Any], model: PreTrainedModel
) -> Resumption:
    """Where training resumes in its output folder; an empty resumption without `do_train`.

    It resumes from the last complete checkpoint. `--resume_from_checkpoint` may name another one, or `no` for none.
    This applies once: if the same command is repeated, the run resumes from its last checkpoint.

    Args:
        description: the run's, see `describe`.
        model: as built, without the weights of a checkpoint.

    Raises:
        ValueError: as `named_checkpoint`; or the settings differ from those at the start of the run, or the checkpoint
            belongs to another model or optimizer.
    """
    if not training.do_train:
        return Resumption()
    folder, checkpoint, before = training.output_dir, named_checkpoint(training), ledger.steps.get("train")
    changes = _changes(before, description)
    is_same = before is not None and not changes and _are_equal(before, description, ["resume_from_checkpoint"])
    if checkpoint is not None and not is_same:
        # later checkpoints, or those of another run
        checkpoints = checkpoint_folders(folder)
        last = next((step for step, path in checkpoints if path.resolve() == Path(checkpoint).resolve()), -1)
        discarded = tuple(path for step, path in checkpoints if step > last)
        if checkpoint == "no":
            return Resumption(discarded=discarded)
        changes = _changes(Ledger(Path(checkpoint).parent).steps.get("train"), description)
        return _checked(Resumption(checkpoint, tuple(changes), discarded=discarded), training, model)
    is_trained = before is not None and ledger.is_finished("train")
    if is_same and is_trained and _is_same_training(before, description):
        return Resumption(is_trained=True)
    checkpoint = last_complete_checkpoint(folder) or (None if checkpoint == "no" else checkpoint)
    if checkpoint is None and not is_trained:
        # nothing is lost by starting over
        changes = []
    if changes and is_trained and _are_equal(before, description, ["max_steps", "num_train_epochs"]):
        # no updates are left to which the changes could apply
        checkpoint = None
    return _checked(Resumption(checkpoint, tuple(changes)), training, model)


def _changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """The settings by which the updates of two training runs differ, as `name BEFORE, now NOW`."""
    return [] if before is None else changed(before["updates"], now["updates"])


def _is_same_training(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether all settings on which the trained model depends are equal, including those of its evaluations."""
    data = before["data"].keys() & now["data"].keys()
    names = flags_of("data", "model", "training") - flags_of("reporting")
    return all(before["data"][split] == now["data"][split] for split in data) and _are_equal(before, now, names)


def _are_equal(before: Mapping[str, Any], now: Mapping[str, Any], settings: Iterable[str]) -> bool:
    return all(before["settings"].get(name) == now["settings"].get(name) for name in settings)


def named_checkpoint(training: SummarizationTrainingArguments) -> str | None:
    """The checkpoint named by --resume_from_checkpoint, `no`, or None for the run's last one.

    Raises:
        ValueError: training cannot resume from it.
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


def _checked(resumption: Resumption, training: SummarizationTrainingArguments, model: PreTrainedModel) -> Resumption:
    """The resumption.

    Raises:
        ValueError: settings changed without --accept_changes, or there is no checkpoint from which the changes could
            apply, or the checkpoint does not fit.
    """
    checkpoint = resumption.checkpoint
    if resumption.changes and not (training.accept_changes and checkpoint):
        accept = f"; --accept_changes resumes from {checkpoint} with the changes" if checkpoint else ""
        raise ValueError(
            f"--output_dir {training.output_dir}: its run has other settings ({shown(resumption.changes)}): give "
            f"another folder, or start over there, without its checkpoints, with --resume_from_checkpoint no{accept}"
        )
    if checkpoint is not None:
        check_fits(checkpoint, model)
        _check_optimizer(checkpoint, training)
    return resumption


def _check_optimizer(checkpoint: str, training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError if a checkpoint was written with another type of optimizer."""
    path = Path(checkpoint) / "training_args.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    before = settings.get("optimizer") or settings.get("optim")
    now = training.optimizer or str(getattr(training.optim, "value", training.optim))
    if before not in (None, now):
        raise ValueError(
            f"{checkpoint}: its optimizer is {before}, whose state {now} cannot load: keep --optimizer and --optim "
            "unchanged, or start over with --resume_from_checkpoint no"
        )


def last_complete_checkpoint(folder: str | os.PathLike) -> str | None:
    """Path of the newest `checkpoint-<step>` from which training can resume, or None; skipped ones give a warning."""
    for _, checkpoint in reversed(checkpoint_folders(folder)):
        problem = resume_problem(checkpoint)
        if problem is None:
            return str(checkpoint)
        logger.warning(f"{checkpoint} is skipped: {problem}")
    return None
