"""Resuming a run in its output folder: exclusively, from its checkpoints, with the settings in run.yaml."""

import dataclasses
import importlib.metadata
import json
import logging
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from filelock import FileLock, Timeout
from transformers import PreTrainedModel

import hf_summ
from hf_summ.checkpoints.folders import check_fits, checkpoint_folders, resume_problem, start_of
from hf_summ.checkpoints.overrides import BOOKKEEPING
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.common.records import changed, read_record, shown, write_record
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import columns_of
from hf_summ.training.arguments import RunArguments, SummarizationTrainingArguments, flags_of, repeatable
from hf_summ.training.model import Built
from hf_summ.training.rows.extraction import Extraction
from hf_summ.training.rows.preparing import processor_fingerprint

logger = logging.getLogger(__name__)

RUN_FILE, LOCK = "run.yaml", ".run.lock"
# libraries whose versions a run depends on
LIBRARIES = ("transformers", "torch", "datasets", "tokenizers")
# keys of a config that are no settings: libraries set them, or training changes them
_NOT_SETTINGS = (*BOOKKEEPING, "dtype", "epochs_trained", "_attn_implementation_internal")
# schedules of transformers whose rates do not depend on the length of the run
_ENDLESS = ("constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau")


@dataclass(frozen=True)
class Resumption:
    """Where a training run resumes.

    Args:
        checkpoint: the folder from which it resumes; None if it starts.
        start: the number of its start in the output folder, see `RunRecord.start`.
        changes: settings that differ from those at its start, and apply from now on.
        is_trained: whether the same training run is complete already.
    """

    checkpoint: str | None = None
    start: int = 1
    changes: tuple[str, ...] = ()
    is_trained: bool = False


class RunRecord:
    """The commands whose results are in an output folder, as listed in its run.yaml.

    Each has `steps` (some of train, eval and predict, each `started` or `finished`) and its description, see
    `describe`. A command that trains also has `start` and `changes`, the settings that were changed when it resumed. A
    step belongs to the last command that began it.

    Args:
        folder: the output folder, which need not exist.

    Raises:
        ValueError: its run.yaml cannot be read.
    """

    def __init__(self, folder: str | Path):
        self._path = Path(folder) / RUN_FILE
        content = read_record(self._path, _problem_of)
        self._commands: list[dict[str, Any]] = [] if content is None else content["commands"]

    def of(self, step: str) -> dict[str, Any] | None:
        """The command that began a step, or None."""
        return next((command for command in self._commands if step in command["steps"]), None)

    def has_finished(self, step: str, description: Mapping[str, Any] | None = None) -> bool:
        """Whether a step is finished; given a description, also whether its settings and data are the same."""
        command = self.of(step)
        if command is None or command["steps"][step] != "finished":
            return False
        return description is None or all(command[name] == description[name] for name in ("settings", "data"))

    @property
    def start(self) -> int:
        """How often training started in the folder without resuming from its last checkpoint; at least 1."""
        return (self.of("train") or {}).get("start", 1)

    def begin(self, steps: Sequence[str], description: Mapping[str, Any], resumption: Resumption) -> None:
        """Record that a command has begun these steps."""
        if "train" in steps:
            before = self.of("train") or {}
            earlier = before.get("changes", []) if resumption.start == self.start else []
            since = f"from {Path(str(resumption.checkpoint)).name} on"
            changes = [*earlier, *(f"{since}: {change}" for change in resumption.changes)]
            description = {"start": resumption.start, "changes": changes, **description}
        for command in self._commands:
            command["steps"] = {step: state for step, state in command["steps"].items() if step not in steps}
        self._commands.append({"steps": dict.fromkeys(steps, "started"), **description})
        self._commands = [command for command in self._commands if command["steps"]]
        self._write()

    def finish(self, step: str) -> None:
        """Record that a step's results are complete."""
        command = self.of(step)
        assert command is not None, step
        command["steps"][step] = "finished"
        self._write()

    def _write(self) -> None:
        write_record(self._path, {"commands": self._commands})


def _problem_of(content: Any) -> str | None:
    known = all(command["steps"].keys() <= {"train", "eval", "predict"} for command in content["commands"])
    return None if known else "unknown steps"


def describe(
    arguments: RunArguments,
    argv: Sequence[str],
    corpus: datasets.DatasetDict,
    built: Built,
    extraction: Extraction | None,
) -> dict[str, Any]:
    """A run's description: its command, versions, data, model and all settings except secrets, ready for YAML.

    Args:
        argv: the command line of the arguments.
        corpus: the splits that are used.
        built: the model, the processor and the lengths.
        extraction: the stage that shortens documents, if any.
    """
    groups = [getattr(arguments, field.name) for field in dataclasses.fields(arguments)]
    values = {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}
    hidden = flags_of("secret")
    description = {
        "command": command_line(argv, arguments.training.world_size),
        "versions": {"hf_summ": hf_summ.__version__} | {name: importlib.metadata.version(name) for name in LIBRARIES},
        "processes": arguments.training.world_size,
        "data": {split: _data_of(arguments.corpus, split, rows) for split, rows in corpus.items()},
        "processor": processor_fingerprint(built.processor),
        "lengths": [built.lengths.source, built.lengths.target],
        "model": {name: value for name, value in built.model.config.to_dict().items() if name not in _NOT_SETTINGS},
        "settings": {
            name: value
            for name, value in sorted(values.items())
            if name not in hidden and value not in (None, "", [], {})
        },
    }
    if extraction is not None:
        extraction.describe(description["data"])
    # enumerations and paths become strings
    return json.loads(json.dumps(description, default=str))


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
    secrets, last = flags_of("secret"), {}
    for place, line in enumerate(lines):
        name = line[0].split("=")[0].lstrip("-").replace("-", "_")
        # of a flag that is given again, only the last value has an effect
        key = place if name in repeatable() else name
        last.pop(key, None)
        if name not in secrets:
            last[key] = line
    return separator.join(map(shlex.join, last.values()))


def _data_of(corpus: Corpus, split: str, rows: datasets.Dataset) -> dict[str, Any]:
    if split in corpus.files:
        origin: dict[str, Any] = {"files": {str(path): content_hash(path) for path in corpus.paths(split)}}
        columns = columns_of(corpus, split)
        if columns is not None:
            origin |= {"text_column": columns[0], "summary_column": columns[1]}
    else:
        origin = {"name": corpus.dataset_name, "fingerprint": rows._fingerprint}
    return {**origin, "rows": len(rows)}


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], training: SummarizationTrainingArguments
) -> list[str]:
    """The settings by which the updates of two training runs differ, as `name BEFORE, now NOW`.

    Args:
        before, now: descriptions, see `describe`.
        training: the arguments of `now`.
    """
    found = changed(_deciding(before, training), _deciding(now, training))
    (old_texts, old_name), (texts, name) = _texts_of(before["data"].get("train", {})), _texts_of(now["data"]["train"])
    if old_texts != texts:
        found.append(f"train_file {old_name}, now {name} with other content")
    lengths = dict(zip(("max_source_length", "max_target_length"), now["lengths"], strict=True))
    found += changed(dict(zip(lengths, before["lengths"], strict=True)), lengths)
    # a processor contains its lengths
    if before["processor"] != now["processor"] and before["lengths"] == now["lengths"]:
        found.append("another processor or vocabulary")
    return found


def _texts_of(data: Mapping[str, Any]) -> tuple[list[Any], str]:
    """What identifies a split's texts, independent of their files' folders, and the split's name."""
    if "files" in data:
        texts, name = list(data["files"].values()), ", ".join(Path(file).name for file in data["files"])
    else:
        texts, name = [data.get("name"), data.get("fingerprint")], str(data.get("name"))
    return [*texts, data.get("extraction")], name


def _deciding(description: Mapping[str, Any], training: SummarizationTrainingArguments) -> dict[str, Any]:
    """The settings that determine a run's updates, and the values of its model's config."""
    counted = flags_of("updates") | set(names(Corpus)) - {file_flag(split) for split in SPLITS}
    settings = {name: description["settings"].get(name) for name in sorted(counted)}
    length = "max_steps" if training.max_steps > 0 else "num_train_epochs"
    for name in {"max_steps", "num_train_epochs"} - ({length} if _rate_ends(training) else set()):
        del settings[name]
    if training.train_tokens_per_batch is not None:
        del settings["per_device_train_batch_size"]
    # the number of batches per update counts, not the number of devices
    accumulated = settings.pop("gradient_accumulation_steps") * description["processes"]
    model = {f"config_overrides {name}": value for name, value in _flat(description["model"]).items()}
    return {**settings, "gradient_accumulation_steps × processes": accumulated, **model}


def _rate_ends(training: SummarizationTrainingArguments) -> bool:
    """Whether the learning rates depend on the length of the run."""
    if training.schedule is not None:
        is_open = training.schedule == "noam" or training.schedule_period is not None
    else:
        is_open = str(getattr(training.lr_scheduler_type, "value", training.lr_scheduler_type)) in _ENDLESS
    return not is_open or 0 < training.warmup_steps < 1


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _are_equal(before: Mapping[str, Any], now: Mapping[str, Any], settings: Iterable[str]) -> bool:
    return all(before["settings"].get(name) == now["settings"].get(name) for name in settings)


def _is_same_training(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether all settings on which the trained model depends are equal, including those of its evaluations."""
    splits = before["data"].keys() & now["data"].keys()
    is_same_data = all(before["data"][split] == now["data"][split] for split in splits)
    return is_same_data and _are_equal(before, now, flags_of("data", "model", "training") - flags_of("reporting"))


def find_resumption(
    training: SummarizationTrainingArguments, record: RunRecord, description: Mapping[str, Any], model: PreTrainedModel
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
    named = named_checkpoint(training)
    before = record.of("train") or {}
    changes = differences(before, description, training) if before else []
    is_same = bool(before) and not changes and _are_equal(before, description, ["resume_from_checkpoint"])
    if named is not None and not is_same:
        # existing checkpoints do not belong to this run
        start = record.start + bool(checkpoint_folders(training.output_dir))
        if named == "no":
            return Resumption(start=start)
        theirs = RunRecord(Path(named).parent).of("train")
        changes = [] if theirs is None else differences(theirs, description, training)
        return _going_on(named, start, changes, training, model)
    if is_same and record.has_finished("train") and _is_same_training(before, description):
        return Resumption(start=record.start, is_trained=True)
    checkpoint = last_complete_checkpoint(training.output_dir)
    if checkpoint is None and named != "no":
        checkpoint = named
    if checkpoint is None and not record.has_finished("train"):
        # nothing is lost by starting over
        changes = []
    if changes and record.has_finished("train") and _are_equal(before, description, ["max_steps", "num_train_epochs"]):
        # no updates are left to which the changes could apply
        checkpoint = None
    return _going_on(checkpoint, record.start, changes, training, model)


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


def _going_on(
    checkpoint: str | None,
    start: int,
    changes: list[str],
    training: SummarizationTrainingArguments,
    model: PreTrainedModel,
) -> Resumption:
    """The resumption, once it is checked.

    Raises:
        ValueError: settings changed without --accept_changes, or there is no checkpoint from which the changes could
            apply, or the checkpoint does not fit.
    """
    if changes and not (training.accept_changes and checkpoint):
        apply = f"; --accept_changes resumes from {checkpoint} with the changes" if checkpoint else ""
        raise ValueError(
            f"--output_dir {training.output_dir}: its run has other settings ({shown(changes)}): give another folder, "
            f"or start over there with --resume_from_checkpoint no{apply}"
        )
    if checkpoint is not None:
        check_fits(checkpoint, model)
        check_optimizer(checkpoint, training)
    return Resumption(checkpoint, start, tuple(changes))


def last_complete_checkpoint(run_folder: str | os.PathLike) -> str | None:
    """Path of the newest `checkpoint-<step>` from which training can resume, or None; skipped ones give a warning.

    Checkpoints of earlier starts, see `RunRecord.start`, are ignored.
    """
    for _, folder in reversed(run_checkpoints(run_folder)):
        problem = resume_problem(folder)
        if problem is None:
            return str(folder)
        logger.warning(f"{folder} is skipped: {problem}")
    return None


def run_checkpoints(run_folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """The run's checkpoint folders by step, without those of earlier starts."""
    start = RunRecord(Path(run_folder)).start
    return [(step, folder) for step, folder in checkpoint_folders(run_folder) if start_of(folder) in (start, None)]


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


def lock_folder(training: SummarizationTrainingArguments) -> ExitStack:
    """Create a run's output folder and lock it in a context; the context is empty in processes that do not write.

    Raises:
        ValueError: another run uses the folder, or it cannot be written to.
    """
    context = ExitStack()
    if not training.has_output_dir or training.process_index != 0:
        return context
    try:
        Path(training.output_dir).mkdir(parents=True, exist_ok=True)
        context.enter_context(FileLock(Path(training.output_dir) / LOCK, timeout=0))
    except Timeout:
        raise ValueError(
            f"--output_dir {training.output_dir}: another run uses it: wait for its end, or give another folder"
        ) from None
    except NotImplementedError:
        # some clusters' file systems do not support locks
        logger.warning(f"{training.output_dir} cannot be locked: start no other run there")
    except OSError as error:
        raise ValueError(
            f"--output_dir {training.output_dir}: cannot be written to ({error.strerror}): name another folder"
        ) from None
    return context


def check_optimizer(folder: str | os.PathLike, training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError if a checkpoint was written with another type of optimizer."""
    try:
        settings = json.loads((Path(folder) / "training_args.json").read_text(encoding="utf-8"))
        there = settings.get("optimizer") or settings["optim"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    here = training.optimizer or str(getattr(training.optim, "value", training.optim))
    if there != here:
        raise ValueError(
            f"{folder}: its optimizer is {there}, whose state {here} cannot load: keep --optimizer and --optim "
            "unchanged, or start over with --resume_from_checkpoint no"
        )
