"""The values that the numbers among a run's flags may have."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bounds:
    """Numbers from `least` to `most`; `is_open` excludes the least, and `or_is` is allowed as well."""

    least: float
    most: float = sys.float_info.max
    is_open: bool = False
    or_is: float | None = None

    def problem(self, value: float) -> str | None:
        """What a number must be that is out of bounds, as NaN and infinity are; None for others."""
        other = "" if self.or_is is None else f", or {self.or_is:g}"
        if value == self.or_is:
            return None
        if not math.isfinite(value):
            return "must be finite"
        if value < self.least or (self.is_open and value == self.least):
            return f"must be {'above' if self.is_open else 'at least'} {self.least:g}{other}"
        return None if value <= self.most else f"must be at most {self.most:.10g}{other}"


# more than any machine or corpus has use for
_MANY, _TOKENS = 10**6, 10**7
_COUNT, _POSITIVE, _NOT_NEGATIVE, _SHARE = Bounds(1, _MANY), Bounds(0, is_open=True), Bounds(0), Bounds(0, 1)
_FRACTION = Bounds(0, 0.999999)

BOUNDS: Mapping[str, Bounds] = {
    **dict.fromkeys(("per_device_train_batch_size", "per_device_eval_batch_size"), _COUNT),
    **dict.fromkeys(("gradient_accumulation_steps", "save_total_limit"), _COUNT),
    **dict.fromkeys(("max_train_samples", "max_eval_samples", "max_predict_samples"), Bounds(1)),
    # one of the tokens is the end token
    **dict.fromkeys(("max_source_length", "max_target_length", "val_max_target_length"), Bounds(2, _TOKENS)),
    **dict.fromkeys(("train_tokens_per_batch", "eval_tokens_per_batch"), Bounds(1)),
    "max_steps": Bounds(1, 10**12, or_is=-1),
    "num_train_epochs": Bounds(0, _MANY, is_open=True),
    **dict.fromkeys(("schedule_period", "early_stopping_patience", "lead_sentences"), Bounds(1)),
    **dict.fromkeys(("save_steps", "eval_steps", "logging_steps"), _POSITIVE),
    **dict.fromkeys(("noam_scale", "max_grad_value"), _POSITIVE),
    **dict.fromkeys(("learning_rate", "minimum_learning_rate", "weight_decay", "max_grad_norm"), _NOT_NEGATIVE),
    **dict.fromkeys(("eval_delay", "early_stopping_threshold", "show_summaries"), _NOT_NEGATIVE),
    **dict.fromkeys(("adam_epsilon", "neftune_noise_alpha", "warmup_steps"), _NOT_NEGATIVE),
    **dict.fromkeys(("adam_beta1", "adam_beta2", "adadelta_rho", "label_smoothing_factor"), _FRACTION),
    **dict.fromkeys(("seed", "data_seed"), Bounds(0, 2**32 - 1)),
    "preprocessing_num_workers": Bounds(1, 1024),
    "dataloader_num_workers": Bounds(0, 1024),
    "num_beams": Bounds(1, 1000),
    "max_new_tokens": Bounds(1, _TOKENS),
    **dict.fromkeys(("min_new_tokens", "min_new_words"), Bounds(0, _TOKENS)),
    **dict.fromkeys(("no_repeat_ngram_size", "no_repeat_word_ngram_size", "top_k"), _NOT_NEGATIVE),
    **dict.fromkeys(("gnmt_length_penalty", "gnmt_length_offset", "coverage_penalty"), _NOT_NEGATIVE),
    **dict.fromkeys(("temperature", "repetition_penalty"), _POSITIVE),
    "length_penalty": Bounds(-sys.float_info.max),
    "top_p": _SHARE,
    "lora_r": _COUNT,
    "lora_alpha": _POSITIVE,
    "lora_dropout": _FRACTION,
    "extract_share": Bounds(0, 1, is_open=True),
    "extract_tokens": Bounds(1, _TOKENS),
}


def check_bounds(arguments: Any) -> None:
    """Check the numbers of a dataclass of flags; None is not given.

    Raises:
        ValueError: one is out of range.
    """
    for name, bounds in BOUNDS.items():
        value = getattr(arguments, name, None)
        problem = bounds.problem(value) if isinstance(value, int | float) else None
        if problem is not None:
            raise ValueError(f"--{name} {value}: {problem}")
