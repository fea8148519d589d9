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
from tests.experiments.made_up import TRANSFORMER, make_table, make_workplace, write_data
from tests.training import tiny

DC = Row("DC", config_overrides=TRANSFORMER)


@pytest.fixture
def place(tmp_path):
    """A workplace at the scale tiny without progress messages."""
    return make_workplace(tmp_path / "out", make_table(tmp_path))


def replaced(place, **changes):
    """The same workplace with other values."""
    return make_workplace(place.folder, place.table, **changes)


def planned(place, row):
    """The system of a single row."""
    (system,) = plan(place, [row], "xsum")
    return system


def fitted_sizes(place):
    """How many tokens each fitted vocabulary has."""
    sizes = []
    for file in place.folder.glob("processors/*/tokenizer.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        sizes.append(len(content["model"]["vocab"]))
    return sorted(sizes)


def outcomes_of(place, planned_systems):
    """The outcomes of all systems after the last of them has run."""
    return list(run_all(place, planned_systems))[-1]


def test_made_up_news_and_vocabulary_are_made_once(place):
    messages = []
    place = replaced(place, announce=messages.append)
    rows = [DC, Row("more", config_overrides={**TRANSFORMER, "d_model": 48})]
    first_system, second_system = plan(place, rows, "xsum")
    first, second = first_system.training, second_system.training
    assert messages == ["fitting subwords to the training documents: vocab_size 700, lowercase True, tags none"]
    assert first.settings["tokenizer_name"] == second.settings["tokenizer_name"]
    assert first.folder != second.folder
    assert fitted_sizes(place) == [700]
    assert read_corpus(first.settings).num_rows == {"train": 200, "validation": 20, "test": 40}
    assert first.settings["language"] == "en"
    assert first.settings["do_train"] is True
    assert first.settings["do_predict"] is False


@pytest.mark.parametrize("source", ["row", "user"])
def test_row_and_user_may_set_the_size_of_the_vocabulary(place, source):
    overrides = {"vocab_size": 400}
    if source == "row":
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
    messages = []
    system = planned(replaced(place, announce=messages.append), DC)
    assert messages == ["fitting words to the training documents: vocab_size 60, digits_as_hash True, tags none"]
    tokenizer = AutoTokenizer.from_pretrained(system.training.settings["tokenizer_name"])
    assert {"▁the", ".", "<unk>"} < tokenizer.get_vocab().keys()
    assert fitted_sizes(place) == [60]


def test_full_scale_fits_as_many_subwords_as_the_configuration_says(tmp_path, place):
    data = split_files(write_data(tmp_path / "news"))
    messages = []
    place = replaced(place, scale="full", data={"xsum": data}, announce=messages.append)
    system = planned(place, DC)
    assert messages == ["fitting subwords to the training documents: vocab_size 30000, lowercase True, tags none"]
    assert (system.training.settings["max_steps"], system.training.settings["max_source_length"]) == (30000, 500)
    assert not system.training.settings.keys() & {"dataset_name", "text_column", "summary_column"}


def test_documents_are_shortened_in_the_steps_that_a_row_names(place, tmp_path):
    messages = []
    place = replaced(place, announce=messages.append, extra={"next_sentence_model": "a/bert"})
    rows = [
        DC,
        Row("both", config_overrides=TRANSFORMER, flags={"extract_share": 0.5}),
        Row("test", config_overrides=TRANSFORMER, decoding={"extract_tokens": 40}),
    ]
    plain, in_both_steps, in_decoding = plan(place, rows, "xsum")
    for name in plain.training.settings:
        assert not name.startswith(("extract_", "next_sentence"))
    assert plain.decoding == in_both_steps.decoding == {}
    assert plain.training == in_decoding.training
    # the words of the training documents are counted once
    assert messages.count("counting the words of the training documents") == 1
    extraction = {name: in_both_steps.training.settings[name] for name in ("extract_idf", "next_sentence_model")}
    assert in_decoding.decoding == extraction
    assert extraction["next_sentence_model"] == "a/bert"
    assert DocumentFrequencies.load(extraction["extract_idf"]).documents == 200
    settings = decoding_settings(in_decoding.training.settings, in_decoding.row, tmp_path, **in_decoding.decoding)
    assert settings.items() >= {**extraction, "extract_tokens": 40}.items()
    assert extraction_of(settings) == "40 tokens, checked by a/bert"
    shared = decoding_settings(in_both_steps.training.settings, in_both_steps.row, tmp_path, **in_both_steps.decoding)
    assert shared.items() >= {**extraction, "extract_share": 0.5}.items()
    # frequencies count by their content, wherever the file is
    copied = tmp_path / "copy.json"
    copied.write_bytes(Path(extraction["extract_idf"]).read_bytes())
    assert decoding_fingerprint({**settings, "extract_idf": str(copied)}) == decoding_fingerprint(settings)
    users = planned(replaced(place, extra={"extract_idf": str(copied)}), rows[1])
    assert users.training.settings["extract_idf"] == str(copied)
    copied.write_text(json.dumps({"language": "en", "documents": 9, "document_frequencies": {}}), encoding="utf-8")
    assert decoding_fingerprint({**settings, "extract_idf": str(copied)}) != decoding_fingerprint(settings)


def test_users_processor_is_taken(place):
    system = planned(replaced(place, extra={"tokenizer_name": "somewhere/processor"}), DC)
    assert system.training.settings["tokenizer_name"] == "somewhere/processor"
    assert not (place.folder / "processors").exists()


CASES_OF_ROWS_THAT_CANNOT_BE_RUN = [
    (Row("X", literature="Somebody 2019"), "literature: Somebody 2019"),
    (Row("X", unavailable="no data"), "no data"),
    (Row("X", config="nowhere/xsum.yaml"), "the architecture nowhere does not exist yet"),
    (Row("X", config_overrides={"gates": "glu"}), "--config_overrides gates: unknown key 'gates' in gdlf; did you"),
    (Row("X", config_overrides={"gating": "no"}), "gating"),
    (
        Row("X", config_overrides={**TRANSFORMER, "vocab_size": 5}),
        "`vocab_size` is 5, but must be at least 261, for 5 special tokens",
    ),
]


@pytest.mark.parametrize(("row", "problem"), CASES_OF_ROWS_THAT_CANNOT_BE_RUN)
def test_row_that_cannot_be_run_says_why(place, row, problem):
    system = planned(place, row)
    assert problem in system.problem
    assert system.training is None
    assert outcomes_of(place, [system]) == [Outcome(row, system.problem)]


def test_all_rows_are_trained_with_the_first_seed_before_any_with_the_second(place, tmp_path):
    rows = [Row("LEAD", extractive="lead"), DC, Row("beams", config_overrides=TRANSFORMER, decoding={"num_beams": 2})]
    seeded = make_workplace(place.folder, make_table(tmp_path, seeds=[1, 2]))
    lead, *trained = plan(seeded, rows, "xsum")
    assert lead.row.row == "LEAD"
    assert lead.training is None
    seeds = [(system.row.row, system.training.settings["seed"]) for system in trained]
    assert seeds == [("DC", 1), ("beams", 1), ("DC", 2), ("beams", 2)]
    assert planned(place, DC).training.settings["seed"] == 42
    # a seed of the user replaces those of the table
    user = make_workplace(place.folder, seeded.table, extra={"seed": 7})
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
    texts_of_parts = {"train": ["a"], "val": ["One. 0", "One. 1", "One. 2"], "test": ["b"]}
    for part, texts in texts_of_parts.items():
        write(news / f"{part}.src", lines([f"{text} ||||| Two." for text in texts]))
        write(news / f"{part}.tgt", lines(["A."] * len(texts)))
    place = replaced(place, split="validation")
    settings = {**split_files(news, "multi_news"), "data_format": "multi_news", "max_predict_samples": 2}
    corpus = rows_to_summarize(place, settings)
    expected = [["One. 0", "Two."], ["One. 1", "Two."]]
    assert corpus["documents"][:] == expected
    # a run predicts its test split, which has the same rows
    summarized = with_split(place, settings)
    assert read_corpus(summarized, ("test",), 2)["test"]["documents"][:] == expected
    assert summarized.keys() & {"data_format", "train_file"} == set()
    assert with_split(replaced(place, split="test"), settings) is settings


def test_data_set_that_cannot_be_reached_is_told_in_one_line_and_asked_for_once(place):
    messages = []
    place = replaced(place, scale="full", announce=messages.append)
    rows = [DC, Row("more", config_overrides={"tags": "none"}), Row("references", gold=True)]
    problems = {system.problem for system in plan(place, rows, "xsum")}
    assert len(problems) == 1
    problem = problems.pop()
    assert "EdinburghNLP/xsum" in problem
    assert len(problem) < 250
    (message,) = messages
    assert message.split()[0] == "fitting"


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
    is_waiting = threading.Event()
    messages = []

    def announce(message):
        messages.append(message)
        if message.startswith("waiting for another process"):
            is_waiting.set()

    place = replaced(place, announce=announce)
    system = planned(place, DC)
    system.training.folder.mkdir(parents=True)
    with FileLock(system.training.folder / ".run.lock"):
        outcomes = []
        waiting = threading.Thread(target=lambda: outcomes.extend(outcomes_of(place, [system])))
        waiting.start()
        assert is_waiting.wait(30)
        leave_run(system.training, DC)
    waiting.join(30)
    assert not waiting.is_alive()
    assert messages[-2:] == [
        "waiting for another process that is running DC on xsum",
        f"[1/1] DC on xsum: {system.training.folder}",
    ]
    (outcome,) = outcomes
    assert outcome.predictions == ["A bridge", "A bridge"]
    assert outcome.losses.tolist() == [[6, 3], [6, 3]]
    assert outcome.problem is None
    assert outcome.failed is False
    assert outcome.facts == {
        "run": system.training.folder.name,
        "parameters": 17,
        "updates": 6,
        "epochs": 0.12,
        "seed": 42,
        "documents_per_second": 2.5,
        "curve": [[3, 4.5], [6, 4.25]],
        # the tokens of all pairs are counted, and 0.123 epochs were trained
        "tokens": round(0.123 * tokens_of(system.training, 20, 8)),
        "seconds": 1.5,
    }


def tokens_of(job, source_length, target_length):
    """The tokens of all training pairs, counted one by one."""
    tokenizer = AutoProcessor.from_pretrained(job.folder).tokenizer
    tokens = 0
    for pair in read_corpus(job.settings)["train"]:
        # each text has an end token in addition
        source_tokens = len(tokenizer.tokenize(pair["document"])) + 1
        target_tokens = len(tokenizer.tokenize(pair["summary"])) + 1
        tokens += min(source_length, source_tokens) + min(target_length, target_tokens)
    return tokens


def test_tokens_of_a_stream_are_not_counted(place):
    system = planned(place, DC)
    system.training.settings["streaming"] = True
    leave_run(system.training, DC)
    (outcome,) = outcomes_of(place, [system])
    assert "tokens" not in outcome.facts


def test_tokens_of_documents_that_were_shortened_or_are_gone_are_not_counted(place, monkeypatch):
    row = Row("short", config_overrides=TRANSFORMER, flags={"extract_share": 0.5})
    shortened = planned(place, row)
    leave_run(shortened.training, row)
    (outcome,) = outcomes_of(place, [shortened])
    assert "tokens" not in outcome.facts

    def fail(*arguments):
        raise OSError("no connection")

    system = planned(place, DC)
    leave_run(system.training, DC)
    monkeypatch.setattr(facts, "read_corpus", fail)
    (outcome,) = outcomes_of(place, [system])
    assert "tokens" not in outcome.facts
    assert outcome.facts["seconds"] == 1.5


CASES_OF_SECONDS = [("full", None, 1200 * 6 / 150), ("full", 1.5, 1.5), ("tiny", None, None), ("full", 0.0, 48)]


@pytest.mark.parametrize(("scale", "noted", "expected"), CASES_OF_SECONDS)
def test_seconds_are_those_that_a_run_noted_or_its_table_gives(place, tmp_path, scale, noted, expected):
    place = make_workplace(place.folder, make_table(tmp_path, train_seconds=1200), scale=scale)
    state = TrainerState(updates=6, epochs=0.1, losses=[], seconds=noted)
    assert training_seconds(place, Row("DC", full={"max_steps": 150}), state) == expected


@pytest.mark.thorough
def test_rows_whose_runs_are_done_do_not_wait_for_those_at_work(place, monkeypatch):
    finished_row = Row("other", config_overrides={**TRANSFORMER, "d_model": 48})
    busy, finished = planned(place, DC), planned(place, finished_row)
    leave_run(finished.training, finished_row)
    order = []
    perform = systems.perform

    def record(job):
        if job == busy.training and "busy" not in order:
            order.append("busy")
            raise systems.FolderInUse(job.folder)
        if job == busy.training:
            order.append("freed")
            leave_run(job, DC)
        elif job == finished.training:
            order.append("done")
        perform(job)

    monkeypatch.setattr(systems, "perform", record)
    outcomes = outcomes_of(place, [busy, finished])
    assert order == ["busy", "done", "freed"]
    assert [outcome.predictions for outcome in outcomes] == [["A bridge", "A bridge"]] * 2


def rows_of_one_training():
    """Two rows that differ only in their numbers of beams."""
    rows = []
    for beams in (1, 2):
        rows.append(Row(f"{beams} beams", config_overrides=TRANSFORMER, decoding={"num_beams": beams}))
    return rows


def test_training_that_failed_is_not_tried_for_the_next_row(place, monkeypatch):
    planned_systems = plan(place, rows_of_one_training(), "xsum")
    tried = []

    def fail(job):
        tried.append(job.folder)
        raise JobFailed("out of  memory", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    outcomes = outcomes_of(place, planned_systems)
    assert tried == [planned_systems[0].training.folder]
    assert [(outcome.problem, outcome.failed) for outcome in outcomes] == [("out of memory", True)] * 2


# in the last updates, a setting is turned on
TURNED_ON = SecondRun(config_overrides={"dropout": 0.5}, tiny={"max_steps": 2}, full={"max_steps": 3000})


def test_second_run_starts_from_the_weights_of_the_first(place):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    plain_system, longer_system = plan(place, [DC, row], "xsum")
    plain, longer = plain_system.training, longer_system.training
    assert longer.runs == [plain, longer]
    assert longer.folder.parent == plain.folder.parent
    changed = {"max_steps": 2, "config_overrides": {"dropout": 0.5}, "model_name_or_path": str(plain.folder)}
    assert {name: longer.settings[name] for name in changed} == changed
    # the checkpoint has what is left out, and all else is as in the first run
    left_out = plain.settings.keys() - longer.settings.keys()
    assert left_out == {"model_type", "tokenizer_name"}
    for name in longer.settings.keys() - changed.keys():
        assert longer.settings[name] == plain.settings[name], name
    # the user's flags are those of every run
    users = planned(replaced(place, extra={"max_steps": 5, "seed": 3}), row).training
    assert [(job.settings["max_steps"], job.settings["seed"]) for job in users.runs] == [(5, 3), (5, 3)]


def test_second_run_has_a_folder_for_its_settings_and_its_start(place):
    second_runs = [
        TURNED_ON,
        SecondRun(config_overrides={"dropout": 0.4}, tiny={"max_steps": 2}),
        SecondRun(config_overrides={"dropout": 0.5}, tiny={"max_steps": 3}),
    ]
    rows = []
    for number, second_run in enumerate(second_runs):
        rows.append(Row(str(number), config_overrides=TRANSFORMER, second_run=second_run))
    rows.append(Row("wide", config_overrides={**TRANSFORMER, "d_model": 48}, second_run=TURNED_ON))
    assert len({system.training.folder for system in plan(place, rows, "xsum")}) == 4
    # the name of the folder does not depend on where the runs are
    elsewhere = planned(make_workplace(place.folder / "elsewhere", place.table), rows[0])
    assert elsewhere.training.folder.name == planned(place, rows[0]).training.folder.name


def test_facts_of_two_runs_are_those_of_both(place):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    system = planned(place, row)
    first = system.training.first
    leave_run(first, DC)
    second = Job(system.training.folder, {**system.training.settings, "tokenizer_name": first.folder})
    leave_run(second, row, settings=system.training.settings)
    (outcome,) = outcomes_of(place, [system])
    expected = {
        "run": second.folder.name,
        "updates": 12,
        "epochs": 0.25,
        "curve": [[3, 4.5], [6, 4.25], [9, 4.5], [12, 4.25]],
        "seconds": 3.0,
        "parameters": 17,
    }
    assert {name: outcome.facts[name] for name in expected} == expected
    assert outcome.facts["tokens"] == 2 * round(0.123 * tokens_of(first, 20, 8))


def test_first_run_that_failed_is_not_tried_for_a_row_that_needs_it(place, monkeypatch):
    row = Row("longer", config_overrides=TRANSFORMER, second_run=TURNED_ON)
    plain, longer = plan(place, [DC, row], "xsum")
    tried = []

    def fail(job):
        tried.append(job.folder)
        raise JobFailed("out of memory", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    outcomes = outcomes_of(place, [plain, longer])
    assert tried == [plain.training.folder]
    assert [outcome.problem for outcome in outcomes] == ["out of memory"] * 2


def test_decoding_that_failed_is_no_reason_not_to_try_another(place, monkeypatch):
    planned_systems = plan(place, rows_of_one_training(), "xsum")
    second = planned_systems[1]
    leave_run(second.training, second.row)

    def fail(job):
        if not job.is_finished:
            raise JobFailed("no beams", job.folder)

    monkeypatch.setattr(systems, "perform", fail)
    failed, done = outcomes_of(place, planned_systems)
    assert (failed.problem, failed.failed, failed.predictions) == ("no beams", True, None)
    assert (done.problem, done.failed, done.predictions) == (None, False, ["A bridge", "A bridge"])
