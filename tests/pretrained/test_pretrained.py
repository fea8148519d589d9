"""Bundled models: how they are found, loaded and refused."""

import os
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline

import hf_summ
from hf_summ import Int8Config, SummarizationPipeline, pretrained
from hf_summ.models.quantization_int8 import Int8Linear
from hf_summ.pretrained import bundled_model, bundled_models, model_folder, purpose
from hf_summ.runtimes import OnnxSummarizer
from tests.conftest import SENTENCES, run_python

ROOT = Path(__file__).parents[2]


def test_models_are_found_by_name(shipped):
    assert hf_summ.bundled_model() == bundled_model("arxiv-tldr") == shipped
    shutil.copytree(shipped, shipped.with_name("news"))
    shipped.with_name("__pycache__").mkdir()
    assert bundled_models() == ["arxiv-tldr", "news"]
    assert purpose("news") == "titles of news"
    with pytest.raises(ValueError, match=r"^`name` is 'arxiv-tlrd', but must be one of .*arxiv-tldr"):
        bundled_model("arxiv-tlrd")


def test_other_names_are_left_as_they_are(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_folder("arxiv-tldr") == str(shipped)
    for name in ("org/arxiv-tldr", "arxiv-tlrd", str(shipped)):
        assert model_folder(name) == name
    (tmp_path / "arxiv-tldr").mkdir()
    assert model_folder("arxiv-tldr") == "arxiv-tldr"


def test_half_precision_is_computed_in_float32(shipped):
    model = AutoModelForSeq2SeqLM.from_pretrained(shipped)
    summarizer = pipeline("summarization", model=bundled_model(), device="cpu")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {parameter.dtype for parameter in summarizer.model.parameters()} == {torch.float32}
    (record,) = summarizer(SENTENCES[0])
    assert record["summary_text"]
    int8 = AutoModelForSeq2SeqLM.from_pretrained(shipped, quantization_config=Int8Config(least_weights=1))
    assert {parameter.dtype for parameter in int8.parameters()} == {torch.float32, torch.int8}


@pytest.mark.skipif(not (pretrained.FOLDER / pretrained.DEFAULT_MODEL).is_dir(), reason="a clone without the model")
def test_the_model_of_the_package_is_small_and_summarizes(tmp_path):
    assert (bundled_model() / "model.safetensors").stat().st_size <= 8_000_000
    assert (bundled_model() / "README.md").is_file()
    summarizer = pipeline("summarization", model=bundled_model(), device="cpu")
    assert {parameter.dtype for parameter in summarizer.model.parameters()} == {torch.float32}
    (record,) = summarizer((ROOT / "examples" / "abstract.txt").read_text(encoding="utf-8"))
    assert 3 <= len(record["summary_text"].split()) <= 25
    int8 = AutoModelForSeq2SeqLM.from_pretrained(bundled_model(), quantization_config=Int8Config())
    int8.save_pretrained(tmp_path)
    # a quarter of the size in float32, and the scales and biases
    assert (tmp_path / "model.safetensors").stat().st_size <= 0.26 * 4 * summarizer.model.num_parameters()


@pytest.mark.parametrize("name", ["arxiv-tldr", "arxiv-title"])
def test_the_results_of_a_card_are_those_of_its_table(name):
    front, text = (pretrained.FOLDER / name / "README.md").read_text(encoding="utf-8").split("\n---\n", 1)
    (model,) = yaml.safe_load(front.removeprefix("---\n"))["model-index"]
    (result,) = model["results"]
    results = {metric["name"]: metric["value"] for metric in result["metrics"]}
    # the first column has the model's scores
    rows = re.findall(r"^\| (ROUGE-.) \| ([\d.]+)", text, re.MULTILINE)
    assert results == {score: float(value) for score, value in rows}


@pytest.mark.thorough
def test_a_bert_in_8_bits_keeps_its_states(tmp_path):
    # a copy in 32 bits, which the bundled file does not have
    model = AutoModelForSeq2SeqLM.from_pretrained(bundled_model("arxiv-title"))
    model.save_pretrained(tmp_path)
    int8 = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, quantization_config=Int8Config())
    processor = AutoProcessor.from_pretrained(bundled_model("arxiv-title"))
    inputs = processor([(ROOT / "examples" / "abstract.txt").read_text(encoding="utf-8")], return_tensors="pt")
    bert, bert_in_8_bits = model.model.encoder.bert, int8.model.encoder.bert
    assert any(isinstance(layer, Int8Linear) for layer in bert_in_8_bits.modules())
    states = bert(**inputs)
    error = (bert_in_8_bits(**inputs) - states).norm() / states.norm()
    # with twice this error, ROUGE-1 of 600 titles was not lower
    assert 0 < error < 0.05


@pytest.mark.parametrize("name", ["arxiv-tldr", "arxiv-title"])
def test_the_bundled_graphs_need_no_torch(name):
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from hf_summ import bundled_model\n"
        "from hf_summ.runtimes import OnnxSummarizer\n"
        f"summarize = OnnxSummarizer(bundled_model({name!r}))\n"
        "print(summarize('We show that cats sleep. They sleep at night.')[0]['summary_text'])"
    )
    assert 2 <= len(run_python("-c", code)[0].split()) <= 9


ABSTRACT = "We show that cats sleep. They sleep at night."


CASES_OF_SETTINGS = [
    ({}, True),
    ({"device": "cpu", "num_beams": 2, "batch_size": 4, "long_documents": "extract", "dtype": None}, True),
    ({"runtime": "onnx", "return_details": True}, True),
    ({"runtime": "onnx", "stop_sequence": ".", "whole_sentences": False}, False),
    ({"runtime": "pytorch"}, False),
    ({"dtype": "float32"}, False),
    ({"stop_sequence": ".", "whole_sentences": False}, False),
    ({"tokenizer": str(pretrained.FOLDER / pretrained.DEFAULT_MODEL)}, False),
]


@pytest.mark.parametrize(("settings", "is_of_graphs"), CASES_OF_SETTINGS, ids=str)
def test_a_summarizer_takes_graphs_if_they_have_all_settings(settings, is_of_graphs):
    summarizer = hf_summ.summarizer(**settings)
    expected = OnnxSummarizer if is_of_graphs else SummarizationPipeline
    assert type(summarizer) is expected
    assert "cats" in summarizer(ABSTRACT)[0]["summary_text"]


@pytest.mark.parametrize("name", ["arxiv-tldr", "arxiv-title"])
def test_a_summarizer_of_graphs_imports_neither_torch_nor_transformers(name):
    code = (
        f"import sys, hf_summ; hf_summ.summarizer({name!r})([{ABSTRACT!r}] * 2)\n"
        "print(sorted({'torch', 'transformers', 'datasets'} & sys.modules.keys()))"
    )
    output, errors = run_python("-c", code)
    assert output == "[]\n"
    assert "2/2" in errors


def test_a_summarizer_takes_a_folder_of_graphs():
    assert type(hf_summ.summarizer(pretrained.graphs_of("arxiv-tldr"))) is OnnxSummarizer
    with pytest.raises(ValueError, match="`runtime` is 'tensorrt', but must be one of onnx, pytorch"):
        hf_summ.summarizer(runtime="tensorrt")


def test_pytorch_is_needed_without_tokenizer_json(tmp_path, monkeypatch):
    folder = shutil.copytree(pretrained.graphs_of("arxiv-tldr").parent, tmp_path / "model")
    for file in folder.rglob("tokenizer.json"):
        file.unlink()
    assert pretrained.load_graphs(str(folder)) is None
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"tokenizer\.json, so its tokenizer needs PyTorch and transformers: "):
        pretrained.load_graphs(str(folder))


@pytest.mark.parametrize("runtime", ["onnx", "pytorch"])
def test_a_summarizer_shows_progress_over_several_texts(runtime, capsys):
    summarizer = hf_summ.summarizer(runtime=runtime)
    capsys.readouterr()
    summarizer(ABSTRACT)
    summarizer([ABSTRACT])
    summarizer([ABSTRACT] * 3, show_progress=False)
    assert "summarizing" not in capsys.readouterr().err
    summarizer([ABSTRACT] * 3)
    assert "3/3" in capsys.readouterr().err


def test_a_summarizer_leaves_busy_processors_out(shipped, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 1000.0, 1000.0))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        hf_summ.summarizer(shipped)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
