"""Complete and incomplete checkpoints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_summ.checkpoints.folders import checkpoint_problem
from hf_summ.training.folder.resuming import last_complete_checkpoint
from tests.training import tiny


def spoil(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change the values of a weight."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = change(tensors["model.shared.weight"])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.thorough
def test_the_newest_complete_checkpoint_is_taken(run_folder):
    assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-30")
    assert last_complete_checkpoint(run_folder / "nowhere") is None
    assert checkpoint_problem(run_folder / "nowhere") == "no such folder"


CASES_OF_DAMAGE = [
    (lambda folder: (folder / "trainer_state.json").unlink(), "has no trainer_state.json, so it is incomplete"),
    (lambda folder: tiny.cut(folder / "trainer_state.json"), "trainer_state.json cannot be read"),
    (lambda folder: tiny.cut(folder / "model.safetensors"), "model.safetensors cannot be read"),
    (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
    (lambda folder: spoil(folder, torch.log), "has values that are not finite, in model.shared.weight"),
    (lambda folder: spoil(folder, torch.Tensor.int), "has torch.int32 in model.shared.weight, which cannot be w"),
    (lambda folder: (folder / "trainer_state.json").write_text('{"global_step": 7}'), "belongs to step 7"),
    (lambda folder: (folder / "model.safetensors.index.json").write_text("{}"), "index.json cannot be read"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("damage", "problem"), CASES_OF_DAMAGE)
def test_a_damaged_checkpoint_is_reported(run_folder, damage, problem):
    damage(run_folder / "checkpoint-30")
    assert problem in checkpoint_problem(run_folder / "checkpoint-30")


CASES_OF_INCOMPLETE_CHECKPOINTS = [
    # a killed run leaves a checkpoint without this file, or with a part of it
    lambda folder: (folder / "trainer_state.json").unlink(),
    lambda folder: tiny.cut(folder / "trainer_state.json"),
    # --save_only_model leaves a checkpoint without this file
    lambda folder: (folder / "scheduler.pt").unlink(),
    shutil.rmtree,
]


@pytest.mark.thorough
@pytest.mark.parametrize("damage", CASES_OF_INCOMPLETE_CHECKPOINTS)
def test_training_resumes_from_the_last_complete_checkpoint(run_folder, damage):
    damage(run_folder / "checkpoint-30")
    assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-20")
