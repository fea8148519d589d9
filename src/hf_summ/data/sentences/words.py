"""The lists of words in `words.json`, by which the rules decide where sentences end."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("words.json")


@dataclass(frozen=True)
class WordLists:
    """Words without their last stop, for texts of any language unless it says otherwise.

    Attributes:
        abbreviations: language -> abbreviations that sentencex lacks, in lower case.
        no_abbreviations: language -> words that sentencex takes for abbreviations.
        titles: English abbreviations, which occur in other languages too.
        before_numbers: abbreviations before a number.
        before_small_letters: abbreviations before a small letter.
        years: abbreviations of a year, after its number.
        units: units that may end a sentence after a number.
        multiples: such as million, between a number and its unit.
        and_so_on: ends of lists and speeds, with their stops, which may end a sentence before a capital.
        zones, days, months: what follows a time of day in English. A month may continue after these letters.
        after_german_ordinals: months and nouns that follow a number with a stop.
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
    """The lists of the file, which is read once."""
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
    """Language -> its words.

    Args:
        lines: codes of languages, separated by spaces -> words of all these languages, separated by spaces.
    """
    words: dict[str, tuple[str, ...]] = {}
    for codes, line in lines.items():
        for code in codes.split():
            words[code] = tuple(line.split())
    return words
