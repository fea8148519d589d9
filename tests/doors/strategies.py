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

_WHITE_SPACE = (
    "",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "\0",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\u3000",
    "\u00a0",
    "\v\f",
)
# surrogates, byte-order marks, zero widths, private use, noncharacters
_SPECIAL_CHARACTERS = ("\ud800", "\udfff\ud83d", "\ufeff", "\u200b\u200d", "\ue000", "\uffff", "\U0010ffff", "\u202e")
# scripts without spaces, from right to left, and with marks
_SCRIPTS = (
    "美国总统周一访问了北京。",
    "東京は日本の首都です。",
    "ภาษาไทยไม่มีช่องว่าง",
    "المملكة العربية السعودية",
    "हिन्दी में लिखा है।",
)
# letters that are decomposed, wide or in other forms
_LETTERS = ("e\u0301" * 3, "Ä" + "\u0308" * 50, "ﬁ ﬀ ½ ² Ⅻ", "𝒜𝓫𝔠", "👩‍👩‍👧‍👦 🇩🇪", "İstanbul ıI", "ẞß", "ŉ", "ﷺ")
# marks that other programs write between words and sentences
_MARKS = (
    "<pad>",
    "</s>",
    "<unk>",
    "<s> <sep>",
    "[CLS] [SEP]",
    "<q>",
    "<t> a </t>",
    "[X_SEP]",
    "<S_SEP>",
    "|||||",
    "NEWLINE_CHAR",
    "story_separator_special_tag",
    "@highlight",
    "<doc id=1>",
    "</doc>",
)
_PUNCTUATION = (
    "-LRB- a -RRB- `` b ''",
    '" a said . "',
    "' ( [ {",
    ". . . ! ?",
    "?!?!",
    "Mr. U.S. No. 5 a.m.",
    "3.14.15",
    "&amp;",
)
_REPETITIONS = ("x" * 600, "word " * 200, "a. " * 60, "The the THE. " * 20, "9" * 400, "- " * 80, "\n" * 50)
_PIECES = (
    tuple(SENTENCES)
    + _WHITE_SPACE
    + _SPECIAL_CHARACTERS
    + _SCRIPTS
    + _LETTERS
    + _MARKS
    + _PUNCTUATION
    + _REPETITIONS
    + ("http://x.y/?z=%00",)
)
_INTEGERS = (0, 1, 2, 3, -1, -7, 2**31, 2**63, -(2**63) - 1, 10**30, 1000)
_FLOATS = (0.0, 0.5, 1.5, -0.5, 1e-300, 1e308, 5e-324, -0.0, math.nan, math.inf, -math.inf)
_NUMBERS = _INTEGERS + _FLOATS
# values of types that JSON and YAML can store
_SCALARS = (None, True, False, "", "3", "none", "-1", "nan")
_COLLECTIONS = ([], [None], [[]], {}, {"a": 1}, [1, "a"])
_STORABLE = _SCALARS + _COLLECTIONS + ("\ud800", "\0", "x" * 300, [[["deep"]]], {"a": {"b": [1]}})
_NO_WORDS = ("a\nb", "\x1b[31m", "x" * 3000, "\ud800", " ", "\0", "中文", "1", "")
_LANGUAGES = ("en", "EN-gb", "de", "zh", "ja", "hi", "th", "ar", "tr", "fi", "ace", "yue", "en_US")
_DECODING = """num_return_sequences=1|2 bad_words_ids=[[5]]|[[5,6]] output_scores=true return_dict_in_generate=true
    use_cache=false suppress_tokens=[2]|[3,4] renormalize_logits=true forced_eos_token_id=2"""


def mostly(usual: SearchStrategy, odd: SearchStrategy) -> SearchStrategy:
    """Nine times of ten the usual value."""
    return st.integers(0, 9).flatmap(lambda number: odd if number == 9 else usual)


def one_of(*values: Any) -> SearchStrategy:
    """Mostly one of the values, or a word that is none of them and may not fit into a line."""
    return mostly(st.sampled_from(values), st.sampled_from(_NO_WORDS))


def few(settings: Mapping[str, Any], most: int = 3) -> SearchStrategy[dict[str, Any]]:
    """At most this many of the settings, each a tuple of its values or a strategy."""
    values = {}
    for name, setting in settings.items():
        values[name] = st.sampled_from(setting) if isinstance(setting, tuple) else setting

    def chosen(names: list[str]) -> SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: values[name] for name in names})

    return st.lists(st.sampled_from(list(settings)), max_size=most, unique=True).flatmap(chosen)


def choices(table: str) -> dict[str, tuple]:
    """The values of settings, written `name=value|value`, as JSON where they are JSON; None for a name alone."""

    def value(text: str) -> Any:
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return text

    settings = {}
    for item in table.split():
        name, sign, values = item.partition("=")
        if sign:
            settings[name] = tuple(value(text) for text in values.split("|"))
        else:
            settings[name] = (None,)
    return settings


def few_flags(flags: Mapping[str, Any] | str, most: int = 3) -> SearchStrategy[list[str]]:
    """The tokens of a few flags; a value of None is a switch, a list several values."""

    def tokens(settings: dict[str, Any]) -> list[str]:
        made = []
        for name, value in settings.items():
            made.append(f"--{name}")
            values = value if isinstance(value, list) else [value]
            made.extend(str(item) for item in values if item is not None)
        return made

    if isinstance(flags, str):
        flags = choices(flags)
    return few(flags, most).map(tokens)


plain_texts = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5).map(" ".join)
_pieces = st.lists(st.sampled_from(_PIECES) | st.text(st.characters(), max_size=9), max_size=8)
texts = plain_texts | st.builds(str.join, st.sampled_from(("", " ", " ", "\n", "\u3000")), _pieces)
# texts that can be written in UTF-8
clean_texts = texts.map(readable)
# texts of one line
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


# an empty folder; the folder of the previous example is deleted
folders = st.builds(_empty_folder)


def decoding(odd: SearchStrategy) -> SearchStrategy[dict[str, Any]]:
    """A few settings of `generate()`, mostly sensible."""
    values = {}
    for name, setting in SETTINGS.items():
        if setting.type is bool:
            values[name] = (True, False)
        elif setting.type is str:
            values[name] = (". ,", "")
        else:
            values[name] = setting.choices or (1, 2, 3, 0.5)
    values |= choices(_DECODING)
    return few({name: mostly(st.sampled_from(usual), odd) for name, usual in values.items()})


@st.composite
def text_lists(draw, least: int = 0, most: int = 3) -> Any:
    """A list of texts, seldom with another value in it, or something else."""
    usual = draw(st.lists(texts, min_size=least, max_size=most))
    odd = usual + [draw(not_texts)]
    return draw(mostly(st.just(usual), st.sampled_from((odd, odd, None, 3, "a text", tuple(usual)))))


@st.composite
def spoiled(draw, content: bytes) -> bytes:
    """The bytes of a file after a bad copy, or from another encoding or program."""
    position = draw(st.integers(0, len(content)))
    size = draw(st.sampled_from((1, 2, 7, 50)))
    noise = draw(st.binary(min_size=1, max_size=7))
    head, tail, text = content[:position], content[position:], content.decode("utf-8", "replace")
    # cut, with changed bytes, or with parts that are missing or doubled
    versions = [head, tail, head + noise + tail[size:], head + b"\0" * size + tail]
    versions += [head + tail[size:], head + head[-size:] + tail]
    reversed_lines = content.splitlines(keepends=True)[::-1]
    versions += [b"".join(reversed_lines), content + content]
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig", "utf-7"):
        versions.append(text.encode(encoding))
    for encoding in ("latin-1", "cp1252", "gb18030"):
        versions.append(text.encode(encoding, "replace"))
    for line_end in (b"\r", b"\r\n", b"\n\n", b"", b"\0"):
        versions.append(content.replace(b"\n", line_end))
    for quote in (b"'", b'""', b"", b'\\"'):
        versions.append(content.replace(b'"', quote))
    for end in (b"}", b"\n\n\n", b"null", b"[]", b"\x1a", b"\xff"):
        versions.append(content + end)
    versions += [b"", b" ", b"\n", b"{}", b"[]", b"null", b"1", b'"a"', b"\x1f\x8b", b"[[[[", b"\0" * 64]
    for colon in (b"=", b": " + b"[" * 2000, b":" + b"9" * 6000):
        versions.append(content.replace(b":", colon, 1))
    for letter in (b"\xe9", b"\\ud800", b"\\u0000", b"\xed\xa0\x80"):
        versions.append(content.replace(b"e", letter, size))
    return draw(st.sampled_from(versions))


@st.composite
def spoiled_json(draw, value: Any) -> Any:
    """A copy of a JSON value with one part replaced, left out or added."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 19)) < 19:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        way = draw(st.integers(0, 9))
        changed = value.copy()
        if way == 9:
            del changed[key]
        elif way == 8 and isinstance(value, dict):
            new_value = draw(storable)
            new_key = draw(st.sampled_from(("new_key", "", "a.b", key.upper())))
            changed[new_key] = new_value
        else:
            changed[key] = draw(spoiled_json(value[key]))
        return changed
    if isinstance(value, int | float) and not isinstance(value, bool) and draw(st.booleans()):
        numbers_like_it = (value + 1, -value, value * 2, float(value), str(value), value / 2)
        return draw(st.sampled_from(numbers_like_it))
    return draw(storable)


_MORE_COLUMNS = ("id", "score", "documents", "references", "", "error", "a\nb")


@st.composite
def rows(draw, *columns: str) -> list[dict[str, Any]]:
    """Rows of these columns of texts; in some, one is missing, another value, or beside others."""
    table = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, texts)), min_size=1, max_size=5))
    for row in table:
        name = draw(st.sampled_from(columns))
        match draw(st.integers(0, 19)):
            case 19:
                del row[name]
            case 18:
                row[name] = draw(storable | st.lists(texts, max_size=3))
            case 17:
                value = draw(storable)
                row[draw(st.sampled_from(_MORE_COLUMNS))] = value
    return table


@st.composite
def written(draw, table: list[dict[str, Any]], ending: str) -> bytes:
    """The bytes of a file of these rows; lone surrogates are written unchecked, as by some programs."""
    in_ascii = draw(st.booleans())
    match ending.lower():
        case "csv":
            line_end = draw(st.sampled_from(("\n", "\r\n")))
            names = {}
            for row in table:
                names |= dict.fromkeys(row)
            buffer = io.StringIO(newline="")
            writer = csv.DictWriter(buffer, list(names), restval="", lineterminator=line_end)
            writer.writeheader()
            writer.writerows(table)
            text = buffer.getvalue()
        case "json":
            text = json.dumps(table, ensure_ascii=in_ascii, indent=draw(st.sampled_from((None, 2))))
        case "jsonl":
            text = "".join(json.dumps(row, ensure_ascii=in_ascii) + "\n" for row in table)
        case _:
            first_values = [next(iter(row.values()), "") for row in table]
            text = "".join(f"{value}\n" for value in first_values)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def files(draw, columns: tuple[str, ...], endings: SearchStrategy[str]) -> tuple[str, bytes, list | None]:
    """A file's ending, its content, and its rows unless it is spoiled."""
    table = draw(rows(*columns))
    ending = draw(endings)
    content = draw(written(table, ending))
    is_spoiled = draw(st.integers(0, 3)) == 3
    if is_spoiled:
        content = draw(spoiled(content))
    is_compressed = draw(st.integers(0, 3)) == 3
    if is_compressed:
        ending = f"{ending}.gz"
        content = gzip.compress(content, mtime=0)
        if draw(st.integers(0, 3)) == 3:
            is_spoiled = True
            content = draw(spoiled(content))
    return ending, content, None if is_spoiled else table
