"""Complete and incomplete checkpoints, and those of other models."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_summ.checkpoints.folders import check_fits, checkpoint_problem
from hf_summ.training.folder.resuming import last_complete_checkpoint
from tests.training import tiny


def spoil(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Other values of a weight."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = change(tensors["model.shared.weight"])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def flip(path: Path) -> None:
    """Change a byte in the middle of what a file of torch's contains."""
    content = bytearray(path.read_bytes())
    content[content.index(b"state")] ^= 1
    path.write_bytes(content)


@pytest.mark.thorough
def test_newest_is_taken(run_folder):
    assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-30")
    assert last_complete_checkpoint(run_folder / "nowhere") is None
    assert checkpoint_problem(run_folder / "nowhere") == "no such folder"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "trainer_state.json").unlink(), "has no trainer_state.json, so it is incomplete"),
        (lambda folder: tiny.cut(folder / "trainer_state.json"), "trainer_state.json cannot be read"),
        (lambda folder: tiny.cut(folder / "model.safetensors"), "model.safetensors cannot be read"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda folder: spoil(folder, torch.log), "has values that are not finite, in model.shared.weight"),
        (lambda folder: spoil(folder, torch.Tensor.int), "has torch.int32 in model.shared.weight, which cannot be w"),
        (lambda folder: tiny.cut(folder / "optimizer.pt"), "optimizer.pt is incomplete"),
        (lambda folder: tiny.cut(folder / "rng_state.pth"), "rng_state.pth is incomplete"),
        (lambda folder: flip(folder / "scheduler.pt"), "scheduler.pt is incomplete"),
        (
            lambda folder: (folder / "optimizer.pt").unlink(),
            "has no optimizer, as with --save_only_model, so it can only",
        ),
        (lambda folder: (folder / "trainer_state.json").write_text('{"global_step": 7}'), "belongs to step 7"),
        (lambda folder: (folder / "model.safetensors.index.json").write_text("{}"), "index.json cannot be read"),
        (shutil.rmtree, None),
    ],
)
def test_half_written_one_is_passed_over_with_a_warning(run_folder, caplog, damage, problem):
    damage(run_folder / "checkpoint-30")
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-20")
    assert (problem is None and not caplog.text) or problem in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ffn_dim": 64}, r".* is \[.*\] there but \[.*\] here"),
        ({"encoder_layers": 2, "encoder_kernel_sizes": [3, 3]}, r"model\.encoder\.layers\.1\.\S+ is missing there but"),
        ({"gating": "none"}, r"model\.\S+ is \[.*\] there but missing here; give the settings"),
    ],
)
def test_checkpoint_of_a_model_with_other_weights(run_folder, tiny_tokenizer, changes, message):
    processor, checkpoint = tiny.processor(tiny_tokenizer), run_folder / "checkpoint-30"
    check_fits(checkpoint, tiny.gdlf(processor))
    with pytest.raises(ValueError, match=f"checkpoint-30 is from another model: {message}"):
        check_fits(checkpoint, tiny.gdlf(processor, **changes))
