"""Flags that have no effect because of the values of others."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from hf_summ.models.checks import SETTINGS
from hf_summ.training.arguments import GROUPS, OF_EXTRACTION


class _Rule(NamedTuple):
    """Flags that have no effect together with others, or without them.

    Attributes:
        flags: names, separated by spaces.
        others: names, separated by spaces.
        values: the values of the others to which the rule applies; empty for any value that is set.
        needs: whether the flags need one of the others; if not, they have no effect together with one of them.
    """

    flags: str
    others: str
    values: tuple = ()
    needs: bool = True


# the values of flags that are switched off
_OFF = (None, False, "no", -1)
_EVALUATIONS = ("steps", "epoch")
_RULES = (
    _Rule(
        "per_device_train_batch_size train_sampling_strategy auto_find_batch_size dataloader_drop_last",
        "train_tokens_per_batch",
        needs=False,
    ),
    _Rule("per_device_eval_batch_size", "eval_tokens_per_batch", needs=False),
    _Rule("num_train_epochs", "max_steps", needs=False),
    _Rule("optim optim_args", "optimizer", needs=False),
    _Rule("adadelta_rho", "optimizer", ("adadelta",)),
    _Rule("adam_beta1 adam_beta2", "optimizer", ("adadelta",), needs=False),
    _Rule("adam_beta1 adam_beta2 adam_epsilon", "optim", ("adafactor", "sgd", "rmsprop", "adagrad"), needs=False),
    _Rule("lr_scheduler_type lr_scheduler_kwargs", "schedule", needs=False),
    _Rule("learning_rate", "schedule", ("noam",), needs=False),
    _Rule("noam_scale", "schedule", ("noam",)),
    _Rule("schedule_period minimum_learning_rate", "schedule", ("cosine",)),
    _Rule("generation_max_length", "max_new_tokens val_max_target_length", needs=False),
    _Rule("generation_num_beams", "num_beams", needs=False),
    _Rule("eval_strategy eval_on_start", "do_eval", (False,), needs=False),
    _Rule("eval_delay load_best_model_at_end metric_for_best_model", "eval_strategy", _EVALUATIONS),
    _Rule("early_stopping_patience", "eval_strategy", _EVALUATIONS),
    _Rule("greater_is_better", "metric_for_best_model load_best_model_at_end early_stopping_patience"),
    _Rule("early_stopping_threshold", "early_stopping_patience"),
    _Rule("eval_steps", "eval_strategy", ("steps",)),
    _Rule("eval_on_start", "eval_strategy do_eval"),
    _Rule("save_steps", "save_strategy", ("steps",)),
    _Rule("logging_steps", "logging_strategy", ("steps",)),
    _Rule("dataloader_persistent_workers dataloader_prefetch_factor", "dataloader_num_workers"),
    _Rule("metrics", "predict_with_generate"),
    _Rule("rouge_mode several_references", "metrics", ("rouge",)),
    _Rule("lora_alpha lora_dropout lora_target_modules", "lora_r"),
    _Rule(" ".join(OF_EXTRACTION), "extract_share extract_tokens"),
    *(_Rule(name, " ".join(setting.needs)) for name, setting in SETTINGS.items() if setting.needs),
    _Rule("hub_strategy hub_private_repo hub_always_push hub_revision push_results", "push_to_hub"),
)

# transformers' flags that the recipe does not read -> what to do
_UNREAD = {
    "sortish_sampler": "give --train_sampling_strategy group_by_length, or --train_tokens_per_batch",
    **dict.fromkeys(
        ("eval_do_concat_batches", "batch_eval_metrics", "include_for_metrics", "use_cache"), "leave it out"
    ),
}


def without_effect(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that have no effect because of others, each with a message that says what to do.

    Args:
        settings: flags and their values; None means not given.
    """
    found = {
        name: f"--{name} {_shown(settings[name])}: has no effect here: {way}"
        for name, way in _UNREAD.items()
        if settings.get(name) not in (None, _default(name))
    }
    for rule in _RULES:
        for name in rule.flags.split():
            # a flag that is switched off needs no other
            if _plain(settings.get(name)) not in _OFF and (problem := _problem(rule, settings)):
                found.setdefault(name, f"--{name} {_shown(settings[name])}: {problem}")
    return found


def _problem(rule: _Rule, settings: Mapping[str, Any]) -> str | None:
    others = rule.others.split()
    if rule.needs:
        values = [_default(name) if settings.get(name) is None else settings[name] for name in others]
        shown = " ".join(map(str, rule.values[:1]))
        needed = " or ".join(f"--{name} {shown}".rstrip() for name in others)
        return None if any(_counts(value, rule) for value in values) else f"needs {needed}"
    beside = next((name for name in others if _counts(settings.get(name), rule)), None)
    if beside is None:
        return None
    default = "null" if _default(beside) is None else _default(beside)
    way = f"--{beside}" if settings[beside] is False else f"--{beside} {default}"
    return f"has no effect beside --{beside} {_shown(settings[beside])}: leave it out, or give {way}"


def _counts(value: Any, rule: _Rule) -> bool:
    found = value if isinstance(value, list) else [_plain(value)]
    return any(one in rule.values if rule.values else one not in _OFF for one in found)


def _plain(value: Any) -> Any:
    """The value of an enumeration member of transformers, or any other value unchanged."""
    return getattr(value, "value", value)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(_plain(value))


@functools.cache
def _default(name: str) -> Any:
    (field,) = (field for group in GROUPS for field in dataclasses.fields(group) if field.name == name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
