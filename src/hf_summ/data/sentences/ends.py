"""Where sentences end: which of sentencex's ends are none, and which ones it does not see."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hf_summ.data.sentences.stops import INNER_STOP, NEAR, STOP
from hf_summ.data.sentences.words import word_lists
from hf_summ.models.text_documents import IDEOGRAPHS

_INNER_STOP = re.compile(INNER_STOP)
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_BULLET = re.compile(r"[•‣◦▪●⁃](?<=\S\s.)\s?(?=[^\W\d_]|\d{1,2}\.\s)")
# a number with a stop after these is an ordinal
_ORDINAL = {
    "de": re.compile(
        r"(?i)\b(?:d(?:er|ie|as|em|en|es)|im|am|zu[mr]|vom|beim|(?:k?ein|mein|dein|sein|ihr|unser|dies|jed)e?[rsmn]?|und)"
        r"\s\d{1,3}\.$"
    ),
    # the day of a date
    "ko": re.compile(r"\d\.\s?\d{1,2}\.\s?\d{1,2}\.$"),
}
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
# letters of an abbreviation before a small one, in languages whose abbreviations sentencex has in part
_MOST_SHORT = 5
# abbreviations of several letters before a small one: of a capital, or without a vowel
_CAPITAL_OR_NO_VOWEL = r"[^\W\d_a-zа-я][^\W\d_]{1,3}|[^\W\d_aeiouyàâäéèêëíîïóôöúùûüаеиоуыэюяєії]{2,4}"
# within a word with a stop: an address, a path, a name of code
_ADDRESS = re.compile(r"(?:://|www\.|[@\\])[!-~]*$")
_NAME_OF_CODE = re.compile(r"(?:Com|COM|NET|Org|ORG|Html?|J[sS])\b|[A-Z]\w*\.[a-z]|[A-Z]{1,3}\.")
# a quotation that ends with a stop, before what follows in the same sentence
_QUOTED = re.compile(rf"(?:{STOP}|…)[」』”’»\"']$")
_AFTER_QUOTED = {
    "am": re.compile(r"(?:ብ[ለላሎሏ]|አ[ለሉ]|ሲ[ልሉ]|ስትል|በማለት)"),
    "ja": re.compile("[ぁ-ん、]"),
    "ko": re.compile(r"(?:이?라[고는며]|하[고며]|[고며]\s)"),
    "zh": re.compile('[^。！？，、“「"]{1,8}(?:[说說道问問喊答称稱]|告[诉訴]記?记?者?|表示)[，。：]'),
}
# ends before a capital: an ellipsis, and a sentence in brackets
_ELLIPSIS = re.compile(r"…[\"”»)]*\s+|\([^()]*[.!?][\"”]?\)\s+")
# words of a sentence before a number with a unit that may end it
_LEAST_WORDS = 4


@dataclass(frozen=True)
class _Lists:
    """Words as sets and patterns.

    Attributes:
        abbreviations, titles, before_numbers, years: as in `WordLists`.
        shortened: an abbreviation before a small letter.
        after_time: what follows a time of day.
        ordered: what a German ordinal precedes.
        unseen: an end after "and so on" or the number of a footnote, before a capital.
        unit: a number with a unit, before a capital.
    """

    abbreviations: dict[str, frozenset[str]]
    titles: frozenset[str]
    before_numbers: frozenset[str]
    years: frozenset[str]
    shortened: re.Pattern
    after_time: re.Pattern
    ordered: re.Pattern
    unseen: re.Pattern
    unit: re.Pattern


@cache
def _lists() -> _Lists:
    """The lists of words, of which patterns are made at the first text."""
    words = word_lists()
    small = "|".join(words.before_small_letters)
    zones, days, months = "|".join(words.zones), "|".join(words.days), "|".join(words.months)
    # Jan is also a name
    ordered = "|".join([r"Jan(?=\.)", *words.after_german_ordinals])
    and_so_on = "|".join(rf"(?<=\b{re.escape(end)})" for end in words.and_so_on)
    footnote = r"(?<=[a-z]{4}\.)\d{1,3}(?:[,–-]\d{1,3})*"
    multiples, units = "|".join(words.multiples), "|".join(words.units)
    return _Lists(
        abbreviations=words.abbreviations,
        titles=words.titles,
        before_numbers=words.before_numbers,
        years=words.years,
        shortened=re.compile(rf"(?<![\w.'’@])(?:{_CAPITAL_OR_NO_VOWEL}|{small})\.$"),
        after_time=re.compile(rf"(?:[A-Z]{{1,2}}[SD]?T|{zones}|{days})\b|(?:{months})[a-z]*\.?\s\d"),
        ordered=re.compile(rf"(?:{ordered})\b"),
        unseen=re.compile(rf"\.(?:{and_so_on}|{footnote})[\"”»)]*\s+"),
        unit=re.compile(rf"[0-9]\s(?:(?:{multiples})\.?\s)?(?:{units})\.\s+"),
    )


def unseen_starts(line: str) -> Iterator[int]:
    """Where sentences begin after ends that sentencex does not see."""
    for match in _BULLET.finditer(line):
        yield match.start()
    lists = _lists()
    ends = [match.end() for match in lists.unseen.finditer(line)]
    for match in _ELLIPSIS.finditer(line):
        before = _last_character(line, match.start())
        is_ellipsis = match[0].startswith("…")
        # a sentence in brackets follows another one, or begins the line
        if (is_ellipsis and before.isalnum()) or (not is_ellipsis and before in ".!?"):
            ends.append(match.end())
    for match in lists.unit.finditer(line):
        if _words_before(line, match.start() + 1) >= _LEAST_WORDS:
            ends.append(match.end())
    for end in ends:
        if line[end : end + 2].lstrip('"“«(¿¡')[:1].isupper():
            yield end


def _last_character(line: str, end: int) -> str:
    """The last character before a position that is no space; empty at the beginning of the line."""
    while end and line[end - 1].isspace():
        end -= 1
    return line[max(end - 1, 0) : end]


def _words_before(text: str, position: int) -> int:
    """The number of words between the beginning of a sentence and a position in it."""
    sentences: Sequence[str] = _INNER_STOP.split(text[max(position - NEAR, 0) : position])
    return len(sentences[-1].split())


def is_end(before: str, after: str, code: str) -> bool:
    """Whether a sentence of a language ends between two texts, where sentencex found an end.

    Args:
        before, after: the text on either side; a space between them belongs to the first.
        code: as of `language_code`.
    """
    is_within_word = bool(before) and not before[-1].isspace()
    if is_within_word and (_ADDRESS.search(before) or _NAME_OF_CODE.match(after)):
        return False
    before, after = before.rstrip(), after.lstrip()
    if code in _AFTER_QUOTED and _QUOTED.search(before) and _AFTER_QUOTED[code].match(after):
        return False
    if not after or not before.endswith("."):
        dash = _DASH.match(after)
        return dash is None or not after[dash.end()].islower()
    # what follows a hyphen or a comma belongs to the word before
    if _GOES_ON.match(after):
        return False
    lists = _lists()
    if before.endswith((" a.m.", " p.m.")) and lists.after_time.match(after):
        return False
    word = before.rsplit(None, 1)[-1]
    match = _LAST_WORD.search(word)
    name = match[1] if match else ""
    # a year at the beginning of a sentence
    is_year = name in lists.years and before[:-2].rstrip()[-1:].isdigit()
    if is_year and _words_before(before, len(before) - 3) < _LEAST_WORDS:
        return False
    is_english = code == "en"
    is_letter = len(name) == 1 and name.isalpha() and not _IDEOGRAPH.match(name)
    if after[0].islower():
        if is_letter or _DOTTED.search(word) or lists.shortened.search(word):
            return False
        # a text without capitals may begin a sentence with a small letter
        is_short = len(name) <= _MOST_SHORT and not (before + after).islower()
        if not is_english and (name.isdigit() or is_short):
            return False
    if after[0].isdigit() and not is_english and (name.isdigit() or _DOTTED.search(word)):
        return False
    abbreviations = lists.abbreviations.get(code, ())
    if name.lower() in abbreviations or _OPENED.sub("", word)[:-1].lower() in abbreviations:
        return False
    if name == "Ms" or (not is_english and name in lists.titles):
        return False
    if name in lists.before_numbers and after.lstrip("(")[:1].isdigit():
        return False
    if name[:1].isupper() and _VERSE.match(after):
        return False
    if _FILED.match(f"{word} {after}"):
        return False
    if code in _DANDA:
        # where sentences end with a stop, short words do too
        is_title = 0 < len(name) <= _MOST_TITLE and "।" in before + after
        return not is_title
    if code in _ORDINAL and _ORDINAL[code].search(before):
        return False
    if code == "de" and name.isdigit() and len(name) < 3 and lists.ordered.match(after):
        return False
    # an initial; English ones sentencex has
    is_initial = is_letter and not name.islower() and after[0].isalpha()
    return is_english or not is_initial
