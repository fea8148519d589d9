"""Inverse document frequencies of words in a corpus or in a document's sentences, and sentence scores from them."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.data.languages import language_code
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_processing_highlight_transformer import frequencies_from_two

# smaller differences, as a share of the highest score, are rounding errors
_PRECISION = 1e-9


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many documents of a collection each word occurs.

    Args:
        frequencies: word -> number of documents in which it occurs; an unlisted word counts as occurring in one.
        documents: number of documents in the collection.
        language: ISO 639 code with which the documents were split into words.
    """

    frequencies: Mapping[str, int]
    documents: int
    language: str = "en"

    def idf(self, word: str) -> float:
        """log(N / n) of a word that occurs in n of the N documents (Aksenov 2020, equation 4.2)."""
        return math.log(self.documents / self.frequencies.get(word, 1))

    @classmethod
    def fit(cls, documents: Iterable[str], language: str = "en") -> "DocumentFrequencies":
        """The frequencies in a corpus; words that occur in one document are not stored.

        Raises:
            ValueError: there is no document.
        """
        frequencies, number = frequencies_from_two(split_words(document, language) for document in documents)
        if not number:
            raise ValueError("no documents to count words in: the corpus is empty")
        return cls(frequencies, number, language)

    def save(self, path: str | os.PathLike) -> None:
        """Write the frequencies to the JSON file `path`, atomically; `load` reads it."""
        content = {"language": self.language, "documents": self.documents, "document_frequencies": self.frequencies}
        write_atomically(path, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "DocumentFrequencies":
        """Read a file written by `hf-summ idf`.

        Raises:
            ValueError: the file does not exist, or has other content.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            table = cls(content["document_frequencies"], content["documents"], content["language"])
            language_code(table.language)
            if table.documents < 1 or not all(0 < n <= table.documents for n in table.frequencies.values()):
                raise ValueError("a frequency is not from 1 to the number of documents")
            return table
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a file written by `hf-summ idf` ({one_line(error)}): name one") from error

    def check_language(self, language: str) -> None:
        """Raise a ValueError unless the frequencies are of words in `language`."""
        if language_code(language) != language_code(self.language):
            raise ValueError(
                f"the document frequencies are of language '{self.language}', but `language` is '{language}': fit "
                "others with `hf-summ idf --language`, or set `language`"
            )


def tfidf_scores(sentences: Sequence[Sequence[str]], idf: DocumentFrequencies | None = None) -> np.ndarray:
    """Mean of tf(w) idf(w) over a sentence's words, where tf is the word's share of the document: (sentences,).

    Aksenov 2020, equations 4.1 and 4.2. A mean, as a sum would mostly measure length. A sentence without words has 0.

    Args:
        sentences: words of each sentence.
        idf: frequencies in a corpus; if not given, the document's own sentences are the collection.
    """
    if idf is None:
        idf = DocumentFrequencies(Counter(word for words in sentences for word in set(words)), len(sentences))
    counts = Counter(chain.from_iterable(sentences))
    total = counts.total()
    weights = {word: count / total * idf.idf(word) for word, count in counts.items()}
    # the exact sum does not depend on the order of the words
    return np.array([math.fsum(map(weights.__getitem__, words)) / max(len(words), 1) for words in sentences])


def distinct(order: Iterable[int], words: Sequence[Sequence[str]]) -> list[int]:
    """The indices of sentences in this order, without those that have the words of an earlier one."""
    firsts: dict[Any, int] = {}
    for index in order:
        # sentences without words, as of another script, are not equal
        firsts.setdefault(tuple(words[index]) or index, index)
    return list(firsts.values())


def fitting(order: Iterable[int], costs: Sequence[int], budget: int) -> list[int]:
    """The ascending indices of the sentences that are taken in this order while they fit into a budget.

    One that does not fit is passed over; the first is taken alone if it does not fit.
    """
    chosen: list[int] = []
    for index in order:
        if not chosen or costs[index] <= budget:
            chosen.append(index)
            budget -= costs[index]
    return sorted(chosen)


def best_first(scores: np.ndarray) -> list[int]:
    """The indices of scores from the highest to the lowest; the earlier of equal ones comes first."""
    if not len(scores):
        return []
    # rounded, so that floating-point errors do not break ties; "stable" keeps the order of ties
    steps = _PRECISION * (np.abs(scores).max() or 1)
    return np.argsort(-np.rint(scores / steps), kind="stable").tolist()
