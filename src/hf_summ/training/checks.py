"""Checks of the values of a run's flags: ranges of numbers, licenses, and parallelism."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from hf_summ.common.messages import nearest
from hf_summ.models.checks import FINITE, SETTINGS, Range

# more than any machine or corpus needs
_MANY, _TOKENS = 10**6, 10**7
_COUNT, _POSITIVE, _NOT_NEGATIVE = Range(1, _MANY), Range(0, FINITE, above=True), Range(0, FINITE)
_FRACTION = Range(0, 0.999999)

BOUNDS: Mapping[str, Range] = {
    **{name: setting.range for name, setting in SETTINGS.items()},
    **dict.fromkeys(("per_device_train_batch_size", "per_device_eval_batch_size"), _COUNT),
    **dict.fromkeys(("gradient_accumulation_steps", "save_total_limit"), _COUNT),
    **dict.fromkeys(("max_train_samples", "max_eval_samples", "max_predict_samples"), Range(1)),
    # one of the tokens is the end token; summaries are generated as long as targets
    "max_source_length": Range(2, _TOKENS),
    **dict.fromkeys(("max_target_length", "val_max_target_length"), Range(2, SETTINGS["max_new_tokens"].range.most)),
    **dict.fromkeys(("train_tokens_per_batch", "eval_tokens_per_batch"), Range(1)),
    "max_steps": Range(1, 10**12),
    "num_train_epochs": Range(0, _MANY, above=True),
    **dict.fromkeys(("schedule_period", "early_stopping_patience", "lead_sentences"), Range(1)),
    **dict.fromkeys(("save_steps", "eval_steps", "logging_steps"), _POSITIVE),
    **dict.fromkeys(("noam_scale", "max_grad_value"), _POSITIVE),
    **dict.fromkeys(("learning_rate", "minimum_learning_rate", "weight_decay", "max_grad_norm"), _NOT_NEGATIVE),
    **dict.fromkeys(("eval_delay", "early_stopping_threshold", "show_summaries"), _NOT_NEGATIVE),
    **dict.fromkeys(("adam_epsilon", "neftune_noise_alpha", "warmup_steps"), _NOT_NEGATIVE),
    **dict.fromkeys(("adam_beta1", "adam_beta2", "adadelta_rho", "label_smoothing_factor"), _FRACTION),
    **dict.fromkeys(("seed", "data_seed"), Range(0, 2**32 - 1)),
    "preprocessing_num_workers": Range(1, 1024),
    "dataloader_num_workers": Range(0, 1024),
    "lora_r": _COUNT,
    "lora_alpha": _POSITIVE,
    "lora_dropout": _FRACTION,
    **dict.fromkeys(("min_coverage", "extract_share"), Range(0, 1, above=True)),
    "extract_tokens": Range(1, _TOKENS),
}
# the values that mean "no limit"
_UNBOUNDED = {"max_steps": -1}
# https://huggingface.co/docs/hub/repositories-licenses; huggingface_hub has no such list
LICENSES = tuple(
    """
    apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 bigcode-openrail-m
    afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0
    cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0
    lgpl lgpl-2.1 lgpl-3.0 isc h-research intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0 odc-by odbl
    openmdw-1.0 openmdw-1.1 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl lgpl-lr deepfloyd-if-license
    fair-noncommercial-research-license llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 grok2-community gemma unknown
    other
    """.split()
)
_INSTEAD = "train with DDP (`accelerate launch`) or FSDP2 (`--fsdp`)"
# accelerate's names for the numbers of processes that share a layer or a text
_SIZES = {"tp_size": "tensor", "cp_size": "context", "sp_size": "sequence"}


def check_bounds(arguments: Any) -> None:
    """Check the numbers of a dataclass of flags; None means not given.

    Raises:
        ValueError: a number is out of range.
    """
    for name, bounds in BOUNDS.items():
        value, unbounded = getattr(arguments, name, None), _UNBOUNDED.get(name)
        problem = bounds.problem(value) if isinstance(value, int | float) and value != unbounded else None
        if problem is not None:
            raise ValueError(f"--{name} {value}: must be {problem}{'' if unbounded is None else f', or {unbounded}'}")


def check_license(identifier: str) -> None:
    """Check that a license is an identifier of the Hub.

    Raises:
        ValueError: it is not; the message suggests the most similar identifier.
    """
    if identifier not in LICENSES:
        hint = nearest(identifier, LICENSES) or "; see https://huggingface.co/docs/hub/repositories-licenses"
        raise ValueError(f"--license {identifier}: not a license identifier of the Hub{hint}")


def check_parallelism(arguments: TrainingArguments) -> None:
    """Check that the models support the kind of parallelism, whether a flag or `accelerate launch` sets it.

    Raises:
        ValueError: DeepSpeed, FSDP version 1, or tensor, context or sequence parallelism is set.
    """
    if arguments.deepspeed or _is_set("ACCELERATE_USE_DEEPSPEED"):
        raise ValueError(f"DeepSpeed is not supported: {_INSTEAD}")
    if asks_for_fsdp(arguments) and _fsdp_version(arguments) == 1:
        raise ValueError("FSDP version 1 is not supported: use version 2, which shards each weight separately")
    for size, kind in _SIZES.items():
        if _parallel_size(arguments, size) > 1:
            raise ValueError(f"{kind} parallelism ({size} above 1) is not supported: {_INSTEAD}")


def asks_for_fsdp(arguments: TrainingArguments) -> bool:
    """Whether a flag or `accelerate launch` enables FSDP."""
    return bool(arguments.fsdp) or _is_set("ACCELERATE_USE_FSDP")


def _fsdp_version(arguments: TrainingArguments) -> int:
    if arguments.fsdp:
        config = arguments.fsdp_config or {}
        if isinstance(config, str):
            config = json.loads(config if config.startswith("{") else Path(config).read_text(encoding="utf-8"))
        return int(config.get("version", config.get("fsdp_version", 2)))
    return int(os.environ.get("FSDP_VERSION", "1"))


def _parallel_size(arguments: TrainingArguments, name: str) -> int:
    config = arguments.parallelism_config
    if isinstance(config, Mapping):
        return int(config.get(name) or 1)
    if config is not None:
        return int(getattr(config, name, None) or 1)
    return int(os.environ.get(f"PARALLELISM_CONFIG_{name.upper()}", "1"))


def _is_set(name: str) -> bool:
    return os.environ.get(name, "false").lower() == "true"
