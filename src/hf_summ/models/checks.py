"""Checks of users' values, whose errors name the value and its requirement, and the table of `generate()`'s settings.

For a fast command line, this module imports neither torch nor transformers.
"""

import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, get_args

# upper bound of a range that excludes infinity
FINITE = sys.float_info.max
# embeddings of padded checkpoints have a few more rows than the tokenizer has tokens
PADDING_ROWS = 127
# values of `truncation`, as in transformers' tokenizers
_NO_TRUNCATION = "do_not_truncate"
_STRATEGIES = ("only_first", "only_second", "longest_first", _NO_TRUNCATION)


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`; `above` and `below` exclude the bounds. No range contains NaN."""

    least: float
    most: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, number: float) -> bool:
        is_large = self.least < number if self.above else self.least <= number
        return is_large and (number < self.most if self.below else number <= self.most)

    def __str__(self) -> str:
        """The requirement: `at least 1`, `at least 0 and finite`, `from 0 to below 100`, ..."""
        if self.least == -FINITE:
            return "finite"
        if self.most >= FINITE:
            return f"{self._lower()}{' and finite' if self.most == FINITE else ''}"
        if self.above:
            return f"{self._lower()} and {self._upper()}"
        return f"from {_written(self.least)} to {'below ' if self.below else ''}{_written(self.most)}"

    def problem(self, number: float) -> str | None:
        """The bound that a number violates; None for numbers in the range."""
        if number in self:
            return None
        if not abs(number) <= FINITE:
            return "finite"
        return self._upper() if number > self.least else self._lower()

    def _lower(self) -> str:
        return f"{'above' if self.above else 'at least'} {_written(self.least)}"

    def _upper(self) -> str:
        return f"{'below' if self.below else 'at most'} {_written(self.most)}"


def _written(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def check_text(name: str, text: Any) -> None:
    """Raise a TypeError unless `text` is a string."""
    if not isinstance(text, str):
        raise TypeError(f"`{name}` must be a string, but is {type(text).__name__}: {text!r:.80}")


def check_list(name: str, values: Any) -> None:
    """Raise a TypeError unless `values` is a list, array, column or the like, not a string."""
    if not is_list(values):
        raise TypeError(f"`{name}` must be a list, but is {type(values).__name__}: {values!r:.80}")


def is_list(value: Any) -> bool:
    """Whether a value is a list, array, column or the like: iterable, with a length, and not a string or mapping."""
    return isinstance(value, Sized) and isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def truncates(truncation: bool | str | None) -> bool:
    """Whether to truncate, from a `truncation` value of transformers' tokenizers."""
    # transformers' enumeration is one of texts
    if not isinstance(truncation, bool | None) and truncation not in _STRATEGIES:
        raise ValueError(f"`truncation` is {truncation!r:.80}, but must be a bool or one of {', '.join(_STRATEGIES)}")
    return truncation not in (False, None, _NO_TRUNCATION)


def check_texts(name: str, texts: Any) -> None:
    """Raise a TypeError unless `texts` is a list, array, column or the like of strings."""
    check_list(name, texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must be strings, but row {row} is {type(text).__name__}: {text!r:.80}")


def check_source_ids(input_ids: Any) -> None:
    """Raise a ValueError if `input_ids` is a tensor of another shape than (documents, subwords)."""
    if getattr(input_ids, "ndim", 2) != 2:
        shape = (*input_ids.shape,)
        raise ValueError(f"`input_ids` has shape {shape}, but must have a row for each document: add a dimension")


def check_tokenizer(tokenizer: Any) -> None:
    """Check values in a tokenizer's files that would otherwise fail only on the first text, and that it has words."""
    limit = tokenizer.model_max_length
    if not isinstance(limit, (int, float)):
        raise TypeError(f"the tokenizer's `model_max_length` must be a number, but is {limit!r:.80}")
    if not limit >= 1:
        raise ValueError(f"the tokenizer's `model_max_length` is {limit}, but must be at least 1")
    for name in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        if getattr(tokenizer, name, None) == "":
            raise ValueError(f"the tokenizer's `{name}` is empty: name a token, or omit it")
    # for many families, transformers makes such a tokenizer, in which T5's also has the mark of a space
    if len(tokenizer) <= len(tokenizer.all_special_ids) + 1:
        raise ValueError("the tokenizer has only special tokens, as its files are missing: save it beside the model")


def class_to_save(own_class: type) -> type:
    """The class whose code transformers can save beside an object.

    FSDP2 derives a class from the model's, and the code of a notebook is in no file.
    """
    return next(base for base in own_class.__mro__ if not base.__module__.startswith(("torch.", "__main__")))


def save_further_code(folder: str | Path, saved_class: type, needed: Any) -> None:
    """Save the file of a class or function that only some checkpoints need, and import it in the code of a saved class.

    transformers copies a class's file and the files that it imports, and none of ours imports that of `needed`.
    """
    module, needed_module = sys.modules[saved_class.__module__], sys.modules[needed.__module__]
    if module.__name__.rpartition(".")[0] != needed_module.__name__.rpartition(".")[0]:
        # the code of a user's class imports the installed package
        return
    code_file, needed_file = Path(module.__file__), Path(needed_module.__file__)
    shutil.copyfile(needed_file, Path(folder, needed_file.name))
    code = code_file.read_text(encoding="utf-8")
    line = f"from .{needed_file.stem} import {needed.__name__}  # noqa: E402, F401 this checkpoint needs it\n"
    if line not in code:
        Path(folder, code_file.name).write_text(f"{code}\n{line}", encoding="utf-8")


def check_integer(name: str, value: Any, least: int, most: int | None = None, why: str = "") -> None:
    """Raise a TypeError unless `value` is an integer, or a ValueError unless it is in this range.

    Args:
        why: text after the range in the message, such as `, for the end token`.
    """
    if not is_integer(value):
        raise TypeError(f"`{name}` must be an integer, but is {type(value).__name__}: {value!r:.80}")
    if value < least:
        raise ValueError(f"`{name}` is {value}, but must be at least {least}{why}")
    if most is not None and value > most:
        # imported late, as it takes time; a float holds no integer of 400 digits
        from decimal import Decimal

        raise ValueError(f"`{name}` is {Decimal(int(value)):.4g}, but must be at most {most}{why}")


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, excluding True and False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, excluding True and False."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    # torch supports no larger integers
    return -(2**63) < int(value) < 2**63 if isinstance(value, Integral) else math.isfinite(value)


# more than the tokens of any text
_TOKENS = 10**6
_LENGTH, _COUNT = Range(1, _TOKENS), Range(0, _TOKENS)
# beyond these, half-precision scores overflow
_FACTOR = Range(1e-4, 1e4)
_SHARE, _NOT_NEGATIVE = Range(0, 1), Range(0, FINITE)


@dataclass(frozen=True)
class Setting:
    """A setting of `generate()`.

    Args:
        type: int, float, bool or str, or a Literal of several texts.
        range: allowed values, for a number.
        help: its help; a setting with help is a flag of the training recipe and of the commands that summarize.
        request_limit: limit for requests to the service, on the absolute value. If it is 0, requests cannot set it.
        needs_beams: whether greedy search ignores it.
        needs: other settings, one of which must be set for it to have an effect.
        architecture: the architecture that adds it to transformers' settings, or "all" of ours.
    """

    type: Any
    range: Range = _SHARE
    help: str = ""
    request_limit: float = 0
    needs_beams: bool = False
    needs: tuple[str, ...] = ()
    architecture: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts, if it is a text."""
        return get_args(self.type)

    def problem(self, value: Any) -> str | None:
        """The requirement that a value violates, or None."""
        if self.choices:
            return None if isinstance(value, str) and value in self.choices else f"one of {', '.join(self.choices)}"
        if self.type is str:
            return None if isinstance(value, str) else "a text"
        if self.type is bool:
            return None if isinstance(value, bool) else "True or False"
        if self.type is int:
            if not is_integer(value) or value < self.range.least:
                return f"an integer of at least {self.range.least}"
            return self.range.problem(value)
        if is_number(value) and value in self.range:
            return None
        if self.range.least == -FINITE:
            return "a finite number"
        return str(self.range) if self.range.most == FINITE else f"a number {self.range}"


_of_beams = partial(Setting, needs_beams=True)
_ours = partial(Setting, architecture="all")
_of_our_beams = partial(_ours, needs_beams=True)
_of_language_model = partial(Setting, architecture="copy_transformer")
_of_drgd = partial(Setting, architecture="drgd")
_of_sampling = partial(Setting, needs=("do_sample",))

SETTINGS: Mapping[str, Setting] = {
    "num_beams": Setting(int, Range(1, 1000), "Number of beams; 1 is greedy search", 1000),
    # a summary's length to the power of 100 is still finite
    "length_penalty": _of_beams(
        float,
        Range(-FINITE, FINITE),
        "Exponent of the length, which divides scores; above 0 favors longer summaries",
        request_limit=100,
    ),
    "early_stopping": _of_beams(
        bool, help="Stop as soon as there are num_beams finished candidates", request_limit=True
    ),
    "beam_stopping": _of_our_beams(
        Literal["opennmt", "drgd"],
        help="Stopping rule of a published program: stop when the best beam ends (opennmt), or search with one beam "
        "fewer after each that ends (drgd)",
        request_limit=True,
    ),
    "no_repeat_ngram_size": Setting(int, _COUNT, "Size in tokens of n-grams that must not repeat", 100),
    "no_repeat_word_ngram_size": _ours(int, _COUNT, "Size in words of n-grams that must not repeat", 100),
    "ignore_when_blocking": _ours(
        str,
        help="Words, separated by spaces, whose n-grams may repeat, such as '. ,', as in OpenNMT",
        needs=("no_repeat_word_ngram_size",),
    ),
    "ngram_blocking": _of_our_beams(
        Literal["token", "beam"],
        help="Rule for repeated n-grams: forbid the last token (token), or end the beam after it as in OpenNMT (beam)",
        request_limit=True,
        needs=("no_repeat_ngram_size", "no_repeat_word_ngram_size"),
    ),
    "min_new_tokens": Setting(int, _COUNT, "Minimum number of tokens of a summary", _TOKENS),
    "min_new_words": _ours(int, _COUNT, "Minimum number of words of a summary", _TOKENS),
    "max_new_tokens": Setting(int, _LENGTH, "Maximum number of tokens of a summary", _TOKENS),
    "gnmt_length_penalty": _of_our_beams(
        float,
        _NOT_NEGATIVE,
        "Exponent of the GNMT length penalty (5 + n) / 6 for n tokens, which divides scores instead of the length",
        request_limit=100,
    ),
    "gnmt_length_offset": _of_our_beams(
        float,
        _NOT_NEGATIVE,
        "Offset k of the GNMT length penalty (k + n) / (k + 1), instead of 5",
        request_limit=1000,
        needs=("gnmt_length_penalty",),
    ),
    "coverage_penalty": _of_our_beams(
        float,
        Range(0, 1e4),
        "Factor of the penalty on a beam's score for repeated copying from the same source positions",
        request_limit=1000,
    ),
    "replace_unk": _of_drgd(
        bool,
        help="Replace each unknown word of a summary by the source word with the most attention",
        request_limit=True,
    ),
    "lm_rejected_factor": _of_language_model(
        float,
        Range(0, 1, above=True),
        "Factor for the probabilities of tokens that the masked language model rejects, above 0 and at most 1",
    ),
    "lm_accepted_factor": _of_language_model(
        float,
        Range(1, FINITE),
        "Factor for the probabilities of tokens that the masked language model accepts, at least 1",
    ),
    "lm_percentile": _of_language_model(
        float, Range(0, 100, below=True), "Percentile above which the masked language model accepts a token"
    ),
    "lm_top_tokens": _of_language_model(
        int, Range(1), "Number of most likely tokens that the masked language model judges"
    ),
    "sample_latent": _of_drgd(bool, help="Sample DRGD's latent variables instead of using their means"),
    "latent_seed": _of_drgd(
        int, Range(0, 2**63 - 1), "Seed of the noise of sampled latent variables", needs=("sample_latent",)
    ),
    "repetition_penalty": Setting(
        float, _FACTOR, "Penalty on tokens that have already occurred; values above 1 make them less likely", 100
    ),
    "do_sample": Setting(bool, help="Sample instead of searching", request_limit=True),
    "temperature": _of_sampling(float, _FACTOR, "Temperature of sampling", 100),
    "top_k": _of_sampling(int, _COUNT, "Sample from the k most likely tokens", 1000),
    "top_p": _of_sampling(
        float, _SHARE, "Sample from the fewest most likely tokens with at least this total probability", 1
    ),
    # includes the decoder's start token
    "max_length": Setting(int, Range(2, _TOKENS), request_limit=_TOKENS),
    "min_length": Setting(int, _COUNT, request_limit=_TOKENS),
    # seconds after which a summary ends as it is; as in the Inference API
    "max_time": Setting(float, Range(0, FINITE, above=True), request_limit=120),
    "encoder_no_repeat_ngram_size": Setting(int, _COUNT),
    "encoder_repetition_penalty": Setting(float, _FACTOR),
    "num_return_sequences": Setting(int, Range(1, 10_000)),
    **dict.fromkeys(("min_p", "typical_p"), Setting(float, _SHARE)),
    **dict.fromkeys(("use_cache", "renormalize_logits", "remove_invalid_values"), Setting(bool)),
    **dict.fromkeys(("return_dict_in_generate", "output_scores", "output_logits"), Setting(bool)),
    **dict.fromkeys(("output_attentions", "output_hidden_states"), Setting(bool)),
}
# two names of one limit; `generate()` of transformers always prefers the second
LIMITS = (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens"))
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
_IDS += ("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens")
# take a list of ids, never a single id
_LISTS = ("suppress_tokens", "begin_suppress_tokens")


def own_settings(architecture: str) -> tuple[str, ...]:
    """The names of the settings that an architecture adds to transformers'."""
    return tuple(name for name, setting in SETTINGS.items() if setting.architecture in ("all", architecture))


def check_own_settings(settings: Mapping[str, Any], model: Any) -> None:
    """Raise a ValueError if a setting that is not None belongs to other architectures than the model's."""
    supported = getattr(model, "generation_keys", ())
    for name, value in settings.items():
        if value is not None and name in SETTINGS and SETTINGS[name].architecture and name not in supported:
            raise ValueError(f"`{name}`: the model is a {model.config.model_type}, which does not support it")


def check_generation_config(config: Any) -> None:
    """Raise a TypeError unless a `generation_config` is a GenerationConfig or None."""
    from transformers import GenerationConfig

    if config is not None and not isinstance(config, GenerationConfig):
        raise TypeError(
            f"`generation_config` must be a GenerationConfig, but is {type(config).__name__}: {config!r:.80}"
        )


def check_generation_settings(settings: Mapping[str, Any], vocab_size: int | None = None) -> None:
    """Check settings of `generate()` by name; None means unset, and unknown settings are ignored.

    Args:
        vocab_size: number of the model's tokens, the bound of token ids.
    """
    for name, value in settings.items():
        # many checkpoints set a temperature of 0 for greedy search, which ignores it
        is_read = name != "temperature" or settings.get("do_sample")
        problem = _problem(name, value, vocab_size) if is_read and value is not None else None
        if problem is not None:
            raise ValueError(f"`{name}` is {value!r:.80}, but must be {problem}")


def in_types(settings: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of NumPy and the float settings given as integers, in the settings' types.

    transformers refuses some such integers, and ONNX Runtime those of 32 bits.
    """
    types = {name: setting.type for name, setting in SETTINGS.items() if setting.type in (int, float)}
    return {
        name: types[name](value)
        for name, value in settings.items()
        if name in types and (is_integer(value) or (types[name] is float and is_number(value)))
    }


def _problem(name: str, value: Any, vocab_size: int | None) -> str | None:
    """The requirement that a setting's value violates, or None."""
    if name == "early_stopping":
        return None if isinstance(value, bool) or value == "never" else "True, False or 'never'"
    if name in SETTINGS:
        return SETTINGS[name].problem(value)
    return _problem_of_ids(name, value, vocab_size) if name in _IDS else None


def _problem_of_ids(name: str, value: Any, vocab_size: int | None) -> str | None:
    many = hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
    ids = [int(token) if hasattr(token, "item") else token for token in value] if many else [value]
    if (
        (name in _LISTS and not many)
        or (not ids and name not in _LISTS)
        or not all(is_integer(token) and token >= 0 for token in ids)
    ):
        return f"{'a list of ids' if name in _LISTS else 'an id, or a list of ids'} of tokens"
    if vocab_size is not None and any(token >= vocab_size for token in ids):
        return f"an id below {vocab_size}, the number of the model's tokens"
    return None
