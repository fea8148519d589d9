"""What counts as a word when texts are compared."""

import re

from hf_summ.evaluation.rouge import WordTokenizer

_ENGLISH_WORD = re.compile("[a-z0-9]+")
_OTHER_LANGUAGES = WordTokenizer()


def split_words(text: str, language: str = "en") -> list[str]:
    """The lowercased words of `text`, not stemmed, punctuation left out: those that ROUGE compares.

    Args:
        language: ISO 639 code. English words are of a-z and 0-9; other languages are split into words of any script,
            and into characters where there are no spaces.
    """
    if _is_english(language):
        return _ENGLISH_WORD.findall(text.lower())
    return _OTHER_LANGUAGES.tokenize(text)


def _is_english(language: str) -> bool:
    return language.split("-")[0] == "en"


def no_words(name: str, language: str) -> str:
    """The message for a text called `name` in which `split_words` finds nothing."""
    hint = "; English is read as a-z and 0-9, so name the language of other scripts" if _is_english(language) else ""
    return f"{name} holds no word (language '{language}'){hint}"
