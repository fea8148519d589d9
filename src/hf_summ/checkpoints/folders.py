"""Checkpoint folders, and whether they are complete."""

import json
import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers.utils import ADAPTER_CONFIG_NAME

from hf_summ.checkpoints.adapters import WEIGHTS as ADAPTER_WEIGHTS

STATE = "trainer_state.json"
MODEL_WEIGHTS = "model.safetensors"
WEIGHTS = (MODEL_WEIGHTS, ADAPTER_WEIGHTS)
INDEX = "model.safetensors.index.json"
_FOLDER = re.compile(r"^checkpoint-(\d+)$")
# Training with FSDP2 writes the weights in shards, one for each process, to this folder. It writes this file last.
_SHARDS = "pytorch_model_fsdp_0"
_SHARDS_END = ".metadata"


def checkpoint_problem(folder: str | os.PathLike) -> str | None:
    """Why a checkpoint is incomplete, or None if it is complete."""
    folder = Path(folder)
    if not folder.is_dir():
        return "no such folder"
    shards = folder / _SHARDS
    if shards.is_dir():
        if not (shards / _SHARDS_END).exists():
            return f"its {_SHARDS} is incomplete"
    else:
        problem = weights_problem(folder)
        if problem is not None:
            return problem
    return _state_problem(folder)


def _state_problem(folder: Path) -> str | None:
    """The problem with the trainer's state in a checkpoint folder, or None.

    The trainer writes its state last, so a checkpoint without a state is incomplete. If the folder's name has a
    step, as in checkpoint-500, the state must have the same step.
    """
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        step = state["global_step"]
    except FileNotFoundError:
        return f"it has no {STATE}, so it is incomplete"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its {STATE} cannot be read ({error})"
    match = _FOLDER.match(folder.name)
    if match and int(match[1]) != step:
        return f"its {STATE} belongs to step {step}"
    return None


def weights_problem(folder: str | os.PathLike) -> str | None:
    """The problem with the weights in a folder, or None if there is none.

    It is a problem if there are no weights, if a file cannot be read, if weights contain NaN or infinity, or if weights
    are integers although the model is not quantized.

    Args:
        folder: a folder with files of safetensors.
    """
    folder = Path(folder)
    try:
        files = weight_files(folder)
    except ValueError as error:
        return str(error)
    is_quantized = False
    config = folder / "config.json"
    if config.is_file():
        is_quantized = '"quantization_config"' in config.read_text(encoding="utf-8", errors="replace")
    for file in files:
        problem = _file_problem(file, is_quantized)
        if problem is not None:
            return problem
    return None


def _file_problem(file: Path, is_quantized: bool) -> str | None:
    """The problem with a file of safetensors, or None; only a quantized model may have integers as weights."""
    try:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                tensor = tensors.get_tensor(name)
                if not is_finite(tensor):
                    return f"{file.name} has values that are not finite, in {name}"
                # Tensors with other names may be counters and positions, which are integers.
                is_weight = name.rpartition(".")[2].startswith(("weight", "bias"))
                if is_weight and not tensor.is_floating_point() and not is_quantized:
                    return f"{file.name} has {tensor.dtype} in {name}, which cannot be weights"
    except (SafetensorError, OSError) as error:
        return f"{file.name} cannot be read ({error})"
    return None


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all values of a tensor are numbers, and not NaN or infinity."""
    if not tensor.is_floating_point():
        return True
    if tensor.element_size() == 1:
        # torch.isfinite does not support 8-bit types.
        tensor = tensor.float()
    return bool(torch.isfinite(tensor).all())


def checkpoint_folders(run_folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """The checkpoint folders in an output folder, each with its step, ordered by step.

    The checkpoints may be incomplete, and an earlier run may have written them.
    """
    folders = []
    for path in Path(run_folder).glob("checkpoint-*/"):
        match = _FOLDER.match(path.name)
        if match:
            folders.append((int(match[1]), path))
    return sorted(folders)


def best_checkpoint(checkpoint: str | os.PathLike) -> str | None:
    """The best checkpoint of a run so far, or None if there is none.

    The trainer's state names it by the folder that the run had. The run may have moved since, so the checkpoint is
    looked up beside the given one.

    Args:
        checkpoint: a checkpoint of the run, a folder with a trainer's state.
    """
    state = json.loads(Path(checkpoint, STATE).read_text(encoding="utf-8"))
    recorded = state.get("best_model_checkpoint")
    if recorded is None:
        return None
    best = Path(checkpoint).parent / Path(recorded).name
    # A run that resumed from the checkpoint of another folder may have its best checkpoint there.
    for folder in (best, Path(recorded)):
        if folder.is_dir():
            return str(folder)
    return None


def weight_files(folder: Path) -> list[Path]:
    """The files of safetensors with the weights in a folder.

    If the weights are divided into several files, an index names these files. Whether they exist is not checked.

    Raises:
        ValueError: the index cannot be read; or there is no index, and no file with all weights.
    """
    index = folder / INDEX
    if index.exists():
        try:
            weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted(set(weight_map.values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"{INDEX} cannot be read ({error})") from None
        return [folder / name for name in names]
    for name in WEIGHTS:
        if (folder / name).exists():
            return [folder / name]
    if (folder / _SHARDS).is_dir():
        raise ValueError("its weights are in shards of FSDP, which only training reads")
    expected = MODEL_WEIGHTS
    if (folder / ADAPTER_CONFIG_NAME).exists():
        expected = ADAPTER_WEIGHTS
    raise ValueError(f"it has no {expected}")
