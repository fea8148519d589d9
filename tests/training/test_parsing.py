"""Flags that others leave without effect, and those that transformers alone would read."""

import contextlib
import dataclasses
import hashlib
import json
import shutil
import types
import typing

import pytest
import torch
import yaml
from transformers import Seq2SeqTrainingArguments

from hf_summ.training.arguments import FLAGS, GROUPS
from hf_summ.training.checks import INHERITED, UNREAD
from hf_summ.training.parsing import (
    as_flag,
    bundled_configs,
    merged,
    parse_arguments,
    parse_flags,
    read_settings,
    without_effect,
)
from hf_summ.training.run import run

# what changes no weight, score or file of a short run on one CPU: where else its effect shows
ELSEWHERE = set(
    """
    trust_remote_code resize_position_embeddings preprocessing_num_workers overwrite_cache use_cpu do_train do_eval
    do_predict show_summaries max_eval_samples max_predict_samples lead_sentences disable_tqdm
    activation_checkpointing gradient_checkpointing torch_empty_cache_steps full_determinism eval_accumulation_steps
    dataloader_num_workers dataloader_pin_memory dataloader_in_order remove_unused_columns
    average_tokens_across_devices eval_use_gather_object ddp_find_unused_parameters ddp_bucket_cap_mb
    ddp_broadcast_buffers ddp_static_graph ddp_timeout local_rank log_on_each_node save_on_each_node
    save_only_model save_total_limit enable_jit_checkpoint ignore_data_skip restore_callback_states_from_checkpoint
    logging_nan_inf_filter several_references min_coverage pad_to_max_length auto_find_batch_size
    trackio_static_space_id per_device_eval_batch_size lines
    """.split()
)
# where any other value would do nothing to a corpus so small
VALUES = {"max_grad_value": 1e-4, "eval_delay": 5, "optimizer": "adadelta", "extract_share": 0.1}
# these take minutes, or other machines
NOT_RUN = {"torch_compile", "push_to_hub", "deepspeed", "fsdp", "debug", "output_dir", "tf32", "fp16"}


CASES_OF_FLAGS_WITHOUT_EFFECT = [
    ("--per_device_train_batch_size 4", "beside --train_tokens_per_batch 160: .*, or give --train_tokens_per"),
    ("--optim adafactor", "adafactor: has no effect beside --optimizer adam: omit it, or give .* null$"),
    ("--optimizer null --optim adafactor --adam_beta2 .7", "0.7: has no effect beside --optim adafactor"),
    ("--num_train_epochs 2", "beside --max_steps 8: omit it, or give --max_steps -1$"),
    ("--noam_scale 2", "--noam_scale 2.0: needs --schedule noam$"),
    ("--early_stopping_patience 2", "2: needs --eval_strategy steps or --eval_strategy epoch$"),
    ("--eval_on_start", "--eval_on_start: needs --eval_strategy or --do_eval$"),
    ("--no_do_eval --eval_strategy steps", "beside --do_eval False: omit it, or give --do_eval$"),
    ("--several_references best --metrics bleu", "best: needs --metrics rouge$"),
    ("--sortish_sampler", "has no effect here: give --train_sampling_strategy group_by_length, or --train_tokens"),
    ("--eval_do_concat_batches false", "has no effect here: omit it$"),
]


@pytest.mark.parametrize(("flags", "message"), CASES_OF_FLAGS_WITHOUT_EFFECT)
def test_flag_without_effect_is_refused(settings, flags, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments([settings(), *flags.split()])


def test_flag_without_effect_is_refused_in_a_file_too(settings):
    with pytest.raises(ValueError, match="has no effect beside --schedule cosine"):
        parse_arguments([settings(lr_scheduler_type="linear")])


def test_flags_take_away_what_they_leave_without_effect(settings):
    evaluating = {"eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True, "save_steps": 4}
    path = settings(**evaluating, save_strategy="steps", early_stopping_patience=3)
    training = parse_arguments([path, "--no_do_eval", "--schedule", "noam"]).training
    assert (training.do_eval, training.eval_strategy, training.load_best_model_at_end) == (False, "no", False)
    assert (training.early_stopping_patience, training.learning_rate) == (None, 5e-5)
    assert parse_arguments([path, "--no_do_eval", "--eval_strategy", "no"]).training.eval_strategy == "no"
    # what a file contradicts itself in stays, for the error
    assert merged({"optim": "adafactor", "optimizer": "adam"}, {"seed": 1})["optim"] == "adafactor"


def test_conditions_name_flags():
    conditions = {condition for flag in FLAGS.values() for condition in (*flag.needs, *flag.unless)}
    assert {condition.split("=")[0] for condition in conditions} <= FLAGS.keys()
    assert INHERITED.keys() | UNREAD.keys() <= {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments)}


@pytest.mark.parametrize("name", bundled_configs())
def test_any_configuration_has_a_short_run(name):
    training = parse_arguments([name, "--quick", "30", "--output_dir", "out", "--logging_steps", "7"]).training
    assert (training.max_steps, training.warmup_steps, training.logging_steps) == (30, 3, 7)
    assert training.eval_strategy == "no" or training.eval_steps == 10
    assert training.save_strategy == "no" or training.save_steps == 10
    assert training.schedule is training.early_stopping_patience is None
    assert training.gradient_accumulation_steps == 1
    assert training.lr_scheduler_type == "cosine"
    assert training.optimizer in ("adam", "adamw")
    assert 1e-4 <= training.learning_rate <= 2e-3


@pytest.mark.parametrize(("strategy", "logging_steps"), [("epoch", 15), ("no", None), ("steps", 15)])
def test_a_short_run_logs_by_updates_unless_the_file_logs_nothing(tmp_path, strategy, logging_steps):
    evaluating = "num_train_epochs: 5\ndo_eval: true\neval_strategy: epoch\nsave_strategy: epoch\n"
    file = tmp_path / "settings.yaml"
    file.write_text(f"logging_strategy: {strategy}\n{evaluating}", encoding="utf-8")
    arguments = parse_arguments([str(file), "--quick", "300"])
    assert (arguments.training.eval_steps, arguments.training.save_steps) == (100, 100)
    assert arguments.given.get("logging_steps") == logging_steps
    assert arguments.training.logging_strategy == ("no" if strategy == "no" else "steps")
    # a strategy on the command line stays
    training = parse_arguments([str(file), "--quick", "300", "--logging_strategy", "epoch"]).training
    assert training.logging_strategy == "epoch"


def test_the_settings_of_a_short_run_describe_it(tmp_path):
    file = tmp_path / "settings.yaml"
    flags = "--quick 300 --optimizer null --optim adafactor --learning_rate 3e-4 --output_dir out"
    arguments = parse_arguments(["copy_transformer/cnn_dailymail_small", *flags.split()])
    # a model card and run.yaml show these settings
    file.write_text(yaml.safe_dump(arguments.given), encoding="utf-8")
    again = parse_arguments([str(file)])
    assert again == arguments
    training = again.training
    assert (training.optimizer, training.optim, training.learning_rate) == (None, "adafactor", 3e-4)
    assert (training.max_steps, training.warmup_steps, training.logging_steps) == (300, 30, 15)


def test_null_unsets_every_flag():
    for name in FLAGS:
        assert merged(parse_flags([f"--{name}=null"])) == {name: None}
        assert merged(parse_flags(as_flag(name, None))) == {name: None}


@pytest.mark.parametrize("name", bundled_configs())
def test_configurations_have_no_flag_without_effect(name):
    assert without_effect(read_settings(name)) == {}


def results(folder):
    """Hashes of what a run wrote, without times and settings."""
    found = {}
    for path in folder.rglob("*"):
        if path.suffix in (".safetensors", ".json", ".jsonl", ".txt"):
            content = path.read_bytes()
            if path.name == "trainer_state.json" or path.name.endswith("_results.json"):
                content = json.loads(content)
                entries = content.get("log_history", [content])
                content = [
                    {k: v for k, v in entry.items() if "time" not in k and "second" not in k} for entry in entries
                ]
                content = json.dumps(content).encode()
            if "optimizer" not in path.name:
                found[path.relative_to(folder)] = hashlib.sha256(content).digest()
    return found


def other_value(field, hint):
    """A value that is not the flag's default, or None for a text."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union else [hint]
    if bool in kinds:
        return field.default is not True
    for kind in kinds:
        choices = (
            typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else getattr(kind, "__members__", {})
        )
        if choices:
            values = getattr(kind, "__members__", None)
            values = choices if values is None else [choice.value for choice in values.values()]
            return next(value for value in values if value != field.default)
    if int in kinds:
        return (field.default if isinstance(field.default, int) else 2) + 1
    if float in kinds:
        return field.default * 0.7 if field.default else 0.3
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("batches", ["tokens", "examples"])
def test_every_flag_has_an_effect_or_is_refused(settings, tmp_path, batches):
    base = {"logging_steps": 2, "num_beams": 2, "lead_sentences": 1, "max_source_length": 200}
    base |= dict.fromkeys(("do_eval", "do_predict"), True)
    for kind in ("eval", "save"):
        base |= {f"{kind}_strategy": "steps", f"{kind}_steps": 4}
    if batches == "examples":
        others = ("train_tokens_per_batch", "eval_tokens_per_batch", "optimizer", "schedule", "max_steps")
        base |= dict.fromkeys(others) | {"per_device_train_batch_size": 5, "num_train_epochs": 1.5}

    def run_with(**changes):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        torch.manual_seed(0)
        run(parse_arguments([settings(**base | changes)]))
        return results(tmp_path / "out")

    expected = run_with()
    assert run_with() == expected
    silent = []
    for group in GROUPS:
        hints = typing.get_type_hints(group)
        for field in dataclasses.fields(group):
            if not field.init or field.name in ELSEWHERE | NOT_RUN | base.keys():
                continue
            value = VALUES.get(field.name, other_value(field, hints[field.name]))
            if value is None:
                continue
            with contextlib.suppress(ValueError, ImportError):
                if run_with(**{field.name: value}) == expected:
                    silent.append(f"--{field.name} {value}")
    assert "\n".join(silent) == ""
