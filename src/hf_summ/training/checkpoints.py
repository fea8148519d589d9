"""Checkpoints of a run: which are complete, and the average of several."""

import json
import logging
import os
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel
from transformers.trainer_callback import TrainerState
from transformers.utils import ADAPTER_CONFIG_NAME

from hf_summ.common.files import moved_into_place
from hf_summ.common.records import parse_json
from hf_summ.training import adapters
from hf_summ.training.adapters import is_adapted, trained_weights
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.records import RunRecord

logger = logging.getLogger(__name__)

_STATE = "trainer_state.json"
_WEIGHTS = ("model.safetensors", adapters.WEIGHTS)
_INDEX = "model.safetensors.index.json"
# transformers continues without some of these if they cannot be read, and then decodes with other settings
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
_FOLDER = re.compile(r"^checkpoint-(\d+)$")
# the folder of FSDP2's shards, and the file in it that is written last
_SHARDS = "pytorch_model_fsdp_0"
_SHARDS_END = ".metadata"
# files that hold the rest of a training's state
_RESUMED = ("optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "rng_state*.pth")
# files of a training checkpoint other than model and processor
_TRAINING_FILES = re.compile(
    r"^(optimizer|scheduler|scaler|rng_state.*|training_args|trainer_state|pytorch_model_fsdp)\.(pt|pth|bin|json)$"
)


def last_complete_checkpoint(run_folder: str | os.PathLike) -> str | None:
    """Path of the newest `checkpoint-<step>` that training can resume from, or None; a warning tells of others.

    Checkpoints from before the run started over, see `RunRecord.start`, are not among them.
    """
    for _, folder in reversed(_checkpoints(run_folder)):
        problem = resume_problem(folder)
        if problem is None:
            return str(folder)
        logger.warning(f"{folder} is skipped: {problem}")
    return None


def checkpoint_problem(folder: str | os.PathLike) -> str | None:
    """Why a checkpoint is not complete, or None if it is."""
    folder = Path(folder)
    if not folder.is_dir():
        return "no such folder"
    if (folder / _SHARDS).is_dir():
        problem = None if (folder / _SHARDS / _SHARDS_END).exists() else f"its {_SHARDS} is incomplete"
    else:
        problem = weights_problem(folder)
    if problem is not None:
        return problem
    try:
        # written last, so a checkpoint without it is incomplete
        step = json.loads((folder / _STATE).read_text(encoding="utf-8"))["global_step"]
    except FileNotFoundError:
        return f"it has no {_STATE}, so it is incomplete"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its {_STATE} cannot be read ({error})"
    name = _FOLDER.match(folder.name)
    if name and int(name[1]) != step:
        return f"its {_STATE} is of step {step}"
    return None


def resume_problem(folder: str | os.PathLike) -> str | None:
    """Why training cannot resume from this checkpoint as if it had not been interrupted, or None if it can."""
    problem = checkpoint_problem(folder)
    if problem is not None:
        return problem
    folder = Path(folder)
    for name in ("optimizer", "scheduler", "rng_state"):
        if not any(folder.glob(f"{name}*")):
            return f"it has no {name}, as with --save_only_model, so it is only of use as --model_name_or_path"
    files = (file for name in _RESUMED for file in sorted(folder.glob(name)) if file.is_file())
    return next((f"its {file.name} is incomplete" for file in files if not _is_whole(file)), None)


def model_problem(folder: str | os.PathLike) -> str | None:
    """What is wrong with the files of a saved model and its processor, or None."""
    folder = Path(folder)
    problem = settings_problem(folder)
    if problem is not None:
        return problem
    # checkpoints from elsewhere may have another kind of weights
    has_safetensors = any((folder / name).exists() for name in (*_WEIGHTS, _INDEX))
    return None if not has_safetensors and any(folder.glob("*_model*.bin")) else weights_problem(folder)


def settings_problem(folder: str | os.PathLike) -> str | None:
    """Which of a folder's settings and vocabulary files cannot be read, or None."""
    for name in _SETTINGS:
        try:
            parse_json((Path(folder) / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return f"{name} cannot be read ({error})"
    return None


def weights_problem(folder: str | os.PathLike) -> str | None:
    """What is wrong with a folder's safetensors, or None: they cannot be read, or contain NaN, infinity or integers."""
    try:
        files = _weight_files(Path(folder))
    except ValueError as error:
        return str(error)
    is_quantized = _is_quantized(Path(folder))
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                    tensor = tensors.get_tensor(name)
                    if not is_finite(tensor):
                        return f"{file.name} has values that are not finite, in {name}"
                    # beside them are counters and positions, which are integers
                    is_weight = name.rpartition(".")[2].startswith(("weight", "bias"))
                    if is_weight and not tensor.is_floating_point() and not is_quantized:
                        return f"{file.name} has {tensor.dtype} in {name}, which cannot be weights"
        except (SafetensorError, OSError) as error:
            return f"{file.name} cannot be read ({error})"
    return None


def _is_quantized(folder: Path) -> bool:
    """Whether the weights are meant to be in few bits."""
    try:
        return "quantization_config" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    if not tensor.is_floating_point():
        return True
    # types of 8 bits have no such test of their own
    return bool(torch.isfinite(tensor if tensor.element_size() > 1 else tensor.float()).all())


def check_fits(folder: str | os.PathLike, model: PreTrainedModel) -> None:
    """Raise a ValueError if `folder` has other weights than the model or other shapes; shards are not looked into."""
    if (Path(folder) / _SHARDS).is_dir():
        return
    advice = "give the settings that it was trained with, or another --output_dir"
    shapes = {name: list(tensor.shape) for name, tensor in trained_weights(model).items()}
    saved = set()
    for file in _weight_files(Path(folder)):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                shape = list(tensors.get_slice(name).get_shape())
                saved.add(name)
                if name not in shapes:
                    raise ValueError(f"{folder} is from another model: the one here has no {name}; {advice}")
                if shapes[name] != shape:
                    raise ValueError(
                        f"{folder} is from another model: {name} has shape {shape} there but {shapes[name]} here; "
                        f"{advice}"
                    )
    # tied weights are saved once, under any of their names
    names: dict[int, list[str]] = {}
    named = shapes.items() if is_adapted(model) else model.named_parameters(remove_duplicate=False)
    for name, parameter in named:
        names.setdefault(id(parameter), []).append(name)
    for known in names.values():
        if not saved.intersection(known):
            raise ValueError(f"{folder} is from another model: it has no {known[0]}; {advice}")


def check_optimizer(folder: str | os.PathLike, training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError if a checkpoint says that its optimizer is of another kind."""
    try:
        settings = json.loads((Path(folder) / "training_args.json").read_text(encoding="utf-8"))
        there = settings.get("optimizer") or settings["optim"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    here = training.optimizer or str(getattr(training.optim, "value", training.optim))
    if there != here:
        raise ValueError(
            f"{folder}: its optimizer is {there}, whose state {here} cannot take: leave --optimizer and --optim as "
            "they were, or start over with --resume_from_checkpoint no"
        )


def average_checkpoints(
    folders: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike,
    last: int | None = None,
    best: int | None = None,
) -> list[str]:
    """Write the mean of several checkpoints' weights, computed in float32, as a model folder.

    `folders` are several model folders, or one run's output folder; in the latter case `last=n` or `best=n` chooses
    among its checkpoints, best according to the run's `metric_for_best_model`. Config, processor and generation
    settings are those of the newest; the weights keep their dtype.

    Returns:
        The folders that were averaged.

    Raises:
        ValueError: fewer checkpoints than requested, an unreadable one, or weights that do not match.
        FileExistsError: `output` is not empty.
    """
    chosen = [Path(folders)] if isinstance(folders, str | os.PathLike) else [Path(folder) for folder in folders]
    if len(chosen) == 1:
        chosen = _choose(chosen[0], last, best)
    elif not chosen:
        raise ValueError("no checkpoint to average")
    elif last is not None or best is not None:
        raise ValueError(
            f"`last` and `best` choose among the checkpoints of one run, but there are {len(chosen)} folders"
        )
    for folder in chosen:
        problem = weights_problem(folder)
        if problem is not None:
            raise ValueError(f"{folder} cannot be averaged: {problem}")
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FileExistsError(f"{output} is not empty: name a new folder for the average")
    weights = _mean_weights(chosen)
    output.parent.mkdir(parents=True, exist_ok=True)
    with moved_into_place(output) as part:
        _copy_model_files(chosen[-1], part)
        name = next((name for name in _WEIGHTS if (chosen[-1] / name).exists()), _WEIGHTS[0])
        save_file(weights, part / name, {"format": "pt"})
    return [str(folder) for folder in chosen]


def has_checkpoints(run_folder: str | os.PathLike) -> bool:
    """Whether there are checkpoints in an output folder, complete or not, of this run or an earlier one."""
    return bool(_folders(run_folder))


def _checkpoints(run_folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """The run's checkpoint folders by step, without those from before it started over."""
    start = RunRecord(Path(run_folder)).start
    return [(step, folder) for step, folder in _folders(run_folder) if _start_of(folder) in (start, None)]


def _folders(run_folder: str | os.PathLike) -> list[tuple[int, Path]]:
    run_folder = Path(run_folder)
    if not run_folder.is_dir():
        return []
    found = [(_FOLDER.match(path.name), path) for path in run_folder.iterdir() if path.is_dir()]
    return sorted((int(match[1]), path) for match, path in found if match)


def _is_whole(file: Path) -> bool:
    """Whether nothing of a file of torch's is missing or changed."""
    try:
        with zipfile.ZipFile(file) as content:
            return content.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError):
        return False


def _start_of(checkpoint: Path) -> int | None:
    """Which start of its run a checkpoint belongs to, or None if it is half-written and does not say."""
    try:
        state = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
        return state["stateful_callbacks"].get("RunProgress", {}).get("attributes", {}).get("start", 1)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _weight_files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"{_INDEX} cannot be read ({error})") from None
        return [folder / name for name in names]
    for name in _WEIGHTS:
        if (folder / name).exists():
            return [folder / name]
    if (folder / _SHARDS).is_dir():
        raise ValueError("its weights are in shards, which training alone reads")
    raise ValueError(f"it has no {_WEIGHTS[(folder / ADAPTER_CONFIG_NAME).exists()]}")


def _choose(run_folder: Path, last: int | None, best: int | None) -> list[Path]:
    if last is not None and best is None:
        wanted = last
    elif best is not None and last is None:
        wanted = best
    else:
        raise ValueError("the checkpoints of a run need either `last` or `best`: set one of them")
    if wanted < 1:
        raise ValueError(f"`{'last' if best is None else 'best'}` is {wanted}, but must be at least 1")
    whole = []
    for step, folder in _checkpoints(run_folder):
        problem = checkpoint_problem(folder)
        if problem is None:
            whole.append((step, folder))
        else:
            logger.warning(f"{folder} is skipped: {problem}")
    if len(whole) < wanted:
        raise ValueError(f"{run_folder} has {len(whole)} complete checkpoints, but {wanted} were requested")
    if best is not None:
        scores = _scores(whole[-1][1])
        missing = [str(folder) for step, folder in whole if step not in scores]
        if len(whole) - len(missing) < wanted:
            raise ValueError(f"{run_folder}: no evaluation is recorded for {', '.join(missing)}; use `last` instead")
        ranked = sorted((item for item in whole if item[0] in scores), key=lambda item: scores[item[0]])
        whole = sorted(ranked[-wanted:])
    return [folder for _, folder in whole[-wanted:]]


def _scores(checkpoint: Path) -> dict[int, float]:
    """Step -> validation score (more is better), from the history in the newest checkpoint."""
    state = TrainerState.load_from_json(str(checkpoint / _STATE))
    evaluations = [entry for entry in state.log_history if "eval_loss" in entry]
    best = next((entry for entry in evaluations if entry["step"] == state.best_global_step), {})
    metric = next((name for name, value in best.items() if value == state.best_metric and name != "step"), "eval_loss")
    sign = -1.0 if metric.endswith(("loss", "perplexity")) else 1.0
    return {entry["step"]: sign * entry[metric] for entry in evaluations if metric in entry}


def _mean_weights(folders: list[Path]) -> dict[str, torch.Tensor]:
    total: dict[str, torch.Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for folder in folders:
        names = set()
        for file in _weight_files(folder):
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                    tensor = tensors.get_tensor(name)
                    names.add(name)
                    dtypes[name] = tensor.dtype
                    if folder is folders[0]:
                        total[name] = tensor.to(torch.float32, copy=True)
                    elif name in total and total[name].shape == tensor.shape:
                        total[name] += tensor.float()
                    else:
                        raise ValueError(f"{folder} does not match {folders[0]}: {name} has shape {list(tensor.shape)}")
        if names != total.keys():
            missing = ", ".join(sorted(total.keys() - names))
            raise ValueError(f"{folder} does not match {folders[0]}: it has no weights for {missing}")
    return {name: (tensor / len(folders)).to(dtypes[name]).contiguous() for name, tensor in total.items()}


def _copy_model_files(source: Path, target: Path) -> None:
    """Copy all files of a checkpoint but its weights and those that only training needs."""
    target.mkdir()
    for path in source.iterdir():
        if path.suffix == ".safetensors" or path.name == _INDEX or _TRAINING_FILES.fullmatch(path.name):
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name)
