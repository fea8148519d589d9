"""The lists of words in `words.json`, by which the rules in `ends` and `twins` decide where sentences end.

A stop is a mark that may end a sentence, such as a full stop. sentencex is the library that splits texts.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("words.json")


@dataclass(frozen=True)
class WordLists:
    """Lists of words, each word without the stop at its end; a list without a language is for texts of all languages.

    Languages are codes that `language_code` returns, such as en.

    Attributes:
        abbreviations: language -> abbreviations that sentencex does not know, in lower case.
        no_abbreviations: language -> words that sentencex wrongly takes for abbreviations.
        titles: English abbreviations such as Mr, which occur in texts of other languages too.
        before_numbers: words that are abbreviations if a number follows, such as Fig.
        before_small_letters: words that are abbreviations if a small letter follows, such as approx.
        years: abbreviations of "year", which follow the number of a year, such as the Russian г.
        units: units that may end a sentence after a number, such as km.
        multiples: words between a number and its unit, such as mio (million).
        and_so_on: abbreviations at the ends of lists (etc.) and of speeds, with all their stops. They may end a
            sentence if a capital follows.
        zones, days, months: beginnings of what follows a time of day in English, such as ET or Monday; `months` has the
            first letters of their names.
        after_german_ordinals: German months and nouns that follow an ordinal number with a stop, such as Mai in
            "3. Mai".
    """

    abbreviations: dict[str, frozenset[str]]
    no_abbreviations: dict[str, tuple[str, ...]]
    titles: frozenset[str]
    before_numbers: frozenset[str]
    before_small_letters: tuple[str, ...]
    years: frozenset[str]
    units: tuple[str, ...]
    multiples: tuple[str, ...]
    and_so_on: tuple[str, ...]
    zones: tuple[str, ...]
    days: tuple[str, ...]
    months: tuple[str, ...]
    after_german_ordinals: tuple[str, ...]


@cache
def word_lists() -> WordLists:
    """The lists in `words.json`, which is read at the first call only."""
    content = json.loads(_FILE.read_text(encoding="utf-8"))
    abbreviations = {}
    for language, words in _by_language(content["abbreviations"]).items():
        abbreviations[language] = frozenset(words)
    units = content["units"]
    times = content["after_times_of_day"]
    return WordLists(
        abbreviations=abbreviations,
        no_abbreviations=_by_language(content["no_abbreviations"]),
        titles=frozenset(content["titles"].split()),
        before_numbers=frozenset(" ".join(content["before_numbers"].values()).split()),
        before_small_letters=tuple(content["before_small_letters"].split()),
        years=frozenset(content["years"].split()),
        units=tuple(f"{units['cyrillic']} {units['latin']}".split()),
        multiples=tuple(units["multiples"].split()),
        and_so_on=tuple(content["and_so_on"]),
        zones=tuple(times["zones"].split()),
        days=tuple(times["days"].split()),
        months=tuple(times["months"].split()),
        after_german_ordinals=tuple(content["after_german_ordinals"].split()),
    )


def _by_language(lines: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Split the lines of a mapping into a list of words for each language.

    Args:
        lines: codes of languages, separated by spaces -> the words that all these languages get, separated by spaces.

    Returns:
        Language -> its words, in the order of the line.
    """
    words: dict[str, tuple[str, ...]] = {}
    for codes, line in lines.items():
        for code in codes.split():
            words[code] = tuple(line.split())
    return words
