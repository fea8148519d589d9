"""What people do with a pipeline besides calling it once."""

import copy
import pickle
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch
from transformers import AutoTokenizer, ByT5Tokenizer, pipeline

import hf_summ
from hf_summ.data import fit_vocabulary
from hf_summ.data.sentences import split_sentences
from hf_summ.runtimes import OnnxSummarizer
from hf_summ.runtimes.encoding import encode_by_tokenizer
from hf_summ.runtimes.long_documents import ModelReader
from hf_summ.shortening import split_windows
from tests.conftest import SENTENCES, save
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    Architecture,
    build_with_processor,
)
from tests.reports.tiny_models import foreign, nested

FIVE = (GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, SAGCOPY)
LONG = " ".join(SENTENCES * 12)


def architecture_name(architecture: Architecture) -> str:
    """The name of an architecture in the ids of tests."""
    return architecture.name


def pickled(value):
    """A copy of a value, as other processes receive it."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 (its own pickle)


def summarizer(model, tokenizer, **settings):
    """A pipeline for short summaries, with a copy of the tokenizer."""
    tokenizer = copy.deepcopy(tokenizer)
    return pipeline("summarization", model=model, tokenizer=tokenizer, num_beams=1, max_new_tokens=3, **settings)


def lengths_read(pipe) -> list[int]:
    """The lengths of the batches that the pipeline's model reads from now on."""
    lengths, generate = [], pipe.model.generate

    def recording_generate(**inputs):
        lengths.append(inputs["input_ids"].shape[1])
        return generate(**inputs)

    pipe.model.generate = recording_generate
    return lengths


@pytest.fixture
def busy_threads():
    """Threads take turns often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


# huggingface/tokenizers#537, deepset-ai/haystack#1229: a fast tokenizer's truncation is a setting that threads share
def test_threads_share_a_pipeline(tiny_tokenizer, busy_threads):
    pipe = summarizer(foreign("t5", tiny_tokenizer), tiny_tokenizer)
    pipe.tokenizer.model_max_length = 40
    lengths = lengths_read(pipe)

    def call(number: int) -> None:
        if number % 3 == 2:
            # the user calls the tokenizer with another limit
            pipe.tokenizer([LONG, "short"], truncation=True, max_length=9, padding=True)
        else:
            pipe(LONG, return_details=number % 3 == 1)

    with ThreadPoolExecutor(6) as threads:
        calls = [threads.submit(call, number) for number in range(90)]
    for finished_call in calls:
        finished_call.result()
    assert set(lengths) == {40}


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "Python"])
def test_special_tokens_remain_where_the_text_ends(tiny_tokenizer, is_fast):
    tokenizer = tiny_tokenizer if is_fast else ByT5Tokenizer()
    pipe = summarizer(foreign("t5", tokenizer), tokenizer)
    whole = tokenizer(LONG)["input_ids"]
    for limit in (1, 2, 17, len(whole) - 1, len(whole), len(whole) + 1):
        inputs, length, _ = encode_by_tokenizer(pipe.tokenizer, LONG, limit)
        assert inputs["input_ids"] == tokenizer(LONG, truncation=True, max_length=limit)["input_ids"]
        assert len(inputs["attention_mask"]) == len(inputs["input_ids"])
        assert length == len(whole)


# huggingface/transformers#19581, pkucz/lamorel#53: positions of a text that is padded on the left
@pytest.mark.parametrize("name", ["bart", "drgd"])
def test_the_sides_of_the_tokenizer_change_nothing(tiny_tokenizer, name):
    model, processor = foreign("bart", tiny_tokenizer), None
    if name == "drgd":
        model, processor = build_with_processor(DRGD, tiny_tokenizer)
    texts = [SENTENCES[0], LONG[:300], "Short."]
    pipe = summarizer(model, tiny_tokenizer, processor=processor)
    expected = pipe(texts, batch_size=3, return_tensors=True)
    pipe.tokenizer.padding_side = pipe.tokenizer.truncation_side = "left"
    records = pipe(texts, batch_size=3, return_tensors=True)
    for record, expected_record in zip(records, expected, strict=True):
        assert torch.equal(record["summary_token_ids"], expected_record["summary_token_ids"])
    assert pipe.tokenizer.padding_side == "left"


# the inputs of `forward` are looked up by name, which wrappers hide
@pytest.mark.parametrize("name", ["bart", "gdlf"])
def test_a_compiled_or_wrapped_model_summarizes(tiny_tokenizer, name):
    model, processor = foreign("bart", tiny_tokenizer), None
    if name == "gdlf":
        model, processor = build_with_processor(GDLF, tiny_tokenizer)
    pipe = summarizer(model, tiny_tokenizer, processor=processor)
    expected = pipe(SENTENCES[0])
    pipe.model = torch.compile(model, backend="eager")
    assert pipe(SENTENCES[0]) == expected
    pipe.model, forward = model, model.forward
    model.forward = lambda *args, **kwargs: forward(*args, **kwargs)
    assert pipe(SENTENCES[0]) == expected


class Wrapper(torch.nn.Module):
    """A model in a module that names no inputs, as torch.nn.DataParallel."""

    def __init__(self, model):
        super().__init__()
        self.module = model

    def __getattr__(self, name):
        if name == "module":
            return super().__getattr__(name)
        return getattr(self.module, name)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def test_a_wrapper_without_input_names_gets_them_all(tiny_tokenizer):
    pipe = summarizer(foreign("bart", tiny_tokenizer), tiny_tokenizer)
    expected = pipe(SENTENCES[0])
    pipe.model = Wrapper(pipe.model)
    assert pipe(SENTENCES[0]) == expected


# an error of torch's embedding: each family has its own name for the number of positions
def test_documents_are_truncated_to_the_positions_of_every_family(tiny_tokenizer):
    roberta = nested(tiny_tokenizer, 32)
    models_and_limits = [
        (foreign("bart", tiny_tokenizer, max_position_embeddings=32), 32),
        (foreign("led", tiny_tokenizer, max_encoder_position_embeddings=32, attention_window=16), 32),
        (nested(tiny_tokenizer, 32, bert=True), 32),
        # positions count from the padding's id + 1
        (roberta, 30),
        (foreign("prophetnet", tiny_tokenizer, max_position_embeddings=32), 31),
    ]
    for model, limit in models_and_limits:
        pipe = summarizer(model, tiny_tokenizer)
        assert pipe.source_limit == limit
        lengths = lengths_read(pipe)
        pipe(LONG)
        pipe(LONG, long_documents="extract")
        assert max(lengths) <= limit
    with pytest.raises(ValueError, match="the decoder has 30 positions"):
        summarizer(roberta, tiny_tokenizer)(SENTENCES[0], max_new_tokens=31)


# Beltagy et al. 2020, section 7: the first token attends to all others
def test_led_has_global_attention(tiny_tokenizer):
    pipe = summarizer(foreign("led", tiny_tokenizer, attention_window=16), tiny_tokenizer)
    masks, generate = [], pipe.model.generate

    def recording_generate(global_attention_mask, **inputs):
        masks.append(global_attention_mask)
        return generate(global_attention_mask=global_attention_mask, **inputs)

    pipe.model.generate = recording_generate
    pipe([SENTENCES[0], "Short."], batch_size=2)
    pipe([SENTENCES[0], "Short."], batch_size=2, global_attention_mask=torch.ones(1, 4, dtype=torch.long))
    for mask, tokens in zip(masks, (1, 4), strict=True):
        assert mask.sum(1).tolist() == [tokens, tokens]
        assert mask[:, :tokens].all()


# pipeline(...).save_pretrained: a model of transformers got four files of our code, which `pipeline` refuses to run
def test_the_folder_of_a_model_of_transformers_has_no_code(tiny_tokenizer, tmp_path):
    pipe = summarizer(foreign("bart", tiny_tokenizer), tiny_tokenizer)
    pipe.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    assert not hasattr(pipe.model.config, "custom_pipelines")
    loaded = pipeline("summarization", model=str(tmp_path), num_beams=1, max_new_tokens=3)
    assert loaded(SENTENCES[0]) == pipe(SENTENCES[0])


def test_a_tokenizer_may_be_given_as_the_processor(tiny_tokenizer):
    model = foreign("bart", tiny_tokenizer)
    pipe = pipeline("summarization", model=model, processor=tiny_tokenizer, num_beams=1, max_new_tokens=3)
    assert pipe(SENTENCES[0]) == summarizer(model, tiny_tokenizer)(SENTENCES[0])


# huggingface/transformers#12478, huggingface/transformers#21781: the pipeline loads only what it is given
def test_a_loaded_model_has_the_processor_of_its_folder(tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, max_source_length=12)
    folder = save(tmp_path / "model", model, processor)
    model = type(model).from_pretrained(folder)
    expected = summarizer(folder, tiny_tokenizer)(LONG, return_details=True)
    assert expected[0]["details"]["read_tokens"] == 12
    assert summarizer(model, tiny_tokenizer)(LONG, return_details=True) == expected
    pipe = pipeline("summarization", model=model)
    assert pipe(LONG, num_beams=1, max_new_tokens=3, return_details=True) == expected
    tiny_tokenizer = copy.deepcopy(tiny_tokenizer)
    tiny_tokenizer.add_tokens("<mark>")
    assert "<mark>" in summarizer(model, tiny_tokenizer).processor.tokenizer.get_vocab()
    model.save_pretrained(tmp_path / "weights")
    model = type(model).from_pretrained(tmp_path / "weights")
    with pytest.raises(ValueError, match="weights has no processor: give the model's own as `processor`"):
        pipeline("summarization", model=model)


# mlflow/mlflow#20604, ThilinaRajapakse/simpletransformers#13: weights of a checkpoint, and the tokenizer of its base
@pytest.mark.parametrize("architecture", FIVE, ids=architecture_name)
def test_weights_alone_have_the_processor_of_their_tokenizer(tiny_tokenizer, tmp_path, caplog, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer, max_source_length=12)
    base = save(tmp_path / "base", model, processor)
    expected = pipeline("summarization", model=base)(LONG, num_beams=1, max_new_tokens=3, return_details=True)
    weights = str(tmp_path / "weights")
    model.save_pretrained(weights)
    for arguments in (
        {"model": weights, "tokenizer": base},
        {"model": weights, "tokenizer": AutoTokenizer.from_pretrained(base)},
        {"model": type(model).from_pretrained(weights), "tokenizer": AutoTokenizer.from_pretrained(base)},
    ):
        pipe = pipeline("summarization", **arguments)
        assert type(pipe.processor) is type(processor)
        assert pipe(LONG, num_beams=1, max_new_tokens=3, return_details=True) == expected
    assert "has its default settings" not in caplog.text
    # MLflow saves the tokenizer alone; the frequencies of phrases are settings of the processor
    settings = {"num_beams": 1, "max_new_tokens": 3}
    if architecture is HIGHLIGHT_TRANSFORMER:
        settings["phrases"] = SENTENCES[0].split()[:1]
    tokenizer_folder = str(tmp_path / "tokenizer")
    AutoTokenizer.from_pretrained(base).save_pretrained(tokenizer_folder)
    for tokenizer in (tokenizer_folder, AutoTokenizer.from_pretrained(tokenizer_folder)):
        pipe = pipeline("summarization", model=type(model).from_pretrained(weights), tokenizer=tokenizer)
        assert type(pipe.processor) is type(processor)
        assert pipe.processor.max_source_length > 12
        assert pipe(SENTENCES[0], **settings)
    assert "has its default settings" in caplog.text


# a trainer's model, which was made in memory, and its tokenizer
@pytest.mark.parametrize("architecture", [GDLF, POINTER_GENERATOR], ids=architecture_name)
def test_a_model_in_memory_has_the_processor_of_its_architecture(tiny_tokenizer, tmp_path, monkeypatch, architecture):
    # the current folder has another processor, which does not matter
    monkeypatch.chdir(save(tmp_path, *build_with_processor(architecture, tiny_tokenizer, max_source_length=12)))
    model, processor = build_with_processor(architecture, copy.deepcopy(tiny_tokenizer))
    pipe = summarizer(model, processor.tokenizer)
    assert type(pipe.processor) is type(processor)
    for name in ("max_source_length", "unknown_ids", "tags"):
        assert getattr(pipe.processor, name, None) == getattr(processor, name, None)
    expected = pipeline("summarization", model=model, processor=processor, num_beams=1, max_new_tokens=3)
    assert pipe(SENTENCES) == expected(SENTENCES)
    with pytest.raises(ValueError, match="give the model's own as `processor` or `tokenizer`"):
        pipeline("summarization", model=model)


# lines of a PDF are wrapped, which is no part of what it says
@pytest.mark.parametrize("architecture", [*FIVE, POINTER_GENERATOR], ids=architecture_name)
def test_white_space_of_a_document_is_one_space(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer, max_source_length=40)
    pipe = pipeline("summarization", model=model, processor=processor, num_beams=2, max_new_tokens=8)
    flat = " ".join(LONG.split())
    wrapped = "\n".join(re.findall(r"(?:\S+ ?){1,7}", flat.replace(" ", "\t ", 9)))
    settings = {"return_details": True, "long_documents": "truncate"}
    for example, spaced_example in ((flat, wrapped), ([flat, SENTENCES[0]], [wrapped, f"\n{SENTENCES[0]} \n"])):
        (expected,) = pipe([example], **settings)
        (record,) = pipe([spaced_example], **settings)
        # the characters that were read differ
        del expected["details"]["read"], record["details"]["read"]
        assert record == expected


# a reader of the code: such texts have no sentence, and the default model failed with an IndexError
@pytest.mark.parametrize("text", ["...", "!?", "Abstract.", "。"])
def test_the_default_model_repeats_a_text_without_words(text):
    for summarizer in (OnnxSummarizer(hf_summ.bundled_model()), hf_summ.summarizer(runtime="pytorch")):
        assert summarizer(text)[0]["summary_text"] == text


# Spark, Dask and joblib pickle what they send to their workers
def test_a_pipeline_can_be_copied(tiny_tokenizer):
    for model, processor in ((foreign("bart", tiny_tokenizer), None), build_with_processor(GDLF, tiny_tokenizer)):
        pipe = summarizer(model, tiny_tokenizer, processor=processor)
        expected = pipe(SENTENCES[:2], batch_size=2)
        for copied_pipe in (copy.deepcopy(pipe), pickled(pipe)):
            assert copied_pipe(SENTENCES[:2], batch_size=2) == expected


@pytest.mark.parametrize("architecture", [*FIVE, COPY_TRANSFORMER_BERT], ids=architecture_name)
def test_models_and_processors_can_be_copied(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    encoded = processor(SENTENCES[:2])
    settings = {**processor(SENTENCES[:1], return_tensors="pt"), "max_new_tokens": 2, "tokenizer": processor}
    expected = model.generate(**settings)
    ways_to_copy = [copy.deepcopy]
    if architecture is not COPY_TRANSFORMER_BERT:
        # the hooks by which transformers records a BERT's states cannot be pickled
        ways_to_copy.append(pickled)
    for copied in ways_to_copy:
        assert copied(processor)(SENTENCES[:2]).data == encoded.data
        copied_model = copied(model)
        assert copied_model.config == model.config
        assert torch.equal(copied_model.generate(**settings), expected)
        assert torch.equal(model.generate(**settings), expected)
        copied_weights = copied_model.state_dict()
        for name, weight in model.state_dict().items():
            assert torch.equal(copied_weights[name], weight)
        collator = copied(hf_summ.SummarizationCollator(processor, model=model))
        assert collator.processor(SENTENCES[0])


# microsoft/onnxruntime#643, #7846: sessions cannot be pickled; the bundled graphs contain no settings
def test_the_graphs_of_the_bundled_model_can_be_copied_and_loaded_as_a_pipeline():
    graphs = OnnxSummarizer(hf_summ.bundled_model("arxiv-tldr"), num_beams=1, max_new_tokens=3)
    folder = str(hf_summ.bundled_model("arxiv-tldr"))
    pipe = pipeline("summarization", model=folder, runtime="onnx", num_beams=1, max_new_tokens=3)
    expected = graphs(SENTENCES[0])
    assert pipe(SENTENCES[0]) == expected
    for copied_graphs in (copy.deepcopy(graphs), pickled(graphs)):
        assert copied_graphs(SENTENCES[0]) == expected


# pallets/markupsafe#16, #401: a text of a template escapes what is added to it
def test_a_text_of_a_template_does_not_escape_the_prefix():
    markupsafe = pytest.importorskip("markupsafe")
    graphs = OnnxSummarizer(hf_summ.bundled_model("arxiv-tldr"), num_beams=1, max_new_tokens=3)
    first_text, second_text = "Fast & small.", "A parser."
    first_markup, second_markup = markupsafe.Markup(first_text), markupsafe.Markup(second_text)
    for example, marked_example in (
        ([first_text, second_text], [first_markup, second_markup]),
        (first_text, first_markup),
    ):
        expected = graphs.read(example, source_prefix="<t>: ").inputs
        assert graphs.read(marked_example, source_prefix="<t>: ").inputs == expected


# sessions of ONNX Runtime cannot be pickled
@pytest.mark.thorough
def test_a_pipeline_on_graphs_can_be_copied(tiny_tokenizer, tmp_path):
    pytest.importorskip("onnxscript")
    from hf_summ.runtimes.folders import export

    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    model = type(model).from_pretrained(save(tmp_path / "model", model, processor))
    export(model, processor, tmp_path / "graphs", int8=False)
    pipe = pipeline("summarization", model=str(tmp_path / "graphs"), num_beams=1, max_new_tokens=3)
    pipe.model.generation_config.num_beams = 2
    expected = pipe(SENTENCES[0])
    for copied_pipe in (copy.deepcopy(pipe), pickled(pipe)):
        assert copied_pipe(SENTENCES[0]) == expected
        assert copied_pipe.model.generation_config.num_beams == 2


def test_a_summarizer_is_a_pipeline(shipped, tiny_tokenizer, tmp_path):
    bundled = hf_summ.summarizer(num_beams=1, max_new_tokens=3)
    assert type(bundled) is hf_summ.SummarizationPipeline
    assert bundled.model.name_or_path == str(shipped)
    folder = save(tmp_path, foreign("bart", tiny_tokenizer), tiny_tokenizer)
    for model, tokenizer in ((tmp_path, None), (folder, None), (bundled.model, bundled.tokenizer)):
        pipe = hf_summ.summarizer(model, tokenizer=tokenizer)
        (record,) = pipe(SENTENCES[0], max_new_tokens=2)
        assert record.keys() == {"summary_text"}


# langchain-ai/langchain#1487, run-llama/llama_index#266: the tokens of what is between the parts were not counted
def test_windows_have_room_for_the_space_between_sentences():
    graphs = OnnxSummarizer(hf_summ.bundled_model("arxiv-tldr"))
    for limit, gap in product((60, 90, 120), ("\n\n", "\n" * 6, "\n \t \n", "\u3000\u3000")):
        reader = ModelReader(graphs, limit, lambda texts: [])
        text = gap.join(SENTENCES * 9)
        sentences = []
        for start, end in split_windows(text, reader, "en"):
            window = text[start:end]
            assert reader.length(window) <= limit
            sentences.extend(split_sentences(window))
        assert sentences == split_sentences(text)


# huggingface/transformers#23834, #9984: a penalty on the words of a document that a vocabulary of words lacks
@pytest.mark.parametrize("number", [1, 3])
def test_penalties_on_the_words_of_a_document_hold_for_unknown_ones(number):
    tokenizer = fit_vocabulary(SENTENCES, units="words", show_progress=False)
    model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
    # with this bias, the model would only copy
    model.model.decoder.copy_gate.bias.data.fill_(20.0)
    pipe = pipeline("summarization", model=model, tokenizer=processor.tokenizer, processor=processor)
    settings = {"num_beams": number, "min_new_tokens": 4, "max_new_tokens": 4}
    unknown = "Zorblax Quuxville"
    (plain,) = pipe([unknown], **settings)
    assert set(unknown.split()) == set(plain["summary_text"].split())
    for penalty in ({"encoder_no_repeat_ngram_size": 1}, {"encoder_repetition_penalty": 1e-6}):
        (record,) = pipe([unknown], **settings, **penalty)
        assert not set(unknown.split()) & set(record["summary_text"].split())


# huggingface/transformers#3579, vllm-project/vllm#655: nothing tells that a summary is cut off
@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_summary_with_the_most_tokens_allowed_says_so(tiny_tokenizer, model_type):
    end = tiny_tokenizer.eos_token_id
    settings = {"return_details": True}
    if model_type == "bart":
        # BART forces an end there, also in mid-sentence
        settings["forced_eos_token_id"] = end
    pipe = summarizer(foreign(model_type, tiny_tokenizer), tiny_tokenizer, **settings)

    def reasons(**settings) -> list[str]:
        records = pipe([LONG, "", SENTENCES[0]], **settings)
        return [record["details"]["finish_reason"] for record in records]

    assert reasons(min_new_tokens=3, batch_size=3) == ["length", "stop", "length"]
    assert reasons(min_new_tokens=3, max_length=4) == ["length", "stop", "length"]
    assert reasons(sequence_bias=[[[end], 1e4]]) == ["stop", "stop", "stop"]


# max_time ends a search before the most tokens allowed
@pytest.mark.parametrize("kind", ["bart", "gdlf", "onnx"])
def test_summary_that_the_time_cuts_off_says_so(tiny_tokenizer, kind):
    if kind == "bart":
        model = foreign(kind, tiny_tokenizer)
        # it is no earlier end
        model.generation_config.forced_eos_token_id = tiny_tokenizer.eos_token_id
        pipe = pipeline("summarization", model=model, tokenizer=tiny_tokenizer)
    elif kind == "gdlf":
        model, processor = build_with_processor(GDLF, tiny_tokenizer)
        pipe = pipeline("summarization", model=model, processor=processor)
    else:
        pipe = OnnxSummarizer(hf_summ.bundled_model(), whole_sentences=False)

    def reasons(**settings) -> list[str]:
        settings = {"max_new_tokens": 60, "batch_size": 3, "return_details": True, **settings}
        records = pipe([LONG, "", SENTENCES[0]], **settings)
        return [record["details"]["finish_reason"] for record in records]

    for number in (1, 3):
        assert reasons(num_beams=number, min_new_tokens=10, max_time=1e-9) == ["length", "stop", "length"]
        if kind == "gdlf":
            # the search of transformers lacks these settings
            settings = {"beam_stopping": "opennmt", "ngram_blocking": "beam", "no_repeat_ngram_size": 3}
            assert reasons(num_beams=number, max_time=1e-9, **settings) == ["length", "stop", "length"]
        if kind != "onnx":
            end = pipe.tokenizer.eos_token_id
            settings = {"num_beams": number, "sequence_bias": [[[end], 1e4]]}
            assert reasons(**settings, max_time=100) == ["stop", "stop", "stop"]
    # no time cuts a choice among whole sentences
    assert reasons(whole_sentences=True, num_beams=1, max_new_tokens=200, max_time=1e-9) == ["stop", "stop", "stop"]
