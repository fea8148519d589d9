"""Spell out acronyms, so that a sentence can be understood alone.

In a text with "generative adversarial networks (GANs)", the later sentence "We train GANs." becomes "We train
generative adversarial networks (GANs)."
"""

import re
from collections.abc import Iterator

from .text_sentences import SENTENCE_START

# an acronym in brackets, such as "(GANs)", "(LfD)" and "(G-CNN)"
_ACRONYM = re.compile(r"\(([A-Z](?:[A-Za-z]|-(?=[A-Z]))*[A-Z]s?)\)")
# a word, and what separates two words of a long form
_WORD = re.compile(r"\w+")
_SEPARATOR = re.compile(r",?[\s-]+")
# words without a letter in an acronym, as in "divide, conquer, and combine (DCC)", and how many may stand together
_FUNCTION_WORDS = frozenset("a an the of for from in on to by with and".split())
_MAX_FUNCTION_WORDS = 2
# the largest number of characters before an acronym that may belong to its long form
_MAX_CHARACTERS = 200
# names, which keep their capital within a sentence
_NAME = re.compile(
    r"\w+ian\b|(?:Bayes|Boltzmann|Fisher|Fourier|Hilbert|Kalman|Markov|Monte|Nash|Shapley|Wasserstein)\b"
)
# a word that takes "an"
_VOWEL = re.compile(r"(?!eu|one\b|ubi|uni|us|ut)[aeiou]", re.I)


def long_forms_of(text: str) -> dict[str, str]:
    """The long forms of the acronyms that stand in brackets after them, as in "mutual information (MI)".

    The words of a long form begin with the letters of its acronym. The plural of an acronym is given too, where adding
    "s" to the long form makes a plural.
    """
    long_forms: dict[str, str] = {}
    for definition in _ACRONYM.finditer(text):
        acronym = definition[1]
        letters = acronym.replace("-", "").removesuffix("s")
        before = text[max(0, definition.start() - _MAX_CHARACTERS) : definition.start()].rstrip()
        start = _start_of_long_form(before, letters)
        if start is None:
            continue
        long_form = " ".join(before[start:].split())
        begins_sentence = SENTENCE_START.search(before, 0, start)
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


def _start_of_long_form(text: str, letters: str) -> int | None:
    """The place from which the last words of a text begin with these letters, whatever their case; None if they do not.

    If there are several places, the first one is taken.
    """
    words = list(_WORD.finditer(text))
    if not words or words[-1].end() != len(text):
        return None
    # the words that may have the letter at hand, from the last letter to the first
    places = {len(words) - 1}
    matching: list[int] = []
    for letter in reversed(letters.lower()):
        matching = [place for place in places if words[place].group().lower().startswith(letter)]
        places = set()
        for place in matching:
            places.update(_words_before(text, words, place))
    starts = [words[place].start() for place in matching]
    return min([start for start in starts if text[start - 1 : start] != "-"], default=None)


def _words_before(text: str, words: list[re.Match], place: int) -> Iterator[int]:
    """The places of the words that may precede a word of a long form: the one before it, or before function words."""
    for previous in range(place - 1, max(place - 2 - _MAX_FUNCTION_WORDS, -1), -1):
        gap = text[words[previous].end() : words[previous + 1].start()]
        if _SEPARATOR.fullmatch(gap):
            yield previous
        if words[previous].group().lower() not in _FUNCTION_WORDS or not gap.isspace():
            return


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
