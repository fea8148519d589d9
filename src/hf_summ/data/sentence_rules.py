"""What the sentence splitter misreads: list markers, stray marks, abbreviations and citations.

Texts are handed to it with such characters hidden by others, one for one, and ends of sentences after which the
sentence continues are dropped.
"""

import re
from collections.abc import Iterator, Mapping

from hf_summ.data.abbreviations import ABBREVIATIONS, AND_SO_ON, ENGLISH_ABBREVIATIONS, NO_ABBREVIATIONS, NUMBERED
from hf_summ.models.text_documents import IDEOGRAPHS

# characters beside an end that decide whether it is one
NEAR = 100
# marks that end sentences: Amharic is often typed with two separators of words for its own; the latter ones are of
# scripts without spaces
UNSPACED_STOPS = "。！？។៕။།༎"
STOP = f"(?:[.!?।॥؟۔։።፧{UNSPACED_STOPS}]|፡፡)"
# marks of direction and others that are not shown, which at the edges of words hide abbreviations
INVISIBLE = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
AT_EDGES = re.compile(rf"[{INVISIBLE}](?:(?<![^\s{INVISIBLE}].)|(?![^\s{INVISIBLE}]))")
# the mark of Hebrew acronyms, which is no quotation mark
ACRONYM = re.compile('"(?<=[א-ת].)(?=[א-ת])')
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
_BULLET = re.compile(r"[•‣◦▪●⁃](?<=\S\s.)\s?(?=[^\W\d_]|\d{1,2}\.\s)")
_EMOTICON = re.compile(r"[:;=8](?<!\w.)[-'^]?[()\[\]](?!\w)")
# a stop before a bracketed citation, after which the sentence continues
_CITED = re.compile(r"\.(?:(?<=\bet al\.)(?=\s[\[(])|(?=\s\[[^\]\[]{1,40}\](?:\s+[a-z]|[.,;:)])))")
# stops that the library lacks, of which Tibetan may have two; "and so on" in Khmer, after which the sentence continues
_OTHER_STOP = re.compile(r"፡፡|[។៕](?!ល។)(?<!។ល។)|[།༎](?!\s*[།༎])")
# a danda as keyboards of English have it; the mark between the parts of a headline has a space before it
_PIPE = re.compile(r"\|(?<=[\u0900-\u0d7f]\|)(?!\S)")
# a stop without space before a number or a small letter, which the library reads as parts of a word; between digits,
# it is a decimal point that was typed so
_BEFORE_DIGIT = re.compile(rf"([।॥۔።{UNSPACED_STOPS}](?<!\d.)[」』”’»）)]*)[\da-z]")
# quotations in two single marks, and in marks the other way round, as Urdu newspapers have them
_DOUBLED = re.compile(r"[‘’]{2}(?<!\S..)(?=\S)((?:[^‘’]|[‘’](?![‘’]))*+)[‘’]{2}")
_REVERSED = re.compile(r"’(?<!\S.)(?=\S)([^‘’]*+)‘(?!\w)")
# the title of a work, which may have stops
_TITLE = re.compile(r"《[^《》]{1,60}》")
# what the patterns from `_OTHER_STOP` on begin with
_RARE = re.compile("[፡។៕།༎‘’《|]")
_PAIRS = {"(": ")", "[": "]", "（": "）", "「": "」", "『": "』", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’"}
_CLOSING = frozenset("".join(_PAIRS.values()))
_MARKS = re.compile(rf"[\"'{re.escape(''.join({*_PAIRS, *_CLOSING}))}]")
# a pair around more ends of sentences than this is no pair
_MOST_INNER = 2
_INNER_STOP = re.compile(r"""[.!?][”"’')\]]*\s""")

# before a number, or a capital that is no numeral
_WORD_END = r"""(?=\.["”“»)]*\s+["”“„«(¿¡]*(?![IVXLC]{2,}\b|[VX]\b)[A-ZÀ-ÞЀ-Я\d])"""
_WORDS = {
    code: re.compile(rf"(?<![\w.])(?:{words.replace(' ', '|')}){_WORD_END}") for code, words in NO_ABBREVIATIONS.items()
}
_WORDS |= {"nb": _WORDS["no"], "nn": _WORDS["no"], "bs": _WORDS["hr"], "ms": _WORDS["id"], "sh": _WORDS["hr"]}
# a number with a stop after these is an ordinal
_ORDINAL = {
    "de": re.compile(
        r"(?i)\b(?:d(?:er|ie|as|em|en|es)|im|am|zu[mr]|vom|beim|(?:k?ein|mein|dein|sein|ihr|unser|dies|jed)e?[rsmn]?|und)"
        r"\s\d{1,3}\.$"
    ),
    # the day of a date
    "ko": re.compile(r"\d\.\s?\d{1,2}\.\s?\d{1,2}\.$"),
}
# as it is in German before these
_ORDERED = re.compile(
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|Jan(?=\.)|Feb|Apr|Jun|Jul|Aug|Sept?|Okt|Nov|Dez|Jahrhunderts?|Aufl(?:age)?|Spieltag|Bundesliga|Liga|FC)\b"
)
_GOES_ON = re.compile(r"[-,;][^\W_]|,|&\s")
# after a quotation or a question, before who says it
_DASH = re.compile(r"[—–]\s*(?=[^\W\d_])")
# in the name of a patent, a law or a case, before its number
_FILED = re.compile(r"\b(?:Pat|Ser|Appl|Publ?|L)\.\s+(?:Nos?|Pat|Ser|Appl|Publ?|L)\.\s|\b(?:[A-Z]\.)+\s+Nos?\.\s?\d")
# a chapter and verse after a book
_VERSE = re.compile(r"\d+:\d")
# in these languages, sentences end with a danda
_DANDA = frozenset("as bn hi ne or pa sa".split())
_LAST_WORD = re.compile(r"(?:^|[\s.(\[«“\"'’-])([^\s.(\[«“\"'’-]+)\.$")
# an abbreviation of several letters, such as o.a.
_DOTTED = re.compile(r"(?<!\w)(?:[^\s\d.]{1,4}\.){2,}$")
# characters of a title in a script of a danda
_MOST_TITLE = 4
# marks before an abbreviation
_OPENED = re.compile(r"^[(\[«“\"']+")
# letters of an abbreviation before a small one, in languages whose abbreviations the library has in part
_MOST_SHORT = 5
# abbreviations of several letters before a small one: of a capital, or without a vowel
_SHORTENED = re.compile(
    r"(?<![\w.'’@])(?:[^\W\d_a-zа-я][^\W\d_]{1,3}|[^\W\d_aeiouyàâäéèêëíîïóôöúùûüаеиоуыэюяєії]{2,4}|tys|govt|temp|avg|yrs?|approx|Thurs|Tues)\.$"
)
# a zone, a weekday or a date after a time of day
_AFTER_TIME = re.compile(
    r"(?:[A-Z]{1,2}[SD]?T|GMT|UTC|Eastern|Pacific|Central|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b"
    r"|(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?\s\d"
)
# within a word with a stop: an address, a path, a name of code
_WORD_WITH_STOP = (
    re.compile(r"(?:://|www\.|[@\\])[!-~]*$"),
    re.compile(r"(?:Com|COM|NET|Org|ORG|Html?|J[sS])\b|[A-Z]\w*\.[a-z]|[A-Z]{1,3}\."),
)
# a quotation that ends with a stop, before what follows in the same sentence
_QUOTED = re.compile(rf"(?:{STOP}|…)[」』”’»\"']$")
_AFTER_QUOTED = {
    "am": re.compile(r"(?:ብ[ለላሎሏ]|አ[ለሉ]|ሲ[ልሉ]|ስትል|በማለት)"),
    "ja": re.compile("[ぁ-ん、]"),
    "ko": re.compile(r"(?:이?라[고는며]|하[고며]|[고며]\s)"),
    "zh": re.compile('[^。！？，、“「"]{1,8}(?:[说說道问問喊答称稱]|告[诉訴]記?记?者?|表示)[，。：]'),
}
# languages in which the library ends no sentence before a number, and such ends, which the library then sees: after a
# mark that no abbreviation has, and after words, as most abbreviations of one word are in its list or in ours
_NO_NUMBERS = frozenset("bar ca cs da de dsb fi frr gsw hsb kk kl ksh lb nds oc rm sk".split())
_SMALL = r"\b[^\W\d_A-ZÀ-ÞА-Я]"
_BEFORE_AMOUNT = re.compile(
    r"([.!?…](?:(?<=[!?…])|(?=[\"”“»)])|(?<=[\"”“»)]\.)|(?<=[^\W\d_]{4}\.)(?<!str\.)|(?<=[A-Z]{3}\.)"
    rf"|(?<={_SMALL}{{2}}\.)|(?<={_SMALL}{{3}}\.))[\"”“»)]*\s+)(?=[$€£]?\d)."
)
# ends that the splitter does not see before a capital: of a list, a footnote, an ellipsis, a sentence in brackets
_ENDS = (*(rf"(?<=\b{re.escape(end)})" for end in AND_SO_ON), r"(?<=[a-z]{4}\.)\d{1,3}(?:[,–-]\d{1,3})*")
_UNSEEN = re.compile(rf"\.(?:{'|'.join(_ENDS)})[\"”»)]*\s+")
_ELLIPSIS = re.compile(r"…[\"”»)]*\s+|\([^()]*[.!?][\"”]?\)\s+")
# of a number with a unit, after so many words of the sentence
_UNIT = re.compile(
    r"[0-9]\s(?:(?:тыс|млн|млрд|mio|mill?|tys|ml[nd]|mrd)\.?\s)?"
    r"(?:км|кг|м|гг?|вв?|тис|млн|млрд|руб|грн|мин|ч|рр?|km|kg|cm|mm|m|g|ha|PS|hod|min|d|kr|zł)\.\s+"
)
_LEAST_WORDS = 4
_YEARS = ("r", "г", "р")


def twin_and_starts(line: str, code: str = "") -> tuple[str, set[int]]:
    """The line of a language in the form that the splitter reads well, and where sentences begin that it does not see.

    The form has other characters, one for one, in place of those that it misreads: list markers, after which it takes
    all that follows as one sentence, emoticons, brackets and quotation marks without a partner, and stops before
    citations.
    """
    markers, items = _markers(line)
    twin = _replaced(line, {index: "X" for span in (*markers, *items) for index in range(*span)})
    twin = _BEFORE_DIGIT.sub(r"\1X", _CITED.sub(",", _EMOTICON.sub(lambda match: "x" * len(match[0]), twin)))
    if _RARE.search(twin):
        twin = _PIPE.sub("।", _OTHER_STOP.sub(lambda match: "፡።"[-len(match[0]) :], twin))
        twin = _REVERSED.sub(r"“\1”", _DOUBLED.sub(r"“X\1” ", twin))
        twin = _TITLE.sub(lambda match: re.sub("[。！？!?…]", "，", match[0]), twin)
    if code in _WORDS:
        twin = _WORDS[code].sub(lambda match: "é" * len(match[0]), twin)
    if code in _NO_NUMBERS:
        twin = _BEFORE_AMOUNT.sub(r"\1X", twin)
    # an opening mark begins a sentence, and a closing one ends it; after a slash, abbreviations are read as such
    marks = {i: "/" if not twin[i - 1 : i].strip() and twin[i + 1 : i + 2].strip() else " " for i in _unpaired(twin)}
    twin = _replaced(twin, marks)
    return twin, {*_unseen_starts(line), *(start for start, _ in items)}


def _replaced(line: str, others: Mapping[int, str]) -> str:
    """The line with other characters at these positions."""
    return "".join(others.get(index, character) for index, character in enumerate(line)) if others else line


def _markers(line: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The [start, end) of list markers, and of those of a list's items after the first, such as 2) and 3) after 1)."""
    markers, items = [], []
    in_list, following = False, ""
    for match in _MARKER.finditer(f"\n{line}"):
        start, (marker, name, ending) = match.start(), match.groups()
        end = start + len(marker)
        before = line[max(start - NEAR, 0) : start]
        last = before.rstrip()[-1:]
        if ending not in (".", "、"):
            markers += [(start, end)] if line[end].isspace() else []
        elif marker[0] != "(" and (not last or last in _BEFORE_NUMBER) and _AFTER_NUMBER.match(line, end):
            in_list = in_list or not last or last in _BEFORE_LIST
            markers += [(start, end)] if in_list else []
        if name and marker[0] != "(" and name in (following, "1", "a") and _AFTER_ITEM.match(line, end):
            if name == following and not _WITHIN.search(before):
                items.append((start, end))
            following = str(int(name) + 1) if name.isdigit() else chr(ord(name) + 1)
    return markers, items if items and _LIST.search(f"\n{line}") else []


def _unpaired(line: str) -> list[int]:
    """The positions of brackets and quotation marks that have no partner."""
    unpaired: list[int] = []
    # the mark and position of those still open
    opened: list[tuple[str, int]] = []
    for match in _MARKS.finditer(line):
        mark, index = match[0], match.start()
        before, after = line[index - 1 : index], line[index + 1 : index + 2]
        if mark in "'’" and before.isalnum() and after.isalnum():
            continue
        is_straight = mark in "\"'"
        partners = [
            depth
            for depth, (other, _) in enumerate(opened)
            if (other == mark and bool(before.strip()) if is_straight else mark in _PAIRS.get(other, ""))
        ]
        if partners:
            unpaired += [start for _, start in opened[partners[-1] + 1 :]]
            start = opened[partners[-1]][1]
            del opened[partners[-1] :]
            stops = len(_INNER_STOP.findall(line, start, index))
            # a quotation of sentences ends with a mark
            if stops > _MOST_INNER or (is_straight and stops and before.isalnum()):
                unpaired += start, index
        elif (is_straight and not before.isalnum() and after.strip()) or mark in _PAIRS:
            opened.append((mark, index))
        elif mark != "’":
            unpaired.append(index)
    return unpaired + [start for _, start in opened]


def _unseen_starts(line: str) -> Iterator[int]:
    """Where sentences begin after ends that the splitter does not see."""
    yield from (match.start() for match in _BULLET.finditer(line))
    ends = [match.end() for match in _UNSEEN.finditer(line)]
    for match in _ELLIPSIS.finditer(line):
        before = line[: match.start()].rstrip()[-1:]
        # a sentence in brackets follows another one, or begins the line
        if before.isalnum() if match[0][0] == "…" else before in ".!?":
            ends.append(match.end())
    for match in _UNIT.finditer(line):
        if _words_before(line, match.start() + 1) >= _LEAST_WORDS:
            ends.append(match.end())
    yield from (end for end in ends if line[end : end + 2].lstrip('"“«(¿¡')[:1].isupper())


def _words_before(text: str, position: int) -> int:
    """The number of words between the beginning of a sentence and a position in it."""
    return len(_INNER_STOP.split(text[max(position - NEAR, 0) : position])[-1].split())


def is_end(before: str, after: str, code: str) -> bool:
    """Whether a sentence of a language ends between two texts, where the splitter found an end.

    Args:
        before, after: the text on either side; a space between them belongs to the first.
        code: two letters, see `language_code`.
    """
    is_inner = before and not before[-1].isspace()
    if is_inner and (_WORD_WITH_STOP[0].search(before) or _WORD_WITH_STOP[1].match(after)):
        return False
    before, after = before.rstrip(), after.lstrip()
    if code in _AFTER_QUOTED and _QUOTED.search(before) and _AFTER_QUOTED[code].match(after):
        return False
    if not after or not before.endswith("."):
        return not ((dash := _DASH.match(after)) and after[dash.end()].islower())
    # what follows a hyphen or a comma belongs to the word before
    if _GOES_ON.match(after):
        return False
    word = before.rsplit(None, 1)[-1]
    match = _LAST_WORD.search(word)
    name = match[1] if match else ""
    if before.endswith((" a.m.", " p.m.")) and _AFTER_TIME.match(after):
        return False
    # a year at the beginning of a sentence
    if name in _YEARS and before[:-2].rstrip()[-1:].isdigit() and _words_before(before, len(before) - 3) < _LEAST_WORDS:
        return False
    is_letter = len(name) == 1 and name.isalpha() and not re.match(f"[{IDEOGRAPHS}]", name)
    is_other = code != "en" and (name.isdigit() or (len(name) <= _MOST_SHORT and not (before + after).islower()))
    if after[0].islower() and (is_letter or is_other or _DOTTED.search(word) or _SHORTENED.search(word)):
        return False
    if after[0].isdigit() and code != "en" and _DOTTED.search(word):
        return False
    titles = ABBREVIATIONS.get(code, ())
    if name.lower() in titles or _OPENED.sub("", word)[:-1].lower() in titles:
        return False
    if name == "Ms" or (code != "en" and name in ENGLISH_ABBREVIATIONS):
        return False
    if name in NUMBERED and after.lstrip("(")[:1].isdigit():
        return False
    if (name[:1].isupper() and _VERSE.match(after)) or (code != "en" and name.isdigit() and after[0].isdigit()):
        return False
    if _FILED.match(f"{word} {after}"):
        return False
    if code in _DANDA:
        # where sentences end with a stop, short words do too
        return not (0 < len(name) <= _MOST_TITLE and "।" in before + after)
    if code in _ORDINAL and _ORDINAL[code].search(before):
        return False
    if code == "de" and name.isdigit() and len(name) < 3 and _ORDERED.match(after):
        return False
    # an initial; English ones the library has
    return code == "en" or not (is_letter and not name.islower() and after[0].isalpha())
