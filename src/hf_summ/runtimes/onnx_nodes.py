"""Changes to graphs that PyTorch wrote: nodes for the sizes of windows and for the best continuations, and files."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from hf_summ.runtimes.onnx_search import BEST_TOKENS, BEST_TOTALS, FORBIDDEN, LOGITS, NUMBER, TOTALS

# the arguments of `BertWindows.read_windows` that a graph computes
WINDOW_SIZES = ("starts", "offsets")
# the largest number of bytes of weights in one file, whose format is limited to 2 GB with nodes and names
LARGEST = 2**31 - 2**24
# possible sizes of a block of the vocabulary; the maxima of blocks are compared before their tokens
_BLOCK_SIZES = range(100, 49, -1)
# the size where none of these divides the vocabulary
_PADDED_BLOCK_SIZE = 128


def add_window_sizes(graph: onnx.GraphProto, window_size: int, stride: int) -> None:
    """Compute the inputs `WINDOW_SIZES` of a graph from the width of the batch, in place.

    Args:
        graph: the graph of an encoder that reads documents in windows.
        window_size: the number of tokens of a window.
        stride: the number of tokens from a window's start to the next one's.
    """
    sizes = onnx.parser.parse_graph(f"""
        sizes (int64[B, S] input_ids) => (int64[N] starts, int64[L] offsets) {{
            zero = Constant <value = int64 {{0}}> ()
            one = Constant <value = int64 {{1}}> ()
            window_size = Constant <value = int64 {{{window_size}}}> ()
            stride = Constant <value = int64 {{{stride}}}> ()
            shape = Shape (input_ids)
            width = Gather (shape, one)
            length = Min (width, window_size)
            last = Sub (width, length)
            end = Add (last, stride)
            starts = Range (zero, end, stride)
            offsets = Range (zero, length, one)
        }}""")
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend(sizes.node)
    graph.node.extend(nodes)
    computed_inputs = [value for value in graph.input if value.name in WINDOW_SIZES]
    for value in computed_inputs:
        graph.input.remove(value)


def save(model: ModelProto, file: Path) -> None:
    """Write a model with its graph, with weights of more than 2 GB in a second file beside it."""
    is_large = constant_bytes(model) > LARGEST
    onnx.save(model, file, save_as_external_data=is_large, location=f"{file.name}.data")


def constant_bytes(model: ModelProto) -> int:
    """The number of bytes of the constants that the graph of a model itself contains."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def clear_traces(graph: onnx.GraphProto) -> None:
    """Remove the exporter's stack traces, which name paths of this machine, from a graph and those inside it."""
    for node in graph.node:
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                clear_traces(attribute.g)


class _Nodes:
    """Creates nodes, and the constants that they read."""

    def __init__(self, constants: Mapping[str, np.ndarray]):
        self._constants = constants
        self._used_constants = set()
        self.nodes: list[NodeProto] = []

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output.

        Args:
            operator: the name of the operator.
            inputs: names of constants, or of other values of the graph.
            name: the name of the output; by default a new one.
            attributes: those of the operator.

        Returns:
            The name of the output.
        """
        output_name = name or self._new_name(0)
        self._add_node(operator, inputs, [output_name], attributes)
        return output_name

    def add_top(self, scores: str, number: str) -> tuple[str, str]:
        """Add a node for the highest values of each row.

        Args:
            scores: the name of the values.
            number: the name of the constant or value with the number of the highest values.

        Returns:
            The names of the highest values, best first, and of their positions.
        """
        value_name, position_name = self._new_name(0), self._new_name(1)
        self._add_node("TopK", (scores, number), [value_name, position_name], {})
        return value_name, position_name

    def _new_name(self, index: int) -> str:
        """A name for an output of the next node."""
        return f"candidates.{len(self.nodes)}.{index}"

    def _add_node(
        self, operator: str, inputs: Sequence[str], output_names: Sequence[str], attributes: Mapping[str, Any]
    ) -> None:
        input_names = []
        for input_name in inputs:
            if input_name in self._constants:
                self._used_constants.add(input_name)
                input_name = _constant_name(input_name)
            input_names.append(input_name)
        self.nodes.append(helper.make_node(operator, input_names, output_names, **attributes))

    def used_constants(self) -> list[TensorProto]:
        """The constants that the nodes read; ONNX Runtime would warn of others."""
        tensors = []
        for name, value in self._constants.items():
            if name in self._used_constants:
                tensors.append(numpy_helper.from_array(value, _constant_name(name)))
        return tensors


def _constant_name(name: str) -> str:
    """The name of a constant in the graph, which has other values too."""
    return f"candidates.{name}"


def add_candidates(model: ModelProto, vocab_size: int, are_log_probs: bool = False, points: bool = False) -> None:
    """Add the best continuations of each row to a graph, in place.

    Further inputs are `forbidden` (P, 2), pairs of a row and a token; `totals` (R, 1), the rows' scores so far; and
    `number` (1,), the number of continuations of a row. Further outputs are their totals and tokens, (R, number), best
    first.

    Args:
        model: a graph with the output `logits` (R, 1, V).
        vocab_size: the number V of words.
        are_log_probs: whether the logits are log-probabilities, as of models that copy.
        points: whether there are more logits than words, by a number that only a step determines.
    """
    block_size = _block_size(vocab_size)
    number_of_blocks = math.ceil(vocab_size / block_size)
    constants = {
        "last_axis": np.array([-1]),
        "index_0": np.array([0]),
        "minus_infinity": np.array(-np.inf, np.float32),
        # in shapes, 0 keeps the number of rows
        "block_shape": np.array([0, -1, block_size]),
        "no_padding": np.array([0, 0, 0]),
        "index_1": np.array([1]),
        "block_size_vector": np.array([block_size]),
        "row_shape": np.array([0, -1]),
        "number_of_blocks": np.array([number_of_blocks]),
        "vocab_size": np.array([vocab_size]),
        "block_size": np.array(block_size),
        "offsets_in_block": np.arange(block_size),
    }
    nodes = _Nodes(constants)
    # the log-probabilities (R, V)
    scores = nodes.add("Reshape", LOGITS, "row_shape")
    if not are_log_probs:
        # the norm by LogSoftmax, as ReduceLogSumExp takes ten times as long
        scores = nodes.add("LogSoftmax", scores, axis=-1)
    # -inf for each forbidden token
    forbidden_shape = nodes.add("Shape", FORBIDDEN)
    pairs = nodes.add("Gather", forbidden_shape, "index_0")
    lowest_score = helper.make_tensor("value", TensorProto.FLOAT, [1], [-np.inf])
    lowest_scores = nodes.add("ConstantOfShape", pairs, value=lowest_score)
    scores = nodes.add("ScatterND", scores, FORBIDDEN, lowest_scores)
    if points or vocab_size % block_size:
        # pad the scores to whole blocks
        scores_shape = nodes.add("Shape", scores)
        width = nodes.add("Gather", scores_shape, "index_1")
        missing = nodes.add("Mod", nodes.add("Neg", width), "block_size_vector")
        padding = nodes.add("Concat", "no_padding", missing, axis=0)
        scores = nodes.add("Pad", scores, padding, "minus_infinity")
    # (R, blocks, block size)
    cells = nodes.add("Reshape", scores, "block_shape")
    maxima = nodes.add("ReduceMax", cells, "last_axis", keepdims=0)
    # the best tokens are in the blocks with the highest maxima
    chosen_number = nodes.add("Min", NUMBER, "number_of_blocks")
    _, chosen_blocks = nodes.add_top(maxima, chosen_number)
    chosen = nodes.add("Unsqueeze", chosen_blocks, "last_axis")
    chosen_cells = nodes.add("GatherND", cells, chosen, batch_dims=1)
    chosen_scores = nodes.add("Reshape", chosen_cells, "row_shape")
    chosen_starts = nodes.add("Mul", chosen, "block_size")
    chosen_ids = nodes.add("Add", chosen_starts, "offsets_in_block")
    tokens = nodes.add("Reshape", chosen_ids, "row_shape")
    best_number = nodes.add("Min", NUMBER, "vocab_size")
    best_scores, best_positions = nodes.add_top(chosen_scores, best_number)
    nodes.add("Add", best_scores, TOTALS, name=BEST_TOTALS)
    nodes.add("GatherElements", tokens, best_positions, axis=1, name=BEST_TOKENS)

    graph = model.graph
    graph.node.extend(nodes.nodes)
    graph.initializer.extend(nodes.used_constants())
    graph.input.append(helper.make_tensor_value_info(FORBIDDEN, TensorProto.INT64, ["pairs", 2]))
    graph.input.append(helper.make_tensor_value_info(TOTALS, TensorProto.FLOAT, ["rows_", 1]))
    graph.input.append(helper.make_tensor_value_info(NUMBER, TensorProto.INT64, [1]))
    graph.output.append(helper.make_tensor_value_info(BEST_TOTALS, TensorProto.FLOAT, ["rows_", "number_"]))
    graph.output.append(helper.make_tensor_value_info(BEST_TOKENS, TensorProto.INT64, ["rows_", "number_"]))


def _block_size(vocab_size: int) -> int:
    """The number of tokens of a block of the vocabulary. Whole blocks need no padding, which copies the scores."""
    for size in _BLOCK_SIZES:
        if vocab_size % size == 0:
            return size
    return _PADDED_BLOCK_SIZE
