"""Repair a text before its sentences are read: join split words, set headings apart, write capitals in lower case."""

import re

from .text_documents import readable
from .text_sentences import PARAGRAPHS, SENTENCE_START

# the largest number of characters that are read of a document, as no abstract is longer
MAX_READ = 20_000
# a word or compound that was split after a hyphen, as in "implemen- tation", but neither "pre- and post-war", nor a
# dash as in "a dog- the old one", nor charges of particles as in "e+ e- collisions" and "K- mesons"
_SPLIT_WORD = re.compile(
    r"(?P<hyphen>-?)(?<!\+)(?<!\+ )\b(?!(?:e|mu|tau|pi|rho|l|ell|K|B|D|W)\d?- )(?P<first>[^\W_]+)-(?: +| *\n *)"
    r"(?!(?:and|or|to|versus|vs|as|nor|through|than|but|a|an|the|which|that|who|where|when|while|if|from|with|without"
    r"|is|are|we|it)\s)(?P<second>[^\W_]+)\b"
)
# parts of compounds, which keep their hyphen
_FIRST_PARTS = re.compile(
    r"(?:self|non|semi|multi|pre|post|cross|co|well|high|low|long|short|large|small|two|three|four|one|zero|few|real"
    r"|fine|open|end|state|data|model|task|domain|graph|time|human|user|[a-zA-Z]|\d+)$"
)
_SECOND_PARTS = re.compile(
    r"(?:based|aware|free|driven|level|wise|like|specific|dependent|conditional|preserving|trained|tuned|scale|of)\b"
    # the second of three words, as in "decode-and-forward"
    r"|(?:and|or|to|the|in|by|on|for|at|up|as)-"
)
# a chemical symbol, as in "Na-ion", or the beginning of a name
_SHORT_NAME = re.compile(r"[A-Z][a-z]$")
_WORD = re.compile(r"[\w-]+")

# keywords after an abstract, up to a blank line
_KEYWORDS = re.compile(
    r"(?<=\S)\s+(?:Key[ -]?[Ww]ords(?: and [Pp]hrases)?|KEY[ -]?WORDS|Index Terms|INDEX TERMS)(?:\s*:|[—–-])"
    r"(?:(?!\n\s*\n).)*",
    re.S,
)
# a heading: a first line that does not end like a sentence, and the first word of the next line
_HEADING = re.compile(r"(?P<line>[^\n]*[\w)\"”]) *\n(?=(?P<word>[A-Z\[]\S*))")
# a first line that is not a heading, as it begins like a sentence, or ends within one
_BROKEN_SENTENCE = re.compile(
    r"(?:We|I|This|These|Our|In|It)\b|.*\b(?:of|the|an?|for|in|to|and|with|by|on|from|as|that|is|are)$"
)
# the largest number of words of a heading
_MAX_HEADING = 20

# a trace of quotation marks that were lost, as in "```````ADaptive"
_BACKQUOTES = re.compile(r"`{3,}")
# the first letter of a paragraph or sentence, with the end mark and the spaces before it
_FIRST_LETTER = re.compile(r"(?:^|[.!?]\s+)\w")


def repaired_text(text: str) -> str:
    """The beginning of a text, `readable` and with words joined that line ends split.

    A text in capitals gets lower case, except at the beginnings of sentences. Keywords after an abstract are left out.
    A heading in the first line becomes a paragraph.
    """
    text = _BACKQUOTES.sub("", readable(text).strip()[:MAX_READ])
    text = _with_heading_apart(_KEYWORDS.sub("", text))
    if text.isupper():
        # the words of the patterns are in lower case
        paragraphs = []
        for paragraph in PARAGRAPHS.split(text.lower()):
            paragraphs.append(_FIRST_LETTER.sub(lambda match: match.group().upper(), paragraph))
        text = "\n\n".join(paragraphs)
    return _with_parts_joined(text)


def _with_heading_apart(text: str) -> str:
    """A text with a blank line after a heading in its first line.

    A first line is not a heading if the next word would not have fit into it. It was then broken at the width of the
    text, which is that of its longest line.
    """
    heading = _HEADING.match(text)
    if heading is None or len(heading["line"].split()) > _MAX_HEADING or _BROKEN_SENTENCE.match(heading["line"]):
        return text
    width = max(len(line.rstrip()) for line in text.split("\n"))
    if len(f"{heading['line']} {heading['word']}") > width:
        return text
    return f"{heading['line']}\n\n{text[heading.end() :]}"


def _with_parts_joined(text: str) -> str:
    """A text in which words are joined that a hyphen and a line end, or a space in its place, split.

    This knows parts of English compounds. `text_documents.with_whole_words`, for texts in any language, does not.
    """
    whole_words = set(_WORD.findall(_SPLIT_WORD.sub(" ", text).lower()))

    def joined(split_word: re.Match) -> str:
        hyphen, first, second = split_word.groups()
        compound, word = f"{first}-{second}", f"{first}{second}"
        is_compound = (
            hyphen
            or compound.lower() in whole_words
            or _FIRST_PARTS.match(first)
            or _SECOND_PARTS.match(text, split_word.start("second"))
            or first.isupper()
            # at the beginning of a sentence, this may be a word such as "Recently"
            or (_SHORT_NAME.match(first) and not SENTENCE_START.search(text, 0, split_word.start()))
            or not second.islower()
        )
        if is_compound and word.lower() not in whole_words:
            return f"{hyphen}{compound}"
        return f"{hyphen}{word}"

    return _SPLIT_WORD.sub(joined, text)
