"""Case and spacing wherever the texts of a model with `restore_case` leave it."""

import dataclasses
import json
from pathlib import Path

import httpx
import pytest
from transformers import AutoProcessor, pipeline

from hf_summ import DrgdProcessor
from hf_summ.cli import main
from hf_summ.data import fit_vocabulary
from hf_summ.data.vocabulary import fit_phrases
from tests.conftest import SENTENCES, run_python, save, word_piece_tokenizer
from tests.models.architectures import COPY_TRANSFORMER, EACH, build_with_processor
from tests.serving.conftest import served

# a copying model without graphs that ONNX lacks
PLAIN = dataclasses.replace(
    COPY_TRANSFORMER, settings={**COPY_TRANSFORMER.settings, "convolutional_attention": "none"}, variant="plain"
)
DOCUMENTS = [" ".join(SENTENCES), f"{SENTENCES[3]} It's Ana's \"crossing\", (4,000) cars - an hour.", "", SENTENCES[0]]
ALONE = """
import sys
sys.modules["hf_summ"] = None
from transformers import AutoProcessor
folder, document = sys.argv[1:]
processor = AutoProcessor.from_pretrained(folder, trust_remote_code=True)
print(*processor.restore(["the bridge of ana lopez"], [document]))
"""
ENDS = {"truncate": {}, "extract": {"long_documents": "extract"}, "windows": {"long_documents": "windows"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A saved CopyTransformer with an uncased vocabulary of word pieces, which reads 30 tokens."""
    folder = tmp_path_factory.mktemp("uncased")
    tokenizer = word_piece_tokenizer([*SENTENCES, *DOCUMENTS], 200)
    save(folder, *build_with_processor(PLAIN, tokenizer, max_source_length=30, restore_case=True))
    return folder


@pytest.fixture(scope="module")
def summarizer(folder):
    return pipeline("summarization", model=str(folder))


def unrestored(summarizer, documents, **settings) -> list[str]:
    """What the same pipeline writes without restoring anything."""
    processor = summarizer.processor
    processor.restore_case = False
    try:
        records = summarizer(documents, clean_up_tokenization_spaces=False, **settings)
    finally:
        processor.restore_case = True
    return [record["summary_text"] for record in records]


def texts(records: list[dict]) -> list[str]:
    return [record["summary_text"] for record in records]


@pytest.mark.parametrize("architecture", EACH)
def test_setting_is_saved_with_every_processor_and_refused_for_a_cased_vocabulary(architecture, tmp_path):
    uncased = fit_vocabulary(SENTENCES, 300, lowercase=True, show_progress=False)
    cased = fit_vocabulary(SENTENCES, 300, lowercase=False, show_progress=False)
    processor = architecture.processor(uncased, restore_case=True)
    processor.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "processor_config.json").read_text())["restore_case"] is True
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert (loaded.restore_case, loaded.is_uncased) == (True, True)
    assert loaded.restore(["the bridge, 12 euros of lopez"], DOCUMENTS[:1]) == ["The bridge, 12 euros of Lopez"]
    assert architecture.processor(uncased).restore(["of lopez"], DOCUMENTS[:1]) == ["of lopez"]
    with pytest.raises(ValueError, match="`restore_case` is True, but the vocabulary is not in lower case: make one"):
        architecture.processor(cased, restore_case=True)


@pytest.mark.thorough
def test_a_saved_folder_restores_without_the_package(folder):
    output, _ = run_python("-c", ALONE, str(folder), *DOCUMENTS[:1])
    assert output.strip() == "The bridge of Ana Lopez"


def test_summaries_are_restored_from_their_own_examples(folder):
    processor = AutoProcessor.from_pretrained(folder)
    documents = [["of Ana's naïve", "a NAÏVE (B)"], "Naive", ["NAÏVE it's", "NAÏVE"]]
    summaries = ["a naive ( b )", "naive ana ' s", "it naive", "naive", "a naive", "it ' s"]
    written = ["A NAÏVE (B)", "Naïve Ana's", "It naive", "Naive", "A NAÏVE", "It's"]
    assert processor.restore(summaries, documents) == written
    with pytest.raises(ValueError, match="5 sequences but 3 documents: each document needs the same number"):
        processor.restore(summaries[1:], documents)
    ids = processor(text_target=["Ana's crossing"])["labels"]
    decoded = processor.batch_decode(ids, skip_special_tokens=True)
    assert decoded == ["ana ' s crossing"]
    assert processor.restore(decoded, DOCUMENTS[1:2]) == ["Ana's crossing"]
    processor.restore_case = False
    assert processor.batch_decode(ids, skip_special_tokens=True) == ["ana's crossing"]


def test_washed_words_are_spelled_as_in_the_document():
    tokenizer = fit_vocabulary(["applewatch售价"], units="characters", min_frequency=1, show_progress=False)
    processor = DrgdProcessor(tokenizer, washing="lcsts", restore_case=True)
    assert processor.restore(["售价iphone"], ["iPhone 6 售价"]) == ["售价iPhone"]
    with pytest.raises(ValueError, match="`restore_case` is True, but the vocabulary is not in lower case"):
        DrgdProcessor(tokenizer, restore_case=True)


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_that_line_ends_split_are_whole_in_every_vocabulary(lowercase):
    corpus = ["Facebook and Microsoft are deep networks of Baseball."] * 3
    processor = DrgdProcessor(fit_vocabulary(corpus, lowercase=lowercase, show_progress=False))
    split = "Face-\nbook and Micro-\nsoft are deep-\nnetworks of Base-\nball."
    whole = "Facebook and Microsoft are deep-networks of Baseball."
    assert processor.clean_document(split) == whole
    # the state of a tokenizer, which threads share, stays
    state = processor.tokenizer.backend_tokenizer.encode_special_tokens
    processor.clean_document(split)
    assert processor.tokenizer.backend_tokenizer.encode_special_tokens == state


def test_words_that_line_ends_split_are_spelled_whole():
    document = "Nets by Micro-\nsoft read state-of-the-\nart titles."
    tokenizer = fit_vocabulary([document.lower()], lowercase=True, show_progress=False)
    processor = DrgdProcessor(tokenizer, restore_case=True)
    assert processor.restore(["nets by microsoft"], [document]) == ["Nets by Microsoft"]


def test_other_processors_take_the_setting_over(folder):
    assert fit_phrases(SENTENCES, AutoProcessor.from_pretrained(folder)).restore_case is True


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [*ENDS.values(), {"batch_size": 3}], ids=str)
def test_pipeline_restores_from_the_whole_document(summarizer, settings):
    wanted = unrestored(summarizer, DOCUMENTS, **settings)
    restored, changed = [], 0
    for text, document in zip(wanted, DOCUMENTS, strict=True):
        (restored_text,) = summarizer.processor.restore([text], [document])
        restored.append(restored_text)
        changed += restored_text != text
    assert texts(summarizer(DOCUMENTS, **settings)) == restored
    assert changed == 3
    assert texts(summarizer(DOCUMENTS[0], **settings)) == restored[:1]
    lazily = summarizer((document for document in DOCUMENTS), **settings)
    assert [record["summary_text"] for (record,) in lazily] == restored


@pytest.mark.thorough
def test_several_documents_and_several_sequences(summarizer):
    example = [DOCUMENTS[1], "CARS, CARS, CARS; ENGINEERS, ENGINEERS", ""]
    for settings in ENDS.values():
        (wanted,) = unrestored(summarizer, [example], **settings)
        assert texts(summarizer([example], **settings)) == summarizer.processor.restore([wanted], [example])
    beams = summarizer(DOCUMENTS[0], num_beams=3, num_return_sequences=3)
    alone = unrestored(summarizer, DOCUMENTS[0], num_beams=3, num_return_sequences=3)
    assert texts(beams) == summarizer.processor.restore(alone, DOCUMENTS[:1])
    assert "summary_text" not in summarizer(DOCUMENTS[0], return_tensors=True)[0]


@pytest.mark.thorough
def test_files_and_rows(folder, summarizer, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = texts(summarizer(DOCUMENTS))
    names = [f"{number}.txt" for number in range(len(DOCUMENTS))]
    for name, document in zip(names, DOCUMENTS, strict=True):
        Path(name).write_text(document)
    assert main(["summarize", *names, "--model", str(folder), "--format", "jsonl"]) == 0
    assert [json.loads(line)["summary"] for line in capsys.readouterr()[0].splitlines()] == wanted
    Path("rows.jsonl").write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS))
    rows = ["summarize", "rows.jsonl", "--text_column", "text", "--model", str(folder), "--output", "out"]
    assert main([*rows, "--format", "jsonl", "--batch_size", "2"]) == 0
    import datasets

    rows = datasets.load_dataset(str(tmp_path / "out"), split="train")
    assert [row["summary"] or "" for row in rows] == wanted


def test_an_explained_summary_is_printed_as_it_is_summarized(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(DOCUMENTS[0])
    # a prefix is no text whose spellings count
    settings = ["a.txt", "--model", str(folder), "--source_prefix", "BRIDGE EURO: "]
    assert main(["summarize", *settings]) == 0
    summary = capsys.readouterr().out
    assert summary != summary.lower()
    assert main(["explain", *settings, "--output", "page.html", "--json"]) == 0
    assert capsys.readouterr().out == summary
    # the page keeps the model's tokens
    page = json.loads(Path("page.json").read_text())
    assert page["summary"] == page["summary"].lower()


def test_service(summarizer):
    wanted = texts(summarizer(DOCUMENTS[:2]))
    answers = []
    with served(lambda: summarizer) as running:
        for document in DOCUMENTS[:2]:
            answer = httpx.post(running.address, json={"inputs": document}).json()
            answers.extend(texts(answer))
    assert answers == wanted


@pytest.mark.thorough
def test_onnx_runtime(folder, summarizer, tmp_path):
    assert main(["export", str(folder), "--to", "onnx", "--output", str(tmp_path / "onnx")]) == 0
    exported = pipeline("summarization", model=str(tmp_path / "onnx"), runtime="onnx")
    assert texts(exported(DOCUMENTS)) == texts(summarizer(DOCUMENTS))
