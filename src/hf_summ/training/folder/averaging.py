"""The mean of the weights of several checkpoints, as a model folder."""

import json
import logging
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, TrainerState
from transformers.utils import CONFIG_NAME

from hf_summ.checkpoints.adapters import WEIGHTS as ADAPTER_WEIGHTS
from hf_summ.checkpoints.folders import (
    INDEX,
    STATE,
    WEIGHTS,
    checkpoint_folders,
    checkpoint_problem,
    weight_files,
    weights_problem,
)
from hf_summ.common.files import check_new_folder, moved_into_place, write_atomically
from hf_summ.evaluation.measures import falling_scores
from hf_summ.models.checks import check_integer
from hf_summ.models.quantization_int8 import INT8, Int8Config, dequantized_weights

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

    Config, processor and generation settings are copied from the last folder. The config keeps the dtype in which the
    model computes, so a smaller file is not slower on a CPU. Matrices with 8 bits are averaged in float32, too.

    Args:
        folders: several model folders, or the output folder of one run, or with `dtype` a single model to convert.
        output: the new model folder.
        last: in a run's output folder, average this number of its newest checkpoints.
        best: in a run's output folder, average this number of its best checkpoints by `metric_for_best_model`.
        dtype: the type of the written weights, by default that of the last folder. With int8, matrices of the package's
            models have 8 bits and a scale for each row.

    Returns:
        The folders that were averaged.

    Raises:
        ValueError: `last`, `best` and `dtype` do not say what to do with the folders, there are fewer checkpoints than
            requested, `best` is given but a checkpoint has no evaluation, weights cannot be read, are
            quantized by another method or do not match, `folders` is an empty list, or `output` is not empty.
    """
    if isinstance(folders, str | os.PathLike):
        model_folders = [Path(folders)]
    else:
        model_folders = [Path(folder) for folder in folders]
    if not model_folders:
        raise ValueError("there are no folders to average: name at least one")
    is_choice = last is not None or best is not None
    if is_choice and len(model_folders) != 1:
        raise ValueError(
            f"`last` and `best` choose among one run's checkpoints, but there are {len(model_folders)} folders"
        )
    if last is not None and best is None:
        model_folders = _last_checkpoints(model_folders[0], last)
    elif best is not None and last is None:
        model_folders = _best_checkpoints(model_folders[0], best)
    elif is_choice or (len(model_folders) == 1 and dtype is None):
        raise ValueError(
            "the checkpoints of a run need either `last` or `best`, and a single model needs `dtype`: set one of them"
        )
    for folder in model_folders:
        problem = weights_problem(folder)
        if problem is not None:
            raise ValueError(f"{folder} cannot be averaged: {problem}")
    output = Path(output)
    check_new_folder(output)
    newest = model_folders[-1]
    quantization = None
    if dtype is None:
        quantization = _int8_config(newest)
    elif dtype is torch.int8:
        quantization = Int8Config(dequantize=True)
    if quantization is not None and (newest / ADAPTER_WEIGHTS).exists():
        raise ValueError(f"{newest} is an adapter, whose weights cannot have 8 bits: give another dtype")
    mean_dtype = dtype if quantization is None else torch.float32
    weights = _mean_weights(model_folders, mean_dtype)
    with moved_into_place(output) as unfinished:
        _copy_model_files(newest, unfinished)
        save_file(weights, unfinished / _weights_name(newest), {"format": "pt"})
        if _int8_config(unfinished) is not None:
            # the means are in floating point
            _remove_quantization(unfinished / CONFIG_NAME)
        if quantization is not None:
            model = AutoModelForSeq2SeqLM.from_pretrained(unfinished, quantization_config=quantization)
            model.save_pretrained(unfinished)
    return [str(folder) for folder in model_folders]


def _int8_config(folder: Path) -> Int8Config | None:
    """The settings of the 8 bits in which a model folder has its matrices, or None for other weights.

    Raises:
        ValueError: the weights are quantized by another method, or in another layout.
    """
    path = folder / CONFIG_NAME
    # an adapter has no such file
    if not path.exists():
        return None
    settings = json.loads(path.read_text(encoding="utf-8")).get("quantization_config")
    if settings is None:
        return None
    method = settings.get("quant_method")
    if method != INT8:
        raise ValueError(f"{folder} cannot be averaged: its weights are quantized by {method}")
    return Int8Config.from_dict(settings)


def _remove_quantization(config_file: Path) -> None:
    """Remove the settings of a quantization from a config.json."""
    settings = json.loads(config_file.read_text(encoding="utf-8"))
    del settings["quantization_config"]
    write_atomically(config_file, json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _weights_name(folder: Path) -> str:
    """The name of the file to which the mean is written, which says whether the weights are a model's or an adapter's.

    Args:
        folder: a folder with weights that were averaged.
    """
    for name in WEIGHTS:
        if (folder / name).exists():
            return name
    # only a model's weights can be in several files; their mean is written to a single file
    return WEIGHTS[0]


def _last_checkpoints(run_folder: Path, number: int) -> list[Path]:
    """The newest complete checkpoints of a run, ordered by step.

    Args:
        run_folder: the output folder of the run.
        number: the number of checkpoints.

    Raises:
        ValueError: the number is below 1, or there are fewer complete checkpoints.
    """
    check_integer("last", number, 1)
    folder_of_step = _complete_checkpoints(run_folder, number)
    return list(folder_of_step.values())[-number:]


def _best_checkpoints(run_folder: Path, number: int) -> list[Path]:
    """The complete checkpoints of a run with the best scores in its evaluations, ordered by step.

    Args:
        run_folder: the output folder of the run.
        number: the number of checkpoints.

    Raises:
        ValueError: the number is below 1, or there are fewer complete checkpoints, or fewer complete checkpoints with a
            score.
    """
    check_integer("best", number, 1)
    folder_of_step = _complete_checkpoints(run_folder, number)
    newest_checkpoint = list(folder_of_step.values())[-1]
    score_of_step = _scores(newest_checkpoint)
    scored_steps = []
    unscored_folders = []
    for step, folder in folder_of_step.items():
        if step in score_of_step:
            scored_steps.append(step)
        else:
            unscored_folders.append(str(folder))
    if len(scored_steps) < number:
        folders = ", ".join(unscored_folders)
        raise ValueError(f"{run_folder}: no evaluation is recorded for {folders}; use `last` instead")
    best_steps = sorted(scored_steps, key=score_of_step.__getitem__)[-number:]
    return [folder_of_step[step] for step in sorted(best_steps)]


def _complete_checkpoints(run_folder: Path, needed: int) -> dict[int, Path]:
    """Step -> folder, for each complete checkpoint of a run, in ascending order.

    Args:
        run_folder: the output folder of the run.
        needed: the number of checkpoints that are needed.

    Raises:
        ValueError: there are fewer complete checkpoints than needed.
    """
    folder_of_step = {}
    for step, folder in checkpoint_folders(run_folder):
        problem = checkpoint_problem(folder)
        if problem is None:
            folder_of_step[step] = folder
        else:
            logger.warning(f"{folder} is skipped: {problem}")
    if len(folder_of_step) < needed:
        raise ValueError(f"{run_folder} has {len(folder_of_step)} complete checkpoints, but {needed} were requested")
    return folder_of_step


def _scores(checkpoint: Path) -> dict[int, float]:
    """Step -> its score in the evaluation at that step, where a higher score is better.

    Args:
        checkpoint: the newest checkpoint of a run, whose state has the evaluations of all steps so far.
    """
    state = TrainerState.load_from_json(str(checkpoint / STATE))
    evaluations = []
    for entry in state.log_history:
        # an evaluation before the first update is not compared with the others
        if "eval_loss" in entry and entry["step"] > 0:
            evaluations.append(entry)
    metric = _best_metric(state, evaluations)
    scores = {}
    for entry in evaluations:
        # a score that is undefined is null
        if entry.get(metric) is not None:
            scores[int(entry["step"])] = entry[metric]
    if _is_falling(metric, scores.values(), state.best_metric):
        return {step: -score for step, score in scores.items()}
    return scores


def _is_falling(metric: str, values: Collection[float], best: float | None) -> bool:
    """Whether a lower value of a metric is better.

    The run's own choice, `greater_is_better`, is not in the state. So the direction is that in which the best value is
    an extreme. If the values do not show it, the table of measures decides.

    Args:
        metric: the name of the metric, such as `eval_loss`.
        values: the metric's values in the run's evaluations.
        best: the value that the run took as the best one, or None if it took none.
    """
    is_lowest = best == min(values, default=None)
    is_highest = best == max(values, default=None)
    if is_lowest != is_highest:
        return is_lowest
    return metric.endswith("loss") or metric.removeprefix("eval_") in falling_scores()


def _best_metric(state: TrainerState, evaluations: Sequence[Mapping[str, float]]) -> str:
    """The name of the metric by which transformers chose a run's best checkpoint, or `eval_loss` if it chose none.

    The state has the best step and the metric's value there, but not its name. So the name is looked up by the value.

    Args:
        state: the state of the trainer in a checkpoint.
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
    """The mean of the folders' weights, by name, in the order of the last folder.

    Args:
        folders: model folders, at least one.
        dtype: the type of the means; if None, each mean has the type of the weight in the last folder.

    Raises:
        ValueError: a folder lacks a weight that the first folder has, has a weight that the first folder lacks, or has
            a weight of another shape.
    """
    totals: dict[str, torch.Tensor] = {}
    # name of a weight -> its type, in the folder that was read last
    dtypes: dict[str, torch.dtype] = {}
    for folder in folders:
        weights = _read_weights(folder)
        if not totals:
            totals = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in weights.items()}
        shapes = _shapes(weights)
        # the totals have the shapes of the first folder's weights
        expected_shapes = _shapes(totals)
        for name in sorted(shapes | expected_shapes):
            shape = shapes.get(name, "missing")
            expected_shape = expected_shapes.get(name, "missing")
            if shape != expected_shape:
                raise ValueError(
                    f"{name} is {shape} in {folder}, but {expected_shape} in {folders[0]}: only models with the same "
                    "weights can be averaged"
                )
        for name, tensor in weights.items():
            totals[name] += tensor
        dtypes = {name: tensor.dtype for name, tensor in weights.items()}
    means = {}
    for name, last_dtype in dtypes.items():
        mean = totals[name] / len(folders)
        means[name] = mean.to(last_dtype if dtype is None else dtype)
    return means


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a model folder, by name; matrices with 8 bits become float32."""
    weights = {}
    for file in weight_files(folder):
        weights.update(load_file(file))
    if _int8_config(folder) is None:
        return weights
    return dequantized_weights(weights)


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, list[int]]:
    """The shape of each weight, by name."""
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
