"""Summaries without PyTorch: those of the pipeline."""

import shutil
from dataclasses import replace
from functools import partial

import pytest
from transformers import pipeline

import hf_summ
from hf_summ import bundled_model
from hf_summ.cli import main
from hf_summ.models.text_documents import FIRST_POINTER
from hf_summ.runtimes import OnnxSummarizer
from hf_summ.runtimes.folders import find_exported
from hf_summ.runtimes.settings import PyTorchNeeded
from tests.conftest import run_python, save
from tests.data.files import change_json
from tests.models.architectures import TINY_BERT, build_with_processor
from tests.runtimes.conftest import DOCUMENTS, PLAIN

SETTINGS = [
    {},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 5, "num_return_sequences": 2},
    {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0, "max_length": 7},
    {"no_repeat_word_ngram_size": 2, "min_new_words": 6},
    {"no_repeat_ngram_size": 2, "ngram_blocking": "beam", "beam_stopping": "opennmt"},
    {"num_beams": 3, "beam_stopping": "drgd", "min_new_tokens": 4, "gnmt_length_penalty": 0.9, "gnmt_length_offset": 9},
    {"num_beams": 1, "min_length": 6},
    {"num_beams": 1, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "repetition_penalty": 1.5, "forced_eos_token_id": 2},
    {"num_beams": 1, "do_sample": True, "top_k": 1, "num_return_sequences": 2},
    {"whole_sentences": True, "max_new_tokens": 60},
]
# documents, among them a blank one, and an example of several documents
EXAMPLES = [*DOCUMENTS, "", [DOCUMENTS[1], "", DOCUMENTS[2]], "Unfit wörds 新桥 </s> <unk>"]


def plain(result):
    """A result without arrays and tensors."""
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    if hasattr(result, "__len__") and not isinstance(result, str):
        return [plain(item) for item in result]
    return result


def test_summaries_and_details_are_those_of_the_pipeline(checkpoint, caplog):
    reference, onnx_summarizer = pipeline("summarization", model=str(checkpoint)), OnnxSummarizer(checkpoint)
    model = reference.model
    cases = list(SETTINGS)
    if model.has_coverage:
        cases.append({"coverage_penalty": 1.5})
    if "replace_unk" in model.generation_keys:
        cases.append({"replace_unk": True})
    if "phrase_starts" in reference.processor.model_input_names:
        cases.append({"phrases": [{"bridge": 2.0}] * len(EXAMPLES)})
    cases.extend([{"long_documents": "windows"}, {"long_documents": "extract"}])
    # some documents are longer
    reference.processor.max_source_length = 30
    onnx_summarizer.processor.max_source_length = 30

    def results_and_warnings(summarizer, settings):
        caplog.clear()
        results = summarizer(EXAMPLES, batch_size=3, return_details=True, **settings)
        warnings = [record.message for record in caplog.records if "documents" in record.message]
        return plain(results), warnings

    for settings in cases:
        expected = results_and_warnings(reference, settings)
        assert results_and_warnings(onnx_summarizer, settings) == expected, settings


@pytest.mark.parametrize("beam_stopping", [None, "drgd"])
def test_min_length_forbids_an_earlier_end(beam_stopping):
    # counted with the start token; `min_new_tokens` only defers short summaries if `beam_stopping` is "drgd"
    settings = {"whole_sentences": False, "num_beams": 3, "beam_stopping": beam_stopping, "return_tensors": True}
    summarizer = OnnxSummarizer(bundled_model(), max_new_tokens=64, **settings)
    abstract = (
        "We propose a rank for sand. It is fair and needs two days. Experiments on 40 beaches show that it is new."
    )
    (unbounded,) = summarizer(abstract)
    assert len(unbounded["summary_token_ids"]) < 40
    (bounded,) = summarizer(abstract, min_length=41)
    assert len(bounded["summary_token_ids"]) >= 40


@pytest.mark.parametrize("name", ["length_penalty", "gnmt_length_penalty"])
def test_a_penalty_on_length_has_no_effect_on_a_choice_and_a_warning_says_so(name, caplog):
    summarizer = OnnxSummarizer(bundled_model())
    abstract = (
        "We propose a rank for sand. It is fair and needs two days. Experiments on 40 beaches show that it is new."
    )
    expected = summarizer(abstract)
    assert not caplog.text
    assert summarizer(abstract, **{name: 0.0}) == expected
    assert f"`{name}` has no effect" in caplog.text


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["mpnet", "roberta"])
def test_positions_are_counted_from_the_first_usable_one(family, tiny_tokenizer, tmp_path):
    # the first two rows of the table are of no token
    nested = {**TINY_BERT, "model_type": family, "pad_token_id": 1, "max_position_embeddings": 20}
    architecture = replace(PLAIN, settings={**PLAIN.settings, "bert_config": nested})
    folder = save(tmp_path / "model", *build_with_processor(architecture, tiny_tokenizer))
    assert main(["export", folder, "--to", "onnx", "--output", f"{folder}/onnx"]) == 0
    reference = pipeline("summarization", model=folder)
    onnx_summarizer, graphs = OnnxSummarizer(folder), pipeline("summarization", model=folder, runtime="onnx")
    longest = {"min_new_tokens": 18, "max_new_tokens": 18}
    texts = reference(DOCUMENTS, **longest)
    for summarizer in (reference, onnx_summarizer, graphs):
        assert summarizer(DOCUMENTS, **longest) == texts
        with pytest.raises(ValueError, match="`max_new_tokens` is 19, but the decoder has 18 positions: lower it"):
            summarizer(DOCUMENTS, max_new_tokens=19)


def test_removed_settings_of_earlier_checkpoints_are_ignored(checkpoint, tmp_path):
    folder = tmp_path / "earlier"
    shutil.copytree(checkpoint, folder)
    change_json(folder / "generation_config.json", english_articles=True, support_weight=1.5)
    change_json(folder / "config.json", source_ranges={"characters": [1, 2]})
    for load in (partial(pipeline, "summarization", model=str(folder)), partial(OnnxSummarizer, folder)):
        assert load()(DOCUMENTS) == OnnxSummarizer(checkpoint)(DOCUMENTS)


def test_pointers_to_unknown_words_are_those_of_the_pipeline(checkpoint):
    reference, onnx_summarizer = pipeline("summarization", model=str(checkpoint)), OnnxSummarizer(checkpoint)
    if not getattr(onnx_summarizer.processor, "unknown_ids", 0):
        pytest.skip("the vocabulary has every word")
    document = "Zoë Quix baked 917 muffins, and Zoë Quix ate them."
    settings = {"return_tensors": True, "return_text": True, "max_new_tokens": 20, "min_new_tokens": 20}
    (record,) = onnx_summarizer(document, **settings)
    (expected,) = reference(document, **settings)
    assert record["summary_text"] == expected["summary_text"]
    assert record["summary_token_ids"].tolist() == expected["summary_token_ids"].tolist()
    assert any(token >= FIRST_POINTER for token in record["summary_token_ids"])
    assert any(word in record["summary_text"] for word in ("Zoë", "Quix", "917", "muffins"))


def test_every_way_to_call_it(checkpoint):
    reference = pipeline("summarization", model=str(checkpoint))
    onnx_summarizer = OnnxSummarizer(checkpoint / "onnx", num_beams=2)
    texts = reference(DOCUMENTS, num_beams=2)
    assert onnx_summarizer(DOCUMENTS) == onnx_summarizer(tuple(DOCUMENTS), batch_size=2) == texts
    assert onnx_summarizer(DOCUMENTS[0]) == texts[:1]
    assert list(onnx_summarizer(iter(DOCUMENTS))) == [[record] for record in texts]
    (record,) = onnx_summarizer(DOCUMENTS[0], return_tensors=True)
    (expected,) = reference(DOCUMENTS[0], num_beams=2, return_tensors=True)
    assert record["summary_token_ids"].tolist() == expected["summary_token_ids"].tolist()
    assert onnx_summarizer([]) == []


def test_what_the_search_lacks_is_named(checkpoint):
    onnx_summarizer = OnnxSummarizer(checkpoint)
    for settings in ({"typical_p": 0.5, "do_sample": True}, {"penalty_alpha": 0.6}, {"stop_sequence": "."}):
        with pytest.raises(ValueError, match="ONNX Runtime's search lacks: omit it, or load the checkpoint"):
            onnx_summarizer(DOCUMENTS, **settings)
    with pytest.raises(ValueError, match="`num_return_sequences` is 3, but must be at most `num_beams`"):
        onnx_summarizer(DOCUMENTS, num_beams=2, num_return_sequences=3)
    with pytest.raises(ValueError, match="`num_beams` is 0, but must be an integer of at least 1"):
        onnx_summarizer(DOCUMENTS, num_beams=0)


def test_what_the_search_lacks_is_named_in_the_parameters_of_the_task_too(tmp_path):
    folder = shutil.copytree(bundled_model(), tmp_path / "model")
    # the first two are no settings of `generate()`, and the third has no effect
    task = {"prefix": "", "unknown": 3, "guidance_scale": 1, "num_beams": 2}
    change_json(folder / "config.json", task_specific_params={"summarization": task})
    assert OnnxSummarizer(folder).search_settings()["num_beams"] == 2
    for name, value in (("suppress_tokens", [5]), ("encoder_no_repeat_ngram_size", 2), ("sequence_bias", [[[5], 1.0]])):
        change_json(folder / "config.json", task_specific_params={"summarization": {**task, name: value}})
        with pytest.raises(PyTorchNeeded, match=f"^`{name}` is .*, which ONNX Runtime's search lacks"):
            OnnxSummarizer(folder)
        assert OnnxSummarizer(folder, **{name: None}).search_settings()["num_beams"] == 2


def test_a_search_ends_when_its_time_is_over(checkpoint):
    onnx_summarizer = OnnxSummarizer(checkpoint, num_beams=2, min_new_tokens=6, return_tensors=True)
    for settings in ({}, {"num_beams": 1}):
        (whole,) = onnx_summarizer(DOCUMENTS[0], max_time=100, **settings)
        (short,) = onnx_summarizer(DOCUMENTS[0], max_time=1e-9, **settings)
        assert len(short["summary_token_ids"]) == 2 < len(whole["summary_token_ids"])


def test_neither_torch_nor_transformers_are_imported(checkpoint):
    code = (
        "import sys; from hf_summ.runtimes import OnnxSummarizer; "
        f"print(OnnxSummarizer({str(checkpoint)!r})({DOCUMENTS!r})); "
        # spaCy imports torch if it is installed
        "assert 'torch' not in sys.modules or 'spacy' in sys.modules; "
        "assert not {'transformers', 'huggingface_hub'} & set(sys.modules)"
    )
    assert run_python("-c", code)[0].strip() == str(OnnxSummarizer(checkpoint)(DOCUMENTS))


def test_graphs_of_a_repository_are_those_of_the_revision(two_revisions, tmp_path, capsys):
    folder = two_revisions(bundled_model("arxiv-tldr"))
    expected = OnnxSummarizer(folder)(DOCUMENTS[0])
    assert OnnxSummarizer("org/x")(DOCUMENTS[0]) != expected
    assert OnnxSummarizer("org/x", revision="v1")(DOCUMENTS[0]) == expected
    loaded = hf_summ.summarizer("org/x", revision="v1", runtime="onnx")
    assert isinstance(loaded, OnnxSummarizer)
    assert loaded(DOCUMENTS[0], show_progress=False) == expected
    graphs = pipeline("summarization", model="org/x", revision="v1", runtime="onnx")
    assert graphs(DOCUMENTS[0]) == expected
    shutil.copytree(folder, folder / "inner")
    assert find_exported("org/x", subfolder="inner", revision="v1") == folder / "inner" / "onnx"
    (tmp_path / "document.txt").write_text(DOCUMENTS[0], encoding="utf-8")
    command = ["summarize", str(tmp_path / "document.txt"), "--model=org/x", "--runtime=onnx", "--revision=v1"]
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == expected[0]["summary_text"]
