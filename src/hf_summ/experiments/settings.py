"""The settings of a row's training and decoding, and hashes that identify them."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from transformers import CONFIG_MAPPING, AutoConfig

from hf_summ.checkpoints.overrides import BOOKKEEPING, NULL, apply_overrides, value_of
from hf_summ.common.files import content_hash
from hf_summ.common.flags import names
from hf_summ.common.messages import one_line
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.files import COMPRESSIONS
from hf_summ.data.raw_formats import format_of
from hf_summ.experiments.tables import Flags, Row, Scale, Table, configs_folder, load_scale
from hf_summ.extractive import DocumentFrequencies
from hf_summ.training.arguments import flags_of
from hf_summ.training.parsing import merged, parse_flags, read_settings, short_run, without_effect

# The names that a split's file may have, without extension.
_SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
_EXTENSIONS = (".jsonl", ".json", ".csv", ".parquet")
# Flags of `hf-summ table` itself, which a message may suggest for an unknown flag.
_TABLE_FLAGS = ("list", "scale", "data", "rows", "split", "language_model", "output_dir")


def base_settings(table: Table, row: Row, dataset: str, scale_name: str, extra: Flags) -> tuple[Flags, Scale]:
    """The flags of a row's training without data and vocabulary, and its scale.

    Later settings override earlier ones: first the paper's, then the scale's, the row's and the user's. A row with a
    `model_type` uses the scale of that architecture. Its vocabulary is still that of its data set's scale if its file
    describes another architecture. Of the user's `config_overrides`, the row has those that its configuration knows.

    Args:
        table: the table.
        row: the row.
        dataset: a data set of the table.
        scale_name: one of `SCALES`.
        extra: flags of the user for every training run.

    Raises:
        ValueError: the data set has no configuration, or the architecture or its scales do not exist.
    """
    config = table.config_of(row, dataset)
    if config is None:
        raise ValueError(f"{dataset} has no configuration for training")
    architecture = architecture_of(table, row, dataset)
    if architecture not in CONFIG_MAPPING:
        raise ValueError(f"the architecture {architecture} does not exist yet")
    paper_settings = read_settings(str(configs_folder() / config))
    # A baseline of another architecture uses the scale of the rows with which it is compared.
    dataset_architecture = _folder_of(table.datasets[dataset] or config)
    scale = load_scale(dataset_architecture, scale_name)
    if "model_type" in row.flags:
        dataset_vocabulary = scale.vocabulary
        scale = load_scale(architecture, scale_name)
        if architecture != _folder_of(config):
            paper_settings["config_overrides"] = {}
            scale = replace(scale, vocabulary=dataset_vocabulary)
    settings = merged({"seed": 42}, paper_settings, scale.settings)
    # A scale has settings for all schedules and optimizers. Those without effect are dropped.
    ineffective = without_effect(settings)
    settings = _without(settings, ineffective)
    row_settings = merged(settings, row.settings_of_scale(scale_name), row.settings)
    settings = merged(row_settings, short_run(row_settings, extra), _user_settings(extra, architecture))
    return _without_none(settings), scale


def _only(settings: Mapping[str, object], flags: Collection[str]) -> Flags:
    """Those of the settings that are among the flags."""
    return {name: value for name, value in settings.items() if name in flags}


def _without(settings: Mapping[str, object], flags: Collection[str]) -> Flags:
    """The settings that are not among the flags."""
    return {name: value for name, value in settings.items() if name not in flags}


def _without_none(settings: Flags) -> Flags:
    """The settings without those that are None, which removes a flag."""
    return {name: value for name, value in settings.items() if value is not None}


def _folder_of(config: str) -> str:
    """The folder of a file under `configs/`, which is named by an architecture."""
    return Path(config).parts[0]


def _user_settings(extra: Flags, architecture: str) -> Flags:
    """The user's flags for a row: without `quick`, and with the `config_overrides` that its architecture knows."""
    settings = dict(extra)
    # `quick` stands for other settings, which differ between rows.
    settings.pop("quick", None)
    overrides = {}
    for key, value in extra.get("config_overrides", {}).items():
        if missing_key(architecture, key) is None:
            overrides[key] = value
    settings["config_overrides"] = overrides
    return settings


def architecture_of(table: Table, row: Row, dataset: str) -> str:
    """The `model_type` of a row's model."""
    model_type = row.flags.get("model_type")
    if model_type:
        return model_type
    return _folder_of(str(table.config_of(row, dataset)))


def missing_key(architecture: str, key: str) -> str | None:
    """Why a key of `config_overrides` cannot be set in an architecture's configuration, or None if it can."""
    # `null` removes the overrides of a row.
    if key == NULL:
        return None
    # A dotted key leads into a configuration that may not be read yet, so only its first part is checked.
    first_part = key.partition(".")[0]
    try:
        value_of(AutoConfig.for_model(architecture), first_part)
    except ValueError as error:
        return one_line(error)
    return None


def with_data(settings: Mapping[str, object], data: Mapping[str, object]) -> Flags:
    """The settings with other data than the configuration's, and without its settings for reading data.

    Args:
        settings: flags of a run.
        data: files, columns and other fields of a `Corpus`.
    """
    return {**_without(settings, names(Corpus)), **data}


def split_files(folder: str | Path, data_format: str | None = None) -> dict[str, str]:
    """Find `train_file`, `validation_file` and `test_file` in a folder by their names.

    Args:
        folder: the folder.
        data_format: a format of `Corpus`, which finds its splits in the folder.

    Raises:
        ValueError: a split has no file, or several.
    """
    folder = Path(folder)
    files = {}
    for split in SPLITS:
        if data_format is None:
            # Links are not resolved, as the extension is in the link's name.
            file = (folder / _name_of_split_file(folder, split)).absolute()
        else:
            # The format raises an error if the folder lacks the split.
            format_of(data_format).locate(str(folder), split)
            file = folder.absolute()
        files[file_flag(split)] = str(file)
    return files


def _name_of_split_file(folder: Path, split: str) -> str:
    """The name of the only file in a folder that has one of a split's names; raises a ValueError without one."""
    possible_names = []
    for stem in _SPLIT_NAMES[split]:
        for extension in _EXTENSIONS:
            for compression in ("", *COMPRESSIONS):
                possible_names.append(f"{stem}{extension}{compression}")
    present_names = []
    for name in possible_names:
        if (folder / name).is_file():
            present_names.append(name)
    if len(present_names) == 1:
        return present_names[0]
    problem = f"there is no {possible_names[0]}"
    if present_names:
        problem = f"there are {' and '.join(present_names)}"
    raise ValueError(
        f"{folder}: {problem}, but there must be exactly one file for {split} ({', '.join(_EXTENSIONS)}; also "
        "compressed)"
    )


def flags_of_all_rows(tokens: Sequence[str]) -> Flags:
    """Flags of the training recipe for every row, from the command line.

    Raises:
        ValueError: an unknown flag, a wrong value, or a flag that the runs of a table cannot share.
    """
    settings = parse_flags(tokens, _TABLE_FLAGS)
    if "extract_idf" in settings:
        # This raises an error if the file is wrong.
        DocumentFrequencies.load(settings["extract_idf"])
    for name in settings:
        if name in flags_of("single"):
            raise ValueError(f"--{name}: cannot be shared by the rows of a table, whose runs are separate; omit it")
        if name in flags_of("secret"):
            raise ValueError(f"--{name}: would be written to the settings of each run; set HF_TOKEN instead")
    return settings


def resolved_config(settings: Flags) -> Flags:
    """All values of the model's configuration except those that the vocabulary determines."""
    config = apply_overrides(AutoConfig.for_model(settings["model_type"]), settings["config_overrides"])
    resolved = _without(config.to_dict(), BOOKKEEPING)
    resolved.pop("vocab_size", None)
    return resolved


def data_fingerprint(settings: Flags, splits: Sequence[str] = SPLITS) -> dict[str, object]:
    """What identifies the rows that a run reads: the files' contents or the data set's name, and how they are read.

    Args:
        settings: flags of the run.
        splits: the splits that it reads.
    """
    corpus = Corpus.among(settings)
    # Without files, the fields are the name of the data set and how rows are read.
    identity: dict[str, object] = corpus.only(()).given()
    for split in splits:
        if split in corpus.files:
            identity[split] = [content_hash(path) for path in corpus.paths(split)]
    return identity


def fingerprint(*values: object) -> str:
    """A hash of the values: 16 hexadecimal digits."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def training_fingerprint(settings: Flags) -> str:
    """A hash of a training run: the model's values, given or default, flags, data and vocabulary.

    An initial checkpoint or a pre-trained part is identified by its name.
    """
    # The values of the configuration and the contents of the processor represent the last two flags.
    hashed_flags = flags_of("model", "training") - flags_of("reporting") - {"config_overrides", "tokenizer_name"}
    flags = _hashed_values(settings, hashed_flags)
    data = data_fingerprint(settings, ("train", "validation"))
    return fingerprint(resolved_config(settings), flags, data, name_of_processor(settings))


def second_run_settings(settings: Flags, row: Row, scale_name: str, extra: Flags, start: Path) -> Flags:
    """The flags of a row's second training run.

    Args:
        settings: flags of the first run.
        row: a row with a second run.
        scale_name: one of `SCALES`.
        extra: flags of the user for every training run.
        start: the folder of the first run's model.
    """
    assert row.second_run is not None
    user_settings = _without(extra, ("config_overrides", "quick"))
    scale_settings = row.second_run.settings_of_scale(scale_name)
    second_settings = merged(settings, scale_settings, short_run(settings, extra), user_settings)
    second_settings["config_overrides"] = dict(row.second_run.config_overrides)
    second_settings["model_name_or_path"] = str(start)
    # The first run's checkpoint has the other values of the configuration, and the processor.
    return _without_none(_without(second_settings, ("model_type", "tokenizer_name")))


def second_run_fingerprint(settings: Flags, first: str) -> str:
    """A hash of a second training run: its settings, and the hash of the first run in place of its folder."""
    hashed_flags = flags_of("model", "training") - flags_of("reporting") - {"model_name_or_path"}
    return fingerprint(first, _hashed_values(settings, hashed_flags))


def decoding_settings(settings: Flags, row: Row, model: Path, **decoding_flags: object) -> Flags:
    """The flags of a trained row's decoding.

    Args:
        settings: flags of its training.
        row: the row.
        model: the folder of the trained model.
        decoding_flags: flags of its decoding only, besides the row's.
    """
    decoding = _only(settings, flags_of("decoding"))
    decoding |= Corpus.among(settings).only(["test"]).given()
    decoding |= decoding_flags
    decoding |= row.decoding
    decoding["config_overrides"] = dict(row.decoding_overrides)
    decoding["model_name_or_path"] = str(model)
    decoding["do_predict"] = True
    return decoding


def decoding_fingerprint(settings: Flags) -> str:
    """A hash of a decoding run of a model."""
    hashed_flags = (flags_of("decoding") - flags_of("reporting")) | {"config_overrides"}
    return fingerprint(_hashed_values(settings, hashed_flags), data_fingerprint(settings, ("test",)))


def _hashed_values(settings: Flags, hashed_flags: Collection[str]) -> Flags:
    """The settings that a hash counts, with a file's content instead of its name."""
    values = _only(settings, hashed_flags)
    if values.get("extract_idf") is not None:
        values["extract_idf"] = content_hash(values["extract_idf"])
    return values


def name_of_processor(settings: Flags) -> str:
    """What identifies the processor that settings name: a hash of its files, or its name on the Hub."""
    name = str(settings.get("tokenizer_name"))
    folder = Path(name)
    # The name of a fitted processor's folder is its fingerprint.
    if re.fullmatch("[0-9a-f]{16}", folder.name):
        return folder.name
    if not folder.is_dir():
        return name
    hashes = []
    for path in sorted(folder.iterdir()):
        if path.is_file():
            hashes.append((path.name, content_hash(path)))
    return fingerprint(hashes)
