"""What the sentence splitter misreads: line ends of wrapped text, list markers, stray marks, titles and citations.

Texts are handed to it with such characters hidden by others, one for one, and ends of sentences after which the
sentence continues are dropped.
"""

import re
from itertools import pairwise

from hf_summ.models.text_documents import IDEOGRAPHS, RUNNING

LINES = ("auto", "wrapped", "sentences")
# characters beside an end that decide whether it is one
NEAR = 100
# lines of wrapped text have this many characters, and this share of them is full
_LEAST_WIDTH, _MOST_WIDTH, _FULL_SHARE = 20, 160, 0.75
_STOP = re.compile(r"""[.!?…:;。！？।؟۔][\s"'”’»)\]]*$""")
_FIRST_WORD = re.compile(rf"\s*(?:[{IDEOGRAPHS}{RUNNING}]{{1,2}}|\S+)")
_LETTER = re.compile(r"\w")
_HYPHEN = re.compile(r"[^\W\d_]-\s*$")
_DIVIDED = re.compile(r"(-?[^\W\d_]+)-( +)([^\W\d_]+-?)")
_ITEM = re.compile(r"\s*(?:[-*•‣◦▪●–>|#]|\(?(?:\d{1,2}|[a-z])[.)])\s")
# markers of items within a line; one with a stop is a marker at the beginning, after a colon, and after such a marker
_MARKER = re.compile(r"(?<!\S)(?:\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})\.?\)|[•‣◦▪●*])(?=\s)")
_NUMBER = re.compile(
    r"(?:^\s*|(?<=[.!?:;•‣◦▪●⁃]\s)|(?<=[。！？；：⁃]))(?:\d{1,2}|[A-Za-z]|[ivx]{2,4})\.(?=\s+[^\W\d_]|["
    + IDEOGRAPHS
    + "])"
)
# a list within a line, and the markers of its items, which may have no stops between them; within a sentence, others
# follow a comma, a semicolon or a conjunction, or are in brackets
_LIST = re.compile(r"(?:^|:)\s*[1a](?:\.\)?|\))\s")
_ITEM_OF_LIST = re.compile(r"(?<!\S)(\d{1,2}|[a-z])(?:\.\)?|\))(?=\s+[\"“]?[^\W\da-z_])")
_BULLET = re.compile(r"(?<=\S\s)[•‣◦▪●⁃]\s?(?=[^\W\d_]|\d{1,2}\.\s)")
_WITHIN = re.compile(r"(?:[,;]|\b(?:and|or|und|oder|et|ou|y|o|e|en))\s+$")
_BEFORE_LIST = frozenset(":•‣◦▪●⁃")
_BRACKET_OR_BULLET = re.compile(r"[()\[\]•‣◦▪●*]")
_EMOTICON = re.compile(r"(?<!\w)[:;=8][-'^]?[()\[\]](?!\w)")
# a stop before a bracketed citation, after which the sentence continues
_CITED = re.compile(r"(?:(?<=\bet al)\.(?=\s[\[(])|\.(?=\s\[[^\]\[]{1,40}\](?:\s+[a-z]|[.,;:)])))")
_PAIRS = {"(": ")", "[": "]", "（": "）", "「": "」", "『": "』", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’"}
_CLOSING = frozenset("".join(_PAIRS.values()))
_MARKS = re.compile(rf"[\"'{re.escape(''.join({*_PAIRS, *_CLOSING}))}]")
# a pair around more ends of sentences than this is no pair
_MOST_INNER = 2
_INNER_STOP = re.compile(r"""[.!?][”"’')\]]*\s""")

# abbreviations before a name, a number or a capital, which the library does not have
_TITLES = {
    "bn": "ড ডা ডঃ মো প্রফ",
    "ca": "Sr Sra Dr Dra Prof St Av núm pàg",
    "cs": "Dr dr Ing Mgr Bc MUDr JUDr PhDr RNDr Prof prof doc p č sv tzv např str",
    "da": "Dr dr Hr hr Fr fr Prof prof Nr nr kap",
    "de": "Dr Prof Hr Fr Frl Nr Abb Bd Kap Abs Art St Str Ing Dipl Mag bzw ca vgl sog geb evtl ggf inkl Fa",
    "en": "cf Cf Atty Natl Intl Civ Proc Nat Acad Appl Assn",
    "el": "κ Δρ Καθ σελ αρ",
    "es": "Sr Sra Srta Sres Dr Dra D Dña Ud Uds Lic Ing Prof Profa Gral Cnel Sto Sta Av Avda núm pág págs cap art",
    "fi": "tri Tri prof Prof Dr dr esim ks ns nro",
    "fr": "MM Mme Mmes Mlle Mlles Dr Drs Pr Prof Me Mgr St Ste cf av apr env éd chap art bd boul",
    "gu": "ડૉ ડો શ્રી",
    "hi": "डॉ डा श्री प्रो पं मो कु रु",
    "hu": "dr Dr Prof prof id Id ifj Ifj özv Özv",
    "id": "Dr dr Prof prof Ir Drs Jl jl H Hj Tn Ny hlm no",
    "it": "Sig Sigg Dott Prof Avv Ing On Sen Gen Col Mons Dr Arch Geom pag pagg art cap no cfr egr gent",
    "kn": "ಡಾ ಶ್ರೀ",
    "ml": "ഡോ ശ്രീ",
    "mr": "डॉ श्री प्रा",
    "ne": "डा डॉ श्री प्रा",
    "nl": "Dhr dhr Mevr mevr Mw mw Prof prof Dr dr Drs drs Ir ir Mr mr Ing ing St bijv nr Nr",
    "no": "Dr dr Hr hr Fr fr Prof prof Nr nr kap",
    "pl": "tj godz ok dr Dr prof Prof inż mgr hab ks gen płk św Św ul al pl nr tzw np",
    "pt": "Sr Sra Srta Dr Dra Prof Profa Eng Exmo Exma Av pág págs pag núm art cap Sto Sta",
    "ro": "dl Dl dna Dna dr Dr prof Prof Sf sf str nr",
    "ru": "г ул д гл им проф Проф акад Акад ст стр рис т тов",
    "sk": "Dr dr Ing Mgr Bc MUDr JUDr PhDr Prof prof doc p č sv tzv napr str",
    "sv": "Dr dr Prof prof Hr hr Fr fr S:t nr Nr kap",
    "ta": "திரு டாக்டர் திருமதி",
    "te": "డా డాక్టర్ శ్రీ",
    "tr": "Dr Prof Doç Yrd Av Sn Alb Gen Öğr Gör Arş Uzm Müh",
    "vi": "TP Tp TS Ts GS PGS ThS BS LS ĐH Q P",
    "uk": "м вул ім проф Проф акад Акад ст стр рис",
}
_TITLES |= {"nb": _TITLES["no"], "nn": _TITLES["no"]}
# before a number
_NUMBERED = frozenset(
    "p pp pág págs pag pagg pàg s S str стр nr Nr no No núm n art Art fig Fig Figs Eq Eqs eq Sec Sect sec Ref Refs ref "
    "refs cap kap Kap vol Vol vols Bd kl d Def Thm Lem Prop Cor Alg Tab App Ch ch chap Ex Ans Apt Rm Rte approx max "
    "ca".split()
)
# a number with a stop after these is an ordinal
_ORDINAL = {
    "de": re.compile(
        r"\b(?:[Dd](?:er|ie|as|em|en|es)|[Ii]m|[Aa]m|[Zz]u[mr]|[Vv]om|[Bb]eim|(?:ein|kein|sein|ihr|dies|jed)e?[rsmn]?|und)"
        r"\s\d{1,3}\.$"
    )
}
# in these languages, sentences end with a danda
_DANDA = frozenset("as bn hi ne or pa sa".split())
_LAST_WORD = re.compile(r"(?:^|[\s.(\[«“\"'’-])([^\s.(\[«“\"'’-]+)\.$")
# an abbreviation of several letters, such as o.a.
_DOTTED = re.compile(r"(?<!\w)(?:[^\W\d_]{1,3}\.){2,}$")
# characters of a title in a script of a danda
_MOST_TITLE = 4
# abbreviations of several letters before a small one: of a capital, or without a vowel
_SHORTENED = re.compile(
    r"(?<![\w.'’@])(?:[^\W\d_a-zа-я][^\W\d_]{1,3}|[^\W\d_aeiouyàâäéèêëíîïóôöúùûüаеиоуыэюяєії]{2,4}|tys|govt|temp|Thurs|Tues)\.$"
)
# a zone or a weekday after a time of day
_AFTER_TIME = re.compile(
    r"(?:[A-Z]{1,2}[SD]?T|GMT|UTC|Eastern|Pacific|Central|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b"
)
# within a word with a stop: an address, a path, a name of code
_WORD_WITH_STOP = (
    re.compile(r"(?:://|www\.|[@\\])[!-~]*$"),
    re.compile(r"(?:Com|COM|NET|Org|ORG|Html?|J[sS])\b|[A-Z]\w*\.[a-z]"),
)
# a quotation that ends with a stop, before what follows in the same sentence
_QUOTED = re.compile(r"[。！？!?…][」』”’\"']$")
_AFTER_QUOTED = {
    "ja": re.compile("[ぁ-ん、]"),
    "zh": re.compile('[^。！？，、“「"]{1,8}(?:[说說道问問喊答称稱]|告[诉訴]記?记?者?|表示)[，。：]'),
}
# words at the end of a list, which may end a sentence before a capital
_AND_SO_ON = (
    *"etc. ecc. usw. enz. itd. atd. osv. jne. stb. κ.λπ. κλπ. т.д. т.п. др. пр. ін.".split(),
    *("т. д.", "т. п."),
)
# ends that the splitter does not see before a capital: of a list, an ellipsis, a sentence in brackets
_UNSEEN = re.compile(rf"\b(?:{'|'.join(map(re.escape, _AND_SO_ON))})[\"”»)]*\s+")
_ELLIPSIS = re.compile(r"…[\"”»)]*\s+|\([^()]*[.!?][\"”]?\)\s+")
# of a number with a unit, after so many words of the sentence
_UNIT = re.compile(r"\d\s(?:(?:тыс|млн|млрд)\.?\s)?(?:км|кг|м|гг?|вв?|руб|грн|мин|ч|рр?|km|kg|cm|m|g|hod|min|d)\.\s+")
_LEAST_WORDS = 4
_YEARS = ("r", "г", "р")


def unwrapped(text: str, lines: str = "auto") -> str:
    """The text with a space for each line end within a sentence, of the same length.

    Args:
        lines: "wrapped": every line end between two lines of text, unless an item of a list begins; "sentences": none;
            "auto": as "wrapped" if the text is wrapped at a width, which holds if most lines without a stop have no
            room for the next line's first word, and not almost all of these precede a capital. A line with such room
            ends a sentence there, but for one before a small letter.
    """
    parts = text.split("\n")
    filled = [bool(part.strip()) for part in parts]
    joints = [index for index, pair in enumerate(pairwise(filled)) if all(pair)]
    if lines == "wrapped":
        inner = {index for index in joints if not _ITEM.match(parts[index + 1])}
    elif lines == "auto" and _is_wrapped(parts, joints, full := _full(parts, joints)):
        inner = {*full, *(i for i in joints if parts[i + 1].lstrip()[:1].islower() and not _STOP.search(parts[i]))}
    else:
        return text
    # a carriage return is part of the line end
    joined = (f"{part.replace(chr(13), ' ')} " if index in inner else f"{part}\n" for index, part in enumerate(parts))
    return "".join(joined)[: len(text)]


def joined_lines(text: str, lines: str = "auto") -> str:
    """The text as `unwrapped` reads it, in which a blank line follows each sentence of `lines` "sentences".

    A word that is divided at a line end is joined, without its hyphen unless the text also has it within a line.
    """
    if lines == "sentences":
        return text.replace("\n", "\n\n")
    joined = unwrapped(text, lines)

    def word(match: re.Match[str]) -> str:
        first, space, second = match.groups()
        if "\n" not in text[slice(*match.span(2))]:
            return match[0]
        is_compound = "-" in first + second or re.search(rf"(?<![^\W_]){first}-{second}", joined)
        return f"{first}-{second}" if is_compound else first + second

    return joined if joined == text else _DIVIDED.sub(word, joined)


def _is_wrapped(parts: list[str], joints: list[int], full: list[int]) -> bool:
    """Whether lines without a stop are full, which a third of all lines are, and not all before a capital."""
    # paragraphs of a few lines each end with a stop
    unstopped = {index for index in joints if not _STOP.search(parts[index])}
    inner = unstopped.intersection(full)
    # highlights of a web page may have almost one length, but each begins with a capital
    firsts = (_LETTER.search(parts[index + 1]) for index in inner)
    capitals = sum(first is not None and first[0].isupper() for first in firsts)
    least = max(2, len(joints) / 3, _FULL_SHARE * len(unstopped))
    return len(inner) >= least and 3 * capitals <= 2 * len(inner)


def is_wrapped(text: str) -> bool:
    """Whether `unwrapped` reads the text as wrapped at a width."""
    return unwrapped(text) != text


def wrapped_note(number: int, total: int, texts: str) -> str:
    """The note that so many of all texts are read as wrapped."""
    return (
        f"{number} of {total} {texts} have wrapped lines, whose ends are read as spaces: set `lines` to 'sentences' if "
        "they end sentences"
    )


def _full(parts: list[str], joints: list[int]) -> list[int]:
    """The lines without room for the next line's first word, if the text may be wrapped at all."""
    widths = [len(part.rstrip()) for part in parts]
    # a few addresses and the like may exceed the width
    width = sorted(widths)[-1 - len(parts) // 20]
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        return []
    firsts = {index: _FIRST_WORD.match(parts[index + 1]) for index in joints}
    # a divided word fills its line
    return [
        i
        for i in joints
        if (first := firsts[i]) and (widths[i] + 1 + len(first[0].strip()) > width or _HYPHEN.search(parts[i]))
    ]


def hidden(line: str) -> str:
    """The line with other characters, one for one, in place of those that the splitter misreads.

    These are list markers, after which it takes all that follows as one sentence, emoticons, brackets and quotation
    marks without a partner, and stops before citations.
    """
    line = _without_numbers(line)
    # most lines have none of these, for which four searches would take most of the time
    if _BRACKET_OR_BULLET.search(line):
        line = _MARKER.sub(_capitals, line)
        line = _EMOTICON.sub(lambda match: "x" * len(match[0]), line)
        line = _CITED.sub(",", line)
    characters = list(line)
    for index in _unpaired(line):
        # an opening mark begins a sentence, and a closing one ends it
        opens = not line[index - 1 : index].strip() and line[index + 1 : index + 2].strip()
        characters[index] = "X" if opens else " "
    return "".join(characters)


def _without_numbers(line: str) -> str:
    """The line with capitals in place of markers with a stop."""
    in_list = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal in_list
        in_list = in_list or match.start() == 0 or line[match.start() - 2 : match.start()].strip() in _BEFORE_LIST
        return _capitals(match) if in_list else match[0]

    for match in _later_items(line):
        line = line[: match.start()] + _capitals(match) + line[match.end() :]
    return _NUMBER.sub(replaced, line)


def _later_items(line: str) -> list[re.Match[str]]:
    """The markers of the items after the first of a list within a line, such as 2) and 3) after 1)."""
    items: list[re.Match[str]] = []
    following = ""
    for match in _ITEM_OF_LIST.finditer(line) if _LIST.search(line) else ():
        if match[1] == following:
            if not _WITHIN.search(line[: match.start()]):
                items.append(match)
        elif match[1] not in ("1", "a"):
            continue
        following = str(int(match[1]) + 1) if match[1].isdigit() else chr(ord(match[1]) + 1)
    return items


def _capitals(match: re.Match[str]) -> str:
    return re.sub(r"\S", "X", match[0])


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


def unseen_ends(line: str) -> set[int]:
    """Where sentences of a line begin after ends that the splitter does not see."""
    ends = [match.end() for match in _UNSEEN.finditer(line)]
    items = [match.start() for match in (*_BULLET.finditer(line), *_later_items(line))]
    for match in _ELLIPSIS.finditer(line):
        before = line[: match.start()].rstrip()[-1:]
        # a sentence in brackets follows another one, or begins the line
        if before.isalnum() if match[0][0] == "…" else before in ".!?":
            ends.append(match.end())
    for match in _UNIT.finditer(line):
        if _words_before(line, match.start() + 1) >= _LEAST_WORDS:
            ends.append(match.end())
    return {*items, *(end for end in ends if line[end : end + 2].lstrip('"“«(¿¡')[:1].isupper())}


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
        return True
    # what follows a hyphen or a comma belongs to the word before
    if re.match(r"[-,;][^\W_]|,", after):
        return False
    match = _LAST_WORD.search(before)
    name = match[1] if match else ""
    if before.endswith((" a.m.", " p.m.")) and _AFTER_TIME.match(after):
        return False
    # a year at the beginning of a sentence
    if name in _YEARS and before[:-2].rstrip()[-1:].isdigit() and _words_before(before, len(before) - 3) < _LEAST_WORDS:
        return False
    is_letter = len(name) == 1 and name.isalpha() and not re.match(f"[{IDEOGRAPHS}]", name)
    is_short = is_letter or _DOTTED.search(before) or _SHORTENED.search(before.rsplit(None, 1)[-1])
    if after[0].islower() and (is_short or (name.isdigit() and code != "en")):
        return False
    if after[0].isdigit() and code != "en" and _DOTTED.search(before):
        return False
    if name in _TITLES.get(code, "").split() or (after.lstrip("(")[:1].isdigit() and name in _NUMBERED):
        return False
    if code in _DANDA:
        # where sentences end with a stop, short words do too
        return not (0 < len(name) <= _MOST_TITLE and "।" in before + after)
    if code in _ORDINAL and after[0].isupper() and _ORDINAL[code].search(before):
        return False
    # an initial; English ones the library has
    return code == "en" or not (is_letter and not name.islower() and after[0].isalpha())
