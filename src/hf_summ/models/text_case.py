"""Case and spacing of summaries in lower case, restored from their documents.

A token is an ideograph, a run of letters and digits, or any other character but white space. The form of a token is
what all its spellings have in common: its characters in lower case, perhaps without accents. Two neighbors are joined
if no space is between them. A mark is a token that is not a word, other than a quotation mark or an apostrophe.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category, normalize

from .text_documents import IDEOGRAPHS, marks

# The two groups are the space before a token, and the token.
_TOKEN = re.compile(rf"(\s*)([{IDEOGRAPHS}]|(?:[^\W_{IDEOGRAPHS}]+[{marks()}]*)+|\S)")
# A period after one of these words, or after a single letter, does not end a sentence.
_ABBREVIATIONS = frozenset("al cf dr eq fig figs gen gov jr lt mr mrs ms no prof rep rev sen sgt sr st vs".split())
_APOSTROPHES = ("'", "’")
_HYPHENS = ("-", "‑")
_QUOTES = ('"', "'", "’", "‘", "“", "”")
# The letters of a clitic after an apostrophe, such as the s of "it's".
_CLITIC = r"(?:s|t|d|m|ll|re|ve)\b"
_LETTER = r"[^\W\d_]"
# A Chinese or Japanese character or punctuation mark, which has no spaces beside it.
_UNSPACED = rf"[{IDEOGRAPHS}\u3001-\u303f\uff01-\uff65]"
# This pattern matches each space that English does not have, in a text whose tokens are all separated by one space.
# Quotation marks are missing here, as the same mark may open and close: `_QUOTED` matches their pairs.
_SUPERFLUOUS = re.compile(
    "|".join(
        (
            # Before closing marks and after opening marks, as in ( bert ) , 95 %
            r" (?=[.,;:?!)\]}%’”…])",
            r"(?<=[(\[{‘“]) |(?<=[$£€]) (?=\d)",
            # Around hyphens and slashes between words, except in pre - and post-war, and around dashes: bert - a model
            r"(?<=[^\W_]) (?=[-‑/] (?!(?:an?|the) [^-])[^\W_])",
            r"(?<=[^\W_] [-‑/]) (?!(?:and|or|an?|the) [^-])(?=[^\W_])",
            # Within numbers and times, as in 4 . 5 and 3 , 000 and 7 : 15
            r"(?<=\d [.:]) (?=\d)|(?<=\d ,) (?=\d{3}\b)",
            # Within e . g .
            rf"(?<=\b{_LETTER} \.) (?={_LETTER} \.)",
            # At apostrophes, as in model ' s and models ' and d ' alembert
            rf"(?<={_LETTER}) (?=' {_CLITIC})|(?<={_LETTER} ['’]) (?={_CLITIC})",
            rf"(?<=s) (?=' )|(?<=\b{_LETTER}) (?=' {_LETTER})|(?<=\b{_LETTER} ['’]) (?={_LETTER})",
            # Beside Chinese and Japanese characters
            rf" (?={_UNSPACED})|(?<={_UNSPACED}) ",
        )
    )
)
# A quotation with a space inside each of two marks, such as " so ". An apostrophe before a clitic, or after the d or l
# of d'alembert, is not a quotation mark.
_QUOTED = re.compile(rf"\" [^\"]* \"|(?<!\b[dlo] )' (?!{_CLITIC})[^']* '(?! {_CLITIC})")


def restored(
    summaries: Sequence[str], documents: Sequence[str], strips_accents: bool = True, is_split: bool = True
) -> list[str]:
    """Restore the case and spacing of an example's summaries from its documents, and begin sentences with a capital.

    A word gets its most frequent spelling in the documents, in lower case if two spellings are equally frequent.
    Occurrences of the word beside the same neighbors as in the summary take precedence: occurrences with two such
    neighbors come first, then occurrences with one. So the words of a term such as `Large Language Models` get capitals
    together, even if the documents also have `models` alone.

    The spelling of the first word of a sentence counts if it begins a term such as `Neural Networks`. Otherwise it
    counts only if the word does not occur elsewhere in the documents. It is then put in lower case, unless a later
    letter is a capital, as in `iPhone`. Words that the documents lack are not changed. A space between two tokens is
    removed if the documents mostly have no space between the same tokens; no space is added. Each sentence of a summary
    begins with a capital, unless it begins with a word such as `iPhone`, or with ß or a ligature.

    Args:
        summaries: texts in lower case.
        documents: the documents of the example.
        strips_accents: whether the vocabulary has no accents, so that `naïve` in a document is a spelling of `naive`.
        is_split: whether the tokenizer puts spaces around punctuation. A space between two tokens that are no
            neighbors in the documents is then removed where English has none.

    Returns:
        The restored summaries, in the same order. They differ from `summaries` only in case, accents and white space.
    """
    tokenized = [_tokens(summary, strips_accents) for summary in summaries]
    vocabulary: set[str] = set()
    for tokens in tokenized:
        vocabulary.update(token.form for token in tokens)
    usage = _Usage(documents, vocabulary, strips_accents)
    return [_written(tokens, usage, is_split) for tokens in tokenized]


# A context of a token: the forms of two neighbors, one neighbor or none, in the order of the text, with an empty string
# in the place of the token.
_Context = tuple[str, ...]
# A neighbor that a space separates from the token belongs to the same term only if it has at least so many letters.
_LONG = 4
# The context without neighbors, which every token has.
_ANYWHERE: list[_Context] = [("",)]


class _Token(NamedTuple):
    """A token of a text.

    Attributes:
        space: the white space before the token; empty if the token is joined to the token before.
        text: the characters of the token in the text.
        form: what all spellings of the token have in common: the characters in lower case, perhaps without accents.
    """

    space: str
    text: str
    form: str


def _tokens(text: str, strips_accents: bool) -> list[_Token]:
    """The tokens of a text, in order; forms have no accents if `strips_accents`. White space at the end is dropped."""
    # Spaces at the end are removed first: a search that fails at the last spaces would begin again at each space.
    matches = _TOKEN.findall(text.rstrip())
    return [_Token(space, token, _form(token, strips_accents)) for space, token in matches]


@lru_cache(2**16)
def _form(token: str, strips_accents: bool) -> str:
    """The form of a token, given its characters; it has no accents if `strips_accents`."""
    if token.isascii():
        return token.lower()
    if strips_accents:
        letters = [letter for letter in normalize("NFD", token) if category(letter) != "Mn"]
        token = "".join(letters)
    # Case folding would make the letter ß ss, and the ligature ﬁ two letters: these are other spellings.
    letters = []
    for letter in normalize("NFC", token):
        folded = letter.casefold()
        letters.append(folded if len(folded) == 1 else letter.lower())
    return "".join(letters)


class _Usage:
    """How the documents of an example spell and space the tokens whose form is in `vocabulary`.

    Attributes:
        joined: forms of two neighbors -> the number of times that they are joined, minus the number of times that a
            space separates them.
        spaced_marks: form of a token, form of a mark after it, form of the token that is joined to the mark, as in
            `on .NET` -> the number of times that a space precedes the mark, minus the number of times that no space
            does. An empty string as the first form stands for any token.
    """

    def __init__(self, documents: Sequence[str], vocabulary: set[str], strips_accents: bool):
        self.joined: Counter[tuple[str, str]] = Counter()
        self.spaced_marks: Counter[tuple[str, str, str]] = Counter()
        # Form -> the number of times of each spelling as the first word of a sentence.
        self._initial: dict[str, Counter[str]] = defaultdict(Counter)
        # Form of a token, a context of the token (see `_contexts`) -> the number of times of each spelling elsewhere.
        self._spellings: dict[tuple[str, _Context], Counter[str]] = defaultdict(Counter)
        for document in documents:
            tokens = _tokens(document, strips_accents)
            for index, is_initial in enumerate(_sentence_starts(tokens)):
                if tokens[index].form in vocabulary:
                    self._count_spacing(tokens, index)
                    self._count_spelling(tokens, index, is_initial)

    def _count_spacing(self, tokens: Sequence[_Token], index: int) -> None:
        """Count whether a space precedes a token and, if the token is joined to a mark before it, the mark.

        Args:
            tokens: the tokens of a document.
            index: the index of the token.
        """
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
        """Count the spelling of a token of a document.

        Args:
            tokens: the tokens of the document.
            index: the index of the token.
            is_initial: whether the token is the first word of a sentence.
        """
        token = tokens[index]
        if is_initial:
            self._initial[token.form][token.text] += 1
        begins_term = len(token.form) >= _LONG and _next_word(tokens, index)[:1].isupper()
        for contexts in _contexts(tokens, index):
            for context in contexts:
                # The capital of a sentence's first word says nothing, unless the next word has a capital too, as in
                # `Neural Networks are`. Then the spelling counts before the same words. Words such as `In` are shorter.
                before_same_words = context[0] == "" and context[-1].isalnum()
                if not is_initial or (begins_term and before_same_words):
                    self._spellings[token.form, context][token.text] += 1

    def keeps_space(self, tokens: Sequence[_Token], index: int) -> bool:
        """Whether the space before a token of a summary is kept, as the token is a mark that belongs to the next token.

        The mark belongs to the next token if the documents mostly have a space before the mark and none after it, as in
        `on .NET`.

        Args:
            tokens: the tokens of the summary.
            index: the index of the token.
        """
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
        """The spelling that a token of a summary has in the documents, as `restored` describes.

        Args:
            tokens: the tokens of the summary.
            index: the index of the token.

        Returns:
            The spelling. If the documents do not have the token, it is the spelling in the summary.
        """
        token = tokens[index]
        is_clitic = index > 0 and not token.space and tokens[index - 1].form in _APOSTROPHES
        for contexts in _contexts(tokens, index):
            # The S of U.S. is not a spelling of the s in model's, so occurrences elsewhere do not count after an
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


def _next_word(tokens: Sequence[_Token], index: int) -> str:
    """The word after a token, or an empty string if no word follows; a hyphen may join the two."""
    after = [token.text for token in tokens[index + 1 : index + 3]]
    if len(after) == 2 and after[0] in _HYPHENS:
        return after[1]
    return after[0] if after else ""


def _is_mark(form: str) -> bool:
    """Whether a token with this form is a mark: no word, quotation mark or apostrophe."""
    return not form[:1].isalnum() and form not in _QUOTES


def _most_frequent(spellings: Counter[str]) -> str:
    """The most frequent spelling; of equally frequent spellings, the last in the order of strings.

    Args:
        spellings: spelling -> number of times; not empty.
    """
    # Small letters come after capitals in the order of strings, so lower case is preferred.
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling))


def _contexts(tokens: Sequence[_Token], index: int) -> list[list[_Context]]:
    """The contexts of a token in three groups; earlier groups say more about its spelling.

    The first group has pairs of neighbors: the two tokens before, one on each side, and the two tokens after. The
    second has single neighbors that are joined to the token or long enough to belong to a term, unlike `the`. The third
    has the context without neighbors.

    Args:
        tokens: the tokens of a text.
        index: the index of the token.
    """
    forms = [token.form for token in tokens[max(index - 2, 0) : index + 3]]
    # The index of the token in `forms`.
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
    """Yield for each token of a text whether the token is the first word of a sentence."""
    # Whether the next word is the first word of a sentence.
    is_start = True
    # Whether the last stop (. ? or !) ends a sentence if a space follows, and whether this stop is a period.
    ends = False
    is_period = True
    # The last word.
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
    """Write a summary with the spacing and spelling of the documents, and a capital at the beginning of each sentence.

    Args:
        tokens: the tokens of the summary.
        usage: how the documents spell and space these tokens.
        is_split: as for `restored`.
    """
    spaced = _with_spacing(tokens, usage, is_split)
    spelled = []
    for index, token in enumerate(spaced):
        spelled.append(token._replace(text=usage.spelling(spaced, index)))
    pieces = []
    for token, is_start in zip(spelled, _sentence_starts(spelled), strict=True):
        text = token.text
        if is_start and text == text.lower():
            capital = text[0].title()
            # The capitals of ß and of ligatures are two letters.
            if len(capital) == 1:
                text = capital + text[1:]
        pieces.append(token.space + text)
    return "".join(pieces)


def _with_spacing(tokens: Sequence[_Token], usage: _Usage, is_split: bool) -> list[_Token]:
    """The tokens of a summary, without the spaces that the documents do not have.

    With `is_split`, a space between two tokens that are not neighbors in the documents, or are joined there as often as
    not, is removed where English has none.
    """
    superfluous = _superfluous(tokens) if is_split else set()
    spaced = list(tokens)
    for index in range(1, len(tokens)):
        before, token = tokens[index - 1], tokens[index]
        # This is above 0 if the documents mostly join the two tokens.
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
    """The indices of the tokens before which English has no space.

    The superfluous spaces are found in a text that joins the forms of all tokens by single spaces.
    """
    text = " ".join([token.form for token in tokens])
    # The positions of superfluous spaces in this text.
    spaces = {match.start() for match in _SUPERFLUOUS.finditer(text)}
    for match in _QUOTED.finditer(text):
        # The spaces outside a quotation stay, and those inside its marks go.
        spaces -= {match.start() - 1, match.end()}
        spaces |= {match.start() + 1, match.end() - 2}
    indices = set()
    # The position of the token in the text.
    start = 0
    for index, token in enumerate(tokens):
        if start - 1 in spaces:
            indices.add(index)
        start += len(token.form) + 1
    return indices
