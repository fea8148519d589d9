"""Checks that the areas share."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hf_summ.data.sentences import sentence_places, split_sentences


def scores_problem(values: Iterable[float], least: float = 0.0, most: float = 100.0) -> str | None:
    """What is wrong with scores: they must be finite and within bounds, up to rounding."""
    for value in values:
        value = float(value)
        if not math.isfinite(value) or not least - 1e-6 <= value <= most + 1e-6:
            return f"a score of {value}, which must be from {least:g} to {most:g}"
    return None


def texts_problem(texts: Any, number: int) -> str | None:
    """What is wrong with results that must be `number` texts."""
    if not isinstance(texts, list) or len(texts) != number:
        return f"{number} inputs, but the result is {texts!r:.80}"
    wrong = [text for text in texts if not isinstance(text, str)]
    return f"a result is {wrong[0]!r:.80}, which is no text" if wrong else None


def without_space(text: str) -> str:
    """The visible part of a text."""
    return "".join(text.split())


def untouched(*paths: Path) -> Callable[[], str | None]:
    """A check, to be called later, that files, and all files in folders, are unchanged."""
    before = _digests(paths)

    def problem() -> str | None:
        after = _digests(paths)
        changed = sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        return f"changed: {', '.join(changed[:3])}" if changed else None

    return problem


def first_problem(*problems: str | None) -> str | None:
    """The first problem, or None."""
    return next((problem for problem in problems if problem is not None), None)


def rows_problem(found: Sequence[Any], number: int, what: str) -> str | None:
    """What is wrong with results that must be one per row."""
    return None if len(found) == number else f"{number} rows, but {len(found)} {what}"


def details_problem(example: str | list[str], details: dict[str, Any], language: str, read: float) -> str | None:
    """What is wrong with the `details` of an example's summary.

    Args:
        read: number of tokens that the model reads.
    """
    whole, own, cut = (details[name] for name in ("source_tokens", "read_tokens", "cut_tokens"))
    if not 0 <= own <= whole or cut != whole - own or (own > read and "windows" not in details):
        return f"{own} of {whole} tokens were read, {cut} cut, by a model that reads {read}"
    texts = [example] if isinstance(example, str) else example
    ranges = [details["read"]] if isinstance(example, str) else details["read"]
    # without sentences in the details, the language may be invalid
    texts_of_kept = texts if "sentences" in details else ()
    sentences = [sentence_places(text, split_sentences(text, language)) for text in texts_of_kept]
    firsts = [sum(map(len, sentences[:document])) for document in range(len(sentences))]
    windows: list[list[tuple[int, int]]] = [[] for _ in texts]
    for sentence in details.get("sentences", ()):
        document = sentence.get("document", 0)
        found = sentences[document][sentence["index"] - firsts[document]]
        if found != (sentence["start"], sentence["end"]):
            return f"kept {sentence}, but that sentence is {found}"
    for window in details.get("windows", ()):
        if not isinstance(window["summary_text"], str) or window["tokens"] < 0:
            return f"a window is {window}"
        windows[window.get("document", 0)].append((window["start"], window["end"]))
    if "windows" in details and details["rounds"] < 1:
        return f"windows, but {details['rounds']} rounds"
    return first_problem(
        rows_problem(ranges, len(texts), "lists of ranges"),
        *map(_places_problem, texts, ranges),
        *map(_places_problem, texts, windows),
        *(_lost_problem(*parts) for parts in zip(texts, windows, strict=True) if "windows" in details),
    )


def _places_problem(text: str, places: Sequence[Sequence[int]]) -> str | None:
    end = 0
    for start, after in places:
        if not end <= start < after <= len(text):
            return f"{places} are places in {len(text)} characters"
        end = after
    return None


def _lost_problem(text: str, windows: Sequence[tuple[int, int]]) -> str | None:
    kept = "".join(text[start:end] for start, end in windows)
    return None if without_space(kept) == without_space(text) else f"windows {windows} lose parts of {text!r:.100}"


def no_constant(name: str) -> None:
    """For `json.loads`, which would accept invalid JSON."""
    raise ValueError(f"{name} in JSON, which other programs cannot read")


def _digests(paths: Iterable[Path]) -> dict[Path, str]:
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
