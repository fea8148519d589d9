"""The mean of the weights of several checkpoints, as a model folder."""

import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
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

# names of a checkpoint's files that only training needs
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

    Config, processor and generation settings are those of the last folder. The config keeps the dtype in which the
    model computes, so a smaller file is not slower on a CPU.

    Args:
        folders: several model folders, or the output folder of one run, or with `dtype` a single model to convert.
        output: the new model folder.
        last: in a run's output folder, average this number of its newest checkpoints.
        best: in a run's output folder, average this number of its best checkpoints by `metric_for_best_model`.
        dtype: the type of the written weights, by default unchanged. With int8, matrices of the package's models have
            8 bits and a scale for each row.

    Returns:
        The folders that were averaged.

    Raises:
        ValueError: there are fewer checkpoints than requested, one cannot be read, their weights do not match, or
            `output` is not empty.
    """
    if isinstance(folders, str | os.PathLike):
        model_folders = [Path(folders)]
    else:
        model_folders = [Path(folder) for folder in folders]
    is_choice = last is not None or best is not None
    if len(model_folders) == 1 and (is_choice or dtype is None):
        model_folders = _choose(model_folders[0], last, best)
    elif is_choice:
        raise ValueError(
            f"`last` and `best` choose among one run's checkpoints, but there are {len(model_folders)} folders"
        )
    for folder in model_folders:
        problem = weights_problem(folder)
        if problem is not None:
            raise ValueError(f"{folder} cannot be averaged: {problem}")
    output = Path(output)
    check_new_folder(output)
    is_int8 = dtype is torch.int8
    weights = _mean_weights(model_folders, torch.float32 if is_int8 else dtype)
    newest = model_folders[-1]
    with moved_into_place(output) as unfinished:
        _copy_model_files(newest, unfinished)
        save_file(weights, unfinished / _weights_name(newest), {"format": "pt"})
        if is_int8:
            config = Int8Config(dequantize=True)
            model = AutoModelForSeq2SeqLM.from_pretrained(unfinished, quantization_config=config)
            model.save_pretrained(unfinished)
    return [str(folder) for folder in model_folders]


def _weights_name(folder: Path) -> str:
    """The name of the file with a folder's weights: of a model's, or of an adapter's."""
    for name in WEIGHTS:
        if (folder / name).exists():
            return name
    # the weights are in several files, and their mean is written to one
    return WEIGHTS[0]


def _choose(run_folder: Path, last: int | None, best: int | None) -> list[Path]:
    """The last or the best complete checkpoints of a run, ordered by step.

    Raises:
        ValueError: not exactly one of `last` and `best` is given, it is below 1, or there are fewer checkpoints.
    """
    if last is not None and best is None:
        check_integer("last", last, 1)
        steps = _complete_checkpoints(run_folder, last)
        return list(steps.values())[-last:]
    if best is not None and last is None:
        check_integer("best", best, 1)
        steps = _complete_checkpoints(run_folder, best)
        newest = list(steps.values())[-1]
        scores = _scores(newest)
        scored_steps = []
        unscored_folders = []
        for step, folder in steps.items():
            if step in scores:
                scored_steps.append(step)
            else:
                unscored_folders.append(str(folder))
        if len(scored_steps) < best:
            folders = ", ".join(unscored_folders)
            raise ValueError(f"{run_folder}: no evaluation is recorded for {folders}; use `last` instead")
        best_steps = sorted(scored_steps, key=scores.__getitem__)[-best:]
        return [steps[step] for step in sorted(best_steps)]
    raise ValueError(
        "the checkpoints of a run need either `last` or `best`, and a single model needs `dtype`: set one of them"
    )


def _complete_checkpoints(run_folder: Path, number: int) -> dict[int, Path]:
    """The complete checkpoints of a run by step, in ascending order; a ValueError if there are fewer than `number`."""
    complete = {}
    for step, folder in checkpoint_folders(run_folder):
        problem = checkpoint_problem(folder)
        if problem is None:
            complete[step] = folder
        else:
            logger.warning(f"{folder} is skipped: {problem}")
    if len(complete) < number:
        raise ValueError(f"{run_folder} has {len(complete)} complete checkpoints, but {number} were requested")
    return complete


def _scores(checkpoint: Path) -> dict[int, float]:
    """Step -> score of its evaluation (more is better), from the history in the newest checkpoint."""
    state = TrainerState.load_from_json(str(checkpoint / STATE))
    evaluations = [entry for entry in state.log_history if "eval_loss" in entry]
    metric = _best_metric(state, evaluations)
    sign = -1.0 if metric.endswith(("loss", "perplexity")) else 1.0
    scores = {}
    for entry in evaluations:
        if metric in entry:
            scores[int(entry["step"])] = sign * entry[metric]
    return scores


def _best_metric(state: TrainerState, evaluations: Sequence[Mapping[str, float]]) -> str:
    """The metric that chose the best step, which the state does not name: the one with the best value at that step.

    It is `eval_loss` if no metric chose.

    Args:
        evaluations: the log entries of the run's evaluations.
    """
    for entry in evaluations:
        if entry["step"] != state.best_global_step:
            continue
        for name, value in entry.items():
            if value == state.best_metric and name != "step":
                return name
        break
    return "eval_loss"


def _mean_weights(folders: Sequence[Path], dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    """The mean of the folders' weights by name, in `dtype`, or in the last folder's types.

    Raises:
        ValueError: a weight is missing in a folder, or has another shape.
    """
    totals: dict[str, torch.Tensor] = {}
    weights: dict[str, torch.Tensor] = {}
    for folder in folders:
        weights = {}
        for file in weight_files(folder):
            weights.update(load_file(file))
        if not totals:
            totals = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in weights.items()}
        shapes = _shapes(weights)
        expected_shapes = _shapes(totals)
        for name in sorted(shapes | expected_shapes):
            shape = shapes.get(name, "missing")
            expected_shape = expected_shapes.get(name, "missing")
            if shape != expected_shape:
                raise ValueError(
                    f"{folder} does not match {folders[0]}: {name} is {shape} there, but {expected_shape} here"
                )
        for name, tensor in weights.items():
            totals[name] += tensor
    means = {}
    for name, tensor in weights.items():
        mean = totals[name] / len(folders)
        means[name] = mean.to(tensor.dtype if dtype is None else dtype)
    return means


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in weights.items()}


def _copy_model_files(source: Path, target: Path) -> None:
    """Copy a checkpoint's files except its weights and the files that only training needs."""
    target.mkdir()
    for path in source.iterdir():
        is_weights = path.suffix == ".safetensors" or path.name == INDEX
        if is_weights or _TRAINING_FILES.fullmatch(path.name):
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name)
