"""Sentences of a text."""

import sentencex


def split_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of `text` without the space around them; a line end ends a sentence too.

    Args:
        language: ISO 639 code; one that `sentencex` does not know is split by general rules.
    """
    parts = (part for line in text.splitlines() for part in sentencex.segment(language, line))
    return [sentence for part in parts if (sentence := part.strip())]


def lead(document: str, sentences: int, language: str = "en") -> str:
    """The first `sentences` sentences of `document`, or all when it has fewer, on one line: the LEAD-n baseline.

    Raises:
        ValueError: `sentences` is less than 1.
    """
    if sentences < 1:
        raise ValueError(f"lead needs at least 1 sentence, not {sentences}")
    end = 0
    for sentence in split_sentences(document, language)[:sentences]:
        end = document.index(sentence, end) + len(sentence)
    # cut from the document rather than joined: not every script puts spaces between sentences
    return " ".join(document[:end].split())
