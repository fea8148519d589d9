"""Settings of `generate()`, and calls of `pipeline("summarization")`."""

import copy
from collections.abc import Iterable, Iterator

import datasets
import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

from hf_summ.data.sentences import sentence_places, split_sentences
from hf_summ.models.text_documents import readable
from tests.doors import models, strategies
from tests.doors.outcomes import door, tried, without_space

_MORE_SETTINGS = strategies.choices(
    """batch_size=1|2|1000000|0|-1|2.5|"2"|null truncation=true|"longest_first"|"most"|3|null
    return_text=true|false|null clean_up_tokenization_spaces=true|false stop_sequence="."|""|["."]|3 return_tensors=true
    max_length=1|5|0|-1|1e30|"5"|null|2.5 min_length=0|3|100|-1|"x" generation_config=null|{"num_beams":2}|3
    nothing=3 framework="tf" show_progress="yes" phrases={"bridge":1.0}|["bridge"]|[["bridge"]]|[null]|3|"bridge" """
)
_WAYS = {
    "long_documents": strategies.mostly(
        strategies.one_of("truncate", "extract", "windows"), st.sampled_from((None, "", 3, ["extract"]))
    ),
    "return_details": strategies.mostly(st.just(True), strategies.junk),
    "language": strategies.mostly(strategies.languages, strategies.junk),
}


@door(
    model_type=models.types,
    settings=strategies.decoding(strategies.junk),
    documents=st.lists(strategies.texts, min_size=1, max_size=2),
)
def test_settings_of_generate(model_type, settings, documents):
    shared, processor = models.model(model_type)
    # a call changes the generation settings of the model
    model = copy.copy(shared)
    model.generation_config = copy.deepcopy(shared.generation_config)

    def generate():
        inputs = processor(documents, return_tensors="pt", max_length=40)
        all_settings = {"max_new_tokens": 5, **settings}
        return model.generate(**inputs, **all_settings, tokenizer=processor)

    output = tried(generate)
    ids = output if isinstance(output, torch.Tensor) else output.sequences
    assert len(ids) == len(documents) * (settings.get("num_return_sequences") or 1)
    texts = processor.batch_decode(ids, skip_special_tokens=True, documents=documents)
    assert len(texts) == len(ids)
    assert all(type(text) is str for text in texts)
    if not isinstance(output, torch.Tensor):
        scores = [getattr(output, "sequences_scores", None), *(output.get("scores") or ())]
        for score in scores:
            assert score is None or not score.isnan().any()


@st.composite
def _documents(draw):
    """The documents of a call, and their examples; None if the call must be refused."""
    texts = draw(st.lists(strategies.texts, min_size=1, max_size=3))
    not_text = draw(strategies.not_texts)
    clean = [readable(text) for text in texts]
    several = [texts, texts[:1]]
    usual = [(texts[0], texts[:1]), (texts, texts), (texts, texts), (several, several)]
    # other collections of texts
    column = datasets.Dataset.from_dict({"document": clean})["document"]
    collections = [(tuple(texts), texts), (iter(texts), texts), (np.array(texts, dtype=object), texts), ([], [])]
    collections += [(pd.Series(clean), clean), (column, clean), ({"a"}, ["a"])]
    mixed = texts + [not_text]
    # a list of texts among texts is an example of several documents
    odd = [(mixed, mixed if isinstance(not_text, list) else None)]
    refused = [None, 3, 2.5, b"bytes", {"text": "a"}, [[["deep"]]], pd.DataFrame({"a": [1]}), [3], [None], object()]
    odd += [(documents, None) for documents in refused]
    return draw(strategies.mostly(st.sampled_from(usual) | st.sampled_from(collections), st.sampled_from(odd)))


def check_details(example, details, language: str, limit: int) -> None:
    """Check the `details` of an example's summary; the limit is the number of tokens that the model reads."""
    source_tokens, read_tokens = details["source_tokens"], details["read_tokens"]
    assert 0 <= read_tokens <= source_tokens
    assert details["cut_tokens"] == source_tokens - read_tokens
    assert read_tokens <= limit or "windows" in details
    if isinstance(example, str):
        texts, read_spans = [example], [details["read"]]
    else:
        texts, read_spans = example, details["read"]
    windows = [[] for _ in texts]
    for window in details.get("windows", ()):
        assert isinstance(window["summary_text"], str)
        assert window["tokens"] >= 0
        windows[window.get("document", 0)].append((window["start"], window["end"]))
    for text, text_spans, text_windows in zip(texts, read_spans, windows, strict=True):
        _check_order(text_spans, text)
        _check_order(text_windows, text)
    if "windows" in details:
        assert details["rounds"] >= 1
        for text, text_windows in zip(texts, windows, strict=True):
            read_text = "".join(text[start:end] for start, end in text_windows)
            assert without_space(read_text) == without_space(text)
    # without sentences in the details, the language may be invalid
    if "sentences" in details:
        places = []
        for document, text in enumerate(texts):
            for start, end in sentence_places(text, split_sentences(text, language)):
                places.append((document, start, end))
        for sentence in details["sentences"]:
            place = (sentence.get("document", 0), sentence["start"], sentence["end"])
            assert places[sentence["index"]] == place


def _check_order(spans: Iterable[tuple[int, int]], text: str) -> None:
    """Check that spans of a text follow each other within it."""
    ends = [0]
    for start, end in spans:
        ends += [start, end]
    ends.append(len(text))
    assert ends == sorted(ends)


@door(
    kind=st.sampled_from(("bart", *models.ARCHITECTURES)),
    documents=_documents(),
    settings=st.builds(
        dict.__or__,
        strategies.few(_WAYS),
        st.just({}) | strategies.few(_MORE_SETTINGS, 1) | strategies.decoding(strategies.junk),
    ),
)
def test_calls(kind, documents, settings):
    documents, examples = documents
    settings = {"max_new_tokens": 4, **settings}
    if "max_length" in settings:
        del settings["max_new_tokens"]

    def call():
        output = models.reader(kind)(documents, **settings)
        # the pipeline makes an iterator of an iterator
        return list(output) if isinstance(output, Iterator) else output

    output = tried(call)
    assert examples is not None
    assert isinstance(output, list)
    assert isinstance(documents, str) or len(output) == len(examples)
    records = []
    for row in output:
        if isinstance(row, list):
            records.extend(row)
        else:
            records.append(row)
    sequences = settings.get("num_return_sequences") or 1
    assert len(records) == len(examples) * sequences
    language = settings.get("language") or "en"
    for number, record in enumerate(records):
        assert record
        assert isinstance(record.get("summary_text", ""), str)
        if "details" in record:
            check_details(examples[number // sequences], record["details"], language, models.READ)
