"""The values that settings of `generate()` may have: with others it fails deep inside, or in silence."""

import sys
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from transformers import GenerationConfig

from .checks import is_number

# more than any text has tokens
_TOKENS = 10**6
# name -> the least and the largest integer
_INTEGERS = {
    **dict.fromkeys(("max_length", "max_new_tokens"), (1, _TOKENS)),
    **dict.fromkeys(("min_length", "min_new_tokens", "min_new_words"), (0, _TOKENS)),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), (0, _TOKENS)),
    **dict.fromkeys(("no_repeat_word_ngram_size", "top_k"), (0, _TOKENS)),
    "lm_top_tokens": (1, _TOKENS),
    "num_beams": (1, 1000),
    "num_return_sequences": (1, 10_000),
    "latent_seed": (0, 2**63 - 1),
}
# name -> the least and the largest number
_NUMBERS = {
    # beyond these, scores of a model in half precision are no longer finite
    **dict.fromkeys(("temperature", "repetition_penalty", "encoder_repetition_penalty"), (1e-4, 1e4)),
    "coverage_penalty": (0, 1e4),
    **dict.fromkeys(("gnmt_length_penalty", "gnmt_length_offset"), (0, sys.float_info.max)),
    **dict.fromkeys(("lm_rejected_factor", "lm_accepted_factor", "lm_percentile"), (0, sys.float_info.max)),
    **dict.fromkeys(("top_p", "min_p", "typical_p"), (0, 1)),
    "length_penalty": (-sys.float_info.max, sys.float_info.max),
}
_SWITCHES = (
    *("do_sample", "use_cache", "replace_unk", "sample_latent", "renormalize_logits", "remove_invalid_values"),
    *("return_dict_in_generate", "output_scores", "output_logits", "output_attentions", "output_hidden_states"),
)
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
_IDS += ("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens")
# of these, only a list
_LISTS = ("suppress_tokens", "begin_suppress_tokens")


def check_generation_config(config: Any) -> None:
    """Check that a `generation_config` is one, or None.

    Raises:
        TypeError: it is something else.
    """
    if config is not None and not isinstance(config, GenerationConfig):
        raise TypeError(
            f"`generation_config` must be a GenerationConfig, but is {type(config).__name__}: {config!r:.80}"
        )


def check_generation_settings(settings: Mapping[str, Any], vocab_size: int | None = None) -> None:
    """Check settings of `generate()` by name; None is not given, and others than those known here are left alone.

    Args:
        vocab_size: number of the model's tokens, which their ids are below.

    Raises:
        ValueError: a value of another type, or out of range.
    """
    for name, value in settings.items():
        # many files have a temperature of 0 for greedy search, which does not read it
        is_read = name != "temperature" or settings.get("do_sample")
        problem = _problem(name, value, vocab_size) if is_read and value is not None else None
        if problem is not None:
            raise ValueError(f"`{name}` is {value!r:.80}, but must be {problem}")


def in_floats(settings: Mapping[str, Any]) -> dict[str, float]:
    """The settings among these that are numbers written as integers, which transformers refuses for some of them."""
    return {name: float(value) for name, value in settings.items() if name in _NUMBERS and _is_integer(value)}


def _problem(name: str, value: Any, vocab_size: int | None) -> str | None:
    """What the setting must be, or None if it is that."""
    if name in _INTEGERS:
        least, most = _INTEGERS[name]
        if not _is_integer(value) or value < least:
            return f"an integer of at least {least}"
        return None if value <= most else f"at most {most}"
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        if is_number(value) and least <= value <= most:
            return None
        if most < sys.float_info.max:
            return f"a number from {least:g} to {most:g}"
        return "a finite number" if least < 0 else f"at least {least} and finite"
    if name in _SWITCHES:
        return None if isinstance(value, bool) else "True or False"
    if name == "early_stopping":
        return None if isinstance(value, bool) or value == "never" else "True, False or 'never'"
    return _problem_of_ids(name, value, vocab_size) if name in _IDS else None


def _problem_of_ids(name: str, value: Any, vocab_size: int | None) -> str | None:
    many = hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
    ids = [int(token) if hasattr(token, "item") else token for token in value] if many else [value]
    if (name in _LISTS and not many) or not ids or not all(_is_integer(token) and token >= 0 for token in ids):
        return f"{'a list of ids' if name in _LISTS else 'an id, or a list of ids'} of tokens"
    if vocab_size is not None and any(token >= vocab_size for token in ids):
        return f"an id below {vocab_size}, the number of the model's tokens"
    return None


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
