"""Settings from YAML, JSON and flags, and the errors for wrong ones."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from transformers import Seq2SeqTrainingArguments

from hf_summ.common.flags import EFFECTS
from hf_summ.data import Corpus
from hf_summ.training import arguments as module
from hf_summ.training.arguments import FLAGS, GROUPS, GenerationArguments, flags_of
from hf_summ.training.checks import INHERITED
from hf_summ.training.parsing import bundled_configs, parse_arguments

ROOT = Path(__file__).parents[2]
EVALUATED = ["--eval_strategy", "steps", "--eval_steps", "500"]
BEST = [*EVALUATED, "--metric_for_best_model"]


@pytest.fixture
def yaml_file(tmp_path):
    def write(text, name="settings.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_flags_win_over_the_file(yaml_file):
    path = yaml_file("learning_rate: 1e-4\nnum_beams: 4\nseed: 7\nmodel_type: gdlf\n")
    arguments = parse_arguments([path, "--num_beams", "2", "--model-type", "bart"])
    assert arguments.training.learning_rate == 1e-4
    assert arguments.generation.given() == {"num_beams": 2}
    assert arguments.training.seed == 7
    assert arguments.model.model_type == "bart"


def test_a_configuration_that_comes_with_the_package_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = parse_arguments(["gdlf/xsum", "--output_dir", "out"])
    assert settings == parse_arguments([str(ROOT / "configs" / "gdlf" / "xsum.yaml"), "--output_dir", "out"])
    assert {"gdlf/xsum", "quickstart", "sagcopy/gigaword"} < set(bundled_configs())
    assert not any(name.startswith(("tables", "scales")) for name in bundled_configs())


def test_numbers_that_yaml_takes_for_strings(yaml_file):
    training = parse_arguments([yaml_file("learning_rate: 1e-4\nadam_epsilon: 1e-9\nmax_grad_norm: 1\n")]).training
    assert training.learning_rate == 1e-4
    assert training.adam_epsilon == 1e-9
    assert training.max_grad_norm == 1.0


def test_booleans(yaml_file):
    text = "predict_with_generate: false\neval_strategy: no\ndo_train: yes\nearly_stopping: false\nbf16: on\n"
    path = yaml_file(text)
    arguments = parse_arguments([path, "--no_ignore_pad_token_for_loss", "--do_predict", "--no-bf16"])
    training = arguments.training
    assert training.bf16 is False
    assert training.predict_with_generate is False
    assert training.do_train is True
    assert training.do_predict is True
    assert training.eval_strategy == "no"
    assert arguments.data.ignore_pad_token_for_loss is False
    assert arguments.generation.early_stopping is False
    assert parse_arguments(["--early_stopping", "--disable_tqdm", "--seed", "1"]).generation.early_stopping is True


@pytest.mark.parametrize("has_instructions", [False, True])
def test_a_cpu_trains_in_bfloat16_if_it_has_the_instructions(settings, monkeypatch, has_instructions):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_instructions)

    def is_half(*flags: str) -> bool:
        training = parse_arguments([settings(use_cpu=True, do_train=True), *flags]).training
        assert training.mixed_precision == ("bf16" if training.bf16 else "no")
        return training.bf16

    assert not is_half()
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
    assert is_half() == has_instructions
    assert not is_half("--bf16", "false")
    assert not is_half("--do_train", "false", "--do_predict")


def test_repeated_overrides_extend_the_file(yaml_file):
    path = yaml_file("config_overrides: {d_model: 32, encoder_kernel_sizes: [3, 5], gating: gate}\n")
    flags = ["--config_overrides", "d_model=64", "--config_overrides", "gating=none"]
    overrides = parse_arguments([path, *flags]).model.config_overrides
    assert overrides == {"d_model": 64, "encoder_kernel_sizes": [3, 5], "gating": "none"}


def test_null_takes_a_flag_of_the_file_away_or_unsets_it(yaml_file):
    path = yaml_file("num_beams: 4\nearly_stopping: true\nlearning_rates: {gate: 2}\nschedule: noam\n")
    arguments = parse_arguments([path, "--num_beams", "null", "--early_stopping=null", "--schedule", "null"])
    assert arguments.generation.given() == {}
    assert arguments.training.schedule is None
    assert arguments.training.learning_rates == ["gate=2"]
    # null means unset and nested values arrive
    path = yaml_file("optimizer: null\nlr_scheduler_kwargs: {num_cycles: 2}\nlearning_rates: {embed: 1e-4, gate: 2}\n")
    training = parse_arguments([path, "--learning_rates", "norm=0"]).training
    assert training.optimizer is None
    assert training.lr_scheduler_kwargs == {"num_cycles": 2}
    assert training.learning_rates == ["embed=1e-4", "gate=2", "norm=0"]


def test_json_file_and_flags_alone(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"model_type": "t5", "do_eval": True}), encoding="utf-8-sig")
    assert parse_arguments([str(path)]).model.model_type == "t5"
    assert parse_arguments(["--model_type", "t5", "--do_sample", "--top_p", "0.9"]).generation.top_p == 0.9


# the text of a file and the end of the message
CASES_OF_WRONG_FILES = [
    ("lerning_rate: 1\n", "unknown key 'lerning_rate'; did you mean learning_rate?"),
    ("num_beams: four\n", "num_beams.*invalid int value: 'four'"),
    ("optimizer: sgd\n", "optimizer.*invalid choice: 'sgd'"),
    ("config_overrides: {d_model: 2020-01-01}\n", "config_overrides: .* date is not JSON serializable: put it in"),
    ("a: [1\n", "while parsing a flow sequence.*line"),
    ("", "must contain `key: value` lines"),
    ("- 1\n", "must contain `key: value` lines"),
]


@pytest.mark.parametrize(("text", "message"), CASES_OF_WRONG_FILES)
def test_wrong_file_is_named_with_what_is_wrong(yaml_file, text, message):
    path = yaml_file(text)
    with pytest.raises(ValueError, match=f"(?s){re.escape(path)}: .*{message}"):
        parse_arguments([path])


CASES_OF_WRONG_FLAGS = [
    (["--num_beam", "2"], "unknown flag --num_beam; did you mean --num_beams?"),
    (["--output_dir", "caf\udce9"], "--output_dir caf\ufffd: its name is not UTF-8; give another"),
    (["--num_beams", "two"], "invalid int value: 'two'"),
    (["nothing.yaml"], "nothing.yaml: .*No such file"),
    (["train.jsonl"], "train.jsonl: the first argument must be a .yaml or .json file"),
    (["gdlf/xsumm"], r"as gdlf/xsum; did you mean gdlf/xsum\?; flags"),
    (["tables/gdlf_1"], "tables/gdlf_1: the first argument must be"),
    (["--do_train", "true", "more.yaml"], "more.yaml: does not belong to a flag; a settings file must be the"),
    (["--train_tokens_per_batch", "0"], "--train_tokens_per_batch 0: must be at least 1"),
    (["--num_train_epochs", "1e300"], "--num_train_epochs 1e[+]300: must be at most 1000000"),
    (["--learning_rate", "nan"], "--learning_rate nan: must be finite"),
    (["--num_beams", "100000"], "--num_beams 100000: must be at most 1000"),
    (["--output_dir", "out", "--report_to", "tensorbord"], "tensorbord: must be one of .*tensorboard"),
    (["--torch_compile_backend", "induktor"], "--torch_compile_backend induktor: must be one of .*inductor"),
    (["--metrics", "rouge", "meteor"], "--metrics meteor: must be one of rouge, bleu, chrf, bertscore, novelty"),
    (["--metrics", "bertscore"], "--metrics bertscore: needs a model: name its encoder"),
    ([*BEST, "bertscore"], "--metric_for_best_model bertscore: not computed with .*: choose from loss, rouge1, "),
    ([*BEST, "eval_rouge3", "--metrics", "bleu"], "_best_model eval_rouge3: not .*: choose from loss, bleu"),
    ([*BEST, "rougeLsum", "--rouge_mode", "rouge155"], "rougeLsum: not computed .*: choose from loss, rouge1, "),
    ([*BEST, "rouge2", "--predict_with_generate", "no"], "_best_model rouge2: not .*: choose from loss$"),
    (["--generation_config", "/nowhere"], "--generation_config /nowhere: "),
    ([*BEST, "rogue2"], "_best_model rogue2: unknown metric; did you mean rouge2?"),
    (["--max_source_length", "1"], "--max_source_length 1: must be at least 2"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "message"), CASES_OF_WRONG_FLAGS)
def test_wrong_flag_is_named_with_what_would_do(argv, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments(argv)


def test_best_checkpoint_is_chosen_by_rouge_unless_told_otherwise():
    flags = ["--early_stopping_patience", "2", "--save_steps", "5", *EVALUATED, "--eval_steps", "5"]
    training = parse_arguments(flags).training
    assert training.load_best_model_at_end
    assert training.metric_for_best_model == "rouge2"
    assert training.greater_is_better is True
    flags = [*EVALUATED, "--load_best_model_at_end", "--save_strategy", "best", "--metrics", "novelty"]
    assert parse_arguments([*flags, "bleu"]).training.metric_for_best_model == "bleu"
    assert parse_arguments(flags).training.metric_for_best_model == "loss"


def test_best_model_may_be_chosen_by_any_metric_of_the_run():
    def greater_is_better(name, *flags):
        return parse_arguments([*BEST, name, *flags]).training.greater_is_better

    for name in ("perplexity", "nll", "eval_perplexity", "eval_loss"):
        assert greater_is_better(name) is False
    assert greater_is_better("rougeSU*", "--rouge_mode", "rouge155") is True
    assert greater_is_better("bleu", "--metrics", "rouge", "bleu") is True
    assert greater_is_better("novel2", "--metrics", "novelty") is True
    assert greater_is_better("repeated2", "--metrics", "novelty") is False
    # the loss of some models has this part
    assert greater_is_better("coverage_loss") is False


def test_metrics_of_the_flags_replace_those_of_the_file(yaml_file):
    path = yaml_file("metrics: [bleu]\n")
    assert parse_arguments([path]).training.metrics == ["bleu"]
    assert parse_arguments([path, "--metrics", "rouge", "novelty"]).training.metrics == ["rouge", "novelty"]
    assert parse_arguments([]).training.metrics == ["rouge", "support"]


@pytest.mark.parametrize(("installed", "expected"), [(True, ["tensorboard"]), (False, [])])
def test_reports_to_tensorboard_when_installed(monkeypatch, installed, expected):
    monkeypatch.setattr(module, "is_tensorboard_available", lambda: installed)
    assert parse_arguments(["--output_dir", "out"]).training.report_to == expected
    assert parse_arguments(["--output_dir", "out", "--report_to", "none"]).training.report_to == []


def test_data_of_the_flags_replaces_that_of_the_file(tmp_path):
    path = tmp_path / "settings.yaml"

    def corpus_of(*flags: str) -> Corpus:
        return parse_arguments([str(path), *flags, "--output_dir", "out"]).corpus

    hub = {"dataset_name": "org/news", "dataset_config_name": "en", "text_column": "article", "source_prefix": "p: "}
    path.write_text(yaml.safe_dump(hub), encoding="utf-8")
    for flags in (["--train_file", "mine.jsonl"], ["--train_file=mine.jsonl"], ["--train-file", "mine.jsonl"]):
        arguments = parse_arguments([str(path), *flags, "--output_dir", "out"])
        assert arguments.corpus == Corpus(train_file="mine.jsonl")
        assert arguments.data.source_prefix == "p: "
    assert corpus_of("--dataset_name", "org/other") == Corpus(dataset_name="org/other")
    path.write_text(yaml.safe_dump({"train_file": "theirs.jsonl", "summary_column": "s"}), encoding="utf-8")
    assert corpus_of("--dataset_name", "org/news") == Corpus(dataset_name="org/news")
    expected = Corpus(train_file="theirs.jsonl", validation_file="v.jsonl", summary_column="s")
    assert corpus_of("--validation_file", "v.jsonl") == expected


def declared_fields() -> list[dataclasses.Field]:
    """The flags that hf_summ declares: of the class of transformers' only those that are declared again."""
    fields = []
    for group in GROUPS:
        for field in dataclasses.fields(group):
            if field.name in group.__annotations__ or group is Corpus:
                fields.append(field)
    return fields


@pytest.mark.thorough
@pytest.mark.parametrize("field", declared_fields(), ids=lambda field: field.name)
def test_every_flag_of_ours_says_what_it_decides_and_what_happens_without_it(field):
    assert set(field.metadata["flag"].effects.split()) <= EFFECTS.keys()
    assert field.metadata["flag"].effects
    assert re.search(r" \(default: (?!None)[^()]+\)$", field.metadata["help"])


def test_table_of_transformers_flags_names_flags_that_exist_and_are_not_ours():
    transformers_flags = {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments)}
    declared_flags = {field.name for field in declared_fields()}
    assert INHERITED.keys() <= transformers_flags - declared_flags
    for flag in INHERITED.values():
        assert set(flag.effects.split()) <= EFFECTS.keys()
    assert FLAGS["gradient_checkpointing"].effects == "training"


def test_flags_can_be_asked_for_by_what_they_decide():
    assert flags_of("data") == {field.name for field in dataclasses.fields(Corpus)}
    assert flags_of("secret") == {"token", "hub_token"}
    assert flags_of("decoding") >= {field.name for field in dataclasses.fields(GenerationArguments)} | {"bf16", "seed"}
    assert not flags_of("decoding") & {"max_steps", "train_file", "learning_rate"}
