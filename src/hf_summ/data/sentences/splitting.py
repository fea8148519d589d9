"""Sentences of a text."""

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

# marks of direction and others that are not shown, which at the edges of words hide abbreviations
_INVISIBLE = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_AT_EDGES = re.compile(rf"[{_INVISIBLE}](?:(?<![^\s{_INVISIBLE}].)|(?![^\s{_INVISIBLE}]))")
# the mark of Hebrew acronyms, which is no quotation mark
_ACRONYM = re.compile('"(?<=[א-ת].)(?=[א-ת])')
# sentencex accepts no lone surrogates, and fails on a wide space between a capital and a full stop
_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f\x85\u2028\u2029]")
# in tokenized text, a stop is a separate token, unlike an abbreviation's, and closing marks follow it
_LONE_STOP = re.compile(
    r"""(?<=[ ])(?P<stops>[.!?](?!\S)(?:\s+[.!?](?!\S))*+(?:\s+[.!?]["'”’»)\]]+(?!\S))?)"""
    r"""(?P<closing>(?:\s+(?:''|["'”’»)\]]|-[Rr][RrSsCc][Bb]-)(?!\S))*+)(?:\s+(?P<next>\S)|\s*$)"""
)
# sentencex ends no sentence before an inverted mark
_BEFORE_INVERTED_MARK = re.compile(r"[.!?…][»”\")]?\s+(?=[¡¿])")
_LONE_STOPS = (" .", " !", " ?")
_LONE_QUOTE = re.compile(r'(?<!\S)"(?!\S)')
# sentencex takes time that grows with the cube of a line's number of quotation marks, and with the square of its
# length: it reads a long line in windows of at most so many marks and characters
_MARK = re.compile(r"""["'`«»‘’‚“”„‹›()\[\]（）「」『』《》]""")
_WINDOW_MARKS, _WINDOW_CHARACTERS = 400, 10_000


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
    readable = text if text.isascii() else _WIDE_SPACE.sub(" ", _SURROGATE.sub("\ufffd", text))
    sentences = []
    for line in readable.splitlines():
        for piece in _split_tokenized(line):
            stripped = [sentence.strip() for sentence in _segment(piece, code)]
            sentences.extend(sentence for sentence in stripped if sentence)
    if readable == text:
        return sentences
    # of the same length, so that positions are equal
    return [text[start:end] for start, end in sentence_places(readable, sentences)]


def splitter_version() -> str:
    """The splitter's name and version, on which sentences depend."""
    return f"sentencex {version('sentencex')}"


def lead(document: str | Sequence[str], sentences: int, language: str = "en") -> str:
    """The LEAD-n baseline: the first `sentences` sentences of `document`, or all if it has fewer, in one line.

    Of several documents these are the first sentences of each, the First-k of Fabbri et al. 2019.

    Args:
        language: as for `split_sentences`.

    Raises:
        ValueError: `sentences` is less than 1, or as `split_sentences`.
    """
    check_integer("sentences", sentences, 1)
    documents = [document] if isinstance(document, str) else document
    beginnings = [pick_sentences(text, split_sentences(text, language), range(sentences)) for text in documents]
    return " ".join(beginning for beginning in beginnings if beginning)


def pick_sentences(document: str, sentences: Sequence[str], indices: Iterable[int]) -> str:
    """The document's sentences with these indices, in its order and in one line."""
    before = 0
    pieces: list[str] = []
    chosen = set(indices)
    for index, (start, end) in enumerate(sentence_places(document, sentences)):
        # space only where the document has it, as some scripts have no spaces between sentences
        if index in chosen:
            pieces.append(" " * (start > before) + document[start:end])
        before = end
    return one_line("".join(pieces))


def sentence_places(document: str, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """The [start, end) characters of a document's sentences."""
    end = 0
    spans = []
    for sentence in sentences:
        start = document.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def _split_tokenized(line: str) -> list[str]:
    """The line split where tokenized text ends a sentence; sentencex does not do so inside its quotation marks."""
    if not any(stop in line for stop in _LONE_STOPS):
        return [line]
    starts = [0]
    has_case = line != line.lower()
    counted = quotes = 0
    for match in _LONE_STOP.finditer(line):
        following = match["next"] or ""
        # an ellipsis, a question or a quotation after which the sentence continues
        if has_case and following.islower() and (match["stops"] != "." or match["closing"]):
            continue
        quotes += len(_LONE_QUOTE.findall(line, counted, match.start()))
        counted = match.start()
        opening = match["closing"].find('"') if quotes % 2 == 0 else -1
        starts.append(match.end("closing") if opening < 0 else match.start("closing") + opening)
    return [line[start:end] for start, end in pairwise([*starts, len(line)])]


def _segment(line: str, code: str) -> list[str]:
    """The sentences of one line according to sentencex, with surrounding space and its misreadings repaired."""
    readable = line
    if not line.isascii():
        readable = _ACRONYM.sub("א", _AT_EDGES.sub(" ", line))
    twin, starts = twin_and_starts(readable, code)
    starts.update(unseen_starts(readable))
    if code == "es":
        starts.update(match.end() for match in _BEFORE_INVERTED_MARK.finditer(line))
    # marks alone are no sentence
    has_words = False
    scanned = 0
    for position, end in _segments(twin, code):
        has_words = has_words or any(map(str.isalnum, line[scanned:position]))
        scanned = position
        before = readable[max(position - NEAR, 0) : position]
        after = readable[position : position + NEAR]
        if has_words and line[position:end].strip() and is_end(before, after, code):
            start = position
            # invisible marks belong to the following word
            while line[start - 1] in _INVISIBLE:
                start -= 1
            starts.add(start)
            has_words = False
    return [line[start:end] for start, end in pairwise(sorted({0, *starts, len(line)}))]


def _segments(line: str, code: str) -> Iterator[tuple[int, int]]:
    """The [start, end) characters of sentencex's segments of a line; a segment longer than a window is cut at its end.

    A window begins with the last segment that begins in the first three quarters of the window before, as the pairs of
    marks in its last quarter may be incomplete.
    """
    marks = [match.start() for match in _MARK.finditer(line)]
    begin = 0
    is_within_segment = False
    while begin < len(line):
        end, following = begin + _WINDOW_CHARACTERS, begin + _WINDOW_CHARACTERS * 3 // 4
        first_mark = bisect_left(marks, begin)
        last_mark = first_mark + _WINDOW_MARKS
        if last_mark < len(marks) and marks[last_mark] < end:
            end, following = marks[last_mark], marks[first_mark + _WINDOW_MARKS * 3 // 4]
        is_last = end >= len(line)
        # an open pair changes how sentencex reads all others
        window = without_unpaired(line[begin:end])
        spans = []
        for start, stop in sentence_places(window, sentencex.segment(code, window)):
            if is_last or begin + start < following:
                spans.append((begin + start, begin + stop))
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
