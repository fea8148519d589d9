"""Hypothesis strategies for hostile texts, files, rows, settings and values."""

import contextlib
import csv
import gzip
import io
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hf_summ.models.text_documents import readable
from hf_summ.runtimes.settings import SETTINGS
from tests.conftest import CACHE, SENTENCES

_PIECES = (
    *SENTENCES,
    *("", " ", "\n", "\r\n", "\r", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u3000", "\u00a0", "\v\f"),
    # surrogates, byte-order marks, zero widths, private use, noncharacters
    *("\ud800", "\udfff\ud83d", "\ufeff", "\u200b\u200d", "\ue000", "\uffff", "\U0010ffff", "\u202e"),
    # scripts: without spaces, right-to-left, with marks, decomposed, wide
    *"美国总统周一访问了北京。/東京は日本の首都です。/ภาษาไทยไม่มีช่องว่าง/المملكة العربية السعودية/हिन्दी में लिखा है।".split(
        "/"
    ),
    *("e\u0301" * 3, "Ä" + "\u0308" * 50, "ﬁ ﬀ ½ ² Ⅻ", "𝒜𝓫𝔠", "👩‍👩‍👧‍👦 🇩🇪", "İstanbul ıI", "ẞß", "ŉ", "ﷺ"),
    # marks that other programs write between words and sentences
    *("<pad>", "</s>", "<unk>", "<s> <sep>", "[CLS] [SEP]", "<q>", "<t> a </t>", "[X_SEP]", "<S_SEP>", "|||||"),
    *("NEWLINE_CHAR", "story_separator_special_tag", "@highlight", "<doc id=1>", "</doc>"),
    *(
        "-LRB- a -RRB- `` b ''",
        '" a said . "',
        "' ( [ {",
        ". . . ! ?",
        "?!?!",
        "Mr. U.S. No. 5 a.m.",
        "3.14.15",
        "&amp;",
    ),
    *("x" * 600, "word " * 200, "a. " * 60, "The the THE. " * 20, "9" * 400, "- " * 80, "\n" * 50, "http://x.y/?z=%00"),
)
_NUMBERS = (
    *(0, 1, 2, 3, -1, -7, 2**31, 2**63, -(2**63) - 1, 10**30, 1000),
    *(0.0, 0.5, 1.5, -0.5, 1e-300, 1e308, 5e-324, -0.0, math.nan, math.inf, -math.inf),
)
# of types that JSON and YAML can store
_STORABLE = (
    *(None, True, False, "", "3", "none", "-1", "nan", [], [None], [[]], {}, {"a": 1}, [1, "a"], "\ud800", "\0"),
    *("x" * 300, [[["deep"]]], {"a": {"b": [1]}}),
)
_NO_WORDS = ("a\nb", "\x1b[31m", "x" * 3000, "\ud800", " ", "\0", "中文", "1", "")
_LANGUAGES = ("en", "EN-gb", "de", "zh", "ja", "hi", "th", "ar", "tr", "fi", "ace", "yue", "en_US")
_DECODING = "num_return_sequences=1|2 bad_words_ids=[[5]]|[[5,6]] output_scores=true return_dict_in_generate=true"
_DECODING += " use_cache=false suppress_tokens=[2]|[3,4] renormalize_logits=true forced_eos_token_id=2"


def mostly(usual: SearchStrategy, odd: SearchStrategy) -> SearchStrategy:
    """Nine times of ten the usual value."""
    return st.integers(0, 9).flatmap(lambda number: odd if number == 9 else usual)


def one_of(*values: Any) -> SearchStrategy:
    """Mostly one of the values, or a word that is none of them and may not fit into a line."""
    return mostly(st.sampled_from(values), st.sampled_from(_NO_WORDS))


def few(settings: Mapping[str, Any], most: int = 3) -> SearchStrategy[dict[str, Any]]:
    """At most this many of the settings, each a tuple of its values or a strategy."""
    values = {name: st.sampled_from(one) if isinstance(one, tuple) else one for name, one in settings.items()}
    names = st.lists(st.sampled_from(list(settings)), max_size=most, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: values[name] for name in chosen}))


def choices(table: str) -> dict[str, tuple]:
    """The values of settings, written `name=value|value`, as JSON where they are JSON; None for a name alone."""

    def value(text: str) -> Any:
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return text

    items = (item.partition("=") for item in table.split())
    return {name: tuple(map(value, values.split("|"))) if sign else (None,) for name, sign, values in items}


def few_flags(flags: Mapping[str, Any] | str, most: int = 3) -> SearchStrategy[list[str]]:
    """The tokens of a few flags; a value of None is a switch, a list several values."""

    def tokens(settings: dict[str, Any]) -> list[str]:
        lists = {name: value if isinstance(value, list) else [value] for name, value in settings.items()}
        return [str(token) for name, one in lists.items() for token in (f"--{name}", *one) if token is not None]

    return few(choices(flags) if isinstance(flags, str) else flags, most).map(tokens)


plain_texts = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5).map(" ".join)
_pieces = st.lists(st.sampled_from(_PIECES) | st.text(st.characters(), max_size=9), max_size=8)
texts = plain_texts | st.builds(str.join, st.sampled_from(("", " ", " ", "\n", "\u3000")), _pieces)
# what can be written in UTF-8, and what stands in a line
clean_texts = texts.map(readable)
lines = texts.map(lambda text: " ".join(text.splitlines()))
not_texts = st.sampled_from((None, math.nan, 3, 2.5, True, b"bytes", ["a"], {"text": "a"}, []))
numbers = st.sampled_from(_NUMBERS)
storable = st.sampled_from(_STORABLE) | numbers
junk = storable | st.sampled_from((b"bytes", (), (1, 2), 3 + 4j))
languages = one_of(*_LANGUAGES)


def _empty_folder() -> Path:
    folder = Path(CACHE, "door")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# an empty folder; that of the example before is gone
folders = st.builds(_empty_folder)


def decoding(odd: SearchStrategy) -> SearchStrategy[dict[str, Any]]:
    """A few settings of `generate()`, mostly sensible."""
    usual = {
        name: {bool: (True, False), str: (". ,", "")}.get(setting.type, setting.choices or (1, 2, 3, 0.5))
        for name, setting in SETTINGS.items()
    }
    both = {**usual, **choices(_DECODING)}
    return few({name: mostly(st.sampled_from(values), odd) for name, values in both.items()})


@st.composite
def text_lists(draw, least: int = 0, most: int = 3) -> Any:
    """A list of texts, seldom with another value in it, or something else."""
    made = draw(st.lists(texts, min_size=least, max_size=most))
    odd = [*made, draw(not_texts)]
    return draw(mostly(st.just(made), st.sampled_from((odd, odd, None, 3, "a text", tuple(made)))))


@st.composite
def spoiled(draw, content: bytes) -> bytes:
    """The bytes of a file after a bad copy, or from another encoding or program."""
    position, size = draw(st.integers(0, len(content))), draw(st.sampled_from((1, 2, 7, 50)))
    head, tail, text = content[:position], content[position:], content.decode("utf-8", "replace")
    shuffled = content.splitlines(keepends=True)[::-1]
    return draw(
        st.sampled_from(
            (
                *(head, tail, head + draw(st.binary(min_size=1, max_size=7)) + tail[size:], head + b"\0" * size + tail),
                *(head + tail[size:], head + head[-size:] + tail, b"".join(shuffled), content + content),
                *(text.encode(name) for name in ("utf-16", "utf-16-le", "utf-8-sig", "utf-7")),
                *(text.encode(name, "replace") for name in ("latin-1", "cp1252", "gb18030")),
                *(content.replace(b"\n", end) for end in (b"\r", b"\r\n", b"\n\n", b"", b"\0")),
                *(content.replace(b'"', quote) for quote in (b"'", b'""', b"", b'\\"')),
                *(content + end for end in (b"}", b"\n\n\n", b"null", b"[]", b"\x1a", b"\xff")),
                *(b"", b" ", b"\n", b"{}", b"[]", b"null", b"1", b'"a"', b"\x1f\x8b", b"[[[[", b"\0" * 64),
                *(content.replace(b":", other, 1) for other in (b"=", b": " + b"[" * 2000, b":" + b"9" * 6000)),
                *(content.replace(b"e", other, size) for other in (b"\xe9", b"\\ud800", b"\\u0000", b"\xed\xa0\x80")),
            )
        )
    )


@st.composite
def spoiled_json(draw, value: Any) -> Any:
    """A copy of a JSON value with one part replaced, left out or added."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 19)) < 19:
        key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        way = draw(st.integers(0, 9))
        changed = value.copy()
        if way == 9:
            del changed[key]
        elif way == 8 and isinstance(value, dict):
            changed[draw(st.sampled_from(("new_key", "", "a.b", key.upper())))] = draw(storable)
        else:
            changed[key] = draw(spoiled_json(value[key]))
        return changed
    if isinstance(value, int | float) and not isinstance(value, bool) and draw(st.booleans()):
        return draw(st.sampled_from((value + 1, -value, value * 2, float(value), str(value), value / 2)))
    return draw(storable)


@st.composite
def rows(draw, *columns: str) -> list[dict[str, Any]]:
    """Rows of these columns of texts; in some, one is missing, another value, or beside others."""
    found = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, texts)), min_size=1, max_size=5))
    for row in found:
        name, others = draw(st.sampled_from(columns)), ("id", "score", "documents", "references", "", "error", "a\nb")
        match draw(st.integers(0, 19)):
            case 19:
                del row[name]
            case 18:
                row[name] = draw(storable | st.lists(texts, max_size=3))
            case 17:
                row[draw(st.sampled_from(others))] = draw(storable)
    return found


@st.composite
def written(draw, found: list[dict[str, Any]], ending: str) -> bytes:
    """The bytes of a file of these rows; lone surrogates are written unchecked, as by some programs."""
    names, in_ascii = list(dict.fromkeys(name for row in found for name in row)), draw(st.booleans())
    match ending.lower():
        case "csv":
            buffer = io.StringIO(newline="")
            table = csv.DictWriter(buffer, names, restval="", lineterminator=draw(st.sampled_from(("\n", "\r\n"))))
            table.writeheader()
            table.writerows(found)
            text = buffer.getvalue()
        case "json":
            text = json.dumps(found, ensure_ascii=in_ascii, indent=draw(st.sampled_from((None, 2))))
        case "jsonl":
            text = "".join(json.dumps(row, ensure_ascii=in_ascii) + "\n" for row in found)
        case _:
            text = "".join(f"{next(iter(row.values()), '')}\n" for row in found)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def files(draw, columns: tuple[str, ...], endings: SearchStrategy[str]) -> tuple[str, bytes, list | None]:
    """A file's ending, its content, and its rows unless it is spoiled."""
    found, ending = draw(rows(*columns)), draw(endings)
    content, is_spoiled = draw(written(found, ending)), draw(st.integers(0, 3)) == 3
    content = draw(spoiled(content)) if is_spoiled else content
    if draw(st.integers(0, 3)) == 3:
        ending, content, is_cut = f"{ending}.gz", gzip.compress(content, mtime=0), draw(st.integers(0, 3)) == 3
        content, is_spoiled = draw(spoiled(content)) if is_cut else content, is_spoiled or is_cut
    return ending, content, None if is_spoiled else found
