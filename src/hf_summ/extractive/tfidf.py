"""Scores of a document's sentences by tf-idf, and the order that scores give."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from hf_summ.extractive.frequencies import DocumentFrequencies

# share of the highest score below which a difference is that of rounding
_PRECISION = 1e-9


def tfidf_scores(sentences: Sequence[Sequence[str]], idf: DocumentFrequencies | None = None) -> np.ndarray:
    """Mean of tf(w) idf(w) over a sentence's words, where tf is the word's share of the document: (sentences,).

    Aksenov 2020, equations 4.1 and 4.2. The mean rather than the sum, which would mostly measure the length. A sentence
    without words has 0.

    Args:
        sentences: words of each sentence.
        idf: frequencies in a corpus; if not given, the document's own sentences are the collection.
    """
    table = DocumentFrequencies.of_sentences(sentences) if idf is None else idf
    counts = Counter(chain.from_iterable(sentences))
    total = counts.total()
    weights = {word: count / total * table.idf(word) for word, count in counts.items()}
    # the exact sum, which is the same in any order of the words
    return np.array([math.fsum(map(weights.__getitem__, words)) / max(len(words), 1) for words in sentences])


def best_first(scores: np.ndarray) -> list[int]:
    """The indices of scores from the highest to the lowest; of equal ones the earlier is first."""
    if not len(scores):
        return []
    # rounded, so that floating point does not break ties; "stable" then takes the first
    steps = _PRECISION * (np.abs(scores).max() or 1)
    return np.argsort(-np.rint(scores / steps), kind="stable").tolist()
