"""What the areas' checks have in common."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def scores_problem(values: Iterable[float], least: float = 0.0, most: float = 100.0) -> str | None:
    """What is wrong with scores: they must be finite and within bounds, but for rounding."""
    for value in values:
        value = float(value)
        if not math.isfinite(value) or not least - 1e-6 <= value <= most + 1e-6:
            return f"a score of {value}, which must be from {least:g} to {most:g}"
    return None


def texts_problem(texts: Any, number: int) -> str | None:
    """What is wrong with results that must be so many texts."""
    if not isinstance(texts, list) or len(texts) != number:
        return f"{number} inputs, but the result is {texts!r:.80}"
    wrong = [text for text in texts if not isinstance(text, str)]
    return f"a result is {wrong[0]!r:.80}, which is no text" if wrong else None


def without_space(text: str) -> str:
    """The visible part of a text."""
    return "".join(text.split())


def untouched(*paths: Path) -> Callable[[], str | None]:
    """A check, for later, that files, and all files in folders, are as they are now."""
    before = _digests(paths)

    def problem() -> str | None:
        after = _digests(paths)
        changed = sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        return f"changed: {', '.join(changed[:3])}" if changed else None

    return problem


def first_problem(*problems: str | None) -> str | None:
    """The first problem that there is."""
    return next((problem for problem in problems if problem is not None), None)


def rows_problem(found: Sequence[Any], number: int, what: str) -> str | None:
    """What is wrong with results of which there must be one a row."""
    return None if len(found) == number else f"{number} rows, but {len(found)} {what}"


def _digests(paths: Iterable[Path]) -> dict[Path, str]:
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
