"""Graphs that read constants from the checkpoint's file of weights."""

import copy
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from hf_summ.pretrained import FOLDER
from hf_summ.runtimes import OnnxSummarizer, onnx_weights
from hf_summ.runtimes.folders import find_exported
from hf_summ.runtimes.onnx_search import Graph
from hf_summ.runtimes.onnx_weights import share_constants
from tests.conftest import SENTENCES
from tests.models.test_hub import run
from tests.runtimes.conftest import made_graph

TITLE = FOLDER / "arxiv-title"
IDS = np.array([3, 1, 2])


def embedding_graph() -> onnx.ModelProto:
    """The words of ids by a table (100, 20), a matrix (20, 80) and a bias."""
    random = np.random.default_rng(0)
    constants = []
    for name, shape in (("table", (100, 20)), ("matrix", (20, 80)), ("bias", (80,))):
        constants.append(numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "matrix"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["words"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"])
    words = helper.make_tensor_value_info("words", TensorProto.FLOAT, ["N", 80])
    return made_graph(nodes, [ids], [words], constants)


def save_weights(graph: onnx.ModelProto, file: Path) -> None:
    """Save the constants of a graph as a checkpoint does: the matrices of products are transposed."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    tensors["matrix"] = np.ascontiguousarray(tensors["matrix"].T)
    save_file(tensors, file, {"format": "pt"})


def test_large_constants_are_read_from_the_weights(tmp_path):
    graph, weights = embedding_graph(), tmp_path / "model.safetensors"
    save_weights(graph, weights)
    onnx.save(graph, tmp_path / "complete.onnx")
    assert share_constants(graph, weights)
    in_graph = [tensor.name for tensor in graph.graph.initializer if tensor.raw_data]
    assert in_graph == ["bias"]
    (tmp_path / "onnx").mkdir()
    file = tmp_path / "onnx" / "shared.onnx"
    onnx.save(graph, file)
    # as in the Hub's cache
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / weights.name
    link.symlink_to(shutil.copy(weights, tmp_path / "0123abc"))
    expected = Graph(tmp_path / "complete.onnx")({"ids": IDS})["words"]
    for path in (weights, link):
        # a copy reads the files again
        shared = copy.copy(Graph(file, weights=path))
        assert np.array_equal(shared({"ids": IDS})["words"], expected)


def test_graphs_without_constants_to_share_stay_as_they_are(tmp_path, monkeypatch):
    graph, weights = embedding_graph(), tmp_path / "model.safetensors"
    before = graph.SerializeToString()
    save_file({"table": np.ones((100, 20), np.float32)}, weights)
    assert not share_constants(graph, weights)
    save_weights(graph, weights)
    # the rest would need data beside the graph
    monkeypatch.setattr(onnx_weights, "LARGEST", 10)
    assert not share_constants(graph, weights)
    assert graph.SerializeToString() == before


def test_graphs_of_a_bundled_model_need_its_weights(tmp_path):
    assert sum(file.stat().st_size for file in (TITLE / "onnx").glob("*.onnx")) < 2_000_000
    model = tmp_path / "model"
    shutil.copytree(TITLE, model)
    expected = OnnxSummarizer(TITLE)(SENTENCES[0])
    assert OnnxSummarizer(model / "onnx")(SENTENCES[0]) == expected
    weights = model / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for folder in (model, model / "onnx"):
        with pytest.raises(ValueError, match="was exported from other weights than those of "):
            find_exported(str(folder))
    weights.unlink()
    for folder in (model, model / "onnx"):
        with pytest.raises(FileNotFoundError, match=r"onnx read weights from .*model\.safetensors, which is missing"):
            OnnxSummarizer(folder)


SUMMARIZE = """
import json, sys
from hf_summ.runtimes import OnnxSummarizer
from hf_summ.runtimes.folders import find_exported
for name in ("org/title", "org/tldr"):
    has_weights = (find_exported(name).parent / "model.safetensors").is_file()
    print("RESULT", json.dumps([has_weights, OnnxSummarizer(name)(sys.argv[1])]))
"""


def test_the_weights_on_the_hub_are_downloaded_if_graphs_read_them(local_hub, tmp_path):
    local_hub.publish("org/title", TITLE)
    local_hub.publish("org/tldr", FOLDER / "arxiv-tldr")
    environment = local_hub.environment(tmp_path / "home")
    title, tldr = run(SUMMARIZE, SENTENCES[0], environment=environment, folder=tmp_path)
    assert title == [True, OnnxSummarizer(TITLE)(SENTENCES[0])]
    assert tldr == [False, OnnxSummarizer(FOLDER / "arxiv-tldr")(SENTENCES[0])]
