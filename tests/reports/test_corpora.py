"""Corpora as others write them: lists, columns, separators, types and folders."""

import bz2
import gzip
import json
import lzma

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.common.hashes import content_hash
from hf_summ.data import Corpus, fit_vocabulary, load
from hf_summ.evaluation.text_files import read_references

SENTENCES = ["we study ferries on lakes .", "ferries float on water .", "we measure the waves ."]
HIGHLIGHTS = ["marby has a new library .", "it cost three million pounds ."]


def read_rows(tmp_path, name, text) -> list[dict]:
    """The rows that are read of a file with this text."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return load(Corpus(train_file=str(path)), str(tmp_path / "cache"))["train"].to_list()


def test_documents_and_paraphrases_are_no_sentences(tmp_path):
    texts = ["The mill burned. Two hours passed.", "A mill burned. It rained."]
    references = ["the old mill burned down", "a fire burned the mill down"]
    (row,) = read_rows(tmp_path, "a.jsonl", json.dumps({"article": texts, "highlights": references}))
    assert (row["documents"], row["references"]) == (texts, references)


TYPES_OF_TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("text_type", TYPES_OF_TEXT, ids=str)
def test_types_of_text_in_tables(tmp_path, text_type):
    texts = pa.array(["a b", "c d"]).cast(text_type)
    lists = pa.array([["r"], ["s", "t"]], pa.large_list(pa.large_string()))
    table = pa.table({"text": texts, "references": lists})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        loaded = load(Corpus(train_file=str(tmp_path / name)), str(tmp_path / "cache"))["train"]
        assert loaded["document"][:] == ["a b", "c d"]
        assert loaded["references"][:] == [["r"], ["s", "t"]]


CASES_OF_COMPRESSION = [
    ("a.jsonl", bytes),
    ("a.jsonl.gz", gzip.compress),
    ("a.jsonl.bz2", bz2.compress),
    ("a.jsonl.xz", lzma.compress),
]


@pytest.mark.parametrize(("name", "compress"), CASES_OF_COMPRESSION)
def test_names_and_compressions_of_rows(tmp_path, name, compress):
    # huggingface/datasets#2497
    content = compress(b'{"text": "a b", "summary": "a"}\n' * 9)
    (tmp_path / name).write_bytes(content)
    corpus = Corpus(train_file=str(tmp_path / name))
    assert load(corpus, str(tmp_path / "cache"))["train"]["document"][:] == ["a b"] * 9
    if compress is not bytes:
        (tmp_path / name).write_bytes(content[:-8])
        with pytest.raises(ValueError, match="cannot be read"):
            load(corpus, str(tmp_path / "cache"))


# maszhongming/Effective_Extractive_Summarization#1: labels of sentences beside an abstract
def test_abstracts_of_articles_are_references(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"article": ["a b ."], "abstract": ["a ."], "label": [0, 3]}))
    references = read_references(str(tmp_path / "a.jsonl"))
    assert references.column == "abstract"
    assert references.texts() == ["a ."]


def test_folders_that_datasets_saved(tmp_path):
    saved = datasets.Dataset.from_dict({"text": ["a b", "c d"], "summary": ["a", "c"]})
    saved.save_to_disk(tmp_path / "rows", num_shards=2)
    datasets.DatasetDict({"validation": saved}).save_to_disk(tmp_path / "splits")
    folder = str(tmp_path / "rows")
    for corpus in (Corpus(train_file=folder), Corpus(dataset_name=folder)):
        assert load(corpus, str(tmp_path / "cache"))["train"]["document"][:] == ["a b", "c d"]
    assert content_hash(folder) == content_hash(folder) != content_hash(tmp_path / "splits")
    # a split of another name was left out in silence
    datasets.DatasetDict({"training": saved, "val": saved, "testing": saved}).save_to_disk(tmp_path / "others")
    for name, splits in (("splits", ["validation"]), ("others", ["train", "validation", "test"])):
        loaded = load(Corpus(dataset_name=str(tmp_path / name)), str(tmp_path / "cache"))
        assert list(loaded) == splits
        assert loaded["validation"]["summary"][:] == ["a", "c"]


# wireservice/csvkit#426, thephpleague/csv#543: as of a sheet with empty columns
def test_empty_columns_of_sheets_have_no_names(tmp_path):
    (row,) = read_rows(tmp_path, "a.csv", "document,summary,,\nA ferry sank.,ferry sinks,,\n")
    assert (row["document"], row["summary"]) == ("A ferry sank.", "ferry sinks")


# huggingface/tokenizers#86, #497: a few damaged texts took the time of the whole corpus many times
def test_a_long_word_takes_linear_time():
    text = "ab" * 10**6
    tokenizer = fit_vocabulary([text], 300, show_progress=False)
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text


# huggingface/datasets#986, maszhongming/MatchSum#36: lists that pandas wrote were read as one text
@pytest.mark.parametrize("written", [json.dumps, str])
def test_lists_that_pandas_wrote_are_no_texts(tmp_path, written):
    field = '"' + written(["it's 1", "b"]).replace('"', '""') + '"'
    with pytest.raises(ValueError, match=r"a\.csv: column 'document' has lists that are written as text"):
        read_rows(tmp_path, "a.csv", f"document,summary\n{field},s\n")


# pandas-dev/pandas#21768, wireservice/csvkit: a row with more fields than the header shifted the columns
def test_fields_beyond_the_header_are_no_index(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv: cannot be read"):
        read_rows(tmp_path, "a.csv", "document,summary\nThe ferry, an old one, sank.,ferry sinks\n")
