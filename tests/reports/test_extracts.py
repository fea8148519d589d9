"""Extracts without repetitions, and of sets of documents."""

import pytest

from hf_summ.data import lead
from tests.extractive.summaries import extract_indices, extracts

REPEATED = (
    "The bridge opened on Monday. The mayor spoke at the bridge. The bridge opened on Monday. Rain fell. "
    "The bridge opened on Monday. The mayor spoke at the bridge. Fish swim in the river."
)
CLUSTER = ["D one. D two. D three.", "E one. E two. E three.", "F one."]


@pytest.mark.parametrize("method", ["tfidf", "lexrank", "textrank", "consistent", "oracle"])
def test_no_method_chooses_words_twice(method):
    # didasy/tldr#10, ownthink/Jiagu#57
    (indices,) = extract_indices([REPEATED], method, 4, [REPEATED])
    assert set(indices) == {0, 1, 3, 6}
    assert extracts(["Hello, world. Hello, world. Hello, world."], method, 2, ["Hello"]) == ["Hello, world."]


def test_lead_of_several_documents_is_the_first_sentences_of_each():
    # Alex-Fabbri/Multi-News#33
    assert extracts([CLUSTER], "lead", 1) == ["D one. E one. F one."]
    assert lead(CLUSTER, 1) == "D one. E one. F one."
    assert extracts([CLUSTER], "lead", 2) == ["D one. D two. E one. E two. F one."]
    assert extracts([CLUSTER], "tail", 1) == ["D three. E three. F one."]
    assert extract_indices([CLUSTER], "tfidf", 7) == [list(range(7))]
