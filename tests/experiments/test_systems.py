"""The jobs of rows, and one run for all rows that share it."""

import json
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml
from filelock import FileLock
from safetensors.numpy import save_file
from transformers import AutoProcessor, AutoTokenizer

from hf_summ.experiments import facts, scales, systems
from hf_summ.experiments.facts import TrainerState, extraction_of, training_seconds
from hf_summ.experiments.jobs import Job, JobFailed
from hf_summ.experiments.scales import load_scale
from hf_summ.experiments.scoring import Outcome
from hf_summ.experiments.settings import decoding_fingerprint, decoding_settings, split_files
from hf_summ.experiments.systems import plan, run_all
from hf_summ.experiments.tables import Row, SecondRun
from hf_summ.experiments.workplace import dataset_settings, read_corpus, rows_to_summarize, with_split
from hf_summ.extractive import DocumentFrequencies
from tests.data.files import lines, write
from tests.experiments.made_up import TRANSFORMER, table, workplace, write_data
from tests.training import tiny

DC = Row("DC", config_overrides=TRANSFORMER)


@pytest.fixture
def place(tmp_path):
    """A workplace at the scale tiny without progress messages."""
    return workplace(tmp_path / "out", table(tmp_path))


def replaced(place, **changes):
    """The same workplace with other values."""
    return workplace(place.folder, place.table, **changes)


def planned(place, row):
    """The system of a row on its own."""
    (system,) = plan(place, [row], "xsum")
    return system


def fitted_sizes(place):
    """How many tokens each fitted vocabulary has."""
    files = place.folder.glob("processors/*/tokenizer.json")
    return sorted(len(json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]) for file in files)


def test_made_up_news_and_vocabulary_are_made_once(place):
    said = []
    place = replaced(place, announce=said.append)
    rows = [DC, Row("more", config_overrides={**TRANSFORMER, "d_model": 48})]
    first, second = (system.training for system in plan(place, rows, "xsum"))
    assert said == ["fitting subwords to the training documents: vocab_size 700, lowercase True, tags none"]
    assert first.settings["tokenizer_name"] == second.settings["tokenizer_name"]
    assert first.folder != second.folder
    assert fitted_sizes(place) == [700]
    corpus = read_corpus(first.settings)
    assert {split: len(rows) for split, rows in corpus.items()} == {"train": 200, "validation": 20, "test": 40}
    assert (first.settings["language"], first.settings["do_train"], first.settings["do_predict"]) == ("en", True, False)


@pytest.mark.parametrize("by", ["row", "user"])
def test_size_of_the_vocabulary_may_be_said_by_row_and_user(place, by):
    overrides = {"vocab_size": 400}
    if by == "row":
        system = planned(place, Row("DC", config_overrides={**TRANSFORMER, **overrides}))
    else:
        system = planned(replaced(place, extra={"config_overrides": overrides}), DC)
    assert system.problem is None
    assert fitted_sizes(place) == [400]


def test_scale_may_have_a_vocabulary_of_words(place, tmp_path, monkeypatch):
    scale = load_scale("gdlf", "tiny")
    vocabulary = {"vocab_size": 60, "units": "words", "digits_as_hash": True}
    (tmp_path / "scales").mkdir()
    entry = {"config_overrides": scale.config_overrides, "vocabulary": vocabulary, "toy_news": scale.toy_news}
    (tmp_path / "scales" / "gdlf.yaml").write_text(yaml.safe_dump({"tiny": entry}), encoding="utf-8")
    monkeypatch.setattr(scales, "configs_folder", lambda: tmp_path)
    said = []
    system = planned(replaced(place, announce=said.append), DC)
    assert said == ["fitting words to the training documents: vocab_size 60, digits_as_hash True, tags none"]
    tokenizer = AutoTokenizer.from_pretrained(system.training.settings["tokenizer_name"])
    assert {"▁the", ".", "<unk>"} < tokenizer.get_vocab().keys()
    assert fitted_sizes(place) == [60]


def test_full_scale_fits_as_many_subwords_as_the_configuration_says(tmp_path, place):
    data = split_files(write_data(tmp_path / "news"))
    said = []
    place = replaced(place, scale="full", data={"xsum": data}, announce=said.append)
    system = planned(place, DC)
    assert said == ["fitting subwords to the training documents: vocab_size 30000, lowercase True, tags none"]
    assert (system.training.settings["max_steps"], system.training.settings["max_source_length"]) == (30000, 500)
    assert not system.training.settings.keys() & {"dataset_name", "text_column", "summary_column"}


def test_extraction_is_in_the_steps_that_a_row_has_it_in(place, tmp_path):
    said: list = []
    place = replaced(place, announce=said.append, extra={"next_sentence_model": "a/bert"})
    rows = [
        DC,
        Row("both", config_overrides=TRANSFORMER, flags={"extract_share": 0.5}),
        Row("test", config_overrides=TRANSFORMER, decoding={"extract_tokens": 40}),
    ]
    plain, both, test = plan(place, rows, "xsum")
    assert not [name for name in plain.training.settings if name.startswith(("extract_", "next_sentence"))]
    assert (plain.decoding, plain.training) == (both.decoding, test.training) == ({}, plain.training)
    # counted in the training documents, once
    assert said.count("counting the words of the training documents") == 1
    of_stage = {name: both.training.settings[name] for name in ("extract_idf", "next_sentence_model")}
    assert test.decoding == of_stage
    assert of_stage["next_sentence_model"] == "a/bert"
    assert DocumentFrequencies.load(of_stage["extract_idf"]).documents == 200
    settings = decoding_settings(test.training.settings, test.row, tmp_path, **test.decoding)
    assert settings.items() >= {**of_stage, "extract_tokens": 40}.items()
    assert extraction_of(settings) == "40 tokens, checked by a/bert"
    shared = decoding_settings(both.training.settings, both.row, tmp_path, **both.decoding)
    assert shared.items() >= {**of_stage, "extract_share": 0.5}.items()
    # by their content, wherever they are
    copied = tmp_path / "copy.json"
    copied.write_bytes(Path(of_stage["extract_idf"]).read_bytes())
    assert decoding_fingerprint({**settings, "extract_idf": str(copied)}) == decoding_fingerprint(settings)
    (own,) = plan(replaced(place, extra={"extract_idf": str(copied)}), rows[1:2], "xsum")
    assert own.training.settings["extract_idf"] == str(copied)
    copied.write_text(json.dumps({"language": "en", "documents": 9, "document_frequencies": {}}), encoding="utf-8")
    assert decoding_fingerprint({**settings, "extract_idf": str(copied)}) != decoding_fingerprint(settings)


def test_users_processor_is_taken(place):
    system = planned(replaced(place, extra={"tokenizer_name": "somewhere/processor"}), DC)
    assert system.training.settings["tokenizer_name"] == "somewhere/processor"
    assert not (place.folder / "processors").exists()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("X", literature="Somebody 2019"), "literature: Somebody 2019"),
        (Row("X", unavailable="no data"), "no data"),
        (Row("X", config="nowhere/xsum.yaml"), "the architecture nowhere does not exist yet"),
        (Row("X", config_overrides={"gates": "glu"}), "--config_overrides gates: unknown key 'gates' in gdlf; did you"),
        (Row("X", config_overrides={"gating": "no"}), "gating"),
        (
            Row("X", config_overrides={**TRANSFORMER, "vocab_size": 5}),
            "`vocab_size` is 5, but must be at least 261, for 5 special tokens",
        ),
    ],
)
def test_row_that_cannot_be_run_says_why(place, row, problem):
    system = planned(place, row)
    assert problem in system.problem
    assert system.training is None
    assert list(run_all(place, [system]))[-1] == [Outcome(row, system.problem)]


def test_trained_rows_are_trained_with_each_seed_and_all_with_the_first_before(place, tmp_path):
    rows = [Row("LEAD", extractive="lead"), DC, Row("beams", config_overrides=TRANSFORMER, decoding={"num_beams": 2})]
    seeded = workplace(place.folder, table(tmp_path, seeds=[1, 2]))
    found = [
        (system.row.row, system.training and system.training.settings["seed"]) for system in plan(seeded, rows, "xsum")
    ]
    assert found == [("LEAD", None), ("DC", 1), ("beams", 1), ("DC", 2), ("beams", 2)]
    assert planned(place, DC).training.settings["seed"] == 42
    # the user's is the only one
    user = workplace(place.folder, seeded.table, extra={"seed": 7})
    assert [system.training.settings["seed"] for system in plan(user, [DC], "xsum")] == [7]


def test_name_of_the_data_is_what_is_read(place, tmp_path):
    assert place.data_name("xsum") == "made-up news"
    assert replaced(place, scale="small").data_name("xsum") == "xsum"
    assert replaced(place, folders={"xsum": "../news"}).data_name("xsum") == "../news"
    assert replaced(place, extra={"test_file": "a.jsonl", "train_file": "b.jsonl"}).data_name("xsum") == "a.jsonl"
    assert replaced(place, extra={"dataset_name": "org/news"}).data_name("xsum") == "org/news"


def test_users_data_set_and_columns_replace_the_configurations(place):
    extra = {"dataset_name": "org/news", "text_column": "story"}
    settings = dataset_settings(replaced(place, extra=extra), "xsum")
    assert {name: settings[name] for name in extra} == extra
    assert "summary_column" not in settings
    assert not (place.folder / "toy_news").exists()
    # columns alone go with the user's folder
    extra = {"text_column": "story"}
    place = replaced(place, extra=extra, data={"xsum": {"test_file": "news/test.jsonl"}})
    settings = dataset_settings(place, "xsum")
    assert (settings["text_column"], settings["test_file"]) == ("story", "news/test.jsonl")


def test_corpus_is_read_up_to_a_limit_and_missing_splits_are_told(tmp_path):
    files = tiny.write_corpus(tmp_path, train=6, test=4)
    assert read_corpus(files, ("train", "test"), 5).num_rows == {"train": 5, "test": 4}
    with pytest.raises(ValueError, match="the corpus has no validation split, but only train, test"):
        read_corpus(files)


def test_documents_of_the_validation_split_are_summarized_instead(place, tmp_path):
    news = tmp_path / "news"
    news.mkdir()
    for part, texts in (("train", ["a"]), ("val", ["One. 0", "One. 1", "One. 2"]), ("test", ["b"])):
        write(news / f"{part}.src", lines(f"{text} ||||| Two." for text in texts))
        write(news / f"{part}.tgt", lines("A." for _ in texts))
    place = replaced(place, split="validation")
    settings = {**split_files(news, "multi_news"), "data_format": "multi_news", "max_predict_samples": 2}
    corpus = rows_to_summarize(place, settings)
    expected = [["One. 0", "Two."], ["One. 1", "Two."]]
    assert corpus["documents"][:] == expected
    # a run predicts the test split, and reads the same rows
    summarized = with_split(place, settings)
    assert read_corpus(summarized, ("test",), 2)["test"]["documents"][:] == expected
    assert summarized.keys() & {"data_format", "train_file"} == set()
    assert with_split(replaced(place, split="test"), settings) is settings


def test_data_set_that_cannot_be_reached_is_told_in_one_line_and_asked_for_once(place):
    said = []
    place = replaced(place, scale="full", announce=said.append)
    rows = [DC, Row("more", config_overrides={"tags": "none"}), Row("references", gold=True)]
    (problem,) = {system.problem for system in plan(place, rows, "xsum")}
    assert "EdinburghNLP/xsum" in problem
    assert len(problem) < 250
    assert [message.split()[0] for message in said] == ["fitting"]


def leave_run(job, row, settings=None):
    """Leave the files of a process that has trained and decoded."""
    done = Job(job.folder / "decodings" / name_of_decoding(job, row, settings), {})
    done.folder.mkdir(parents=True)
    (job.folder / "train_results.json").write_text("{}")
    line = {"prediction": "A bridge", "nll": 6.0, "tokens": 3}
    (done.folder / "predictions.jsonl").write_text(f"{json.dumps(line)}\n" * 2, encoding="utf-8")
    (done.folder / "predict_results.json").write_text(json.dumps({"predict_samples_per_second": 2.5}))
    history = [{"step": 3, "nll": 4.5, "loss": 5.0}, {"step": 6, "nll": 4.25}, {"step": 6, "train_loss": 5.0}]
    noted = {"RunProgress": {"attributes": {"seconds": 1.5}}}
    state = {"global_step": 6, "epoch": 0.123, "log_history": history, "stateful_callbacks": noted}
    (job.folder / "trainer_state.json").write_text(json.dumps(state))
    lengths = {"max_source_length": 20, "max_target_length": 8}
    command = {"updates": lengths, "data": {"train": {"rows": 200}}, "settings": {}}
    (job.folder / "run.yaml").write_text(yaml.safe_dump({"train": command}))
    AutoProcessor.from_pretrained(job.settings["tokenizer_name"]).save_pretrained(job.folder)
    save_file({"a": np.zeros((3, 4)), "b": np.zeros(5)}, job.folder / "model.safetensors")


def name_of_decoding(job, row, settings=None):
    return decoding_fingerprint(decoding_settings(settings or job.settings, row, job.folder))


def test_run_of_another_process_is_waited_for_and_its_result_taken(place, monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    waits = threading.Event()
    said = []

    def announce(message):
        said.append(message)
        if message.startswith("waiting for another process"):
            waits.set()

    place = replaced(place, announce=announce)
    system = planned(place, DC)
    system.training.folder.mkdir(parents=True)
    with FileLock(system.training.folder / ".run.lock"):
        outcomes = []
        waiting = threading.Thread(target=lambda: outcomes.extend([*run_all(place, [system])][-1]))
        waiting.start()
        assert waits.wait(30)
        leave_run(system.training, DC)
    waiting.join(30)
    assert not waiting.is_alive()
    assert said[-2:] == [
        "waiting for another process that is running DC on xsum",
        f"[1/1] DC on xsum: {system.training.folder}",
    ]
    (outcome,) = outcomes
    assert (outcome.predictions, outcome.losses.tolist()) == (["A bridge"] * 2, [[6, 3], [6, 3]])
    assert (outcome.problem, outcome.failed) == (None, False)
    assert outcome.facts == {
        "run": system.training.folder.name,
        "parameters": 17,
        "updates": 6,
        "epochs": 0.12,
        "seed": 42,
        "documents_per_second": 2.5,
        "curve": [[3, 4.5], [6, 4.25]],
        # all pairs are measured, and a part of them was trained on
        "tokens": round(0.123 * tokens_of(system.training, 20, 8)),
        "seconds": 1.5,
    }


def tokens_of(job, source_length, target_length):
    """The tokens of all training pairs, counted one by one."""
    tokenizer = AutoProcessor.from_pretrained(job.folder).tokenizer
    pairs = read_corpus(job.settings)["train"]
    sources, targets = (
        # an end token in addition
        [min(length, 1 + len(tokenizer.tokenize(pair[column]))) for pair in pairs]
        for column, length in (("document", source_length), ("summary", target_length))
    )
    return sum(sources) + sum(targets)


def facts_of(place, row):
    """The facts of a row whose run has been left by another process."""
    system = planned(place, row)
    leave_run(system.training, row)
    (outcome,) = [*run_all(place, [system])][-1]
    return outcome.facts


def test_tokens_of_documents_that_were_shortened_or_are_gone_are_not_counted(place, monkeypatch):
    shortened = Row("short", config_overrides=TRANSFORMER, flags={"extract_share": 0.5})
    assert "tokens" not in facts_of(place, shortened)

    def fail(*arguments):
        raise OSError("no connection")

    system = planned(place, DC)
    leave_run(system.training, DC)
    monkeypatch.setattr(facts, "read_corpus", fail)
    (outcome,) = [*run_all(place, [system])][-1]
    assert "tokens" not in outcome.facts
    assert outcome.facts["seconds"] == 1.5


@pytest.mark.parametrize(
    ("scale", "noted", "expected"),
    [("full", None, 1200 * 6 / 150), ("full", 1.5, 1.5), ("tiny", None, None), ("full", 0.0, 48)],
)
def test_seconds_are_those_that_a_run_noted_or_its_table_gives(place, tmp_path, scale, noted, expected):
    place = workplace(place.folder, table(tmp_path, train_seconds=1200), scale=scale)
    state = TrainerState(updates=6, epochs=0.1, losses=[], seconds=noted)
    assert training_seconds(place, Row("DC", full={"max_steps": 150}), state) == expected


@pytest.mark.thorough
def test_rows_whose_runs_are_done_do_not_wait_for_those_at_work(place, monkeypatch):
    other = Row("other", config_overrides={**TRANSFORMER, "d_model": 48})
    busy, done = planned(place, DC), planned(place, other)
    leave_run(done.training, other)
    order = []
    perform = systems.perform
    attempts = iter([False, True])

    def record(job):
        if job == busy.training and not next(attempts):
            order.append("busy")
            raise systems.FolderInUse(job.folder)
        if job == busy.training:
            order.append("freed")
            leave_run(job, DC)
        elif job == done.training:
            order.append("done")
        perform(job)

    monkeypatch.setattr(systems, "perform", record)
    *_, (first, second) = run_all(place, [busy, done])
    assert order == ["busy", "done", "freed"]
    assert first.predictions == second.predictions == ["A bridge"] * 2


def test_training_that_failed_is_not_tried_for_the_next_row(place, monkeypatch):
    rows = [Row(f"{beams} beams", config_overrides=TRANSFORMER, decoding={"num_beams": beams}) for beams in (1, 2)]
    both = plan(place, rows, "xsum")
    tried = []

    def fail(job):
        tried.append(job.folder)
        raise JobFailed("out of  memory", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    *_, outcomes = run_all(place, both)
    assert tried == [both[0].training.folder]
    assert [(outcome.problem, outcome.failed) for outcome in outcomes] == [("out of memory", True)] * 2


# the last updates have a value of their own
TURNED_ON = SecondRun(config_overrides={"dropout": 0.5}, tiny={"max_steps": 2}, full={"max_steps": 3000})


def test_second_run_starts_from_the_weights_of_the_first(place):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    plain, longer = (system.training for system in plan(place, [DC, row], "xsum"))
    assert longer.runs == [plain, longer]
    assert longer.folder.parent == plain.folder.parent
    changed = {"max_steps": 2, "config_overrides": {"dropout": 0.5}, "model_name_or_path": str(plain.folder)}
    assert {name: longer.settings[name] for name in changed} == changed
    # the checkpoint has these, and all else is as in the first run
    remaining = plain.settings.keys() - longer.settings.keys()
    assert remaining == {"model_type", "tokenizer_name"}
    same = longer.settings.keys() - changed.keys()
    assert {name: longer.settings[name] for name in same} == {name: plain.settings[name] for name in same}
    # the user's flags are those of every run
    users = planned(replaced(place, extra={"max_steps": 5, "seed": 3}), row).training
    assert [(job.settings["max_steps"], job.settings["seed"]) for job in users.runs] == [(5, 3), (5, 3)]


def test_second_run_has_a_folder_for_its_settings_and_its_start(place):
    several = [
        TURNED_ON,
        SecondRun(config_overrides={"dropout": 0.4}, tiny={"max_steps": 2}),
        SecondRun(config_overrides={"dropout": 0.5}, tiny={"max_steps": 3}),
    ]
    rows = [Row(str(number), config_overrides=TRANSFORMER, second_run=run) for number, run in enumerate(several)]
    rows.append(Row("wide", config_overrides={**TRANSFORMER, "d_model": 48}, second_run=TURNED_ON))
    assert len({system.training.folder for system in plan(place, rows, "xsum")}) == 4
    # not for where the runs are
    elsewhere = planned(workplace(place.folder / "elsewhere", place.table), rows[0])
    assert elsewhere.training.folder.name == planned(place, rows[0]).training.folder.name


def test_facts_of_two_runs_are_those_of_both(place):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    system = planned(place, row)
    first = system.training.first
    leave_run(first, DC)
    second = Job(system.training.folder, {**system.training.settings, "tokenizer_name": first.folder})
    leave_run(second, row, settings=system.training.settings)
    (outcome,) = [*run_all(place, [system])][-1]
    found = {name: outcome.facts[name] for name in ("run", "updates", "epochs", "curve", "seconds", "parameters")}
    assert found == {
        "run": second.folder.name,
        "updates": 12,
        "epochs": 0.25,
        "curve": [[3, 4.5], [6, 4.25], [9, 4.5], [12, 4.25]],
        "seconds": 3.0,
        "parameters": 17,
    }
    assert outcome.facts["tokens"] == 2 * round(0.123 * tokens_of(first, 20, 8))


def test_first_run_that_failed_is_not_tried_for_a_row_that_needs_it(place, monkeypatch):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    plain, longer = plan(place, [DC, row], "xsum")
    tried = []

    def fail(job):
        tried.append(job.folder)
        raise JobFailed("out of memory", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    *_, outcomes = run_all(place, [plain, longer])
    assert tried == [plain.training.folder]
    assert [outcome.problem for outcome in outcomes] == ["out of memory"] * 2


def test_decoding_that_failed_is_no_reason_not_to_try_another(place, monkeypatch):
    rows = [Row(f"{beams} beams", config_overrides=TRANSFORMER, decoding={"num_beams": beams}) for beams in (1, 2)]
    both = plan(place, rows, "xsum")
    leave_run(both[1].training, rows[1])

    def fail(job):
        if not job.is_finished:
            raise JobFailed("no beams", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    *_, (failed, done) = run_all(place, both)
    assert (failed.problem, failed.failed, failed.predictions) == ("no beams", True, None)
    assert (done.problem, done.failed, done.predictions) == (None, False, ["A bridge"] * 2)
