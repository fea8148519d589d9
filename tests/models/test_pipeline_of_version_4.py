"""What `pipeline("summarization")` did in transformers 4.57, and does here: the migration guide's table, row by row.

What version 4 did is read from its `pipelines/text2text_generation.py` and `pipelines/base.py`.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from datasets import Dataset
from transformers import T5Config, T5ForConditionalGeneration, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from tests.conftest import SENTENCES, save
from tests.models.architectures import GDLF, build_with_processor

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "migrating.md"
# without an end, length is the limit's
ENDLESS = {"suppress_tokens": [2]}
TASK = {"max_length": 12, "min_length": 5, "num_beams": 2, "length_penalty": 2.0, "prefix": "summarize: "}


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    """A T5 whose generation config says nothing of length and beams, as those of the Hub."""
    folder = tmp_path_factory.mktemp("t5")
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tiny_tokenizer), "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    special = {"pad_token_id": tiny_tokenizer.pad_token_id, "eos_token_id": tiny_tokenizer.eos_token_id}
    config = T5Config(**sizes, **special, decoder_start_token_id=tiny_tokenizer.pad_token_id)
    model = T5ForConditionalGeneration(config)
    for parameter in model.parameters():
        # an untrained T5 writes one word again and again
        parameter.data.add_(torch.randn_like(parameter))
    save(folder, model, tiny_tokenizer)
    return folder


@pytest.fixture
def summarizer(folder):
    return pipeline("summarization", model=str(folder), **ENDLESS)


@pytest.fixture
def warnings(caplog) -> Callable[[], list[str]]:
    """The warnings so far."""
    logging.getLogger("transformers").addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    logging.getLogger("transformers").removeHandler(caplog.handler)


def length(record) -> int:
    """The number of ids after the first."""
    return len(record["summary_token_ids"]) - 1


def pipeline_with_task_settings(folder, **settings):
    summarizer = pipeline("summarization", model=str(folder))
    summarizer.model.config.task_specific_params = {"summarization": TASK}
    return pipeline("summarization", model=summarizer.model, tokenizer=summarizer.tokenizer, **ENDLESS, **settings)


def asked(summarizer, monkeypatch, **call) -> dict:
    """What `generate()` is asked for."""
    given: dict = {}
    generate = type(summarizer.model).generate

    def asking(self, *args, **settings):
        given.update(settings)
        return generate(self, *args, **settings)

    monkeypatch.setattr(type(summarizer.model), "generate", asking)
    summarizer(SENTENCES[0], **call)
    return given


def test_the_page_has_a_row_for_each_test():
    table = PAGE.read_text(encoding="utf-8").partition("## What differs from transformers 4")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]
    tests = []
    for name, test in globals().items():
        if name.startswith("test_row"):
            tests.append(test.__doc__.removesuffix("."))
    assert rows == tests


def test_row_text(summarizer):
    """a text."""
    (record,) = summarizer(SENTENCES[0], max_length=9)
    assert record.keys() == {"summary_text"}


@pytest.mark.thorough
def test_row_list(summarizer):
    """a list of texts."""
    records = summarizer(SENTENCES, max_length=9)
    assert records == [summarizer(sentence, max_length=9)[0] for sentence in SENTENCES]


@pytest.mark.thorough
def test_row_column(summarizer):
    """a `datasets` column, a pandas series, a NumPy array or `dict.values()`."""
    expected = summarizer(SENTENCES, max_length=9)
    rows = Dataset.from_dict({"text": SENTENCES})
    named = dict(enumerate(SENTENCES))
    series = pandas.Series(SENTENCES, index=range(3, 8))
    for texts in (rows["text"], series, np.array(SENTENCES), tuple(SENTENCES), named.values()):
        assert summarizer(texts, max_length=9, batch_size=2) == expected
    for table, columns in ((rows, "text"), (pandas.DataFrame({"a": SENTENCES, "b": SENTENCES}), "a, b")):
        with pytest.raises(TypeError, match=f"`documents` has the columns {columns}: give one of them"):
            summarizer(table)


def test_row_several_sequences(summarizer):
    """a list with `num_return_sequences=2`."""
    records = summarizer(SENTENCES[:3], num_beams=2, num_return_sequences=2, max_length=9)
    assert [len(sequences) for sequences in records] == [2, 2, 2]
    assert records[0] == summarizer(SENTENCES[0], num_beams=2, num_return_sequences=2, max_length=9)


@pytest.mark.thorough
def test_row_generator(summarizer):
    """a generator, or another iterator."""
    read = []
    texts = (read.append(sentence) or sentence for sentence in SENTENCES)
    for stream in (texts, iter(SENTENCES), map(str, SENTENCES)):
        summaries = summarizer(stream, max_length=9)
        first = next(summaries)
        assert len(read) < len(SENTENCES) or stream is not texts
        assert [first, *summaries] == [[record] for record in summarizer(SENTENCES, max_length=9)]


def test_row_data_set(summarizer):
    """`KeyDataset`."""
    rows = Dataset.from_dict({"text": SENTENCES})
    summaries = summarizer(KeyDataset(rows, "text"), max_length=9, batch_size=2)
    assert len(summaries) == len(SENTENCES)
    assert list(summaries) == [[record] for record in summarizer(SENTENCES, max_length=9)]
    assert list(summarizer(KeyDataset(rows.select([]), "text"))) == []


def test_row_empty(summarizer):
    """an empty list."""
    assert summarizer([]) == []


def test_row_nested(summarizer):
    """a nested list, such as `[["first", "second"]]`."""
    (record,) = summarizer([SENTENCES[:2]], max_length=9)
    assert record == summarizer(["\n\n".join(SENTENCES[:2])], max_length=9)[0]


def test_row_blank(summarizer, warnings):
    """a blank text."""
    assert summarizer(" \n") == [{"summary_text": ""}]
    assert warnings() == ["the document is blank, and so is its summary"]
    texts = ["", SENTENCES[0], "\t", SENTENCES[1]]
    for batch_size in (1, 3):
        records = summarizer(texts, max_length=9, batch_size=batch_size)
        assert [bool(record["summary_text"]) for record in records] == [False, True, False, True]
        assert records[1::2] == summarizer(SENTENCES[:2], max_length=9)
        assert warnings()[-1] == "2 of 4 documents are blank, and so are their summaries: rows 0, 2, counted from 0"
    (first, second) = summarizer("", return_tensors=True, num_beams=2, num_return_sequences=2)
    assert first["summary_token_ids"].tolist() == second["summary_token_ids"].tolist() == []


def test_row_missing(summarizer, warnings):
    """a missing value in a list or a column, such as None or NaN."""
    texts = [SENTENCES[0], None, SENTENCES[1], float("nan"), pandas.NA, [SENTENCES[2], None]]
    present = summarizer([SENTENCES[0], SENTENCES[1], [SENTENCES[2]]], max_length=9)
    for column in (texts, pandas.Series(texts)):
        records = summarizer(column, max_length=9)
        assert [bool(record["summary_text"]) for record in records] == [True, False, True, False, False, True]
        assert [records[row] for row in (0, 2, 5)] == present
        assert warnings()[-1] == (
            "3 of 6 documents are blank, and so are their summaries: rows 1, 3, 4, counted from 0"
        )


def test_row_space(summarizer):
    """whitespace around a summary, such as BART's leading space."""
    summarizer.model.generation_config.forced_bos_token_id = summarizer.tokenizer.convert_tokens_to_ids("Ċ")
    (record,) = summarizer(SENTENCES[0], max_length=9, return_tensors=True, return_text=True)
    ids = record["summary_token_ids"]
    (text,) = summarizer.tokenizer.batch_decode([ids], skip_special_tokens=True)
    assert text.startswith("\n")
    assert record["summary_text"] == text.strip()


@pytest.mark.thorough
def test_row_too_long(summarizer, warnings):
    """texts longer than the model's maximum."""
    summarizer.tokenizer.model_max_length = 10
    summarizer(SENTENCES[0], max_length=9)
    (said,) = warnings()
    assert re.search("tokens, but the model reads at most 10: the last", said)
    summarizer(["x", *SENTENCES, "x"], max_length=9, batch_size=2)
    list(summarizer(iter(["x", *SENTENCES]), max_length=9))
    assert len(warnings()) == 3
    assert re.fullmatch(
        r"5 of 7 documents exceed the model's maximum of 10 tokens: \d+% of their tokens were truncated; "
        "set `long_documents` to 'windows' to read all of it, or to 'extract' to read its most important sentences",
        warnings()[1],
    )
    assert warnings()[2].startswith("5 of 6 documents")


def test_row_truncation(summarizer):
    """`truncation=False` or `"do_not_truncate"`."""
    summarizer.tokenizer.model_max_length = 10
    for truncation in (False, "do_not_truncate"):
        with pytest.raises(ValueError, match="the model reads at most 10: shorten it"):
            summarizer(SENTENCES[0], truncation=truncation)
    for truncation in (True, "longest_first", "only_first"):
        assert summarizer(SENTENCES[0], truncation=truncation, max_length=9)


@pytest.mark.thorough
def test_row_defaults(summarizer, monkeypatch):
    """default maximum length and number of beams."""
    settings = asked(summarizer, monkeypatch)
    assert (settings["max_new_tokens"], settings["num_beams"]) == (256, 4)
    assert length(summarizer(SENTENCES[0], return_tensors=True)[0]) == 256


def test_row_checkpoint(summarizer, monkeypatch):
    """maximum length and number of beams in the generation config."""
    summarizer.model.generation_config.max_new_tokens = 7
    summarizer.model.generation_config.num_beams = 1
    assert not {"max_new_tokens", "num_beams"} & asked(summarizer, monkeypatch).keys()
    assert length(summarizer(SENTENCES[0], return_tensors=True)[0]) == 7


def test_row_task(folder, monkeypatch):
    """`task_specific_params["summarization"]`."""
    summarizer = pipeline_with_task_settings(folder)
    prefixed = summarizer.read(SENTENCES[0]).inputs["input_ids"]
    assert prefixed == summarizer.tokenizer(f"summarize: {SENTENCES[0]}")["input_ids"]
    settings = asked(summarizer, monkeypatch)
    assert {name: settings[name] for name in TASK if name != "prefix"} == {
        name: value for name, value in TASK.items() if name != "prefix"
    }
    assert length(summarizer(SENTENCES[0], return_tensors=True)[0]) == 11
    # it stands as it was
    assert summarizer.model.config.task_specific_params == {"summarization": TASK}


def test_row_limits(folder):
    """`max_length` in the call, `max_new_tokens` in the checkpoint or constructor."""
    for summarizer in (pipeline("summarization", model=str(folder), **ENDLESS), pipeline_with_task_settings(folder)):
        summarizer.model.generation_config.max_new_tokens = 30
        assert length(summarizer(SENTENCES[0], return_tensors=True, max_length=9, min_length=0)[0]) == 8
        assert length(summarizer(SENTENCES[0], return_tensors=True, max_new_tokens=6, min_length=0)[0]) == 6
    built = pipeline_with_task_settings(folder, max_new_tokens=7)
    assert length(built(SENTENCES[0], return_tensors=True)[0]) == 7
    assert length(built(SENTENCES[0], return_tensors=True, max_length=6)[0]) == 5


def test_row_tensors(summarizer):
    """`return_tensors=True`."""
    (record,) = summarizer(SENTENCES[0], return_tensors=True, max_length=9)
    assert record.keys() == {"summary_token_ids"}
    assert isinstance(record["summary_token_ids"], torch.Tensor)
    (record,) = summarizer(SENTENCES[0], return_tensors=True, return_text=True, max_length=9)
    assert record.keys() == {"summary_token_ids", "summary_text"}
    (record,) = summarizer(SENTENCES[0], return_text=False, max_length=9)
    assert record.keys() == {"summary_text"}


def test_row_stop(summarizer):
    """`stop_sequence`."""
    settings = {"return_tensors": True, "max_length": 30, "num_beams": 1, "no_repeat_ngram_size": 1}
    whole = summarizer(SENTENCES[0], **settings)[0]["summary_token_ids"].tolist()
    texts = summarizer.tokenizer.convert_ids_to_tokens(whole)
    # words of letters, two in a row
    ends = next(
        place for place in range(3, 30) if all(text.strip("Ġ").isascii() for text in texts[place - 1 : place + 1])
    )
    stop = summarizer.tokenizer.decode(whole[ends - 1 : ends + 1])
    stopped = summarizer(SENTENCES[0], **settings, stop_sequence=stop)[0]["summary_token_ids"]
    assert stopped.tolist() == whole[: ends + 1]


def test_settings_of_other_architectures_are_refused(folder, summarizer):
    message = "`min_new_words`: the model is a t5, which does not support it"
    with pytest.raises(ValueError, match=message):
        summarizer(SENTENCES[0], min_new_words=3)
    with pytest.raises(ValueError, match=message):
        pipeline("summarization", model=str(folder), min_new_words=3)(SENTENCES[0])


def test_row_framework(folder):
    """`framework="pt"`."""
    assert pipeline("summarization", model=str(folder), framework="pt")("a", max_length=4)


def test_row_no_model(warnings):
    """no model."""
    # the Hub is out of reach of the tests
    with pytest.raises(OSError, match="connect"):
        pipeline("summarization")
    assert "defaulted to sshleifer/distilbart-cnn-12-6 and revision a4f8f3e" in warnings()[0]


@pytest.mark.thorough
def test_row_objects(tiny_tokenizer, folder):
    """a model or a folder of weights, with a `tokenizer` or a `processor`."""
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    expected = pipeline("summarization", model=model, processor=processor, tokenizer=processor.tokenizer)(SENTENCES)
    assert pipeline("summarization", model=model, processor=processor)(SENTENCES) == expected
    assert pipeline("summarization", model=model, tokenizer=processor)(SENTENCES) == expected
    t5 = pipeline("summarization", model=str(folder))
    assert pipeline("summarization", model=t5.model, tokenizer=t5.tokenizer)("a", max_length=4)
    with pytest.raises(ValueError, match="needs a tokenizer: give the model's own as `processor` or `tokenizer`"):
        pipeline("summarization", model=model)


@pytest.mark.thorough
def test_row_output_dictionary(summarizer):
    """`return_dict_in_generate` or `output_scores`."""
    expected = summarizer(SENTENCES, max_length=9)
    for names in (["return_dict_in_generate"], ["output_scores"], ["return_dict_in_generate", "output_scores"]):
        assert summarizer(SENTENCES, max_length=9, batch_size=2, **dict.fromkeys(names, True)) == expected
    summarizer.model.generation_config.return_dict_in_generate = True
    assert summarizer(SENTENCES, max_length=9) == expected


CASES_OF_ROW_NUMBERS = [
    ({"num_beams": 0}, "`num_beams` is 0, but must be an integer of at least 1"),
    ({"max_length": 0}, "`max_length` is 0, but must be an integer of at least 2"),
    ({"length_penalty": 1e4}, "`length_penalty` is 10000.0, too large for a summary's length: lower it"),
    ({"batch_size": 0}, "`batch_size` is 0, but must be at least 1"),
    ({"stop_sequence": ""}, "`stop_sequence` is empty: give a text that ends summaries"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("settings", "message"), CASES_OF_ROW_NUMBERS)
def test_row_numbers(summarizer, settings, message):
    """invalid values such as `num_beams=0`."""
    with pytest.raises(ValueError, match=message):
        summarizer(SENTENCES[0], **{"max_length": 9, **settings})


CASES_OF_ROW_TYPES = [
    ("a", {"stop_sequence": 3}, "`stop_sequence` must be a list, but is int: 3"),
    (["a"], {"phrases": 3}, "`phrases` must be a list, with an entry for each of 1 documents: 3"),
    ([[["a"]]], {}, r"document 0 must be a string, but is list: \['a'\]"),
    (["a", ["b", 3]], {}, "document 1 must be a string, but is int: 3"),
    (iter(["a", 3]), {}, "a document must be a string, but is int: 3"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("documents", "settings", "message"), CASES_OF_ROW_TYPES)
def test_row_types(summarizer, documents, settings, message):
    """settings and documents of the wrong type."""
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        list(summarizer(documents, max_length=9, **settings))


def test_length_penalty_of_none_is_none_given(summarizer):
    expected = summarizer(SENTENCES[0], num_beams=3, max_length=9)
    assert summarizer(SENTENCES[0], num_beams=3, max_length=9, length_penalty=None) == expected


def test_row_other_tokenizer(summarizer):
    """a tokenizer whose vocabulary is larger than the model's."""
    known = summarizer.model.config.vocab_size
    summarizer.tokenizer.add_tokens(["bridge"])
    assert summarizer("The council", max_length=9)
    with pytest.raises(ValueError, match=rf"gives the id {known} \('bridge'\), but the model has {known} tokens"):
        summarizer("The bridge", max_length=9)
