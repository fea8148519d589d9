"""The stemmer of the Perl script ROUGE-1.5.5 (Lin 2004), for lowercased English words.

The stemmer differs from Porter's: step 4 continues after removing a suffix, so "-mental" loses both parts. Words in
WordNet's exception lists ("children", "went") are looked up first.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

# Shorter words are never stemmed.
_MIN_LETTERS = 4
_EXCEPTIONS = Path(__file__).with_name("wordnet_exceptions.txt")
# Patterns of the stemmer. Porter's measure of a word is the number of times that consonants follow vowels in it.
_CONSONANT, _VOWEL = "[^aeiou]", "[aeiouy]"
_CONSONANTS, _VOWELS = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_MEASURE_ABOVE_0 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
_MEASURE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_MEASURE_ABOVE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_HOLDS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")

# Steps 2 and 3 replace suffixes, suffix -> replacement, and step 4 removes suffixes.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al ance ence er ic able ible ant ement ou ism ate iti ous ive ize".split()


def _suffix_pattern(suffixes: Iterable[str]) -> re.Pattern[str]:
    """The pattern of a word that ends with one of these suffixes; the suffix is its first group."""
    return re.compile(f"({'|'.join(suffixes)})$")


_SUFFIX_2 = _suffix_pattern(_STEP_2)
_SUFFIX_3 = _suffix_pattern(_STEP_3)
_SUFFIX_4 = _suffix_pattern(_STEP_4)


@cache
def wordnet_exceptions() -> dict[str, str]:
    """WordNet 2.0's exception lists, irregular form -> base form.

    If several lists have the same form, the last list counts, in the order of the script's database: nouns, verbs,
    adjectives, adverbs. So "best" and "better" are forms of "well".
    """
    base_forms = {}
    for line in _EXCEPTIONS.read_text("ascii").splitlines():
        if not line.startswith("#"):
            irregular_form, base_form = line.split()
            base_forms[irregular_form] = base_form
    return base_forms


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """The form under which ROUGE-1.5.5 with the flag `-m` counts a lowercased word.

    This form is the base form in WordNet's exception lists, or else the stem. Words of fewer than four letters stay as
    they are.
    """
    if len(word) < _MIN_LETTERS:
        return word
    base_form = wordnet_exceptions().get(word)
    if base_form is not None:
        return base_form
    return porter_stem(word)


def porter_stem(word: str) -> str:
    """The stem of a lowercased word of at least 3 letters, without exception lists.

    The result is that of the script's function `stem`.
    """
    if word[0] == "y":
        # An initial y is a consonant. As a capital, every pattern treats it as such.
        word = "Y" + word[1:]
    word = _without_inflection(word)
    for pattern, replacements in ((_SUFFIX_2, _STEP_2), (_SUFFIX_3, _STEP_3)):
        match = pattern.search(word)
        if match and _MEASURE_ABOVE_0.match(word[: match.start()]):
            word = word[: match.start()] + replacements[match[1]]
    word = _without_derivation(word)
    if word.endswith("e"):
        base = word[:-1]
        if _MEASURE_ABOVE_1.match(base) or (_MEASURE_1.match(base) and not _SHORT.match(base)):
            word = base
    if word.endswith("ll") and _MEASURE_ABOVE_1.match(word):
        word = word[:-1]
    if word.startswith("Y"):
        word = "y" + word[1:]
    return word


def _without_inflection(word: str) -> str:
    """Step 1 of the stemmer: remove the endings of plurals, -ed and -ing, and replace a final y by i."""
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


def _without_derivation(word: str) -> str:
    """Step 4 of the stemmer: remove suffixes if the rest of the word has a measure above 1.

    There are three groups of suffixes, one after the other. At most one suffix of each group is removed.
    """
    match = _SUFFIX_4.search(word)
    if match and _MEASURE_ABOVE_1.match(word[: match.start()]):
        word = word[: match.start()]
    if word.endswith("ment") and _MEASURE_ABOVE_1.match(word[:-4]):
        word = word[:-4]
    if word.endswith(("ent", "sion", "tion")) and _MEASURE_ABOVE_1.match(word[:-3]):
        word = word[:-3]
    return word
