"""Columns of data frames: rows count by their positions, not their labels, and lists within them are arrays."""

import numpy as np
import pandas as pd
import pytest
from transformers import pipeline

from hf_summ.extractive import ExtractiveSettings, extract
from hf_summ.models.text_documents import FIRST_POINTER
from hf_summ.runtimes.examples import Example
from hf_summ.training.rows.preparing import encode
from hf_summ.votes import make_sheets
from tests.conftest import SENTENCES
from tests.models.architectures import DRGD, HIGHLIGHT_TRANSFORMER, build_with_processor
from tests.votes.made_up import DOCUMENTS, PROTOCOL, SYSTEMS


def shuffled(values) -> pd.Series:
    """A column whose labels are those of other rows, as after sorting."""
    return pd.Series(list(values), index=range(len(values))[::-1])


# MaartenGr/BERTopic#736, MilaNLProc/contextualized-topic-models#91
def test_sheets_show_the_summaries_of_their_document():
    systems = {name: shuffled(texts) for name, texts in SYSTEMS.items()}
    assert make_sheets(systems, DOCUMENTS, PROTOCOL) == make_sheets(SYSTEMS, DOCUMENTS, PROTOCOL)
    assert make_sheets(SYSTEMS, shuffled(DOCUMENTS), PROTOCOL) == make_sheets(SYSTEMS, DOCUMENTS, PROTOCOL)


@pytest.mark.parametrize("column", [shuffled, lambda values: np.array(values, dtype=object)])
def test_extracts_are_of_their_rows(column):
    documents, references = ["A bridge opened. It rained.", "A dog ran. A cat slept."], ["It rained.", "A dog ran."]
    oracle = ExtractiveSettings(method="oracle", sentences=1)
    assert extract(column(documents), oracle, column(references)) == references
    lead = ExtractiveSettings(method="lead", sentences=1)
    assert extract(column(documents), lead) == ["A bridge opened.", "A dog ran."]


def test_phrases_steer_their_document(tiny_tokenizer):
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer)
    pipe = pipeline("summarization", model=model, tokenizer=processor, num_beams=1, max_new_tokens=1)
    documents, phrases = SENTENCES[:2], [[text.split()[0]] for text in SENTENCES[:2]]
    read_phrases, read = [], pipe.read

    def recording_read(example, **settings):
        read_phrases.append(example.extra_inputs["phrases"])
        return read(example, **settings)

    pipe.read = recording_read
    pipe(documents, phrases=shuffled(phrases))
    assert read_phrases == phrases


# a column of a CSV file
def test_phrases_in_json_are_read_as_in_training(tiny_tokenizer):
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer)
    pipe = pipeline("summarization", model=model, tokenizer=processor)
    phrase = SENTENCES[0].split()[0]
    column = pd.Series([f'{{"{phrase}": 2.5}}'])
    rows = {"document": SENTENCES[:1], "summary": SENTENCES[:1], "phrases": column.tolist()}
    trained = encode(rows, processor, (50, 20), "")
    assert trained["phrase_values"] == [[2.5]]
    assert processor(SENTENCES[:1], phrases=column)["phrase_values"] == [[2.5]]
    example = Example(SENTENCES[0], {"phrases": column[0]})
    assert pipe.read(example).inputs["phrase_values"] == [2.5]


def test_unknown_words_are_those_of_their_document(tiny_tokenizer):
    _, processor = build_with_processor(DRGD, tiny_tokenizer)
    pointers = [[FIRST_POINTER], [FIRST_POINTER]]
    texts = processor.batch_decode(pointers, skip_special_tokens=True, documents=SENTENCES[:2])
    assert texts[0] != texts[1]
    assert processor.batch_decode(pointers, skip_special_tokens=True, documents=shuffled(SENTENCES[:2])) == texts


# THUDM/slime#68: pandas reads a Parquet column of lists as arrays
def test_arrays_of_documents_are_one_example(tiny_tokenizer):
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer)
    pipe = pipeline("summarization", model=model, tokenizer=processor, num_beams=1, max_new_tokens=3)
    examples = [SENTENCES[:2], SENTENCES[2:4]]
    arrays = [np.array(example, dtype=object) for example in examples]
    tuples = [tuple(example) for example in examples]
    for column in (arrays, tuples):
        assert processor(column)["input_ids"] == processor(examples)["input_ids"]
        assert pipe(pd.Series(column)) == pipe(examples)
    phrases = [[text.split()[0]] for text in SENTENCES[:2]]
    phrase_arrays = [np.array(document_phrases, dtype=object) for document_phrases in phrases]
    assert pipe(SENTENCES[:2], phrases=phrase_arrays) == pipe(SENTENCES[:2], phrases=phrases)
