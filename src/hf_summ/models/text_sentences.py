"""Split a text into sentences, without traces of typesetting."""

import re

# a citation, as in "(Lopez et al., 2009)", "[3, 4]" and "~\cite{a}"
_CITATION = re.compile(
    r"\s+\([^()]{0,200}(?:\bet al\b|[A-Z][^()]{0,200}\b(?:19|20)\d\d[a-z]?(?=[);]))[^()]{0,200}\)"
    # a number in brackets, but not in "the results of [1]", and not the interval [0, 1]
    r"|(?<!\bof)(?<!\bin)(?<!\bby)(?<!\bto)(?<!\bfrom)(?<!\band)(?<!\bwith)\s+\[[1-9]\d*(?:\s?[,;–-]\s?\d+)*\]"
    r"|(?<!\bof)(?<!\bin)(?<!\bby)(?<!\bto)(?<!\bfrom)(?<!\band)(?<!\bwith)[\s~]+\\cite\w*\{[^{}]{0,200}\}"
)
# emphasis in LaTeX: \emph{word} and {\em word}
_EMPHASIS = re.compile(r"\\(?:emph|textit|textbf|textsc|text)\{([^{}]*)\}|\{\\(?:em|it|bf|sc)\s+([^{}]*)\}")
_LABELS = (
    r"(?:Abstract|Background|Context|Objectives?|Aims?|Purpose|Motivation|Questions?|Introduction|Materials?|Design"
    r"|Approach|Methods?|Methodology|Results?|Findings|Conclusions?|Discussion|Summary|Significance|Contributions?"
    r"|Limitations?|Implications?|Availability|Implementation)"
)
# the label of a part of a structured abstract, such as "BACKGROUND:", "Results and Discussion." or "[Methods:]"
_LABEL = re.compile(
    rf"^(?:{_LABELS}(?: (?:and|&) {_LABELS})?(?:\s*[:.—–]\s*|\s+-\s+)|\[{_LABELS}(?: and {_LABELS})?:?\]:?\s*)", re.I
)

PARAGRAPHS = re.compile(r"\n\s*\n")
_WORD_CHARACTER = re.compile(r"\w")
# how a sentence ends: with an end mark, perhaps in a quotation or in brackets
_END_MARKS = tuple(
    """
    . ! ? 。 ！ ？
    ." .” .' .’ !" !” !' !’ ?" ?” ?' ?’
    .)
    """.split()
)
# one period too many, as in "Lopez et al.."
_TWO_PERIODS = re.compile(r"(?<=\w)\.\.$")
# a name that begins in lower case, such as "iPhone" and "e5-omni"
_LOWER_NAME = r"[a-z]+[A-Z]|[a-z]\d[\w-]* [a-z]+s\b"
# the boundary between two sentences: spaces after an end mark, or the place after a Chinese or Japanese end mark
_SENTENCE_BOUNDARY = re.compile(
    rf"(?<=[\w)\]$}}'\"”’%*+>][.!?])\s+(?=[A-Z\\$\"“(]|\[[A-Z][a-z]+:?\]|{_LOWER_NAME})|(?<=[。！？])"
    # after a quotation, and after the period of "et al." before another one
    r"|(?<=\w[.!?][\"”'’])\s+(?=[A-Z])|(?<=\w\.\.)\s+(?=[A-Z])"
    # before a number of things, as in "... of our method. 16 readers ..."
    r"|(?<=[a-z]{5}\.)\s+(?=\d[\d,]* [a-z]{3,})"
)
# a text that ends with an abbreviation, or with an initial or a word of a journal's name, such as "Phys."
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|i\.i\.d|w\.r\.t|a\.k\.a|al|cf|vs|[Ff]igs?|[Ee]qs?|[Rr]efs?|[Ss]ecs?|resp|approx|viz|No|Dr|Prof|Mrs?|Mt|St)\.$"
)
_INITIAL = re.compile(r"\b(?:[A-Z]|Phys|Rev|Math|Nucl|Appl|Proc)\.$")
# words that begin a sentence, and follow no initial
_FIRST_WORD = re.compile(
    r"(?:We|The|This|These|It|Our|In|For|To|By|On|At|As|If|When|Using|Here|However|Moreover|Furthermore|Finally|Thus)\b"
)
# text that ends where a sentence begins: it is empty, or ends with a sentence end and spaces
SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+)$")
# the first item of a list, such as "(1)", and a later one, such as "(2)", "(ii)" or "(b)"
FIRST_ITEM = re.compile(r"(?<!\w)\((?:1|i|a)\)\s")
LATER_ITEM = re.compile(r"(?<!\w)\((?:[2-9]|ii|iii|iv|v|vi|[b-f])\)\s")


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without traces of typesetting: labels, citations, emphasis.

    Checkpoints carry this code, so it does not use `hf_summ.data.split_sentences`, which needs sentencex.
    A paragraph that does not end with an end mark is taken for a heading and left out, unless it is the last paragraph.
    """
    paragraphs = PARAGRAPHS.split(text)
    texts = [paragraph for paragraph in paragraphs[:-1] if paragraph.rstrip().endswith(_END_MARKS)]
    texts.append(paragraphs[-1])
    sentences = []
    for paragraph in texts:
        for sentence in _split(" ".join(paragraph.split())):
            plain = _CITATION.sub("", sentence)
            plain = _EMPHASIS.sub(r"\1\2", plain)
            plain = _LABEL.sub("", plain)
            if _WORD_CHARACTER.search(plain):
                sentences.append(finished(plain))
    return sentences


def _split(paragraph: str) -> list[str]:
    """Split a paragraph into its sentences.

    The period of an abbreviation or an initial does not end a sentence, and neither does that of an item if
    another one follows in a list that began within a sentence.
    """
    sentences: list[str] = []
    ending = ""
    for part in _SENTENCE_BOUNDARY.split(paragraph):
        continues_initial = _INITIAL.search(ending) and not _FIRST_WORD.match(part)
        # a list begins within a sentence, as in "two results: (1) ..."
        continues_list = sentences and LATER_ITEM.match(part) and FIRST_ITEM.search(sentences[-1], 1)
        if sentences and (continues_initial or continues_list or _ABBREVIATION.search(ending)):
            sentences[-1] = f"{sentences[-1]} {part}"
        else:
            sentences.append(part)
        ending = part[-10:]
    return sentences


def finished(text: str) -> str:
    """A text as a sentence: with a capital at its beginning and an end mark, which are added where they lack."""
    text = capitalized(_TWO_PERIODS.sub(".", text.rstrip(" ,;:-–—")))
    if text.endswith(_END_MARKS):
        return text
    return f"{text}."


def capitalized(text: str) -> str:
    """A text whose first letter is a capital, unless it begins with a name such as "iPhone"."""
    if re.match(_LOWER_NAME, text):
        return text
    return text[:1].upper() + text[1:]
