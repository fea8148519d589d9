"""`hf-summ train`: the recipe as a command."""

import dataclasses
import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hf_summ.cli import main
from hf_summ.training.arguments import FLAGS, RunArguments
from hf_summ.training.folder.resuming import last_complete_checkpoint
from tests.cli.conftest import start
from tests.training import tiny


@pytest.fixture
def settings(tmp_path, tiny_tokenizer, monkeypatch) -> Callable[..., str]:
    """Writes the YAML of a short run into the folder that the test works in."""
    tiny.processor(tiny_tokenizer).save_pretrained(tmp_path / "processor")
    files = tiny.write_corpus(tmp_path, train=24, validation=5, test=7)
    monkeypatch.chdir(tmp_path)
    paths = {"output_dir": "out", "cache_dir": "cache", "tokenizer_name": "processor"}

    def write_settings(**changes) -> str:
        return tiny.write_settings(tmp_path, **files | paths | changes)

    return write_settings


@pytest.mark.thorough
def test_flags_win_over_the_file(settings, run):
    run("train", settings(), "--max_steps", "2", "--do_predict")
    assert len(tiny.history("out", "loss")) == 2
    assert json.loads(Path("out/predict_results.json").read_text())["predict_samples"] == 7


CASES_OF_WRONG_SETTINGS = [
    (["--max_stepps", "3"], "unknown flag --max_stepps; did you mean --max_steps?"),
    (["--do_train", "false"], "nothing to do: give --do_train, --do_eval or --do_predict"),
    # with these, the first evaluation would fail after an epoch of training
    (["--max_new_tokens", "2000000"], "--max_new_tokens 2000000: must be at most 1000000"),
]


@pytest.mark.parametrize(("flags", "message"), CASES_OF_WRONG_SETTINGS)
def test_wrong_settings_are_told_in_one_line(settings, refusal, flags, message):
    assert refusal("train", settings(), *flags) == message


def test_a_mistake_inside_another_library_keeps_its_traceback(settings, capsys, monkeypatch):
    # an argument is missing: no user's input makes such a mistake
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    assert main(["train", settings(optimizer=None), "--optim", "adamw_torch"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_help_explains_every_flag_of_ours_and_names_the_others(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    groups = [field.name for field in dataclasses.fields(RunArguments) if field.name != "given"]
    assert re.findall(r"^(\w+):", text, re.MULTILINE) == ["usage"] + groups
    words = " ".join(text.split())
    assert "--val_max_target_length N Maximum number of tokens of a summary in validation and test" in words
    assert "--rouge_mode {rouge_score,rouge155} ROUGE as computed by Google's rouge-score" in words
    assert "--noam_scale X Factor of the Noam schedule; learning_rate is ignored with it (default: 1.0)" in words
    explanations, flags_of_transformers = text.split("transformers' own:")
    explained = set(re.findall(r"^  --(\w+)", explanations, re.MULTILINE))
    named = set(re.split(r"[,:\s]+", flags_of_transformers))
    assert not explained & named
    assert set(FLAGS) <= explained | named


# a signal, the exit status after it, and more settings;
# Slurm and Kubernetes send SIGTERM, after which transformers saves if it is told to, and ends as if it had finished
CASES_OF_SIGNALS = [
    (signal.SIGINT, 130, {}),
    (signal.SIGTERM, 143, {}),
    (signal.SIGTERM, 143, {"enable_jit_checkpoint": True}),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("sent", "status", "more"), CASES_OF_SIGNALS)
def test_interrupted_training_says_how_it_goes_on(settings, tmp_path, sent, status, more):
    path = settings(max_steps=2000, save_strategy="steps", save_steps=2, **more)
    process = start("train", path, cwd=tmp_path)
    while last_complete_checkpoint("out") is None:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(sent)
    _, errors = process.communicate()
    assert process.returncode == status, errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out" / "train_results.json").exists()
    checkpoint = last_complete_checkpoint("out")
    assert errors.splitlines()[-1] == f"hf-summ: interrupted: rerun the command to resume from {checkpoint}"


@pytest.mark.thorough
def test_training_interrupted_before_its_first_checkpoint_says_so(settings, tmp_path):
    process = start("train", settings(max_steps=2000), cwd=tmp_path, PYTHONUNBUFFERED="1")
    # the first loss is logged when training has begun
    assert any("'loss'" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    message = "hf-summ: interrupted before the first checkpoint: rerun the command to start over"
    assert errors.splitlines()[-1] == message
