"""Quantization of ONNX graphs to 8-bit products, with a scale per row and per output channel."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from hf_summ.models.quantization_int8 import quantize_weight

# the domain of ONNX Runtime's own operators
_MICROSOFT = "com.microsoft"
# operator -> the input that may be a matrix
_MATRIX_INPUTS = {"MatMul": 1, "Gemm": 1, "Gather": 0, "Transpose": 0, "Slice": 0}


def quantize(model: ModelProto, least_weights: int = 2**15, computes_in_8_bits: bool = True) -> None:
    """Quantize a graph's constant matrices to 8 bits in place: those of products and embeddings.

    As in `Int8Linear`, each row of a product's input is quantized by its own largest magnitude, independently of other
    rows.

    Args:
        least_weights: matrices with fewer weights keep 32 bits.
        computes_in_8_bits: whether products are computed in 8 bits too, and not in 32.
    """
    graph = model.graph
    initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quantizer = _Quantizer(initial, least_weights, computes_in_8_bits)
    nodes = list(quantizer.nodes(graph.node))
    used = {name for node in nodes for name in _inputs(node)}
    unchanged = [tensor for tensor in graph.initializer if tensor.name in used]
    # ONNX Runtime warns of unused ones
    added = [numpy_helper.from_array(value, name) for name, value in quantizer.constants.items() if name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(unchanged + added)
    if all(opset.domain != _MICROSOFT for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))


def _inputs(node: NodeProto) -> Iterator[str]:
    """The names of what a node reads, with the nodes of its loop."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _inputs(inner)


class _Quantizer:
    """Creates replacement nodes, and collects their constants."""

    def __init__(self, initial: Mapping[str, np.ndarray], least_weights: int, computes_in_8_bits: bool):
        self._initial = initial
        self._computes_in_8_bits = computes_in_8_bits
        # those that nodes compute are added
        self._matrices = {
            name: value
            for name, value in initial.items()
            if value.dtype == np.float32 and value.ndim == 2 and value.size >= least_weights
        }
        self.constants = {
            "int8.last": np.array([-1]),
            "int8.step": np.array(1 / 127, np.float32),
            "int8.zero": np.array(128, np.uint8),
        }
        # an embedding's matrix -> the names of its integers and scales
        self._embeddings: dict[bytes, tuple[str, str]] = {}

    def nodes(self, nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
        """The nodes in 8 bits, also in loops."""
        for node in nodes:
            for loop in (attribute.g for attribute in node.attribute if attribute.g.node):
                outside = set(self.constants)
                replaced = list(self.nodes(loop.node))
                del loop.node[:]
                loop.node.extend(replaced)
                # ONNX Runtime's conversion for AVX2, without which sums saturate, reads a loop's own constants only
                own = [name for name in self.constants if name not in outside]
                loop.initializer.extend(numpy_helper.from_array(self.constants.pop(name), name) for name in own)
            matrix = (
                self._matrices.get(node.input[_MATRIX_INPUTS[node.op_type]]) if node.op_type in _MATRIX_INPUTS else None
            )
            if matrix is None:
                yield node
            elif node.op_type == "Transpose":
                # the transpose of a matrix that another node may look up
                self._matrices[node.output[0]] = matrix.T
            elif node.op_type == "Slice":
                ranges = [slice(None), slice(None)]
                for start, end, axis in zip(*(self._initial[name] for name in node.input[1:4]), strict=True):
                    ranges[axis] = slice(start, end)
                self._matrices[node.output[0]] = matrix[tuple(ranges)]
            else:
                yield from (self.embedding if node.op_type == "Gather" else self.product)(node, matrix)

    def product(self, node: NodeProto, matrix: np.ndarray) -> Iterator[NodeProto]:
        """Replacement for a product of rows and a matrix."""
        (rows, _, *bias), (output,), name = node.input, node.output, f"int8.{node.name}"
        is_transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        outputs = matrix if is_transposed else matrix.T
        # ONNX Runtime's conversion for AVX2 fails if two products share their integers
        if (shared := self._embeddings.pop(outputs.tobytes(), None)) is not None:
            integers, scales = shared
            yield helper.make_node("Transpose", [integers], [f"{name}.matrix"])
        else:
            scales = f"{name}.scales"
            levels, self.constants[scales] = _quantized(outputs)
            # as products read it, as transposing takes most of the time of loading
            self.constants[f"{name}.matrix"] = np.ascontiguousarray(levels.T)
        product = f"{name}.scaled" if bias else output
        if self._computes_in_8_bits:
            yield from _product_in_8_bits(rows, name, scales, product)
        else:
            yield from _product_in_32_bits(rows, name, scales, product)
        if bias:
            yield helper.make_node("Add", [product, *bias], [output])

    def embedding(self, node: NodeProto, matrix: np.ndarray) -> Iterator[NodeProto]:
        """Replacement for a look-up of a matrix's rows."""
        (_, ids), (output,), name = node.input, node.output, f"int8.{node.name}"
        key = matrix.tobytes()
        if key not in self._embeddings:
            self._embeddings[key] = names = f"{name}.matrix", f"{name}.row_scales"
            self.constants |= zip(names, _quantized(matrix), strict=True)
        integers, scales = self._embeddings[key]
        yield helper.make_node("Gather", [integers, ids], [f"{name}.levels"])
        yield helper.make_node("Cast", [f"{name}.levels"], [f"{name}.floats"], to=TensorProto.FLOAT)
        yield helper.make_node("Gather", [scales, ids], [f"{name}.scales"])
        yield helper.make_node("Unsqueeze", [f"{name}.scales", "int8.last"], [f"{name}.column"])
        yield helper.make_node("Mul", [f"{name}.floats", f"{name}.column"], [output])


def _product_in_8_bits(rows: str, name: str, scales: str, output: str) -> Iterator[NodeProto]:
    """The product of rows and the integers of a matrix, `NAME.matrix`, times the scales of its columns."""
    # on loading, equal nodes for several products of the same rows are merged
    yield helper.make_node("Abs", [rows], [f"{name}.sizes"])
    yield helper.make_node("ReduceMax", [f"{name}.sizes", "int8.last"], [f"{name}.range"])
    # a row of zeros has undefined levels, but its products are multiplied by 0
    yield helper.make_node("Div", [rows, f"{name}.range"], [f"{name}.shares"])
    yield helper.make_node("QuantizeLinear", [f"{name}.shares", "int8.step", "int8.zero"], [f"{name}.levels"])
    factors = [f"{name}.levels", f"{name}.matrix", "int8.step", scales, "int8.zero"]
    yield helper.make_node("MatMulIntegerToFloat", factors, [f"{name}.products"], domain=_MICROSOFT)
    yield helper.make_node("Mul", [f"{name}.products", f"{name}.range"], [output])


def _product_in_32_bits(rows: str, name: str, scales: str, output: str) -> Iterator[NodeProto]:
    """The same in 32 bits: ONNX Runtime computes the first two nodes, of constants, when it loads the graph."""
    yield helper.make_node("Cast", [f"{name}.matrix"], [f"{name}.floats"], to=TensorProto.FLOAT)
    yield helper.make_node("Mul", [f"{name}.floats", scales], [f"{name}.weights"])
    yield helper.make_node("MatMul", [rows, f"{name}.weights"], [output])


def _quantized(matrix: np.ndarray) -> list[np.ndarray]:
    """A matrix's integers, and its row scales."""
    return [value.numpy() for value in quantize_weight(torch.tensor(matrix))]
