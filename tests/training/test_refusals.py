"""What cannot work is reported in one line before anything starts."""

import math
import os
import re

import pytest

from hf_summ.training.__main__ import main as run_recipe
from hf_summ.training.parsing import parse_arguments
from tests.training import tiny


@pytest.mark.parametrize("name", ["file", "file/out", "locked/out"])
def test_output_folder_that_cannot_be_written_to_is_reported_before_anything_starts(settings, tmp_path, name):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "locked").mkdir(mode=0o500)
    if name.startswith("locked") and os.access(tmp_path / "locked", os.W_OK):
        pytest.skip("a privileged user may write everywhere")
    with pytest.raises(OSError, match=f"(File exists|Not a directory|Permission denied): '{tmp_path / name}"):
        tiny.check([settings(output_dir=str(tmp_path / name))])


def test_data_set_that_is_a_script_is_reported_in_one_line(settings, tmp_path):
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "news.py").write_text("raise SystemExit")
    files = dict.fromkeys(("train_file", "validation_file", "test_file"))
    with pytest.raises(ValueError, match="news: cannot be loaded: Dataset scripts are no longer supported"):
        tiny.check([settings(**files, dataset_name=str(tmp_path / "news"))])


def test_reports_that_need_a_library_are_reported_before_anything_starts(settings):
    with pytest.raises(ImportError, match=r"^--report_to clearml: needs clearml: pip install clearml, or give"):
        parse_arguments([settings(), "--report_to", "clearml"])


def test_full_disk_is_reported_in_one_line(settings, monkeypatch, capsys):
    # a disk on which nothing is free, whatever its size
    monkeypatch.setattr("hf_summ.training.__main__._FULL", math.inf)
    assert run_recipe([settings(learning_rate=1e20)]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"error: the disk of \S+ is full: free some space; stopped before the first checkpoint: re", last)


def test_settings_that_the_optimizer_does_not_read_are_reported_before_anything_starts(settings):
    asked = settings(optimizer=None, optim="sgd")
    with pytest.raises(ValueError, match=r"^--optim_args a=1: has no effect with --optim sgd: omit it$"):
        tiny.check([asked, "--optim_args", "a=1"])
    with pytest.raises(pytest.fail.Exception, match="the run has started"):
        tiny.check([settings(optimizer=None, optim="rmsprop"), "--optim_args", "momentum=0.5"])


@pytest.mark.parametrize("flag", ["model_name_or_path", "config_name", "tokenizer_name"])
def test_checkpoint_that_is_nowhere_is_reported_by_its_flag(settings, flag):
    started = {} if flag == "tokenizer_name" else {"model_type": None, "config_overrides": None}
    message = f"^--{flag} out/missing: neither a folder nor a repository on the Hub that can be reached$"
    with pytest.raises(ValueError, match=message):
        tiny.check([settings(**started), f"--{flag}", "out/missing"])


@pytest.mark.parametrize("asked", ["flag", "launch"])
def test_half_precision_on_a_cpu_is_reported_before_anything_starts(settings, monkeypatch, asked):
    if asked == "launch":
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(ValueError, match=r"^--fp16 needs a GPU: on a CPU, give --bf16 instead, or neither$"):
        parse_arguments([settings(use_cpu=True), *(["--fp16"] if asked == "flag" else [])])
    assert parse_arguments([settings(use_cpu=True), "--bf16"]).training.mixed_precision == "bf16"
