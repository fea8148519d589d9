"""The scripts of texts, such as Latin or Cyrillic, and whether a tagger's language is written in them.

A tagger assigns parts of speech or entities to the words of a text; it is a pipeline of spaCy or a function.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice
from unicodedata import name as unicode_name

from hf_summ.models.text_processing_gdlf import Tagger, load_tagger

logger = logging.getLogger(__name__)

# Code of the language of a spaCy pipeline -> the scripts of the language, as in the Unicode names of letters. Texts in
# other languages are not checked.
_SCRIPTS = {"el": {"GREEK"}, "ja": {"CJK", "HIRAGANA", "KATAKANA"}, "ko": {"HANGUL"}, "zh": {"CJK"}}
for _language in "ca da de en es fi fr hr it lt nb nl pl pt ro sl sv".split():
    _SCRIPTS[_language] = {"LATIN"}
for _language in ("mk", "ru", "uk"):
    _SCRIPTS[_language] = {"CYRILLIC"}
# The number of letters, from the beginning of a text on, that determine the script of the text.
_LETTERS = 500


def check_script(texts: Sequence[str], tagger: Tagger, tags: str) -> None:
    """Check that texts are in a script of the tagger's language, as the tags of other texts would be meaningless.

    If some texts are in other scripts, but fewer than half, a warning is logged, as large corpora have such texts.
    Texts without letters do not count as texts in other scripts. Nothing is checked for a tagger that is a function, or
    whose language `_SCRIPTS` lacks.

    Args:
        texts: the texts to be tagged, or a sample of them.
        tagger, tags: as for `load_tagger`.

    Raises:
        ValueError: at least half of the texts are in other scripts, or as `load_tagger`.
        ImportError: as `load_tagger`.
    """
    language = getattr(load_tagger(tagger, tags), "lang", None)
    scripts = _SCRIPTS.get(language)
    if scripts is None:
        return
    # The script of each text that is not in a script of the language.
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
    """The most frequent script among the first 500 letters of a text, in capitals, such as LATIN.

    Returns:
        The script as in Unicode names, or None if the text has no letters. CJK is the script of Chinese characters.
    """
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
    """The script of a letter, taken from its Unicode name: LATIN for the letter named "LATIN SMALL LETTER A".

    The script is the first word of the name after FULLWIDTH or HALFWIDTH, with which the names of some letters of East
    Asian fonts begin. A letter without a name has the script UNKNOWN.
    """
    words = unicode_name(letter, "UNKNOWN").split()
    if words[0] in ("FULLWIDTH", "HALFWIDTH") and len(words) > 1:
        return words[1]
    return words[0]
