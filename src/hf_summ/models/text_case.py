"""Case and spacing of summaries in lower case, restored from their documents."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from unicodedata import category, normalize

from .text_documents import IDEOGRAPHS, marks

# the space before a token, and the token: an ideograph, a run of letters and digits, or another character
_TOKEN = re.compile(rf"(\s*)([{IDEOGRAPHS}]|(?:[^\W_{IDEOGRAPHS}]+[{marks()}]*)+|\S)")
_Tokens = Sequence[tuple[str, str]]
# their periods do not end sentences; nor do those of initials
_ABBREVIATIONS = frozenset("al cf dr eq fig figs gen gov jr lt mr mrs ms no prof rep rev sen sgt sr st vs".split())
_APOSTROPHES = ("'", "’")
# marks that open and close: the spaces of their pairs are in `_QUOTED`
_QUOTES = ('"', "'", "’", "‘", "“", "”")
_CLITIC = r"(?:s|t|d|m|ll|re|ve)\b"
_LETTER, _UNSPACED = r"[^\W\d_]", rf"[{IDEOGRAPHS}\u3001-\u303f\uff01-\uff65]"
# spaces that English does not have, if one space separates all tokens
_SUPERFLUOUS = re.compile(
    "|".join(
        (
            # before closing marks and after opening ones, as in ( bert ) , 95 %
            r" (?=[.,;:?!)\]}%’”…])",
            r"(?<=[(\[{‘“]) |(?<=[$£€]) (?=\d)",
            # around hyphens and slashes between words, but for pre - and post-war, and dashes: bert - a model
            r"(?<=[^\W_]) (?=[-‑/] (?!(?:an?|the) [^-])[^\W_])",
            r"(?<=[^\W_] [-‑/]) (?!(?:and|or|an?|the) [^-])(?=[^\W_])",
            # within numbers and times, as in 4 . 5 and 3 , 000 and 7 : 15
            r"(?<=\d [.:]) (?=\d)|(?<=\d ,) (?=\d{3}\b)",
            # within e . g .
            rf"(?<=\b{_LETTER} \.) (?={_LETTER} \.)",
            # at apostrophes, as in model ' s and models ' and d ' alembert
            rf"(?<={_LETTER}) (?=' {_CLITIC})|(?<={_LETTER} ['’]) (?={_CLITIC})",
            rf"(?<=s) (?=' )|(?<=\b{_LETTER}) (?=' {_LETTER})|(?<=\b{_LETTER} ['’]) (?={_LETTER})",
            # beside Chinese and Japanese
            rf" (?={_UNSPACED})|(?<={_UNSPACED}) ",
        )
    )
)
_QUOTED = re.compile(rf"\" [^\"]* \"|(?<!\b[dlo] )' (?!{_CLITIC})[^']* '(?! {_CLITIC})")


def restored(
    summaries: Sequence[str], documents: Sequence[str], strips_accents: bool = True, is_split: bool = True
) -> list[str]:
    """Spell the words of an example's summaries as its documents do, join them likewise, and begin with a capital.

    A word gets its most frequent spelling in the documents, in lower case if two are equally frequent. If it is joined
    to another token, as in `U.S.`, occurrences that are joined to the same one take precedence. First words of
    sentences count only without other occurrences; they are then in lower case, unless a capital follows their first
    letter. Words that the documents lack stay as they are. Spaces between tokens that are mostly joined in the
    documents are removed; no space is added. Each sentence begins with a capital, unless it begins with a word such as
    `iPhone`.

    Args:
        summaries: texts in lower case.
        documents: the documents of the example.
        strips_accents: whether the vocabulary has no accents, so that `naïve` in a document is a spelling of `naive`.
        is_split: whether the tokenizer puts spaces around punctuation. Those between tokens that are no neighbors in
            the documents are then removed where English has none.

    Returns:
        The summaries, which differ only in case, accents and white space.
    """
    rows = [_tokens(summary) for summary in summaries]
    forms = [[_form(token, strips_accents) for _, token in row] for row in rows]
    source = _Source(documents, {form for own in forms for form in own}, strips_accents)
    return [_written(row, own, source, is_split) for row, own in zip(rows, forms, strict=True)]


def _tokens(text: str) -> _Tokens:
    """The space before each token of a text, and the token."""
    # a search that fails at the last spaces would begin again at each of them
    return _TOKEN.findall(text.rstrip())


class _Source:
    """Spellings and spacing of tokens in documents, for tokens whose form is in `vocabulary`.

    Attributes:
        joints: forms of neighbors -> how much more often they are joined than separated.
        openings: forms of a token, of a mark after it and of the token that is joined to the mark, as in `on .NET` ->
            how much more often a space precedes the mark than none. An empty string as the first form stands for any
            token.
    """

    def __init__(self, documents: Sequence[str], vocabulary: set[str], strips_accents: bool):
        self.joints: Counter[tuple[str, str]] = Counter()
        self.openings: Counter[tuple[str, str, str]] = Counter()
        self._initial: dict[str, Counter[str]] = defaultdict(Counter)
        # a form, and the form joined before or after it, or neither -> its spellings
        self._spellings: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for document in documents:
            tokens = _tokens(document)
            forms = [_form(token, strips_accents) for _, token in tokens]
            for index, begins in enumerate(_sentence_starts(tokens)):
                form, (space, token) = forms[index], tokens[index]
                if form not in vocabulary:
                    continue
                if index:
                    self.joints[forms[index - 1], form] += -1 if space else 1
                    if not space:
                        self._count_opening(tokens, forms, index)
                if begins:
                    self._initial[form][token] += 1
                    continue
                before, after = _joined_neighbors(tokens, forms, index)
                for neighbors in {("", ""), (before, ""), ("", after)}:
                    self._spellings[form, *neighbors][token] += 1

    def _count_opening(self, tokens: _Tokens, forms: Sequence[str], index: int) -> None:
        """Count the space before the mark to which a token is joined."""
        mark = forms[index - 1]
        if not _is_mark(mark):
            return
        before = forms[index - 2] if index > 1 else ""
        change = 1 if index == 1 or tokens[index - 1][0] else -1
        for first in {before, ""}:
            self.openings[first, mark, forms[index]] += change

    def keeps_space(self, forms: Sequence[str], index: int) -> bool:
        """Whether the documents have a space before this token, a mark that belongs to the token after it."""
        if not 0 < index < len(forms) - 1 or not _is_mark(forms[index]):
            return False
        before, mark, after = forms[index - 1 : index + 2]
        seen = self.openings[before, mark, after]
        if seen:
            return seen > 0
        # a decimal point
        if before[-1:].isdigit() and after[:1].isdigit():
            return False
        return self.openings["", mark, after] > 0

    def spelling(self, token: str, form: str, before: str, after: str) -> str:
        """The spelling of a token; the token itself if the documents lack it.

        Args:
            before, after: the forms that are joined to it, or empty strings.
        """
        counts = Counter[str]()
        for neighbors in {(before, ""), ("", after)} - {("", "")}:
            counts.update(self._spellings.get((form, *neighbors), ()))
        # the S of U.S. is no spelling of that of model's
        if not counts and before not in _APOSTROPHES:
            counts = self._spellings[form, "", ""]
        if counts:
            return _most_frequent(counts)
        if form not in self._initial:
            return token
        first = _most_frequent(self._initial[form])
        return first.lower() if first[1:] == first[1:].lower() else first


@lru_cache(2**16)
def _form(token: str, strips_accents: bool) -> str:
    """What the spellings of a token have in common."""
    if token.isascii():
        return token.lower()
    if strips_accents:
        token = "".join(letter for letter in normalize("NFD", token) if category(letter) != "Mn")
    return normalize("NFC", token).casefold()


def _is_mark(form: str) -> bool:
    """Whether a token is a mark, other than a quotation mark or an apostrophe."""
    return not form[:1].isalnum() and form not in _QUOTES


def _most_frequent(spellings: Counter[str]) -> str:
    # small letters come after capitals
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling))


def _joined_neighbors(tokens: _Tokens, forms: Sequence[str], index: int) -> tuple[str, str]:
    """The forms that are joined to a token, before and after it, or empty strings."""
    before = forms[index - 1] if index and not tokens[index][0] else ""
    after = forms[index + 1] if index + 1 < len(tokens) and not tokens[index + 1][0] else ""
    return before, after


def _sentence_starts(tokens: _Tokens) -> Iterator[bool]:
    """Whether each token is the first word of a sentence."""
    begins, ends, is_stop, word = True, False, True, ""
    for space, token in tokens:
        begins = begins or (ends and space != "") or "\n\n" in space
        is_word = token[0].isalnum()
        yield begins and is_word
        if is_word:
            begins, ends, word = False, False, token
        elif token in ".?!":
            ends = token != "." or not (word.isalpha() and (len(word) == 1 or word.lower() in _ABBREVIATIONS))
            is_stop = token == "."
        elif token not in ")]":
            # who says a quoted question follows it
            ends = ends and is_stop and token in "\"'”’"


def _written(tokens: _Tokens, forms: Sequence[str], source: _Source, is_split: bool) -> str:
    """A summary with the source's spelling and spacing."""
    superfluous = _superfluous(forms) if is_split else ()
    spaced = []
    for index, (space, token) in enumerate(tokens):
        # a straight quotation mark opens or closes
        joint = 0 if '"' in forms[index - 1 : index + 1] else source.joints[forms[index - 1], forms[index]]
        is_joined = index and (joint > 0 if joint else index in superfluous)
        if source.keeps_space(forms, index):
            is_joined = False
        spaced.append(("" if is_joined else space, token))
    spelled = [
        (space, source.spelling(token, forms[index], *_joined_neighbors(spaced, forms, index)))
        for index, (space, token) in enumerate(spaced)
    ]
    return "".join(
        space + (token[0].title() + token[1:] if begins and token == token.lower() else token)
        for begins, (space, token) in zip(_sentence_starts(spelled), spelled, strict=True)
    )


def _superfluous(tokens: Sequence[str]) -> set[int]:
    """The tokens before which English has no space."""
    text = " ".join(tokens)
    spaces = {match.start() for match in _SUPERFLUOUS.finditer(text)}
    for match in _QUOTED.finditer(text):
        spaces = spaces - {match.start() - 1, match.end()} | {match.start() + 1, match.end() - 2}
    starts = accumulate((len(token) + 1 for token in tokens), initial=0)
    return {index for index, start in enumerate(starts) if start - 1 in spaces}
