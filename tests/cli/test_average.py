"""`hf-summ average` on the checkpoints of a run."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import SENTENCES

SCORES = {10: 7.0, 20: 5.0, 30: 6.0}


@pytest.fixture
def weights(workplace) -> dict[str, torch.Tensor]:
    """The model's weights. The run's checkpoint of step n has the same, plus n."""
    tensors = load_file("model/model.safetensors")
    history = [{"step": step, "eval_loss": 1.0, "eval_rouge2": score} for step, score in SCORES.items()]
    for step in SCORES:
        folder = workplace / "run" / f"checkpoint-{step}"
        shutil.copytree("model", folder)
        checkpoint = {name: tensor + step for name, tensor in tensors.items()}
        save_file(checkpoint, folder / "model.safetensors")
        state = {"global_step": step, "best_metric": 7.0, "best_global_step": 10, "log_history": history}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    return tensors


# arguments, and the steps of the checkpoints that they choose
CASES_OF_CHECKPOINTS = [
    (["run", "--last", "2"], (20, 30)),
    (["run", "--best", "2"], (10, 30)),
    (["run/checkpoint-10", "run/checkpoint-20"], (10, 20)),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "steps"), CASES_OF_CHECKPOINTS)
def test_mean_of_checkpoints(run, weights, argv, steps):
    output, _ = run("average", *argv, "--output", "mean")
    checkpoints = [f"run/checkpoint-{step}" for step in steps]
    assert output == f"mean: the mean of {', '.join(checkpoints)}\n"
    mean = load_file("mean/model.safetensors")
    assert mean.keys() == weights.keys()
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, weights[name] + sum(steps) / len(steps))


CASES_OF_REFUSED_AVERAGES = [
    (["run"], "the checkpoints of a run need either --last or --best"),
    (["run", "--best", "0"], "--best is 0, but must be at least 1"),
    (["model", "nowhere"], "nowhere cannot be averaged: it has no model.safetensors"),
    (["nowhere", "--last", "1"], "nowhere has 0 complete checkpoints, but 1 were requested"),
    (["model", "cut"], "cut cannot be averaged: model.safetensors cannot be read"),
    (["run", "--last", "1", "--output", "model"], "--output model: must be a new or empty folder"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_AVERAGES)
def test_what_cannot_be_averaged_is_told(refusal, weights, workplace, argv, message):
    shutil.copytree("model", "cut")
    (workplace / "cut" / "model.safetensors").write_bytes(b"half")
    assert re.search(message, refusal("average", "--output", "mean", *argv))
    assert not (workplace / "mean").exists()


def test_bundled_models_are_averaged_by_name(run, shipped, workplace):
    run("average", "arxiv-tldr", str(shipped), "--output", "mean")
    mean = load_file(workplace / "mean" / "model.safetensors")
    weights = load_file(shipped / "model.safetensors")
    for name, tensor in weights.items():
        assert mean[name].equal(tensor)


@pytest.mark.thorough
def test_a_mean_in_8_bits_summarizes(run, workplace):
    (workplace / "a.txt").write_text(SENTENCES[0], encoding="utf-8")
    output, _ = run("average", "model", "--output", "mean", "--dtype", "int8")
    assert output == "mean: the mean of model, in int8\n"
    types = {tensor.dtype for tensor in load_file("mean/model.safetensors").values()}
    assert torch.int8 in types
    summary, _ = run("summarize", "a.txt", "--model", "mean")
    assert summary
