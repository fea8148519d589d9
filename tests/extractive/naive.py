"""Readings of the thesis's section 4.1 word by word."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction


def idf(collection: Sequence[Sequence[str]], word: str) -> float:
    """Equation 4.2; a word that is nowhere counts as if it were in one."""
    return math.log(len(collection) / max(sum(word in member for member in collection), 1))


def tfidf(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[float]:
    """The mean of equations 4.1 times 4.2 over the words of each sentence."""
    document = [word for sentence in sentences for word in sentence]
    values = {word: document.count(word) / len(document) * idf(collection, word) for word in set(document)}
    return [sum(values[word] for word in sentence) / max(len(sentence), 1) for sentence in sentences]


def order(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[int]:
    """From the highest score to the lowest; earlier sentences win ties, which sums in another order do not break."""
    scores = tfidf(sentences, collection)
    best = max(scores, default=0) or 1
    return sorted(range(len(sentences)), key=lambda index: (-round(scores[index] / best, 9), index))


def close_gaps(sentences: Sequence[str], kept: Sequence[int], follows: Callable[[str, str], float]) -> list[int]:
    """Each adjacent pair of kept sentences, one after the other, and every sentence between them."""
    result = list(kept)
    for left, right in itertools.pairwise(kept):
        if follows(sentences[left], sentences[right]) > 0.5:
            continue
        found = [
            (follows(sentences[left], sentences[k]) * follows(sentences[k], sentences[right]), -k)
            for k in range(left + 1, right)
            if follows(sentences[left], sentences[k]) > 0.5 and follows(sentences[k], sentences[right]) > 0.5
        ]
        if found:
            result.append(-max(found)[1])
    return sorted(result)


def first_of_equals(indices: Sequence[int], words: Sequence[Sequence[str]]) -> list[int]:
    """Without those whose words an earlier one has."""
    return [i for rank, i in enumerate(indices) if all(not words[i] or words[i] != words[j] for j in indices[:rank])]


def keep_share(words: Sequence[Sequence[str]], share: Fraction) -> list[int]:
    """The first three, and the share of all with the highest scores."""
    best = first_of_equals(order(words, words), words)[: math.ceil(share * len(words))]
    return sorted(first_of_equals([*range(len(words))[:3], *(index for index in best if index > 2)], words))


def keep_sentences(words: Sequence[Sequence[str]], costs: Sequence[int], budget: int) -> list[int]:
    """The first three, then the best, each that fits; the first alone if it does not fit."""
    if words and costs[0] > budget:
        return [0]
    kept: list[int] = []
    ranked = [*range(len(words))[:3], *(index for index in order(words, words) if index > 2)]
    for index in first_of_equals(ranked, words):
        if sum(costs[i] for i in [*kept, index]) <= budget:
            kept.append(index)
    return sorted(kept)
