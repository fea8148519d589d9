"""How `pipeline("summarization")` reads documents that exceed the model's input length."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from hf_summ.models.checks import check_text
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable, tokenize
from hf_summ.runtimes.any_model import prefix_of, with_prefix

logger = logging.getLogger(__name__)

# a document, or several of one example
Example = str | list[str]
TRUNCATE = "truncate"
# most rows in a warning
_NAMED = 10


@dataclass(frozen=True)
class Reading:
    """The text that the model reads in place of an example.

    Args:
        example: as many texts as the original example has.
        source_tokens: number of tokens of the original example.
        ranges: for each text the [start, end) characters that were read; None if all were.
        details: further entries of the pipeline's `details`.
    """

    example: Example
    source_tokens: int
    ranges: list[list[list[int]]] | None = None
    details: dict[str, Any] = field(default_factory=dict)


class ModelReader:
    """The interface of a pipeline's model for `SHORTENERS`.

    Args:
        pipeline: the pipeline.
        limit: maximum number of tokens in the model's input, including special ones; None if it has no limit.
        summarize: summarizes texts with the settings of the call.
        prefix: the text before each document; by default the pipeline's `source_prefix`, then the config's.
    """

    def __init__(
        self, pipeline, limit: int | None, summarize: Callable[[Sequence[str]], list[str]], prefix: str | None = None
    ):
        self._processor = pipeline.processor if hasattr(pipeline.processor, "read_source") else None
        self._tokenizer = pipeline.tokenizer
        prefixes = (prefix, pipeline.source_prefix, prefix_of(pipeline.model.config))
        self.prefix = next(text for text in prefixes if text is not None)
        check_text("source_prefix", self.prefix)
        self.limit = limit
        self.summarize = summarize

    def length(self, example: Example) -> int:
        """Number of tokens of an example in the model's input, with special ones and the prefix."""
        example = with_prefix(example, self.prefix)
        if self._processor is not None:
            _, row, _ = self._processor.read_source(example)
            return row.length
        text = example if isinstance(example, str) else DOCUMENT_SEPARATOR.join(example)
        return len(tokenize(self._tokenizer, [readable(text)])["input_ids"][0])

    def count(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each separate text, without special ones."""
        if not texts:
            return []
        if self._processor is not None:
            texts = [self._processor.clean_document(text) for text in texts]
        texts = [readable(text) for text in texts]
        return [len(row) for row in tokenize(self._tokenizer, texts, add_special_tokens=False)["input_ids"]]

    def is_too_long(self, length: int) -> bool:
        """Whether the model cannot read that many tokens."""
        return self.limit is not None and length > self.limit

    def room(self, texts: int = 1) -> int:
        """Number of tokens available to an example of that many texts; at least 1."""
        blank = "" if texts == 1 else [""] * texts
        # a separator precedes each text but the first
        return max((self.limit or 0) - self.length(blank) - (texts - 1), 1)

    def ends_of(self, texts: Sequence[str], counts: Sequence[tuple[int, int]] | None) -> list[int]:
        """The number of characters that the model reads of each text in a truncated example.

        Args:
            counts: as for `details_of`.
        """
        before = len(self.prefix)
        texts = with_prefix(list(texts), self.prefix)
        if counts is None:
            room, tokens = (self.limit or 0) - (self.length("") - self.count([self.prefix])[0]), []
            for count in self.count(texts):
                tokens.append(min(count, room))
                room -= tokens[-1]
        else:
            tokens = [read for read, _ in counts]
        ends = [self.end_of(text, number) for text, number in zip(texts, tokens, strict=True)]
        return [max(ends[0] - before, 0), *ends[1:]]

    def end_of(self, text: str, tokens: int) -> int:
        """The number of characters in a text's first `tokens` tokens."""
        if tokens < 1:
            return 0
        end, beyond = 0, min(len(text), 4 * tokens)
        # double the prefix, to tokenize no text that is much longer than the result
        while beyond < len(text) and self.count([text[:beyond]])[0] <= tokens:
            end, beyond = beyond, min(len(text), 2 * beyond)
        if beyond == len(text) and self.count([text])[0] <= tokens:
            return len(text)
        while beyond - end > 1:
            middle = (end + beyond) // 2
            fits = self.count([text[:middle]])[0] <= tokens
            end, beyond = (middle, beyond) if fits else (end, middle)
        return end


# value of `long_documents` -> function of examples, a ModelReader and the documents' language, which returns a Reading
# of each example. hf_summ adds its own functions, as a checkpoint's code cannot split sentences
SHORTENERS: dict[str, Callable[[Sequence[Example], ModelReader, str], list[Reading]]] = {}


def check_long_documents(name: str) -> None:
    """Raise a ValueError unless `name` is a value of `long_documents`; all but one need hf_summ to be imported."""
    choices = [TRUNCATE, *SHORTENERS]
    if name not in choices:
        hint = "" if SHORTENERS else ": import hf_summ for others"
        raise ValueError(f"`long_documents` is {name!r:.80}, but must be one of {', '.join(choices)}{hint}")


def details_of(
    example: Example,
    reader: ModelReader,
    length: int,
    counts: Sequence[tuple[int, int]] | None,
    reading: Reading | None,
) -> dict[str, Any]:
    """The pipeline's `details`: the part of an example that was read.

    Args:
        example: the user's example.
        length: number of tokens of the model's input before truncation.
        counts: for each text, the number of tokens that the model reads and the total number; None if the texts are
            joined into one.
        reading: the example after shortening, if it was shortened.

    Returns:
        `source_tokens`, `read_tokens` and `cut_tokens`: the total number of tokens, and the numbers read and not read.
        `read`: the [start, end) characters that were read, one list for each of several documents. Then the
        shortener's entries.
    """
    texts = [example] if isinstance(example, str) else example
    limit = length if reader.limit is None else min(length, reader.limit)
    source_tokens = length if reading is None else reading.source_tokens
    ranges = None if reading is None else reading.ranges
    more = {} if reading is None else reading.details
    # windows read all tokens, in several passes
    read_tokens = source_tokens if "windows" in more else limit
    if ranges is None:
        is_cut = length > limit and not more
        ends = reader.ends_of(texts, counts) if is_cut else [len(text) for text in texts]
        ranges = [[[0, end]] if end else [] for end in ends]
    return {
        "source_tokens": source_tokens,
        "read_tokens": read_tokens,
        "cut_tokens": source_tokens - read_tokens,
        "read": ranges[0] if isinstance(example, str) else ranges,
        **more,
    }


def in_chunks(examples: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Group items into lists of `size`; the last may be shorter."""
    while chunk := list(islice(examples, size)):
        yield chunk


def cut_of(document: Example, length: int, limit: int, counts: list[tuple[int, int]] | None) -> str:
    """Describe the truncation of a document, or of several."""
    if isinstance(document, str) or counts is None:
        return f"the last {length - limit} ({1 - limit / length:.0%}) were truncated"
    return f"{', '.join(f'{read} of {total}' for read, total in counts)} were kept"


def _blank_documents(rows: Sequence[int], number: int) -> str:
    """The warning of blank documents in these rows of a number of documents."""
    if number == 1:
        return "the document is blank, and so is its summary"
    named = ", ".join(map(str, rows[:_NAMED]))
    if len(rows) > _NAMED:
        named += ", ..."
    row = "row" if len(rows) == 1 else "rows"
    return f"{len(rows)} of {number} documents are blank, and so are their summaries: {row} {named}, counted from 0"


def with_warnings(results: Iterator[tuple[list[dict], dict]]) -> Iterator[list[dict]]:
    """The summaries of each document; finally warn of the blank documents and of the number of truncated ones.

    Args:
        results: the output of `postprocess` for each document.
    """
    read = 0
    blank: list[int] = []
    cut: list[dict] = []
    try:
        for records, note in results:
            if note["blank"]:
                blank.append(read)
            read += 1
            if "cut" in note:
                cut.append(note)
            yield records
    finally:
        if blank:
            logger.warning(_blank_documents(blank, read))
        if cut and read == 1:
            logger.warning(cut[0]["cut"])
        elif cut:
            lost = 1 - sum(note["limit"] for note in cut) / sum(note["length"] for note in cut)
            logger.warning(
                f"{len(cut)} of {read} documents exceed the model's maximum of {cut[0]['limit']} tokens: {lost:.0%} of "
                f"their tokens were truncated{cut[0]['hint']}"
            )
