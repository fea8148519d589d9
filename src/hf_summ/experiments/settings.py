"""The settings of a row's training and decoding runs, and hashes that identify the runs.

Settings are flags of the training recipe with their values. They come from the file of the paper's settings under
`configs/`, from the scale, from the row of the table, and from the user. The file is in a folder that is named by an
architecture, such as `gdlf/xsum.yaml`. An architecture is named by its `model_type`. A scale, such as "tiny", has the
sizes of models and runs, for each architecture.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from transformers import CONFIG_MAPPING, AutoConfig

from hf_summ.checkpoints.overrides import BOOKKEEPING, NULL, apply_overrides, value_of
from hf_summ.common.flags import given_settings, names
from hf_summ.common.hashes import content_hash, hash_of_values
from hf_summ.common.messages import one_line
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.files import COMPRESSIONS
from hf_summ.data.raw_formats import format_of
from hf_summ.experiments.scales import Scale, load_scale
from hf_summ.experiments.tables import Flags, Row, Table, configs_folder
from hf_summ.extractive import DocumentFrequencies
from hf_summ.training.arguments import flags_of
from hf_summ.training.parsing import merged, parse_flags, read_settings, short_run, without_effect

# Split -> the names that its file may have in a folder of the user, without extension.
_SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
_EXTENSIONS = (".jsonl", ".json", ".csv", ".parquet")
# The flags of the command `hf-summ table` itself. The message about an unknown flag may suggest one of them.
_TABLE_FLAGS = ("list", "scale", "data", "rows", "split", "language_model", "output_dir")


def base_settings(table: Table, row: Row, dataset: str, scale_name: str, extra: Flags) -> tuple[Flags, Scale]:
    """The flags of a row's training, and the scale of the row.

    The user's data and the fitted vocabulary are not among the flags yet. Settings are merged in this order, so that
    later settings override earlier ones:

    1. the seed 42, and the file of the paper's settings, see `Table.config_of`;
    2. the scale, see `_scale_of_row`;
    3. the row: first its settings for one scale, then its settings for all scales;
    4. if the user gives `quick`, the flags of a short run, see `short_run`;
    5. the user's flags. Keys of `config_overrides` that the row's architecture lacks are dropped.

    The function `merged` replaces the whole value of a flag, but merges `config_overrides` key by key. A dotted key
    counts as one key, so that values of nested configurations are not merged. The values of repeatable flags, which are
    lists, are joined. A flag that has no effect because of a later one is dropped. The value None removes a flag.

    If the row has a `model_type` other than the file's architecture, the `config_overrides` of the file are dropped.

    Args:
        table: the table.
        row: a row of the table.
        dataset: a data set of the table.
        scale_name: one of `SCALES`.
        extra: flags of the user for every training run.

    Raises:
        KeyError: the table has no such data set.
        ValueError: the data set has no file of settings, the file is wrong, or the architecture or its scales do not
            exist.
    """
    config = table.config_of(row, dataset)
    if config is None:
        raise ValueError(f"{dataset} has no configuration for training")
    architecture = architecture_of(table, row, dataset)
    if architecture not in CONFIG_MAPPING:
        raise ValueError(f"the architecture {architecture} does not exist yet")
    paper_settings = read_settings(str(configs_folder() / config))
    if architecture != _architecture_of_file(config):
        # The configuration of the row's architecture has other keys than the file's.
        paper_settings["config_overrides"] = {}
    scale = _scale_of_row(table, row, dataset, scale_name)
    settings = merged({"seed": 42}, paper_settings, scale.settings)
    # A scale has flags for every schedule and optimizer that a file may choose, and the flags for other choices than
    # this file's must be dropped. In the row and among the user's flags, a flag without effect is a mistake. So it is
    # not dropped there, and the run reports it.
    settings = _without(settings, without_effect(settings))
    row_settings = merged(settings, row.settings_of_scale(scale_name), row.settings)
    settings = merged(row_settings, short_run(row_settings, extra), _user_settings(extra, architecture))
    return given_settings(settings), scale


def _scale_of_row(table: Table, row: Row, dataset: str, scale_name: str) -> Scale:
    """The scale with the sizes of a row's model and runs.

    A row without `model_type` has the scale of the data set's file, even if the row names a file of another
    architecture. Such a row is a baseline, which has the sizes of the rows with which it is compared. A row with a
    `model_type` has the scale of this architecture. If its file describes another architecture, the vocabulary of the
    scale is replaced by the vocabulary of the data set's scale, as rows that are compared have the same vocabulary.

    Args:
        table: the table.
        row: a row of the table for which the table has a file of settings.
        dataset: a data set of the table.
        scale_name: one of `SCALES`.

    Raises:
        ValueError: an architecture has no scales.
    """
    file_of_row = str(table.config_of(row, dataset))
    file_of_dataset = table.datasets[dataset] or file_of_row
    dataset_scale = load_scale(_architecture_of_file(file_of_dataset), scale_name)
    if "model_type" not in row.flags:
        return dataset_scale
    architecture = architecture_of(table, row, dataset)
    scale = load_scale(architecture, scale_name)
    if architecture != _architecture_of_file(file_of_row):
        scale = replace(scale, vocabulary=dataset_scale.vocabulary)
    return scale


def _only(settings: Mapping[str, object], flags: Collection[str]) -> Flags:
    """The settings whose names are among the flags."""
    return {name: value for name, value in settings.items() if name in flags}


def _without(settings: Mapping[str, object], flags: Collection[str]) -> Flags:
    """The settings whose names are not among the flags."""
    return {name: value for name, value in settings.items() if name not in flags}


def _architecture_of_file(config: str) -> str:
    """The architecture that a file under `configs/` describes: the name of its folder there."""
    return Path(config).parts[0]


def _user_settings(extra: Flags, architecture: str) -> Flags:
    """The user's flags for a row, without `quick` and without keys of `config_overrides` that the row cannot have.

    Args:
        extra: flags of the user for every training run.
        architecture: the architecture of the row's model.
    """
    settings = dict(extra)
    # `quick` stands for flags whose values depend on the row. `short_run` returns them.
    settings.pop("quick", None)
    overrides = {}
    for key, value in extra.get("config_overrides", {}).items():
        if missing_key(architecture, key) is None:
            overrides[key] = value
    settings["config_overrides"] = overrides
    return settings


def architecture_of(table: Table, row: Row, dataset: str) -> str:
    """The architecture of a row's model: the row's flag `model_type`, or else the architecture of the row's file."""
    model_type = row.flags.get("model_type")
    if model_type:
        return model_type
    return _architecture_of_file(str(table.config_of(row, dataset)))


def missing_key(architecture: str, key: str) -> str | None:
    """Why a key of `config_overrides` cannot be set in an architecture's configuration, or None if it can be set."""
    if key == NULL:
        # This key removes the values that were set before, and is allowed for every architecture.
        return None
    # A key such as `bert_config.hidden_size` leads into the configuration of a part that may not be loaded yet, so only
    # the part of the key before the first dot is checked.
    first_part = key.partition(".")[0]
    try:
        value_of(AutoConfig.for_model(architecture), first_part)
    except ValueError as error:
        return one_line(error)
    return None


def with_data(settings: Mapping[str, object], data: Mapping[str, object]) -> Flags:
    """The settings with other data. All fields of `Corpus` among the settings are removed, and `data` is added.

    Args:
        settings: flags of a run.
        data: fields of a `Corpus`, such as files and columns.
    """
    return {**_without(settings, names(Corpus)), **data}


def split_files(folder: str | Path, data_format: str | None = None) -> dict[str, str]:
    """The flags `train_file`, `validation_file` and `test_file` for the splits in a folder, with absolute paths.

    Args:
        folder: the folder.
        data_format: the format in which the folder's data set is distributed, as in `Corpus`. Each flag then names the
            folder, in which the format finds the files of a split. By default, each split has one file, found by name.

    Raises:
        ValueError: a split has no file, or has several files; or there is no such format.
    """
    folder = Path(folder)
    files = {}
    for split in SPLITS:
        if data_format is None:
            # Links are not resolved, as the file that a link leads to may have no extension.
            file = (folder / _name_of_split_file(folder, split)).absolute()
        else:
            # This raises an error if the folder lacks the split.
            format_of(data_format).locate(str(folder), split)
            file = folder.absolute()
        files[file_flag(split)] = str(file)
    return files


def _name_of_split_file(folder: Path, split: str) -> str:
    """The name of the file of a split in a folder.

    Raises:
        ValueError: no file, or more than one, has a name of the split.
    """
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
    """Parse the flags of the training recipe that a user gives for every row of a table.

    Args:
        tokens: the arguments of the command line, such as `["--max_steps", "50"]`.

    Raises:
        ValueError: an unknown flag, a wrong value, or a flag that the runs of a table cannot share.
    """
    settings = parse_flags(tokens, _TABLE_FLAGS)
    if "extract_idf" in settings:
        # The result is not used: this raises an error if the file is wrong, before any row is run.
        DocumentFrequencies.load(settings["extract_idf"])
    for name in settings:
        if name in flags_of("single"):
            raise ValueError(f"--{name}: cannot be shared by the rows of a table, whose runs are separate; omit it")
        if name in flags_of("secret"):
            raise ValueError(f"--{name}: would be written to the settings of each run; set HF_TOKEN instead")
    return settings


def resolved_config(settings: Flags) -> Flags:
    """All values of the model's configuration, given or default, except `vocab_size`, which the vocabulary determines.

    Args:
        settings: flags of a training run, with `model_type` and `config_overrides`.

    Raises:
        ValueError: `config_overrides` has an unknown key or a wrong value.
    """
    config = apply_overrides(AutoConfig.for_model(settings["model_type"]), settings["config_overrides"])
    resolved = _without(config.to_dict(), BOOKKEEPING)
    resolved.pop("vocab_size", None)
    return resolved


def data_fingerprint(settings: Flags, splits: Sequence[str] = SPLITS) -> dict[str, object]:
    """What identifies the rows that a run reads: how rows are read, and hashes of files or the name of a data set.

    A data set in a folder is identified by the hash of the folder's content instead of its name.

    Args:
        settings: flags of the run.
        splits: the splits that the run reads.

    Returns:
        Field of `Corpus` -> its value, except the fields with files; and split -> the hashes of its files' contents.
    """
    corpus = Corpus.among(settings)
    # A corpus with the files of no splits has only the name of the data set and how rows are read.
    identity: dict[str, object] = corpus.only(()).given()
    if corpus.dataset_name is not None and os.path.isdir(corpus.dataset_name):
        identity["dataset_name"] = content_hash(corpus.dataset_name)
    for split in splits:
        if split in corpus.files:
            identity[split] = [content_hash(path) for path in corpus.paths(split)]
    return identity


def fingerprint(*values: object) -> str:
    """A hash of values: 16 hexadecimal digits. Values are compared as JSON; other objects are compared as strings."""
    return hash_of_values(values)[:16]


def training_fingerprint(settings: Flags) -> str:
    """A hash of all that determines a training run's weights, which names the run's folder.

    It counts the model's configuration, the flags of model and training, the contents of the training and validation
    data, and the processor. An initial checkpoint or a pre-trained part counts with its name, not with its content.

    Args:
        settings: flags of the training run.
    """
    # Two flags are replaced in the hash by what they stand for: `config_overrides` by all values of the configuration,
    # and `tokenizer_name` by the content of the processor.
    hashed_flags = flags_of("model", "training") - flags_of("reporting") - {"config_overrides", "tokenizer_name"}
    flags = _hashed_values(settings, hashed_flags)
    data = data_fingerprint(settings, ("train", "validation"))
    return fingerprint(resolved_config(settings), flags, data, name_of_processor(settings))


def second_run_settings(settings: Flags, row: Row, scale_name: str, extra: Flags, start: Path) -> Flags:
    """The flags of a row's second training run, which trains the model of the first run further.

    They are the flags of the first run with changes, merged in this order: the second run's flags for the scale, the
    flags of a short run if the user gives `quick`, and the user's other flags. `config_overrides` of the first run and
    of the user are dropped, as the first run's checkpoint has their values. `config_overrides` of the second run are
    kept.

    Args:
        settings: flags of the first run, including `do_train`.
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
    # The checkpoint in `start` determines the architecture and the processor.
    return given_settings(_without(second_settings, ("model_type", "tokenizer_name")))


def second_run_fingerprint(settings: Flags, first_fingerprint: str) -> str:
    """A hash of a second training run, which names the run's folder.

    Args:
        settings: flags of the second run.
        first_fingerprint: the hash of the first run, from `training_fingerprint`. It replaces `model_name_or_path`, the
            folder of the first run, so that the hash does not depend on where the folder is.
    """
    hashed_flags = flags_of("model", "training") - flags_of("reporting") - {"model_name_or_path"}
    return fingerprint(first_fingerprint, _hashed_values(settings, hashed_flags))


def decoding_settings(settings: Flags, row: Row, model: Path, **decoding_flags: object) -> Flags:
    """The flags of the run that summarizes the test documents with a row's trained model.

    They are the flags of decoding and of the test data among the flags of the training, then `decoding_flags`, and then
    the row's `decoding`; later values replace earlier ones. `config_overrides` are the row's `decoding_overrides`.

    Args:
        settings: flags of the row's training.
        row: the row.
        model: the folder of the trained model.
        decoding_flags: further flags of this decoding.
    """
    decoding = _only(settings, flags_of("decoding"))
    # Only the rows of a training are a stream.
    decoding |= Corpus.among({**settings, "streaming": None}).only(["test"]).given()
    decoding |= decoding_flags
    decoding |= row.decoding
    decoding["config_overrides"] = dict(row.decoding_overrides)
    decoding["model_name_or_path"] = str(model)
    decoding["do_predict"] = True
    return decoding


def decoding_fingerprint(settings: Flags) -> str:
    """A hash of a decoding run's flags and test data, which names the run's folder in the folder of the model."""
    hashed_flags = (flags_of("decoding") - flags_of("reporting")) | {"config_overrides"}
    return fingerprint(_hashed_values(settings, hashed_flags), data_fingerprint(settings, ("test",)))


def _hashed_values(settings: Flags, hashed_flags: Collection[str]) -> Flags:
    """The settings whose names are among `hashed_flags`, with a hash of the file's content instead of `extract_idf`."""
    values = _only(settings, hashed_flags)
    if values.get("extract_idf") is not None:
        values["extract_idf"] = content_hash(values["extract_idf"])
    return values


def name_of_processor(settings: Flags) -> str:
    """What identifies the processor of a run: a hash of the files in its folder, or its name on the Hub.

    Args:
        settings: flags of the run, whose `tokenizer_name` is a folder or a name on the Hub.
    """
    name = str(settings.get("tokenizer_name"))
    folder = Path(name)
    # A processor that was fitted for a table is in a folder named by a hash of 16 digits, see `fitted_processor`.
    if re.fullmatch("[0-9a-f]{16}", folder.name):
        return folder.name
    if not folder.is_dir():
        return name
    hashes = []
    for path in sorted(folder.iterdir()):
        if path.is_file():
            hashes.append((path.name, content_hash(path)))
    return fingerprint(hashes)
