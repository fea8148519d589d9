"""Readings of the thesis's section 4.1 word by word."""

import math
from collections.abc import Sequence


def idf(collection: Sequence[Sequence[str]], word: str) -> float:
    """Equation 4.2; a word that is nowhere counts as if it were in one."""
    return math.log(len(collection) / max(sum(word in member for member in collection), 1))


def tfidf(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[float]:
    """The mean of equations 4.1 times 4.2 over the words of each sentence."""
    document = [word for sentence in sentences for word in sentence]
    return [
        sum(document.count(word) / len(document) * idf(collection, word) for word in sentence) / max(len(sentence), 1)
        for sentence in sentences
    ]


def order(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[int]:
    """From the highest score to the lowest; earlier sentences win ties."""
    scores = tfidf(sentences, collection)
    return sorted(range(len(sentences)), key=lambda index: (-round(scores[index], 9), index))
