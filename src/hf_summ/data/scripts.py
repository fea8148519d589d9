"""The scripts of texts, and whether a tagger's language is written in them."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice
from unicodedata import name as unicode_name

from hf_summ.models.text_processing_gdlf import Tagger, load_tagger

logger = logging.getLogger(__name__)

# Language of a spaCy tagger -> its scripts, as in the Unicode names of letters. Other languages are not checked.
_SCRIPTS = {"el": {"GREEK"}, "ja": {"CJK", "HIRAGANA", "KATAKANA"}, "ko": {"HANGUL"}, "zh": {"CJK"}}
for _language in "ca da de en es fi fr hr it lt nb nl pl pt ro sl sv".split():
    _SCRIPTS[_language] = {"LATIN"}
for _language in ("mk", "ru", "uk"):
    _SCRIPTS[_language] = {"CYRILLIC"}
# The number of letters that determine a text's script.
_LETTERS = 500


def check_script(texts: Sequence[str], tagger: Tagger, tags: str) -> None:
    """Check that the texts are in the script of the tagger's language; otherwise its tags would be meaningless.

    Fewer than half of the texts in other scripts, as in large corpora, only cause a warning.

    Args:
        tagger, tags: as for `load_tagger`.

    Raises:
        ValueError: at least half of the texts are in other scripts.
    """
    language = getattr(load_tagger(tagger, tags), "lang", None)
    scripts = _SCRIPTS.get(language)
    if scripts is None:
        return
    foreign = []
    for text in texts:
        script = script_of(text)
        if script is not None and script not in scripts:
            foreign.append(script)
    if not foreign:
        return
    script, _ = Counter(foreign).most_common(1)[0]
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
    """The script of most of a text's first letters, such as LATIN, or None if it has no letters."""
    letters = (character for character in text if character.isalpha())
    if text.isascii():
        has_letter = next(letters, None) is not None
        return "LATIN" if has_letter else None
    counts = Counter(_script_of_letter(letter) for letter in islice(letters, _LETTERS))
    if not counts:
        return None
    script, _ = counts.most_common(1)[0]
    return script


@cache
def _script_of_letter(letter: str) -> str:
    """The first word of a letter's Unicode name, such as LATIN of "LATIN SMALL LETTER A"."""
    words = unicode_name(letter, "UNKNOWN").split()
    if words[0] in ("FULLWIDTH", "HALFWIDTH") and len(words) > 1:
        return words[1]
    return words[0]
