"""Splitting texts into sentences by sentencex, and finding and picking the sentences of a document."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import pairwise

import sentencex

from hf_summ.common.messages import one_line
from hf_summ.data.languages import language_code
from hf_summ.data.sentences.ends import is_end, unseen_starts
from hf_summ.data.sentences.stops import NEAR
from hf_summ.data.sentences.twins import twin_and_starts, without_unpaired
from hf_summ.models.checks import check_integer, check_text

# Marks of direction and others that are not shown. At the edges of words, they hide abbreviations from sentencex.
_INVISIBLE = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_AT_EDGES = re.compile(rf"[{_INVISIBLE}](?:(?<![^\s{_INVISIBLE}].)|(?![^\s{_INVISIBLE}]))")
# The mark within Hebrew acronyms, which is no quotation mark.
_ACRONYM = re.compile('"(?<=[א-ת].)(?=[א-ת])')
# sentencex accepts no lone surrogates, and fails on a space outside ASCII between a capital and a full stop.
_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f\x85\u2028\u2029]")
# In tokenized text, a stop that ends a sentence is a separate token, and closing marks are tokens after it. The stop of
# an abbreviation is no separate token.
_LONE_STOP = re.compile(
    r"""(?<=[ ])(?P<stops>[.!?](?!\S)(?:\s+[.!?](?!\S))*+(?:\s+[.!?]["'”’»)\]]+(?!\S))?)"""
    r"""(?P<closing>(?:\s+(?:''|["'”’»)\]]|-[Rr][RrSsCc][Bb]-)(?!\S))*+)(?:\s+(?P<next>\S)|\s*$)"""
)
# sentencex ends no sentence before an inverted mark, as Spanish has them.
_BEFORE_INVERTED_MARK = re.compile(r"[.!?…][»”\")]?\s+(?=[¡¿])")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_LONE_STOPS = (" .", " !", " ?")
_LONE_QUOTE = re.compile(r'(?<!\S)"(?!\S)')
# The time of sentencex grows with the cube of a line's number of brackets and quotation marks, and with the square of
# its length. Therefore it reads a long line in windows of at most so many marks and characters.
_MARK = re.compile(r"""["'`«»‘’‚“”„‹›()\[\]（）「」『』《》]""")
_WINDOW_MARKS = 400
_WINDOW_CHARACTERS = 10_000


def split_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of `text` without surrounding space; a line end also ends a sentence.

    They are substrings of `text`, in its order, and together contain everything except space. In tokenized text, a stop
    that is a separate token ends a sentence.

    Args:
        language: ISO 639 code; languages that `sentencex` does not support are split by general rules.

    Raises:
        TypeError: `text` is not a string.
        ValueError: as `language_code`.
    """
    check_text("text", text)
    code = language_code(language)
    readable = text
    if not text.isascii():
        readable = _SURROGATE.sub("\ufffd", readable)
        readable = _WIDE_SPACE.sub(" ", readable)
    sentences = []
    for line in readable.splitlines():
        for piece in _split_tokenized(line):
            stripped = [sentence.strip() for sentence in _segment(piece, code)]
            sentences.extend([sentence for sentence in stripped if sentence])
    if readable == text:
        return sentences
    # Both texts have the same length, so that their sentences have the same positions.
    return [text[start:end] for start, end in sentence_places(readable, sentences)]


def splitter_version() -> str:
    """The splitter's name and version, on which sentences depend."""
    return f"sentencex {version('sentencex')}"


def lead(document: str | Sequence[str], sentences: int, language: str = "en") -> str:
    """The LEAD-n baseline: the first `sentences` sentences of `document`, or all if it has fewer, in one line.

    Of several documents, the first sentences of each are taken, the First-k of Fabbri et al. 2019.

    Args:
        language: as for `split_sentences`.

    Raises:
        ValueError: `sentences` is less than 1, or as `split_sentences`.
    """
    check_integer("sentences", sentences, 1)
    documents = [document] if isinstance(document, str) else document
    beginnings = []
    for text in documents:
        beginning = pick_sentences(text, split_sentences(text, language), range(sentences))
        if beginning:
            beginnings.append(beginning)
    return " ".join(beginnings)


def pick_sentences(document: str, sentences: Sequence[str], indices: Iterable[int]) -> str:
    """The document's sentences with these indices, in its order and in one line."""
    previous_end = 0
    pieces: list[str] = []
    chosen = set(indices)
    for index, (start, end) in enumerate(sentence_places(document, sentences)):
        if index in chosen:
            # Some scripts have no spaces between sentences, so a space is put only where the document has one.
            if start > previous_end:
                pieces.append(" ")
            pieces.append(document[start:end])
        previous_end = end
    return one_line("".join(pieces))


def sentence_places(document: str, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """The [start, end) characters of a document's sentences, which must be substrings of it, in its order."""
    end = 0
    spans = []
    for sentence in sentences:
        start = document.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def _split_tokenized(line: str) -> list[str]:
    """Split a line where tokenized text ends a sentence; sentencex does not do so within quotations."""
    has_lone_stop = any(stop in line for stop in _LONE_STOPS)
    if not has_lone_stop:
        return [line]
    bounds = [0]
    has_case = line != line.lower()
    # The number of straight quotation marks up to the position `counted`.
    quotes = counted = 0
    for match in _LONE_STOP.finditer(line):
        following = match["next"] or ""
        is_full_stop = match["stops"] == "." and not match["closing"]
        if has_case and following.islower() and not is_full_stop:
            # The sentence continues after an ellipsis, a question or a quotation.
            continue
        quotes += len(_LONE_QUOTE.findall(line, counted, match.start()))
        counted = match.start()
        bound = match.end("closing")
        if quotes % 2 == 0 and '"' in match["closing"]:
            # No quotation is open, so the next straight mark opens one: it belongs to the next sentence.
            bound = match.start("closing") + match["closing"].index('"')
        bounds.append(bound)
    bounds.append(len(line))
    return [line[start:end] for start, end in pairwise(bounds)]


def _segment(line: str, code: str) -> list[str]:
    """The sentences of one line, with surrounding space: those of sentencex after its misreadings are repaired."""
    readable = line
    if not line.isascii():
        readable = _ACRONYM.sub("א", _AT_EDGES.sub(" ", line))
    twin, starts = twin_and_starts(readable, code)
    starts.update(unseen_starts(readable))
    if code == "es":
        starts.update(match.end() for match in _BEFORE_INVERTED_MARK.finditer(line))
    # Marks alone are no sentence, so a sentence ends only after a letter or a digit.
    has_words = False
    scanned = 0
    for position, end in _segments(twin, code):
        has_words = has_words or _LETTER_OR_DIGIT.search(line, scanned, position) is not None
        scanned = position
        before = readable[max(position - NEAR, 0) : position]
        after = readable[position : position + NEAR]
        if has_words and line[position:end].strip() and is_end(before, after, code):
            start = position
            # Invisible marks belong to the word after them.
            while line[start - 1] in _INVISIBLE:
                start -= 1
            starts.add(start)
            has_words = False
    bounds = sorted(starts | {0, len(line)})
    return [line[start:end] for start, end in pairwise(bounds)]


def _segments(line: str, code: str) -> Iterator[tuple[int, int]]:
    """Yield the [start, end) characters of sentencex's sentences of a line, its segments, which it reads in windows.

    The next window begins with the last segment that begins in the first three quarters of a window, as the pairs of
    marks in the last quarter may be incomplete. A segment that is longer than a window ends with the window.
    """
    marks = [match.start() for match in _MARK.finditer(line)]
    begin = 0
    is_within_segment = False
    while begin < len(line):
        end = begin + _WINDOW_CHARACTERS
        # The next window begins here, unless a segment begins before.
        following = begin + _WINDOW_CHARACTERS * 3 // 4
        first_mark = bisect_left(marks, begin)
        last_mark = first_mark + _WINDOW_MARKS
        if last_mark < len(marks) and marks[last_mark] < end:
            end = marks[last_mark]
            following = marks[first_mark + _WINDOW_MARKS * 3 // 4]
        is_last = end >= len(line)
        # A bracket or a quotation mark without a partner would change how sentencex reads all others.
        window = without_unpaired(line[begin:end])
        spans = []
        for start, stop in sentence_places(window, sentencex.segment(code, window)):
            if is_last or begin + start < following:
                spans.append((begin + start, begin + stop))
        # Whether the first segment goes on from the window before, and whether the last one goes on in the next window.
        is_continued = is_within_segment
        is_within_segment = not is_last and len(spans) < 2
        if is_last:
            following = len(line)
        elif not is_within_segment:
            following, _ = spans.pop()
        if is_continued:
            spans = spans[1:]
        yield from spans
        begin = following
