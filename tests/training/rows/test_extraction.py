"""The extractive stage before a run's model."""

import re

import datasets
import pytest
from transformers import AutoConfig

from hf_summ import GdlfProcessor
from hf_summ.data import split_sentences
from hf_summ.data.loading import load as load_corpus
from hf_summ.extractive import DocumentFrequencies
from hf_summ.training.folder.ledger import Ledger
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.rows import extraction
from hf_summ.training.rows.extraction import load_extraction
from hf_summ.training.rows.preparing import encode, whole_lengths
from hf_summ.training.run import main
from tests.conftest import SENTENCES
from tests.extractive.summaries import stage_extracts
from tests.training import tiny

UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
SHORTENED = {("train",): "train", ("validation", "test"): "test", ("train", "validation", "test"): "both"}


@pytest.fixture
def rows() -> datasets.Dataset:
    """Documents of ten sentences, and one without any words."""
    texts = [" ".join([*SENTENCES, *SENTENCES[place:], *SENTENCES[:place]]) for place in range(5)]
    return datasets.Dataset.from_list([{"id": str(text), "document": text, "summary": "s"} for text in [*texts, "…"]])


@pytest.fixture
def load(settings, tiny_tokenizer):
    """The stage of flags, with the flags and the processor."""

    def loaded(corpus=None, **flags):
        arguments, processor = parse_arguments([settings(**flags)]), tiny.processor(tiny_tokenizer)
        data, model = arguments.data, arguments.model
        return load_extraction(data, model, processor, corpus or {}), processor, data, model.cache_dir

    return loaded


def idf_file(tmp_path, texts: list[str]) -> str:
    DocumentFrequencies.fit(texts).save(tmp_path / "idf.json")
    return str(tmp_path / "idf.json")


@pytest.mark.filterwarnings("ignore:no `next_sentence_model` is given:UserWarning")
@pytest.mark.parametrize("kind", ["share", "tokens", "checked"])
def test_documents_become_what_the_stage_keeps_of_them(load, rows, tmp_path, bert_folder, tiny_tokenizer, caplog, kind):
    idf = idf_file(tmp_path, SENTENCES)

    def counter(sentences):
        return [len(tiny_tokenizer.tokenize(sentence)) for sentence in sentences]

    flags, same = {
        "share": ({"extract_share": 0.4}, {"share": 0.4}),
        "tokens": ({"extract_tokens": 90, "extract_idf": idf}, {"tokens": 90, "counter": counter, "idf": idf}),
        "checked": (
            {"extract_share": 0.2, "next_sentence_model": bert_folder},
            {"share": 0.2, "next_sentence_model": bert_folder},
        ),
    }[kind]
    caplog.set_level("INFO", "hf_summ")
    stage, processor, *others = load(**flags)
    kept = stage.apply(rows, "test", processor, *others)
    with pytest.warns(UserWarning, match="1 of 6 documents have no words"):
        assert kept["document"] == stage_extracts(rows["document"], **same)
    assert (kept["id"], kept["summary"], kept.column_names) == (rows["id"], rows["summary"], rows.column_names)
    assert (UNCHECKED in caplog.text) == (kind != "checked")
    sentences = [sum(len(split_sentences(text)) for text in part["document"]) for part in (kept, rows)]
    tokens = [sum(whole_lengths(part[:], processor, "")) for part in (kept, rows)]
    assert (
        f"test: the extractive stage keeps {sentences[0] / sentences[1]:.0%} of the sentences and "
        f"{tokens[0] / tokens[1]:.0%} of the tokens"
    ) in caplog.text
    assert "test: 1 of 6 documents have no words and keep their first sentences (language 'en')" in caplog.text


def test_documents_are_shortened_once(load, rows, tmp_path, monkeypatch):
    idf = idf_file(tmp_path, SENTENCES)
    stage, *others = load(extract_share=0.4, extract_idf=idf)
    before = stage.apply(rows, "train", *others)["document"]
    plain = extraction._shorten
    calls = []
    monkeypatch.setattr(extraction, "_shorten", lambda *args, **kwargs: calls.append(1) or plain(*args, **kwargs))
    # a file of another name with the same content is the same
    (tmp_path / "same.json").write_bytes((tmp_path / "idf.json").read_bytes())
    again, *others = load(extract_share=0.4, extract_idf=str(tmp_path / "same.json"))
    assert again.apply(rows, "train", *others)["document"] == before
    assert not calls
    other_idf = idf_file(tmp_path, SENTENCES * 2)
    for changes in ({"extract_share": 0.5}, {"extract_idf": other_idf}, {"overwrite_cache": True}):
        other, *others = load(**{"extract_share": 0.4, "extract_idf": idf} | changes)
        other.apply(rows, "train", *others)
        assert calls.pop() == 1


@pytest.mark.parametrize(("splits", "flag"), SHORTENED.items())
def test_splits_that_are_shortened(load, rows, splits, flag):
    stage, *others = load(extract_share=0.1, extract_splits=flag)
    for split in ("train", "validation", "test"):
        assert (stage.apply(rows, split, *others)["document"] != rows["document"]) == (split in splits)


@pytest.mark.thorough
def test_a_run_reads_what_is_kept_and_says_so(settings, tmp_path, bert_folder, caplog):
    rows = [{"document": " ".join(SENTENCES * 2), "summary": f"s {place}"} for place in range(4)]
    files = {f"{split}_file": tiny.write_rows(tmp_path / f"{split}.jsonl", rows) for split in ("train", "test")}
    flags = {"extract_share": 0.2, "extract_idf": idf_file(tmp_path, SENTENCES), "next_sentence_model": bert_folder}
    path = settings(**files, **flags, validation_file=None, do_predict=True, max_steps=2, max_source_length=400)
    main([path])
    assert re.search(r"train: the extractive stage keeps \d\d% of the sentences and \d\d% of the tokens", caplog.text)
    command = Ledger(tmp_path / "out").steps["train"]
    assert flags.items() <= command["settings"].items()
    assert command["data"]["train"]["extraction"] == command["data"]["test"]["extraction"]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Documents were shortened by the consistent extractive stage (Aksenov 2020, section 4.1)" in card
    assert "\nextract_share: 0.2\n" in card
    # what whole texts are compared with at inference, without names of files
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert config.extraction == {"extract_share": 0.2, "extract_idf": True, "next_sentence_model": True}
    # other frequencies are another training
    idf_file(tmp_path, SENTENCES * 2)
    with pytest.raises(ValueError, match="its run has other settings"):
        main([path])


CASES_OF_WRONG_FLAGS = [
    ({"extract_share": 1.5}, "^--extract_share 1.5: must be at most 1$"),
    ({"extract_share": 0.5, "extract_tokens": 9}, "^--extract_share 0.5: has no effect beside --extract_tok"),
    ({"next_sentence_model": "bert"}, "^--next_sentence_model bert: needs --extract_share or --extract_tokens$"),
    ({"extract_splits": "test"}, "^--extract_splits test: needs --extract_share or --extract_tokens$"),
    ({"extract_share": 0.5, "extract_idf": "no.json"}, "^no.json is not a file written by `hf-s"),
    ({"extract_share": 0.5, "next_sentence_model": "no"}, "^no cannot be loaded as a next-"),
]


@pytest.mark.parametrize(("flags", "message"), CASES_OF_WRONG_FLAGS)
def test_wrong_flags_are_reported_before_anything_starts(settings, flags, message):
    with pytest.raises(ValueError, match=message):
        tiny.check([settings(**flags)])


def test_frequencies_of_another_language(settings, tmp_path):
    DocumentFrequencies({}, 2, "de").save(tmp_path / "idf.json")
    with pytest.raises(ValueError, match=r"^the document frequencies are of language 'de', but"):
        tiny.check([settings(extract_share=0.5, extract_idf=str(tmp_path / "idf.json"))])


def test_examples_of_several_documents(load):
    rows = datasets.Dataset.from_list([{"document": "A.\n\nB.", "documents": ["A.", "B."], "summary": "s"}])
    load(datasets.DatasetDict(test=rows), extract_share=0.5, extract_splits="train")
    with pytest.raises(ValueError, match=r"^--extract_splits: the examples of train have several documents each"):
        load(datasets.DatasetDict(train=rows), extract_share=0.5, extract_splits="train")


@pytest.mark.thorough
def test_a_run_reads_a_column_of_tags(settings, tmp_path, tiny_tokenizer):
    """With the tags of the kept sentences, if documents are shortened; see tests/models/test_own_tags.py."""
    texts = [" ".join([*SENTENCES[place:], *SENTENCES[:place]]) for place in range(4)]
    tags = [[[word, "X" if word.istitle() else "Y"] for word in text.split()] for text in texts]
    rows = [{"document": text, "summary": "s", "word_tags": pairs} for text, pairs in zip(texts, tags, strict=True)]
    processor = GdlfProcessor(tiny_tokenizer, tagger=None, tag_vocabulary=["X", "Y"], max_source_length=400)
    processor.save_pretrained(tmp_path / "tags")
    files = {"train_file": tiny.write_rows(tmp_path / "train.jsonl", rows), "validation_file": None}
    files["tokenizer_name"] = str(tmp_path / "tags")
    model = {"config_overrides": {**tiny.MODEL, "tags": "pos"}, "max_steps": 1}
    main([settings(**files, **model)])
    arguments = parse_arguments([settings(**files, **model, extract_share=0.2)])
    corpus = load_corpus(arguments.corpus)
    stage = load_extraction(arguments.data, arguments.model, processor, corpus)
    short = stage.apply(corpus["train"], "train", processor, arguments.data, str(tmp_path / "cache"))
    found = encode(short[:], processor, (400, 10), "")
    for row, text in zip(short, texts, strict=True):
        assert 0 < len(row["document"].split()) < len(text.split())
    direct = [[[word, "X" if word.istitle() else "Y"] for word in row["document"].split()] for row in short]
    assert found["tag_ids"] == processor(short["document"], word_tags=direct)["tag_ids"]
    assert len(set(found["tag_ids"][0])) > 3
