"""Columns with several documents or several references."""

import json
import logging

import pytest

from hf_summ.data import loading, split_sentences
from hf_summ.data.lists import Lists
from tests.data.files import ROWS, json_lines, write
from tests.shared_data import SHARED_DATA, reads_shared_data

CLUSTERS = [
    {"documents": ["One. Two.", "Three."], "summary": "s", "id": 1},
    {"documents": ["Four."], "summary": "t", "id": 2},
]
JOINED = [
    {"document": "One. Two.\n\nThree.", "documents": ["One. Two.", "Three."], "summary": "s", "id": 1},
    {"document": "Four.", "documents": ["Four."], "summary": "t", "id": 2},
]


@pytest.fixture
def load_rows(load, named, tmp_path):
    """Writes rows as a .jsonl file, a .json list or a data set by name, and loads them."""

    def through(way, rows, **arguments):
        if way == "jsonl":
            return load(train_file=write(tmp_path / "rows.jsonl", json_lines(rows)), **arguments)["train"].to_list()
        if way == "json":
            return load(train_file=write(tmp_path / "rows.json", json.dumps(rows)), **arguments)["train"].to_list()
        return load(dataset_name=named(train=rows), **arguments)["train"].to_list()

    return through


WAYS = pytest.mark.parametrize("way", ["jsonl", "json", "name"])


def test_sentences_of_a_list_are_joined_as_their_script_joins_them(load_rows):
    rows = [{"document": ["他来了。", "她走了！", "2019年呢", "好。", "It ended. ", "Yes."], "summary": "s", "id": 1}]
    assert load_rows("jsonl", rows)[0]["document"] == "他来了。她走了！2019年呢\n好。It ended. Yes."
    assert split_sentences("他来了。她走了！2019年呢\n好。It ended. Yes.", "zh") == [
        text.strip() for text in rows[0]["document"]
    ]


# documents


@WAYS
def test_documents_are_kept_and_joined(load_rows, way):
    assert load_rows(way, CLUSTERS) == JOINED


def test_sentences_of_joined_documents_are_those_of_each(load_rows):
    for row in load_rows("jsonl", CLUSTERS):
        assert split_sentences(row["document"]) == [s for part in row["documents"] for s in split_sentences(part)]


@pytest.mark.parametrize("stop", ["۔ ", "፡፡ ", "። ", "။ ", "។", "։ ", ".» "])
def test_documents_are_told_by_the_ends_of_their_sentences_in_any_script(load_rows, stop):
    rows = [{"articles": [f"ab{stop}cd{stop}ef{stop}", f"gh{stop}ij{stop}"], "summary": "s", "id": 1}]
    assert load_rows("jsonl", rows, text_column="articles")[0]["documents"] == rows[0]["articles"]


@WAYS
@pytest.mark.parametrize(("name", "told"), [("articles", {"text_column": "articles"}), ("document", {})])
def test_a_list_under_another_name_becomes_documents(load_rows, way, name, told):
    rows = [{name: row["documents"], "summary": row["summary"], "id": row["id"]} for row in CLUSTERS]
    assert load_rows(way, rows, **told) == JOINED


@WAYS
def test_a_text_called_document_comes_before_documents(load_rows, way):
    rows = [{"document": "d", "documents": ["x", "y"], "summary": "s"}]
    # which a model would read otherwise
    assert load_rows(way, rows) == [{"document": "d", "summary": "s"}]


@WAYS
def test_columns_in_the_way_of_a_list_give_way(load_rows, way):
    rows = [{"document": "d", "documents": ["x"], "passages": ["y", "z"], "summary": "s"}]
    assert load_rows(way, rows, text_column="passages", lists=["documents"]) == [
        {"document": "y\n\nz", "documents": ["y", "z"], "summary": "s"}
    ]


@WAYS
def test_blank_documents_are_left_out(load_rows, way, caplog):
    rows = [
        {"documents": ["one", " \n", None, "two"], "summary": "s"},
        {"documents": ["", "\u200b"], "summary": "s"},
        {"documents": [], "summary": "s"},
        {"documents": None, "summary": "s"},
    ]
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        assert load_rows(way, rows) == [{"document": "one\n\ntwo", "documents": ["one", "two"], "summary": "s"}]
    (record,) = caplog.records
    assert "3 of 4 rows have a blank document or summary" in record.message


def test_lone_surrogates_in_documents(load_rows):
    assert load_rows("json", [{"documents": ["a\ud83d"], "summary": "s"}])[0]["document"] == "a\ufffd"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([CLUSTERS[0], {"documents": ["a", 7], "summary": "s"}], r"line 2: 'documents' must be text, but is a list"),
        ([CLUSTERS[0], {"documents": [[[7]]], "summary": "s"}], r"line 2: 'documents' must be text, but is a list"),
        ([CLUSTERS[0], {"documents": "a", "summary": "s"}], r"line 2: 'documents' is str, unlike in other rows: 'a'"),
        ([ROWS[0], {"document": ["a"], "summary": "s"}], r"line 2: 'document' is list, unlike in other rows"),
        ([{"documents": {"a": "b"}, "summary": "s"}], r"line 1: 'documents' must be text, but is dict"),
    ],
)
def test_documents_that_are_no_texts(load_rows, rows, message):
    with pytest.raises(ValueError, match=message):
        load_rows("jsonl", rows)


def test_documents_by_name_that_are_no_texts(load_rows):
    with pytest.raises(ValueError, match=r"train, row 0: 'documents' must be text, but is a list with int: 1"):
        load_rows("name", [{"documents": [1, 2], "summary": "s"}])


# references


@WAYS
def test_the_first_reference_is_the_summary(load_rows, way):
    rows = [{"document": "d", "references": ["first", "second"]}, {"document": "e", "references": ["", "only"]}]
    assert load_rows(way, rows) == [
        {"document": "d", "summary": "first", "references": ["first", "second"]},
        {"document": "e", "summary": "only", "references": ["only"]},
    ]


@pytest.mark.parametrize(
    ("meaning", "summaries"),
    [
        ("sentences", ["प्रधानमंत्री ने सड़क का उद्घाटन किया।", "किसानों ने शिकायत दर्ज कराई।", "नदी का जलस्तर बढ़ गया।"]),
        ("references", ["प्रधानमंत्री ने सड़क का उद्घाटन किया।", "सड़क का प्रधानमंत्री ने शुभारंभ किया।"]),
        ("sentences", ["총리가 도로를 개통했다.", "농민들이 가격에 항의했다.", "비로 강물이 불었다."]),
        ("references", ["총리가 도로를 개통했다.", "도로를 총리가 개통했다고 밝혔다."]),
    ],
)
def test_lists_are_told_by_words_of_any_script(meaning, summaries):
    lists = Lists("summary", "highlights")
    lists.add(summaries)
    assert lists.meaning == meaning


@WAYS
def test_references_beside_a_summary_stay_as_they_are(load_rows, way):
    rows = [
        {"document": "d", "summary": "own", "references": ["first", "second"]},
        {"document": "e", "summary": "own", "references": None},
    ]
    assert load_rows(way, rows) == rows


@WAYS
def test_references_come_before_a_title_and_after_other_summaries(load_rows, way):
    row = {"document": "d", "references": ["r"], "title": "t"}
    assert load_rows(way, [row])[0]["summary"] == "r"
    if way == "jsonl":
        assert load_rows(way, [{**row, "highlights": "h"}])[0]["summary"] == "h"


@WAYS
def test_a_list_of_summaries_under_another_name_becomes_references(load_rows, way):
    rows = [{"source": ["One.", "Two."], "target": ["a", "b"], "summary": "other"}]
    columns = {"text_column": "source", "summary_column": "target"}
    assert load_rows(way, rows, **columns, lists=["documents", "references"]) == [
        {"document": "One.\n\nTwo.", "documents": ["One.", "Two."], "summary": "a", "references": ["a", "b"]}
    ]


def test_rows_without_any_reference_are_blank(load_rows):
    with pytest.raises(ValueError, match="all 2 rows have a blank document or summary"):
        load_rows("jsonl", [{"document": "d", "references": []}, {"document": "d", "references": [" "]}])


# with a cache


def test_lists_are_no_texts_to_the_cache(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": "d", "documents": ["x"], "summary": "s"}]))
    assert load(train_file=file)["train"]["document"][:] == ["d"]
    assert load(train_file=file, text_column="documents")["train"]["document"][:] == ["x"]
    assert load(train_file=file)["train"]["document"][:] == ["d"]


def test_other_code_does_not_use_the_cache(load, tmp_path, monkeypatch):
    file = write(tmp_path / "rows.jsonl", json_lines([{"document": ["A b.", "C d."], "summary": "s"}]))
    assert load(train_file=file)["train"]["document"][:] == ["A b. C d."]
    monkeypatch.setattr(loading, "hash_of_code", lambda files: "another")
    monkeypatch.setattr(loading, "joined_sentences", "|".join)
    assert load(train_file=file)["train"]["document"][:] == ["A b.|C d."]


# real sets


@reads_shared_data("neus_multidoc")
def test_real_clusters_of_three_documents(load):
    loaded = load(test_file=SHARED_DATA / "neus_multidoc" / "test.jsonl.gz")["test"]
    assert len(loaded) == 307
    assert all(row["document"] == "\n\n".join(row["documents"]) for row in loaded)
    assert {len(documents) for documents in loaded["documents"]} == {3}


@reads_shared_data("scitldr_a")
def test_real_rows_with_several_references(load):
    loaded = load(test_file=SHARED_DATA / "scitldr_a" / "test.jsonl.gz")["test"]
    assert len(loaded) == 618
    assert all(row["references"][0] == row["summary"] for row in loaded)
    assert {len(references) for references in loaded["references"]} == {2, 3, 4}
