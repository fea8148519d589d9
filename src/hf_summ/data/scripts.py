"""The scripts of texts, and whether a tagger's language is written in them."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice
from unicodedata import name as unicode_name

from hf_summ.models.text_processing_gdlf import Tagger, load_tagger

logger = logging.getLogger(__name__)

# scripts of languages with spaCy taggers, as in the names of letters; other languages are not checked
_LATIN = "ca da de en es fi fr hr it lt nb nl pl pt ro sl sv"
_SCRIPTS = {
    **{language: {"LATIN"} for language in _LATIN.split()},
    **{language: {"CYRILLIC"} for language in ("mk", "ru", "uk")},
    "el": {"GREEK"},
    "ja": {"CJK", "HIRAGANA", "KATAKANA"},
    "ko": {"HANGUL"},
    "zh": {"CJK"},
}
# number of letters that determine a text's script
_LETTERS = 500


def check_script(texts: Sequence[str], tagger: Tagger, tags: str) -> None:
    """Check that the texts are in the script of the tagger's language; otherwise its tags would be meaningless.

    A few documents in other scripts, as in large corpora, only cause a warning.
    """
    language = getattr(load_tagger(tagger, tags), "lang", None)
    scripts = _SCRIPTS.get(language)
    if scripts is None:
        return
    foreign = [script for text in texts if (script := script_of(text)) is not None and script not in scripts]
    if not foreign:
        return
    (script, _), *_ = Counter(foreign).most_common(1)
    message = (
        f"{len(foreign)} of {len(texts)} documents are mostly in another script ({script}) than the language "
        f"({language}) of the tagger {tagger!r}"
    )
    if 2 * len(foreign) >= len(texts):
        raise ValueError(
            f'{message}: use a spaCy pipeline for their language as `tagger`, or a model with `tags="none"`'
        )
    logger.warning(message)


def script_of(text: str) -> str | None:
    """The script of most of a text's first letters, or None without letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    letters = islice(filter(str.isalpha, text), _LETTERS)
    counts = Counter(map(_script_of_letter, letters)).most_common(1)
    return counts[0][0] if counts else None


@cache
def _script_of_letter(letter: str) -> str:
    first, *words = unicode_name(letter, "UNKNOWN").split()
    return words[0] if first in ("FULLWIDTH", "HALFWIDTH") and words else first
