"""`pipeline("summarization")` for these architectures and for transformers' own."""

import contextlib
import copy
import logging

import pytest
import torch
from transformers import AutoProcessor, BartForConditionalGeneration, ByT5Tokenizer, ProcessorMixin, pipeline

from hf_summ.runtimes.encoding import encode_by_tokenizer
from tests.conftest import SENTENCES, save
from tests.models.architectures import ARCHITECTURES, EACH_BY_ONE, build_with_processor
from tests.reports.tiny_models import foreign


@pytest.fixture(params=EACH_BY_ONE)
def folder(request, tiny_tokenizer, tmp_path):
    """A saved checkpoint of an architecture."""
    save(tmp_path, *build_with_processor(request.param, tiny_tokenizer))
    return tmp_path


@pytest.fixture(scope="module")
def bart_folder(tiny_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart")
    settings = {"max_position_embeddings": 64, "decoder_start_token_id": 1, "forced_eos_token_id": None}
    model = foreign("bart", tiny_tokenizer, **settings)
    model.generation_config.max_new_tokens = 8
    save(folder, model, tiny_tokenizer)
    return folder


def test_tokenizer_of_a_saved_processor_saved_beside_another_model(bart_folder, folder, tiny_tokenizer):
    processor = AutoProcessor.from_pretrained(folder)
    assert pipeline("summarization", model=str(folder)).processor.__class__ is processor.__class__
    tokenizer = copy.deepcopy(tiny_tokenizer)
    type(processor)(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(bart_folder)
    summarizer = pipeline("summarization", model=str(bart_folder))
    assert summarizer.processor is None
    assert summarizer("The bridge.")[0].keys() == {"summary_text"}


def test_batches_change_nothing(folder):
    summarizer = pipeline("summarization", model=str(folder))
    assert summarizer(SENTENCES, batch_size=3) == summarizer(SENTENCES)
    assert summarizer(SENTENCES, batch_size=2, num_beams=3) == summarizer(SENTENCES, num_beams=3)


@pytest.mark.thorough
def test_progress_is_shown_when_asked_for(folder, capsys):
    summarizer = pipeline("summarization", model=str(folder))
    quiet = summarizer(SENTENCES)
    assert "summarizing" not in capsys.readouterr().err
    assert summarizer(SENTENCES, show_progress=True) == quiet
    assert f"{len(SENTENCES)}/{len(SENTENCES)}" in capsys.readouterr().err
    streamed = summarizer((sentence for sentence in SENTENCES), show_progress=True)
    assert [record for (record,) in streamed] == quiet
    assert "summarizing" in capsys.readouterr().err


@pytest.mark.thorough
def test_saved_pipeline_has_its_processor(folder, tmp_path):
    summarizer = pipeline("summarization", model=str(folder))
    summarizer.processor.max_source_length = 20
    summarizer.save_pretrained(tmp_path / "copy")
    again = pipeline("summarization", model=str(tmp_path / "copy"))
    assert again.processor.max_source_length == 20
    assert again(SENTENCES) == summarizer(SENTENCES)


def test_what_is_cut_is_said(folder, caplog):
    summarizer = pipeline("summarization", model=str(folder))
    summarizer.processor.max_source_length = 10
    with caplog.at_level(logging.WARNING, logger="transformers"):
        logging.getLogger("transformers").addHandler(caplog.handler)
        cut = summarizer(SENTENCES[0])
    assert "but the model reads at most 10: the last" in caplog.text
    with pytest.raises(ValueError, match="shorten it, or call the pipeline with `truncation=True`"):
        summarizer(SENTENCES[0], truncation=False)
    summarizer.processor.max_source_length = 500
    assert summarizer(SENTENCES[0], truncation=False) == summarizer(SENTENCES[0])
    assert cut


@pytest.mark.thorough
def test_awkward_documents_change_nothing_in_a_batch(folder):
    documents = ["", SENTENCES[0], " \n", "x", "\x00\x07", "🎉", "The mayor opened 新桥。", "</s>", "word " * 300]
    summarizer = pipeline("summarization", model=str(folder), dtype=torch.float64)
    alone = summarizer(documents, num_beams=2)
    assert summarizer(documents, num_beams=2, batch_size=len(documents)) == alone


@pytest.mark.parametrize("limit", [10, 500])
def test_a_document_is_tokenized_once(folder, bart_folder, read_texts, limit):
    for checkpoint in (folder, bart_folder):
        summarizer = pipeline("summarization", model=str(checkpoint))
        (summarizer.processor or summarizer.tokenizer).max_source_length = limit
        summarizer.tokenizer.model_max_length = limit
        # what counts words reads the vocabulary
        read_texts.clear()
        summarizer(SENTENCES, batch_size=2)
        assert [text for text in read_texts if text in SENTENCES] == SENTENCES
        read_texts.clear()
        with contextlib.suppress(ValueError):
            summarizer(SENTENCES[0], truncation=False)
        assert read_texts.count(SENTENCES[0]) == 1


LONG_DOCUMENTS = [*SENTENCES, " ".join(SENTENCES), "", "a \ud83d b"]


@pytest.mark.thorough
@pytest.mark.parametrize("document", LONG_DOCUMENTS)
def test_a_bare_tokenizers_rows_are_those_that_it_cuts(bart_folder, document, caplog):
    summarizer = pipeline("summarization", model=str(bart_folder))
    readable = document.replace("\ud83d", "\ufffd")
    whole = len(summarizer.tokenizer(readable)["input_ids"])
    for limit in (5, 20, whole - 1, whole, 64):
        summarizer.tokenizer.model_max_length = limit
        inputs, length, _ = encode_by_tokenizer(summarizer.tokenizer, document, limit)
        expected = summarizer.tokenizer(readable, truncation=True, max_length=limit)
        assert length == whole
        assert inputs.keys() == {"input_ids", "attention_mask"}
        assert inputs == dict(expected)


def test_a_tokenizer_in_python_counts_what_it_cuts(bart_folder):
    summarizer = pipeline("summarization", model=str(bart_folder))
    summarizer.tokenizer = ByT5Tokenizer()
    for limit in (5, 12, 500, None):
        inputs, length, _ = encode_by_tokenizer(summarizer.tokenizer, "twelve words", limit)
        ids = inputs["input_ids"]
        assert (len(ids), length) == (min(limit or 13, 13), 13)
        assert ids[-1] == summarizer.tokenizer.eos_token_id


def test_lengths_are_those_before_the_cut(folder):
    processor = AutoProcessor.from_pretrained(folder)
    whole = [len(row) for row in processor(SENTENCES)["input_ids"]]
    cut = processor(SENTENCES, max_length=7, return_lengths=True)
    assert cut["lengths"] == whole
    assert {len(row) for row in cut["input_ids"]} == {7}
    assert processor(SENTENCES, max_length=7, return_tensors="pt", return_lengths=True)["lengths"].tolist() == whole
    assert processor(SENTENCES[0], max_length=7, return_lengths=True)["lengths"] == whole[0]
    assert "lengths" not in processor(SENTENCES, max_length=7)
    assert processor(text_target=SENTENCES[0], return_lengths=True).keys() == {"labels"}


def test_a_lone_surrogate_is_read_as_the_corpora_write_it(folder, bart_folder):
    for checkpoint in (folder, bart_folder):
        summarizer = pipeline("summarization", model=str(checkpoint), dtype=torch.float64)
        documents = ("a \ud83d b", "a \ufffd b", "a ? b")
        read = [summarizer.read(document).inputs["input_ids"] for document in documents]
        assert read[0] == read[1] != read[2]


def test_transformers_own_models_work_too(bart_folder):
    summarizer = pipeline("summarization", model=str(bart_folder))
    assert not isinstance(summarizer.processor, ProcessorMixin)
    alone = [summarizer(sentence, num_beams=2)[0]["summary_text"] for sentence in SENTENCES]
    assert [record["summary_text"] for record in summarizer(SENTENCES, batch_size=2, num_beams=2)] == alone
    # its position table ends at 64
    assert summarizer("The bridge cost 12 million. " * 50)


def test_summaries_are_no_longer_than_the_decoders_positions(bart_folder, tmp_path, caplog):
    model = BartForConditionalGeneration.from_pretrained(bart_folder)
    model.generation_config.max_new_tokens = None
    # the end is never written
    model.generation_config.suppress_tokens = [2]
    model.save_pretrained(tmp_path)
    summarizer = pipeline("summarization", model=str(tmp_path), tokenizer=str(bart_folder))
    assert "summaries are limited to 64 tokens, the number of the decoder's positions" in caplog.text
    (record,) = summarizer(SENTENCES[0], return_tensors=True)
    assert len(record["summary_token_ids"]) == 1 + 64
    for name in ("max_new_tokens", "max_length"):
        with pytest.raises(ValueError, match=f"`{name}` is 65, but the decoder has 64 positions: lower it"):
            summarizer(SENTENCES[0], **{name: 65})


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_another_prefix_than_the_checkpoints(folder, way):
    summarizer = pipeline("summarization", model=str(folder))
    long = " ".join(SENTENCES)
    texts, settings = [SENTENCES[0], long], {"long_documents": way, "return_details": True}
    summarizer.processor.max_source_length = len(summarizer.tokenizer(SENTENCES[0])["input_ids"]) + 8
    summarizer.model.config.prefix = "tldr: "
    expected = summarizer(texts, **settings)
    summarizer.model.config.prefix = "title: "
    with_title = summarizer(texts, **settings)
    assert summarizer(texts, **settings, source_prefix="tldr: ") == expected != with_title
    given = pipeline("summarization", model=summarizer.model, processor=summarizer.processor, source_prefix="tldr: ")
    assert given(texts, **settings) == expected
    assert given(texts, **settings, source_prefix=None) == expected
    assert given(texts, **settings, source_prefix="title: ") == with_title
    with pytest.raises(TypeError, match="`source_prefix` must be a string, but is int: 7"):
        summarizer(long, source_prefix=7)


@pytest.mark.thorough
def test_adapted_model(tiny_tokenizer):
    from peft import LoraConfig, get_peft_model

    model, processor = build_with_processor(ARCHITECTURES[0], tiny_tokenizer)
    expected = pipeline("summarization", model=model, processor=processor, tokenizer=processor.tokenizer)(SENTENCES)
    adapted = get_peft_model(model, LoraConfig(task_type="SEQ_2_SEQ_LM", r=2))
    summarizer = pipeline("summarization", model=adapted, processor=processor, tokenizer=processor.tokenizer)
    # a fresh adapter adds nothing yet
    assert summarizer(SENTENCES) == expected
