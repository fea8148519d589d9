"""Inverse document frequencies of words in a corpus or in a document's sentences, and sentence scores from them."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from hf_summ.common.files import write_atomically
from hf_summ.common.messages import one_line
from hf_summ.data.languages import language_code
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_processing_highlight_transformer import frequencies_from_two

# Scores that differ by less than this share of the highest score are equal. The difference is a rounding error.
_PRECISION = 1e-9


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many documents of a collection each word occurs.

    Args:
        frequencies: word -> number of documents in which the word occurs. A word that is not listed is taken to occur
            in one document.
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
        words_of_documents = (split_words(document, language) for document in documents)
        frequencies, document_count = frequencies_from_two(words_of_documents)
        if document_count == 0:
            raise ValueError("no documents to count words in: the corpus is empty")
        return cls(frequencies, document_count, language)

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
            table._check()
            return table
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a file written by `hf-summ idf` ({one_line(error)}): name one") from error

    def _check(self) -> None:
        """Raise a ValueError for an unknown language, or a frequency that no collection can have."""
        language_code(self.language)
        problem = "a frequency is not from 1 to the number of documents"
        if self.documents < 1:
            raise ValueError(problem)
        for frequency in self.frequencies.values():
            if not 0 < frequency <= self.documents:
                raise ValueError(problem)

    def check_language(self, language: str) -> None:
        """Check that the words of the frequencies are in `language`.

        Raises:
            ValueError: the documents were in another language.
        """
        if language_code(language) != language_code(self.language):
            raise ValueError(
                f"the document frequencies are for language '{self.language}', but `language` is '{language}': fit "
                "others with `hf-summ idf --language`, or set `language`"
            )


def tfidf_scores(sentences: Sequence[Sequence[str]], idf: DocumentFrequencies | None = None) -> np.ndarray:
    """The mean of tf(w) idf(w) over the words of each sentence, (sentences,); 0 for a sentence without words.

    tf is the word's share of the document (Aksenov 2020, equations 4.1 and 4.2). The score is a mean, as a sum would
    mostly measure the length of the sentence.

    Args:
        sentences: words of each sentence.
        idf: frequencies in a corpus; if not given, the document's own sentences are the collection.
    """
    if idf is None:
        idf = _frequencies_in_sentences(sentences)
    counts = Counter(chain.from_iterable(sentences))
    total = counts.total()
    weights = {}
    for word, count in counts.items():
        weights[word] = count / total * idf.idf(word)
    # One pass over all words is faster than one for each sentence.
    weights_in_order = [weights[word] for word in chain.from_iterable(sentences)]
    scores = []
    start = 0
    for words in sentences:
        end = start + len(words)
        # The exact sum does not depend on the order of the words.
        summed_weights = math.fsum(weights_in_order[start:end])
        scores.append(summed_weights / max(len(words), 1))
        start = end
    return np.array(scores)


def _frequencies_in_sentences(sentences: Sequence[Sequence[str]]) -> DocumentFrequencies:
    """In how many of a document's sentences each word occurs."""
    distinct_words = (set(words) for words in sentences)
    frequencies = Counter(chain.from_iterable(distinct_words))
    return DocumentFrequencies(frequencies, len(sentences))


def without_same_words(order: Iterable[int], words: Sequence[Sequence[str]]) -> list[int]:
    """The indices of sentences in an order, without sentences that have the same words as a sentence before them.

    Args:
        order: indices of sentences.
        words: the words of each sentence of the document.
    """
    first_indices: dict[tuple[str, ...] | int, int] = {}
    for index in order:
        sentence_words = tuple(words[index])
        # Sentences without words, as in another script, are not equal to each other.
        key = sentence_words or index
        first_indices.setdefault(key, index)
    return list(first_indices.values())


def within_budget(order: Iterable[int], costs: Sequence[int], budget: int) -> list[int]:
    """The ascending indices of the sentences that fit into a budget, if they are taken in an order.

    A sentence that does not fit is passed over. If the first sentence does not fit, it is taken alone.

    Args:
        order: indices of sentences.
        costs: the cost of each sentence of the document.
        budget: the largest sum of costs.
    """
    chosen: list[int] = []
    remaining_budget = budget
    for index in order:
        is_first = not chosen
        if is_first or costs[index] <= remaining_budget:
            chosen.append(index)
            remaining_budget -= costs[index]
    return sorted(chosen)


def best_first(scores: np.ndarray) -> list[int]:
    """The indices of scores from the highest to the lowest score. Of equal scores, the earlier comes first."""
    if len(scores) == 0:
        return []
    highest = np.abs(scores).max()
    if highest == 0:
        highest = 1
    # Scores are rounded, so that floating-point errors do not break ties. A stable sort keeps the order of ties.
    rounded_scores = np.rint(scores / (_PRECISION * highest))
    return np.argsort(-rounded_scores, kind="stable").tolist()
