"""Graphs that read their constants from a checkpoint's file of weights, so that the checkpoint stores them once.

In ONNX, a constant that is read from another file is called external data. A graph names the file, and the offset and
the number of the constant's bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from hf_summ.common.hashes import hash_of_bytes
from hf_summ.runtimes.onnx_nodes import LARGEST, constant_bytes

# constants of at most this many bytes stay in the graph
_MOST_BYTES_IN_GRAPH = 4096


@dataclass(frozen=True)
class _ByteRange:
    """The bytes of a tensor in a file.

    Args:
        offset: the number of bytes before the first one.
        length: the number of bytes.
    """

    offset: int
    length: int


@dataclass(frozen=True)
class _SharedConstant:
    """A constant of a graph that is also in the file of weights.

    Args:
        tensor: the constant.
        source: its bytes in the file.
        is_transposed: whether the file has the transposed matrix.
    """

    tensor: TensorProto
    source: _ByteRange
    is_transposed: bool


def share_constants(model: ModelProto, weights: Path) -> bool:
    """Let a graph read its large constants from a file of safetensors, in place.

    A constant is read from the file if the file has a tensor of the same bytes, or of those of the transposed matrix.
    Other constants stay in the graph. So do the constants of loops, as ONNX Runtime does not read them from a file that
    is a link, such as a file in the Hub's cache.

    Args:
        model: the graph.
        weights: the file. Its name alone becomes a part of the graph.

    Returns:
        Whether the graph reads the file. If not, the graph is unchanged.
    """
    constants = _shared_constants(model.graph, _tensors_by_hash(weights))
    remaining_bytes = constant_bytes(model)
    for constant in constants:
        remaining_bytes -= constant.source.length
    # a graph that shares weights is loaded from memory, and its other constants must fit into it
    if not constants or remaining_bytes > LARGEST:
        return False
    for constant in constants:
        _read_from_file(model.graph, constant, weights.name)
    return True


def _tensors_by_hash(file: Path) -> dict[str, _ByteRange]:
    """The large tensors of a file of safetensors, by the hash of their bytes.

    The file consists of the header's length in 8 bytes, the header, and the bytes of all tensors. The header is a JSON
    object with an entry for each tensor, whose `data_offsets` count from the end of the header.
    """
    content = np.memmap(file, np.uint8, mode="r")
    header_end = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:header_end].tobytes())
    header.pop("__metadata__", None)
    tensors = {}
    for entry in header.values():
        start, end = entry["data_offsets"]
        if end - start > _MOST_BYTES_IN_GRAPH:
            offset = header_end + start
            tensor_bytes = content[offset : header_end + end].tobytes()
            tensors[hash_of_bytes([tensor_bytes])] = _ByteRange(offset, end - start)
    return tensors


def _shared_constants(graph: GraphProto, tensors: Mapping[str, _ByteRange]) -> list[_SharedConstant]:
    """The constants of a graph that are among the tensors of a file.

    Args:
        tensors: the file's tensors by the hash of their bytes.
    """
    constants = []
    for tensor in graph.initializer:
        if len(tensor.raw_data) <= _MOST_BYTES_IN_GRAPH:
            continue
        source = tensors.get(hash_of_bytes([tensor.raw_data]))
        is_transposed = False
        if source is None and len(tensor.dims) == 2:
            transpose = numpy_helper.to_array(tensor).T
            source = tensors.get(hash_of_bytes([transpose.tobytes()]))
            is_transposed = True
        if source is not None:
            constants.append(_SharedConstant(tensor, source, is_transposed))
    return constants


def _read_from_file(graph: GraphProto, constant: _SharedConstant, file_name: str) -> None:
    """Let a graph read a constant from the file, and transpose it if the file has the transposed matrix."""
    tensor = constant.tensor
    set_external_data(tensor, file_name, constant.source.offset, constant.source.length)
    tensor.ClearField("raw_data")
    if constant.is_transposed:
        name = tensor.name
        rows, columns = tensor.dims
        tensor.name = f"{name}.transposed"
        tensor.dims[:] = [columns, rows]
        transpose = helper.make_node("Transpose", [tensor.name], [name], perm=[1, 0])
        graph.node.insert(0, transpose)
