"""What a row's training and decoding are told, and the hashes that say which of them are the same."""

import dataclasses
import functools
import hashlib
import inspect
import json
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig

import hf_summ.models  # noqa: F401 registers the architectures
from hf_summ.data import load_corpus
from hf_summ.data.raw_formats import format_of
from hf_summ.experiments.scales import Scale, load_scale
from hf_summ.experiments.tables import Row, Table, configs_folder
from hf_summ.training.arguments import DataArguments, GenerationArguments, flag_names, nearest, read_config_file
from hf_summ.training.overrides import apply_overrides, parse_overrides

SPLITS = ("train", "validation", "test")
_FILES = tuple(f"{split}_file" for split in SPLITS)
# what of a data set `load_corpus` is told; the rest is how it gets there
_DATA = set(inspect.signature(load_corpus).parameters) - {"cache_dir", "token", "trust_remote_code"}
_SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
_ENDINGS = (".jsonl", ".json", ".csv", ".source")
# flags that change neither weights nor summaries, only where a run writes, what it reports and how fast it reads
_WITHOUT_EFFECT = (
    *("output_dir", "cache_dir", "token", "overwrite_cache", "preprocessing_num_workers", "disable_tqdm", "run_name"),
    *("report_to", "logging_dir", "logging_steps", "logging_strategy", "log_level", "save_total_limit", "push_to_hub"),
    *("hub_model_id", "hub_token", "do_train", "do_eval", "do_predict", "show_summaries", "lead_sentences"),
    *("max_predict_samples", "dataloader_num_workers", "resume_from_checkpoint"),
)
# of a training's flags that are neither data nor generation, those that its decoding has too
_OF_DECODING = (
    *("bf16", "fp16", "use_cpu", "seed", "eval_tokens_per_batch", "per_device_eval_batch_size", "cache_dir"),
    "trust_remote_code",
)
# flags that would make all rows one run, or mix one with what is not of it
_NOT_FOR_ALL = ("resume_from_checkpoint", "push_to_hub", "hub_model_id")
_SECRET = ("token", "hub_token")
# flags that are added to when they are given again
_EXTENDED = ("config_overrides", "learning_rates")
# in a configuration's dictionary, but said elsewhere or no choice of the row's
_BOOKKEEPING = ("transformers_version", "architectures", "auto_map", "custom_pipelines", "_name_or_path", "vocab_size")


def base_settings(
    table: Table, row: Row, dataset: str, scale_name: str, extra: Mapping[str, Any]
) -> tuple[dict[str, Any], Scale]:
    """The flags of a row's training before its data and vocabulary: paper's, then the scale's, the row's, the user's.

    Raises:
        ValueError: the architecture or its configuration is not there, or has no such scale.
    """
    config = table.config_of(row, dataset)
    if config is None:
        raise ValueError(f"{dataset} has no configuration to train by")
    architecture = Path(config).parts[0]
    if architecture not in CONFIG_MAPPING:
        raise ValueError(f"the architecture {architecture} is not there yet")
    settings = read_config_file(str(configs_folder() / config))
    scale = load_scale(architecture, scale_name)
    overrides = [part.get("config_overrides", {}) for part in (settings, extra)]
    settings |= {**scale.flags, **row.flags, **extra}
    settings["config_overrides"] = {**overrides[0], **scale.config_overrides, **row.config_overrides, **overrides[1]}
    settings.setdefault("seed", 42)
    return {key: value for key, value in settings.items() if value is not None}, scale


def with_data(settings: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings reading other data than the configuration's, with nothing left of how those are read.

    Args:
        data: files, columns and whatever else `data_flags` takes.
    """
    return {**{key: value for key, value in settings.items() if key not in _DATA}, **data}


def data_flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the flags that say which data are read and how."""
    return {key: value for key, value in settings.items() if key in _DATA}


def split_files(folder: str | Path, data_format: str | None = None) -> dict[str, str]:
    """`train_file`, `validation_file` and `test_file` in a folder, by their names.

    Args:
        data_format: a format of `load_corpus`, which finds its splits in the folder itself.

    Raises:
        ValueError: no folder, or a split is missing or there twice.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name one that holds train, validation and test as .jsonl or the like")
    if data_format is not None:
        for split in SPLITS:
            format_of(data_format).locate(str(folder), split)
        return {f"{split}_file": str(folder.absolute()) for split in SPLITS}
    files = {}
    for split, names in _SPLIT_NAMES.items():
        wanted = [f"{name}{ending}{packed}" for name in names for ending in _ENDINGS for packed in ("", ".gz")]
        found = [folder / name for name in wanted if (folder / name).is_file()]
        if len(found) != 1:
            problem = f"there are {' and '.join(path.name for path in found)}" if found else f"there is no {wanted[0]}"
            raise ValueError(
                f"{folder}: {problem}: it must hold one file for {split} ({', '.join(_ENDINGS)}; also .gz)"
            )
        # a link's own name has the ending
        files[f"{split}_file"] = str(found[0].absolute())
    return files


def read_flags(tokens: Sequence[str]) -> dict[str, Any]:
    """Flags of the training recipe that all rows are given: `--flag value ...`, `--flag=value`, `--flag`, `--no_flag`.

    Raises:
        ValueError: a value without a flag, a flag that does not exist or lacks its number, or is not for all rows.
    """
    flags: dict[str, list[str]] = {}
    known = flag_names()
    name = None
    for token in tokens:
        if token.startswith("--"):
            name, separator, value = token[2:].partition("=")
            name = name.replace("-", "_")
            switched = name.removeprefix("no_")
            if name not in known and bool in (known.get(switched), *typing.get_args(known.get(switched))):
                name, separator, value = switched, "=", "false"
            if name in _NOT_FOR_ALL:
                raise ValueError(f"--{name} is not for all rows of a table, whose runs are kept apart: leave it out")
            if name in _SECRET:
                raise ValueError(f"--{name} would be written into the settings of each run: set HF_TOKEN instead")
            if name not in known:
                raise ValueError(
                    f"there is no flag --{name}, neither of this command nor of training{nearest(name, known)}"
                )
            given = [value] if separator else []
            flags[name] = [*flags.get(name, []), *given] if name in _EXTENDED else given
        elif name is None:
            raise ValueError(f"{token}: belongs to no flag")
        else:
            flags[name].append(token)
    overrides = parse_overrides(flags.pop("config_overrides", []))
    read = {name: [_value(text) for text in texts] for name, texts in flags.items()}
    for name, values in read.items():
        _check_number(name, values, known[name])
    settings: dict[str, Any] = {
        name: True if not values else values[0] if len(values) == 1 else values for name, values in read.items()
    }
    return settings | ({"config_overrides": overrides} if overrides else {})


def _check_number(name: str, values: list[Any], kind: Any) -> None:
    """Whether a flag that takes a number has one: it would stop every row's run, after minutes."""
    kinds = {kind, *typing.get_args(kind)}
    if not kinds & {int, float} or kinds & {str, bool}:
        return
    if len(values) != 1 or isinstance(values[0], str | bool | list | dict):
        raise ValueError(f"--{name} {' '.join(map(str, values))}".rstrip() + ": give a number")


def _value(text: str) -> Any:
    """What the text says as JSON, or else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def resolved_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All values of the model's configuration but those that come with the vocabulary.

    Raises:
        ValueError: the configuration refuses a value.
    """
    config = AutoConfig.for_model(settings["model_type"])
    resolved = apply_overrides(config, settings["config_overrides"]).to_dict()
    return {key: value for key, value in resolved.items() if key not in _BOOKKEEPING}


def data_fingerprint(settings: Mapping[str, Any], splits: Sequence[str] = SPLITS) -> dict[str, Any]:
    """What says which rows a run reads: the files' contents, or the data set's name; with the way they are read.

    Raises:
        ValueError: a file is not there.
    """
    told = {key: value for key, value in data_flags(settings).items() if key not in _FILES}
    for split in splits:
        if f"{split}_file" in settings:
            files = format_of(settings.get("data_format")).locate(str(settings[f"{split}_file"]), split)
            told[split] = [_content_hash(path) for path in files]
    return told


def fingerprint(*parts: Any) -> str:
    """A name for equal parts: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def training_fingerprint(settings: Mapping[str, Any]) -> str:
    """Equal for trainings that are the same: by the model's values, written out or not, by flags, data and vocabulary.

    A checkpoint that a training starts from, or a pre-trained part, counts by its name.

    Raises:
        ValueError: a file is not there, or the configuration refuses a value.
    """
    data = data_fingerprint(settings, ("train", "validation"))
    said = {"config_overrides", "tokenizer_name", *_FILES, *_WITHOUT_EFFECT, *data}
    flags = {key: value for key, value in settings.items() if key not in said}
    return fingerprint(resolved_config(settings), flags, data, _name_of_processor(settings))


def decoding_settings(settings: Mapping[str, Any], row: Row, model: Path) -> dict[str, Any]:
    """The flags of a trained row's decoding."""
    kept = {item.name for kind in (DataArguments, GenerationArguments) for item in dataclasses.fields(kind)}
    kept = kept - {"train_file", "validation_file"} | set(_OF_DECODING)
    return {
        **{key: value for key, value in settings.items() if key in kept},
        **row.decoding,
        "config_overrides": dict(row.decoding_overrides),
        "model_name_or_path": str(model),
        "do_predict": True,
    }


def decoding_fingerprint(settings: Mapping[str, Any]) -> str:
    """Equal for decodings of one model that are the same."""
    kept = set(_WITHOUT_EFFECT) - {"max_predict_samples"} | {"model_name_or_path", *_FILES}
    return fingerprint(
        {key: value for key, value in settings.items() if key not in kept}, data_fingerprint(settings, ("test",))
    )


def _name_of_processor(settings: Mapping[str, Any]) -> str:
    name = str(settings.get("tokenizer_name"))
    folder = Path(name)
    # a fitted one is a folder that is called by its fingerprint
    if re.fullmatch("[0-9a-f]{16}", folder.name):
        return folder.name
    if not folder.is_dir():
        return name
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return fingerprint([(path.name, _content_hash(path)) for path in files])


def _content_hash(path: Path) -> str:
    state = path.stat()
    return _hash_of_file(path, state.st_size, state.st_mtime_ns)


# all rows of a table read the same large files
@functools.cache
def _hash_of_file(path: Path, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
