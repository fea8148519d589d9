"""Checks of users' values, settings that our architectures add to `generate()`, and help in saving checkpoints.

The message of a check names the value, and says what is required of it.

For a fast command line, this module imports neither torch nor transformers.
"""

import inspect
import json
import math
import shutil
import sys
from collections.abc import Generator, Iterable, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, get_args

# the upper bound of a `Range` that excludes infinity
FINITE = sys.float_info.max
# the label of positions without a target, which the loss ignores
IGNORED_LABEL = -100
# padded checkpoints have embeddings with more rows than the tokenizer has tokens, by at most this number
PADDING_ROWS = 127
# no text has more tokens, and memory has room for a row that is padded to this length
MOST_TOKENS = 10**6
# `Setting.architecture` of a setting for all of our architectures
ALL_OURS = "all"
# `Setting.architecture` of a setting for every model in the pipeline
EVERY_MODEL = "any"


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`.

    Args:
        least, most: the bounds.
        excludes_least, excludes_most: whether the bound itself is outside.
    """

    least: float
    most: float = math.inf
    excludes_least: bool = False
    excludes_most: bool = False

    def __contains__(self, number: float) -> bool:
        """Whether a number is in the range; NaN never is, as comparisons with it are false."""
        if self.excludes_least and number == self.least:
            return False
        if self.excludes_most and number == self.most:
            return False
        return self.least <= number <= self.most

    def __str__(self) -> str:
        """The requirement in words: `at least 1`, `at least 0 and finite`, `from 0 to below 100`."""
        if self.least == -FINITE:
            return "finite"
        if self.most == FINITE:
            return f"{self._lower_bound()} and finite"
        if self.most > FINITE:
            return self._lower_bound()
        if self.excludes_least:
            return f"{self._lower_bound()} and {self._upper_bound()}"
        least, most = _written(self.least), _written(self.most)
        if self.excludes_most:
            return f"from {least} to below {most}"
        return f"from {least} to {most}"

    def problem(self, number: float) -> str | None:
        """The bound that a number violates, such as `at least 1`, or `finite`; None for a number in the range."""
        if number in self:
            return None
        # this comparison is false for NaN as well as for infinity
        is_finite = abs(number) <= FINITE
        if not is_finite:
            return "finite"
        if number > self.least:
            return self._upper_bound()
        return self._lower_bound()

    def _lower_bound(self) -> str:
        word = "above" if self.excludes_least else "at least"
        return f"{word} {_written(self.least)}"

    def _upper_bound(self) -> str:
        word = "below" if self.excludes_most else "at most"
        return f"{word} {_written(self.most)}"


def _written(number: float) -> str:
    """A number as text: an integer with all digits, another number with up to six."""
    if isinstance(number, int):
        return str(number)
    return f"{number:g}"


def check_text(name: str, text: object) -> None:
    """Raise a TypeError unless `text` is a string."""
    if not isinstance(text, str):
        raise TypeError(f"`{name}` must be a string, but is {type(text).__name__}: {text!r:.80}")


def check_list(name: str, values: object) -> None:
    """Raise a TypeError unless `is_list(values)`.

    Args:
        name: the name of the argument, for the message. The other checks have the same argument.
    """
    if not is_list(values):
        raise TypeError(f"`{name}` must be a list, but is {type(values).__name__}: {values!r:.80}")


def is_list(value: object) -> bool:
    """Whether a value is a list, an array, a column of a table or the like.

    Such a value has a length and can be iterated over, and it is neither a string nor a mapping.
    """
    if isinstance(value, (str, bytes, Mapping)):
        return False
    return isinstance(value, Sized) and isinstance(value, Iterable)


def truncates(truncation: bool | str | None) -> bool:
    """Whether the argument `truncation` of transformers' tokenizers, with this value, asks for truncation."""
    return truncation not in (False, None, "do_not_truncate")


def check_texts(name: str, texts: Any) -> None:
    """Raise a TypeError unless `is_list(texts)` and each text is a string."""
    check_list(name, texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must be strings, but row {row} is {type(text).__name__}: {text!r:.80}")


def check_source_ids(input_ids: Any) -> None:
    """Raise a ValueError if `input_ids` is a tensor of another shape than (documents, subwords).

    Values that are not tensors, such as None, pass.
    """
    if getattr(input_ids, "ndim", 2) != 2:
        shape = tuple(input_ids.shape)
        raise ValueError(f"`input_ids` has shape {shape}, but must have a row for each document: add a dimension")


def check_tokenizer(tokenizer: Any) -> None:
    """Raise a ValueError if a tokenizer has only special tokens."""
    # if the tokenizer's files are missing, transformers creates such a tokenizer for many families; T5's has one
    # more token, the mark of a space
    if len(tokenizer) <= len(tokenizer.all_special_ids) + 1:
        raise ValueError("the tokenizer has only special tokens, as its files are missing: save it beside the model")


def check_lengths(**lengths: int | None) -> None:
    """Raise a TypeError unless each length is None or an integer, and a ValueError if one is below 2."""
    for name, value in lengths.items():
        if value is not None:
            check_integer(name, value, 2, why=", for a subword and the end token")


def check_padding(padding: bool | str, max_length: int | None, pad_to_multiple_of: int | None) -> None:
    """Raise a TypeError or a ValueError unless these are valid arguments of `TextProcessor.pad`."""
    if padding not in (True, False, "longest", "max_length", "do_not_pad"):
        choices = "True, 'longest', 'max_length', False, 'do_not_pad'"
        raise ValueError(f"`padding` is {padding!r:.80}, but must be one of {choices}")
    if pad_to_multiple_of is not None:
        check_integer("pad_to_multiple_of", pad_to_multiple_of, 1, MOST_TOKENS)
    if padding == "max_length":
        if max_length is None:
            raise ValueError('`padding="max_length"` needs `max_length`, the length to pad to')
        check_integer("max_length", max_length, 1, MOST_TOKENS)


def class_to_save(object_class: type) -> type:
    """The class whose source file transformers can copy beside a checkpoint: `object_class`, or its nearest base.

    Two kinds of classes have no such file and are skipped. FSDP2 makes a class at run time from the model's class; its
    module begins with `torch.`. A notebook or script defines classes in the module `__main__`.
    """
    classes = [base for base in object_class.__mro__ if not base.__module__.startswith(("torch.", "__main__"))]
    return classes[0]


def save_module(folder: str | Path, saved_class: type, needed: type | FunctionType) -> None:
    """Add a module that only some checkpoints need to a saved checkpoint, with the modules that it imports.

    transformers copies the file of the saved class and the files that it imports, but none of them imports the module.
    So the module is copied here with its imports, and the copy of the saved class's file gets a line that imports it.

    Args:
        folder: the folder of the checkpoint, to which transformers has copied the saved class's file.
        saved_class: the class of the model, processor or configuration that was saved.
        needed: a class or function of the module.
    """
    # imported here, as the runtime without transformers reads this module
    from transformers.dynamic_module_utils import get_relative_import_files

    saved_module = sys.modules[saved_class.__module__]
    needed_module = sys.modules[needed.__module__]
    saved_package = saved_module.__name__.rpartition(".")[0]
    needed_package = needed_module.__name__.rpartition(".")[0]
    if saved_package != needed_package:
        # a user's class is saved, whose code imports the installed package
        return
    saved_file = Path(folder, Path(inspect.getfile(saved_module)).name)
    needed_file = Path(inspect.getfile(needed_module))
    shutil.copyfile(needed_file, Path(folder, needed_file.name))
    for file in get_relative_import_files(needed_file):
        name = Path(file).name
        if name != saved_file.name:
            shutil.copyfile(file, Path(folder, name))
    code = saved_file.read_text(encoding="utf-8")
    line = f"from .{needed_file.stem} import {needed.__name__}  # noqa: E402, F401 this checkpoint needs it\n"
    if line not in code:
        saved_file.write_text(f"{code}\n{line}", encoding="utf-8")


@contextmanager
def without_local_paths(folder: str | Path) -> Generator[None]:
    """In this context, the settings in a checkpoint name local folders, such as a BERT's, without their paths.

    Args:
        folder: the folder of the checkpoint, which is uploaded in the context.
    """
    original_texts = {}
    for file in ("config.json", "adapter_config.json"):
        path = Path(folder, file)
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        original_texts[path] = text
        settings = json.loads(text)
        for name, value in settings.items():
            if isinstance(value, str) and value and Path(value).is_dir():
                settings[name] = Path(value).resolve().name
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    try:
        yield
    finally:
        for path, text in original_texts.items():
            path.write_text(text, encoding="utf-8")


def check_integer(name: str, value: Any, least: int, most: int | None = None, why: str = "") -> None:
    """Raise a TypeError unless `value` is an integer, and a ValueError unless it is from `least` to `most`.

    Args:
        most: the upper bound; None if there is none.
        why: text after the range in the message, such as `, for the end token`.
    """
    if not is_integer(value):
        raise TypeError(f"`{name}` must be an integer, but is {type(value).__name__}: {value!r:.80}")
    if value < least:
        raise ValueError(f"`{name}` is {value}, but must be at least {least}{why}")
    if most is not None and value > most:
        # a value of thousands of digits must not fill the message, and a float cannot hold it; the import is slow
        from decimal import Decimal

        raise ValueError(f"`{name}` is {Decimal(int(value)):.4g}, but must be at most {most}{why}")


def is_integer(value: object) -> bool:
    """Whether a value is an integer; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a finite real number that torch supports; True and False are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    if isinstance(value, Integral):
        # larger integers do not fit into torch's 64 bits
        return -(2**63) < int(value) < 2**63
    return math.isfinite(value)


@dataclass(frozen=True)
class Setting:
    """A setting of `generate()`.

    Args:
        type: int, float, bool or str, or a Literal of several texts.
        range: allowed values, for a number.
        help: the help of its flag; a setting with help is a flag of the training recipe and of the commands that
            summarize.
        request_limit: the largest absolute value that a request to the service may set. With 0, requests cannot set it
            at all; True, for a setting that is not a number, permits each of its values.
        needs_beams: whether the setting has an effect only in beam search, so that greedy search ignores it.
        needs: names of other settings, one of which must be set so that this setting has an effect.
        architecture: the architecture that adds the setting to transformers' settings, `ALL_OURS` or `EVERY_MODEL`.
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
        """The allowed texts of a Literal; no texts for another type."""
        return get_args(self.type)

    def problem(self, value: object) -> str | None:
        """What is required of the value, such as `a text`, if the value violates it; otherwise None."""
        if self.choices:
            if isinstance(value, str) and value in self.choices:
                return None
            return f"one of {', '.join(self.choices)}"
        if self.type is str:
            return None if isinstance(value, str) else "a text"
        if self.type is bool:
            return None if isinstance(value, bool) else "True or False"
        return self._number_problem(value)

    def _number_problem(self, value: Any) -> str | None:
        """As `problem`, for a setting of the type int or float."""
        if self.type is int:
            if not is_integer(value) or value < self.range.least:
                return f"an integer of at least {self.range.least}"
            return self.range.problem(value)
        if is_number(value) and value in self.range:
            return None
        if self.range.least == -FINITE:
            return "a finite number"
        if self.range.most == FINITE:
            return str(self.range)
        return f"a number {self.range}"


TOKEN_COUNT = Range(0, MOST_TOKENS)
NOT_NEGATIVE = Range(0, FINITE)

# the settings that our architectures add to the settings of transformers' `generate()`
ADDED_SETTINGS: Mapping[str, Setting] = {
    "beam_stopping": Setting(
        Literal["opennmt", "drgd"],
        help="Stopping rule of a published program: stop when the best beam ends (opennmt), or search with one beam "
        "fewer after each that ends (drgd)",
        request_limit=True,
        needs_beams=True,
        architecture=ALL_OURS,
    ),
    "no_repeat_word_ngram_size": Setting(
        int,
        range=TOKEN_COUNT,
        help="Size in words of n-grams that must not repeat",
        request_limit=100,
        architecture=ALL_OURS,
    ),
    "ignore_when_blocking": Setting(
        str,
        help="Words, separated by spaces, whose n-grams may repeat, such as '. ,', as in OpenNMT",
        needs=("no_repeat_word_ngram_size",),
        architecture=ALL_OURS,
    ),
    "ngram_blocking": Setting(
        Literal["token", "beam"],
        help="Rule for repeated n-grams: forbid the last token (token), or end the beam after it as in OpenNMT (beam)",
        request_limit=True,
        needs_beams=True,
        needs=("no_repeat_ngram_size", "no_repeat_word_ngram_size"),
        architecture=ALL_OURS,
    ),
    "min_new_words": Setting(
        int,
        range=TOKEN_COUNT,
        help="Minimum number of words of a summary",
        request_limit=MOST_TOKENS,
        architecture=ALL_OURS,
    ),
    "gnmt_length_penalty": Setting(
        float,
        range=NOT_NEGATIVE,
        help="Exponent of the GNMT length penalty (5 + n) / 6 for n tokens, which divides scores instead of the length",
        request_limit=100,
        needs_beams=True,
        architecture=ALL_OURS,
    ),
    "gnmt_length_offset": Setting(
        float,
        range=NOT_NEGATIVE,
        help="Offset k of the GNMT length penalty (k + n) / (k + 1), instead of 5",
        request_limit=1000,
        needs_beams=True,
        needs=("gnmt_length_penalty",),
        architecture=ALL_OURS,
    ),
    "coverage_penalty": Setting(
        float,
        range=Range(0, 1e4),
        help="Factor of the penalty on a beam's score for repeated copying from the same source positions",
        request_limit=1000,
        needs_beams=True,
        architecture=ALL_OURS,
    ),
    "whole_sentences": Setting(
        bool,
        help="Instead of searching, choose the likeliest whole sentence of the document, or a shorter form of it",
        request_limit=True,
        architecture=EVERY_MODEL,
    ),
    "replace_unk": Setting(
        bool,
        help="Replace each unknown word of a summary by the source word with the most attention",
        request_limit=True,
        architecture="drgd",
    ),
    "lm_rejected_factor": Setting(
        float,
        range=Range(0, 1, excludes_least=True),
        help="Factor for the probabilities of tokens that the masked language model rejects, above 0 and at most 1",
        architecture="copy_transformer",
    ),
    "lm_accepted_factor": Setting(
        float,
        range=Range(1, FINITE),
        help="Factor for the probabilities of tokens that the masked language model accepts, at least 1",
        architecture="copy_transformer",
    ),
    "lm_percentile": Setting(
        float,
        range=Range(0, 100, excludes_most=True),
        help="Percentile above which the masked language model accepts a token",
        architecture="copy_transformer",
    ),
    "lm_top_tokens": Setting(
        int,
        range=Range(1),
        help="Number of most likely tokens that the masked language model judges",
        architecture="copy_transformer",
    ),
    "sample_latent": Setting(
        bool, help="Sample DRGD's latent variables instead of using their means", architecture="drgd"
    ),
    "latent_seed": Setting(
        int,
        range=Range(0, 2**63 - 1),
        help="Seed of the noise of sampled latent variables",
        needs=("sample_latent",),
        architecture="drgd",
    ),
}


def added_settings(architecture: str) -> tuple[str, ...]:
    """The names of the settings that a model of this architecture has in addition to transformers'."""
    architectures = (EVERY_MODEL, ALL_OURS, architecture)
    return tuple(name for name, setting in ADDED_SETTINGS.items() if setting.architecture in architectures)


def check_supported(settings: Mapping[str, Any], model: Any) -> None:
    """Raise a ValueError if a setting that is not None belongs to other architectures than the model's.

    Args:
        settings: names and values.
        model: a model of ours, whose `generation_keys` names the settings that it supports, or another model.
    """
    supported = getattr(model, "generation_keys", ())
    for name, value in settings.items():
        if value is None or name not in ADDED_SETTINGS or ADDED_SETTINGS[name].architecture == EVERY_MODEL:
            continue
        if name not in supported:
            raise ValueError(f"`{name}`: the model is a {model.config.model_type}, which does not support it")


def check_settings(settings: Mapping[str, Any], table: Mapping[str, Setting]) -> None:
    """Raise a ValueError for a value that its setting in a table forbids, or that conflicts with `whole_sentences`.

    A value of None means that the setting is not set.
    """
    for name, setting in table.items():
        value = settings.get(name)
        if value is None:
            continue
        problem = setting.problem(value)
        if problem is not None:
            raise ValueError(f"`{name}` is {value!r:.80}, but must be {problem}")
    if settings.get("whole_sentences"):
        _check_single_choice(settings)


def _check_single_choice(settings: Mapping[str, Any]) -> None:
    """Raise a ValueError for several summaries or sampling, as `whole_sentences` chooses a single summary."""
    summaries = settings.get("num_return_sequences") or 1
    if summaries > 1:
        raise ValueError("`whole_sentences` chooses one summary: set it to False, or `num_return_sequences` to 1")
    if settings.get("do_sample"):
        raise ValueError("`whole_sentences` chooses a summary and samples none: set it or `do_sample` to False")
