"""The average of several checkpoints."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

from hf_summ.models.quantization_int8 import Int8Config, quantize_weight
from hf_summ.training.folder.averaging import average_checkpoints
from tests.data.files import change_json
from tests.training import tiny


def test_average_needs_no_optimizer(run_folder, tmp_path):
    (run_folder / "checkpoint-30" / "optimizer.pt").unlink()
    assert average_checkpoints(run_folder, tmp_path / "mean", last=1) == [str(run_folder / "checkpoint-30")]


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


def test_file_in_half_precision_is_computed_in_float32(run_folder, tmp_path):
    average_checkpoints(run_folder, tmp_path / "mean", last=1, dtype=torch.float16)
    saved = load_file(tmp_path / "mean" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float16}
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "mean")
    assert model.dtype == torch.float32
    assert torch.equal(model.lm_head.weight.data, saved["model.shared.weight"].float())


def test_an_adapter_is_not_converted_to_8_bits(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    save_file({"w": torch.ones(1)}, folder / "adapter_model.safetensors")
    with pytest.raises(ValueError, match=r"adapter is an adapter, whose weights cannot have 8 bits"):
        average_checkpoints(folder, tmp_path / "mean", dtype=torch.int8)


def test_one_model_is_converted(run_folder, tmp_path):
    model = run_folder / "checkpoint-10"
    assert average_checkpoints(model, tmp_path / "mean", dtype=torch.bfloat16) == [str(model)]
    weights, saved = (load_file(folder / "model.safetensors") for folder in (model, tmp_path / "mean"))
    assert all(saved[name].equal(tensor.bfloat16()) for name, tensor in weights.items())
    with pytest.raises(ValueError, match="and a single model needs `dtype`"):
        average_checkpoints(model, tmp_path / "other")


def loaded_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the model in a folder, as it loads in float32."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    return {name: weight.detach() for name, weight in model.named_parameters()}


@pytest.fixture
def folders_of_8_bits(run_folder) -> list[Path]:
    """Two of the run's checkpoints in 8 bits. The rows of their matrices differ in size."""
    folders = []
    for step in (10, 20):
        checkpoint = run_folder / f"checkpoint-{step}"
        file = checkpoint / "model.safetensors"
        weights = load_file(file)
        for name, weight in weights.items():
            if weight.ndim == 2:
                weights[name] = weight * torch.linspace(1, step, len(weight))[:, None]
        save_file(weights, file, {"format": "pt"})
        folders.append(run_folder / f"int8-{step}")
        average_checkpoints(checkpoint, folders[-1], dtype=torch.int8)
    return folders


@pytest.mark.parametrize("second_has_8_bits", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_8_bits_are_averaged_in_float32(run_folder, folders_of_8_bits, tmp_path, second_has_8_bits, dtype):
    folders = list(folders_of_8_bits)
    if not second_has_8_bits:
        folders[1] = run_folder / "checkpoint-20"
    average_checkpoints(folders, tmp_path / "mean", dtype=dtype)
    first_weights, second_weights = loaded_weights(folders[0]), loaded_weights(folders[1])
    # the type is that of the last folder
    has_8_bits = second_has_8_bits and dtype is None
    assert ("quantization_config" in tiny.read_json(tmp_path / "mean" / "config.json")) == has_8_bits
    for name, mean in loaded_weights(tmp_path / "mean").items():
        expected = (first_weights[name] + second_weights[name]) / 2
        if has_8_bits and mean.ndim == 2:
            levels, scale = quantize_weight(expected)
            expected = levels * scale[:, None]
        torch.testing.assert_close(mean, expected)


def test_8_bits_stay_as_they_are(folders_of_8_bits, tmp_path):
    folder = folders_of_8_bits[0]
    average_checkpoints(folder, tmp_path / "again", dtype=torch.int8)
    average_checkpoints([folder, folder], tmp_path / "mean")
    average_checkpoints(folder, tmp_path / "float", dtype=torch.float32)
    average_checkpoints(tmp_path / "float", tmp_path / "back", dtype=torch.int8)
    for name in ("config.json", "model.safetensors"):
        for copy in ("again", "mean", "back"):
            assert (tmp_path / copy / name).read_bytes() == (folder / name).read_bytes()


def test_model_that_computes_in_8_bits_is_converted(run_folder, tmp_path):
    checkpoint = run_folder / "checkpoint-10"
    config = Int8Config(least_weights=0)
    AutoModelForSeq2SeqLM.from_pretrained(checkpoint, quantization_config=config).save_pretrained(tmp_path / "fast")
    average_checkpoints([tmp_path / "fast", tmp_path / "fast"], tmp_path / "mean")
    settings = tiny.read_json(tmp_path / "mean" / "config.json")["quantization_config"]
    assert settings["least_weights"] == 0
    assert settings["dequantize"] is False
    average_checkpoints(tmp_path / "fast", tmp_path / "small", dtype=torch.int8)
    assert tiny.read_json(tmp_path / "small" / "config.json")["quantization_config"]["dequantize"] is True
    saved = (tmp_path / "fast" / "model.safetensors").read_bytes()
    assert (tmp_path / "mean" / "model.safetensors").read_bytes() == saved
    assert (tmp_path / "small" / "model.safetensors").read_bytes() == saved


def test_weights_of_another_quantization(run_folder, tmp_path):
    change_json(run_folder / "checkpoint-20" / "config.json", quantization_config={"quant_method": "gptq"})
    with pytest.raises(ValueError, match="checkpoint-20 cannot be averaged: its weights are quantized by gptq"):
        average_checkpoints([run_folder / "checkpoint-20", run_folder / "checkpoint-10"], tmp_path / "mean")


# the metric, its value at each step, the value that the run took as the best one, and the best step
CASES_OF_BEST = [
    ("eval_rouge2", {10: 3.0, 20: 5.0, 30: 4.0}, 5.0, 20),
    ("eval_nll", {10: 3.0, 20: 1.0, 30: 4.0}, 1.0, 20),
    ("eval_repeated3", {10: 3.0, 20: 5.0, 30: 2.0}, 2.0, 30),
    # --greater_is_better false, and true
    ("eval_length", {10: 3.0, 20: 5.0, 30: 4.0}, 3.0, 10),
    ("eval_loss", {10: 3.0, 20: 5.0, 30: 4.0}, 5.0, 20),
    # the run took no value as the best one
    ("eval_loss", {10: 3.0, 20: 5.0, 30: 4.0}, None, 10),
    # the evaluation before the first update does not count, and one score is undefined
    ("eval_rouge2", {0: 6.0, 10: 3.0, 20: 5.0, 30: None}, 5.0, 20),
    ("eval_rouge2", {0: 6.0, 20: 5.0}, 5.0, 20),
]


@pytest.mark.parametrize(("metric", "values", "best_value", "best_step"), CASES_OF_BEST)
def test_best_checkpoint_is_that_of_the_run(run_folder, tmp_path, metric, values, best_value, best_step):
    history = []
    for step, value in values.items():
        history.append({"step": step, "eval_loss": 9.0, metric: value})
    best_global_step = None if best_value is None else best_step
    change_json(
        run_folder / "checkpoint-30" / "trainer_state.json",
        log_history=history,
        best_metric=best_value,
        best_global_step=best_global_step,
    )
    averaged = average_checkpoints(run_folder, tmp_path / "mean", best=1)
    assert averaged == [str(run_folder / f"checkpoint-{best_step}")]


def test_best_without_evaluations(run_folder, tmp_path):
    change_json(run_folder / "checkpoint-30" / "trainer_state.json", log_history=[])
    with pytest.raises(ValueError, match=r"no evaluation is recorded .*; use `last` instead"):
        average_checkpoints(run_folder, tmp_path / "mean", best=1)


def test_no_folders(tmp_path):
    with pytest.raises(ValueError, match="there are no folders to average"):
        average_checkpoints([], tmp_path / "mean")


def test_nothing_is_left_of_an_average_that_fails(run_folder, tmp_path):
    with pytest.raises(ValueError, match="one run's checkpoints, but there are 2 folders"):
        average_checkpoints([run_folder, run_folder], tmp_path / "mean", last=1)
    tiny.cut(run_folder / "checkpoint-10" / "model.safetensors")
    with pytest.raises(ValueError, match=r"checkpoint-10 cannot be averaged: model.safetensors cannot be read"):
        average_checkpoints([run_folder / "checkpoint-10", run_folder / "checkpoint-20"], tmp_path / "mean")
    other = tmp_path / "other"
    other.mkdir()
    save_file({"w": torch.zeros(1)}, other / "model.safetensors")
    with pytest.raises(ValueError, match=r"\S+ is missing in \S+other, but \[.*\] in \S+checkpoint-20: only"):
        average_checkpoints([run_folder / "checkpoint-20", other], tmp_path / "mean")
    with pytest.raises(ValueError, match="run: must be a new or empty folder"):
        average_checkpoints(run_folder, run_folder, last=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]
