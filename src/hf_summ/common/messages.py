"""What is said to people: a message's one line, and what they may have meant."""

import difflib
from collections.abc import Iterable


def one_line(message: object) -> str:
    """A text, or what an error says, with a single space where it has line ends or more space."""
    return " ".join(str(message).split())


def unknown_choice(what: str, value: object, known: Iterable[object]) -> str:
    """The message for a value that is none of the known ones: names it, lists those, and says which one is near.

    Args:
        what: names the setting, such as `splitter` or `--metrics`.
    """
    names = list(map(str, known))
    return f"{what} '{value}' is not known: one of {', '.join(names)}{nearest(str(value), names)}"


def nearest(name: str, known: Iterable[object], prefix: str = "", cutoff: float = 0.5) -> str:
    """`; did you mean X?`, or nothing when no known name is near; upper and lower case are the same.

    Args:
        prefix: is put before the name, such as `--` before a flag.
        cutoff: how near it has to be, 0 to 1, see `difflib.get_close_matches`.
    """
    names = {other.lower(): other for other in map(str, known)}
    found = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return f"; did you mean {prefix}{names[found[0]]}?" if found else ""
