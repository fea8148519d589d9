"""Document frequencies, the file that they are kept in, and the scores that they give."""

import json
import math

import numpy as np
import pytest

from hf_summ.extractive import DocumentFrequencies
from hf_summ.extractive.frequencies import best_first, tfidf_scores
from tests.extractive import naive
from tests.extractive.summaries import extract_indices, extracts

TABLE = {"language": "en", "documents": 2, "document_frequencies": {"a": 2}}


def test_a_file_gives_what_was_written(tmp_path):
    table = DocumentFrequencies.fit(["Die Brücke.", "die Flut", "Über die Brücke"], "de")
    assert table == DocumentFrequencies({"brücke": 2, "die": 3}, 3, "de")
    assert table.idf("die") == 0
    assert table.idf("brücke") == math.log(3 / 2)
    assert table.idf("flut") == table.idf("nirgends") == math.log(3)
    table.save(tmp_path / "idf.json")
    assert DocumentFrequencies.load(tmp_path / "idf.json") == table
    table.check_language("de-CH")
    with pytest.raises(ValueError, match="no documents to count words in: the corpus is empty"):
        DocumentFrequencies.fit([])


CASES_OF_OTHER_CONTENT = [
    [],
    {},
    TABLE | {"documents": 0},
    TABLE | {"language": None},
    TABLE | {"document_frequencies": ["a"]},
    TABLE | {"document_frequencies": {"a": 0}},
    TABLE | {"document_frequencies": {"a": 3}},
    TABLE | {"document_frequencies": {"a": "2"}},
    TABLE | {"document_frequencies": {"a": None}},
    "",
    '{"a": 1',
    b"\xff",
]


@pytest.mark.parametrize("content", CASES_OF_OTHER_CONTENT)
def test_another_files_content(tmp_path, content):
    file = tmp_path / "idf.json"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(json.dumps(content))
    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=rf"{path.name} is not a file written by `hf-summ idf` \(.*\): name one"):
            DocumentFrequencies.load(path)


def test_agrees_with_its_definition(sentences):
    np.testing.assert_allclose(tfidf_scores(sentences), naive.tfidf(sentences, sentences), atol=1e-12)
    # In this corpus, c and d are in no document, and words of only one document are not in the table.
    corpus = ["a b e f", "a a g", "a h i j k", "b"]
    table = DocumentFrequencies.fit(corpus)
    assert table.frequencies == {"a": 3, "b": 2}
    collection = [text.split() for text in corpus]
    np.testing.assert_allclose(tfidf_scores(sentences, table), naive.tfidf(sentences, collection), atol=1e-12)
    assert tfidf_scores([]).tolist() == []
    assert tfidf_scores([[], []]).tolist() == [0, 0]


def test_prefers_frequent_words_of_few_sentences():
    document = "He met her. The flood and the flood. He left her. He came."
    assert extracts([document], "tfidf", 1) == ["The flood and the flood."]
    # Equal sentences come in their order.
    document = " ".join(f"Cat dog{number}." for number in range(120))
    assert extract_indices([f"Cat dog cat. {document}"], "tfidf", 3) == [[1, 2, 3]]


@pytest.mark.parametrize("scale", [1, 1e-12])
def test_rounding_breaks_no_ties(scale):
    assert best_first(np.array([0.3, 0.1 + 0.2, 0.1 * 3, 0.31, 0.0]) * scale) == [3, 0, 1, 2, 4]
    # There is nothing to order.
    assert best_first(np.array([])) == []
    assert best_first(np.zeros(3)) == [0, 1, 2]
