"""The ledger of an output folder."""

import pytest

from hf_summ.training.folder.ledger import Ledger

RUN = {"settings": {"seed": 1}, "data": {}, "updates": {"seed": 1}}
OTHER = {"settings": {"seed": 2}, "data": {}, "updates": {"seed": 2}}


def test_step_is_finished_once_its_results_exist(tmp_path):
    ledger = Ledger(tmp_path / "out")
    ledger.begin(["train", "eval"], RUN)
    assert not ledger.is_finished("train")
    ledger.finish("train", {"loss": 1.5})
    again = Ledger(tmp_path / "out")
    assert again.steps == {"train": RUN, "eval": RUN}
    assert again.results("train") == {"loss": 1.5}
    finished = {step: (again.is_finished(step), again.is_finished(step, RUN)) for step in ("train", "eval", "predict")}
    assert finished == {"train": (True, True), "eval": (False, False), "predict": (False, False)}
    assert not again.is_finished("train", OTHER)


def test_another_command_replaces_the_results_of_its_steps(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.begin(["train", "eval"], RUN)
    for step in ("train", "eval"):
        ledger.finish(step, {})
    ledger.begin(["eval", "predict"], OTHER)
    assert (ledger.is_finished("train", RUN), ledger.is_finished("eval", OTHER)) == (True, False)
    ledger.finish("eval", {})
    # results of another model do not outlive it
    ledger.begin(["train"], OTHER)
    assert Ledger(tmp_path).steps == {"train": OTHER}
    assert not list(tmp_path.glob("*_results.json"))


# what a command changes of a finished one: settings, and data; and whether the results of its evaluation remain
CASES_OF_COMMANDS = [
    ({"do_predict": True}, {"test": {"rows": 7}}, True),
    ({"push_to_hub": True, "hub_model_id": "me/news", "hub_private_repo": True, "license": "mit"}, {}, True),
    ({"do_train": None}, {}, False),
    ({"num_beams": 2}, {}, False),
    ({}, {"validation": {"rows": 6}}, False),
]


@pytest.mark.parametrize(("settings", "data", "is_finished"), CASES_OF_COMMANDS)
def test_results_belong_to_their_rows_and_settings(tmp_path, settings, data, is_finished):
    finished = {"settings": {"do_train": True, "do_eval": True}, "data": {"validation": {"rows": 5}}, "updates": {}}
    ledger = Ledger(tmp_path)
    ledger.begin(["eval"], finished)
    ledger.finish("eval", {})
    command = {"settings": finished["settings"] | settings, "data": finished["data"] | data, "updates": {}}
    assert ledger.is_finished("eval", command) == is_finished


def test_entries_that_earlier_versions_did_not_record_are_not_compared(tmp_path):
    ledger = Ledger(tmp_path)
    later = {"content of the validation data": "a", "max_eval_samples": None, "tagger of words": "spacy 3"}
    command = {**RUN, "updates": RUN["updates"] | later}
    ledger.begin(["train"], RUN)
    assert ledger.changed_updates(command) == []
    # they recorded a blank hash of a stream
    ledger.begin(["train"], {**RUN, "updates": RUN["updates"] | {"content of the training data": ""}})
    assert ledger.changed_updates({**RUN, "updates": RUN["updates"] | {"content of the training data": "a"}}) == []
    ledger.begin(["train"], command)
    other_rows = {**RUN, "updates": RUN["updates"] | {"content of the validation data": "b", "max_eval_samples": 3}}
    assert ledger.changed_updates(other_rows) == [
        "content of the validation data a, now b",
        "max_eval_samples not set, now 3",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("commands: 3", "unknown steps commands"),
        ("train: 3", ".*"),
        ("train: {settings: {}}", "train has no data, updates"),
        ("- a", ".*"),
    ],
)
def test_file_that_is_no_ledger(tmp_path, content, problem):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(ValueError, match=rf"run.yaml: cannot be read \({problem}\): remove it"):
        Ledger(tmp_path)
