"""Checks of users' values, whose errors name the value and its requirement, and our settings of `generate()`.

For a fast command line, this module imports neither torch nor transformers.
"""

import inspect
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
# label of positions without a target
IGNORED_LABEL = -100
# embeddings of padded checkpoints have a few more rows than the tokenizer has tokens
PADDING_ROWS = 127


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
    return truncation not in (False, None, "do_not_truncate")


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
    """Raise a ValueError if a tokenizer has only special tokens."""
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
    saved_file, needed_file = Path(folder, Path(inspect.getfile(module)).name), Path(inspect.getfile(needed_module))
    shutil.copyfile(needed_file, Path(folder, needed_file.name))
    code = saved_file.read_text(encoding="utf-8")
    line = f"from .{needed_file.stem} import {needed.__name__}  # noqa: E402, F401 this checkpoint needs it\n"
    if line not in code:
        saved_file.write_text(f"{code}\n{line}", encoding="utf-8")


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
        architecture: the architecture that adds it to transformers' settings, "all" of ours, or "any" model in the
            pipeline.
    """

    type: Any
    range: Range = Range(0, 1)
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


# more than the tokens of any text
_TOKENS = 10**6
_COUNT, _NOT_NEGATIVE = Range(0, _TOKENS), Range(0, FINITE)
_of_all = partial(Setting, architecture="all")
_of_beams = partial(_of_all, needs_beams=True)
_of_language_model = partial(Setting, architecture="copy_transformer")
_of_drgd = partial(Setting, architecture="drgd")

# settings that our architectures add to those of `generate()` in transformers
ADDED_SETTINGS: Mapping[str, Setting] = {
    "beam_stopping": _of_beams(
        Literal["opennmt", "drgd"],
        help="Stopping rule of a published program: stop when the best beam ends (opennmt), or search with one beam "
        "fewer after each that ends (drgd)",
        request_limit=True,
    ),
    "no_repeat_word_ngram_size": _of_all(int, _COUNT, "Size in words of n-grams that must not repeat", 100),
    "ignore_when_blocking": _of_all(
        str,
        help="Words, separated by spaces, whose n-grams may repeat, such as '. ,', as in OpenNMT",
        needs=("no_repeat_word_ngram_size",),
    ),
    "ngram_blocking": _of_beams(
        Literal["token", "beam"],
        help="Rule for repeated n-grams: forbid the last token (token), or end the beam after it as in OpenNMT (beam)",
        request_limit=True,
        needs=("no_repeat_ngram_size", "no_repeat_word_ngram_size"),
    ),
    "min_new_words": _of_all(int, _COUNT, "Minimum number of words of a summary", _TOKENS),
    "gnmt_length_penalty": _of_beams(
        float,
        _NOT_NEGATIVE,
        "Exponent of the GNMT length penalty (5 + n) / 6 for n tokens, which divides scores instead of the length",
        request_limit=100,
    ),
    "gnmt_length_offset": _of_beams(
        float,
        _NOT_NEGATIVE,
        "Offset k of the GNMT length penalty (k + n) / (k + 1), instead of 5",
        request_limit=1000,
        needs=("gnmt_length_penalty",),
    ),
    "coverage_penalty": _of_beams(
        float,
        Range(0, 1e4),
        "Factor of the penalty on a beam's score for repeated copying from the same source positions",
        request_limit=1000,
    ),
    "whole_sentences": Setting(
        bool,
        architecture="any",
        help="Instead of searching, choose the likeliest whole sentence of the document, or a shorter form of it",
        request_limit=True,
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
}


def own_settings(architecture: str) -> tuple[str, ...]:
    """The names of the settings that an architecture adds to transformers'."""
    architectures = ("any", "all", architecture)
    return tuple(name for name, setting in ADDED_SETTINGS.items() if setting.architecture in architectures)


def check_own_settings(settings: Mapping[str, Any], model: Any) -> None:
    """Raise a ValueError if a setting that is not None belongs to other architectures than the model's."""
    supported = getattr(model, "generation_keys", ())
    for name, value in settings.items():
        is_added = name in ADDED_SETTINGS and ADDED_SETTINGS[name].architecture != "any"
        if value is not None and is_added and name not in supported:
            raise ValueError(f"`{name}`: the model is a {model.config.model_type}, which does not support it")


def check_settings(settings: Mapping[str, Any], table: Mapping[str, Setting]) -> None:
    """Raise a ValueError for a value that violates the requirement of a table; None means unset.

    Also for samples, or several summaries, of a choice of one.
    """
    for name, setting in table.items():
        value = settings.get(name)
        problem = None if value is None else setting.problem(value)
        if problem is not None:
            raise ValueError(f"`{name}` is {value!r:.80}, but must be {problem}")
    if settings.get("whole_sentences") and (settings.get("num_return_sequences") or 1) > 1:
        raise ValueError("`whole_sentences` chooses one summary: set it to False, or `num_return_sequences` to 1")
    if settings.get("whole_sentences") and settings.get("do_sample"):
        raise ValueError("`whole_sentences` chooses a summary and samples none: set it or `do_sample` to False")
