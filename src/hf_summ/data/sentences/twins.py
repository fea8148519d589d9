"""The twin of a line: a copy with other characters in some places, which sentencex splits more correctly.

A twin has as many characters as its line, so that positions are equal. Characters that sentencex misreads are replaced:
the markers of lists, after which sentencex takes the rest of the line as one sentence; emoticons; the signs < and >;
brackets and quotation marks without a partner; and stops before citations.

A stop is a mark that may end a sentence, such as a full stop (the period). The marker of an item in a list is its
number, letter or bullet with the marks beside it, such as "2)", "b." or "•".
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cache

from hf_summ.data.sentences.stops import INNER_STOP, NEAR, OTHER_STOPS, UNSPACED_STOPS
from hf_summ.data.sentences.words import word_lists
from hf_summ.models.text_documents import IDEOGRAPHS

# Many patterns begin with a rare character and look behind it, as looking behind at each character would take longer.

# The character before a marker. The groups are the marker, its number or letter, and the marks after the number: for
# " 2) " they are "2)", "2" and ")". A line is read after "\n", so that a marker at its beginning matches too.
_MARKER = re.compile(
    r"[\s。！？；：⁃](?=(\(?(\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})(\.?\)|[.、])|[•‣◦▪●*])(?:\s|[" + IDEOGRAPHS + "]))"
)
# A number or letter with a stop, such as "2.", is a marker only after one of these characters or at the beginning of
# the line.
_BEFORE_NUMBER = frozenset(".!?:;•‣◦▪●⁃。！？；：")
# The first such marker of a list is at the beginning of the line, or after one of these characters.
_BEFORE_LIST = frozenset(":•‣◦▪●⁃")
# What follows such a marker: a letter after a space, or an ideograph.
_AFTER_NUMBER = re.compile(rf"\s+[^\W\d_]|[{IDEOGRAPHS}]")
# The first marker of a list, "1)" or "a)", at the beginning of a line or after a colon. The items of such a list may
# have no stops between them.
_LIST = re.compile(r"[\n:]\s*[1a](?:\.\)?|\))\s")
# What follows the marker of an item that is a sentence: a space and a capital, perhaps after a quotation mark.
_AFTER_ITEM = re.compile(r"\s+[\"“]?[^\W\da-z_]")
# What precedes the marker of an item within a sentence: a comma, a semicolon or a conjunction.
_WITHIN = re.compile(r"(?:[,;]|\b(?:and|or|und|oder|et|ou|y|o|e|en))\s+$")
# An emoticon, such as ":-)". One that begins with a colon or semicolon may touch the word before it.
_EMOTICON = re.compile(r"(?:[:;](?<![\d_].)|[=8](?<!\w.))[-'^]?[()\[\]](?!\w)")
# sentencex takes < for a bracket, which any closing bracket may close, also a >. In texts, these signs compare numbers
# or surround tags and addresses. sentencex reads the sign = as a part of a word.
_COMPARISONS = str.maketrans("<>", "==")
# A stop before a citation in brackets, after which the sentence continues: "et al. [5]" or "here. [5], and".
_CITED = re.compile(r"\.(?:(?<=\bet al\.)(?=\s[\[(])|(?=\s\[[^\]\[]{1,40}\](?:\s+[a-z]|[.,;:)])))")
# Stops that sentencex does not know. Tibetan may have two of them. In Khmer, ។ល។ means "and so on", and the sentence
# continues after it.
_OTHER_STOP = re.compile(r"፡፡|[។៕](?!ល។)(?<!។ល។)|[།༎](?!\s*[།༎])")
# The danda is the stop of Indian scripts, a vertical stroke. This one is typed as the stroke "|" of English keyboards,
# and follows a letter. Between the parts of a headline, the stroke "|" follows a space.
_PIPE = re.compile(r"\|(?<=[\u0900-\u0d7f]\|)(?!\S)")
# A stop (group 1, with closing marks) and a digit or a small letter after it, without a space. sentencex would read the
# stop as a part of a word. Between two digits, the mark stands for a decimal point.
_BEFORE_DIGIT = re.compile(rf"([।॥۔።{UNSPACED_STOPS}](?<!\d.)[」』”’»）)]*)[\da-z]")
# A quotation in two single marks on each side, ‘‘so’’, and a quotation in reversed marks, ’so‘, as in Urdu newspapers.
# Group 1 is the text between the marks.
_DOUBLED = re.compile(r"[‘’]{2}(?<!\S..)(?=\S)((?:[^‘’]|[‘’](?![‘’]))*+)[‘’]{2}")
_REVERSED = re.compile(r"’(?<!\S.)(?=\S)([^‘’]*+)‘(?!\w)")
# The title of a work in Chinese, 《…》, which may have stops.
_TITLE = re.compile(r"《[^《》]{1,60}》")
# The characters with which `_OTHER_STOP`, `_PIPE`, `_DOUBLED`, `_REVERSED` and `_TITLE` begin.
_RARE = re.compile("[፡។៕།༎‘’《|]")
# Opening mark -> its closing marks. A straight mark is closed by the same mark.
_PAIRS = {
    "(": ")",
    "[": "]",
    "{": "}",
    "（": "）",
    "「": "」",
    "『": "』",
    "《": "》",
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "‘": "’",
}
_CLOSING = {**_PAIRS, '"': '"', "'": "'"}
# Any of these marks.
_MARKS = re.compile(rf"[{re.escape(''.join({*_CLOSING, *_CLOSING.values()}))}]")
# If more sentences than this end between two marks, the marks are not a pair.
_MOST_INNER = 2
# The end of a sentence within a line: a stop of ASCII before a space, or a stop outside ASCII, which needs no space. A
# closing mark after such a stop ends the quotation, so no sentence ends within the quotation there.
_INNER_END = re.compile(rf"{INNER_STOP.pattern}|[{OTHER_STOPS}](?![{OTHER_STOPS}”\"’')\]}}」』）》»›])")
# What follows a word that sentencex wrongly takes for an abbreviation: a full stop, a space, and a number or a capital
# that is not a Roman numeral.
_WORD_END = r"""(?=\.["”“»)]*\s+["”“„«(¿¡]*(?![IVXLC]{2,}\b|[VX]\b)[A-ZÀ-ÞЀ-Я\d])"""
# Languages in which sentencex ends no sentence before a number.
_NO_NUMBERS = frozenset("bar ca cs da de dsb fi frr gsw hsb kk kl ksh lb nds oc rm sk".split())
# A small letter at the beginning of a word.
_SMALL = r"\b[^\W\d_A-ZÀ-ÞА-Я]"
# The end of a sentence (group 1) and the first character of a number after it, such as "sold. $": a mark that no
# abbreviation has, or a stop after a word. Most abbreviations that look like words are in the list of sentencex or in
# `words.json`.
_BEFORE_AMOUNT = re.compile(
    r"([.!?…](?:(?<=[!?…])|(?=[\"”“»)])|(?<=[\"”“»)]\.)|(?<=[^\W\d_]{4}\.)(?<!str\.)|(?<=[A-Z]{3}\.)"
    rf"|(?<={_SMALL}{{2}}\.)|(?<={_SMALL}{{3}}\.))[\"”“»)]*\s+)(?=[$€£]?\d)."
)


def twin_and_starts(line: str, code: str = "") -> tuple[str, set[int]]:
    """The twin of a line, and the positions at which items of lists begin.

    As the markers of lists are replaced in the twin, sentencex does not find where the items begin. The first item of a
    list is left out, as the text that introduces a list belongs to its first item.

    Args:
        line: the line.
        code: the language of the line: a code that `language_code` returns. With an empty text, rules for single
            languages are left out.
    """
    markers, items = _markers(line)
    # Letters take the place of the markers.
    replacements = {}
    for start, end in markers + items:
        replacements.update(dict.fromkeys(range(start, end), "X"))
    twin = _replaced(line, replacements)
    # first, as the translation would make an emoticon of the end of "(see <http://a.com/>)"
    twin = _EMOTICON.sub(lambda match: "x" * len(match[0]), twin)
    twin = twin.translate(_COMPARISONS)
    # A comma ends no sentence.
    twin = _CITED.sub(",", twin)
    # After these stops, sentencex ends a sentence before a capital, but not before a digit or a small letter.
    twin = _BEFORE_DIGIT.sub(r"\1X", twin)
    # Most lines have none of these characters, and are not searched for each of the patterns.
    if _RARE.search(twin):
        # sentencex knows the Ethiopic stop. The twin keeps the length of a stop of two characters.
        twin = _OTHER_STOP.sub(lambda match: "፡።" if len(match[0]) == 2 else "።", twin)
        twin = _PIPE.sub("।", twin)
        twin = _DOUBLED.sub(r"“X\1” ", twin)
        twin = _REVERSED.sub(r"“\1”", twin)
        twin = _TITLE.sub(lambda match: re.sub("[。！？!?…]", "，", match[0]), twin)
    # sentencex takes no word of these letters for an abbreviation.
    misread = _misread_words(code)
    if misread is not None:
        twin = misread.sub(lambda match: "é" * len(match[0]), twin)
    if code in _NO_NUMBERS:
        twin = _BEFORE_AMOUNT.sub(r"\1X", twin)
    return without_unpaired(twin), {start for start, _ in items}


def without_unpaired(line: str) -> str:
    """Replace each bracket or quotation mark that has no partner by a slash or a space; the length stays."""
    replacements = {}
    for index in _unpaired(line):
        # An opening mark becomes a slash, as sentencex recognizes abbreviations after a slash. Others become a space.
        follows_space = not line[index - 1 : index].strip()
        precedes_word = line[index + 1 : index + 2].strip()
        replacements[index] = "/" if follows_space and precedes_word else " "
    return _replaced(line, replacements)


@cache
def _misread_words(code: str) -> re.Pattern | None:
    """A pattern of the words that sentencex wrongly takes for abbreviations, at places where a sentence may end.

    Args:
        code: the language: a code that `language_code` returns.

    Returns:
        The pattern, or None for a language without such words.
    """
    words = word_lists().no_abbreviations.get(code)
    if words is None:
        return None
    return re.compile(rf"(?<![\w.])(?:{'|'.join(words)}){_WORD_END}")


def _replaced(line: str, replacements: Mapping[int, str]) -> str:
    """The line with other characters at some positions.

    Args:
        replacements: position in the line -> the character that takes the place of the character there.
    """
    if not replacements:
        return line
    characters = list(line)
    for index, character in replacements.items():
        characters[index] = character
    return "".join(characters)


def _markers(line: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find the markers of lists in a line.

    Returns:
        Two lists of the [start, end) characters of markers. The first has the markers after which sentencex would take
        the rest of the line as one sentence. The second has the markers at which a new sentence begins, as they
        continue the numbers or letters of a list: 2) and 3) after 1). A marker may be in both lists.
    """
    markers, items = [], []
    in_list = False
    # The number or letter of the marker that the next item has, such as 2 after 1.
    following = ""
    for match in _MARKER.finditer(f"\n{line}"):
        # The match begins one character before the marker, and the searched text has one more character at its
        # beginning than the line. So the start of the match is the position of the marker in the line.
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
    """The positions of brackets and quotation marks that have no partner, in no particular order.

    Two marks with more than `_MOST_INNER` ends of sentences between them are not partners.
    """
    unpaired: list[int] = []
    # Each mark that is still open, with its position.
    opened: list[tuple[str, int]] = []
    # Closing mark -> the number of open marks that it may close.
    closable: dict[str, int] = {}
    # The ends of sentences are found when the first pair is found, as many lines have no pair.
    stops = None
    for match in _MARKS.finditer(line):
        mark, index = match[0], match.start()
        before, after = line[index - 1 : index], line[index + 1 : index + 2]
        if mark in "'’" and before.isalnum() and after.isalnum():
            # The mark is an apostrophe, as in "it's".
            continue
        is_straight = mark in "\"'"
        if closable.get(mark) and (before.strip() or not is_straight):
            # The mark closes the last open mark of its kind. Marks that were opened after that one have no partner.
            while True:
                opening, start = opened.pop()
                for closing in _CLOSING[opening]:
                    closable[closing] -= 1
                if mark in _CLOSING[opening]:
                    break
                unpaired.append(start)
            if stops is None:
                stops = _InnerStops(line)
            inner_ends = stops.count(start, index)
            # A quotation of whole sentences has a stop before its closing mark. Straight marks with an end of a
            # sentence between them, but no stop before the second mark, are therefore no pair.
            lacks_stop = is_straight and inner_ends > 0 and before.isalnum()
            if inner_ends > _MOST_INNER or lacks_stop:
                unpaired.extend([start, index])
        elif (is_straight and not before.isalnum() and after.strip()) or mark in _PAIRS:
            opened.append((mark, index))
            for closing in _CLOSING[mark]:
                closable[closing] = closable.get(closing, 0) + 1
        elif mark != "’":
            # The mark closes nothing. The mark ’ is left out, as it may be an apostrophe at the end of a word.
            unpaired.append(index)
    unpaired.extend([index for _, index in opened])
    return unpaired


class _InnerStops:
    """The stops within a line at which sentences end; they are found once, for all pairs of marks in the line."""

    def __init__(self, line: str):
        matches = list(_INNER_END.finditer(line))
        self._starts = [match.start() for match in matches]
        self._ends = [match.end() for match in matches]

    def count(self, start: int, end: int) -> int:
        """The number of such stops between the positions `start` and `end` of the line."""
        return max(bisect_right(self._ends, end) - bisect_left(self._starts, start), 0)
