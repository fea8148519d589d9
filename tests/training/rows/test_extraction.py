"""The extractive stage before a run's model."""

import re

import datasets
import pytest
from transformers import AutoConfig, pipeline

from hf_summ import DrgdConfig, DrgdForConditionalGeneration, GdlfProcessor
from hf_summ.data import split_sentences
from hf_summ.data.loading import load as load_corpus
from hf_summ.data.vocabulary import fit_processor
from hf_summ.extractive import DocumentFrequencies
from hf_summ.training.folder.ledger import Ledger
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.rows import extraction
from hf_summ.training.rows.extraction import load_extraction
from hf_summ.training.rows.preparing import encode, whole_lengths
from hf_summ.training.run import main
from tests.conftest import SENTENCES, save
from tests.extractive.summaries import stage_extracts
from tests.training import tiny

UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
# the splits that are shortened, and the value of --extract_splits
CASES_OF_SPLITS = [(("train",), "train"), (("validation", "test"), "test"), (("train", "validation", "test"), "both")]


@pytest.fixture
def rows() -> datasets.Dataset:
    """Documents of ten sentences, and one without any words."""
    texts = [" ".join(SENTENCES + SENTENCES[place:] + SENTENCES[:place]) for place in range(5)]
    texts.append("…")
    examples = [{"id": text, "document": text, "summary": "s"} for text in texts]
    return datasets.Dataset.from_list(examples)


@pytest.fixture
def load(settings, tiny_tokenizer):
    """The stage that the flags ask for, and a function that applies it to a split."""

    def load_stage(corpus=None, **flags):
        arguments = parse_arguments([settings(**flags)])
        processor = tiny.processor(tiny_tokenizer)
        stage = load_extraction(arguments.data, arguments.model, processor, corpus or {})

        def shorten(rows: datasets.Dataset, split: str) -> datasets.Dataset:
            return stage.apply(rows, split, processor, arguments.data, arguments.model.cache_dir)

        return shorten

    return load_stage


def idf_file(tmp_path, texts: list[str]) -> str:
    DocumentFrequencies.fit(texts).save(tmp_path / "idf.json")
    return str(tmp_path / "idf.json")


def number_of_sentences(rows: datasets.Dataset) -> int:
    return sum(len(split_sentences(document)) for document in rows["document"])


@pytest.mark.filterwarnings("ignore:no `next_sentence_model` is given:UserWarning")
@pytest.mark.parametrize("kind", ["share", "tokens", "checked"])
def test_documents_become_what_the_stage_keeps_of_them(load, rows, tmp_path, bert_folder, tiny_tokenizer, caplog, kind):
    def count_tokens(sentences):
        return [len(tiny_tokenizer.tokenize(sentence)) for sentence in sentences]

    # flags of a run, and the arguments of the same stage in Python
    if kind == "share":
        flags = {"extract_share": 0.4}
        arguments = {"share": 0.4}
    elif kind == "tokens":
        idf = idf_file(tmp_path, SENTENCES)
        flags = {"extract_tokens": 90, "extract_idf": idf}
        arguments = {"tokens": 90, "counter": count_tokens, "idf": idf}
    else:
        flags = {"extract_share": 0.2, "next_sentence_model": bert_folder}
        arguments = {"share": 0.2, "next_sentence_model": bert_folder}
    caplog.set_level("INFO", "hf_summ")
    kept = load(**flags)(rows, "test")
    with pytest.warns(UserWarning, match="1 of 6 documents have no words"):
        assert kept["document"] == stage_extracts(rows["document"], **arguments)
    assert kept["id"] == rows["id"]
    assert kept["summary"] == rows["summary"]
    assert kept.column_names == rows.column_names
    assert (UNCHECKED in caplog.text) == (kind != "checked")
    share_of_sentences = number_of_sentences(kept) / number_of_sentences(rows)
    processor = tiny.processor(tiny_tokenizer)
    share_of_tokens = sum(whole_lengths(kept[:], processor, "")) / sum(whole_lengths(rows[:], processor, ""))
    shares = f"{share_of_sentences:.0%} of the sentences and {share_of_tokens:.0%} of the tokens"
    assert f"test: the extractive stage keeps {shares}" in caplog.text
    assert "test: 1 of 6 documents have no words and keep their first sentences (language 'en')" in caplog.text


@pytest.mark.filterwarnings("ignore:no `next_sentence_model` is given:UserWarning")
def test_documents_without_words_are_reported_where_only_warnings_are_shown(load, rows, caplog):
    caplog.set_level("WARNING", "hf_summ")
    load(extract_share=0.4)(rows, "test")
    assert "test: 1 of 6 documents have no words" in caplog.text
    assert "the extractive stage keeps" not in caplog.text


def test_documents_are_shortened_once(load, rows, tmp_path, monkeypatch):
    idf = idf_file(tmp_path, SENTENCES)
    expected = load(extract_share=0.4, extract_idf=idf)(rows, "train")["document"]
    shorten = extraction._shorten
    calls = []

    def counted_shorten(*arguments, **settings):
        calls.append(1)
        return shorten(*arguments, **settings)

    monkeypatch.setattr(extraction, "_shorten", counted_shorten)
    # a file of another name with the same content is the same
    (tmp_path / "same.json").write_bytes((tmp_path / "idf.json").read_bytes())
    kept = load(extract_share=0.4, extract_idf=str(tmp_path / "same.json"))(rows, "train")
    assert kept["document"] == expected
    assert not calls
    changed_idf = idf_file(tmp_path, SENTENCES * 2)
    for changes in ({"extract_share": 0.5}, {"extract_idf": changed_idf}, {"overwrite_cache": True}):
        load(**{"extract_share": 0.4, "extract_idf": idf} | changes)(rows, "train")
        assert calls.pop() == 1


def test_tokens_are_counted_as_the_pipeline_counts_them(settings, tmp_path):
    sentences = [f"{animals} 12 34 sleep." for animals in ("Cats", "Dogs", "Cows", "Hens")]
    document = " ".join(sentences)
    processor = fit_processor([document] * 2, units="characters", washing="lcsts")
    config = DrgdConfig(hidden_size=8, embedding_size=8)
    processor.align(config)
    save(tmp_path / "model", DrgdForConditionalGeneration(config), processor)
    # The washing leaves nine letters of a sentence, so two sentences fit.
    pipe = pipeline("summarization", str(tmp_path / "model"), long_documents="extract", extract_tokens=18)
    arguments = parse_arguments([settings(extract_tokens=18)])
    stage = load_extraction(arguments.data, arguments.model, processor, datasets.DatasetDict())
    rows = datasets.Dataset.from_dict({"document": [document], "summary": ["s"]})
    shortened = stage.apply(rows, "train", processor, arguments.data, str(tmp_path / "cache"))
    assert shortened["document"][:] == [f"{sentences[0]} {sentences[1]}"]
    (summary,) = pipe(document, return_details=True)
    assert [sentence["index"] for sentence in summary["details"]["sentences"]] == [0, 1]


@pytest.mark.parametrize(("splits", "flag"), CASES_OF_SPLITS)
def test_splits_that_are_shortened(load, rows, splits, flag):
    shorten = load(extract_share=0.1, extract_splits=flag)
    for split in ("train", "validation", "test"):
        is_shortened = shorten(rows, split)["document"] != rows["document"]
        assert is_shortened == (split in splits)


@pytest.mark.thorough
def test_a_run_reads_what_is_kept_and_says_so(settings, tmp_path, bert_folder, caplog):
    rows = [{"document": " ".join(SENTENCES * 2), "summary": f"s {place}"} for place in range(4)]
    files = {
        "train_file": tiny.write_rows(tmp_path / "train.jsonl", rows),
        "test_file": tiny.write_rows(tmp_path / "test.jsonl", rows),
    }
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
    # the model notes the settings, without names of files, for a comparison with whole texts at inference
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
    with pytest.raises(ValueError, match=r"^the document frequencies are for language 'de', but"):
        tiny.check([settings(extract_share=0.5, extract_idf=str(tmp_path / "idf.json"))])


def test_examples_of_several_documents(load):
    rows = datasets.Dataset.from_list([{"document": "A.\n\nB.", "documents": ["A.", "B."], "summary": "s"}])
    load(datasets.DatasetDict(test=rows), extract_share=0.5, extract_splits="train")
    with pytest.raises(ValueError, match=r"^--extract_splits: the examples of train have several documents each"):
        load(datasets.DatasetDict(train=rows), extract_share=0.5, extract_splits="train")


def tagged_words(text: str) -> list[list[str]]:
    """Words with a tag: X of words that begin with a capital, otherwise Y."""
    pairs = []
    for word in text.split():
        tag = "X" if word.istitle() else "Y"
        pairs.append([word, tag])
    return pairs


@pytest.mark.thorough
def test_a_run_reads_a_column_of_tags(settings, tmp_path, tiny_tokenizer):
    """Shortened documents keep the tags of their sentences; see tests/models/test_own_tags.py."""
    texts = [" ".join(SENTENCES[place:] + SENTENCES[:place]) for place in range(4)]
    rows = [{"document": text, "summary": "s", "word_tags": tagged_words(text)} for text in texts]
    processor = GdlfProcessor(tiny_tokenizer, tagger=None, tag_vocabulary=["X", "Y"], max_source_length=400)
    processor.save_pretrained(tmp_path / "tags")
    files = {"train_file": tiny.write_rows(tmp_path / "train.jsonl", rows), "validation_file": None}
    files["tokenizer_name"] = str(tmp_path / "tags")
    model = {"config_overrides": {**tiny.MODEL, "tags": "pos"}, "max_steps": 1}
    main([settings(**files, **model)])
    arguments = parse_arguments([settings(**files, **model, extract_share=0.2)])
    corpus = load_corpus(arguments.corpus)
    stage = load_extraction(arguments.data, arguments.model, processor, corpus)
    shortened = stage.apply(corpus["train"], "train", processor, arguments.data, str(tmp_path / "cache"))
    for document, text in zip(shortened["document"], texts, strict=True):
        assert 0 < len(document.split()) < len(text.split())
    tag_ids = encode(shortened[:], processor, (400, 10), "")["tag_ids"]
    word_tags = [tagged_words(document) for document in shortened["document"]]
    assert tag_ids == processor(shortened["document"], word_tags=word_tags)["tag_ids"]
    assert len(set(tag_ids[0])) > 3
