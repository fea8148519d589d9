"""`hf-summ vocabulary` on files of every kind."""

import dataclasses
import json
import re

import pytest
import spacy
from transformers import AutoModel, AutoProcessor, AutoTokenizer, BertConfig, BertModel

from hf_summ.cli import main
from hf_summ.data.corpora import Reading
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.data.files import json_lines, write, write_csv
from tests.models.architectures import TINY_BERT

ROWS = [{"document": f"{sentence} Ana said so.", "summary": sentence[:30]} for sentence in SENTENCES]
SMALL = ("--vocab_size", "300", "--tags", "none")


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    """The same rows in every kind of file."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.jsonl", json_lines(ROWS))
    write(tmp_path / "rows.jsonl.gz", json_lines(ROWS))
    write_csv(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "one.jsonl", json_lines([{"document": "The bridge opened."}]))
    write(tmp_path / "chinese.jsonl", json_lines([{"document": "市长打开了新桥。", "summary": "新桥"}]))


@pytest.mark.parametrize("file", ["rows.jsonl.gz", "rows.csv"])
def test_every_kind_of_file_gives_the_same_vocabulary(run, tmp_path, file):
    run("vocabulary", "rows.jsonl", *SMALL, "--output", "expected")
    output, _ = run("vocabulary", file, *SMALL, "--output", "made")
    assert output == "made: 300 subwords, word tags: none\n"
    assert (tmp_path / "made/tokenizer.json").read_text() == (tmp_path / "expected/tokenizer.json").read_text()


def test_the_corpus_may_be_as_it_is_distributed(run, tmp_path):
    (tmp_path / "newsroom").mkdir()
    rows = []
    for row, density in zip(ROWS, ["abstractive", "abstractive", "mixed", "extractive", "mixed"], strict=True):
        rows.append({"text": row["document"], "summary": row["summary"], "density_bin": density})
    write(tmp_path / "newsroom" / "train.jsonl.gz", json_lines(rows))
    write(tmp_path / "abstractive.jsonl", json_lines(ROWS[:2]))
    run("vocabulary", "abstractive.jsonl", *SMALL, "--output", "expected")
    flags = ("--data_format", "newsroom", "--density_bin", "abstractive", "--output", "made")
    run("vocabulary", "newsroom", *SMALL, *flags)
    assert (tmp_path / "made/tokenizer.json").read_text() == (tmp_path / "expected/tokenizer.json").read_text()


def test_processor_without_tags_in_lower_case(run):
    run("vocabulary", "rows.jsonl", *SMALL, "--lowercase", "--max_source_length", "9", "--output", "made")
    processor = AutoProcessor.from_pretrained("made")
    assert set(processor(SENTENCES[0])) == {"input_ids", "attention_mask"}
    assert processor(SENTENCES[0]).data == processor(SENTENCES[0].upper()).data
    assert (len(processor(SENTENCES[0])["input_ids"]), processor.max_target_length) == (9, 150)
    assert processor.restore_case is False
    for output, flags in (("lower", ["--lowercase"]), ("washed", ["--washing", "lcsts"])):
        run("vocabulary", "rows.jsonl", *SMALL, *flags, "--restore_case", "--output", output)
        assert AutoProcessor.from_pretrained(output).restore_case is True


@pytest.mark.thorough
def test_a_tagger_of_ones_own_is_found_from_everywhere(run, tmp_path, monkeypatch):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("ner").add_label("PER")
    pipeline.initialize()
    pipeline.to_disk("tagger")
    run("vocabulary", "rows.jsonl", "--vocab_size", "300", "--tags", "ner", "--tagger", "tagger", "--output", "made")
    monkeypatch.chdir("/")
    processor = AutoProcessor.from_pretrained(tmp_path / "made")
    assert processor.word_tags == ["PER", "NONE"]
    assert len(processor(SENTENCES[0])["tag_ids"]) == len(processor(SENTENCES[0])["input_ids"])


def test_processor_with_tags(run):
    output, _ = run("vocabulary", "rows.jsonl", "--vocab_size", "300", "--output", "made")
    assert output == "made: 300 subwords, word tags: 50\n"
    processor = AutoProcessor.from_pretrained("made")
    # the tags of the English pipelines are the processor's own default
    assert (processor.tags, processor.tag_vocabulary) == ("pos", None)
    encoded = processor(SENTENCES[0])
    assert len(encoded["tag_ids"]) == len(encoded["input_ids"])


@pytest.mark.parametrize("units", ["words", "ideographs", "characters"])
def test_other_units(run, units):
    settings = ("--units", units, "--lowercase", "--digits_as_hash", "--min_frequency", "1", "--tags", "none")
    output, _ = run("vocabulary", "rows.jsonl", *settings, "--output", "made")
    processor = AutoProcessor.from_pretrained("made")
    assert output == f"made: {len(processor.tokenizer)} {units}, word tags: none\n"
    ids = processor(text_target=SENTENCES[1])["labels"]
    assert processor.decode(ids, skip_special_tokens=True) == (
        "the bridge cost ## million euros and took three years to build."
    )
    unit = r"\S" if units == "characters" else r"\w+|[^\w\s]"
    assert len(ids) == len(re.findall(unit, SENTENCES[1])) + 1


def test_words_of_prefixes_are_counted(run, tmp_path):
    rows = []
    for number, row in enumerate(ROWS[:4]):
        rows.append({**row, "task": "tldr: " if number % 2 else "title: "})
    write(tmp_path / "tasks.jsonl", json_lines([*rows, {**ROWS[4], "task": None}]))
    settings = ("tasks.jsonl", "--units", "words", "--tags", "none", "--prefix_column", "task")
    run("vocabulary", *settings, "--output", "made")
    tokenizer = AutoProcessor.from_pretrained("made").tokenizer
    tokens = [token.lstrip("▁") for token in tokenizer.tokenize("title: tldr: none")]
    assert tokens == ["title", ":", "tldr", ":", "<unk>"]


def test_pruned_bert_is_a_checkpoint_and_its_tokenizer(run):
    tokenizer = word_piece_tokenizer([row["document"] for row in ROWS], 200)
    tokenizer.save_pretrained("bert")
    BertModel(BertConfig(**TINY_BERT | {"vocab_size": len(tokenizer)})).save_pretrained("bert")
    output, _ = run("vocabulary", "rows.jsonl", "--prune_bert", "bert", "--min_frequency", "5", "--output", "in/made")
    pruned = AutoTokenizer.from_pretrained("in/made")
    assert output == f"in/made: {len(pruned)} of BERT's {len(tokenizer)} subwords\n"
    assert len(pruned) < len(tokenizer)
    assert AutoModel.from_pretrained("in/made").config.vocab_size == len(pruned)
    # a frequent word, a rare one, and one whose character is absent
    assert pruned.tokenize("ana took %") == ["ana", "t", "##o", "##o", "##k", "[UNK]"]


def test_options_of_reading_are_those_of_the_corpus(capsys):
    with pytest.raises(SystemExit):
        main(["vocabulary", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(Reading):
        assert re.search(rf"--{field.name} .{{1,80}} {re.escape(field.metadata['help'])}", text)
    assert "tokens (default: 30000)" in text


CASES_OF_REFUSED_VOCABULARIES = [
    (["rows.jsonl", "--vocab_size", "100"], "--vocab_size is 100, but must be at least 261"),
    (["rows.jsonl", "--units", "words", "--vocab_size", "4"], "--vocab_size is 4, but must be at least 6"),
    (["rows.jsonl", "--max_source_length", "1"], "--max_source_length 1: must be at least 2"),
    (["rows.jsonl", "--text_column", "documnt"], "rows.jsonl: no column 'documnt'; the columns are document"),
    (["one.jsonl"], "one.jsonl: no summary column; there are no other columns$"),
    (["rows.jsonl", "--tags", "pos", "--tagger", "xx_none"], "the spaCy pipeline 'xx_none' is not installed"),
    (["chinese.jsonl", "--tags", "pos"], r"2 of 2 documents are mostly in another script \(CJK\)"),
    (["rows.jsonl", "--washing", "lcsts", "--tags", "pos"], "--tags pos: has no effect beside --washing lcsts"),
    (
        ["rows.jsonl", "--prune_bert", "x", "--units", "words", "--tags", "none"],
        "--units: has no effect beside --prune_bert x, which only removes subwords: omit it",
    ),
    (["rows.jsonl", "--restore_case"], "--restore_case: needs --lowercase or --washing"),
    (["rows.jsonl", "--output", "rows.csv"], "--output rows.csv: must be a new or empty folder"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_VOCABULARIES)
def test_what_cannot_work_is_told_and_nothing_written(refusal, tmp_path, argv, message):
    assert re.search(message, refusal("vocabulary", "--output", "made", "--tags", "none", *argv))
    assert not (tmp_path / "made").exists()


@pytest.mark.thorough
def test_tags_of_a_column_are_the_vocabulary(run, tmp_path):
    """Such a corpus was tagged by another program; its tags are pairs, or the same as a JSON text."""
    rows_of_pairs, rows_of_json, tags = [], [], set()
    for row in ROWS:
        pairs = [(word, f"T{len(word)}") for word in row["document"].split()]
        rows_of_pairs.append({**row, "word_tags": pairs})
        rows_of_json.append({**row, "word_tags": json.dumps(pairs)})
        tags.update(tag for _, tag in pairs)
    expected = sorted(tags)
    for folder, rows in (("pairs", rows_of_pairs), ("json", rows_of_json)):
        write(tmp_path / "tagged.jsonl", json_lines(rows))
        output, notes = run("vocabulary", "tagged.jsonl", *SMALL[:2], "--output", folder)
        assert output.endswith(f"word tags: {len(expected)}\n")
        assert "no --tagger: word tags are those in the column word_tags" in notes
        processor = AutoProcessor.from_pretrained(tmp_path / folder)
        assert (processor.tagger, processor.word_tags) == (None, expected)
    run("vocabulary", "tagged.jsonl", *SMALL[:2], "--tagger", "en_core_web_sm", "--output", "spacy")
    assert AutoProcessor.from_pretrained(tmp_path / "spacy").tagger == "en_core_web_sm"
