"""`hf-summ export` and what ONNX Runtime computes of it: the summaries are those of PyTorch."""

import copy
import shutil
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline

from hf_summ import Int8Config, SummarizationPipeline
from hf_summ.checkpoints.adapters import AutoModelForSummarization
from hf_summ.cli import main
from hf_summ.models.generation_rules import Beams
from hf_summ.models.layers_transformer import SelfAttention
from hf_summ.runtimes import folders, onnx_graphs, onnx_model
from hf_summ.runtimes.folders import RUNTIME_FILE, export, find_exported, weights_file
from hf_summ.runtimes.onnx_graphs import write_graphs
from hf_summ.runtimes.onnx_quantization import quantize
from hf_summ.runtimes.onnx_search import LAST, READ, SOURCE, WRITE, Graph, encode, search
from tests.models.architectures import COPY_TRANSFORMER, DRGD, GDLF, TINY_BERT
from tests.runtimes.conftest import BERT, DOCUMENTS, complete_graph, copied_in_8_bits

WINDOWS = {"bert_window_size": 6, "bert_window_stride": 4}
SETTINGS = [
    {"num_beams": 4},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 5, "num_return_sequences": 2},
    {"num_beams": 3, "use_cache": False},
    {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0, "repetition_penalty": 1.5},
    {"num_beams": 4, "no_repeat_word_ngram_size": 2, "min_new_words": 6},
    {"num_beams": 4, "no_repeat_ngram_size": 2, "ngram_blocking": "beam", "beam_stopping": "opennmt"},
    {"num_beams": 3, "beam_stopping": "drgd", "min_new_tokens": 4, "gnmt_length_penalty": 0.9},
    {"num_beams": 1, "no_repeat_ngram_size": 2, "min_new_tokens": 6},
    {"num_beams": 1},
    {"num_beams": 1, "do_sample": True, "num_return_sequences": 3},
]


@pytest.fixture(scope="module")
def in_8_bits(checkpoint, tmp_path_factory) -> Path:
    return copied_in_8_bits(checkpoint / "onnx", tmp_path_factory.mktemp("int8") / "onnx")


def inputs(folder: Path, documents: list[str]) -> dict[str, torch.Tensor]:
    return AutoProcessor.from_pretrained(folder)(documents, return_tensors="pt")


def load(folder: Path):
    return AutoModelForSummarization.from_pretrained(folder)


def test_tokens_are_those_of_pytorch(checkpoint):
    reference = load(checkpoint)
    exported = load(checkpoint / "onnx")
    read = inputs(checkpoint, DOCUMENTS)
    cases = list(SETTINGS)
    if reference.has_coverage:
        cases.append({"num_beams": 4, "coverage_penalty": 1.5})
    if "replace_unk" in reference.generation_keys:
        cases.append({"num_beams": 2, "replace_unk": True})
    for settings in cases:
        torch.manual_seed(0)
        expected = reference.generate(**read, **settings).tolist()
        torch.manual_seed(0)
        assert exported.generate(**read, **settings).tolist() == expected, settings


def test_scores_are_those_of_pytorch(checkpoint, in_8_bits, monkeypatch):
    # two documents at once, then the third
    monkeypatch.setattr(onnx_model, "ENCODER_BATCH_TOKENS", 2 * inputs(checkpoint, DOCUMENTS)["input_ids"].shape[1])
    model, read = load(checkpoint), inputs(checkpoint, DOCUMENTS)
    written = torch.randint(4, model.config.vocab_size, (6, 5))
    with torch.no_grad():
        expected = model(**read, decoder_input_ids=written)
    for folder, tolerance in ((checkpoint / "onnx", 1e-4), (in_8_bits, 0.2)):
        scored = load(folder)(**read, decoder_input_ids=written)
        difference = (scored.logits - expected.logits).abs().max() / expected.logits.std()
        assert difference < tolerance
        if expected.get("coverage") is not None:
            torch.testing.assert_close(scored.coverage, expected.coverage, atol=tolerance, rtol=0)


def test_a_documents_summary_in_8_bits_does_not_depend_on_its_batch(in_8_bits):
    model, settings = load(in_8_bits), {"num_beams": 4, "min_new_tokens": 8}
    together = model.generate(**inputs(in_8_bits, DOCUMENTS), **settings)
    for document, tokens in zip(DOCUMENTS, together, strict=True):
        (alone,) = model.generate(**inputs(in_8_bits, [document]), **settings)
        assert alone.tolist() == tokens[: len(alone)].tolist()


def raw_data(matrix: torch.Tensor) -> bytes:
    """The bytes of a matrix, as a graph has them."""
    return matrix.detach().contiguous().numpy().tobytes()


def test_the_graph_that_reads_has_no_layers_of_the_decoder(checkpoint):
    constants = {tensor.raw_data for tensor in complete_graph(checkpoint / "onnx", READ).graph.initializer}
    for name, weight in load(checkpoint).get_decoder().named_parameters():
        # products read their transposes
        if "feed_forward" in name and weight.ndim == 2:
            assert raw_data(weight) not in constants, name
            assert raw_data(weight.T) not in constants, name


def test_steps_repeat_no_work(checkpoint):
    model, graph = load(checkpoint), complete_graph(checkpoint / "onnx", WRITE).graph
    constants = {tensor.raw_data for tensor in graph.initializer}
    for layer in model.get_decoder().modules():
        if isinstance(layer, SelfAttention):
            # one product gives queries, keys and values
            assert raw_data(layer.q_proj.weight) not in constants
            assert raw_data(layer.q_proj.weight.T) not in constants
    # no step finds the first positions of source tokens
    for node in graph.node:
        for attribute in node.attribute:
            assert attribute.name != "reduction" or attribute.s != b"min"
    # no step splits the keys of the source
    views = {}
    for node in graph.node:
        if node.op_type in ("Squeeze", "Transpose", "Unsqueeze"):
            views[node.output[0]] = node.input[0]
    for node in graph.node:
        if node.op_type == "Split":
            name = node.input[0]
            while name in views:
                name = views[name]
            assert not name.startswith(SOURCE)


def test_a_search_begins_with_one_beam_and_leaves_the_source_as_it_is(checkpoint, monkeypatch):
    read = {name: tensor.numpy() for name, tensor in inputs(checkpoint, DOCUMENTS).items()}
    weights = weights_file(checkpoint / "onnx")
    source = read | encode(Graph(checkpoint / "onnx" / READ, weights=weights), read)
    source_before = copy.deepcopy(source)
    step = Graph(checkpoint / "onnx" / WRITE, weights=weights)
    run = Graph.__call__
    rows = []
    settings = {"num_beams": 4, "max_length": 8, "length_penalty": 1.0, "num_return_sequences": 1}
    settings |= {"beam_stopping": None, "ngram_blocking": None, "early_stopping": None, "max_time": None}

    def call(graph, tensors, *outputs):
        rows.append(len(tensors["tokens"]))
        return run(graph, tensors, *outputs)

    def searched(finished: list[int]) -> np.ndarray:
        class Finishing(Beams):
            def advance(self, *candidates):
                if self.length == 3:
                    self.is_done[finished] = True
                return super().advance(*candidates)

        beams = Finishing(np.zeros((12, 1), np.int64), SimpleNamespace(**settings), [], 0)
        return search(step, source, beams, []).sequences

    monkeypatch.setattr(Graph, "__call__", call)
    assert searched([0])[1:].tolist() == searched([])[1:].tolist()
    assert rows == [3, 12, 12, 8, 8, 8, 8, 3, 12, 12, 12, 12, 12, 12]
    for name, values in source_before.items():
        np.testing.assert_array_equal(source[name], values)


def interrupt(input_ids, scores):
    raise InterruptedError


def test_pipeline_and_command_line_take_the_folder_or_the_checkpoint(checkpoint, tmp_path, capsys):
    (expected,) = pipeline("summarization", model=str(checkpoint), device="cpu")(DOCUMENTS[:1])
    for folder, settings in ((checkpoint, {"runtime": "onnx"}), (checkpoint / "onnx", {})):
        summarizer = pipeline("summarization", model=str(folder), **settings)
        assert type(summarizer.model).__name__.startswith("Onnx")
        assert summarizer(DOCUMENTS[:1]) == [expected]
        # as the service ends what takes too long
        with pytest.raises(InterruptedError):
            summarizer(DOCUMENTS[:1], logits_processor=[interrupt])
    (tmp_path / "document.txt").write_text(DOCUMENTS[0], encoding="utf-8")
    for folder in (checkpoint, checkpoint / "onnx"):
        flags = ("--model", str(folder), "--runtime", "onnx")
        assert main(["summarize", str(tmp_path / "document.txt"), *flags]) == 0
        assert capsys.readouterr().out.strip() == expected["summary_text"]


def test_other_weights_are_refused(checkpoint, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    model = load(folder)
    if model.lm_head.bias is not None:
        model.lm_head.bias = torch.nn.Parameter(model.lm_head.bias + 1)
    model.get_input_embeddings().weight.data.add_(1)
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match="was exported from other weights than those of "):
        folders.load(model.name_or_path)


@pytest.mark.parametrize("record", ["{}", '{"layout": 0}'])
def test_a_folder_of_another_version_is_refused(record, tmp_path):
    (tmp_path / RUNTIME_FILE).write_text(record, encoding="utf-8")
    with pytest.raises(ValueError, match="was written by another version of hf_summ: export it again"):
        find_exported(str(tmp_path))


def test_what_graphs_cannot_do_is_refused(checkpoint):
    model, read = load(checkpoint / "onnx"), inputs(checkpoint, DOCUMENTS)
    with pytest.raises(ValueError, match="ONNX graphs do not support `output_attentions`: omit it"):
        model.generate(**read, output_attentions=True, return_dict_in_generate=True)
    with pytest.raises(ValueError, match="ONNX graphs do not support `labels`"):
        model(**read, decoder_input_ids=read["input_ids"][:, :2], labels=read["input_ids"][:, :2])
    with pytest.raises(ValueError, match="the model needs `input_ids`: use its processor"):
        model.get_encoder()(attention_mask=read["attention_mask"])
    with pytest.raises(ValueError, match="no weights to save: copy its folder"):
        model.save_pretrained(checkpoint / "again")
    with pytest.raises(ValueError, match="ONNX graphs are for CPUs, but the model's device is meta"):
        model.to("meta")


def save(model, folder: Path):
    model.save_pretrained(folder)
    return AutoModelForSeq2SeqLM.from_pretrained(folder)


CASES_WITHOUT_GRAPHS = [
    ({}, "has convolutional attention"),
    ({"copy": False, "masked_lm_config": TINY_BERT, "mask_token_id": 4}, "contains a masked language model"),
    ({"encoder_type": "bert_transformer", **WINDOWS}, "contains a data2vec-text"),
]


@pytest.mark.parametrize(
    ("settings", "problem"), CASES_WITHOUT_GRAPHS, ids=["convolution", "language model", "encoder"]
)
def test_architectures_without_graphs_are_refused(settings, problem, tmp_path):
    nested = {**TINY_BERT, "model_type": "data2vec-text"}
    model = save(COPY_TRANSFORMER.model(bert_config=nested, **settings).float(), tmp_path / "model")
    with pytest.raises(ValueError, match=f"{problem}, which has no graphs"):
        export(model, None, tmp_path / "onnx", int8=False)
    assert not (tmp_path / "onnx").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["albert", "deberta-v2", "distilbert", "modernbert", "roberta"])
def test_encoders_like_bert(family, tmp_path):
    settings = {**WINDOWS, "encoder_type": "bert", "side_layers": 0}
    # some layers of ModernBERT read only neighbors
    nested = {**TINY_BERT, "model_type": family, "pad_token_id": 1, "local_attention": 4}
    model = BERT.model(bert_config=nested, **settings).float()
    write_graphs(model, tmp_path)
    # below, at and beyond a window
    for rows, length in [(3, 11), (1, 1), (1, 6), (1, 7), (2, 30)]:
        source = BERT.inputs(rows, length)
        with torch.no_grad():
            expected = model.get_encoder()(**source).last_hidden_state
        mask = source["attention_mask"][..., None]
        states = torch.from_numpy(encode(Graph(tmp_path / READ), source)[LAST])
        torch.testing.assert_close(states * mask, expected * mask, atol=1e-5, rtol=1e-4)


@pytest.mark.thorough
def test_a_bert_in_8_bits_is_computed_in_32(tmp_path, monkeypatch):
    # tiny matrices too
    monkeypatch.setattr(onnx_graphs, "quantize", partial(quantize, least_weights=0))
    write_graphs(BERT.model(**WINDOWS).float(), tmp_path, int8=True)
    for name, is_computed in ((READ, False), (WRITE, True)):
        graph = onnx.load(tmp_path / name).graph
        assert any(tensor.data_type == onnx.TensorProto.INT8 for tensor in graph.initializer)
        assert ("MatMulIntegerToFloat" in {node.op_type for node in graph.node}) == is_computed


def test_adapters_and_8_bits_are_refused(tmp_path):
    model = get_peft_model(save(GDLF.model().float(), tmp_path / "gdlf"), LoraConfig())
    with pytest.raises(ValueError, match="has an adapter, which graphs do not contain: merge both"):
        export(model, None, tmp_path / "onnx", int8=False)
    with pytest.raises(ValueError, match="the model has an adapter, which graphs do not contain"):
        SummarizationPipeline(model, runtime="onnx")
    save(DRGD.model().float(), tmp_path / "model")
    int8 = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", quantization_config=Int8Config())
    with pytest.raises(ValueError, match="has 8 bits already: export the checkpoint in 32 bits, with --int8"):
        export(save(int8, tmp_path / "int8"), None, tmp_path / "onnx", int8=True)


def test_runtimes_that_are_not_there_are_named(tmp_path, monkeypatch):
    model = save(DRGD.model().float(), tmp_path / "model")
    with pytest.raises(ValueError, match="`runtime` is 'openvino', but must be one of onnx"):
        SummarizationPipeline(model, runtime="openvino")
    with pytest.raises(ValueError, match="has no graphs for ONNX Runtime: run `hf-summ export "):
        folders.load(model.name_or_path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"needs onnxscript: pip install 'hf-summ\[onnx\]'"):
        export(model, None, tmp_path / "onnx", int8=False)


def test_flags_that_exclude_each_other(tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    cases = [
        (["summarize", "--runtime", "onnx", "--int8"], "--int8: has no effect beside --runtime onnx"),
        (["serve", "--runtime", "onnx", "--device", "meta"], "--runtime: needs --device cpu"),
        (["export", "x", "--to", "onnx", "--output", str(tmp_path / "full")], "must be a new or empty folder"),
    ]
    for flags, problem in cases:
        assert main(flags) == 2
        assert problem in capsys.readouterr().err
