"""Splitting texts into sentences by sentencex, and finding and picking the sentences of a document.

A stop is a mark that may end a sentence, such as a full stop (the period). Tokenized text has spaces around each word
and mark, as in "It rained ." A span is the [start, end) characters of a sentence in its text.
"""

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

# Characters that are not shown, such as marks of the direction of text, for a character class. Beside a word, they hide
# from sentencex that the word is an abbreviation.
_INVISIBLE = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
# Such a character at the beginning or the end of a word.
_AT_EDGES = re.compile(rf"[{_INVISIBLE}](?:(?<![^\s{_INVISIBLE}].)|(?![^\s{_INVISIBLE}]))")
# The straight mark between two letters of a Hebrew acronym, which is not a quotation mark.
_ACRONYM = re.compile('"(?<=[א-ת].)(?=[א-ת])')
# A lone surrogate, half of a character in UTF-16. sentencex accepts none.
_SURROGATE = re.compile("[\ud800-\udfff]")
# A space outside ASCII that ends no line, such as U+00A0. sentencex fails on it between a capital and a full stop.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f\x85\u2028\u2029]")
# The end of a sentence in tokenized text: a separate stop, or several ("stops"), the separate closing marks after them
# ("closing"), and the next character ("next"), as in " . '' T". The stop of an abbreviation is not a separate token.
_LONE_STOP = re.compile(
    r"""(?<=[ ])(?P<stops>[.!?](?!\S)(?:\s+[.!?](?!\S))*+(?:\s+[.!?]["'”’»)\]]+(?!\S))?)"""
    r"""(?P<closing>(?:\s+(?:''|["'”’»)\]]|-[Rr][RrSsCc][Bb]-)(?!\S))*+)(?:\s+(?P<next>\S)|\s*$)"""
)
# The end of a sentence before an inverted mark of Spanish, ". ¿", where sentencex ends no sentence.
_BEFORE_INVERTED_MARK = re.compile(r"[.!?…][»”\")]?\s+(?=[¡¿])")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
# A line without any of these strings has no separate stop.
_LONE_STOPS = (" .", " !", " ?")
# A straight quotation mark that is a separate token.
_LONE_QUOTE = re.compile(r'(?<!\S)"(?!\S)')
# The time of sentencex grows with the cube of the number of brackets and quotation marks in a line, and with the square
# of the length of the line. Therefore it reads a long line in windows of at most so many marks and characters.
_MARK = re.compile(r"""["'`«»‘’‚“”„‹›()\[\]{}（）「」『』《》]""")
_WINDOW_MARKS = 400
_WINDOW_CHARACTERS = 10_000


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Split a text into its sentences; a line end also ends a sentence.

    In tokenized text, a stop that is a separate token ends a sentence.

    Args:
        text: any text, tokenized or not.
        language: the ISO 639 code of the language of the text. Languages that `sentencex` does not support are split by
            general rules.

    Returns:
        The sentences in the order of the text, without surrounding white space. They are substrings of the text, which
        together contain all of its characters except white space.

    Raises:
        TypeError: `text` or `language` is not a string.
        ValueError: `language` is not a valid code.
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
    # `readable` and `text` have the same length, so their sentences have the same positions.
    return [text[start:end] for start, end in sentence_places(readable, sentences)]


def splitter_version() -> str:
    """The name and the version of the library that splits texts, such as "sentencex 1.0"; sentences depend on them."""
    return f"sentencex {version('sentencex')}"


def lead(document: str | Sequence[str], sentences: int, language: str = "en") -> str:
    """The LEAD-n baseline: the first n sentences of a document are its summary.

    The summary of several documents is made of the first n sentences of each, as the First-k of Fabbri et al. 2019.

    Args:
        document: a text, or several texts.
        sentences: n, the number of sentences to take; of a document with fewer sentences, all are taken.
        language: the ISO 639 code of the language, as for `split_sentences`.

    Returns:
        The summary in one line, which is empty if the documents are blank.

    Raises:
        TypeError: a document or `language` is not a string, or `sentences` is not an integer.
        ValueError: `sentences` is less than 1, or `language` is not a valid code.
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
    """Join some sentences of a document in one line, in the order of the document.

    A space is put between two sentences only if the document has white space between them.

    Args:
        document: the text.
        sentences: all sentences of the text, as `split_sentences` returns them.
        indices: the indices in `sentences` of those to join, in any order. Indices without a sentence are ignored.

    Raises:
        ValueError: as `sentence_places`.
    """
    previous_end = 0
    pieces: list[str] = []
    chosen = set(indices)
    for index, (start, end) in enumerate(sentence_places(document, sentences)):
        if index in chosen:
            # Some scripts have no spaces between sentences, so a space is put only where the document has white space.
            if start > previous_end:
                pieces.append(" ")
            pieces.append(document[start:end])
        previous_end = end
    return one_line("".join(pieces))


def sentence_places(document: str, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of the sentences of a document: for each sentence, its [start, end) characters.

    Args:
        document: the text.
        sentences: substrings of the text, in its order, which do not overlap.

    Raises:
        ValueError: the text does not contain the sentences in this order.
    """
    end = 0
    spans = []
    for sentence in sentences:
        start = document.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def _split_tokenized(line: str) -> list[str]:
    """Split a line after each separate stop that ends a sentence in tokenized text.

    sentencex does not split there within quotations.

    Returns:
        The pieces of the line, which together are the line. A line without separate stops is one piece.
    """
    has_lone_stop = any(stop in line for stop in _LONE_STOPS)
    if not has_lone_stop:
        return [line]
    # The positions between which the pieces are.
    bounds = [0]
    has_capitals = line != line.lower()
    # The number of separate straight quotation marks before the position `counted`.
    quotes = 0
    counted = 0
    for match in _LONE_STOP.finditer(line):
        following = match["next"] or ""
        is_full_stop = match["stops"] == "." and not match["closing"]
        if has_capitals and following.islower() and not is_full_stop:
            # The sentence continues after an ellipsis, a question or a quotation.
            continue
        quotes += len(_LONE_QUOTE.findall(line, counted, match.start()))
        counted = match.start()
        bound = match.end("closing")
        is_quotation_open = quotes % 2 == 1
        if not is_quotation_open and '"' in match["closing"]:
            # The straight mark after the stop opens a quotation, so it belongs to the next sentence.
            bound = match.start("closing") + match["closing"].index('"')
        bounds.append(bound)
    bounds.append(len(line))
    return [line[start:end] for start, end in pairwise(bounds)]


def _segment(line: str, code: str) -> list[str]:
    """Split a line into sentences by sentencex, whose errors are repaired before and after it reads the line.

    Args:
        line: a line without lone surrogates and without spaces outside ASCII.
        code: the language: a code that `language_code` returns.

    Returns:
        The sentences with the white space around them, which together are the line.
    """
    readable = line
    if not line.isascii():
        readable = _ACRONYM.sub("א", _AT_EDGES.sub(" ", line))
    # The twin has the length of the line; characters that sentencex misreads are replaced in it. `starts` are the
    # positions at which sentences begin.
    twin, starts = twin_and_starts(readable, code)
    starts.update(unseen_starts(readable))
    if code == "es":
        starts.update(match.end() for match in _BEFORE_INVERTED_MARK.finditer(line))
    # Marks alone are not a sentence, so a sentence ends only after a letter or a digit. `has_words` says whether there
    # is one between the beginning of the current sentence and the position `scanned`.
    has_words = False
    scanned = 0
    for position, end in _segments(twin, code):
        has_words = has_words or _LETTER_OR_DIGIT.search(line, scanned, position) is not None
        scanned = position
        before = readable[max(position - NEAR, 0) : position]
        after = readable[position : position + NEAR]
        if has_words and line[position:end].strip() and is_end(before, after, code):
            start = position
            # Characters that are not shown belong to the word after them.
            while line[start - 1] in _INVISIBLE:
                start -= 1
            starts.add(start)
            has_words = False
    bounds = sorted(starts | {0, len(line)})
    return [line[start:end] for start, end in pairwise(bounds)]


def _segments(line: str, code: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences that sentencex finds in a line. They are called segments here.

    sentencex reads a long line in windows. The next window begins with the last segment that begins in the first three
    quarters of a window, as pairs of marks in the last quarter may be incomplete. If no second segment begins there,
    the next window begins after three quarters, and continues the same segment.

    Args:
        line: the line, or its twin (see `twin_and_starts`).
        code: the language: a code that `language_code` returns.

    Yields:
        The [start, end) characters of each segment in the line, in order. The end of a segment that is longer than a
        window is the end of its first part.
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
        # Whether the first segment continues the last segment of the window before.
        is_continued = is_within_segment
        # Whether the only segment of this window continues in the next window.
        is_within_segment = not is_last and len(spans) < 2
        if is_last:
            following = len(line)
        elif not is_within_segment:
            # The next window reads the last segment again, and begins with it.
            following, _ = spans.pop()
        if is_continued:
            spans = spans[1:]
        yield from spans
        begin = following
