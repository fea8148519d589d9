"""A tiny checkpoint of each architecture, with its graphs."""

import dataclasses
import shutil
from pathlib import Path

import onnx
import pytest
from huggingface_hub import constants
from onnx import TensorProto, helper
from onnx.external_data_helper import load_external_data_for_model

from hf_summ.cli import main
from hf_summ.data import fit_vocabulary
from hf_summ.models import layers_recurrent
from hf_summ.runtimes import onnx_layers
from hf_summ.runtimes.folders import RUNTIME_FILE
from hf_summ.runtimes.onnx_quantization import quantize
from hf_summ.runtimes.onnx_search import READ, WRITE
from tests.conftest import SENTENCES, save
from tests.data.files import change_json
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD,
    DRGD_PRINTED,
    GDLF,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    TINY_BERT,
    build_with_processor,
)

BERT_WORDS = {
    "decoder_embedding": "bert_module",
    "output_embedding": "bert",
    "bert_config": {**TINY_BERT, "max_position_embeddings": 64},
}
PLAIN = dataclasses.replace(
    COPY_TRANSFORMER,
    settings={**COPY_TRANSFORMER.settings, "convolutional_attention": "none", **BERT_WORDS},
    variant="plain",
)
# documents have up to nine windows
ON_BERT = {"convolutional_attention": "none", "bert_reduction": "relu", "bert_layers": 2}
BERT = dataclasses.replace(COPY_TRANSFORMER_BERT, settings={**COPY_TRANSFORMER_BERT.settings, **ON_BERT})
# with a vocabulary of words, which lacks some of them
WORDS = [
    dataclasses.replace(architecture, variant="words")
    for architecture in (POINTER_GENERATOR, HIGHLIGHT_TRANSFORMER, DRGD_PRINTED)
]
WITHOUT_COPYING = {**POINTER_GENERATOR.settings, "coverage": False, "copy": False}
CHECKPOINTS = [
    DRGD_PRINTED,
    DRGD,
    GDLF,
    GDLF_COPY,
    PLAIN,
    BERT,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    *WORDS,
    dataclasses.replace(POINTER_GENERATOR, settings=WITHOUT_COPYING),
]
DOCUMENTS = [" ".join(SENTENCES), SENTENCES[2], " ".join(SENTENCES[:2])]


def complete_graph(exported: Path, name: str) -> onnx.ModelProto:
    """A graph of an exported folder, with the constants that it reads from the weights in the folder above."""
    graph = onnx.load(exported / name, load_external_data=False)
    load_external_data_for_model(graph, str(exported.parent))
    return graph


def copied_in_8_bits(exported: Path, folder: Path) -> Path:
    """The exported folder with all matrices in 8 bits, none of which a product reads in 32."""
    shutil.copytree(exported, folder)
    change_json(folder / RUNTIME_FILE, shares_weights=False)
    for name in (READ, WRITE):
        graph = complete_graph(exported, name)
        quantize(graph, least_weights=0)
        onnx.save(graph, folder / name)
        floats = [tensor for tensor in graph.graph.initializer if tensor.data_type == TensorProto.FLOAT]
        for tensor in floats:
            is_matrix = len(tensor.dims) == 2 and min(tensor.dims) > 1
            assert not is_matrix
    return folder


def made_graph(nodes, inputs, outputs, constants=()) -> onnx.ModelProto:
    """A graph of these nodes and values, in the version that torch exports."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture(
    scope="session",
    params=[pytest.param(architecture, marks=pytest.mark.thorough) for architecture in CHECKPOINTS],
    ids=lambda architecture: architecture.name,
)
def checkpoint(request, tiny_tokenizer, tmp_path_factory) -> Path:
    """A saved model, with its graphs in float32 in the folder `onnx`."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = tiny_tokenizer
    if request.param in WORDS:
        tokenizer = fit_vocabulary(SENTENCES, units="words", show_progress=False)
    save(folder, *build_with_processor(request.param, tokenizer))
    with pytest.MonkeyPatch.context() as patch:
        # the graphs compute in parts, as those of large models do
        patch.setattr(onnx_layers, "_FUSION_COLUMNS", 10)
        patch.setattr(layers_recurrent, "_CHANNELS", 10)
        if request.param is HIGHLIGHT_TRANSFORMER:
            patch.setattr(onnx_layers, "_WIDE_HEAD", 1)
        assert main(["export", str(folder), "--to", "onnx", "--output", str(folder / "onnx")]) == 0
    return folder


@pytest.fixture
def two_revisions(tmp_path, monkeypatch):
    """A function that puts a checkpoint with graphs into the Hub's cache, as the revision `v1` of `org/x`.

    Summaries of `main` have at most two tokens. The function returns the folder of `v1`.
    """

    def put(checkpoint: Path) -> Path:
        repository = tmp_path / "hub" / "models--org--x"
        (repository / "refs").mkdir(parents=True)
        for revision, commit in (("main", "a" * 40), ("v1", "b" * 40)):
            (repository / "refs" / revision).write_text(commit, encoding="utf-8")
            shutil.copytree(checkpoint, repository / "snapshots" / commit)
        for file in (repository / "snapshots" / ("a" * 40)).rglob("generation_config.json"):
            change_json(file, max_new_tokens=2, whole_sentences=None)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        return repository / "snapshots" / ("b" * 40)

    return put
