"""Documents that a model reads: their characters, how several become one row, and how they may differ from others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .checks import is_list, is_number

# Japanese and Chinese; these ranges are the inside of a regular expression's class
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can part
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
# what joins documents where a model reads one text: a blank line, which sentence splitters and tokenizers treat like
# any line end
DOCUMENT_SEPARATOR = "\n\n"
# name -> the form and the unit of its values. Text in another language or without words falls into many short tokens
_SHOWN = {"tokens_per_character": ("{:.3g}", "tokens a character"), "characters": ("{:,.0f}", "characters")}


def readable(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate, which is not a character and stops every tokenizer.

    Two surrogates that form a pair become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class JoinedRow:
    """The tokens of an example's documents in one row.

    Attributes:
        input_ids: the row, with separators and special tokens.
        places: of each document, the position of its first token and the number of tokens kept.
        lengths: the number of tokens of each document before it was cut.
        length: the number of ids that the row would have had uncut.
    """

    input_ids: list[int]
    places: list[tuple[int, int]]
    lengths: list[int]
    length: int


def task_parameters(config) -> dict:
    """The parameters for summarization in a config's `task_specific_params`, as T5's and BART's have them."""
    return (getattr(config, "task_specific_params", None) or {}).get("summarization") or {}


def source_prefix(config) -> str:
    """The text that a model's config puts before each document."""
    return task_parameters(config).get("prefix", getattr(config, "prefix", None)) or ""


def with_prefix(example: str | list[str], prefix: str) -> str | list[str]:
    """A text, or the documents of an example, with a prefix before it or before the first of them."""
    if isinstance(example, str):
        return prefix + example
    return [prefix + text if place == 0 else text for place, text in enumerate(example)]


def shares(lengths: Sequence[int], total: int) -> list[int]:
    """What documents of these lengths keep of `total` tokens (Fabbri et al. 2019, section 6.3).

    Each has an equal share; what short ones leave is dealt out to the others, and an uneven rest to the first of these.
    """
    kept, left = list(lengths), max(total, 0)
    ascending = sorted(range(len(lengths)), key=lengths.__getitem__)
    for place, index in enumerate(ascending):
        share, rest = divmod(left, len(lengths) - place)
        if lengths[index] > share:
            # it and all longer ones are cut
            for number, cut in enumerate(sorted(ascending[place:])):
                kept[cut] = min(lengths[cut], share + (number < rest))
            break
        left -= lengths[index]
    return kept


def join(
    documents: Sequence[Sequence[int]], length: int | None, before: list[int], after: list[int], separator: int
) -> JoinedRow:
    """One row of an example's documents: `before`, their tokens with separators between them, and `after`.

    Where there are more documents than the row has room for, one token each, the last are left out.

    Args:
        documents: the tokens of each.
        length: maximum number of ids of the row; None does not cut.
        before, after: special ids of the row.
        separator: the id between documents.
    """
    lengths = [len(tokens) for tokens in documents]
    filled = [index for index, number in enumerate(lengths) if number]
    special = len(before) + len(after)
    whole = special + sum(lengths) + max(len(filled) - 1, 0)
    kept = lengths
    if length is not None and whole > length:
        fitting = filled[: max((length - special + 1) // 2, 1)]
        dealt = shares([lengths[index] for index in fitting], length - special - (len(fitting) - 1))
        kept = [0] * len(documents)
        for index, number in zip(fitting, dealt, strict=True):
            kept[index] = number
    row, places = list(before), []
    for tokens, number in zip(documents, kept, strict=True):
        if number and len(row) > len(before):
            row.append(separator)
        places.append((len(row), number))
        row.extend(tokens[:number])
    return JoinedRow([*row, *after], places, lengths, whole)


def measured(document: str | list[str], tokens: int) -> dict[str, float]:
    """What is compared of a document, or of several of one example, by name.

    Args:
        tokens: their number, before any cut.
    """
    characters = len(document) if isinstance(document, str) else sum(map(len, document))
    return {"tokens_per_character": tokens / max(characters, 1), "characters": characters}


def checked_ranges(ranges: Any) -> Mapping[str, Any]:
    """The `source_ranges` of a config: what is `measured` -> its least and greatest value in training, or no entry.

    Args:
        ranges: what the config has; None is no entries.

    Raises:
        ValueError: it is something else.
    """
    entries = {} if ranges is None else ranges
    is_known = isinstance(entries, Mapping) and entries.keys() <= _SHOWN.keys()
    if not is_known or not all(is_list(pair) and [*map(is_number, pair)] == [True, True] for pair in entries.values()):
        raise ValueError(f"`source_ranges` is {ranges!r:.80}, but must be two numbers for each of {', '.join(_SHOWN)}")
    return entries


def difference(document: str | list[str], tokens: int, ranges: Mapping[str, Any]) -> str | None:
    """How a document differs from those of the training, or None if it does not.

    Args:
        tokens: as for `measured`.
        ranges: as `checked_ranges` returns them.
    """
    for name, value in measured(document, tokens).items():
        least, most = ranges.get(name, (value, value))
        if not least <= value <= most:
            form, unit = _SHOWN[name]
            own, least, most = map(form.format, (value, least, most))
            return f"{own} {unit}, theirs {least} to {most}"
    return None
