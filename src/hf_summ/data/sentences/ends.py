"""Rules for the ends of sentences: which ends that sentencex finds are wrong, and which ends it does not find.

A stop is a mark that may end a sentence, such as a full stop (the period). sentencex is the library that splits texts;
these rules correct it. Languages are codes that `language_code` returns, such as en. "Before" and "after" are relative
to the place between two texts at which a sentence may end. A capital is an upper-case letter, and a small letter a
lower-case one. Each pattern is explained by an example.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hf_summ.data.sentences.stops import INNER_STOP, NEAR, STOP
from hf_summ.data.sentences.words import word_lists
from hf_summ.models.text_documents import IDEOGRAPHS

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
# A bullet before an item of a list, which is not at the beginning of a line: "that • One".
_BULLET = re.compile(r"[•‣◦▪●⁃](?<=\S\s.)\s?(?=[^\W\d_]|\d{1,2}\.\s)")
# Language -> the end of a text whose last word is a number with a stop that ends no sentence.
_ORDINAL = {
    # After these words, the number is an ordinal: "am 3."
    "de": re.compile(
        r"(?i)\b(?:d(?:er|ie|as|em|en|es)|im|am|zu[mr]|vom|beim|(?:k?ein|mein|dein|sein|ihr|unser|dies|jed)e?[rsmn]?|und)"
        r"\s\d{1,3}\.$"
    ),
    # The last number is the day of a date: "2021. 5. 3."
    "ko": re.compile(r"\d\.\s?\d{1,2}\.\s?\d{1,2}\.$"),
}
# The beginning of a text that continues the word or the sentence before it: "-based" after "U.S.", or ", but".
_GOES_ON = re.compile(r"[-,;][^\W_]|,|&\s")
# A dash after a quotation or a question, before the speaker: "— said Ann".
_DASH = re.compile(r"[—–]\s*(?=[^\W\d_])")
# Abbreviations in the name of a patent, a law or a case, before its number: "Pat. No. 5", "Pub. L. ", "U.S. No. 3".
_FILED = re.compile(r"\b(?:Pat|Ser|Appl|Publ?|L)\.\s+(?:Nos?|Pat|Ser|Appl|Publ?|L)\.\s|\b(?:[A-Z]\.)+\s+Nos?\.\s?\d")
# A chapter and a verse, which follow the abbreviation of a book of the Bible: "3:16" after "Jn."
_VERSE = re.compile(r"\d+:\d")
# Languages whose sentences end with the danda, a vertical stroke.
_DANDA = frozenset("as bn hi ne or pa sa".split())
# The last word of a text that ends with a full stop, without opening marks, as group 1: "Dr" of "said (Dr."
_LAST_WORD = re.compile(r"(?:^|[\s.(\[«“\"'’-])([^\s.(\[«“\"'’-]+)\.$")
# An abbreviation with several stops at the end of a text: "o.a."
_DOTTED = re.compile(r"(?<!\w)(?:[^\s\d.]{1,4}\.){2,}$")
# The largest number of characters of a title, such as Dr., in languages with the danda.
_LONGEST_TITLE = 4
# Opening marks at the beginning of a word, which may be an abbreviation: the bracket of "(approx."
_OPENED = re.compile(r"^[(\[«“\"']+")
# Outside English, sentencex knows only some abbreviations. A word of at most so many letters is therefore taken for an
# abbreviation if a small letter follows its stop.
_LONGEST_ABBREVIATION = 5
# An abbreviation of two to four letters: it begins with a capital, as "Corp", or has no vowel, as "pts".
_CAPITAL_OR_NO_VOWEL = r"[^\W\d_a-zа-я][^\W\d_]{1,3}|[^\W\d_aeiouyàâäéèêëíîïóôöúùûüаеиоуыэюяєії]{2,4}"
# The beginning of an address or a path, at the end of a text: "http://a.", "www.a.", "me@a." or "C:\a."
_ADDRESS = re.compile(r"(?:://|www\.|[@\\])[!-~]*$")
# The rest of a name with a stop within it: "Com" of "Amazon.Com", "Foo.bar", or "J." of "U.S.J."
_NAME_WITH_STOP = re.compile(r"(?:Com|COM|NET|Org|ORG|Html?|J[sS])\b|[A-Z]\w*\.[a-z]|[A-Z]{1,3}\.")
# A stop and a closing quotation mark, at the end of a text: 。」
_QUOTED = re.compile(rf"(?:{STOP}|…)[」』”’»\"']$")
# Language -> the beginning of a text that continues the sentence of a quotation before it, such as "he said,". In
# Chinese, it is a speaker, a verb of saying and a mark: "他说，".
_AFTER_QUOTED = {
    "am": re.compile(r"(?:ብ[ለላሎሏ]|አ[ለሉ]|ሲ[ልሉ]|ስትል|በማለት)"),
    "ja": re.compile("[ぁ-ん、]"),
    "ko": re.compile(r"(?:이?라[고는며]|하[고며]|[고며]\s)"),
    "zh": re.compile('[^。！？，、“「"]{1,8}(?:[说說道问問喊答称稱]|告[诉訴]記?记?者?|表示)[，。：]'),
}
# Two ends of sentences that sentencex does not find: an ellipsis "… ", and a sentence in brackets "(It rained.) ". A
# capital must follow.
_ELLIPSIS_OR_BRACKETS = re.compile(r"…[\"”»)]*\s+|\([^()]*[.!?][\"”]?\)\s+")
# A number with a unit, or a year, ends a sentence only if the sentence has at least so many words before it.
_LEAST_WORDS = 4


@dataclass(frozen=True)
class _Lists:
    """The lists of words in `words.json` as sets, and regular expressions that contain them.

    Attributes:
        abbreviations, titles, before_numbers, years: as in `WordLists`.
        shortened: an abbreviation at the end of a text, if the next text begins with a small letter: "approx."
        after_time: the beginning of a text after a time of day with a.m. or p.m.: "EST", "Monday" or "Jan. 5".
        ordered: the beginning of a text after a German ordinal: "Mai".
        unseen: an end of a sentence that sentencex does not find, after "and so on" or with the number of a footnote:
            "etc. " or "rained.12 ". A capital must follow.
        unit: a number with a unit and a stop, which may end a sentence: "5 km. ". A capital must follow.
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
    """The lists of words, which are read and compiled at the first call only."""
    words = word_lists()
    small = "|".join(words.before_small_letters)
    zones = "|".join(words.zones)
    days = "|".join(words.days)
    months = "|".join(words.months)
    # Jan is also a name, so it counts as a month only with a stop.
    ordered = "|".join([r"Jan(?=\.)", *words.after_german_ordinals])
    and_so_on = "|".join([rf"(?<=\b{re.escape(end)})" for end in words.and_so_on])
    # The stop after a word of at least four letters, and the numbers of footnotes: the "12" of "rained.12".
    footnote = r"(?<=[a-z]{4}\.)\d{1,3}(?:[,–-]\d{1,3})*"
    multiples = "|".join(words.multiples)
    units = "|".join(words.units)
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
    """Yield the positions at which sentences begin that sentencex does not separate from the sentence before.

    Such a sentence follows a bullet, "and so on", the number of a footnote, an ellipsis, a sentence in brackets, or a
    number with a unit.

    Args:
        line: a line of a text.

    Yields:
        Positions of characters in the line, in no particular order.
    """
    for match in _BULLET.finditer(line):
        yield match.start()
    lists = _lists()
    ends = [match.end() for match in lists.unseen.finditer(line)]
    for match in _ELLIPSIS_OR_BRACKETS.finditer(line):
        before = _last_character(line, match.start())
        is_ellipsis = match[0].startswith("…")
        if is_ellipsis:
            ends_sentence = before.isalnum()
        else:
            # A sentence in brackets follows another one, or begins the line.
            ends_sentence = before in ".!?"
        if ends_sentence:
            ends.append(match.end())
    for match in lists.unit.finditer(line):
        if _words_before(line, match.start() + 1) >= _LEAST_WORDS:
            ends.append(match.end())
    for end in ends:
        # Only opening marks may stand before the capital.
        if line[end : end + 2].lstrip('"“«(¿¡')[:1].isupper():
            yield end


def _last_character(line: str, end: int) -> str:
    """The last character of `line` before position `end` that is not white space; an empty text if there is none."""
    while end and line[end - 1].isspace():
        end -= 1
    return line[max(end - 1, 0) : end]


def _words_before(text: str, position: int) -> int:
    """The number of words between the beginning of a sentence and a position in the sentence.

    Only the last `NEAR` characters before the position are read, so that long texts take no longer.
    """
    sentences: Sequence[str] = INNER_STOP.split(text[max(position - NEAR, 0) : position])
    return len(sentences[-1].split())


def is_end(before: str, after: str, code: str) -> bool:
    """Whether a sentence really ends between two texts, where sentencex found the end of a sentence.

    Args:
        before: the text before the place, with the space at the place; the last `NEAR` characters suffice.
        after: the text after the place; the first `NEAR` characters suffice.
        code: the language of the texts: a code that `language_code` returns.
    """
    is_within_word = bool(before) and not before[-1].isspace()
    if is_within_word and (_ADDRESS.search(before) or _NAME_WITH_STOP.match(after)):
        return False
    before, after = before.rstrip(), after.lstrip()
    if code in _AFTER_QUOTED and _QUOTED.search(before) and _AFTER_QUOTED[code].match(after):
        return False
    if not after or not before.endswith("."):
        # After other marks than a full stop, a sentence goes on only if a dash and a small letter follow.
        dash = _DASH.match(after)
        return dash is None or not after[dash.end()].islower()
    # From here on, `before` ends with a full stop, and `after` is not empty.
    if _GOES_ON.match(after):
        return False
    lists = _lists()
    if before.endswith((" a.m.", " p.m.")) and lists.after_time.match(after):
        return False
    # The last word before the place, with its marks, and the same word without its marks: "(Dr." and "Dr".
    word = before.rsplit(None, 1)[-1]
    match = _LAST_WORD.search(word)
    bare_word = match[1] if match else ""
    # The abbreviation of a year, such as г., ends no sentence if the year is among the first words of the sentence.
    is_year = bare_word in lists.years and before[:-2].rstrip()[-1:].isdigit()
    if is_year and _words_before(before, len(before) - 3) < _LEAST_WORDS:
        return False
    is_english = code == "en"
    is_letter = len(bare_word) == 1 and bare_word.isalpha() and not _IDEOGRAPH.match(bare_word)
    if after[0].islower():
        if is_letter or _DOTTED.search(word) or lists.shortened.search(word):
            return False
        # In a text without capitals, a sentence may begin with a small letter.
        is_short = len(bare_word) <= _LONGEST_ABBREVIATION and not (before + after).islower()
        if not is_english and (bare_word.isdigit() or is_short):
            return False
    if after[0].isdigit() and not is_english and (bare_word.isdigit() or _DOTTED.search(word)):
        return False
    abbreviations = lists.abbreviations.get(code, ())
    if bare_word.lower() in abbreviations or _OPENED.sub("", word)[:-1].lower() in abbreviations:
        return False
    if bare_word == "Ms" or (not is_english and bare_word in lists.titles):
        return False
    if bare_word in lists.before_numbers and after.lstrip("(")[:1].isdigit():
        return False
    if bare_word[:1].isupper() and _VERSE.match(after):
        return False
    if _FILED.match(f"{word} {after}"):
        return False
    if code in _DANDA:
        # In a text with the danda, a full stop after a short word belongs to a title. In a text without the danda, full
        # stops end sentences, also after short words.
        is_title = 0 < len(bare_word) <= _LONGEST_TITLE and "।" in before + after
        return not is_title
    if code in _ORDINAL and _ORDINAL[code].search(before):
        return False
    if code == "de" and bare_word.isdigit() and len(bare_word) < 3 and lists.ordered.match(after):
        return False
    # An initial of a name ends no sentence. In English, sentencex knows this, so its decision stands.
    is_initial = is_letter and not bare_word.islower() and after[0].isalpha()
    return is_english or not is_initial
