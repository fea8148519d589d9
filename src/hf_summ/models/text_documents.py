"""A model's documents: characters and washing, and the row of several."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# Japanese and Chinese, as ranges for a regular expression's character class
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can separate
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
# separator of documents for models that read one text: a blank line, which sentence splitters and tokenizers treat like
# any line end
DOCUMENT_SEPARATOR = "\n\n"
# white space, ASCII digits and punctuation, and the Chinese marks listed in DRGD's program for LCSTS
_LCSTS = r"\s!-@\[-`{-~·…‘’“”《》「」『』【】、（）：￥"
# name -> characters deleted from lower-case summaries and documents; the program splits documents into clauses, and
# joins them again
WASHINGS = {"lcsts": (re.compile(f"[{_LCSTS}]+"), re.compile(f"[{_LCSTS}。！？，；]+"))}


@cache
def marks() -> str:
    """Vowel signs, accents and joiners of Persian and Indian scripts, as ranges for a character class.

    They belong to the preceding letter, but `\\w` does not match them.
    """
    ranges: list[list[int]] = []
    # no mark has a smaller code; from 0x20000 on there are ideographs, then variation selectors
    for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)):
        if unicodedata.category(chr(code)).startswith("M"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "\u200c\u200d"


def readable(text: str) -> str:
    """Replace each lone surrogate by U+FFFD, as it is not a character and stops every tokenizer.

    Surrogate pairs become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tokenize(tokenizer, texts: Sequence[str], **settings: Any):
    """The tokenizer's output for whole texts, without padding, also if other threads use the tokenizer.

    A fast tokenizer truncates and pads by settings of its own, which another thread may have changed in between. Then
    the texts are tokenized again.
    """
    while True:
        # the callers have limits of their own: suppress warnings of long texts
        encoded = tokenizer(texts, verbose=False, **settings)
        if not any(row.overflowing or 0 in row.attention_mask for row in getattr(encoded, "encodings", None) or ()):
            return encoded


def washed(text: str, washing: str | None, is_document: bool = False) -> str:
    """Wash a text; with None it is unchanged.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` follows DRGD's program for LCSTS: the text is lower-cased, and
            white space, ASCII digits and punctuation and most Chinese punctuation are deleted. Latin words run
            together, and numbers are lost, but full-width digits and marks such as `％` and `—` remain.
        is_document: whether to delete `。！？，；` as well, which summaries keep.
    """
    return text if washing is None else WASHINGS[washing][is_document].sub("", text.lower())


@dataclass(frozen=True)
class JoinedRow:
    """The tokens of an example's documents in one row.

    Attributes:
        input_ids: the row, with separators and special tokens.
        spans: for each document, the position of its first token and the number of its tokens.
        lengths: the number of tokens of each document before truncation.
        length: the number of ids of the row without truncation.
    """

    input_ids: list[int]
    spans: list[tuple[int, int]]
    lengths: list[int]
    length: int


def task_parameters(config) -> dict:
    """The summarization parameters in a config's `task_specific_params`, as in T5 and BART."""
    return (getattr(config, "task_specific_params", None) or {}).get("summarization") or {}


def prefix_of(config) -> str:
    """The prefix of each document in a model's config."""
    return task_parameters(config).get("prefix", getattr(config, "prefix", None)) or ""


def with_prefix(example: str | list[str], prefix: str) -> str | list[str]:
    """Put a prefix before a text, or before the first document of an example."""
    # not `+`, in which a text of markupsafe would escape the prefix
    if isinstance(example, str):
        return f"{prefix}{example}"
    return [f"{prefix}{example[0]}", *example[1:]] if example else []


def shares(lengths: Sequence[int], total: int) -> list[int]:
    """Divide `total` tokens among documents of these lengths (Fabbri et al. 2019, section 6.3).

    Each gets an equal share. The others divide what short documents do not use; the first of them get the remainder.
    """
    numbers, remaining = list(lengths), max(total, 0)
    ascending = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, document in enumerate(ascending):
        share, remainder = divmod(remaining, len(lengths) - rank)
        if lengths[document] > share:
            # this document and all longer ones are truncated
            for order, longer in enumerate(sorted(ascending[rank:])):
                numbers[longer] = min(lengths[longer], share + (order < remainder))
            break
        remaining -= lengths[document]
    return numbers


def join(
    documents: Sequence[Sequence[int]], length: int | None, before: list[int], after: list[int], separator: int
) -> JoinedRow:
    """One row of an example's documents: `before`, their tokens with separators between them, and `after`.

    If the row has no room for one token of each document, the last documents are omitted.

    Args:
        length: maximum number of ids of the row; None does not truncate.
        before, after, separator: special ids of the row, and the id between documents.
    """
    lengths = [len(tokens) for tokens in documents]
    filled = [index for index, number in enumerate(lengths) if number]
    special = len(before) + len(after)
    total = special + sum(lengths) + max(len(filled) - 1, 0)
    numbers = dict(enumerate(lengths))
    if length is not None and total > length:
        fitting = filled[: max((length - special + 1) // 2, 1)]
        own = shares([lengths[index] for index in fitting], length - special - (len(fitting) - 1))
        numbers = dict(zip(fitting, own, strict=True))
    row, spans = list(before), []
    for index, tokens in enumerate(documents):
        number = numbers.get(index, 0)
        if number and len(row) > len(before):
            row.append(separator)
        spans.append((len(row), number))
        row.extend(tokens[:number])
    return JoinedRow([*row, *after], spans, lengths, total)
