"""Settings of `generate()`, and calls of `pipeline("summarization")`."""

import copy
from collections.abc import Iterator

import datasets
import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

from hf_summ.data.sentences import sentence_places, split_sentences
from hf_summ.models.text_documents import readable
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, without_space

_OTHERS = our.choices(
    """batch_size=1|2|1000000|0|-1|2.5|"2"|null truncation=true|"longest_first"|"most"|3|null
    return_text=true|false|null clean_up_tokenization_spaces=true|false stop_sequence="."|""|["."]|3 return_tensors=true
    max_length=1|5|0|-1|1e30|"5"|null|2.5 min_length=0|3|100|-1|"x" generation_config=null|{"num_beams":2}|3
    nothing=3 framework="tf" show_progress="yes" phrases={"bridge":1.0}|["bridge"]|[["bridge"]]|[null]|3|"bridge" """
)
_WAYS = {
    "long_documents": our.mostly(
        our.one_of("truncate", "extract", "windows"), st.sampled_from((None, "", 3, ["extract"]))
    ),
    "return_details": our.mostly(st.just(True), our.junk),
    "language": our.mostly(our.languages, our.junk),
}


@door(model_type=models.types, settings=our.decoding(our.junk), documents=st.lists(our.texts, min_size=1, max_size=2))
def test_settings_of_generate(model_type, settings, documents):
    shared, processor = models.model(model_type)
    # a call changes the generation settings of the model
    model = copy.copy(shared)
    model.generation_config = copy.deepcopy(shared.generation_config)

    def generate():
        inputs = processor(documents, return_tensors="pt", max_length=40)
        return model.generate(**inputs, **{"max_new_tokens": 5, **settings}, tokenizer=processor)

    output = tried(generate)
    ids = output if isinstance(output, torch.Tensor) else output.sequences
    assert len(ids) == len(documents) * (settings.get("num_return_sequences") or 1)
    texts = processor.batch_decode(ids, skip_special_tokens=True, documents=documents)
    assert [type(text) for text in texts] == [str] * len(ids)
    if not isinstance(output, torch.Tensor):
        scores = [getattr(output, "sequences_scores", None), *(output.get("scores") or ())]
        assert not any(bool(score.isnan().any()) for score in scores if score is not None)


@st.composite
def _documents(draw):
    """The documents of a call, and their examples; None if the call must be refused."""
    texts, other = draw(st.lists(our.texts, min_size=1, max_size=3)), draw(our.not_texts)
    clean, several, wrong = list(map(readable, texts)), [texts, texts[:1]], [*texts, other]
    column = datasets.Dataset.from_dict({"document": clean})["document"]
    usual = ((texts[0], texts[:1]), (texts, texts), (texts, texts), (several, several))
    likewise = ((tuple(texts), texts), (iter(texts), texts), (np.array(texts, dtype=object), texts), ([], []))
    likewise += ((pd.Series(clean), clean), (column, clean), ({"a"}, ["a"]))
    refused = (None, 3, 2.5, b"bytes", {"text": "a"}, [[["deep"]]], pd.DataFrame({"a": [1]}), [3], [None], object())
    odd = ((wrong, wrong if isinstance(other, list) else None), *((documents, None) for documents in refused))
    return draw(our.mostly(st.sampled_from(usual) | st.sampled_from(likewise), st.sampled_from(odd)))


def check_details(example, details, language: str, limit: int) -> None:
    """Checks the `details` of an example's summary; the limit is the number of tokens that the model reads."""
    whole, read = details["source_tokens"], details["read_tokens"]
    assert 0 <= read <= whole
    assert details["cut_tokens"] == whole - read
    assert read <= limit or "windows" in details
    texts = [example] if isinstance(example, str) else example
    ranges = [details["read"]] if isinstance(example, str) else details["read"]
    windows = [[] for _ in texts]
    for window in details.get("windows", ()):
        assert isinstance(window["summary_text"], str)
        assert window["tokens"] >= 0
        windows[window.get("document", 0)].append((window["start"], window["end"]))
    for text, *places in zip(texts, ranges, windows, strict=True):
        for ordered in places:
            ends = [0, *(place for pair in ordered for place in pair), len(text)]
            assert ends == sorted(ends)
    if "windows" in details:
        assert details["rounds"] >= 1
        read_texts = ["".join(text[i:j] for i, j in own) for text, own in zip(texts, windows, strict=True)]
        assert list(map(without_space, read_texts)) == list(map(without_space, texts))
    # without sentences in the details, the language may be invalid
    if "sentences" in details:
        places = [
            (document, start, end)
            for document, text in enumerate(texts)
            for start, end in sentence_places(text, split_sentences(text, language))
        ]
        extracted = [(one["index"], (one.get("document", 0), one["start"], one["end"])) for one in details["sentences"]]
        assert all(places[index] == place for index, place in extracted)


@door(
    kind=st.sampled_from(("bart", *models.ARCHITECTURES)),
    documents=_documents(),
    settings=st.builds(dict.__or__, our.few(_WAYS), st.just({}) | our.few(_OTHERS, 1) | our.decoding(our.junk)),
)
def test_calls(kind, documents, settings):
    (documents, examples), settings = documents, {"max_new_tokens": 4, **settings}
    if "max_length" in settings:
        del settings["max_new_tokens"]

    def call():
        output = models.reader(kind)(documents, **settings)
        # of an iterator, an iterator
        return list(output) if isinstance(output, Iterator) else output

    output = tried(call)
    assert examples is not None
    assert isinstance(output, list)
    assert isinstance(documents, str) or len(output) == len(examples)
    records = [record for row in output for record in (row if isinstance(row, list) else [row])]
    sequences = settings.get("num_return_sequences") or 1
    assert len(records) == len(examples) * sequences
    for row, record in enumerate(records):
        assert record
        assert isinstance(record.get("summary_text", ""), str)
        if "details" in record:
            check_details(examples[row // sequences], record["details"], settings.get("language") or "en", models.READ)
