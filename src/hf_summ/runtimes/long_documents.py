"""How `pipeline("summarization")` reads documents that exceed the model's input length.

An example is a document, or several documents that have one summary together.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NotRequired, TypedDict, TypeVar

from hf_summ.models.checks import check_text
from hf_summ.models.generation_sentences import Candidate
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable, tokenize
from hf_summ.runtimes.any_model import prefix_of, with_prefix

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

# a document, or several of one example
Example = str | list[str]
# for each document of an example, the number of its tokens that the model reads, and the number of all its tokens
TokenCounts = Sequence[tuple[int, int]]
# the fields of a summary, such as `summary_text`
Record = dict[str, Any]
# the pipeline's `details` of a summary by name
Details = dict[str, Any]
# the value of `long_documents` that cuts off what the model cannot read
TRUNCATE = "truncate"
# the default `max_length` of `generate()`, which counts a summary with its first token
_MAX_LENGTH = 20
# the largest number of rows that a warning lists
_LISTED_ROWS = 10


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
    details: Details = field(default_factory=dict)


@dataclass(frozen=True)
class SummaryEnds:
    """How a summary ends.

    Args:
        max_tokens: the largest number of tokens after the first one.
        end_ids: the ids that the last of that many tokens may have in a complete summary.
        early_end_ids: the ids of which a shorter summary has one if it is complete; None if every shorter one is.
    """

    max_tokens: int
    end_ids: frozenset[int | None]
    early_end_ids: frozenset[int | None] | None = None

    def cuts_off(self, token_ids: Sequence[int]) -> bool:
        """Whether a summary may be cut off, given its ids (L,) with the first one, padded on the right."""
        if len(token_ids) > self.max_tokens:
            return int(token_ids[self.max_tokens]) not in self.end_ids
        if self.early_end_ids is None:
            return False
        written_ids = [int(token_id) for token_id in token_ids[1:]]
        return self.early_end_ids.isdisjoint(written_ids)


def summary_ends(settings: Mapping[str, Any]) -> SummaryEnds:
    """How summaries end with these settings of `generate()`."""
    max_tokens = settings.get("max_new_tokens")
    if not max_tokens:
        max_tokens = (settings.get("max_length") or _MAX_LENGTH) - 1
    eos_token_ids = settings.get("eos_token_id")
    if not isinstance(eos_token_ids, list):
        eos_token_ids = [eos_token_ids]
    end_ids = {settings.get("pad_token_id")}
    # a forced end token may end a summary in mid-sentence
    if settings.get("forced_eos_token_id") is None:
        end_ids.update(eos_token_ids)
    early_end_ids = None
    # a choice among whole sentences ignores the time
    if settings.get("max_time") is not None and not settings.get("whole_sentences"):
        early_end_ids = frozenset(eos_token_ids)
    return SummaryEnds(max_tokens, frozenset(end_ids), early_end_ids)


class Note(TypedDict):
    """What is known of an example besides the model's inputs.

    Keys:
        blank: whether all its documents are blank.
        document: the example, shortened if it was too long.
        cut: a warning, if the model does not read all of it. Then there are also `length` and `limit`, its number of
            tokens and the number that the model reads, and `hint`, the end of the warning, which proposes a setting.
        restored_from: the user's example, if the summary gets its upper case from there.
        details: as `details_of` returns them, if they are asked for.
        candidates: the sentences among which `whole_sentences` chooses; `add_search_notes` adds them.
        ends: how its summaries end; `add_search_notes` adds it.
    """

    blank: bool
    document: Example
    cut: NotRequired[str]
    length: NotRequired[int]
    limit: NotRequired[int]
    hint: NotRequired[str]
    restored_from: NotRequired[Example]
    details: NotRequired[Details]
    candidates: NotRequired[list[Candidate]]
    ends: NotRequired[SummaryEnds]


class ModelReader:
    """Measures texts in the tokens of a summarizer's model, and summarizes them, for the functions in `SHORTENERS`.

    Args:
        pipeline: the pipeline, or another `DocumentSummarizer`.
        limit: maximum number of tokens in the model's input, including special ones; None if it has no limit.
        summarize: summarizes texts with the settings of the call.
        prefix: the text before each document; by default the pipeline's `source_prefix`, then the config's.
    """

    def __init__(
        self, pipeline, limit: int | None, summarize: Callable[[Sequence[str]], list[str]], prefix: str | None = None
    ):
        self._processor = None
        if hasattr(pipeline.processor, "source_features"):
            # a processor of ours
            self._processor = pipeline.processor
        self._tokenizer = pipeline.tokenizer
        if prefix is None:
            prefix = pipeline.source_prefix
        if prefix is None:
            prefix = prefix_of(pipeline.model.config)
        check_text("source_prefix", prefix)
        self.prefix = prefix
        self.limit = limit
        self.summarize = summarize

    def length(self, example: Example) -> int:
        """Number of tokens of an example in the model's input, with special ones and the prefix."""
        example = with_prefix(example, self.prefix)
        if self._processor is not None:
            (source,) = self._processor.read_sources([example])
            return source.row.full_length
        text = joined_text(example)
        return len(tokenize(self._tokenizer, [readable(text)])["input_ids"][0])

    def count(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each separate text, without special ones."""
        processor = self._tokenizer if self._processor is None else self._processor
        return token_counts(processor, texts)

    def is_too_long(self, length: int) -> bool:
        """Whether the model cannot read that many tokens."""
        return self.limit is not None and length > self.limit

    def room(self, texts: int = 1) -> int:
        """Number of tokens available to an example of that many texts; at least 1."""
        blank_example: Example = ""
        if texts != 1:
            blank_example = [""] * texts
        # a separator precedes each text but the first
        separators = texts - 1
        limit = self.limit or 0
        return max(limit - self.length(blank_example) - separators, 1)

    def ends_of(self, texts: Sequence[str], counts: TokenCounts | None) -> list[int]:
        """The number of characters that the model reads of each text in a truncated example.

        Args:
            texts: the documents of the example.
            counts: as for `details_of`.
        """
        texts = with_prefix(list(texts), self.prefix)
        if counts is None:
            tokens = self._read_tokens(texts)
        else:
            tokens = [read for read, _ in counts]
        ends = [self.end_of(text, number) for text, number in zip(texts, tokens, strict=True)]
        # the prefix is not a part of the first text
        ends[0] = max(ends[0] - len(self.prefix), 0)
        return ends

    def _read_tokens(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens that the model reads of each of several texts, which are joined into one."""
        special_tokens = self.length("") - self.count([self.prefix])[0]
        room = (self.limit or 0) - special_tokens
        tokens = []
        for count in self.count(texts):
            read = min(count, room)
            tokens.append(read)
            room -= read
        return tokens

    def end_of(self, text: str, tokens: int) -> int:
        """The number of characters in a text's first `tokens` tokens."""
        if tokens < 1:
            return 0
        # the first `end` characters fit into this number of tokens, and the first `beyond` characters may not
        end = 0
        beyond = min(len(text), 4 * tokens)
        # double the characters, to tokenize no text that is much longer than the result
        while beyond < len(text) and self._fits(text[:beyond], tokens):
            end = beyond
            beyond = min(len(text), 2 * beyond)
        if beyond == len(text) and self._fits(text, tokens):
            return len(text)
        # bisect
        while beyond - end > 1:
            middle = (end + beyond) // 2
            if self._fits(text[:middle], tokens):
                end = middle
            else:
                beyond = middle
        return end

    def _fits(self, text: str, tokens: int) -> bool:
        """Whether a text has at most this number of tokens."""
        return self.count([text])[0] <= tokens


# value of `long_documents` -> function (examples, a ModelReader, their language, **settings) that returns a Reading of
# each example. `hf_summ.registration` adds the functions, so that sentence splitting is imported late
SHORTENERS: dict[str, Callable[..., list[Reading]]] = {}


def token_counts(processor, texts: Sequence[str]) -> list[int]:
    """Number of tokens of each separate text as the model reads it, without special ones.

    Args:
        processor: a processor of this package, or a bare tokenizer.
    """
    # tokenizers and processors reject an empty list
    if not texts:
        return []
    if hasattr(processor, "read_sources"):
        return [source.row.document_lengths[0] for source in processor.read_sources(texts)]
    token_ids = tokenize(processor, [readable(text) for text in texts], add_special_tokens=False)["input_ids"]
    return [len(ids) for ids in token_ids]


def texts_of(example: Example) -> list[str]:
    """The documents of an example."""
    if isinstance(example, str):
        return [example]
    return example


def joined_text(example: Example) -> str:
    """The text of a document, or of several joined documents."""
    if isinstance(example, str):
        return example
    return DOCUMENT_SEPARATOR.join(example)


def check_long_documents(name: str) -> None:
    """Raise a ValueError unless `name` is a value of `long_documents`."""
    choices = [TRUNCATE, *SHORTENERS]
    if name not in choices:
        raise ValueError(f"`long_documents` is {name!r:.80}, but must be one of {', '.join(choices)}")


def details_of(
    example: Example, reader: ModelReader, length: int, counts: TokenCounts | None, reading: Reading | None
) -> Details:
    """The pipeline's `details`: the part of an example that was read.

    Args:
        example: the user's example.
        reader: the reader of the model.
        length: number of tokens of the model's input before truncation.
        counts: for each text, the number of tokens that the model reads and the total number; None if the texts are
            joined into one.
        reading: the example after shortening, if it was shortened.

    Returns:
        `source_tokens`, `read_tokens` and `cut_tokens`: the total number of tokens, and the numbers read and not read.
        `read`: the [start, end) characters that were read, one list for each of several documents. Then the
        shortener's entries. Windows read all characters; `cut_tokens` counts what is truncated of their summaries.
        `sentences` lacks the sentences of which truncation leaves nothing.
    """
    if reading is None:
        reading = Reading(example, length)
    input_tokens = length
    if reader.limit is not None:
        input_tokens = min(length, reader.limit)
    truncated_tokens = length - input_tokens
    source_tokens = reading.source_tokens
    shortener_details = dict(reading.details)
    read_tokens = input_tokens
    ends = None
    if "windows" in shortener_details:
        # the windows were read whole; only the joined summaries, the input of the last pass, may be truncated
        read_tokens = source_tokens - truncated_tokens
    elif truncated_tokens:
        ends = reader.ends_of(texts_of(reading.example), counts)
    ranges = _read_ranges(example, reading, ends)
    if reading.ranges is not None and ends is not None:
        # only `extract` gives ranges, and it gives `sentences` too
        shortener_details["sentences"] = _read_sentences(shortener_details["sentences"], ranges)
    return {
        "source_tokens": source_tokens,
        "read_tokens": read_tokens,
        "cut_tokens": source_tokens - read_tokens,
        "read": ranges[0] if isinstance(example, str) else ranges,
        **shortener_details,
    }


def _read_ranges(example: Example, reading: Reading, ends: Sequence[int] | None) -> list[list[list[int]]]:
    """For each text of an example, the [start, end) characters that the model reads.

    Args:
        example: the user's example.
        reading: the example after shortening.
        ends: for each text of `reading`, the number of characters that truncation leaves; None if nothing is truncated.
    """
    texts = texts_of(example)
    if reading.ranges is None:
        if ends is None:
            ends = [len(text) for text in texts]
        # nothing is read of a text that ends at 0
        return [[[0, end]] if end else [] for end in ends]
    if ends is None:
        return reading.ranges
    read_ranges = []
    for text, text_ranges, shorter_text, end in zip(
        texts, reading.ranges, texts_of(reading.example), ends, strict=True
    ):
        read_ranges.append(_ranges_of_start(text, text_ranges, shorter_text[:end]))
    return read_ranges


def _ranges_of_start(text: str, ranges: Sequence[Sequence[int]], start_text: str) -> list[list[int]]:
    """The ranges of a text that the start of a shorter text comes from, which may have other white space.

    Args:
        text: the text.
        ranges: the [start, end) characters of the text that the whole shorter text comes from.
        start_text: the start of the shorter text.
    """
    # white space is not counted, as it may differ
    remaining = len("".join(start_text.split()))
    start_ranges = []
    for start, end in ranges:
        if not remaining:
            break
        position = start
        while position < end and remaining:
            if not text[position].isspace():
                remaining -= 1
            position += 1
        start_ranges.append([start, position])
    return start_ranges


def _read_sentences(sentences: Sequence[Record], ranges: Sequence[Sequence[Sequence[int]]]) -> list[Record]:
    """The sentences of an extract of which at least the start is read.

    Args:
        sentences: the `sentences` of the pipeline's `details`.
        ranges: for each text the [start, end) characters that are read. A range starts where its sentence starts.
    """
    read_starts = set()
    for document, text_ranges in enumerate(ranges):
        for start, _ in text_ranges:
            read_starts.add((document, start))
    return [sentence for sentence in sentences if (sentence.get("document", 0), sentence["start"]) in read_starts]


def in_chunks(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Group items into lists of `size`; the last may be shorter."""
    chunk = list(islice(items, size))
    while chunk:
        yield chunk
        chunk = list(islice(items, size))


def cut_of(document: Example, length: int, limit: int, counts: TokenCounts | None) -> str:
    """The part of a warning that describes how an example was truncated.

    Args:
        document: the example.
        length: its number of tokens.
        limit: the number of tokens that the model reads.
        counts: as for `details_of`.
    """
    if isinstance(document, str) or counts is None:
        return f"the last {length - limit} ({1 - limit / length:.0%}) were truncated"
    kept = [f"{read} of {total}" for read, total in counts]
    return f"{', '.join(kept)} were kept"


def _blank_documents(rows: Sequence[int], number: int) -> str:
    """The warning of blank documents.

    Args:
        rows: their positions, from 0, among all documents.
        number: the number of all documents.
    """
    if number == 1:
        return "the document is blank, and so is its summary"
    listed = ", ".join(str(row) for row in rows[:_LISTED_ROWS])
    if len(rows) > _LISTED_ROWS:
        listed += ", ..."
    noun = "row" if len(rows) == 1 else "rows"
    return f"{len(rows)} of {number} documents are blank, and so are their summaries: {noun} {listed}, counted from 0"


def with_warnings(results: Iterable[tuple[list[Record], Note]]) -> Iterator[list[Record]]:
    """The summaries of each document; finally warn of the blank documents and of the number of truncated ones.

    Args:
        results: the records and the note of each document.
    """
    documents = 0
    blank_rows: list[int] = []
    cut_notes: list[Note] = []
    try:
        for records, note in results:
            if note["blank"]:
                blank_rows.append(documents)
            documents += 1
            if "cut" in note:
                cut_notes.append(note)
            yield records
    finally:
        if blank_rows:
            logger.warning(_blank_documents(blank_rows, documents))
        if cut_notes and documents == 1:
            logger.warning(cut_notes[0]["cut"])
        elif cut_notes:
            read_tokens = sum(note["limit"] for note in cut_notes)
            all_tokens = sum(note["length"] for note in cut_notes)
            limit, hint = cut_notes[0]["limit"], cut_notes[0]["hint"]
            logger.warning(
                f"{len(cut_notes)} of {documents} documents exceed the model's maximum of {limit} tokens: "
                f"{1 - read_tokens / all_tokens:.0%} of their tokens were truncated{hint}"
            )
