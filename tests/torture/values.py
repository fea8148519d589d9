"""Hostile values: texts, numbers, spoiled bytes and spoiled JSON."""

import math
import random
from typing import Any

from tests.conftest import SENTENCES

_PIECES = (
    *SENTENCES,
    *("", " ", "\n", "\r\n", "\r", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u3000", "\u00a0", "\v\f"),
    # surrogates, byte-order marks, zero widths, private use, noncharacters
    *("\ud800", "\udfff\ud83d", "\ufeff", "\u200b\u200d", "\ue000", "\uffff", "\U0010ffff", "\u202e"),
    # scripts: without spaces, right-to-left, with marks, decomposed, wide
    *(
        "美国总统周一访问了北京。",
        "東京は日本の首都です。",
        "ภาษาไทยไม่มีช่องว่าง",
        "المملكة العربية السعودية",
        "हिन्दी में लिखा है।",
    ),
    *("e\u0301" * 3, "Ä" + "\u0308" * 50, "ﬁ ﬀ ½ ² Ⅻ", "𝒜𝓫𝔠", "👩‍👩‍👧‍👦 🇩🇪", "İstanbul ıI", "ẞß", "ŉ", "ﷺ"),
    # marks that other programs write between words and sentences
    *("<pad>", "</s>", "<unk>", "<s> <sep>", "[CLS] [SEP]", "<q>", "<t> a </t>", "[X_SEP]", "<S_SEP>", "|||||"),
    *("NEWLINE_CHAR", "story_separator_special_tag", "@highlight", "-LRB- a -RRB-", "`` b ''", "<doc id=1>", "</doc>"),
    *(
        '" a said . "',
        "' ( [ {",
        ". . . ! ?",
        "...",
        "?!?!",
        "Mr. U.S. No. 5 a.m.",
        "3.14.15",
        "1,000,000",
        "&amp; <b>",
    ),
    *("x" * 600, "word " * 200, "a. " * 60, "The the THE. " * 20, "9" * 400, "- " * 80, "\n" * 50, "http://x.y/?z=%00"),
)
_ODD_CHARACTERS = "\0\r\n\t \ud800\ufeff\u200b\u0301\u2028，。,.;\"'\\{}[]<>|=:#%&é中🙂"

HOSTILE_NUMBERS = (
    *(0, 1, 2, 3, -1, -7, 2**31, 2**63, -(2**63) - 1, 10**30, 1000),
    *(0.0, 0.5, 1.5, -0.5, 1e-300, 1e308, 5e-324, -0.0, math.nan, math.inf, -math.inf),
)
_JUNK = (
    *(None, True, False, "", "3", "none", "-1", "nan", b"bytes", [], [None], [[]], {}, {"a": 1}, (), (1, 2)),
    *([1, "a"], "\ud800", "\0", "x" * 300, [[["deep"]]], {"a": {"b": [1]}}, 3 + 4j),
)


def text(draw: random.Random) -> str:
    """A text of any content, perhaps blank; nearly always below 10,000 characters."""
    kind = draw.random()
    if kind < 0.05:
        return draw.choice(("", " ", "\n", "\0", "\ufeff", "\ud800", ".", "a", "中", "\u0301", "\u200b"))
    pieces = draw.choices(_PIECES, k=draw.choice((1, 2, 3, 5, 8, 20)))
    joined = draw.choice(("", " ", " ", "\n", "\u3000")).join(pieces)
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        place = draw.randrange(len(joined) + 1)
        joined = joined[:place] + draw.choice(_ODD_CHARACTERS) + joined[place + draw.choice((0, 1, 5)) :]
    if draw.random() < 0.02:
        joined *= 10
    return joined


def plain(draw: random.Random) -> str:
    """A text without anything strange in it."""
    return " ".join(draw.choices(SENTENCES, k=draw.choice((1, 2, 5))))


def some_text(draw: random.Random) -> str:
    """A hostile text or a plain one."""
    return text(draw) if draw.random() < 0.8 else plain(draw)


def number(draw: random.Random) -> int | float:
    """A number that is often out of range."""
    return draw.choice(HOSTILE_NUMBERS)


def junk(draw: random.Random) -> Any:
    """A value of any type, seldom valid."""
    return draw.choice((*_JUNK, number(draw)))


def word(draw: random.Random, *known: Any) -> Any:
    """One of the known names, or seldom an unknown one that may not fit into a line."""
    return (
        draw.choice(known)
        if draw.random() < 0.97
        else draw.choice(("a\nb", "\x1b[31m", "x" * 3000, "\ud800", " ", "\0"))
    )


def not_text(draw: random.Random) -> Any:
    """A value that a column of texts may have by mistake, such as pandas' NaN for a missing text."""
    return draw.choice((None, math.nan, 3, 2.5, True, b"bytes", ["a"], {"text": "a"}, []))


def spoiled(draw: random.Random, content: bytes) -> bytes:
    """The bytes of a file after a bad copy, or from another encoding or program."""
    place = draw.randrange(len(content) + 1)
    size = draw.choice((1, 2, 7, 50))
    match draw.randrange(16):
        case 0:
            return content[:place]
        case 1:
            return content[place:]
        case 2:
            return content[:place] + bytes(draw.randrange(256) for _ in range(size)) + content[place + size :]
        case 3:
            return content[:place] + b"\0" * size + content[place:]
        case 4:
            return content[:place] + content[place + size :]
        case 5:
            return content[:place] + content[place - size if place > size else 0 : place] + content[place:]
        case 6:
            return content.decode("utf-8", "replace").encode(draw.choice(("utf-16", "utf-16-le", "utf-8-sig", "utf-7")))
        case 7:
            return content.decode("utf-8", "replace").encode(draw.choice(("latin-1", "cp1252", "gb18030")), "replace")
        case 8:
            return content.replace(b"\n", draw.choice((b"\r", b"\r\n", b"\n\n", b"", b"\0")))
        case 9:
            return content.replace(b'"', draw.choice((b"'", b'""', b"", b'\\"')))
        case 10:
            return b"\xef\xbb\xbf" * draw.choice((1, 2)) + content
        case 11:
            return content + draw.choice((b"}", b"\n\n\n", b"null", b"[]", b"\x1a", b"\xff", content))
        case 12:
            return draw.choice(
                (b"", b" ", b"\n", b"{}", b"[]", b"null", b"1", b'"a"', b"\x1f\x8b", b"[[[[", b"\0" * 64)
            )
        case 13:
            return content.replace(b":", draw.choice((b"=", b": " + b"[" * 2000, b":" + b"9" * 6000)), 1)
        case 14:
            lines = content.splitlines(keepends=True)
            draw.shuffle(lines)
            return b"".join(lines)
    return content.replace(b"e", draw.choice((b"\xc3\xa9", b"\xe9", b"\\ud800", b"\\u0000", b"\xed\xa0\x80")), size)


def spoiled_json(draw: random.Random, value: Any) -> tuple[Any, str]:
    """A copy of a JSON value with one part replaced, removed or added, and the place of the change."""
    if isinstance(value, dict) and value and draw.random() < 0.95:
        key = draw.choice(list(value))
        if draw.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}, f"without {key}"
        if draw.random() < 0.07:
            return {**value, draw.choice(("new_key", "", "a.b", key.upper())): storable_junk(draw)}, "an added key"
        part, where = spoiled_json(draw, value[key])
        return {**value, key: part}, f"{key}: {where}"
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        if draw.random() < 0.3:
            return value[:place] + value[place + 1 :], f"[{place}] left out"
        part, where = spoiled_json(draw, value[place])
        return [*value[:place], part, *value[place + 1 :]], f"[{place}]: {where}"
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.6:
        part = draw.choice((value + 1, -value, value * 2, 0, float(value), str(value), value / 2, number(draw)))
    else:
        part = storable_junk(draw)
    return part, f"{value!r:.40} becomes {part!r:.40}"


def storable_junk(draw: random.Random) -> Any:
    """Junk that JSON and YAML can store."""
    while isinstance(found := junk(draw), bytes | complex | tuple):
        pass
    return found
