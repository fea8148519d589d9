"""Changes to graphs that PyTorch wrote: nodes for the sizes of windows and for the best continuations, and files."""

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from hf_summ.runtimes.onnx_search import BEST_TOKENS, BEST_TOTALS, FORBIDDEN, NUMBER, TOTALS

# the arguments of `BertWindows.read_windows` that a graph computes
WINDOW_SIZES = ("starts", "offsets")
# bytes of weights in one file, whose format is limited to 2 GB with nodes and names
_LARGEST = 2**31 - 2**24
# sizes of a block of the vocabulary, of which the maxima are compared first
_BLOCKS = range(100, 49, -1)


def add_window_sizes(graph: onnx.GraphProto, window_size: int, stride: int) -> None:
    """Compute the inputs `WINDOW_SIZES` of a graph from the width of the batch, in place."""
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
    nodes = [*sizes.node, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in [value for value in graph.input if value.name in WINDOW_SIZES]:
        graph.input.remove(value)


def save(graph: onnx.ModelProto, file: Path) -> None:
    """Write a graph, with weights of more than 2 GB in a second file beside it."""
    size = sum(len(tensor.raw_data) for tensor in graph.graph.initializer)
    onnx.save(graph, file, save_as_external_data=size > _LARGEST, location=f"{file.name}.data")


def clear_traces(graph: onnx.GraphProto) -> None:
    """Remove the exporter's stack traces, which name paths of this machine, from a graph and those inside it."""
    for node in graph.node:
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                clear_traces(attribute.g)


def add_candidates(model: ModelProto, vocab_size: int, are_log_probs: bool = False, points: bool = False) -> None:
    """Add the best continuations to a graph with `logits` (R, 1, V), in place.

    With `are_log_probs`, the logits are log-probabilities, as of models that copy. With `points`, there are more logits
    than words, by a number that only a step determines.

    Further inputs are `forbidden` (P, 2), pairs of a row and a token; `totals` (R, 1), the rows' scores so far; and
    `number` (1,), the number of continuations of a row. Further outputs are their totals and tokens, (R, number), best
    first.
    """
    # whole blocks need no padding, which copies the scores
    block = next((size for size in _BLOCKS if vocab_size % size == 0), 128)
    blocks = -(-vocab_size // block)
    constants = {
        "last": np.array([-1]),
        "first": np.array([0]),
        "lowest": np.array(-np.inf, np.float32),
        "cells": np.array([0, -1, block]),
        "unpadded": np.array([0, 0, 0]),
        "second": np.array([1]),
        "size": np.array([block]),
        "row": np.array([0, -1]),
        "blocks": np.array([blocks]),
        "width": np.array([vocab_size]),
        "block": np.array(block),
        "offsets": np.arange(block),
    }
    nodes: list = []

    def node(operator: str, *inputs: str, name: str = "", outputs: int = 1, **attributes) -> str:
        names = [name or f"candidates.{len(nodes)}.{index}" for index in range(outputs)]
        nodes.append(helper.make_node(operator, [_name(value) for value in inputs], names, **attributes))
        return names[-1]

    def _name(value: str) -> str:
        return f"candidates.{value}" if value in constants else value

    scores = node("Reshape", "logits", "row")
    if not are_log_probs:
        # the norm by LogSoftmax, as ReduceLogSumExp takes ten times as long
        scores = node("LogSoftmax", scores, axis=-1)
    pairs = node("Gather", node("Shape", FORBIDDEN), "first")
    forbidding = helper.make_tensor("value", TensorProto.FLOAT, [1], [-np.inf])
    scores = node("ScatterND", scores, FORBIDDEN, node("ConstantOfShape", pairs, value=forbidding))
    if points or vocab_size % block:
        width = node("Gather", node("Shape", scores), "second")
        missing = node("Mod", node("Neg", width), "size")
        scores = node("Pad", scores, node("Concat", "unpadded", missing, axis=0), "lowest")
    cells = node("Reshape", scores, "cells")
    maxima = node("ReduceMax", cells, "last", keepdims=0)
    # the best are in the blocks with the highest maxima
    chosen = node("Unsqueeze", node("TopK", maxima, node("Min", NUMBER, "blocks"), outputs=2), "last")
    within = node("Reshape", node("GatherND", cells, chosen, batch_dims=1), "row")
    tokens = node("Reshape", node("Add", node("Mul", chosen, "block"), "offsets"), "row")
    order = node("TopK", within, node("Min", NUMBER, "width"), outputs=2)
    node("Add", nodes[-1].output[0], TOTALS, name=BEST_TOTALS)
    node("GatherElements", tokens, order, axis=1, name=BEST_TOKENS)

    graph = model.graph
    graph.node.extend(nodes)
    # ONNX Runtime warns of those that no node reads
    used = {name for added in nodes for name in added.input}
    graph.initializer.extend(
        numpy_helper.from_array(value, _name(name)) for name, value in constants.items() if _name(name) in used
    )
    make = helper.make_tensor_value_info
    graph.input.extend(
        [
            make(FORBIDDEN, TensorProto.INT64, ["pairs", 2]),
            make(TOTALS, TensorProto.FLOAT, ["rows_", 1]),
            make(NUMBER, TensorProto.INT64, [1]),
        ]
    )
    graph.output.extend(
        [
            make(BEST_TOTALS, TensorProto.FLOAT, ["rows_", "number_"]),
            make(BEST_TOKENS, TensorProto.INT64, ["rows_", "number_"]),
        ]
    )
