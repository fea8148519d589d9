"""The settings of `generate()`: those of the flags and of the service, and those that the search around graphs has."""

from collections.abc import Mapping
from typing import Any

from hf_summ.models.checks import (
    ADDED_SETTINGS,
    FINITE,
    MOST_TOKENS,
    TOKEN_COUNT,
    Range,
    Setting,
    check_settings,
    is_integer,
    is_number,
)

_LENGTH = Range(1, MOST_TOKENS)
# beyond this range, half-precision scores overflow
_FACTOR = Range(1e-4, 1e4)

# each limit of `generate()` has two names; transformers always prefers the name with `new_tokens`
_OTHER_NAMES = {
    "max_new_tokens": "max_length",
    "max_length": "max_new_tokens",
    "min_new_tokens": "min_length",
    "min_length": "min_new_tokens",
}
# None switches other settings off, but a search needs a value of these
_NEEDED = frozenset({"length_penalty", "max_length", "max_new_tokens", "num_beams", "num_return_sequences"})

SETTINGS: Mapping[str, Setting] = {
    "num_beams": Setting(int, Range(1, 1000), "Number of beams; 1 is greedy search", 1000),
    # a summary's length to the power of 100 is still finite
    "length_penalty": Setting(
        float,
        Range(-FINITE, FINITE),
        "Exponent of the length, which divides scores; above 0 favors longer summaries",
        request_limit=100,
        needs_beams=True,
    ),
    "early_stopping": Setting(
        bool, help="Stop as soon as there are num_beams finished candidates", request_limit=True, needs_beams=True
    ),
    "no_repeat_ngram_size": Setting(int, TOKEN_COUNT, "Size in tokens of n-grams that must not repeat", 100),
    "min_new_tokens": Setting(int, TOKEN_COUNT, "Minimum number of tokens of a summary", MOST_TOKENS),
    "max_new_tokens": Setting(int, _LENGTH, "Maximum number of tokens of a summary", MOST_TOKENS),
    "repetition_penalty": Setting(
        float, _FACTOR, "Penalty on tokens that have already occurred; values above 1 make them less likely", 100
    ),
    "do_sample": Setting(bool, help="Sample instead of searching", request_limit=True),
    "temperature": Setting(float, _FACTOR, "Temperature of sampling", 100, needs=("do_sample",)),
    "top_k": Setting(int, TOKEN_COUNT, "Sample from the k most likely tokens", 1000, needs=("do_sample",)),
    "top_p": Setting(
        float,
        Range(0, 1),
        "Sample from the fewest most likely tokens with at least this total probability",
        1,
        needs=("do_sample",),
    ),
    # the number of tokens with the decoder's start token
    "max_length": Setting(int, Range(2, MOST_TOKENS), request_limit=MOST_TOKENS),
    "min_length": Setting(int, TOKEN_COUNT, request_limit=MOST_TOKENS),
    # the seconds after which a summary ends as it is, as in the Inference API
    "max_time": Setting(float, Range(0, FINITE, excludes_least=True), request_limit=120),
    "num_return_sequences": Setting(int, Range(1, 10_000)),
    **ADDED_SETTINGS,
}


# settings of a summarizer that graphs have too, besides the settings of their search
_SUMMARIZER_SETTINGS = frozenset(
    {
        "batch_size",
        "revision",
        "long_documents",
        "language",
        "source_prefix",
        "truncation",
        "extract_share",
        "extract_tokens",
        "extract_idf",
        "next_sentence_model",
        "return_details",
        "return_tensors",
        "return_text",
        "clean_up_tokenization_spaces",
    }
)
# values of `device` for the CPU, the only device of graphs, as texts
_CPU = ("None", "cpu", "-1")


# settings that a choice among whole sentences reads or refuses
CHOICE_SETTINGS = frozenset(
    {"whole_sentences", "max_new_tokens", "max_length", "max_time", "do_sample", "num_return_sequences"}
)


class PyTorchNeeded(ValueError):
    """Only PyTorch and transformers have a setting that the search around graphs lacks, or can read the tokenizer."""


# settings that this search has; `max_length` and `min_length` are other names of limits
SUPPORTED = frozenset(
    {
        "num_beams",
        "num_return_sequences",
        "length_penalty",
        "gnmt_length_penalty",
        "gnmt_length_offset",
        "early_stopping",
        "beam_stopping",
        "no_repeat_ngram_size",
        "no_repeat_word_ngram_size",
        "ignore_when_blocking",
        "ngram_blocking",
        "min_new_tokens",
        "min_length",
        "min_new_words",
        "max_new_tokens",
        "max_length",
        "whole_sentences",
        "coverage_penalty",
        "replace_unk",
        "repetition_penalty",
        "max_time",
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "bad_words_ids",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
    }
)
# values of other settings with which they have no effect, besides None and False
_NEUTRAL = {
    "encoder_repetition_penalty": 1,
    "guidance_scale": 1,
    "num_beam_groups": 1,
    "typical_p": 1,
    "encoder_no_repeat_ngram_size": 0,
    "diversity_penalty": 0,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
}
# settings of transformers that change summaries and that this search lacks
LACKING = frozenset(
    {
        *_NEUTRAL,
        "begin_suppress_tokens",
        "constraints",
        "dola_layers",
        "exponential_decay_length_penalty",
        "force_words_ids",
        "min_p",
        "penalty_alpha",
        "renormalize_logits",
        "sequence_bias",
        "stop_strings",
        "suppress_tokens",
        "top_h",
        "watermarking_config",
    }
)
# settings without effect on the texts of a search
_NO_EFFECT = {
    "use_cache",
    "transformers_version",
    "cache_implementation",
    "is_assistant",
    "tokenizer",
    "compile_config",
    "remove_invalid_values",
    "output_scores",
    "output_logits",
    "output_attentions",
    "output_hidden_states",
    "return_dict_in_generate",
    # removed settings, which checkpoints of earlier versions have
    "english_articles",
    "support_weight",
}


def check_generation_settings(settings: Mapping[str, Any]) -> None:
    """Raise a ValueError for a value out of range. None means unset, and unknown settings are ignored."""
    checked = dict(settings)
    if not settings.get("do_sample"):
        # many checkpoints set a temperature of 0 for greedy search, which ignores it
        checked.pop("temperature", None)
    if settings.get("early_stopping") == "never":
        # the table has the values of the flag alone
        del checked["early_stopping"]
    check_settings(checked, SETTINGS)


def in_types(settings: Mapping[str, Any]) -> dict[str, float]:
    """The settings that are numbers, in Python's type for each setting: such as 2.0 for an integer 2, or for NumPy's.

    transformers refuses some integers where it expects floats, and ONNX Runtime refuses integers of 32 bits.
    """
    numbers: dict[str, float] = {}
    for name, value in settings.items():
        number_type = SETTINGS[name].type if name in SETTINGS else None
        if number_type is int and is_integer(value):
            numbers[name] = int(value)
        elif number_type is float and (is_integer(value) or is_number(value)):
            numbers[name] = float(value)
    return numbers


def lacking(settings: Mapping[str, Any]) -> str | None:
    """The first setting that changes summaries and that the search around graphs lacks, or None."""
    for name, value in settings.items():
        if name in SUPPORTED or name in _NO_EFFECT or name.startswith("_"):
            continue
        if value is not None and value is not False and value != _NEUTRAL.get(name):
            return name
    return None


def needs_pytorch(settings: Mapping[str, Any]) -> bool:
    """Whether a setting of a pipeline or of `generate()` is one that a summarizer of graphs lacks."""
    remaining = {name: value for name, value in settings.items() if name not in _SUMMARIZER_SETTINGS}
    # graphs have their own tokenizer
    has_tokenizer = remaining.pop("tokenizer", None) is not None
    is_on_cpu = str(remaining.pop("device", None)) in _CPU
    return has_tokenizer or not is_on_cpu or lacking(remaining) is not None


def overriding_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a call or a constructor, in the form in which they replace those of the checkpoint.

    Settings that a search cannot do without are left out if they are None, so that the checkpoint's values hold. For
    each limit that is set under one name, its other name is None, so that the checkpoint's value does not win. For the
    same reason, a None stays if a `generation_config` in the settings has the limit under the other name.
    """
    result = {}
    for name, other_name in _OTHER_NAMES.items():
        if settings.get(other_name) is not None:
            result[name] = None
    config = settings.get("generation_config")
    for name, value in settings.items():
        other_limit = getattr(config, _OTHER_NAMES.get(name, ""), None)
        if value is not None or other_limit is not None or name not in _NEEDED:
            result[name] = value
    return result
