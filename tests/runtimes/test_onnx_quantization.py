"""Graphs in 8 bits against the layers of the same model in PyTorch, and rows against rows."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from hf_summ.models.quantization_int8 import Int8Linear, quantize_weight
from hf_summ.runtimes.onnx_model import Graph
from hf_summ.runtimes.onnx_quantization import quantize
from tests.runtimes.conftest import made_graph

WIDTH, OUTPUTS = 24, 40


def graph(folder, weight: torch.Tensor, bias: torch.Tensor | None, kind: str, least_weights: int = 0) -> Graph:
    """x Wᵀ + b in 8 bits, or the rows of W that x names, as torch exports them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])
    constants = {"w": weight}
    if kind == "MatMul":
        constants["w"] = weight.T
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="node")]
    elif kind == "Transpose":
        transposed = helper.make_node("Transpose", ["w"], ["t"], name="turn")
        nodes = [transposed, helper.make_node("MatMul", ["x", "t"], ["y"], name="node")]
    elif kind == "Gather":
        x = helper.make_tensor_value_info("x", TensorProto.INT64, ["rows"])
        nodes = [helper.make_node("Gather", ["w", "x"], ["y"], name="node")]
    elif kind == "Gemm":
        if bias is not None:
            constants["b"] = bias
        nodes = [helper.make_node("Gemm", ["x", *constants], ["y"], transB=1, name="node")]
    elif kind == "Slice":
        # the weight is a part of a wider matrix
        constants["w"] = torch.cat((torch.ones(5, WIDTH), weight, torch.ones(2, WIDTH)))
        constants |= {"start": torch.tensor([5]), "end": torch.tensor([5 + OUTPUTS]), "axis": torch.tensor([0])}
        sliced = helper.make_node("Slice", list(constants), ["t"], name="part")
        nodes = [sliced, helper.make_node("Gemm", ["x", "t"], ["y"], transB=1, name="node")]
    elif kind == "Scan":
        # a product in a loop over the rows
        constants["w"] = weight.T
        row = helper.make_tensor_value_info("row", TensorProto.FLOAT, None)
        product = helper.make_tensor_value_info("product", TensorProto.FLOAT, None)
        body_nodes = [helper.make_node("MatMul", ["row", "w"], ["product"], name="node")]
        body = helper.make_graph(body_nodes, "b", [row], [product])
        nodes = [helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)]
    tensors = [numpy_helper.from_array(value.contiguous().numpy(), name) for name, value in constants.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", None])
    return quantized(folder, made_graph(nodes, [x], [y], tensors), least_weights)


def quantized(folder, model: onnx.ModelProto, least_weights: int = 0, **settings) -> Graph:
    quantize(model, least_weights, **settings)
    onnx.save(model, folder / "graph.onnx")
    return Graph(folder / "graph.onnx")


CASES_OF_PRODUCTS = [("MatMul", False), ("Transpose", False), ("Slice", False), ("Gemm", False), ("Gemm", True)]


@pytest.mark.parametrize(("kind", "bias"), CASES_OF_PRODUCTS)
def test_products_are_those_of_the_layer(tmp_path, kind, bias):
    layer = nn.Linear(WIDTH, OUTPUTS, bias).requires_grad_(False)
    rows = torch.randn(9, WIDTH) * torch.logspace(-3, 3, 9)[:, None]
    # a row of zeros has no largest magnitude to divide by
    rows[4] = 0
    outputs = graph(tmp_path, layer.weight, layer.bias, kind)({"x": rows})["y"]
    expected = Int8Linear(*quantize_weight(layer.weight), layer.bias)(rows)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_bias", [False, True])
def test_products_in_32_bits_are_those_of_the_matrix_in_8(tmp_path, has_bias):
    layer = nn.Linear(WIDTH, OUTPUTS, has_bias).requires_grad_(False)
    rows = torch.randn(9, WIDTH)
    constants = {"w": layer.weight}
    if has_bias:
        constants["b"] = layer.bias
    node = helper.make_node("Gemm", ["x", *constants], ["y"], name="node", transB=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", None])
    tensors = [numpy_helper.from_array(value.numpy(), name) for name, value in constants.items()]
    run = quantized(tmp_path, made_graph([node], [x], [y], tensors), computes_in_8_bits=False)
    stored = {tensor.name: tensor for tensor in onnx.load(tmp_path / "graph.onnx").graph.initializer}
    assert stored["int8.node.matrix"].data_type == TensorProto.INT8
    # ONNX Runtime would warn of a constant that no node reads
    assert stored.keys() - {"b"} == {"int8.node.matrix", "int8.node.scales"}
    levels, scale = (part.data for part in quantize_weight(layer.weight))
    expected = nn.functional.linear(rows, levels * scale[:, None], layer.bias)
    np.testing.assert_allclose(run({"x": rows})["y"], expected, rtol=1e-4, atol=1e-5)


def test_embeddings_are_their_rows_times_their_scales(tmp_path):
    weight, ids = torch.randn(OUTPUTS, WIDTH), torch.tensor([3, 0, 3, 39])
    levels, scale = (part.data for part in quantize_weight(weight))
    outputs = graph(tmp_path, weight, None, "Gather")({"x": ids})["y"]
    np.testing.assert_array_equal(outputs, (levels * scale[:, None])[ids])


def test_a_row_does_not_depend_on_the_rows_beside_it(tmp_path):
    run = graph(tmp_path, torch.randn(OUTPUTS, WIDTH), None, "MatMul")
    rows = torch.randn(7, WIDTH) * torch.logspace(-3, 3, 7)[:, None]
    together = run({"x": rows})["y"]
    for index in range(len(rows)):
        np.testing.assert_array_equal(run({"x": rows[index : index + 1]})["y"], together[index : index + 1])


@pytest.mark.parametrize("kind", ["MatMul", "Scan"])
def test_sums_of_the_largest_products_are_exact(tmp_path, kind):
    # sums of pairs of products do not fit in 16 bits
    outputs = graph(tmp_path, torch.ones(OUTPUTS, WIDTH), None, kind)({"x": torch.ones(3, WIDTH)})["y"]
    np.testing.assert_allclose(outputs, WIDTH, rtol=0.01)


def test_two_products_may_share_a_matrix(tmp_path):
    # LongT5's local and global attention share one
    weight, rows = torch.randn(WIDTH, WIDTH), torch.randn(3, WIDTH)
    first = helper.make_node("MatMul", ["x", "w"], ["xw"], name="x")
    second = helper.make_node("MatMul", ["xw", "w"], ["xww"], name="xw")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])
    xww = helper.make_tensor_value_info("xww", TensorProto.FLOAT, ["rows", WIDTH])
    tensors = [numpy_helper.from_array(weight.numpy(), "w")]
    outputs = quantized(tmp_path, made_graph([first, second], [x], [xww], tensors))({"x": rows})
    layer = Int8Linear(*quantize_weight(weight.T), None)
    np.testing.assert_allclose(outputs["xww"], layer(layer(rows)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("least_weights", [WIDTH * OUTPUTS, WIDTH * OUTPUTS + 1])
def test_small_matrices_keep_their_32_bits(tmp_path, least_weights):
    weight, rows = torch.randn(OUTPUTS, WIDTH), torch.randn(3, WIDTH)
    outputs = graph(tmp_path, weight, None, "MatMul", least_weights)({"x": rows})["y"]
    difference = np.abs(outputs - (rows @ weight.T).numpy()).max()
    assert (difference > 1e-3) == (least_weights == WIDTH * OUTPUTS)
