"""The best continuations that a graph returns, and what the search around it imports."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_summ.runtimes import onnx_nodes
from hf_summ.runtimes.onnx_nodes import add_candidates
from hf_summ.runtimes.onnx_search import BEST_TOKENS, BEST_TOTALS, FORBIDDEN, NUMBER, TOTALS, Graph, _saturates
from tests.conftest import run_python
from tests.runtimes.conftest import made_graph

# with fewer tokens than a block has, with whole blocks, and with padding
CASES_OF_VOCABULARIES = [(7, False), (130, False), (997, False), (8000, False), (8000, True)]


@pytest.mark.parametrize(("vocab_size", "are_log_probs"), CASES_OF_VOCABULARIES)
def test_candidates_are_the_best_tokens_that_are_not_forbidden(vocab_size, are_log_probs, tmp_path):
    rows, number = 3, 5
    shape = ["rows", 1, vocab_size]
    scores_info = helper.make_tensor_value_info("scores", TensorProto.FLOAT, shape)
    logits_info = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    model = made_graph([helper.make_node("Identity", ["scores"], ["logits"])], [scores_info], [logits_info])
    add_candidates(model, vocab_size, are_log_probs)
    onnx.save(model, tmp_path / "step.onnx")

    generator = np.random.default_rng(0)
    scores = generator.normal(size=(rows, 1, vocab_size)).astype(np.float32)
    totals = generator.normal(size=(rows, 1)).astype(np.float32)
    # log-probabilities are not normalized again
    norm = 0 if are_log_probs else np.log(np.exp(scores[:, 0]).sum(1, keepdims=True))
    log_probabilities = scores[:, 0] - norm
    # the best two of the first row
    forbidden = np.array([(0, token) for token in np.argsort(-log_probabilities[0])[:2]])
    log_probabilities[forbidden[:, 0], forbidden[:, 1]] = -np.inf
    expected = np.argsort(-log_probabilities, axis=1)[:, :number]

    inputs = {"scores": scores, FORBIDDEN: forbidden, TOTALS: totals, NUMBER: np.array([number])}
    outputs = Graph(tmp_path / "step.onnx")(inputs)
    assert outputs[BEST_TOKENS].tolist() == expected.tolist()
    best = np.take_along_axis(log_probabilities, expected, 1) + totals
    np.testing.assert_allclose(outputs[BEST_TOTALS], best, rtol=1e-5)


def test_weights_of_large_graphs_are_in_a_file_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_nodes, "LARGEST", 10)
    weights = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", None])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = made_graph([node], [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx_nodes.save(model, tmp_path / "step.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step.onnx", "step.onnx.data"]
    rows = np.ones((3, 300), np.float32)
    np.testing.assert_allclose(Graph(tmp_path / "step.onnx")({"x": rows})["y"], rows @ weights, rtol=1e-4, atol=1e-4)


def test_the_search_imports_no_torch_and_no_transformers():
    output, _ = run_python("-c", "import sys, hf_summ.runtimes.onnx_search; print(*sys.modules)")
    assert not {"torch", "transformers", "huggingface_hub"} & set(output.split())


def test_sums_saturate_without_vnni_instructions():
    features = Path("/proc/cpuinfo")
    if not features.exists() or "avx2" not in features.read_text(encoding="utf-8"):
        pytest.skip("needs Linux on an x86 processor with AVX2")
    assert _saturates() == ("vnni" not in features.read_text(encoding="utf-8"))
