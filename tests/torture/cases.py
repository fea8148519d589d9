"""Cases of the torture, and their names."""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.workshop import Workshop


def _nothing(*_: Any) -> None:
    return None


class Refused(Exception):
    """Raised by an attempt whose input was refused without an error; has the message of the refusal."""


class Held(str):
    """A problem of time: others wait, or work continues for no client."""


class Ignored(str):
    """A problem of settings: one is accepted, but has no effect."""


@dataclass(frozen=True)
class Case:
    """A hostile input before it is tried.

    Args:
        told: the input, for a reader of the report.
        attempt: the use of the input.
        problem: what is wrong with the attempt's result, or None.
        after: what is wrong with the state after the attempt, for any outcome, or None.
        named: names of the user's settings; an error of transformers that names one of them can be clear.
    """

    told: str
    attempt: Callable[[], Any]
    problem: Callable[[Any], str | None] = _nothing
    after: Callable[[], str | None] = _nothing
    named: Collection[str] = ()


# makes an area's cases from random numbers, the shared models and an empty folder for each case
Maker = Callable[[random.Random, Workshop, Path], Case]


class Name(NamedTuple):
    """Area, seed and index, from which a case can be made again."""

    area: str
    seed: int
    index: int

    def __str__(self) -> str:
        return f"{self.area}:{self.seed}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> "Name":
        """The name that `str` gave.

        Raises:
            ValueError: it is not a name.
        """
        area, *numbers = text.split(":")
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"{text!r} is not a case: write AREA:SEED:INDEX")
        return cls(area, *map(int, numbers))

    def draw(self) -> random.Random:
        """The random numbers of the case."""
        return random.Random(str(self))
