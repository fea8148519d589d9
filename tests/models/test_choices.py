"""The last step of the bundled `arxiv-tldr`: learning which sentences readers choose."""

import gzip
import importlib.util
import json
import re

import pytest

from hf_summ.models.text_candidates import sentence_candidates
from tests.conftest import ROOT, SENTENCES, save
from tests.models.architectures import DRGD, build_with_processor

SCRIPT = ROOT / "choices" / "learn.py"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("learn", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def write_choices(script, file, documents):
    """Write the choices of a reader who always takes the last candidate, and calls the first one bad."""
    rows = []
    for document in documents:
        hashes = [script.hash_of(sentence, 6) for sentence in sentence_candidates(document)]
        rows.append(
            {
                "document": script.hash_of(document, 16),
                "seen": hashes,
                "best": hashes[-1],
                "good": [],
                "bad": hashes[:1],
                "fault": False,
            }
        )
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row) + "\n")


def test_a_model_learns_what_readers_choose(script, tiny_tokenizer, tmp_path, monkeypatch):
    first, *others, last = SENTENCES
    documents = [f"{first} {sentence} {last}" for sentence in others] * 8
    monkeypatch.setattr(script, "CHOICES", tmp_path / "choices.jsonl.gz")
    monkeypatch.setattr(script, "HELD_OUT", 4)
    # a tiny model learns fast
    monkeypatch.setattr(script, "LEARNING_RATE", 3e-2)
    monkeypatch.setattr(script, "EPOCHS", 12)
    write_choices(script, script.CHOICES, documents)
    model, processor = build_with_processor(DRGD, tiny_tokenizer)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"document": document}) + "\n" for document in documents))
    arguments = [save(tmp_path / "model", model, processor), str(tmp_path / "learned"), str(data)]
    monkeypatch.setattr("sys.argv", ["learn.py", *arguments])
    script.main()
    learner = script.Learner(str(tmp_path / "learned"))
    choices = list(script.choices_of(script.documents_of([str(data)])))
    assert len(choices) == len(documents)
    # this learner has the first weights of features, so that the checkpoint alone learned the choices
    assert learner.agreement(choices) == "best 1.000, best or good 1.000, bad 0.000"


def test_the_file_of_choices_has_hashes_alone(script):
    with gzip.open(script.CHOICES, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 3010
    for row in rows:
        assert list(row) == ["document", "seen", "best", "good", "bad", "fault"]
        assert re.fullmatch("[0-9a-f]{16}", row["document"])
        for sentence in row["seen"] + row["good"] + row["bad"]:
            assert re.fullmatch("[0-9a-f]{6}", sentence)
        assert row["best"] in row["seen"]
