"""Checkpoint folders, and whether they are complete."""

import json
import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers.utils import ADAPTER_CONFIG_NAME

from hf_summ.checkpoints import adapters

STATE = "trainer_state.json"
WEIGHTS = ("model.safetensors", adapters.WEIGHTS)
INDEX = "model.safetensors.index.json"
_FOLDER = re.compile(r"^checkpoint-(\d+)$")
# the folder of FSDP2's shards, and the file in it that is written last
_SHARDS = "pytorch_model_fsdp_0"
_SHARDS_END = ".metadata"


def checkpoint_problem(folder: str | os.PathLike) -> str | None:
    """Why a checkpoint is incomplete, or None if it is complete."""
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
        step = json.loads((folder / STATE).read_text(encoding="utf-8"))["global_step"]
    except FileNotFoundError:
        return f"it has no {STATE}, so it is incomplete"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its {STATE} cannot be read ({error})"
    name = _FOLDER.match(folder.name)
    if name and int(name[1]) != step:
        return f"its {STATE} belongs to step {step}"
    return None


def weights_problem(folder: str | os.PathLike) -> str | None:
    """The problem with a folder's safetensors, or None: they are unreadable, or contain NaN, infinity or integers."""
    try:
        files = weight_files(Path(folder))
    except ValueError as error:
        return str(error)
    config = Path(folder) / "config.json"
    is_quantized = config.is_file() and '"quantization_config"' in config.read_text(encoding="utf-8", errors="replace")
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                    tensor = tensors.get_tensor(name)
                    if not is_finite(tensor):
                        return f"{file.name} has values that are not finite, in {name}"
                    # counters and positions are integers
                    is_weight = name.rpartition(".")[2].startswith(("weight", "bias"))
                    if is_weight and not tensor.is_floating_point() and not is_quantized:
                        return f"{file.name} has {tensor.dtype} in {name}, which cannot be weights"
        except (SafetensorError, OSError) as error:
            return f"{file.name} cannot be read ({error})"
    return None


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    if not tensor.is_floating_point():
        return True
    # torch.isfinite does not support 8-bit types
    return bool(torch.isfinite(tensor if tensor.element_size() > 1 else tensor.float()).all())


def checkpoint_folders(run_folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """The checkpoint folders in an output folder, ordered by step: complete or not, of this run or an earlier one."""
    matches = [(_FOLDER.match(path.name), path) for path in Path(run_folder).glob("checkpoint-*/")]
    return sorted((int(match[1]), path) for match, path in matches if match)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors of a folder; a ValueError if there are none, or their index cannot be read."""
    index = folder / INDEX
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"{INDEX} cannot be read ({error})") from None
        return [folder / name for name in names]
    for name in WEIGHTS:
        if (folder / name).exists():
            return [folder / name]
    if (folder / _SHARDS).is_dir():
        raise ValueError("its weights are in shards, which only training reads")
    raise ValueError(f"it has no {WEIGHTS[(folder / ADAPTER_CONFIG_NAME).exists()]}")
