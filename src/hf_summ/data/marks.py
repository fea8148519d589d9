"""Marks that other programs leave in texts: tags between sentences, subword marks, separators of corpora."""

import re
from collections import Counter
from collections.abc import Iterable

# from PreSumm, Pegasus, the pointer-generator network, bottom-up summarization, ProphetNet, UniLM and arXiv, and NeuSum
SENTENCE_TAGS = ("<q>", "<n>", "<s>", "</s>", "<t>", "</t>", "[X_SEP]", "<S_SEP>", "<S>", "</S>", "##SENT##")
_MULTI_NEWS = "--data_format multi_news reads it as in Multi-News"
_TOKEN = "remove it before scoring"
# a mark as it is shown -> characters without which no text has it, its pattern, and what to do about it
_MARKS = {
    "@@": ("@", r"(?<=\w)@@(?= )", "join subwords first: sed 's/@@ //g'"),
    "##": ("#", r"(?<=\s)##(?=[^\W\d_])(?!(?:st|nd|rd|th|s|SENT)\b)", "join subwords first: sed 's/ ##//g'"),
    "▁": ("▁", "▁(?![^<>]*｜>)", "join subwords first: sed 's/ //g; s/▁/ /g'"),
    "Ġ": ("Ġ", r"(?:^|(?<=\s))Ġ(?=\S)", "join subwords first: sed 's/ //g; s/Ġ/ /g'"),
    "</w>": ("<", "</w>", "join subwords first: sed 's/ //g; s#</w># #g'"),
    "￭": ("￭￨", "[￭￨]", "join tokens first: sed 's/ *￭ *//g; s/￨[^ ]*//g'"),
    "[UNK]": ("[<⁇", r"\[UNK\]|<unk>|⁇", "the model's unknown words, which match no reference"),
    "[PAD]": (
        "[<",
        r"\[(?:PAD|CLS|SEP|MASK|/?INST)\]|</?(?:pad|mask|bos|eos|(?:start|end)_of_turn)>|<\|\w+\|>|<｜[\w▁]+｜>"
        r"|<extra_id_\d+>",
        _TOKEN,
    ),
    "[unused1]": ("[", r"\[unused\d+\]", _TOKEN),
    "<think>": ("<", r"</?think(?:ing)?>", "a chain of thought, whose words are counted: remove it before scoring"),
    "-LRB-": ("-", r"-[LRlr][RCSrcs][Bb]-", "spell brackets first: sed 's/-LRB-/(/g; s/-RRB-/)/g'"),
    "NEWLINE_CHAR": ("_", r"NEWLINE_CHAR\b", _MULTI_NEWS),
    "|||||": ("|", r"\|\|\|\|\|", _MULTI_NEWS),
    "story_separator_special_tag": ("_", "story_separator_special_tag", _MULTI_NEWS),
    "<doc-sep>": ("<", r"<doc-sep>|</?d>", "a separator of documents: make them a list"),
    "&amp;": ("&", r"&(?:lt|gt|[a-z]{3,8}\d?|#\d+|#[xX][\da-fA-F]+);", "an escape of HTML: unescape the texts"),
    "<p>": (
        "<",
        r"(?i)</?(?:p|br|div|span|em|strong|[uo]l|li|h[1-6]|t[dr])(?:\s[^<>]*)?/?>|<a\s[^<>]*>|</a>",
        "a tag of HTML: remove it",
    ),
    "-->": (">", r"\d\d:\d\d[.,]\d{3} -->", "times of subtitles, which are read as words: remove them"),
    "\\n": ("\\", r"\\n(?=[A-Z\s\\])|\\u[\da-fA-F]{4}", "an escape of a line end or a letter: decode the texts"),
    "Ã©": ("ÂÃâ", r"[ÂÃ][\x80-\xbf]|â€", "UTF-8 that was read in another encoding: iconv -f utf-8 -t cp1252"),
    "ﬁ": ("ﬀﬁﬂﬃﬄ", "[ﬀ-ﬄ]", "a ligature of a PDF file, which divides words: sed 's/ﬁ/fi/g; s/ﬂ/fl/g; s/ﬀ/ff/g'"),
    "U+00AD": ("\xad", "\xad", "a soft hyphen, which divides words: remove it"),
    "U+200B": (
        "\u200b\u2060\ufeff",
        r"(?i)(?<=[a-zß-ÿа-яё])[\u200b\u2060\ufeff](?=[a-zß-ÿа-яё])",
        "a space without width, which divides words: remove it",
    ),
    "\ufffd": ("\ufffd", "\ufffd", "a letter that was lost in another encoding: convert the files again"),
    "**": (
        "*#",
        r"(?<!\w)\*\*(?=[^\s*])[^*\n]+\*\*(?!\w)|(?:\A|(?<=\n))#{1,6} \w+",
        "Markdown, whose headings and numbers of lists are counted as words: remove them before scoring",
    ),
    "Summary:": (
        ":：",
        r"\A\W*(?:(?:[Ss]ummary|Sure|TL;?DR|Zusammenfassung|R[ée]sum[ée]n?|Resumo|Riassunto|Samenvatting|摘要|总结|要約)\b"
        r"|Here(?:'s| is)\b[^.\n]{0,80}summary[^.\n]{0,40})\s*[:：]",
        "an introduction, whose words are counted: remove it before scoring",
    ),
}
# what no text has as words
_SEPARATORS = re.compile(r"NEWLINE_CHAR\b|\|{5}|story_separator_special_tag|<doc-sep>")


class Marks:
    """In how many texts each mark occurs, as `counts`, and its first form."""

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, text: str | list[str | None]) -> None:
        """Count the marks of a text, or of a row's list of texts."""
        texts = [text] if isinstance(text, str) else filter(None, text)
        # most texts have none of the characters, for which a search takes a hundredth of the pattern's time
        matches = {
            mark: match[0]
            for text in texts
            for mark, (characters, pattern, _) in _MARKS.items()
            if any(character in text for character in characters) and (match := re.search(pattern, text))
        }
        self.counts.update(matches.keys())
        self._first = {**matches, **self._first}

    def notes(self, name: str, number: int) -> list[str]:
        """A note of each mark in the `number` texts of this name, with the way to join or drop it."""
        counted = ((mark, self.counts[mark], advice) for mark, (*_, advice) in _MARKS.items() if mark in self._first)
        return [
            f"{name}: {count:,} of {number:,} texts contain {_shown(mark, self._first[mark])}: {advice}"
            for mark, count, advice in counted
        ]


def _shown(mark: str, form: str) -> str:
    """The form of a mark that occurs, unless a terminal does not show it."""
    return form if form.strip().isprintable() and len(form) < 80 else mark


def notes_on_marks(name: str, texts: Iterable[str | list[str | None]], number: int) -> list[str]:
    """A note of each mark in these texts, see `Marks.notes`."""
    marks = Marks()
    for text in texts:
        marks.add(text)
    return marks.notes(name, number)


def without_separators(text: str) -> str:
    """The text with line ends in place of a corpus's separators, which are no words."""
    return _SEPARATORS.sub("\n", text) if _SEPARATORS.search(text) else text
