"""The average of several checkpoints."""

import logging
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, TrainerState

from hf_summ.checkpoints.folders import (
    INDEX,
    STATE,
    WEIGHTS,
    checkpoint_folders,
    checkpoint_problem,
    weight_files,
    weights_problem,
)
from hf_summ.common.files import check_new_folder, moved_into_place
from hf_summ.models.checks import check_integer
from hf_summ.models.quantization_int8 import Int8Config

logger = logging.getLogger(__name__)

# files of a training checkpoint other than model and processor
_TRAINING_FILES = re.compile(
    r"^(optimizer|scheduler|scaler|rng_state.*|training_args|trainer_state|pytorch_model_fsdp)\.(pt|pth|bin|json)$"
)


def average_checkpoints(
    folders: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike,
    last: int | None = None,
    best: int | None = None,
    dtype: torch.dtype | None = None,
) -> list[str]:
    """Write the mean of several checkpoints' weights, computed in float32, as a model folder.

    `folders` are several model folders, or one run's output folder. In the latter case, `last=n` chooses its newest
    checkpoints, and `best=n` the best by its `metric_for_best_model`. With `dtype`, a single model is converted.
    Config, processor and generation settings are those of the newest. The weights are written in `dtype`, by default
    unchanged; with int8, matrices of the package's models have 8 bits and a scale for each row. The config keeps the
    dtype in which the model computes, so a smaller file is not slower on a CPU.

    Returns:
        The folders that were averaged.

    Raises:
        ValueError: fewer checkpoints than requested, an unreadable one, weights that do not match, or `output` is not
            empty.
    """
    chosen = [Path(folders)] if isinstance(folders, str | os.PathLike) else [Path(folder) for folder in folders]
    if len(chosen) == 1 and (dtype is None or last is not None or best is not None):
        chosen = _choose(chosen[0], last, best)
    elif last is not None or best is not None:
        raise ValueError(f"`last` and `best` choose among one run's checkpoints, but there are {len(chosen)} folders")
    for folder in chosen:
        problem = weights_problem(folder)
        if problem is not None:
            raise ValueError(f"{folder} cannot be averaged: {problem}")
    check_new_folder(output := Path(output))
    in_8_bits = dtype is torch.int8
    weights = _mean_weights(chosen, torch.float32 if in_8_bits else dtype)
    with moved_into_place(output) as unfinished:
        _copy_model_files(chosen[-1], unfinished)
        name = next((name for name in WEIGHTS if (chosen[-1] / name).exists()), WEIGHTS[0])
        save_file(weights, unfinished / name, {"format": "pt"})
        if in_8_bits:
            config = Int8Config(dequantize=True)
            model = AutoModelForSeq2SeqLM.from_pretrained(unfinished, quantization_config=config)
            model.save_pretrained(unfinished)
    return [str(folder) for folder in chosen]


def _choose(run_folder: Path, last: int | None, best: int | None) -> list[Path]:
    if (last is None) == (best is None):
        raise ValueError(
            "the checkpoints of a run need either `last` or `best`, and a single model needs `dtype`: set one of them"
        )
    number = (best if last is None else last) or 0
    check_integer("last" if best is None else "best", number, 1)
    checkpoints = []
    for step, folder in checkpoint_folders(run_folder):
        problem = checkpoint_problem(folder)
        if problem is None:
            checkpoints.append((step, folder))
        else:
            logger.warning(f"{folder} is skipped: {problem}")
    if len(checkpoints) < number:
        raise ValueError(f"{run_folder} has {len(checkpoints)} complete checkpoints, but {number} were requested")
    if best is not None:
        scores = _scores(checkpoints[-1][1])
        scored = [(step, folder) for step, folder in checkpoints if step in scores]
        if len(scored) < number:
            missing = ", ".join(str(folder) for step, folder in checkpoints if step not in scores)
            raise ValueError(f"{run_folder}: no evaluation is recorded for {missing}; use `last` instead")
        checkpoints = sorted(sorted(scored, key=lambda checkpoint: scores[checkpoint[0]])[-number:])
    return [folder for _, folder in checkpoints[-number:]]


def _scores(checkpoint: Path) -> dict[int, float]:
    """Step -> validation score (more is better), from the history in the newest checkpoint."""
    state = TrainerState.load_from_json(str(checkpoint / STATE))
    evaluations = [entry for entry in state.log_history if "eval_loss" in entry]
    best = next((entry for entry in evaluations if entry["step"] == state.best_global_step), {})
    metric = next((name for name, value in best.items() if value == state.best_metric and name != "step"), "eval_loss")
    sign = -1.0 if metric.endswith(("loss", "perplexity")) else 1.0
    return {entry["step"]: sign * entry[metric] for entry in evaluations if metric in entry}


def _mean_weights(folders: list[Path], dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    total: dict[str, torch.Tensor] = {}
    weights: dict[str, torch.Tensor] = {}
    for folder in folders:
        weights = {name: tensor for file in weight_files(folder) for name, tensor in load_file(file).items()}
        total = total or {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in weights.items()}
        ours, theirs = ({name: [*tensor.shape] for name, tensor in of.items()} for of in (weights, total))
        if ours != theirs:
            name = min(name for name in ours | theirs if ours.get(name) != theirs.get(name))
            shapes = ours.get(name, "missing"), theirs.get(name, "missing")
            raise ValueError(f"{folder} does not match {folders[0]}: {name} is {shapes[0]} there, but {shapes[1]} here")
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (total[name] / len(folders)).to(dtype or tensor.dtype) for name, tensor in weights.items()}


def _copy_model_files(source: Path, target: Path) -> None:
    """Copy a checkpoint's files except its weights and the files that only training needs."""
    target.mkdir()
    for path in source.iterdir():
        if path.suffix == ".safetensors" or path.name == INDEX or _TRAINING_FILES.fullmatch(path.name):
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name)
