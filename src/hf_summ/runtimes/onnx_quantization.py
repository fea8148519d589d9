"""Quantization of ONNX graphs to 8-bit products, with a scale per row and per output channel.

As in `hf_summ.models.quantization_int8`, a matrix becomes integers from -127 to 127, its levels, and a scale for each
row: levels times scale approximate the matrix.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from hf_summ.models.quantization_int8 import quantize_weight

# the domain of ONNX Runtime's own operators
_MICROSOFT = "com.microsoft"
# for each operator of a matrix, the position of the matrix among its inputs
_MATRIX_INPUTS = {"MatMul": 1, "Gemm": 1, "Gather": 0, "Transpose": 0, "Slice": 0}
# names of constants that several products share: the last axis, and the step and the zero of a row's levels
_LAST, _STEP, _ZERO = "int8.last", "int8.step", "int8.zero"


@dataclass(frozen=True)
class _QuantizedEmbedding:
    """The names of an embedding's constants.

    Args:
        levels: the name of its levels (V, C).
        scales: the name of its scales (V,).
    """

    levels: str
    scales: str


def quantize(model: ModelProto, least_weights: int = 2**15, computes_in_8_bits: bool = True) -> None:
    """Quantize a graph's constant matrices to 8 bits in place: those of products and embeddings.

    As in `Int8Linear`, each row of a product's input is quantized by its own largest magnitude, independently of other
    rows.

    Args:
        model: the graph.
        least_weights: matrices with fewer weights keep 32 bits.
        computes_in_8_bits: whether products are computed in 8 bits too, and not in 32.
    """
    graph = model.graph
    initial_values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quantizer = _Quantizer(initial_values, least_weights, computes_in_8_bits)
    nodes = quantizer.quantized(graph.node)
    used_names = _names_read(nodes)
    # ONNX Runtime warns of constants that no node reads
    constants = [tensor for tensor in graph.initializer if tensor.name in used_names]
    for name, value in quantizer.constants.items():
        if name in used_names:
            constants.append(numpy_helper.from_array(value, name))
    del graph.node[:]
    del graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    domains = [opset.domain for opset in model.opset_import]
    if _MICROSOFT not in domains:
        model.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))


def _names_read(nodes: Iterable[NodeProto]) -> set[str]:
    """The names of the values that these nodes read, and that the nodes in their loops read."""
    names = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            names |= _names_read(attribute.g.node)
    return names


class _Quantizer:
    """Creates the nodes that replace those of constant matrices, and collects the new constants.

    Args:
        initial_values: the graph's constants by name.
        least_weights, computes_in_8_bits: as for `quantize`.

    Attributes:
        constants: the values of new constants by name.
    """

    def __init__(self, initial_values: Mapping[str, np.ndarray], least_weights: int, computes_in_8_bits: bool):
        self._initial_values = initial_values
        self._computes_in_8_bits = computes_in_8_bits
        # the matrices by name; transposes and slices of matrices, which nodes compute, are added
        self._matrices = {}
        for name, value in initial_values.items():
            if value.dtype == np.float32 and value.ndim == 2 and value.size >= least_weights:
                self._matrices[name] = value
        self.constants = {_LAST: np.array([-1]), _STEP: np.array(1 / 127, np.float32), _ZERO: np.array(128, np.uint8)}
        # the embeddings by the bytes of their matrix
        self._embeddings: dict[bytes, _QuantizedEmbedding] = {}

    def quantized(self, nodes: Iterable[NodeProto]) -> list[NodeProto]:
        """The nodes that compute the same in 8 bits; nodes in loops are replaced in place."""
        replaced = []
        for node in nodes:
            for attribute in node.attribute:
                if attribute.g.node:
                    self._quantize_loop(attribute.g)
            matrix = self._matrix_of(node)
            if matrix is None:
                replaced.append(node)
            elif node.op_type == "Transpose":
                # another node may look up rows of the transpose
                self._matrices[node.output[0]] = matrix.T
            elif node.op_type == "Slice":
                self._matrices[node.output[0]] = matrix[self._ranges_of(node)]
            elif node.op_type == "Gather":
                replaced.extend(self._embedding(node, matrix))
            else:
                replaced.extend(self._product(node, matrix))
        return replaced

    def _quantize_loop(self, loop: GraphProto) -> None:
        """Quantize the nodes of a loop in place. The loop gets their constants."""
        names_outside = set(self.constants)
        nodes = self.quantized(loop.node)
        del loop.node[:]
        loop.node.extend(nodes)
        # ONNX Runtime's conversion for AVX2, without which sums saturate, reads only constants of the loop itself
        names_inside = [name for name in self.constants if name not in names_outside]
        for name in names_inside:
            loop.initializer.append(numpy_helper.from_array(self.constants.pop(name), name))

    def _matrix_of(self, node: NodeProto) -> np.ndarray | None:
        """The constant matrix that a node reads, or None."""
        if node.op_type not in _MATRIX_INPUTS:
            return None
        name = node.input[_MATRIX_INPUTS[node.op_type]]
        return self._matrices.get(name)

    def _ranges_of(self, node: NodeProto) -> tuple[slice, slice]:
        """The rows and the columns that a node slices from a matrix."""
        starts = self._initial_values[node.input[1]]
        ends = self._initial_values[node.input[2]]
        axes = self._initial_values[node.input[3]]
        ranges = [slice(None), slice(None)]
        for start, end, axis in zip(starts, ends, axes, strict=True):
            ranges[axis] = slice(start, end)
        rows, columns = ranges
        return rows, columns

    def _product(self, node: NodeProto, matrix: np.ndarray) -> Iterator[NodeProto]:
        """The nodes that replace a product of rows and a matrix, to which `Gemm` may add a bias."""
        rows, _, *biases = node.input
        (output,) = node.output
        name = f"int8.{node.name}"
        # (outputs, inputs), as levels have a scale for each output
        weight = matrix if _is_transposed(node) else matrix.T
        # ONNX Runtime's conversion for AVX2 fails if two products share their levels
        embedding = self._embeddings.pop(weight.tobytes(), None)
        if embedding is not None:
            scales = embedding.scales
            yield helper.make_node("Transpose", [embedding.levels], [f"{name}.matrix"])
        else:
            scales = f"{name}.scales"
            levels, self.constants[scales] = _quantized(weight)
            # in the layout that products read, as transposing takes most of the time of loading
            self.constants[f"{name}.matrix"] = np.ascontiguousarray(levels.T)
        product = f"{name}.scaled" if biases else output
        if self._computes_in_8_bits:
            yield from _product_in_8_bits(rows, name, scales, product)
        else:
            yield from _product_in_32_bits(rows, name, scales, product)
        if biases:
            yield helper.make_node("Add", [product, biases[0]], [output])

    def _embedding(self, node: NodeProto, matrix: np.ndarray) -> Iterator[NodeProto]:
        """The nodes that replace a look-up of a matrix's rows."""
        _, ids = node.input
        (output,) = node.output
        name = f"int8.{node.name}"
        key = matrix.tobytes()
        if key not in self._embeddings:
            embedding = _QuantizedEmbedding(f"{name}.matrix", f"{name}.row_scales")
            self.constants[embedding.levels], self.constants[embedding.scales] = _quantized(matrix)
            self._embeddings[key] = embedding
        embedding = self._embeddings[key]
        yield helper.make_node("Gather", [embedding.levels, ids], [f"{name}.levels"])
        yield helper.make_node("Cast", [f"{name}.levels"], [f"{name}.floats"], to=TensorProto.FLOAT)
        yield helper.make_node("Gather", [embedding.scales, ids], [f"{name}.scales"])
        yield helper.make_node("Unsqueeze", [f"{name}.scales", _LAST], [f"{name}.column"])
        yield helper.make_node("Mul", [f"{name}.floats", f"{name}.column"], [output])


def _is_transposed(node: NodeProto) -> bool:
    """Whether a `Gemm` transposes its matrix."""
    return any(attribute.name == "transB" and attribute.i for attribute in node.attribute)


def _product_in_8_bits(rows: str, name: str, scales: str, output: str) -> Iterator[NodeProto]:
    """The nodes of a product of rows and a matrix in 8 bits.

    Args:
        rows: the name of the rows.
        name: the beginning of the names of new values; `NAME.matrix` has the levels of the matrix.
        scales: the name of the scales of its columns.
        output: the name of the product.
    """
    # on loading, equal nodes for several products of the same rows are merged
    yield helper.make_node("Abs", [rows], [f"{name}.sizes"])
    yield helper.make_node("ReduceMax", [f"{name}.sizes", _LAST], [f"{name}.range"])
    # a row of zeros has undefined levels, but its products are multiplied by 0
    yield helper.make_node("Div", [rows, f"{name}.range"], [f"{name}.shares"])
    yield helper.make_node("QuantizeLinear", [f"{name}.shares", _STEP, _ZERO], [f"{name}.levels"])
    factors = [f"{name}.levels", f"{name}.matrix", _STEP, scales, _ZERO]
    yield helper.make_node("MatMulIntegerToFloat", factors, [f"{name}.products"], domain=_MICROSOFT)
    yield helper.make_node("Mul", [f"{name}.products", f"{name}.range"], [output])


def _product_in_32_bits(rows: str, name: str, scales: str, output: str) -> Iterator[NodeProto]:
    """The nodes of a product of rows and a matrix in 32 bits; the arguments are as for `_product_in_8_bits`.

    ONNX Runtime computes the first two nodes, whose inputs are constants, when it loads the graph.
    """
    yield helper.make_node("Cast", [f"{name}.matrix"], [f"{name}.floats"], to=TensorProto.FLOAT)
    yield helper.make_node("Mul", [f"{name}.floats", scales], [f"{name}.weights"])
    yield helper.make_node("MatMul", [rows, f"{name}.weights"], [output])


def _quantized(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The levels (R, C) and the scales (R,) of a matrix."""
    levels, scales = quantize_weight(torch.tensor(matrix))
    return levels.numpy(), scales.numpy()
