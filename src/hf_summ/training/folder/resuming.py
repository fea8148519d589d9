"""The description of a run in run.yaml, and the checkpoint in its output folder from which training resumes."""

import dataclasses
import importlib.metadata
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets

import hf_summ
from hf_summ.checkpoints.folders import STATE, checkpoint_folders
from hf_summ.checkpoints.overrides import BOOKKEEPING
from hf_summ.checkpoints.pretrained_parts import pretrained_names
from hf_summ.common.flags import names
from hf_summ.common.hashes import content_hash, hash_of_values
from hf_summ.common.records import plain, shown
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.training.arguments import GROUPS, RunArguments, SummarizationTrainingArguments, flags_of
from hf_summ.training.folder.ledger import (
    STARTING_WEIGHTS,
    TAGGER,
    TRAINING_DATA,
    VALIDATION,
    Description,
    Ledger,
    SplitOrigin,
)
from hf_summ.training.model import RunModel
from hf_summ.training.rows.extraction import Extraction
from hf_summ.training.rows.preparing import processor_fingerprint, tagger_fingerprint

# libraries whose versions a run depends on
_LIBRARIES = ("transformers", "torch", "datasets", "tokenizers")
# value of --resume_from_checkpoint: start over
NO_CHECKPOINT = "no"
# keys of a config that are not settings: libraries set them, or training changes them
_NOT_SETTINGS = set(BOOKKEEPING) | {"dtype", "epochs_trained", "_attn_implementation_internal"}
# the state of the schedule in a checkpoint
_SCHEDULER = "scheduler.pt"
# endings of the names of files with weights
_WEIGHT_SUFFIXES = (".safetensors", ".bin")


@dataclass(frozen=True)
class Resumption:
    """Where a training run resumes.

    Args:
        checkpoint: the folder from which training resumes, or None if it starts over or is complete.
        is_trained: whether training is complete already.
    """

    checkpoint: str | None = None
    is_trained: bool = False


def describe(
    arguments: RunArguments,
    argv: Sequence[str],
    corpus: datasets.DatasetDict,
    run_model: RunModel,
    extraction: Extraction | None,
) -> Description:
    """A run's description, ready for YAML.

    Its entry `updates` has all that determines the weights after training, see `_weight_determinants`. Training resumes
    only if nothing in it has changed, see `Ledger.changed_updates`.

    Args:
        argv: the command line of the arguments.
        corpus: the splits that are used.
        run_model: the model, the processor and the lengths of texts.
        extraction: the stage that shortens documents, if any.
    """
    data = {}
    for split, rows in corpus.items():
        data[split] = _split_origin(arguments.corpus, split, rows, extraction)
    secrets = flags_of("secret")
    settings = {}
    for name, value in sorted(arguments.given.items()):
        if name not in secrets:
            settings[name] = value
    description: Description = {
        "command": command_line(argv, arguments.training.world_size),
        "versions": library_versions(),
        "data": data,
        "updates": _weight_determinants(arguments, data, run_model),
        "settings": settings,
    }
    # YAML has no enumerations and no paths.
    return plain(description)


def library_versions() -> dict[str, str]:
    """The versions of hf_summ and of the libraries on which a run depends, by name."""
    versions = {"hf_summ": hf_summ.__version__}
    for name in _LIBRARIES:
        versions[name] = importlib.metadata.version(name)
    return versions


def _split_origin(corpus: Corpus, split: str, rows: datasets.Dataset, extraction: Extraction | None) -> SplitOrigin:
    """Where the rows of a split come from, and whether the extractive stage shortened their documents."""
    is_stream = isinstance(rows, datasets.IterableDataset)
    origin: SplitOrigin
    if split in corpus.files:
        origin = {"files": {str(path): content_hash(path) for path in corpus.paths(split)}}
    elif is_stream:
        origin = {"name": corpus.dataset_name, "configuration": corpus.dataset_config_name}
        # A stream has no fingerprint, so the content of its folder counts.
        if corpus.dataset_name is not None and os.path.isdir(corpus.dataset_name):
            origin["files"] = {corpus.dataset_name: content_hash(corpus.dataset_name)}
    else:
        origin = {"name": corpus.dataset_name, "fingerprint": rows._fingerprint}
    if extraction is not None and split in extraction.splits:
        origin["extraction"] = extraction.fingerprint
    if is_stream:
        origin["streaming"] = True
    else:
        origin["rows"] = len(rows)
    return origin


def _weight_determinants(
    arguments: RunArguments, data: Mapping[str, SplitOrigin], run_model: RunModel
) -> dict[str, object]:
    """All that determines a run's weights, by name: settings, the values of the model's config, data and processor.

    Args:
        data: where the rows of each split come from that the run reads.
        run_model: the model, the processor and the lengths of texts.
    """
    training = arguments.training
    settings: dict[str, object] = {}
    for group in vars(arguments).values():
        if not isinstance(group, GROUPS):
            continue
        for field in dataclasses.fields(group):
            settings[field.name] = getattr(group, field.name)
    # the contents of files count instead of their names
    file_flags = {file_flag(split) for split in SPLITS}
    counted = set(flags_of("updates")) | (set(names(Corpus)) - file_flags)
    # the number of batches in an update counts, however many devices share them
    counted.discard("gradient_accumulation_steps")
    determinants = {name: settings[name] for name in sorted(counted)}
    determinants["gradient_accumulation_steps × processes"] = training.gradient_accumulation_steps * training.world_size
    determinants.update(_flat(run_model.model.config.to_dict(), "config_overrides "))
    determinants[TRAINING_DATA] = _content(data.get("train", {}))
    if training.load_best_model_at_end:
        # scores on the validation data choose the weights, and may end the run early
        determinants[VALIDATION] = _content(data.get("validation", {}))
        determinants["max_eval_samples"] = arguments.data.max_eval_samples
    starting_weights = _starting_weights(arguments, run_model)
    if starting_weights:
        determinants[STARTING_WEIGHTS] = hash_of_values(starting_weights)[:16]
    determinants["max_source_length"] = run_model.lengths.source
    determinants["max_target_length"] = run_model.lengths.target
    determinants["processor"] = processor_fingerprint(run_model.processor)[:16]
    tagger = tagger_fingerprint(run_model.processor)
    if tagger is not None:
        determinants[TAGGER] = tagger
    return determinants


def _content(origin: SplitOrigin) -> str:
    """The hashes of a split's rows and of the extractive stage that shortened them; empty if the split is not read."""
    hashes = list(origin.get("files", {}).values())
    if "fingerprint" in origin:
        hashes.append(origin["fingerprint"])
    if "extraction" in origin:
        hashes.append(origin["extraction"])
    return " ".join(hashes)


def _starting_weights(arguments: RunArguments, run_model: RunModel) -> list[str]:
    """The hashes of the files in local folders from which the weights at the start of the run come.

    They are the files of a checkpoint, of an adapter and its base, or of the pre-trained parts of a new model.
    """
    start = arguments.model.model_name_or_path
    if start is None:
        checkpoints = pretrained_names(run_model.model.config)
    else:
        # the config of an adapted model is that of its base
        checkpoints = [start, run_model.model.config.name_or_path or start]
    output_folder = Path(arguments.training.output_dir).resolve()
    hashes = []
    for name in dict.fromkeys(checkpoints):
        folder = Path(name)
        # a run in the folder of its start replaces the weights there
        if folder.resolve() == output_folder or not folder.is_dir():
            continue
        for file in sorted(folder.iterdir()):
            if file.suffix in _WEIGHT_SUFFIXES:
                hashes.append(content_hash(file))
    return hashes


def _flat(tree: Mapping[str, object], prefix: str) -> dict[str, object]:
    """The settings of a config by their dotted names, such as `bert_config.hidden_size`, each after `prefix`."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if name in _NOT_SETTINGS:
            continue
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def command_line(argv: Sequence[str], processes: int) -> str:
    """The command with these arguments, without the flags of secrets and their values.

    Args:
        processes: the number of processes that run it.
    """
    tokens = ["hf-summ", "train"]
    if processes > 1:
        tokens = ["accelerate", "launch", "-m", "hf_summ.training"]
    secrets = flags_of("secret")
    # whether the token is a secret's flag, or a value after it
    is_secret = False
    for token in argv:
        if token.startswith("--"):
            flag = token.partition("=")[0].lstrip("-").replace("-", "_")
            is_secret = flag in secrets
        if not is_secret:
            tokens.append(token)
    return shlex.join(tokens)


def find_resumption(training: SummarizationTrainingArguments, ledger: Ledger, description: Description) -> Resumption:
    """Where training resumes, or that it is complete.

    The first of these cases that applies decides:

    - The run does not train, or `--resume_from_checkpoint no` starts it over: it resumes from no checkpoint.
    - `--resume_from_checkpoint FOLDER` names a checkpoint: training resumes from it.
    - The output folder has the results of a training: training is complete.
    - Otherwise, training resumes from the last complete checkpoint of the output folder, or starts if there is none.

    Args:
        training: the arguments of the run.
        ledger: the ledger of the output folder.
        description: the description of the run.

    Raises:
        ValueError: the output folder, or the named checkpoint, belongs to a run with other settings, or there is no
            such checkpoint.
    """
    named = named_checkpoint(training)
    if not training.do_train or named == NO_CHECKPOINT:
        return Resumption()
    is_trained = "train" in ledger.steps and ledger.is_finished("train")
    last = last_complete_checkpoint(training.output_dir)
    if is_trained or last is not None:
        _check_same(ledger, description)
    if named is not None:
        _check_same(Ledger(Path(named).parent), description)
        return Resumption(named)
    if is_trained:
        return Resumption(is_trained=True)
    return Resumption(last)


def named_checkpoint(training: SummarizationTrainingArguments) -> str | None:
    """What --resume_from_checkpoint names.

    Returns:
        The folder of a checkpoint, `NO_CHECKPOINT` to start over, or None to resume from the run's last checkpoint.

    Raises:
        ValueError: there is no such folder, or training cannot resume from it.
    """
    named = training.resume_from_checkpoint
    if named is None or named.lower() in ("true", "yes"):
        return None
    if named.lower() in ("false", "no"):
        return NO_CHECKPOINT
    if not Path(named).is_dir():
        # transformers would raise an error too, but only after the corpus is prepared
        raise ValueError(f"--resume_from_checkpoint {named}: no such folder")
    problem = _resuming_problem(Path(named))
    if problem is not None:
        raise ValueError(
            f"--resume_from_checkpoint {named}: {problem}: to start a new run from its weights, give it as "
            "--model_name_or_path"
        )
    return named


def _check_same(ledger: Ledger, description: Description) -> None:
    """Check that a folder's training run yields the same weights as the described run.

    A folder without the description of a training run is accepted.

    Args:
        ledger: the ledger of the folder.
        description: the description of the run that would resume.

    Raises:
        ValueError: something that determines the weights differs.
    """
    if "train" not in ledger.steps:
        return
    differences = ledger.changed_updates(description)
    if differences:
        raise ValueError(
            f"{ledger.folder}: its run has other settings ({shown(differences)}): give another --output_dir, or start "
            f"over, without its checkpoints, with --resume_from_checkpoint {NO_CHECKPOINT}"
        )


def last_complete_checkpoint(folder: str | os.PathLike) -> str | None:
    """The path of the newest `checkpoint-<step>` from which training can resume, or None if there is none.

    transformers would take the newest checkpoint, even one from which training cannot resume.

    Args:
        folder: the output folder of the run.
    """
    for _, checkpoint in reversed(checkpoint_folders(folder)):
        if _resuming_problem(checkpoint) is None:
            return str(checkpoint)
    return None


def _resuming_problem(checkpoint: Path) -> str | None:
    """Why training cannot resume from a checkpoint, or None if it can.

    Training cannot resume from two kinds of checkpoints:

    - A run that was killed while it saved has left an incomplete checkpoint. Its trainer_state.json, which is written
      last, is missing or ends early.
    - A checkpoint of --save_only_model has no state of the optimizer and of the scheduler. transformers would silently
      train on with a new optimizer.
    """
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"it has no complete {STATE}"
    # The states of optimizer and scheduler are saved together. The scheduler's file is looked up, because it always
    # has this name, while the optimizer's state has another name if it is sharded.
    if not (checkpoint / _SCHEDULER).exists():
        return f"it has no {_SCHEDULER}, and no state of the optimizer"
    return None
