"""The stemmer of the Perl script ROUGE-1.5.5 (Lin 2004).

It differs from Porter's: step 4 continues after removing a suffix, so "-mental" loses both parts. Words in WordNet's
exception lists ("children", "went") are looked up first.
"""

import re
from functools import cache, lru_cache
from pathlib import Path

# shorter words are never stemmed
_MIN_LETTERS = 4
_EXCEPTIONS = Path(__file__).with_name("wordnet_exceptions.txt")
# patterns of the stemmer; a measure is Porter's, the number of times that consonants follow vowels
_CONSONANT, _VOWEL = "[^aeiou]", "[aeiouy]"
_CONSONANTS, _VOWELS = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_MEASURE_ABOVE_0 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
_MEASURE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_MEASURE_ABOVE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_HOLDS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")

_STEP_2: dict[str, str] = dict(
    zip(
        (
            "ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness fulness ousness "
            "aliti iviti biliti logi"
        ).split(),
        "ate tion ence ance ize ble al ent e ous ize ate ate al ive ful ous al ive ble log".split(),
        strict=True,
    )
)
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al ance ence er ic able ible ant ement ou ism ate iti ous ive ize".split()
_SUFFIX_2, _SUFFIX_3, _SUFFIX_4 = (re.compile(f"({'|'.join(step)})$") for step in (_STEP_2, _STEP_3, _STEP_4))


@cache
def wordnet_exceptions() -> dict[str, str]:
    """WordNet 2.0's exception lists, irregular form -> base form.

    If several lists have a form, the last one counts, in the order of the script's database: nouns, verbs, adjectives,
    adverbs. So "best" and "better" are forms of "well".
    """
    lines = _EXCEPTIONS.read_text("ascii").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """The form under which ROUGE-1.5.5 with `-m` counts a lowercased word."""
    if len(word) < _MIN_LETTERS:
        return word
    exception = wordnet_exceptions().get(word)
    return porter_stem(word) if exception is None else exception


def porter_stem(word: str) -> str:
    """The stem of a lowercased word of at least 3 letters, as in the script's `stem`."""
    # an initial y is a consonant; as a capital, every pattern treats it as one
    word = _inflection("Y" + word[1:] if word[0] == "y" else word)
    for pattern, replacements in ((_SUFFIX_2, _STEP_2), (_SUFFIX_3, _STEP_3)):
        match = pattern.search(word)
        if match and _MEASURE_ABOVE_0.match(word[: match.start()]):
            word = word[: match.start()] + replacements[match[1]]
    word = _derivation(word)
    if word.endswith("e"):
        base = word[:-1]
        if _MEASURE_ABOVE_1.match(base) or (_MEASURE_1.match(base) and not _SHORT.match(base)):
            word = base
    if word.endswith("ll") and _MEASURE_ABOVE_1.match(word):
        word = word[:-1]
    return "y" + word[1:] if word[:1] == "Y" else word


def _inflection(word: str) -> str:
    """Step 1: plurals, -ed, -ing and a final y."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss") and len(word) > 1:
        word = word[:-1]
    if word.endswith("eed"):
        if _MEASURE_ABOVE_0.match(word[:-3]):
            word = word[:-1]
    elif word.endswith(("ed", "ing")):
        base = word[:-2] if word.endswith("ed") else word[:-3]
        if _HOLDS_VOWEL.match(base):
            word = base
            if word.endswith(("at", "bl", "iz")):
                word += "e"
            elif _DOUBLE.search(word):
                word = word[:-1]
            elif _SHORT.match(word):
                word += "e"
    if word.endswith("y") and _HOLDS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    return word


def _derivation(word: str) -> str:
    """Step 4: remove the suffixes that a stem of two measures can lose, one group after the other."""
    match = _SUFFIX_4.search(word)
    if match and _MEASURE_ABOVE_1.match(word[: match.start()]):
        word = word[: match.start()]
    if word.endswith("ment") and _MEASURE_ABOVE_1.match(word[:-4]):
        word = word[:-4]
    if word.endswith("ent"):
        return word[:-3] if _MEASURE_ABOVE_1.match(word[:-3]) else word
    if word.endswith(("sion", "tion")) and _MEASURE_ABOVE_1.match(word[:-3]):
        return word[:-3]
    return word
