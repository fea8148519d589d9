"""What counts as a word when texts are compared, and what every measure of pairs checks first."""

import re
from collections.abc import Sequence

from rouge_score.tokenizers import Tokenizer

_ENGLISH_WORD = re.compile("[a-z0-9]+")
# Japanese and Chinese put no spaces between words, so each of their characters counts as one
_IDEOGRAPHIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHIC}]|[^\W{_IDEOGRAPHIC}]+")


class WordTokenizer(Tokenizer):
    """Lowercased words of any script; Chinese and Japanese by characters."""

    def tokenize(self, text: str) -> list[str]:
        """The words of `text`, punctuation left out."""
        return _WORD.findall(text.lower())


def split_words(text: str, language: str = "en") -> list[str]:
    """The lowercased words of `text`, not stemmed, punctuation left out: those that ROUGE compares.

    Args:
        language: ISO 639 code. English words are of a-z and 0-9; other languages are split into words of any script,
            and into characters where there are no spaces.
    """
    return (_ENGLISH_WORD if is_english(language) else _WORD).findall(text.lower())


def is_english(language: str) -> bool:
    """Whether an ISO 639 code, with or without a region, is English's."""
    return language.split("-")[0] == "en"


def check_pairs(predictions: Sequence, references: Sequence) -> None:
    """Raises ValueError unless there are as many predictions as references, and at least one."""
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions and {len(references)} references: each needs its counterpart")
    if not len(references):
        raise ValueError("nothing to score: there are no predictions and no references")


def no_words(finding: str, language: str) -> str:
    """The message for a `finding` such as `source 3 holds no word`, with what may be the reason."""
    hint = "; English is read as a-z and 0-9, so name the language of other scripts" if is_english(language) else ""
    return f"{finding} (language '{language}'){hint}"
