"""Document frequencies, and the file that they are kept in."""

import json
import math

import pytest

from hf_summ.extractive import DocumentFrequencies

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


def test_a_corpus_without_documents():
    with pytest.raises(ValueError, match="no documents to count words in: the corpus is empty"):
        DocumentFrequencies.fit([])


@pytest.mark.parametrize(
    "content",
    [
        *([], {}, {**TABLE, "more": 1}, {**TABLE, "documents": 0}, {**TABLE, "documents": True}),
        *({**TABLE, "document_frequencies": {"a": value}} for value in (0, 3, 1.5, "2", None)),
        *({**TABLE, "document_frequencies": ["a"]}, {**TABLE, "language": None}),
    ],
)
def test_another_files_content(tmp_path, content):
    (tmp_path / "idf.json").write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=r"idf.json: not a table of document frequencies: write one with `hf-summ idf`"
    ):
        DocumentFrequencies.load(tmp_path / "idf.json")


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff"])
def test_what_is_no_json(tmp_path, content):
    (tmp_path / "idf.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"idf.json cannot be read \(.*\): name a file that `hf-summ idf` has written"):
        DocumentFrequencies.load(tmp_path / "idf.json")
    with pytest.raises(ValueError, match="cannot be read"):
        DocumentFrequencies.load(tmp_path)
