"""Split a text into sentences that can stand alone: join split words, remove typesetting, spell out acronyms.

In a text with "generative adversarial networks (GANs)", the later sentence "We train GANs." becomes "We train
generative adversarial networks (GANs)."
"""

import re

# the largest number of characters that are read, as no abstract is longer
_MAX_READ = 20_000
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

# an acronym in brackets, such as "(GANs)", "(LfD)" and "(G-CNN)"
_ACRONYM = re.compile(r"\s*\(([A-Z](?:[A-Za-z]|-(?=[A-Z]))*[A-Z]s?)\)")
# between two words of a long form; words such as "and" have no letter in "divide, conquer, and combine (DCC)"
_BETWEEN_WORDS = r",?[\s-]+(?:(?:a|an|the|of|for|from|in|on|to|by|with|and)\s+){0,2}"
# the largest number of characters before an acronym that may belong to its long form
_MAX_CHARACTERS = 200
# names, which keep their capital within a sentence
_NAME = re.compile(
    r"\w+ian\b|(?:Bayes|Boltzmann|Fisher|Fourier|Hilbert|Kalman|Markov|Monte|Nash|Shapley|Wasserstein)\b"
)
# text that ends where a sentence begins: it is empty, or ends with a sentence end and spaces
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+)$")
# a word that takes "an"
_VOWEL = re.compile(r"(?!eu|one\b|ubi|uni|us|ut)[aeiou]", re.I)

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
# keywords after an abstract, up to a blank line
_KEYWORDS = re.compile(
    r"(?<=\S)\s+(?:Key[ -]?[Ww]ords(?: and [Pp]hrases)?|KEY[ -]?WORDS|Index Terms|INDEX TERMS)(?:\s*:|[—–-])"
    r"(?:(?!\n\s*\n).)*",
    re.S,
)
# a heading: a first line that does not end like a sentence, and the first word of the next line
_HEADING = re.compile(r"(?P<line>[^\n]*[\w)\"”]) *\n(?=(?P<word>[A-Z\[]\S*))")
# a first line that is no heading, as it begins like a sentence, or ends within one
_BROKEN_SENTENCE = re.compile(
    r"(?:We|I|This|These|Our|In|It)\b|.*\b(?:of|the|an?|for|in|to|and|with|by|on|from|as|that|is|are)$"
)
# the largest number of words of a heading
_MAX_HEADING = 20

# a trace of quotation marks that were lost, as in "```````ADaptive"
_BACKQUOTES = re.compile(r"`{3,}")
_PARAGRAPHS = re.compile(r"\n\s*\n")
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
# the first letter of a text, sentence or paragraph, with the end mark and the spaces before it
_FIRST_LETTER = re.compile(r"(?:^|[.!?]\s+|\n\s*\n)\w")
# a text that ends with an abbreviation, or with an initial or a word of a journal's name, such as "Phys."
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|i\.i\.d|w\.r\.t|a\.k\.a|al|cf|vs|[Ff]igs?|[Ee]qs?|[Rr]efs?|[Ss]ecs?|resp|approx|viz|No|Dr|Prof|Mrs?|Mt|St)\.$"
)
_INITIAL = re.compile(r"\b(?:[A-Z]|Phys|Rev|Math|Nucl|Appl|Proc)\.$")
# words that begin a sentence, and follow no initial
_FIRST_WORD = re.compile(
    r"(?:We|The|This|These|It|Our|In|For|To|By|On|At|As|If|When|Using|Here|However|Moreover|Furthermore|Finally|Thus)\b"
)

# the first item of a list, such as "(1)", and a later one, such as "(2)", "(ii)" or "(b)"
FIRST_ITEM = re.compile(r"(?<!\w)\((?:1|i|a)\)\s")
LATER_ITEM = re.compile(r"(?<!\w)\((?:[2-9]|ii|iii|iv|v|vi|[b-f])\)\s")


def repaired_text(text: str) -> str:
    """The beginning of a text, with words joined that line ends split.

    A text in capitals gets lower case, except at the beginnings of sentences. Keywords after an abstract are left out.
    A heading in the first line becomes a paragraph.
    """
    text = _BACKQUOTES.sub("", text.strip()[:_MAX_READ])
    text = _with_heading_apart(_KEYWORDS.sub("", text))
    if text.isupper():
        # the words of the patterns are in lower case
        text = _FIRST_LETTER.sub(lambda match: match.group().upper(), text.lower())
    return with_whole_words(text)


def _with_heading_apart(text: str) -> str:
    """A text with a blank line after a heading in its first line.

    A first line is no heading if the next word would not have fit into it. It was then broken at the width of the text,
    which is that of its longest line.
    """
    heading = _HEADING.match(text)
    if heading is None or len(heading["line"].split()) > _MAX_HEADING or _BROKEN_SENTENCE.match(heading["line"]):
        return text
    width = max(len(line.rstrip()) for line in text.split("\n"))
    if len(f"{heading['line']} {heading['word']}") > width:
        return text
    return f"{heading['line']}\n\n{text[heading.end() :]}"


def with_whole_words(text: str) -> str:
    """A text in which words are joined that a hyphen and a line end, or a space in its place, split."""
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
            or (_SHORT_NAME.match(first) and not _SENTENCE_START.search(text, 0, split_word.start()))
            or not second.islower()
        )
        if is_compound and word.lower() not in whole_words:
            return f"{hyphen}{compound}"
        return f"{hyphen}{word}"

    return _SPLIT_WORD.sub(joined, text)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without traces of typesetting: labels, citations, emphasis.

    Checkpoints carry this code, so it does not use `hf_summ.data.split_sentences`, which needs sentencex.
    A paragraph that does not end with an end mark is taken for a heading and left out, unless it is the last paragraph.
    """
    paragraphs = _PARAGRAPHS.split(text)
    texts = [paragraph for paragraph in paragraphs[:-1] if paragraph.rstrip().endswith(_END_MARKS)]
    texts.append(paragraphs[-1])
    sentences = []
    for paragraph in texts:
        for sentence in _split(" ".join(paragraph.split())):
            plain = _CITATION.sub("", sentence)
            plain = _EMPHASIS.sub(r"\1\2", plain)
            plain = _LABEL.sub("", plain)
            if plain.strip(" .,;:-–—"):
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


def long_forms_of(text: str) -> dict[str, str]:
    """The long forms of the acronyms that stand in brackets after them, as in "mutual information (MI)".

    The words of a long form begin with the letters of its acronym. The plural of an acronym is given too, where adding
    "s" to the long form makes a plural.
    """
    long_forms: dict[str, str] = {}
    for definition in _ACRONYM.finditer(text):
        acronym = definition[1]
        letters = acronym.replace("-", "").removesuffix("s")
        words = _BETWEEN_WORDS.join(rf"{letter}\w*" for letter in letters)
        before = text[max(0, definition.start() - _MAX_CHARACTERS) : definition.start()]
        match = re.search(rf"(?<![\w-]){words}$", before, re.I)
        if match is None:
            continue
        long_form = " ".join(match.group().split())
        begins_sentence = _SENTENCE_START.search(before, 0, match.start())
        if begins_sentence and long_form[1:].islower() and not _NAME.match(long_form):
            long_form = long_form[0].lower() + long_form[1:]
        singular = acronym.removesuffix("s")
        if long_form.endswith("s") and not long_form.endswith(("is", "ss", "us")):
            # also in "deep neural networks (DNN)", as "a DNN" needs the singular
            long_forms.setdefault(f"{singular}s", long_form)
            continue
        long_forms.setdefault(singular, long_form)
        if not long_form.endswith(("h", "s", "x", "y")):
            long_forms.setdefault(f"{singular}s", f"{long_form}s")
    return long_forms


def with_long_forms(sentence: str, long_forms: dict[str, str]) -> str:
    """A sentence in which each acronym is spelled out where it stands first.

    An acronym stays if the sentence has its long form, or another form of it before, as in "GAN training of GANs".

    Args:
        sentence: a sentence of a text.
        long_forms: the long forms of the text's acronyms, as `long_forms_of` finds them.
    """
    for acronym, long_form in long_forms.items():
        if long_form.removesuffix("s").lower() in sentence.lower():
            continue
        # an acronym stays as a part of a word, before a bracket, and in a name such as "AI Act"
        use = re.search(rf"(?P<article>\b[Aa]n? )?(?<![\w\\/–-]){acronym}(?![\w/’'–-]| \(| [A-Z][a-z])", sentence)
        if use is None:
            continue
        before = sentence[: use.start()]
        is_in_brackets = before.count("(") > before.count(")")
        is_in_formula = before.count("$") % 2 == 1
        if is_in_brackets or is_in_formula or acronym.removesuffix("s") in before:
            continue
        article = use["article"] or ""
        if article:
            article = f"{article[0]}n " if _VOWEL.match(long_form) else f"{article[0]} "
        elif use.start() == 0:
            long_form = long_form[0].upper() + long_form[1:]
        sentence = f"{before}{article}{long_form} ({acronym}){sentence[use.end() :]}"
    return sentence
