"""What determines a run, as run.yaml describes it, and where training resumes in its output folder."""

import dataclasses
import importlib.metadata
import json
import logging
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedModel

import hf_summ
from hf_summ.checkpoints.folders import check_fits, checkpoint_folders, resume_problem
from hf_summ.checkpoints.overrides import BOOKKEEPING
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.common.records import changed, shown
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.training.arguments import GROUPS, REPEATABLE, RunArguments, SummarizationTrainingArguments, flags_of
from hf_summ.training.folder.ledger import Ledger
from hf_summ.training.model import Built
from hf_summ.training.rows.extraction import Extraction
from hf_summ.training.rows.preparing import processor_fingerprint

logger = logging.getLogger(__name__)

# libraries whose versions a run depends on
LIBRARIES = ("transformers", "torch", "datasets", "tokenizers")
# keys of a config that are no settings: libraries set them, or training changes them
_NOT_SETTINGS = (*BOOKKEEPING, "dtype", "epochs_trained", "_attn_implementation_internal")
# schedules of transformers whose rates do not depend on the length of the run
_ENDLESS = ("constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau")


def describe(
    arguments: RunArguments,
    argv: Sequence[str],
    corpus: datasets.DatasetDict,
    built: Built,
    extraction: Extraction | None,
) -> dict[str, Any]:
    """A run's description, ready for YAML: its command, versions, data, all settings except secrets, and `updates`.

    The latter are all that determines the run's updates: an interrupted run resumes only with the same.

    Args:
        argv: the command line of the arguments.
        corpus: the splits that are used.
        built: the model, the processor and the lengths.
        extraction: the stage that shortens documents, if any.
    """
    data = {split: _data_of(arguments.corpus, split, rows, extraction) for split, rows in corpus.items()}
    groups = [group for group in vars(arguments).values() if isinstance(group, GROUPS)]
    settings = {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}
    description = {
        "command": command_line(argv, arguments.training.world_size),
        "versions": {"hf_summ": hf_summ.__version__} | {name: importlib.metadata.version(name) for name in LIBRARIES},
        "data": data,
        "updates": _updates(settings, arguments.training, data.get("train", {}), built),
        "settings": {
            name: value
            for name, value in sorted(settings.items())
            if name not in flags_of("secret") and value not in (None, "", [], {})
        },
    }
    # enumerations and paths become strings
    return json.loads(json.dumps(description, default=str))


def _data_of(corpus: Corpus, split: str, rows: datasets.Dataset, extraction: Extraction | None) -> dict[str, Any]:
    if split in corpus.files:
        origin: dict[str, Any] = {"files": {str(path): content_hash(path) for path in corpus.paths(split)}}
    elif isinstance(rows, datasets.IterableDataset):
        origin = {"name": corpus.dataset_name, "configuration": corpus.dataset_config_name}
    else:
        origin = {"name": corpus.dataset_name, "fingerprint": rows._fingerprint}
    if extraction is not None and split in extraction.splits:
        origin["extraction"] = extraction.fingerprint
    return {**origin, **({"streaming": True} if isinstance(rows, datasets.IterableDataset) else {"rows": len(rows)})}


def _updates(
    settings: Mapping[str, Any], training: SummarizationTrainingArguments, data: Mapping[str, Any], built: Built
) -> dict[str, Any]:
    """All that determines a run's updates: settings, the values of the model's config, data and processor."""
    counted = flags_of("updates") | set(names(Corpus)) - {file_flag(split) for split in SPLITS}
    # the number of batches per update counts, not the number of devices
    counted -= {"max_steps", "num_train_epochs", "gradient_accumulation_steps"}
    if _schedule_needs_length(training):
        counted |= {"max_steps" if training.max_steps > 0 else "num_train_epochs"}
    if training.train_tokens_per_batch is not None:
        counted -= {"per_device_train_batch_size"}
    if settings["streaming"]:
        # workers shuffle a stream in other orders
        counted |= {"dataloader_num_workers"}
    # the names of files do not count
    texts = [*data.get("files", {}).values(), data.get("fingerprint"), data.get("extraction")]
    return {
        **{name: settings[name] for name in sorted(counted)},
        "gradient_accumulation_steps × processes": training.gradient_accumulation_steps * training.world_size,
        **_flat(built.model.config.to_dict(), "config_overrides "),
        "content of the training data": " ".join(filter(None, texts)),
        "max_source_length": built.lengths.source,
        "max_target_length": built.lengths.target,
        "processor": processor_fingerprint(built.processor)[:16],
    }


def _flat(tree: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The settings of a config by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if name not in _NOT_SETTINGS:
            flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _schedule_needs_length(training: SummarizationTrainingArguments) -> bool:
    """Whether the learning rates depend on the length of the run."""
    if training.schedule is not None:
        is_open = training.schedule == "noam" or training.schedule_period is not None
    else:
        is_open = str(getattr(training.lr_scheduler_type, "value", training.lr_scheduler_type)) in _ENDLESS
    return not is_open or 0 < training.warmup_steps < 1


def command_line(argv: Sequence[str], processes: int, separator: str = " ") -> str:
    """The command with these arguments, each flag once, without those that contain secrets.

    Args:
        separator: the text between a flag with its values and the next flag.
    """
    lines = [["hf-summ", "train"] if processes == 1 else ["accelerate", "launch", "-m", "hf_summ.training"]]
    for token in argv:
        if token.startswith("--"):
            lines.append([])
        lines[-1].append(token)
    last: dict[Any, list[str]] = {}
    for index, line in enumerate(lines):
        name = line[0].split("=")[0].lstrip("-").replace("-", "_")
        # of a flag that is given again, only the last value has an effect
        key = index if name in REPEATABLE else name
        last.pop(key, None)
        if name not in flags_of("secret"):
            last[key] = line
    return separator.join(map(shlex.join, last.values()))


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
    """The checkpoint named by --resume_from_checkpoint, `no`, or None for the run's last one."""
    checkpoint = training.resume_from_checkpoint
    if checkpoint is None or checkpoint.lower() in ("true", "yes"):
        return None
    if checkpoint.lower() in ("false", "no"):
        return "no"
    problem = resume_problem(checkpoint)
    if problem is not None:
        raise ValueError(f"--resume_from_checkpoint {checkpoint}: {problem}")
    return checkpoint


def _checked(resumption: Resumption, training: SummarizationTrainingArguments, model: PreTrainedModel) -> Resumption:
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
