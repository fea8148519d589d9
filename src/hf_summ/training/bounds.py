"""The values that the numbers among a run's flags may have."""

from collections.abc import Mapping
from typing import Any

from hf_summ.models.checks import FINITE, SETTINGS, Range

# more than any machine or corpus has use for
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
# what sets no bound
_UNBOUNDED = {"max_steps": -1}


def check_bounds(arguments: Any) -> None:
    """Check the numbers of a dataclass of flags; None is not given.

    Raises:
        ValueError: one is out of range.
    """
    for name, bounds in BOUNDS.items():
        value, unbounded = getattr(arguments, name, None), _UNBOUNDED.get(name)
        problem = bounds.problem(value) if isinstance(value, int | float) and value != unbounded else None
        if problem is not None:
            raise ValueError(f"--{name} {value}: must be {problem}{'' if unbounded is None else f', or {unbounded}'}")
