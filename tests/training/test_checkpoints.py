"""Complete and incomplete checkpoints, and the average of several."""

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

from hf_summ.training.checkpoints import (
    average_checkpoints,
    check_fits,
    checkpoint_problem,
    last_complete_checkpoint,
    model_problem,
)
from tests.training import tiny

SCORES = {10: 3.0, 20: 5.0, 30: 4.0}


@pytest.fixture
def run_folder(tmp_path, tiny_tokenizer) -> Path:
    """Three checkpoints of a tiny GDLF as the Trainer leaves them."""
    processor = tiny.processor(tiny_tokenizer)
    model = tiny.gdlf(processor)
    history = [{"step": step, "eval_loss": 1.0, "eval_rouge2": score} for step, score in SCORES.items()]
    for step in SCORES:
        folder = tmp_path / "run" / f"checkpoint-{step}"
        torch.nn.init.normal_(model.model.shared.weight)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            torch.save({"state": {}}, folder / name)
        state = {"global_step": step, "best_metric": 5.0, "best_global_step": 20, "log_history": history}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    (tmp_path / "run" / "checkpoint-other").mkdir()
    return tmp_path / "run"


def spoil(folder: Path) -> None:
    """Put NaN into the weights."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def round_off(folder: Path) -> None:
    """Store weights as integers, which are truncated."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = tensors["model.shared.weight"].int()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def flip(path: Path) -> None:
    """Change a byte in the middle of what a file of torch's contains."""
    content = bytearray(path.read_bytes())
    content[content.index(b"state")] ^= 1
    path.write_bytes(content)


def test_newest_is_taken(run_folder):
    assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-30")
    assert last_complete_checkpoint(run_folder / "nowhere") is None


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "trainer_state.json").unlink(), "has no trainer_state.json, so it is incomplete"),
        (lambda folder: tiny.cut(folder / "trainer_state.json"), "trainer_state.json cannot be read"),
        (lambda folder: tiny.cut(folder / "model.safetensors"), "model.safetensors cannot be read"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda folder: spoil(folder), "model.safetensors has values that are not finite, in model.shared.weight"),
        (lambda folder: round_off(folder), "has torch.int32 in model.shared.weight, which cannot be w"),
        (lambda folder: tiny.cut(folder / "optimizer.pt"), "optimizer.pt is incomplete"),
        (lambda folder: tiny.cut(folder / "rng_state.pth"), "rng_state.pth is incomplete"),
        (lambda folder: flip(folder / "scheduler.pt"), "scheduler.pt is incomplete"),
        (
            lambda folder: (folder / "optimizer.pt").unlink(),
            "has no optimizer, as with --save_only_model, so it is only",
        ),
        (lambda folder: (folder / "trainer_state.json").write_text('{"global_step": 7}'), "is of step 7"),
        (lambda folder: (folder / "model.safetensors.index.json").write_text("{}"), "index.json cannot be read"),
        (shutil.rmtree, None),
    ],
)
def test_half_written_one_is_passed_over_with_a_warning(run_folder, caplog, damage, problem):
    damage(run_folder / "checkpoint-30")
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        assert last_complete_checkpoint(run_folder) == str(run_folder / "checkpoint-20")
    assert (problem is None and not caplog.text) or problem in caplog.text


def test_problem_of_a_folder_that_is_not_there(tmp_path):
    assert checkpoint_problem(tmp_path / "no") == "no such folder"


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json"],
)
def test_settings_that_were_cut_off_are_named(run_folder, name):
    assert model_problem(run_folder / "checkpoint-30") is None
    tiny.cut(run_folder / "checkpoint-30" / name)
    assert model_problem(run_folder / "checkpoint-30").startswith(f"{name} cannot be read (")


@pytest.mark.parametrize(("other", "is_fine"), [("pytorch_model.bin", True), ("training_args.bin", False)])
def test_weights_of_another_kind_will_do(run_folder, other, is_fine):
    folder = run_folder / "checkpoint-30"
    (folder / "model.safetensors").rename(folder / other)
    assert model_problem(folder) == (None if is_fine else "it has no model.safetensors")
    (folder / "model.safetensors").write_bytes(b"")
    assert model_problem(folder).startswith("model.safetensors cannot be read")


def test_checkpoint_of_another_model(run_folder, tiny_tokenizer):
    processor = tiny.processor(tiny_tokenizer)
    check_fits(run_folder / "checkpoint-30", tiny.gdlf(processor))
    with pytest.raises(
        ValueError, match=r"checkpoint-30 is from another model: .* has shape \[.*\] there but \[.*\] here"
    ):
        check_fits(run_folder / "checkpoint-30", tiny.gdlf(processor, ffn_dim=64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"encoder_layers": 2, "encoder_kernel_sizes": [3, 3]},
            r"it has no model\.encoder\.layers\.1\.\S+; give the settings that it was trained with",
        ),
        ({"gating": "none"}, r"the one here has no model\.\S+; give the settings"),
    ],
)
def test_checkpoint_of_a_model_with_other_weights(run_folder, tiny_tokenizer, changes, message):
    with pytest.raises(ValueError, match=f"checkpoint-30 is from another model: {message}"):
        check_fits(run_folder / "checkpoint-30", tiny.gdlf(tiny.processor(tiny_tokenizer), **changes))


def test_average_needs_no_optimizer(run_folder, tmp_path):
    (run_folder / "checkpoint-30" / "optimizer.pt").unlink()
    assert average_checkpoints(run_folder, tmp_path / "mean", last=1) == [str(run_folder / "checkpoint-30")]


@pytest.mark.parametrize(("choice", "steps"), [({"last": 2}, (20, 30)), ({"best": 2}, (20, 30)), ({"best": 1}, (20,))])
def test_average_is_the_mean(run_folder, tmp_path, choice, steps):
    chosen = average_checkpoints([run_folder], tmp_path / "mean", **choice)
    assert chosen == [str(run_folder / f"checkpoint-{step}") for step in steps]
    parts = [load_file(Path(folder) / "model.safetensors") for folder in chosen]
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert mean.keys() == parts[0].keys()
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(0))


def test_average_loads_with_its_tied_weights_and_its_processor(run_folder, tmp_path):
    folders = [run_folder / "checkpoint-10", run_folder / "checkpoint-20"]
    average_checkpoints(folders, tmp_path / "mean")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "mean")
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    wanted = [load_file(folder / "model.safetensors")["model.shared.weight"] for folder in folders]
    torch.testing.assert_close(model.lm_head.weight.data, (wanted[0] + wanted[1]) / 2)
    assert AutoProcessor.from_pretrained(tmp_path / "mean").max_source_length == 48
    left = {path.name for path in (tmp_path / "mean").iterdir()}
    assert not left & {"optimizer.pt", "scheduler.pt", "trainer_state.json"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_half_precision_is_averaged_in_float32(tmp_path):
    values = [1.0, 1.0, 1.0 + 2**-7]
    for index, value in enumerate(values):
        (tmp_path / str(index)).mkdir()
        save_file({"w": torch.tensor([value], dtype=torch.bfloat16)}, tmp_path / str(index) / "model.safetensors")
    average_checkpoints([tmp_path / str(index) for index in range(3)], tmp_path / "mean")
    mean = load_file(tmp_path / "mean" / "model.safetensors")["w"]
    assert mean.dtype == torch.bfloat16
    assert mean.item() == torch.tensor(sum(values) / 3, dtype=torch.bfloat16).item()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "need either `last` or `best`"),
        ({"last": 1, "best": 1}, "need either `last` or `best`"),
        ({"last": 0}, "`last` is 0, but must be at least 1"),
        ({"last": 4}, "has 3 complete checkpoints, but 4 were requested"),
    ],
)
def test_choices_that_cannot_be(run_folder, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        average_checkpoints(run_folder, tmp_path / "mean", **settings)


def test_best_without_evaluations(run_folder, tmp_path):
    path = run_folder / "checkpoint-30" / "trainer_state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"log_history": []}))
    with pytest.raises(ValueError, match=r"no evaluation is recorded .*; use `last` instead"):
        average_checkpoints(run_folder, tmp_path / "mean", best=1)


def test_nothing_is_left_of_an_average_that_fails(run_folder, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint to average"):
        average_checkpoints([], tmp_path / "mean")
    with pytest.raises(ValueError, match="the checkpoints of one run, but there are 2 folders"):
        average_checkpoints([run_folder, run_folder], tmp_path / "mean", last=1)
    tiny.cut(run_folder / "checkpoint-10" / "model.safetensors")
    with pytest.raises(ValueError, match=r"checkpoint-10 cannot be averaged: model.safetensors cannot be read"):
        average_checkpoints([run_folder / "checkpoint-10", run_folder / "checkpoint-20"], tmp_path / "mean")
    other = tmp_path / "other"
    other.mkdir()
    save_file({"w": torch.zeros(1)}, other / "model.safetensors")
    with pytest.raises(ValueError, match=r"other does not match .*checkpoint-20: w has shape"):
        average_checkpoints([run_folder / "checkpoint-20", other], tmp_path / "mean")
    with pytest.raises(FileExistsError, match="run is not empty: name a new folder"):
        average_checkpoints(run_folder, run_folder, last=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]
