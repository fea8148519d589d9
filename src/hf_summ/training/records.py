"""run.yaml: what the results in an output folder are of, and in what another run differs from it."""

import dataclasses
import importlib.metadata
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets

import hf_summ
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.common.records import changed, read_record, write_record
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import columns_of
from hf_summ.training.arguments import RunArguments, SummarizationTrainingArguments, flags_of
from hf_summ.training.overrides import BOOKKEEPING

RUN_FILE = "run.yaml"
# libraries whose versions a run depends on
LIBRARIES = ("transformers", "torch", "datasets", "tokenizers")
# where the libraries, not the settings, decide, or what a training changes
_NOT_SETTINGS = (*BOOKKEEPING, "dtype", "epochs_trained", "_attn_implementation_internal")
# schedules of transformers whose rates do not depend on how long the training is
_ENDLESS = ("constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau")


class RunRecord:
    """The commands whose results are in an output folder, as its run.yaml lists them.

    Each has `steps` (some of train, eval and predict, each `started` or `finished`) and what `describe` says of it; one
    that trains also has `start` and `changes`, the settings that were changed on the way. A step belongs to the last
    command that began it.

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
        """What is known of the command that began a step."""
        return next((command for command in self._commands if step in command["steps"]), None)

    def has_finished(self, step: str) -> bool:
        """Whether the command that began a step came to its end."""
        command = self.of(step)
        return command is not None and command["steps"][step] == "finished"

    @property
    def start(self) -> int:
        """How often a training started in the folder without going on from its last checkpoint; at least 1."""
        return (self.of("train") or {}).get("start", 1)

    def begin(
        self, steps: Sequence[str], description: Mapping[str, Any], start: int = 1, changes: Sequence[str] = ()
    ) -> None:
        """Write that a command has begun these steps; the other arguments are as for `Resumption`."""
        if "train" in steps:
            before = self.of("train") or {}
            earlier = before.get("changes", []) if start == self.start else []
            description = {"start": start, "changes": [*earlier, *changes], **description}
        for command in self._commands:
            command["steps"] = {step: state for step, state in command["steps"].items() if step not in steps}
        self._commands.append({"steps": dict.fromkeys(steps, "started"), **description})
        self._commands = [command for command in self._commands if command["steps"]]
        self._write()

    def finish(self, step: str) -> None:
        """Write that a step's results are complete."""
        command = self.of(step)
        assert command is not None, step
        command["steps"][step] = "finished"
        self._write()

    def _write(self) -> None:
        write_record(self._path, {"commands": self._commands})


def describe(
    arguments: RunArguments,
    argv: Sequence[str],
    corpus: datasets.DatasetDict,
    model_config: Mapping[str, Any],
    processor: str,
    lengths: tuple[int, int],
) -> dict[str, Any]:
    """What a run is of: its command, versions, data, model and all settings but secrets, ready for YAML.

    Args:
        argv: the command line of the arguments.
        corpus: the splits that are used.
        model_config: all values of the model's configuration.
        processor: what identifies the processor, see `processor_fingerprint`.
        lengths: numbers of tokens to which documents and training summaries are cut.
    """
    groups = [getattr(arguments, field.name) for field in dataclasses.fields(arguments)]
    values = {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}
    hidden = flags_of("secret")
    description = {
        "command": command_line(argv, arguments.training.world_size),
        "versions": {"hf_summ": hf_summ.__version__} | {name: importlib.metadata.version(name) for name in LIBRARIES},
        "processes": arguments.training.world_size,
        "data": {split: _data_of(arguments.corpus, split, rows) for split, rows in corpus.items()},
        "processor": processor,
        "lengths": list(lengths),
        "model": {name: value for name, value in model_config.items() if name not in _NOT_SETTINGS},
        "settings": {
            name: value
            for name, value in sorted(values.items())
            if name not in hidden and value not in (None, "", [], {})
        },
    }
    # enumerations and paths become strings
    return json.loads(json.dumps(description, default=str))


def command_line(argv: Sequence[str], processes: int, separator: str = " ") -> str:
    """The command that gave these arguments, without flags that hold secrets.

    Args:
        separator: what stands between a flag with its values and the next.
    """
    start = ["hf-summ", "train"] if processes == 1 else ["accelerate", "launch", "-m", "hf_summ.training"]
    lines = [start]
    for token in argv:
        if token.startswith("--"):
            lines.append([])
        lines[-1].append(token)
    kept = [line for line in lines if _flag_name(line[0]) not in flags_of("secret")]
    return separator.join(map(shlex.join, kept))


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], training: SummarizationTrainingArguments
) -> list[str]:
    """In what the updates of a training differ from those of another, as `name BEFORE, now NOW`; empty if in nothing.

    Args:
        before, now: descriptions, see `describe`.
        training: the arguments of `now`.
    """
    old, new = _deciding(before, training), _deciding(now, training)
    found = changed(old, new)
    data, lengths = (before["data"].get("train", {}), now["data"]["train"]), (before["lengths"], now["lengths"])
    if _content(data[0]) != _content(data[1]):
        found.append(f"train_file {_name_of_data(data[0])}, now {_name_of_data(data[1])} with other content")
    for name, old_length, new_length in zip(("max_source_length", "max_target_length"), *lengths, strict=True):
        if old_length != new_length:
            found.append(f"{name} {old_length}, now {new_length}")
    # a processor contains its lengths
    if before["processor"] != now["processor"] and lengths[0] == lengths[1]:
        found.append("another processor or vocabulary")
    return found


def _problem_of(content: Any) -> str | None:
    known = all(command["steps"].keys() <= {"train", "eval", "predict"} for command in content["commands"])
    return None if known else "unknown steps"


def _flag_name(token: str) -> str:
    return token.split("=")[0].lstrip("-").replace("-", "_")


def _data_of(corpus: Corpus, split: str, rows: datasets.Dataset) -> dict[str, Any]:
    if split in corpus.files:
        origin: dict[str, Any] = {"files": {str(path): content_hash(path) for path in corpus.paths(split)}}
        columns = columns_of(corpus, split)
        if columns is not None:
            origin |= {"text_column": columns[0], "summary_column": columns[1]}
    else:
        origin = {"name": corpus.dataset_name, "fingerprint": rows._fingerprint}
    return {**origin, "rows": len(rows)}


def _content(data: Mapping[str, Any]) -> list[Any]:
    # a file may be moved
    texts = list(data["files"].values()) if "files" in data else [data.get("name"), data.get("fingerprint")]
    return [*texts, data.get("extraction")]


def _name_of_data(data: Mapping[str, Any]) -> str:
    return ", ".join(Path(file).name for file in data["files"]) if "files" in data else str(data.get("name"))


def _deciding(description: Mapping[str, Any], training: SummarizationTrainingArguments) -> dict[str, Any]:
    """The settings that decide a training's updates, and the values of its model."""
    counted = flags_of("updates") | set(names(Corpus)) - {file_flag(split) for split in SPLITS}
    settings = {name: description["settings"].get(name) for name in sorted(counted)}
    length = "max_steps" if training.max_steps > 0 else "num_train_epochs"
    for name in {"max_steps", "num_train_epochs"} - ({length} if _rate_ends(training) else set()):
        del settings[name]
    if training.train_tokens_per_batch is not None:
        del settings["per_device_train_batch_size"]
    # as many batches an update, on however many devices
    accumulated = settings.pop("gradient_accumulation_steps") * description["processes"]
    model = {f"config_overrides {name}": value for name, value in _flat(description["model"]).items()}
    return {**settings, "gradient_accumulation_steps × processes": accumulated, **model}


def _rate_ends(training: SummarizationTrainingArguments) -> bool:
    """Whether the learning rates depend on how long the training is."""
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
