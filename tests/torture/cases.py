"""What a case of the torture is, and how it is named."""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.workshop import Workshop


def _nothing(*_: Any) -> None:
    return None


class Refused(Exception):
    """What an attempt raises whose input was refused in another way than by an error; the message is the refusal's."""


class Held(str):
    """A problem that is time: what others wait for, or what goes on for no client."""


@dataclass(frozen=True)
class Case:
    """One hostile input, made and not yet tried.

    Args:
        told: the input, for a reader of the report.
        attempt: what a user would do with it.
        problem: what is wrong with the attempt's result, or None.
        after: what is wrong with what the attempt leaves, whatever came of it, or None.
        named: names of the user's own settings; an error of transformers may be clear that names one of them.
    """

    told: str
    attempt: Callable[[], Any]
    problem: Callable[[Any], str | None] = _nothing
    after: Callable[[], str | None] = _nothing
    named: Collection[str] = ()


# an area's cases: from random numbers, the shared models and an empty folder of the case's own
Maker = Callable[[random.Random, Workshop, Path], Case]


class Name(NamedTuple):
    """Area, seed and index, from which a case is made again alone."""

    area: str
    seed: int
    index: int

    def __str__(self) -> str:
        return f"{self.area}:{self.seed}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> "Name":
        """The name that `str` gave.

        Raises:
            ValueError: it is no name.
        """
        area, *numbers = text.split(":")
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"{text!r} is no case: write AREA:SEED:INDEX")
        return cls(area, *map(int, numbers))

    def draw(self) -> random.Random:
        """The case's own random numbers."""
        return random.Random(str(self))
