"""ROUGE as the Perl script ROUGE-1.5.5 computes it (Lin 2004), without the script.

The script's stemmer differs from Porter's: step 4 continues after removing a suffix, so "-mental" loses both parts.
Words in WordNet's exception lists ("children", "went") are looked up first.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

from hf_summ.evaluation.rouge_counts import (
    Measure,
    Reader,
    Scores,
    Splitter,
    check_options,
    ngrams,
    other_reader,
    read_words,
    score_rows,
    sentence_splitter,
    skip_bigrams,
    skip_bigrams_4,
    summary_lcs,
)
from hf_summ.evaluation.words import check_rows, check_units, is_english, warn_of_script
from hf_summ.models.text_documents import readable

_SPACE = re.compile(rb"\s+")
_MEASURES: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rouge3": ngrams(3),
    "rougeL": summary_lcs,
    "rougeSU4": skip_bigrams_4,
    "rougeSU*": skip_bigrams,
}
ROUGE155_TYPES = tuple(_MEASURES)
# shorter words are never stemmed
_LONG = 4
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


def rouge155_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_types: Sequence[str] = ROUGE155_TYPES,
    sentences: str = "split",
    splitter: str = "sentencex",
    units: str = "words",
    byte_limit: int | None = None,
    word_limit: int | None = None,
    several: str | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of ROUGE-1.5.5. An empty prediction scores 0.

    rougeL compares sentence by sentence, as the script does. rougeSU* skips any number of words; pyrouge prints it as
    SU4. rougeSU4 skips at most 4 words (`-2 4 -u`). As in the script, neither counts a text's last word as a unigram.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        use_stemmer: whether to use WordNet's exception lists and Porter's stemmer (`-m`); English only.
        language: ISO 639 code. English is split into words of a-z and 0-9, as in the script. Other languages are split
            into words of any script, and Chinese and Japanese into characters.
        rouge_types: which of `ROUGE155_TYPES`.
        sentences: "split" splits lines into sentences; "lines" treats each line as one, as the script does.
        splitter: what splits lines, as for `split_sentences`.
        units: the units of languages other than English: "words", "characters" (all of them), "lcsts" for those that
            DRGD's program compares, without most marks, or "spaced" for words separated by spaces.
        byte_limit: number of bytes to which predictions and references are truncated (`-b`), not counting line ends.
            For rougeL the script counts within each sentence instead.
        word_limit: number of words, separated by spaces, to which they are truncated (`-l`).
        several: how several references are combined, as for `rouge_scores`; by default "pooled", as in the script
            (`-f A`).

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, references
            without words, an unknown ROUGE type, splitter or value of `sentences`, `units` or `several`, both
            limits, a limit below 1, or a limit for a language other than English.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet.
    """
    rows = check_rows(predictions, references)
    check_options(rouge_types, ROUGE155_TYPES, sentences, splitter, several)
    _check_limits(language, byte_limit, word_limit)
    check_units(units, language)
    warn_of_script((text for row in rows for text in row), language)
    split = sentence_splitter(language, sentences, splitter)
    if is_english(language):
        reader = _reader(use_stemmer, split, byte_limit, word_limit)
    else:
        reader = other_reader(language, units, split)
    measures = {rouge_type: _MEASURES[rouge_type] for rouge_type in rouge_types}
    return score_rows(predictions, rows, reader, measures, "ROUGE-1.5.5", language, several or "pooled")


def _check_limits(language: str, byte_limit: int | None, word_limit: int | None) -> None:
    limits = {"byte_limit": byte_limit, "word_limit": word_limit}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if len(given) > 1:
        raise ValueError("`byte_limit` and `word_limit` exclude each other: set only one")
    for name, limit in given.items():
        if limit < 1:
            raise ValueError(f"`{name}` is {limit}, but must be at least 1, or None for whole texts")
        if not is_english(language):
            raise ValueError(f"`{name}` needs English, as in ROUGE-1.5.5, but `language` is '{language}'")


def _reader(use_stemmer: bool, split: Splitter, byte_limit: int | None, word_limit: int | None) -> Reader:
    """The reader of English texts: other letters and surrogates become blanks, but count as bytes."""
    cuts: list[Callable[[list[bytes]], list[bytes]]] = []
    if byte_limit is not None:
        cuts = [partial(_cut_bytes, limit=byte_limit, running=running) for running in (True, False)]
    elif word_limit is not None:
        cuts = [partial(_cut_words, limit=word_limit)]

    def cut_lines(cut: Callable, text: str) -> list[str]:
        lines = cut([readable(line).encode() for line in split(text) if line])
        return [line.decode("ascii", "replace") for line in lines]

    return Reader(read_words, stem if use_stemmer else None, *([partial(cut_lines, cut) for cut in cuts] or [split]))


def _cut_bytes(lines: list[bytes], limit: int, running: bool) -> list[bytes]:
    """The lines up to the first that reaches the limit, counted from the first line (`running`) or within a line."""
    kept, used = [], 0
    for line in lines:
        if used + len(line) >= limit:
            return [*kept, line[: limit - used]]
        kept.append(line)
        used += len(line) if running else 0
    return kept


def _cut_words(lines: list[bytes], limit: int) -> list[bytes]:
    """The lines up to the word that reaches the limit; an indent counts as a word, as in the script."""
    kept, used = [], 0
    for line in lines:
        words = _SPACE.split(line.rstrip()) if line.strip() else []
        if used + len(words) >= limit:
            return [*kept, b" ".join(words[: limit - used])]
        kept.append(line)
        used += len(words)
    return kept


def _suffix(suffixes) -> re.Pattern:
    return re.compile(f"({'|'.join(suffixes)})$")


_SUFFIX_2, _SUFFIX_3, _SUFFIX_4 = _suffix(_STEP_2), _suffix(_STEP_3), _suffix(_STEP_4)


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
    if len(word) < _LONG:
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
