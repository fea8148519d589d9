"""Extracts without repetitions, of sets of documents, and by a number of words."""

import pytest

from hf_summ.data import lead
from hf_summ.extractive import extract, extract_sentences

REPEATED = (
    "The bridge opened on Monday. The mayor spoke at the bridge. The bridge opened on Monday. Rain fell. "
    "The bridge opened on Monday. The mayor spoke at the bridge. Fish swim in the river."
)
CLUSTER = ["D one. D two. D three.", "E one. E two. E three.", "F one."]


@pytest.mark.parametrize("method", ["tfidf", "lexrank", "textrank", "consistent", "oracle"])
def test_no_method_chooses_words_twice(method):
    # didasy/tldr#10, ownthink/Jiagu#57
    (indices,) = extract_sentences([REPEATED], method, 4, [REPEATED])
    assert set(indices) == {0, 1, 3, 6}
    assert extract(["Hello, world. Hello, world. Hello, world."], method, 2, ["Hello"]) == ["Hello, world."]


def test_lead_of_several_documents_is_the_first_sentences_of_each():
    # Alex-Fabbri/Multi-News#33
    assert extract([CLUSTER], "lead", 1) == [lead(CLUSTER, 1)] == ["D one. E one. F one."]
    assert extract([CLUSTER], "lead", 2) == ["D one. D two. E one. E two. F one."]
    assert extract([CLUSTER], "tail", 1) == ["D three. E three. F one."]
    assert extract([CLUSTER], "lead", words=8) == ["D one. D two. E one. F one."]
    assert extract_sentences([CLUSTER], "tfidf", 7) == [list(range(7))]


@pytest.mark.parametrize("method", ["lead", "tail", "tfidf", "textrank", "consistent", "oracle"])
def test_whole_sentences_are_taken_while_their_words_fit(method):
    (summary,) = extract([REPEATED], method, references=["Rain fell on the bridge. Fish swim."], words=11)
    assert 2 <= len(summary.split()) <= 11
    assert len(extract(["One two three. Four."], method, references=["One two."], words=1)[0].split()) in (1, 3)


# nipunsadvilkar/pySBD#134, PyThaiNLP/pythainlp#921: without marks of sentences, an extract was the whole document
def test_documents_without_marks_of_sentences_are_told():
    text = "เขาไปโรงเรียน วันนี้อากาศดี ฝนไม่ตก " * 10
    with pytest.warns(UserWarning, match="2 of 3 documents are one long sentence: put each sentence in a line"):
        extract([text, text, "เขาไปโรงเรียน"], "lead", 1, language="th")
