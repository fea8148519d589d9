"""The settings of a row's training and decoding, and hashes that identify them."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig

from hf_summ.checkpoints.overrides import BOOKKEEPING, NULL, apply_overrides, value_of
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.common.messages import one_line
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.files import COMPRESSIONS
from hf_summ.data.raw_formats import format_of
from hf_summ.experiments.tables import Row, Scale, Table, configs_folder, load_scale
from hf_summ.extractive import DocumentFrequencies
from hf_summ.training.arguments import flags_of
from hf_summ.training.parsing import merged, parse_flags, read_settings, short_run, without_effect

_SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def base_settings(
    table: Table, row: Row, dataset: str, scale_name: str, extra: Mapping[str, Any]
) -> tuple[dict[str, Any], Scale]:
    """The flags of a row's training without data and vocabulary: the paper's, then the scale's, the row's, the user's.

    A row with a `model_type` uses the scale of that architecture, but the vocabulary of its data set's if its file
    describes another architecture. Of the user's `config_overrides`, the row has those that its configuration knows.
    """
    config = table.config_of(row, dataset)
    if config is None:
        raise ValueError(f"{dataset} has no configuration for training")
    architecture = architecture_of(table, row, dataset)
    if architecture not in CONFIG_MAPPING:
        raise ValueError(f"the architecture {architecture} does not exist yet")
    paper = read_settings(str(configs_folder() / config))
    # a baseline of another architecture uses the scale of the rows with which it is compared
    scale = load_scale(Path(table.datasets[dataset] or config).parts[0], scale_name)
    if "model_type" in row.flags:
        vocabulary = scale.vocabulary
        scale = load_scale(architecture, scale_name)
        if architecture != Path(config).parts[0]:
            paper["config_overrides"] = {}
            scale = replace(scale, vocabulary=vocabulary)
    base = merged({"seed": 42}, paper, scale.settings)
    # a scale has settings for all schedules and optimizers; those without effect are dropped
    base = {name: value for name, value in base.items() if name not in without_effect(base)}
    of_row = merged(base, getattr(row, scale_name), row.settings)
    # `quick` stands for other settings, which differ between rows
    user = {name: value for name, value in extra.items() if name != "quick"}
    overrides = user.get("config_overrides", {})
    user["config_overrides"] = {key: value for key, value in overrides.items() if not missing_key(architecture, key)}
    settings = merged(of_row, short_run(of_row, extra), user)
    return {name: value for name, value in settings.items() if value is not None}, scale


def architecture_of(table: Table, row: Row, dataset: str) -> str:
    """The `model_type` of a row's model."""
    config = table.config_of(row, dataset)
    return row.flags.get("model_type") or Path(str(config)).parts[0]


def missing_key(architecture: str, key: str) -> str | None:
    """Why a key of `config_overrides` cannot be set in an architecture's configuration, or None if it can."""
    # `null` removes a row's overrides
    if key == NULL:
        return None
    try:
        # a dotted key leads into a configuration that may not be read yet
        value_of(AutoConfig.for_model(architecture), key.partition(".")[0])
    except ValueError as error:
        return one_line(error)
    return None


def with_data(settings: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with other data than the configuration's, and without its settings for reading data.

    Args:
        data: files, columns and other fields of a `Corpus`.
    """
    return {**{name: value for name, value in settings.items() if name not in names(Corpus)}, **data}


def split_files(folder: str | Path, data_format: str | None = None) -> dict[str, str]:
    """Find `train_file`, `validation_file` and `test_file` in a folder by their names.

    Args:
        data_format: a format of `Corpus`, which finds its splits in the folder.
    """
    folder = Path(folder)
    if data_format is not None:
        for split in SPLITS:
            format_of(data_format).locate(str(folder), split)
        return {file_flag(split): str(folder.absolute()) for split in SPLITS}
    files = {}
    for split, stems in _SPLIT_NAMES.items():
        names = [f"{stem}{ending}{packed}" for stem in stems for ending in _ENDINGS for packed in ("", *COMPRESSIONS)]
        present = [name for name in names if (folder / name).is_file()]
        if len(present) != 1:
            problem = f"there are {' and '.join(present)}" if present else f"there is no {names[0]}"
            raise ValueError(
                f"{folder}: {problem}, but there must be exactly one file for {split} ({', '.join(_ENDINGS)}; also "
                "compressed)"
            )
        # links are not resolved, as the extension is in the link's name
        files[file_flag(split)] = str((folder / present[0]).absolute())
    return files


# flags of `hf-summ table` itself
_OF_TABLE = ("list", "scale", "data", "rows", "split", "language_model", "output_dir")


def flags_of_all_rows(tokens: Sequence[str]) -> dict[str, Any]:
    """Settings of the training recipe for every row, from the command line."""
    settings = parse_flags(tokens, _OF_TABLE)
    if "extract_idf" in settings:
        DocumentFrequencies.load(settings["extract_idf"])
    for name in settings:
        if name in flags_of("single"):
            raise ValueError(f"--{name}: cannot be shared by the rows of a table, whose runs are separate; omit it")
        if name in flags_of("secret"):
            raise ValueError(f"--{name}: would be written to the settings of each run; set HF_TOKEN instead")
    return settings


def resolved_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All values of the model's configuration except those that the vocabulary determines."""
    config = AutoConfig.for_model(settings["model_type"])
    resolved = apply_overrides(config, settings["config_overrides"]).to_dict()
    return {key: value for key, value in resolved.items() if key not in (*BOOKKEEPING, "vocab_size")}


def data_fingerprint(settings: Mapping[str, Any], splits: Sequence[str] = SPLITS) -> dict[str, Any]:
    """What identifies the rows that a run reads: the files' contents or the data set's name, and how they are read."""
    corpus = Corpus.among(settings)
    hashes = {split: [content_hash(path) for path in corpus.paths(split)] for split in splits if split in corpus.files}
    return corpus.only(()).given() | hashes


def fingerprint(*values: Any) -> str:
    """A hash of the values: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def training_fingerprint(settings: Mapping[str, Any]) -> str:
    """A hash of a training run: the model's values, given or default, flags, data and vocabulary.

    An initial checkpoint or a pre-trained part is identified by its name.
    """
    # these two are represented by the values of the configuration and the contents of the processor
    counted = flags_of("model", "training") - flags_of("reporting") - {"config_overrides", "tokenizer_name"}
    flags = _flags(settings, counted)
    data = data_fingerprint(settings, ("train", "validation"))
    return fingerprint(resolved_config(settings), flags, data, name_of_processor(settings))


def second_run_settings(
    settings: Mapping[str, Any], row: Row, scale_name: str, extra: Mapping[str, Any], start: Path
) -> dict[str, Any]:
    """The flags of a row's second training run.

    Args:
        settings: those of the first run.
        extra: flags of the user for every training run.
        start: the folder of the first run's model.
    """
    assert row.second_run is not None
    users = {name: value for name, value in extra.items() if name not in ("config_overrides", "quick")}
    changed = merged(settings, getattr(row.second_run, scale_name), short_run(settings, extra), users)
    # the checkpoint has the other values of the configuration, and the processor
    changed |= {"config_overrides": dict(row.second_run.config_overrides), "model_name_or_path": str(start)}
    in_checkpoint = ("model_type", "tokenizer_name")
    return {name: value for name, value in changed.items() if value is not None and name not in in_checkpoint}


def second_run_fingerprint(settings: Mapping[str, Any], first: str) -> str:
    """A hash of a second training run: its settings, and the hash of the first run in place of its folder."""
    counted = flags_of("model", "training") - flags_of("reporting") - {"model_name_or_path"}
    return fingerprint(first, _flags(settings, counted))


def decoding_settings(settings: Mapping[str, Any], row: Row, model: Path, **own: Any) -> dict[str, Any]:
    """The flags of a trained row's decoding.

    Args:
        settings: those of its training.
        model: the folder of the trained model.
        own: flags of its decoding only, besides the row's.
    """
    return {
        **{name: value for name, value in settings.items() if name in flags_of("decoding")},
        **Corpus.among(settings).only(["test"]).given(),
        **own,
        **row.decoding,
        "config_overrides": dict(row.decoding_overrides),
        "model_name_or_path": str(model),
        "do_predict": True,
    }


def decoding_fingerprint(settings: Mapping[str, Any]) -> str:
    """A hash of a decoding run of a model."""
    counted = flags_of("decoding") - flags_of("reporting") | {"config_overrides"}
    return fingerprint(_flags(settings, counted), data_fingerprint(settings, ("test",)))


def _flags(settings: Mapping[str, Any], counted: Collection[str]) -> dict[str, Any]:
    """The counted settings, with a file's content instead of its name."""
    flags = {name: value for name, value in settings.items() if name in counted}
    frequencies = flags.get("extract_idf")
    return flags if frequencies is None else {**flags, "extract_idf": content_hash(frequencies)}


def name_of_processor(settings: Mapping[str, Any]) -> str:
    """What identifies the processor that settings name: a hash of its files, or its name on the Hub."""
    name = str(settings.get("tokenizer_name"))
    folder = Path(name)
    # the name of a fitted processor's folder is its fingerprint
    if re.fullmatch("[0-9a-f]{16}", folder.name):
        return folder.name
    if not folder.is_dir():
        return name
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return fingerprint([(path.name, content_hash(path)) for path in files])
