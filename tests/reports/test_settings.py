"""Settings of calls, constructors and checkpoints, in both runtimes: numbers of NumPy, None, and configurations."""

import copy
import shutil

import numpy as np
import pytest
from transformers import pipeline

import hf_summ
from hf_summ.runtimes import OnnxSummarizer
from tests.conftest import SENTENCES
from tests.data.files import change_json


def pipeline_of_graphs(folder, **settings):
    return pipeline("summarization", str(folder), runtime="onnx", **settings)


# pytorch/examples#1104: PyTorch's loader takes no other integers than Python's
@pytest.mark.parametrize("make", [OnnxSummarizer, pipeline_of_graphs])
def test_settings_may_be_numbers_of_numpy(make):
    summarize, documents = make(hf_summ.bundled_model("arxiv-tldr")), SENTENCES[:3]
    settings = {"num_beams": 2, "max_new_tokens": 3, "batch_size": 2}
    numpy_settings = {name: np.int32(value) for name, value in settings.items()}
    assert summarize(documents, **numpy_settings) == summarize(documents, **settings)


@pytest.mark.parametrize("make", [OnnxSummarizer, pipeline_of_graphs])
def test_settings_that_a_search_needs_are_unset_by_none(make, tmp_path):
    folder = shutil.copytree(hf_summ.bundled_model("arxiv-tldr"), tmp_path / "model")
    of_checkpoint = {"num_beams": 3, "length_penalty": -2.0, "num_return_sequences": 2}
    of_constructor = {"num_beams": 6, "length_penalty": 2.0, "num_return_sequences": 5}
    unset = dict.fromkeys(of_checkpoint)
    change_json(folder / "generation_config.json", **of_checkpoint, whole_sentences=False)
    assert make(folder, **unset).search_settings(**unset).items() >= of_checkpoint.items()
    summarizer = make(folder, **of_constructor)
    assert summarizer.search_settings(**unset).items() >= of_constructor.items()
    assert len(summarizer(SENTENCES[0], max_new_tokens=3, **unset)) == 5
    # None in the file means unset too
    change_json(folder / "generation_config.json", **unset, max_new_tokens=None, max_length=None)
    assert make(folder).search_settings().items() >= {"num_beams": 4, "max_new_tokens": 256}.items()


@pytest.mark.parametrize("make", [OnnxSummarizer, pipeline_of_graphs])
def test_limits_that_are_none_are_unset(make, tmp_path):
    folder = shutil.copytree(hf_summ.bundled_model("arxiv-tldr"), tmp_path / "model")
    change_json(folder / "generation_config.json", max_new_tokens=4, whole_sentences=False)
    unset = {"max_length": None, "max_new_tokens": None}

    def number_of_tokens(summarizer, **settings):
        (record,) = summarizer(SENTENCES[0], return_tensors=True, **settings)
        # without the start token
        return len(record["summary_token_ids"]) - 1

    summarizer = make(folder, **unset)
    assert number_of_tokens(summarizer, max_new_tokens=None) == 4
    assert number_of_tokens(summarizer, **unset) == 4
    limited = make(folder, max_length=4)
    assert number_of_tokens(limited, **unset) == 3
    assert number_of_tokens(limited, max_length=None, max_new_tokens=6) == 6


def test_the_limit_of_a_given_configuration_holds():
    summarizer = pipeline("summarization", model=hf_summ.bundled_model("arxiv-title"))
    config = copy.deepcopy(summarizer.model.generation_config)
    config.update(max_new_tokens=None, max_length=5)
    # without this None, transformers takes the checkpoint's value for the one that the configuration lacks
    (record,) = summarizer(SENTENCES[0], generation_config=config, return_tensors=True, max_new_tokens=None)
    assert len(record["summary_token_ids"]) == 5
    # other settings of None leave those of the configuration
    config.update(max_new_tokens=4, max_length=None, num_beams=3, num_return_sequences=2)
    for name in ("length_penalty", "num_return_sequences", "num_beams", "max_new_tokens"):
        records = summarizer(SENTENCES[0], generation_config=config, return_tensors=True, **{name: None})
        assert [len(record["summary_token_ids"]) for record in records] == [5, 5]
