"""Shortening of long documents to a model's input length, for `long_documents` of `pipeline("summarization")`.

`extract` selects a document's most important sentences, as many as the model can read. `windows` summarizes windows of
the document, and the model reads the summaries.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hf_summ.checkpoints.decoding import extracts
from hf_summ.data.languages import language_code
from hf_summ.data.sentences import pick_sentences, sentence_places, split_sentences
from hf_summ.runtimes.long_documents import Example, ModelReader, Reading

if TYPE_CHECKING:
    from hf_summ.extractive.consistent import ConsistentStage

__all__ = ["extract", "windows"]

# more characters than an average token of any tokenizer has
_CHARACTERS = 64
# tokens of a document
_LEAST = 1


def extract(examples: Sequence[Example], reader: ModelReader, language: str, **flags: Any) -> list[Reading]:
    """Shorten examples by the consistent extractive stage (Aksenov 2020, section 4.1).

    The sentences of several documents compete with each other. `details` has `sentences`: for each kept sentence its
    `index` over all documents, its `start` and `end` characters and, with several documents, its `document`. If the
    kept sentences are still too long, they are truncated.

    Args:
        examples: documents, or lists of documents with one summary each.
        reader: counts the model's tokens.
        language: ISO 639 code.
        flags: `extract_share` or `extract_tokens`, the share of the sentences or the number of the model's tokens to
            keep of each example; by default, only examples that are too long are shortened, to what the model reads.
            `extract_idf` and `next_sentence_model` are the `idf` and the `next_sentence_model` of
            `hf_summ.extractive.ExtractiveSettings`.

    Raises:
        ValueError: `language` is not such a code, even if no example is shortened; or as `consistent_extract`.
    """
    language_code(language)
    lengths = [reader.length(example) for example in examples]
    shortens_all = extracts(flags)
    is_shortened = [shortens_all or reader.is_too_long(length) for length in lengths]
    if not any(is_shortened):
        return [Reading(example, length) for example, length in zip(examples, lengths, strict=True)]
    stage = _stage(language, **flags)
    readings = []
    for example, length, shortens in zip(examples, lengths, is_shortened, strict=True):
        if shortens:
            readings.append(_shortened(example, length, reader, stage))
        else:
            readings.append(Reading(example, length))
    return readings


@lru_cache(maxsize=1)
def _stage(language: str, **flags: Any) -> "ConsistentStage":
    """The stage of these flags, whose files are read once."""
    # imported late, as it imports slow libraries
    from hf_summ.extractive.consistent import ConsistentStage
    from hf_summ.extractive.settings import ExtractiveSettings

    return ConsistentStage.load(ExtractiveSettings.from_flags(flags, language=language))


def _shortened(example: Example, length: int, reader: ModelReader, stage: "ConsistentStage") -> Reading:
    """An example of this length after the stage, shortened again until it fits the model if nothing else is set."""
    from hf_summ.evaluation.words import split_words
    from hf_summ.extractive.consistent import close_gaps

    language, fits_model = stage.settings.language, not stage.settings.is_stage
    texts = [example] if isinstance(example, str) else example
    sentences = [split_sentences(text, language) for text in texts]
    # document and number in it of each sentence
    numbers = [(document, number) for document, own in enumerate(sentences) for number in range(len(own))]
    flat = [sentence for own in sentences for sentence in own]
    words, costs = [split_words(sentence, language) for sentence in flat], reader.count(flat)
    budget = reader.room(len(texts)) if fits_model else stage.settings.tokens
    while True:
        indices = stage.keep(words, costs, budget)
        if stage.judge is not None:
            (indices,) = close_gaps([flat], [indices], stage.judge)
        chosen: list[list[int]] = [[] for _ in texts]
        for document, number in map(numbers.__getitem__, indices):
            chosen[document].append(number)
        picked = [pick_sentences(*choice) for choice in zip(texts, sentences, chosen, strict=True)]
        shorter = picked[0] if isinstance(example, str) else picked
        excess = reader.length(shorter) - (reader.limit or 0)
        # a text may have more tokens than its separate sentences
        if not fits_model or budget is None or excess <= 0 or len(indices) < 2 or budget == _LEAST:
            break
        budget = max(budget - excess, _LEAST)
    spans = [sentence_places(text, own) for text, own in zip(texts, sentences, strict=True)]
    details = []
    for index, (document, number) in zip(indices, map(numbers.__getitem__, indices), strict=True):
        start, end = spans[document][number]
        of = {} if len(texts) == 1 else {"document": document}
        details.append({"index": index, "start": start, "end": end, **of})
    ranges = [[list(own[number]) for number in of_text] for own, of_text in zip(spans, chosen, strict=True)]
    return Reading(shorter, length, ranges, {"sentences": details})


def windows(examples: Sequence[Example], reader: ModelReader, language: str) -> list[Reading]:
    """Replace long examples by summaries of their windows, repeatedly until the model can read them.

    Windows end with sentences, have about equal lengths, and do not cross the documents of an example. `details` has
    the `windows` of the first round: `start` and `end` characters, `tokens`, `summary_text` and, with several
    documents, `document`. `rounds` is the number of replacements.

    Args:
        examples: documents, or lists of documents with one summary each.
        reader: counts tokens, and summarizes windows.
        language: ISO 639 code.
    """
    language_code(language)
    states = [_Shortening(example, reader.length(example)) for example in examples]
    too_long = [state for state in states if reader.is_too_long(state.length)]
    while too_long:
        spans = [[split_windows(text, reader, language) for text in state.texts] for state in too_long]
        pieces = [
            text[start:end]
            for state, of_texts in zip(too_long, spans, strict=True)
            for text, own in zip(state.texts, of_texts, strict=True)
            for start, end in own
        ]
        summaries = iter(reader.summarize(pieces))
        too_long = [
            state
            for state, of_texts in zip(too_long, spans, strict=True)
            if state.replace(of_texts, [[next(summaries) for _ in own] for own in of_texts], reader)
        ]
    return [state.reading() for state in states]


class _Shortening:
    """An example between rounds.

    Attributes:
        texts: the current text of each document.
        length: the number of tokens of the current texts.
    """

    def __init__(self, example: Example, length: int):
        self._example = example
        self._source_tokens = length
        self._details: dict[str, Any] = {}
        self.texts = [example] if isinstance(example, str) else list(example)
        self.length = length

    def replace(
        self, spans: Sequence[Sequence[tuple[int, int]]], summaries: Sequence[Sequence[str]], reader: ModelReader
    ) -> bool:
        """Replace the texts' windows by summaries; return whether the result is shorter but still too long."""
        shorter = [" ".join(own) for own in summaries]
        length = reader.length(self._like_example(shorter))
        # stop if the summaries are no shorter than the text, which would never end
        if length >= self.length:
            return False
        self._details["rounds"] = self._details.get("rounds", 0) + 1
        if "windows" not in self._details:
            self._details["windows"] = self._windows(spans, summaries, reader)
        self.texts, self.length = shorter, length
        return reader.is_too_long(length)

    def reading(self) -> Reading:
        """The text that the model reads in place of the example."""
        return Reading(self._like_example(self.texts), self._source_tokens, None, self._details)

    def _like_example(self, texts: list[str]) -> Example:
        return texts[0] if isinstance(self._example, str) else texts

    def _windows(self, spans, summaries, reader: ModelReader) -> list[dict[str, Any]]:
        windows = []
        for document, (text, own, of_text) in enumerate(zip(self.texts, spans, summaries, strict=True)):
            of = {} if isinstance(self._example, str) else {"document": document}
            tokens = reader.count([text[start:end] for start, end in own])
            windows += [
                {"start": start, "end": end, "tokens": count, "summary_text": summary, **of}
                for (start, end), count, summary in zip(own, tokens, of_text, strict=True)
            ]
        return windows


def split_windows(text: str, reader: ModelReader, language: str) -> list[tuple[int, int]]:
    """The [start, end) characters of the fewest windows that the model can read, with a minimal longest window.

    Windows end with sentences; a sentence longer than a window is split between words, or within a word.
    """
    room = reader.room()
    spans = sentence_places(text, split_sentences(text, language))
    costs = reader.count([text[start:end] for start, end in spans])
    if any(cost > room for cost in costs):
        cut = ([span] if cost <= room else _cut(text, *span, reader) for span, cost in zip(spans, costs, strict=True))
        spans = [piece for pieces in cut for piece in pieces]
        costs = reader.count([text[start:end] for start, end in spans])
    most = room
    while True:
        places = [(spans[first][0], spans[last - 1][1]) for first, last in partition(costs, most)]
        excess = max(reader.count([text[start:end] for start, end in places]), default=0) - room
        # a window has also the space between its sentences
        if excess <= 0 or most < 1:
            return places
        most -= excess


def partition(costs: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Split items into the fewest runs [first, last) with costs of at most `most`, and minimize the highest cost.

    An item that costs more forms its own run.
    """
    fewest = len(_filled(costs, most))
    least = max(costs, default=0)
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if len(_filled(costs, middle)) > fewest else (least, middle)
    return _filled(costs, most)


def _filled(costs: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Fill runs greedily up to a cost of `most`."""
    if not costs:
        return []
    runs, first, total = [], 0, 0
    for index, cost in enumerate(costs):
        if total + cost > most and index > first:
            runs.append((first, index))
            first, total = index, 0
        total += cost
    return [*runs, (first, len(costs))]


def _cut(text: str, start: int, end: int, reader: ModelReader) -> list[tuple[int, int]]:
    """Split a sentence that is longer than a window."""
    room, spans = reader.room(), []
    while start < end:
        near = text[start : min(end, start + _CHARACTERS * room)]
        # a window has at least one character, even if that exceeds its tokens
        length = max(reader.end_of(near, room), 1)
        if start + length < end:
            space = near.rfind(" ", 1, length)
            length = space + 1 if space > 0 else length
        spans.append((start, start + length))
        start += length
    return spans
