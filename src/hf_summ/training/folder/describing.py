"""The description of a run in run.yaml."""

import dataclasses
import importlib.metadata
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import datasets

import hf_summ
from hf_summ.checkpoints.overrides import BOOKKEEPING
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import columns_of
from hf_summ.training.arguments import REPEATABLE, RunArguments, SummarizationTrainingArguments, flags_of
from hf_summ.training.model import Built
from hf_summ.training.rows.extraction import Extraction
from hf_summ.training.rows.preparing import processor_fingerprint

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
    groups = vars(arguments).values()
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
        if columns := columns_of(corpus, split):
            origin |= {"text_column": columns[0], "summary_column": columns[1]}
    else:
        origin = {"name": corpus.dataset_name, "fingerprint": rows._fingerprint}
    if extraction is not None and split in extraction.splits:
        origin["extraction"] = extraction.fingerprint
    return {**origin, "rows": len(rows)}


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
