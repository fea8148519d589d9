"""Checks of what users give, which say what it is and what it must be."""

import math
import sys
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

# the end of a range without infinity
FINITE = sys.float_info.max


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`; `above` and `below` exclude these themselves. NaN is in no range."""

    least: float
    most: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, number: float) -> bool:
        is_large = self.least < number if self.above else self.least <= number
        return is_large and (number < self.most if self.below else number <= self.most)

    def __str__(self) -> str:
        """What a number must be: `at least 1`, `at least 0 and finite`, `from 0 to below 100`, ..."""
        if self.least == -FINITE:
            return "finite"
        if self.most >= FINITE:
            return f"{self._lower()}{' and finite' if self.most == FINITE else ''}"
        if self.above:
            return f"{self._lower()} and {self._upper()}"
        return f"from {_written(self.least)} to {'below ' if self.below else ''}{_written(self.most)}"

    def problem(self, number: float) -> str | None:
        """What a number must be at the end of the range that it is beyond; None for numbers in the range."""
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
    """Raise a TypeError unless `values` are several whose number is known; the characters of a string are not."""
    if not is_list(values):
        raise TypeError(f"`{name}` must be a list, but is {type(values).__name__}: {values!r:.80}")


def is_list(value: Any) -> bool:
    """Whether it is a list, or an array, column or the like."""
    return isinstance(value, Sized) and isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def check_texts(name: str, texts: Any) -> None:
    """Raise a TypeError unless `texts` are several strings whose number is known."""
    check_list(name, texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must be strings, but row {row} is {type(text).__name__}: {text!r:.80}")


def check_tokenizer(tokenizer: Any) -> None:
    """Check what a tokenizer's files may have that fails only when texts are read.

    Raises:
        TypeError: `model_max_length` is no number.
        ValueError: it is below 1, or a special token is empty.
    """
    limit = tokenizer.model_max_length
    if not isinstance(limit, (int, float)):
        raise TypeError(f"the tokenizer's `model_max_length` must be a number, but is {limit!r:.80}")
    if not limit >= 1:
        raise ValueError(f"the tokenizer's `model_max_length` is {limit}, but must be at least 1")
    for name in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        if getattr(tokenizer, name, None) == "":
            raise ValueError(f"the tokenizer's `{name}` is empty: name a token, or leave it out")


def check_integer(name: str, value: Any, least: int, most: int | None = None, why: str = "") -> None:
    """Raise unless `value` is an integer in this range.

    Args:
        why: what follows the range in the message, such as `, for the end token`.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of range.
    """
    if not is_integer(value):
        raise TypeError(f"`{name}` must be an integer, but is {type(value).__name__}: {value!r:.80}")
    if value < least:
        raise ValueError(f"`{name}` is {value}, but must be at least {least}{why}")
    if most is not None and value > most:
        raise ValueError(f"`{name}` is {value:.4g}, but must be at most {most}{why}")


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, which True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, which True and False are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    # torch takes no larger integers
    return -(2**63) < int(value) < 2**63 if isinstance(value, Integral) else math.isfinite(value)
