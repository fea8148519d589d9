"""Case and spacing of summaries in lower case, restored from their documents."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category, normalize

from .text_documents import IDEOGRAPHS, marks

# The two groups are the space before a token, and the token: an ideograph, a run of letters and digits, or any other
# character.
_TOKEN = re.compile(rf"(\s*)([{IDEOGRAPHS}]|(?:[^\W_{IDEOGRAPHS}]+[{marks()}]*)+|\S)")
# A period after one of these words, or after a single letter, does not end a sentence.
_ABBREVIATIONS = frozenset("al cf dr eq fig figs gen gov jr lt mr mrs ms no prof rep rev sen sgt sr st vs".split())
_APOSTROPHES = ("'", "’")
_QUOTES = ('"', "'", "’", "‘", "“", "”")
_CLITIC = r"(?:s|t|d|m|ll|re|ve)\b"
_LETTER = r"[^\W\d_]"
# Chinese and Japanese characters, and their punctuation, which have no spaces beside them
_UNSPACED = rf"[{IDEOGRAPHS}\u3001-\u303f\uff01-\uff65]"
# This pattern matches each space that English does not have, in a text whose tokens are all separated by one space.
# Quotation marks are missing here, as the same mark may open and close: `_QUOTED` matches their pairs.
_SUPERFLUOUS = re.compile(
    "|".join(
        (
            # before closing marks and after opening ones, as in ( bert ) , 95 %
            r" (?=[.,;:?!)\]}%’”…])",
            r"(?<=[(\[{‘“]) |(?<=[$£€]) (?=\d)",
            # around hyphens and slashes between words, except in pre - and post-war, and around dashes: bert - a model
            r"(?<=[^\W_]) (?=[-‑/] (?!(?:an?|the) [^-])[^\W_])",
            r"(?<=[^\W_] [-‑/]) (?!(?:and|or|an?|the) [^-])(?=[^\W_])",
            # within numbers and times, as in 4 . 5 and 3 , 000 and 7 : 15
            r"(?<=\d [.:]) (?=\d)|(?<=\d ,) (?=\d{3}\b)",
            # within e . g .
            rf"(?<=\b{_LETTER} \.) (?={_LETTER} \.)",
            # at apostrophes, as in model ' s and models ' and d ' alembert
            rf"(?<={_LETTER}) (?=' {_CLITIC})|(?<={_LETTER} ['’]) (?={_CLITIC})",
            rf"(?<=s) (?=' )|(?<=\b{_LETTER}) (?=' {_LETTER})|(?<=\b{_LETTER} ['’]) (?={_LETTER})",
            # beside Chinese and Japanese characters
            rf" (?={_UNSPACED})|(?<={_UNSPACED}) ",
        )
    )
)
# A quotation, with a space inside each of its marks. An apostrophe before or after a clitic is no quotation mark.
_QUOTED = re.compile(rf"\" [^\"]* \"|(?<!\b[dlo] )' (?!{_CLITIC})[^']* '(?! {_CLITIC})")


def restored(
    summaries: Sequence[str], documents: Sequence[str], strips_accents: bool = True, is_split: bool = True
) -> list[str]:
    """Restore the case and spacing of an example's summaries from its documents, and begin sentences with a capital.

    A word gets its most frequent spelling in the documents, in lower case if two are equally frequent. Occurrences
    beside the same neighbors take precedence, those beside two before those beside one. So the words of a term such as
    `Large Language Models` get capitals together, even if the documents also write `models` alone.
    The first word of a sentence in the documents counts only if the word does not occur elsewhere. It is then put in
    lower case, unless a later letter of it is a capital. Words that the documents lack stay as they are. A space
    between two tokens is removed if the documents mostly have none between them; no space is added. Each sentence of
    a summary begins with a capital, unless it begins with a word such as `iPhone`.

    Args:
        summaries: texts in lower case.
        documents: the documents of the example.
        strips_accents: whether the vocabulary has no accents, so that `naïve` in a document is a spelling of `naive`.
        is_split: whether the tokenizer puts spaces around punctuation. A space between two tokens that are no
            neighbors in the documents is then removed where English has none.

    Returns:
        The summaries, which differ only in case, accents and white space.
    """
    tokenized = [_tokens(summary, strips_accents) for summary in summaries]
    vocabulary: set[str] = set()
    for tokens in tokenized:
        vocabulary.update(token.form for token in tokens)
    usage = _Usage(documents, vocabulary, strips_accents)
    return [_written(tokens, usage, is_split) for tokens in tokenized]


# The forms of a token's neighbors in the order of the text, with an empty string in the place of the token.
_Context = tuple[str, ...]
# the letters of a neighbor that may belong to the same term
_LONG = 4
# the context of all tokens
_ANYWHERE: list[_Context] = [("",)]


class _Token(NamedTuple):
    """A token of a text.

    Attributes:
        space: the white space before it; empty if it is joined to the token before.
        text: its characters.
        form: what all its spellings have in common: its characters in lower case, perhaps without accents.
    """

    space: str
    text: str
    form: str


def _tokens(text: str, strips_accents: bool) -> list[_Token]:
    # Spaces at the end are removed first: a search that fails at the last spaces would begin again at each of them.
    matches = _TOKEN.findall(text.rstrip())
    return [_Token(space, token, _form(token, strips_accents)) for space, token in matches]


@lru_cache(2**16)
def _form(token: str, strips_accents: bool) -> str:
    """The form of a token, which all its spellings share."""
    if token.isascii():
        return token.lower()
    if strips_accents:
        letters = [letter for letter in normalize("NFD", token) if category(letter) != "Mn"]
        token = "".join(letters)
    return normalize("NFC", token).casefold()


class _Usage:
    """How the documents of an example spell and space the tokens whose form is in `vocabulary`.

    Attributes:
        joined: forms of two neighbors -> the number of times that they are joined, minus the number of times that a
            space separates them.
        spaced_marks: form of a token, form of a mark after it, form of the token that is joined to the mark, as in
            `on .NET` -> the number of times that a space precedes the mark, minus the number of times that none does.
            An empty string as the first form stands for any token.
    """

    def __init__(self, documents: Sequence[str], vocabulary: set[str], strips_accents: bool):
        self.joined: Counter[tuple[str, str]] = Counter()
        self.spaced_marks: Counter[tuple[str, str, str]] = Counter()
        # form -> spellings as the first word of a sentence
        self._initial: dict[str, Counter[str]] = defaultdict(Counter)
        # (form, one of its contexts, see `_contexts`) -> spellings elsewhere in sentences
        self._spellings: dict[tuple[str, _Context], Counter[str]] = defaultdict(Counter)
        for document in documents:
            tokens = _tokens(document, strips_accents)
            for index, is_initial in enumerate(_sentence_starts(tokens)):
                if tokens[index].form in vocabulary:
                    self._count_spacing(tokens, index)
                    self._count_spelling(tokens, index, is_initial)

    def _count_spacing(self, tokens: Sequence[_Token], index: int) -> None:
        """Count the space before a token and, if the token is joined to a mark, the space before that mark."""
        if index == 0:
            return
        before, token = tokens[index - 1], tokens[index]
        if token.space:
            self.joined[before.form, token.form] -= 1
            return
        self.joined[before.form, token.form] += 1
        if not _is_mark(before.form):
            return
        is_spaced = index == 1 or before.space != ""
        change = 1 if is_spaced else -1
        self.spaced_marks["", before.form, token.form] += change
        first = tokens[index - 2].form if index > 1 else ""
        if first:
            self.spaced_marks[first, before.form, token.form] += change

    def _count_spelling(self, tokens: Sequence[_Token], index: int, is_initial: bool) -> None:
        token = tokens[index]
        if is_initial:
            self._initial[token.form][token.text] += 1
            return
        for contexts in _contexts(tokens, index):
            for context in contexts:
                self._spellings[token.form, context][token.text] += 1

    def keeps_space(self, tokens: Sequence[_Token], index: int) -> bool:
        """Whether the documents have a space before this token, which is a mark that belongs to the token after it."""
        is_inside = 0 < index < len(tokens) - 1
        if not is_inside or not _is_mark(tokens[index].form):
            return False
        before, mark, after = tokens[index - 1].form, tokens[index].form, tokens[index + 1].form
        difference = self.spaced_marks[before, mark, after]
        if difference:
            return difference > 0
        is_decimal_point = before[-1:].isdigit() and after[:1].isdigit()
        return not is_decimal_point and self.spaced_marks["", mark, after] > 0

    def spelling(self, tokens: Sequence[_Token], index: int) -> str:
        """The spelling of a token of a summary in the documents; if they lack it, the token's own characters."""
        token = tokens[index]
        is_clitic = index > 0 and not token.space and tokens[index - 1].form in _APOSTROPHES
        for contexts in _contexts(tokens, index):
            # The S of U.S. is no spelling of the s in model's, so occurrences elsewhere do not count after an
            # apostrophe.
            if is_clitic and contexts == _ANYWHERE:
                continue
            counts: Counter[str] = Counter()
            for context in contexts:
                counts.update(self._spellings.get((token.form, context), ()))
            if counts:
                return _most_frequent(counts)
        if token.form not in self._initial:
            return token.text
        initial = _most_frequent(self._initial[token.form])
        has_later_capital = initial[1:] != initial[1:].lower()
        if has_later_capital:
            return initial
        return initial.lower()


def _is_mark(form: str) -> bool:
    """Whether a token is a mark, other than a quotation mark or an apostrophe."""
    return not form[:1].isalnum() and form not in _QUOTES


def _most_frequent(spellings: Counter[str]) -> str:
    """The most frequent spelling; of equally frequent ones, the last in the order of strings."""
    # Small letters come after capitals in that order, so ties are resolved in favor of lower case.
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling))


def _contexts(tokens: Sequence[_Token], index: int) -> list[list[_Context]]:
    """The contexts of a token, in groups of which the first says most about its spelling.

    The first group has pairs of neighbors. The second has single neighbors that are joined to the token or that are
    long enough to belong to a term, unlike `the`. The last has the context that every token has.
    """
    forms = [token.form for token in tokens[max(index - 2, 0) : index + 3]]
    position = min(index, 2)
    pairs: list[_Context] = []
    for start in range(position - 2, position + 1):
        window = range(start, start + 3)
        if start >= 0 and start + 3 <= len(forms):
            pairs.append(tuple("" if place == position else forms[place] for place in window))
    neighbors: list[_Context] = []
    if position > 0 and (not tokens[index].space or len(forms[position - 1]) >= _LONG):
        neighbors.append((forms[position - 1], ""))
    if position + 1 < len(forms) and (not tokens[index + 1].space or len(forms[position + 1]) >= _LONG):
        neighbors.append(("", forms[position + 1]))
    return [pairs, neighbors, _ANYWHERE]


def _sentence_starts(tokens: Sequence[_Token]) -> Iterator[bool]:
    """Yield for each token whether it is the first word of a sentence."""
    is_start = True
    # Whether the last mark ends a sentence if a space follows, and whether that mark is a period.
    ends, is_period = False, True
    word = ""
    for token in tokens:
        is_start = is_start or (ends and token.space != "") or "\n\n" in token.space
        is_word = token.text[0].isalnum()
        yield is_start and is_word
        if is_word:
            is_start = ends = False
            word = token.text
        elif token.text in ".?!":
            is_period = token.text == "."
            is_initial = word.isalpha() and len(word) == 1
            is_abbreviation = is_initial or (word.isalpha() and word.lower() in _ABBREVIATIONS)
            ends = not (is_period and is_abbreviation)
        elif token.text not in ")]":
            # Only a quotation mark may stand between the end of a sentence and the next one. After a quoted question or
            # exclamation, the sentence may continue with who says it.
            ends = ends and is_period and token.text in "\"'”’"


def _written(tokens: Sequence[_Token], usage: _Usage, is_split: bool) -> str:
    """A summary with the documents' spacing and spelling, and a capital at the beginning of each sentence."""
    spaced = _with_spacing(tokens, usage, is_split)
    spelled = []
    for index, token in enumerate(spaced):
        spelled.append(token._replace(text=usage.spelling(spaced, index)))
    pieces = []
    for token, is_start in zip(spelled, _sentence_starts(spelled), strict=True):
        text = token.text
        if is_start and text == text.lower():
            text = text[0].title() + text[1:]
        pieces.append(token.space + text)
    return "".join(pieces)


def _with_spacing(tokens: Sequence[_Token], usage: _Usage, is_split: bool) -> list[_Token]:
    """The tokens of a summary, without the spaces that the documents or, with `is_split`, English do not have."""
    superfluous = _superfluous(tokens) if is_split else set()
    spaced = list(tokens)
    for index in range(1, len(tokens)):
        before, token = tokens[index - 1], tokens[index]
        difference = usage.joined[before.form, token.form]
        if '"' in (before.form, token.form) or difference == 0:
            # A straight quotation mark may open or close a quotation, so its other occurrences say nothing.
            is_joined = index in superfluous
        else:
            is_joined = difference > 0
        if is_joined and not usage.keeps_space(tokens, index):
            spaced[index] = token._replace(space="")
    return spaced


def _superfluous(tokens: Sequence[_Token]) -> set[int]:
    """The indices of the tokens before which English has no space."""
    text = " ".join([token.form for token in tokens])
    spaces = {match.start() for match in _SUPERFLUOUS.finditer(text)}
    for match in _QUOTED.finditer(text):
        # The spaces outside a quotation stay, and those inside its marks go.
        spaces -= {match.start() - 1, match.end()}
        spaces |= {match.start() + 1, match.end() - 2}
    indices = set()
    start = 0
    for index, token in enumerate(tokens):
        if start - 1 in spaces:
            indices.add(index)
        start += len(token.form) + 1
    return indices
