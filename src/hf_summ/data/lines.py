"""Line ends of wrapped text, which end no sentence, and words that are divided there."""

import re
from itertools import pairwise

from hf_summ.data.sentences.stops import STOP
from hf_summ.models.text_documents import IDEOGRAPHS, RUNNING

LINES = ("auto", "wrapped", "sentences")
# lines of wrapped text have this many characters, and this share of them is full
_LEAST_WIDTH, _MOST_WIDTH, _FULL_SHARE = 20, 160, 0.75
_STOP = re.compile(rf"""(?:{STOP}|[…:;])[\s"'”’»)\]]*$""")
_FIRST_WORD = re.compile(rf"\s*(?:[{IDEOGRAPHS}{RUNNING}]{{1,2}}|\S+)")
_UNSPACED = f"{IDEOGRAPHS}\u3001-\u303f\uff01-\uff65"
_OTHER_END = re.compile("\r(?!\n)|[\x0b\x85\u2028\u2029]")
_LETTER = re.compile(r"\w")
_HYPHEN = re.compile(r"\w[-‐\xad]\s*$")
_DIVIDED = re.compile(r"(-?\w+)([-‐\xad])( +)(\w+-?)|(?<=[{0}])( +)(?=[{0}])".replace("{0}", _UNSPACED))
# words after a hyphen that stands for the end of a later word
_SUSPENDED = frozenset("and or to und oder bis et ou y o e och og en eller".split())
_ITEM = re.compile(r"\s*(?:[-*•‣◦▪●–>|#]|\(?(?:\d{1,2}|[a-z])[.)])\s")


def unwrapped(text: str, lines: str = "auto") -> str:
    """The text with a space for each line end within a sentence, of the same length.

    Args:
        lines: "wrapped": every line end between two lines of text, unless an item of a list begins; "sentences": none;
            "auto": as "wrapped" if the text is wrapped at a width, which holds if most lines without a stop have no
            room for the next line's first word, and not almost all of these precede a capital. A line with such room
            ends a sentence there, but for one before a small letter.
    """
    rows = _OTHER_END.sub("\n", text).split("\n")
    filled = [bool(row.strip()) for row in rows]
    joints = [index for index, pair in enumerate(pairwise(filled)) if all(pair)]
    if lines == "wrapped":
        inner = {index for index in joints if not _ITEM.match(rows[index + 1])}
    elif lines == "auto" and _is_wrapped(rows, joints, full := _full(rows, joints)):
        inner = {*full, *(i for i in joints if rows[i + 1].lstrip()[:1].islower() and not _STOP.search(rows[i]))}
    else:
        return text
    # a carriage return is part of the line end
    joined = (f"{row.replace(chr(13), ' ')} " if index in inner else f"{row}\n" for index, row in enumerate(rows))
    return "".join(joined)[: len(text)]


def joined_lines(text: str, lines: str = "auto") -> str:
    """The text as `unwrapped` reads it, in which a blank line follows each sentence of `lines` "sentences".

    Chinese and Japanese lines are joined without space.
    A word that is divided at a line end is joined, without its hyphen unless the text also has it within a line, or a
    number or a capital follows.
    """
    if lines == "sentences":
        return text.replace("\n", "\n\n")
    joined, ends = unwrapped(text, lines), _OTHER_END.sub("\n", text)

    def word(match: re.Match[str]) -> str:
        first, hyphen, space, second, unspaced = match.groups()
        if "\n" not in ends[slice(*match.span(3 if space else 5))] or (hyphen != "\xad" and second in _SUSPENDED):
            return match[0]
        if unspaced:
            return ""
        is_name = second[0].isupper() and not first.isupper()
        is_compound = is_name or "-" in first + second or not (first + second).isalpha()
        is_compound = is_compound or re.search(rf"(?<![^\W_]){first}-{second}", joined)
        return f"{first}-{second}" if is_compound and hyphen != "\xad" else first + second

    return joined if joined == text else _DIVIDED.sub(word, joined)


def _is_wrapped(rows: list[str], joints: list[int], full: list[int]) -> bool:
    """Whether lines without a stop are full, which a third of all lines are, and not all before a capital."""
    # lines before items need not be full
    joints = [index for index in joints if not _ITEM.match(rows[index + 1])]
    # paragraphs of a few lines each end with a stop
    unstopped = {index for index in joints if not _STOP.search(rows[index])}
    inner = unstopped.intersection(full)
    # highlights of a web page may have almost one length, but each begins with a capital
    firsts = (_LETTER.search(rows[index + 1]) for index in inner)
    capitals = sum(first is not None and first[0].isupper() for first in firsts)
    has_small = 3 * capitals <= 2 * len(inner) or "".join(rows).isupper()
    return has_small and len(inner) >= max(2, len(joints) / 3, _FULL_SHARE * len(unstopped))


def is_wrapped(text: str) -> bool:
    """Whether `unwrapped` reads the text as wrapped at a width."""
    return unwrapped(text) != text


def wrapped_note(number: int, total: int, texts: str) -> str:
    """The note that so many of all texts are read as wrapped."""
    return (
        f"{number} of {total} {texts} have wrapped lines, whose ends are read as spaces: set `lines` to 'sentences' if "
        "they end sentences"
    )


def _full(rows: list[str], joints: list[int]) -> list[int]:
    """The lines without room for the next line's first word, if the text may be wrapped at all."""
    widths = [len(row.rstrip()) for row in rows]
    # a few addresses and the like may exceed the width
    width = sorted(widths)[-1 - len(rows) // 20]
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        return []
    firsts = {index: _FIRST_WORD.match(rows[index + 1]) for index in joints}
    # a divided word fills its line
    return [
        i
        for i in joints
        if (first := firsts[i]) and (widths[i] + 1 + len(first[0].strip()) > width or _HYPHEN.search(rows[i]))
    ]
