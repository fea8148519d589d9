"""The twin of a line: the form that sentencex reads well.

A twin has as many characters as its line, so that positions are equal. Characters that sentencex misreads are replaced:
markers of lists, after which it takes all that follows as one sentence; emoticons; brackets and quotation marks without
a partner; and stops before citations.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cache

from hf_summ.data.sentences.stops import INNER_STOP, NEAR, UNSPACED_STOPS
from hf_summ.data.sentences.words import word_lists
from hf_summ.models.text_documents import IDEOGRAPHS

# Patterns begin with a rare character and look behind it, as looking behind at each character would take longer.
# The marker of a list's item, such as 2) or b. or a bullet, and the character before it. A line is read after "\n".
_MARKER = re.compile(
    r"[\s。！？；：⁃](?=(\(?(\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})(\.?\)|[.、])|[•‣◦▪●*])(?:\s|[" + IDEOGRAPHS + "]))"
)
# A number or letter with a stop is a marker only at the beginning of a sentence. The first one of a list is at the
# beginning of the line, or after a colon or a bullet.
_BEFORE_NUMBER = frozenset(".!?:;•‣◦▪●⁃。！？；：")
_BEFORE_LIST = frozenset(":•‣◦▪●⁃")
_AFTER_NUMBER = re.compile(rf"\s+[^\W\d_]|[{IDEOGRAPHS}]")
# The beginning of a list within a line, whose items may have no stops between them.
_LIST = re.compile(r"[\n:]\s*[1a](?:\.\)?|\))\s")
# What follows the marker of an item that is a sentence.
_AFTER_ITEM = re.compile(r"\s+[\"“]?[^\W\da-z_]")
# What precedes the marker of an item within a sentence: a comma, a semicolon or a conjunction.
_WITHIN = re.compile(r"(?:[,;]|\b(?:and|or|und|oder|et|ou|y|o|e|en))\s+$")
_EMOTICON = re.compile(r"[:;=8](?<!\w.)[-'^]?[()\[\]](?!\w)")
# A stop before a citation in brackets, after which the sentence continues.
_CITED = re.compile(r"\.(?:(?<=\bet al\.)(?=\s[\[(])|(?=\s\[[^\]\[]{1,40}\](?:\s+[a-z]|[.,;:)])))")
# Stops that sentencex does not know. Tibetan may have two of them. In Khmer, ។ល។ means "and so on", and the sentence
# continues after it.
_OTHER_STOP = re.compile(r"፡፡|[។៕](?!ល។)(?<!។ល។)|[།༎](?!\s*[།༎])")
# A danda typed as the vertical stroke of English keyboards. Between the parts of a headline, that mark follows a space.
_PIPE = re.compile(r"\|(?<=[\u0900-\u0d7f]\|)(?!\S)")
# A stop without a space before a digit or a small letter, which sentencex reads as part of a word. Between two digits,
# the mark stands for a decimal point.
_BEFORE_DIGIT = re.compile(rf"([।॥۔።{UNSPACED_STOPS}](?<!\d.)[」』”’»）)]*)[\da-z]")
# Quotations in two single marks, and in reversed marks, as in Urdu newspapers.
_DOUBLED = re.compile(r"[‘’]{2}(?<!\S..)(?=\S)((?:[^‘’]|[‘’](?![‘’]))*+)[‘’]{2}")
_REVERSED = re.compile(r"’(?<!\S.)(?=\S)([^‘’]*+)‘(?!\w)")
# The title of a work, which may have stops.
_TITLE = re.compile(r"《[^《》]{1,60}》")
# The characters with which `_OTHER_STOP`, `_PIPE`, `_DOUBLED`, `_REVERSED` and `_TITLE` begin.
_RARE = re.compile("[፡។៕།༎‘’《|]")
# Opening mark -> its closing marks. A straight mark is closed by the same mark.
_PAIRS = {"(": ")", "[": "]", "（": "）", "「": "」", "『": "』", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’"}
_CLOSING = {**_PAIRS, '"': '"', "'": "'"}
_MARKS = re.compile(rf"[{re.escape(''.join({*_CLOSING, *_CLOSING.values()}))}]")
# If more sentences than this end between two marks, they are no pair.
_MOST_INNER = 2
_INNER_STOP = re.compile(INNER_STOP)
# A stop after a word, before a number or before a capital that is no Roman numeral.
_WORD_END = r"""(?=\.["”“»)]*\s+["”“„«(¿¡]*(?![IVXLC]{2,}\b|[VX]\b)[A-ZÀ-ÞЀ-Я\d])"""
# Languages in which sentencex ends no sentence before a number.
_NO_NUMBERS = frozenset("bar ca cs da de dsb fi frr gsw hsb kk kl ksh lb nds oc rm sk".split())
_SMALL = r"\b[^\W\d_A-ZÀ-ÞА-Я]"
# The end of a sentence before a number: a mark that no abbreviation has, or a stop after a word. Most abbreviations
# that look like words are in the list of sentencex or in ours.
_BEFORE_AMOUNT = re.compile(
    r"([.!?…](?:(?<=[!?…])|(?=[\"”“»)])|(?<=[\"”“»)]\.)|(?<=[^\W\d_]{4}\.)(?<!str\.)|(?<=[A-Z]{3}\.)"
    rf"|(?<={_SMALL}{{2}}\.)|(?<={_SMALL}{{3}}\.))[\"”“»)]*\s+)(?=[$€£]?\d)."
)


def twin_and_starts(line: str, code: str = "") -> tuple[str, set[int]]:
    """The twin of a line in a language, and the positions at which items of a list begin, after its first one.

    In the twin, sentencex does not find these beginnings.
    """
    markers, items = _markers(line)
    hidden = {}
    for start, end in markers + items:
        hidden.update(dict.fromkeys(range(start, end), "X"))
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
    """The line with a slash or a space in place of each bracket or quotation mark that has no partner."""
    replacements = {}
    for index in _unpaired(line):
        # A closing mark becomes a space. An opening one becomes a slash, after which sentencex knows abbreviations.
        follows_space = not line[index - 1 : index].strip()
        precedes_word = line[index + 1 : index + 2].strip()
        replacements[index] = "/" if follows_space and precedes_word else " "
    return _replaced(line, replacements)


@cache
def _misread_words(code: str) -> re.Pattern | None:
    """A pattern of words that sentencex takes for abbreviations, where a sentence may end; None without such words."""
    words = word_lists().no_abbreviations.get(code)
    if words is None:
        return None
    return re.compile(rf"(?<![\w.])(?:{'|'.join(words)}){_WORD_END}")


def _replaced(line: str, characters: Mapping[int, str]) -> str:
    """The line with other characters at some positions."""
    if not characters:
        return line
    replaced = list(line)
    for index, character in characters.items():
        replaced[index] = character
    return "".join(replaced)


def _markers(line: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The markers of lists in a line, which sentencex misreads, and those that begin an item after the first one.

    Returns:
        The [start, end) characters of both; a marker may be in both lists. The second list has 2) and 3) after 1).
    """
    markers, items = [], []
    in_list = False
    # The name of the next item's marker, such as 2 after 1.
    following = ""
    for match in _MARKER.finditer(f"\n{line}"):
        # The match begins a character before the marker. In the line itself, which has no "\n" before it, that is the
        # position of the marker.
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
    # The marks that are still open, with their positions.
    opened: list[tuple[str, int]] = []
    # Closing mark -> the number of open marks that it may close.
    closable: dict[str, int] = {}
    stops = None
    for match in _MARKS.finditer(line):
        mark, index = match[0], match.start()
        before, after = line[index - 1 : index], line[index + 1 : index + 2]
        if mark in "'’" and before.isalnum() and after.isalnum():
            # It is an apostrophe.
            continue
        is_straight = mark in "\"'"
        if closable.get(mark) and (before.strip() or not is_straight):
            # Marks that were opened later and are still open have no partner.
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
            # A quotation of whole sentences ends with a stop before its closing mark.
            is_cut = is_straight and number > 0 and before.isalnum()
            if number > _MOST_INNER or is_cut:
                unpaired.extend([start, index])
        elif (is_straight and not before.isalnum() and after.strip()) or mark in _PAIRS:
            opened.append((mark, index))
            for closing in _CLOSING[mark]:
                closable[closing] = closable.get(closing, 0) + 1
        elif mark != "’":
            unpaired.append(index)
    unpaired.extend([index for _, index in opened])
    return unpaired


class _InnerStops:
    """The ends of sentences within a line, which are found once for all of its pairs of marks."""

    def __init__(self, line: str):
        matches = list(_INNER_STOP.finditer(line))
        self._starts = [match.start() for match in matches]
        self._ends = [match.end() for match in matches]

    def count(self, start: int, end: int) -> int:
        """The number of ends between two positions."""
        return max(bisect_right(self._ends, end) - bisect_left(self._starts, start), 0)
