"""Dynamic convolution against sums over shifts written as the paper's equation."""

import pytest
import torch

from hf_summ.models.layers_gdlf import DynamicConvolution, compiled_dynamic_convolution, dynamic_convolution
from hf_summ.models.modeling_base import DecoderStateLayer
from tests.conftest import run_python
from tests.models.naive import assert_equals_with_gradients, naive_convolution


def make(length, kernel, heads=2, width=6, batch=2, extra=0):
    inputs = torch.randn(batch, length + extra, width, dtype=torch.float64, requires_grad=True)
    taps = torch.randn(batch, length, heads, kernel, dtype=torch.float64).softmax(-1).requires_grad_()
    return inputs, taps


# lengths below, at and beside the chunk of 32, kernels longer than the text and longer than the chunk
SHAPES = [(1, 3), (5, 31), (31, 7), (32, 7), (33, 1), (64, 31), (70, 3), (45, 41)]


def assert_equals_naive(convolve, length, kernel, left):
    inputs, taps = make(length, kernel)
    expected = naive_convolution(inputs, taps, left)
    assert_equals_with_gradients(convolve(inputs, taps, left), expected, inputs=inputs, taps=taps)


@pytest.mark.thorough
@pytest.mark.parametrize(("length", "kernel"), SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_chunked_convolution_and_its_gradients_equal_the_naive_ones(length, kernel, causal):
    assert_equals_naive(dynamic_convolution, length, kernel, kernel - 1 if causal else (kernel - 1) // 2)


CASES_OF_COMPILED_CONVOLUTIONS = [
    (40, 5, 4),
    pytest.param(9, 3, 1, marks=pytest.mark.thorough),
    pytest.param(3, 5, 2, marks=pytest.mark.thorough),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("length", "kernel", "left"), CASES_OF_COMPILED_CONVOLUTIONS)
def test_compiled_convolution_and_its_gradients_equal_the_naive_ones(length, kernel, left):
    assert_equals_naive(compiled_dynamic_convolution, length, kernel, left)


# a new process, with nothing compiled before, prints which convolutions are compiled, and decodes with compiled steps
TRAINED = """
import torch
from transformers import CompileConfig
from hf_summ import GdlfConfig, GdlfForConditionalGeneration
from hf_summ.models import layers_gdlf as room

torch.manual_seed(0)
convolution = room.DynamicConvolution(6, 3, num_heads=2, causal=True, implementation="auto")
inputs = torch.randn(2, 11, 6)
for is_training in (True, False):
    outputs = convolution.train(is_training)(inputs)
    convolution.implementation = "chunked"
    torch.testing.assert_close(outputs, convolution(inputs))
    convolution.implementation = "auto"
    print(room._compiled.cache_info().currsize)
sizes = {"d_model": 8, "num_heads": 2, "encoder_kernel_sizes": [3], "decoder_kernel_sizes": [3], "tags": "none"}
config = GdlfConfig(vocab_size=20, encoder_layers=1, decoder_layers=1, ffn_dim=8, **sizes)
model, ids = GdlfForConditionalGeneration(config).eval(), torch.arange(3, 9)[None]
expected = model.generate(ids, max_new_tokens=4)
assert torch.equal(model.generate(ids, max_new_tokens=4, compile_config=CompileConfig()), expected)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("compiler", "compiled"), [(None, 1), ("/nowhere/g++", 0)])
def test_compiled_in_training_where_there_is_a_compiler(tmp_path, compiler, compiled):
    named = {"CXX": compiler} if compiler else {}
    output, errors = run_python("-c", TRAINED, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), **named)
    assert output.split() == [str(compiled)] * 2, errors
    assert ("compiling decoding steps for one document" in errors) == (compiler is None)
    assert ("torch.compile does not work here, so GDLF is slower: " in errors) == (compiler is not None)


CASES_OF_PIECES = [[1] * 11, [4, 1, 1, 5], [11]]


@pytest.mark.parametrize("pieces", CASES_OF_PIECES)
def test_windows_kept_in_the_state_equal_the_whole(pieces):
    layer = DynamicConvolution(6, 5, num_heads=2, causal=True).double()
    inputs = torch.randn(2, 11, 6, dtype=torch.float64)
    cache_layer = DecoderStateLayer()
    parts = [layer(part, cache_layer) for part in inputs.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(inputs))


def test_kernel_longer_than_the_text_is_normalised_over_all_its_taps():
    layer = DynamicConvolution(4, 7, num_heads=1, causal=False).double()
    with torch.no_grad():
        layer.kernel_projection.weight.zero_()
        layer.output_projection.weight.copy_(torch.eye(4))
        layer.output_projection.bias.zero_()
    # uniform taps: a seventh of the only position, not all of it
    inputs = torch.ones(1, 1, 4, dtype=torch.float64)
    torch.testing.assert_close(layer(inputs), inputs / 7)


def test_kernel_dropout_acts_in_training_alone():
    layer = DynamicConvolution(4, 3, num_heads=2, causal=False, kernel_dropout=0.5).double()
    inputs = torch.randn(1, 8, 4, dtype=torch.float64)
    assert not torch.equal(layer.train()(inputs), layer(inputs))
    torch.testing.assert_close(layer.eval()(inputs), layer(inputs), rtol=0, atol=0)
