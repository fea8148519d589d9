"""8-bit inference: the layer against float32, and models that are loaded with it, saved and loaded again."""

import copy
import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    CompileConfig,
    MarianConfig,
    MarianMTModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

from hf_summ import Int8Config
from hf_summ.checkpoints.adapters import AutoModelForSummarization
from hf_summ.models import quantization_int8
from hf_summ.models.quantization_int8 import (
    _MIN_OUTPUTS,
    _MIN_ROWS,
    Int8Embedding,
    Int8Linear,
    Int8Quantizer,
    quantize_weight,
)
from tests.conftest import run_python

NOT_TRAINED = "int8 has no gradients: to train, load it without `quantization_config`, or call `dequantize()`"


@pytest.fixture
def folder(architecture, tmp_path):
    """A saved model in float32."""
    architecture.model().float().save_pretrained(tmp_path / "float")
    return tmp_path / "float"


def load(folder, least_weights=0, **settings):
    config = Int8Config(least_weights=least_weights)
    return AutoModelForSeq2SeqLM.from_pretrained(folder, quantization_config=config, **settings)


def linear(in_features: int, out_features: int, bias: bool = True) -> nn.Linear:
    return nn.Linear(in_features, out_features, bias).requires_grad_(False).eval()


def int8(layer: nn.Linear) -> Int8Linear:
    return Int8Linear(*quantize_weight(layer.weight), layer.bias)


def naive(layer: Int8Linear, inputs: torch.Tensor) -> torch.Tensor:
    """The layer's output for a matrix, by exact integers, one row and one output at a time."""
    outputs = torch.empty(len(inputs), layer.out_features)
    for row, values in enumerate(inputs):
        step = values.abs().max() / 127
        levels = (values / step).round().long() if step > 0 else torch.zeros_like(values).long()
        for channel, weights in enumerate(layer.weight):
            product = int((levels * weights.long()).sum()) * step * layer.weight_scale[channel]
            outputs[row, channel] = product + (0 if layer.bias is None else layer.bias[channel])
    return outputs


def test_file_alone_has_8_bits(architecture, folder, tmp_path):
    config = Int8Config(dequantize=True)
    AutoModelForSeq2SeqLM.from_pretrained(folder, quantization_config=config).save_pretrained(tmp_path / "int8")
    model, computing = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8"), load(folder)
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert getattr(model, "quantization_method", None) is None
    frozen = {name for name, value in architecture.model().named_parameters() if not value.requires_grad}
    restored = computing.dequantize()
    for loaded in (model, restored):
        assert {name for name, value in loaded.named_parameters() if not value.requires_grad} == frozen
        outputs = loaded.train()(**architecture.inputs(), labels=architecture.labels())
        outputs.loss.backward()
        for value in loaded.get_input_embeddings().parameters():
            assert value.grad is not None or not value.requires_grad
    torch.testing.assert_close(restored.state_dict(), model.state_dict())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_8_bits_of_files_alone_load_in_the_given_precision(dtype, folder, tmp_path):
    config = Int8Config(dequantize=True)
    AutoModelForSeq2SeqLM.from_pretrained(folder, quantization_config=config).save_pretrained(tmp_path / "int8")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", dtype=dtype)
    assert model.config.dtype == dtype
    automatic = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", dtype="auto")
    assert {value.dtype for value in automatic.parameters()} == {torch.float32}
    expected = automatic.to(dtype).state_dict()
    torch.testing.assert_close(model.state_dict(), expected, rtol=0, atol=127 * 2**-25)


def test_layers_in_32_bits_stay_so_in_half_precision(tmp_path):
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).save_pretrained(tmp_path / "float")
    config = Int8Config(dequantize=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "float", quantization_config=config)
    model.save_pretrained(tmp_path / "int8")
    models = [AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name, dtype="float16") for name in ("float", "int8")]
    original, loaded = ({name: value.dtype for name, value in model.named_parameters()} for model in models)
    assert loaded == original
    assert set(loaded.values()) == {torch.float16, torch.float32}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, _MIN_ROWS])
def test_layer_equals_its_naive_twin(rows, bias):
    layer = int8(linear(24, 7, bias))
    inputs = torch.randn(rows, 24)
    torch.testing.assert_close(layer(inputs), naive(layer, inputs))


@pytest.mark.parametrize("out_features", [12, _MIN_OUTPUTS])
def test_layer_is_within_the_bound_of_quantization(out_features):
    float_layer = linear(64, out_features)
    layer, inputs = int8(float_layer), torch.randn(2, 3, 64)
    # half a step at most for each value and for each weight
    steps = inputs.abs().amax(-1, keepdim=True) / 127
    bound = steps / 2 * float_layer.weight.abs().sum(1) + inputs.abs().sum(-1, keepdim=True) * layer.weight_scale / 2
    bound = bound + 64 * steps / 2 * layer.weight_scale / 2
    errors = (layer(inputs) - float_layer(inputs)).abs()
    assert (errors <= bound + 1e-5).all()
    assert (errors > bound / 100).any()


def test_wide_layers_compute_as_narrow_ones():
    wide, inputs = linear(64, _MIN_OUTPUTS), torch.randn(5, 64)
    narrow = Int8Linear(*quantize_weight(wide.weight[:12]), wide.bias[:12])
    torch.testing.assert_close(int8(wide)(inputs)[:, :12], narrow(inputs))


@pytest.mark.parametrize("rows", [6, _MIN_ROWS])
@pytest.mark.parametrize("out_features", [12, _MIN_OUTPUTS])
def test_a_row_does_not_depend_on_the_rows_beside_it(out_features, rows):
    layer = int8(linear(64, out_features))
    inputs = torch.randn(rows, 64)
    inputs[3] *= 1000
    torch.testing.assert_close(layer(inputs)[:2], layer(inputs[:2]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("out_features", [12, _MIN_OUTPUTS])
def test_rows_of_zeros_give_the_bias(out_features):
    float_layer = linear(16, out_features)
    float_layer.weight[1] = 0.0
    layer = int8(float_layer)
    outputs = layer(torch.stack((torch.zeros(16), torch.randn(16))))
    assert torch.equal(outputs[0], layer.bias)
    assert outputs[1, 1] == layer.bias[1]
    assert outputs.isfinite().all()


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_embedding_is_its_rows_times_their_scales(shape):
    weight, scale = quantize_weight(torch.randn(9, 5))
    layer = Int8Embedding(9, 5, _weight=weight, _freeze=True)
    layer.weight_scale = scale
    ids = torch.randint(9, shape)
    assert torch.equal(layer(ids), (weight.float() * scale[:, None])[ids])


def test_quantizing_again_changes_nothing():
    weight, scale = quantize_weight(torch.randn(200, 7) * torch.logspace(-44, 36, 200)[:, None])
    assert weight.abs().amax(1)[25:].eq(127).all()
    again = quantize_weight(weight * scale[:, None])
    assert torch.equal(again[0], weight)
    assert torch.equal(again[1], scale)


PRODUCTS = """
import torch
from hf_summ.models.quantization_int8 import _MIN_OUTPUTS, Int8Linear, quantize_weight
for out_features in (8, _MIN_OUTPUTS):
    for sign in (1.0, -1.0):
        # sums of two products of largest values are beyond 16 bits
        layer = Int8Linear(*quantize_weight(torch.full((out_features, 64), sign)), None)
        inputs = torch.stack((torch.ones(64), -torch.ones(64)))
        print(float((layer(inputs) - 64 * sign * inputs[:, :1]).abs().max()) < 0.2)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("instructions", ["DEFAULT", "AVX2"])
def test_products_are_exact_without_vnni_instructions(instructions):
    output, _ = run_python("-c", PRODUCTS, ONEDNN_MAX_CPU_ISA=instructions)
    assert output.split() == ["True"] * 4


def test_a_layer_can_be_copied_and_filled_again_after_use():
    layer, second_layer = int8(linear(16, _MIN_OUTPUTS)), int8(linear(16, _MIN_OUTPUTS))
    inputs = torch.randn(2, 16)
    expected = layer(inputs)
    assert torch.equal(copy.deepcopy(layer)(inputs), expected)
    second_layer(inputs)
    second_layer.load_state_dict(layer.state_dict())
    assert torch.equal(second_layer(inputs), expected)


def test_a_model_in_8_bits_scores_like_its_original(architecture, folder):
    model, inputs, labels = load(folder), architecture.inputs(), architecture.labels()
    original = AutoModelForSeq2SeqLM.from_pretrained(folder)
    expected, outputs = original(**inputs, labels=labels), model(**inputs, labels=labels)
    assert outputs.loss.item() == pytest.approx(expected.loss.item(), rel=0.05)
    assert outputs.loss.item() != expected.loss.item()


@pytest.mark.thorough
def test_layers_compute_with_integers(folder):
    model = load(folder)
    kinds = {type(module) for module in model.modules()}
    assert {Int8Linear, Int8Embedding} < kinds
    assert not {nn.Linear, nn.Embedding} & kinds
    # tied matrices are one
    ties = {target: source for target, source in model.all_tied_weights_keys.items() if target.endswith("weight")}
    assert ties
    assert all(model.get_parameter(target) is model.get_parameter(source) for target, source in ties.items())


@pytest.mark.thorough
def test_small_layers_compute_in_32_bits(folder):
    model = load(folder, least_weights=240)
    for module in model.modules():
        assert not isinstance(module, Int8Linear | Int8Embedding) or module.weight.numel() >= 240
        assert type(module) not in (nn.Linear, nn.Embedding) or module.weight.numel() < 240
    assert isinstance(model.lm_head, Int8Linear)


# The fewest weights of a matrix that is stored as integers, and whether the machine's products are exact.
CASES_OF_SIZES = [(0, True), (0, False), (2**17, False)]


@pytest.mark.thorough
@pytest.mark.parametrize(("least_weights", "is_exact"), CASES_OF_SIZES)
def test_matrices_are_stored_as_integers_and_once(folder, least_weights, is_exact, tmp_path, monkeypatch):
    # weights lie in another order in memory where products are exact
    monkeypatch.setattr(quantization_int8, "has_exact_products", lambda: is_exact)
    load(folder, least_weights).save_pretrained(tmp_path / "int8")
    original, stored = load_file(folder / "model.safetensors"), load_file(tmp_path / "int8" / "model.safetensors")
    matrices = {name for name, value in original.items() if value.ndim == 2}
    assert stored.keys() == original.keys() | {f"{name}_scale" for name in matrices}
    for name, value in original.items():
        if name not in matrices:
            assert torch.equal(stored[name], value)
            continue
        scale = stored[f"{name}_scale"]
        assert stored[name].dtype == torch.int8
        assert ((stored[name] * scale[:, None] - value).abs() <= scale[:, None] / 2 * (1 + 1e-5)).all()
    # what was stored is stored again, whatever is computed in 32 bits
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8").save_pretrained(tmp_path / "again")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("int8", "again")]
    assert files[0] == files[1]


@pytest.mark.parametrize("vocab_size", [2048, _MIN_OUTPUTS])
def test_a_tied_output_layer_in_8_bits_is_stored_once(vocab_size, tmp_path):
    widths = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"), 64)
    config = BartConfig(vocab_size=vocab_size, encoder_layers=1, decoder_layers=1, **widths)
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "float")
    model = load(tmp_path / "float", least_weights=2**17)
    # BART scales its embedding, which therefore computes in 32 bits
    assert isinstance(model.lm_head, Int8Linear)
    assert model.model.shared.weight.dtype == torch.float32
    model.save_pretrained(tmp_path / "int8")
    again, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", output_loading_info=True)
    assert not any(report.values()), report
    ids = torch.randint(4, vocab_size, (2, 9))
    assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float", "int8")]
    assert sizes[1] < 0.3 * sizes[0]


@pytest.mark.parametrize("dequantize", [False, True])
def test_positions_that_files_lack_are_computed(dequantize, tmp_path):
    widths = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"), 32)
    ids = {"vocab_size": 100, "pad_token_id": 99, "decoder_start_token_id": 99}
    original = MarianMTModel(MarianConfig(encoder_layers=1, decoder_layers=1, **widths, **ids))
    original.save_pretrained(tmp_path / "float")
    config = Int8Config(least_weights=0, dequantize=dequantize)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "float", quantization_config=config)
    model.save_pretrained(tmp_path / "int8")
    again, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", output_loading_info=True)
    assert not any(report.values()), report
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        expected = original.get_parameter(name)
        for loaded in (model, again):
            assert torch.equal(loaded.get_parameter(name), expected)
            # training would change what files lack
            assert not loaded.get_parameter(name).requires_grad
    inputs = {"input_ids": torch.arange(5, 21)[None], "decoder_input_ids": torch.arange(5, 11)[None]}
    assert torch.equal(again(**inputs).logits, model(**inputs).logits)


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"layout": 3}])
def test_another_layout_is_refused(folder, settings, tmp_path):
    load(folder).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "hf_summ_int8", "least_weights": 0, **settings}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    message = (
        f"^`layout` is {settings.get('layout', 1)}, but must be 2: .*; load the checkpoint that it was made of with"
    )
    with pytest.raises(ValueError, match=message):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["weight", "weight_scale"])
def test_missing_integers_are_noticed(folder, kind, tmp_path):
    load(folder).save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    lost = [name for name in stored if name.endswith(kind)]
    save_file({name: value for name, value in stored.items() if name not in lost}, tmp_path / "model.safetensors")
    model = AutoModelForSummarization.from_pretrained(tmp_path)
    assert model.weights_problem.startswith("has no weights for ")


@pytest.mark.thorough
def test_a_saved_model_gives_the_same_tokens(architecture, folder, tmp_path):
    model, inputs = load(folder), architecture.inputs()
    settings = {"num_beams": 2, "max_new_tokens": 8}
    tokens = model.generate(**inputs, **settings)
    model.save_pretrained(tmp_path / "int8")
    assert not list((tmp_path / "int8").glob("*.bin"))
    config = json.loads((tmp_path / "int8" / "config.json").read_text(encoding="utf-8"))
    quantization = {"quant_method": "hf_summ_int8", "least_weights": 0, "dequantize": False, "layout": 2}
    assert config["quantization_config"] == quantization
    again, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", output_loading_info=True)
    assert not any(report.values()), report
    assert torch.equal(again.generate(**inputs, **settings), tokens)
    expected = model.state_dict()
    assert again.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in again.state_dict().items())


@pytest.mark.thorough
def test_a_documents_summary_does_not_depend_on_its_batch(architecture, folder):
    model, inputs = load(folder), architecture.inputs(rows=3)
    settings = {"num_beams": 2, "min_new_tokens": 6, "max_new_tokens": 6}
    together = model.generate(**inputs, **settings)
    for row in range(3):
        length = int(inputs["attention_mask"][row].sum())
        alone = {name: value[row : row + 1, :length] for name, value in inputs.items()}
        assert torch.equal(model.generate(**alone, **settings)[0], together[row])


@pytest.mark.thorough
def test_a_masked_language_model_is_in_8_bits_too(conditioned, tmp_path):
    conditioned.float().save_pretrained(tmp_path / "float")
    model = load(tmp_path / "float")
    # its output layer shares the matrix of its own embedding
    assert isinstance(model.masked_lm.get_output_embeddings(), Int8Linear)
    model.save_pretrained(tmp_path / "int8")
    again, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8", output_loading_info=True)
    assert not any(report.values()), report
    inputs = {"input_ids": torch.randint(5, 20, (2, 7))}
    settings = {"max_new_tokens": 4, "lm_rejected_factor": 0.5}
    assert torch.equal(again.generate(**inputs, **settings), model.generate(**inputs, **settings))


ACCELERATORS = ["cuda", "cuda:1", 0, {"": "cpu", "lm_head": "cuda:0"}, {"": "disk"}]


@pytest.mark.thorough
@pytest.mark.parametrize("device_map", ACCELERATORS)
def test_accelerators_are_refused_on_loading(folder, device_map):
    with pytest.raises(ValueError, match=r"int8 is for CPUs, but the device is .*: load without"):
        load(folder, device_map=device_map)


@pytest.fixture
def file_in_8_bits(tmp_path):
    """A BART of which only the file has 8 bits."""
    widths = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"), 32)
    config = BartConfig(vocab_size=100, encoder_layers=1, decoder_layers=1, **widths)
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "float")
    quantization = Int8Config(dequantize=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "float", quantization_config=quantization)
    model.save_pretrained(tmp_path / "int8")
    return tmp_path / "int8"


def test_8_bits_of_files_alone_are_for_all_devices():
    quantizer = Int8Quantizer(Int8Config(dequantize=True))
    for device_map in (*ACCELERATORS, "auto", {"": "cpu"}):
        quantizer.validate_environment(device_map=device_map)
        assert quantizer.update_device_map(device_map) == device_map


def test_8_bits_of_files_alone_are_not_offloaded(file_in_8_bits, tmp_path):
    # accelerate 1.12 refuses to offload a whole model before the quantizer sees it
    with pytest.raises(ValueError, match="offload"):
        AutoModelForSeq2SeqLM.from_pretrained(file_in_8_bits, device_map={"": "disk"}, offload_folder=tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_8_bits_of_files_alone_load_on_an_accelerator(file_in_8_bits):
    expected = AutoModelForSeq2SeqLM.from_pretrained(file_in_8_bits).state_dict()
    for device_map in ("auto", "cuda"):
        model = AutoModelForSeq2SeqLM.from_pretrained(file_in_8_bits, device_map=device_map)
        assert model.device.type == "cuda"
        torch.testing.assert_close(model.cpu().state_dict(), expected, rtol=0, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_moving_to_an_accelerator_is_refused(folder):
    model = load(folder)
    with pytest.raises(ValueError, match="int8 is for CPUs, but the device is cuda:0: load without"):
        model.to("cuda")


@pytest.mark.thorough
def test_what_is_between_is_in_float32_whatever_was_saved(architecture, tmp_path):
    architecture.model().to(torch.bfloat16).save_pretrained(tmp_path / "half")
    model = load(tmp_path / "half")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.int8, torch.float32}
    model.generate(**architecture.inputs(), max_new_tokens=2)


@pytest.mark.thorough
def test_training_is_refused(architecture, folder, tmp_path):
    model = load(folder)
    with pytest.raises(ValueError, match=f"^{re.escape(NOT_TRAINED)}$"):
        model.train()
    with pytest.raises(ValueError, match="fine-tuning"):
        Trainer(model, TrainingArguments(tmp_path / "out"))
    model.get_input_embeddings().weight_scale.requires_grad_(True)
    with pytest.raises(ValueError, match=f"^{re.escape(NOT_TRAINED)}$"):
        model(**architecture.inputs(), labels=architecture.labels())


@pytest.mark.thorough
def test_compiled_steps_in_8_bits_write_the_same(architecture, folder):
    model = load(folder)
    settings = {**architecture.inputs(), "max_new_tokens": 6, "num_beams": 2}
    compiled = model.generate(**settings, compile_config=CompileConfig())
    torch.testing.assert_close(compiled, model.generate(**settings), rtol=0, atol=0)
