"""The twin of a line: the form that sentencex reads well.

It has as many characters as the line. Those that sentencex misreads are replaced: list markers, after which it takes
all that follows as one sentence, emoticons, brackets and quotation marks without a partner, and stops before citations.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cache

from hf_summ.data.sentences.stops import INNER_STOP, NEAR, UNSPACED_STOPS
from hf_summ.data.sentences.words import word_lists
from hf_summ.models.text_documents import IDEOGRAPHS

# Patterns begin with what is rare, as a look behind at each character takes longer.
# the marker of an item within a line, which "\n" precedes
_MARKER = re.compile(
    r"[\s。！？；：⁃](?=(\(?(\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})(\.?\)|[.、])|[•‣◦▪●*])(?:\s|[" + IDEOGRAPHS + "]))"
)
# one with a stop is a marker at the beginning, after a colon or a bullet, and after such a marker
_BEFORE_NUMBER, _BEFORE_LIST = frozenset(".!?:;•‣◦▪●⁃。！？；："), frozenset(":•‣◦▪●⁃")
_AFTER_NUMBER = re.compile(rf"\s+[^\W\d_]|[{IDEOGRAPHS}]")
# a list within a line, whose items may have no stops between them; those within a sentence follow a comma, a semicolon
# or a conjunction
_LIST = re.compile(r"[\n:]\s*[1a](?:\.\)?|\))\s")
_AFTER_ITEM = re.compile(r"\s+[\"“]?[^\W\da-z_]")
_WITHIN = re.compile(r"(?:[,;]|\b(?:and|or|und|oder|et|ou|y|o|e|en))\s+$")
_EMOTICON = re.compile(r"[:;=8](?<!\w.)[-'^]?[()\[\]](?!\w)")
# a stop before a bracketed citation, after which the sentence continues
_CITED = re.compile(r"\.(?:(?<=\bet al\.)(?=\s[\[(])|(?=\s\[[^\]\[]{1,40}\](?:\s+[a-z]|[.,;:)])))")
# stops that sentencex lacks, of which Tibetan may have two; "and so on" in Khmer, after which the sentence continues
_OTHER_STOP = re.compile(r"፡፡|[។៕](?!ល។)(?<!។ល។)|[།༎](?!\s*[།༎])")
# a danda as keyboards of English have it; the mark between the parts of a headline has a space before it
_PIPE = re.compile(r"\|(?<=[\u0900-\u0d7f]\|)(?!\S)")
# a stop without space before a number or a small letter, which sentencex reads as parts of a word; between digits, it
# is a decimal point that was typed so
_BEFORE_DIGIT = re.compile(rf"([।॥۔።{UNSPACED_STOPS}](?<!\d.)[」』”’»）)]*)[\da-z]")
# quotations in two single marks, and in marks the other way round, as Urdu newspapers have them
_DOUBLED = re.compile(r"[‘’]{2}(?<!\S..)(?=\S)((?:[^‘’]|[‘’](?![‘’]))*+)[‘’]{2}")
_REVERSED = re.compile(r"’(?<!\S.)(?=\S)([^‘’]*+)‘(?!\w)")
# the title of a work, which may have stops
_TITLE = re.compile(r"《[^《》]{1,60}》")
# what the patterns from `_OTHER_STOP` on begin with
_RARE = re.compile("[፡។៕།༎‘’《|]")
# opening mark -> its closing ones; straight ones may close those that are equal
_PAIRS = {"(": ")", "[": "]", "（": "）", "「": "」", "『": "』", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’"}
_CLOSING = {**_PAIRS, '"': '"', "'": "'"}
_MARKS = re.compile(rf"[{re.escape(''.join({*_CLOSING, *_CLOSING.values()}))}]")
# a pair around more ends of sentences than this is no pair
_MOST_INNER = 2
_INNER_STOP = re.compile(INNER_STOP)
# after a word: a stop before a number, or before a capital that is no numeral
_WORD_END = r"""(?=\.["”“»)]*\s+["”“„«(¿¡]*(?![IVXLC]{2,}\b|[VX]\b)[A-ZÀ-ÞЀ-Я\d])"""
# languages in which sentencex ends no sentence before a number, and such ends, which it then sees: after a mark that no
# abbreviation has, and after words, as most abbreviations of one word are in its list or in ours
_NO_NUMBERS = frozenset("bar ca cs da de dsb fi frr gsw hsb kk kl ksh lb nds oc rm sk".split())
_SMALL = r"\b[^\W\d_A-ZÀ-ÞА-Я]"
_BEFORE_AMOUNT = re.compile(
    r"([.!?…](?:(?<=[!?…])|(?=[\"”“»)])|(?<=[\"”“»)]\.)|(?<=[^\W\d_]{4}\.)(?<!str\.)|(?<=[A-Z]{3}\.)"
    rf"|(?<={_SMALL}{{2}}\.)|(?<={_SMALL}{{3}}\.))[\"”“»)]*\s+)(?=[$€£]?\d)."
)


def twin_and_starts(line: str, code: str = "") -> tuple[str, set[int]]:
    """The twin of a line in a language, and where items of a list begin, which sentencex does not see."""
    markers, items = _markers(line)
    hidden = {index: "X" for start, end in markers + items for index in range(start, end)}
    twin = _replaced(line, hidden)
    twin = _EMOTICON.sub(lambda match: "x" * len(match[0]), twin)
    twin = _CITED.sub(",", twin)
    twin = _BEFORE_DIGIT.sub(r"\1X", twin)
    if _RARE.search(twin):
        twin = _OTHER_STOP.sub(lambda match: "፡።"[-len(match[0]) :], twin)
        twin = _PIPE.sub("।", twin)
        twin = _DOUBLED.sub(r"“X\1” ", twin)
        twin = _REVERSED.sub(r"“\1”", twin)
        twin = _TITLE.sub(lambda match: re.sub("[。！？!?…]", "，", match[0]), twin)
    misread = _misread_words(code)
    if misread is not None:
        twin = misread.sub(lambda match: "é" * len(match[0]), twin)
    if code in _NO_NUMBERS:
        twin = _BEFORE_AMOUNT.sub(r"\1X", twin)
    return without_unpaired(twin), {start for start, _ in items}


def without_unpaired(line: str) -> str:
    """The line with other characters for brackets and quotation marks that have no partner."""
    marks = {}
    for index in _unpaired(line):
        # an opening mark begins a sentence, and a closing one ends it; after a slash, abbreviations are read as such
        opens = not line[index - 1 : index].strip() and line[index + 1 : index + 2].strip()
        marks[index] = "/" if opens else " "
    return _replaced(line, marks)


@cache
def _misread_words(code: str) -> re.Pattern | None:
    """The words of a language that sentencex takes for abbreviations, where a sentence may end after them."""
    words = word_lists().no_abbreviations.get(code)
    if words is None:
        return None
    return re.compile(rf"(?<![\w.])(?:{'|'.join(words)}){_WORD_END}")


def _replaced(line: str, characters: Mapping[int, str]) -> str:
    """The line with these characters at these positions."""
    if not characters:
        return line
    return "".join(characters.get(index, character) for index, character in enumerate(line))


def _markers(line: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The [start, end) of list markers, and of those of a list's items after the first, such as 2) and 3) after 1)."""
    markers, items = [], []
    in_list, following = False, ""
    for match in _MARKER.finditer(f"\n{line}"):
        # the pattern begins a character before the marker, as does its text
        start = match.start()
        marker, name, ending = match.groups()
        end = start + len(marker)
        before = line[max(start - NEAR, 0) : start]
        last = before.rstrip()[-1:]
        if ending not in (".", "、"):
            if line[end].isspace():
                markers.append((start, end))
        elif marker[0] != "(" and (not last or last in _BEFORE_NUMBER) and _AFTER_NUMBER.match(line, end):
            in_list = in_list or not last or last in _BEFORE_LIST
            if in_list:
                markers.append((start, end))
        if name and marker[0] != "(" and name in (following, "1", "a") and _AFTER_ITEM.match(line, end):
            if name == following and not _WITHIN.search(before):
                items.append((start, end))
            following = str(int(name) + 1) if name.isdigit() else chr(ord(name) + 1)
    if items and not _LIST.search(f"\n{line}"):
        items = []
    return markers, items


def _unpaired(line: str) -> list[int]:
    """The positions of brackets and quotation marks that have no partner."""
    unpaired: list[int] = []
    # the mark and position of those still open, and how many of them each closing mark closes
    opened: list[tuple[str, int]] = []
    closable: dict[str, int] = {}
    stops = None
    for match in _MARKS.finditer(line):
        mark, index = match[0], match.start()
        before, after = line[index - 1 : index], line[index + 1 : index + 2]
        if mark in "'’" and before.isalnum() and after.isalnum():
            continue
        is_straight = mark in "\"'"
        if closable.get(mark) and (before.strip() or not is_straight):
            while True:
                opening, start = opened.pop()
                for closing in _CLOSING[opening]:
                    closable[closing] -= 1
                if mark in _CLOSING[opening]:
                    break
                unpaired.append(start)
            if stops is None:
                stops = _InnerStops(line)
            number = stops.count(start, index)
            # a quotation of sentences ends with a mark
            if number > _MOST_INNER or (is_straight and number and before.isalnum()):
                unpaired += start, index
        elif (is_straight and not before.isalnum() and after.strip()) or mark in _PAIRS:
            opened.append((mark, index))
            for closing in _CLOSING[mark]:
                closable[closing] = closable.get(closing, 0) + 1
        elif mark != "’":
            unpaired.append(index)
    unpaired.extend(index for _, index in opened)
    return unpaired


class _InnerStops:
    """The ends of sentences within a line, found once for all of its pairs."""

    def __init__(self, line: str):
        matches = list(_INNER_STOP.finditer(line))
        self._starts = [match.start() for match in matches]
        self._ends = [match.end() for match in matches]

    def count(self, start: int, end: int) -> int:
        """The number of ends between two positions."""
        return max(bisect_right(self._ends, end) - bisect_left(self._starts, start), 0)
