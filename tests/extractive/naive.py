"""Readings of the thesis's section 4.1 word by word."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction


def idf(collection: Sequence[Sequence[str]], word: str) -> float:
    """Equation 4.2; a word that is in no member of the collection counts as if it were in one."""
    members_with_word = [member for member in collection if word in member]
    return math.log(len(collection) / max(len(members_with_word), 1))


def tfidf(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[float]:
    """The mean of equations 4.1 times 4.2 over the words of each sentence."""
    document = list(itertools.chain.from_iterable(sentences))
    values = {}
    for word in document:
        values[word] = document.count(word) / len(document) * idf(collection, word)
    scores = []
    for sentence in sentences:
        total = sum(values[word] for word in sentence)
        scores.append(total / max(len(sentence), 1))
    return scores


def order(sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]) -> list[int]:
    """From the highest score to the lowest; earlier sentences win ties, which sums in another order do not break."""
    scores = tfidf(sentences, collection)
    best = max(scores, default=0)
    if best == 0:
        return list(range(len(sentences)))
    return sorted(range(len(sentences)), key=lambda index: (-round(scores[index] / best, 9), index))


def close_gaps(sentences: Sequence[str], kept: Sequence[int], follows: Callable[[str, str], float]) -> list[int]:
    """Each adjacent pair of kept sentences, one after the other, and every sentence between them."""
    result = list(kept)
    for left, right in itertools.pairwise(kept):
        if follows(sentences[left], sentences[right]) > 0.5:
            continue
        probabilities = {}
        for between in range(left + 1, right):
            after_left = follows(sentences[left], sentences[between])
            before_right = follows(sentences[between], sentences[right])
            if after_left > 0.5 and before_right > 0.5:
                probabilities[between] = after_left * before_right
        if probabilities:
            # `max` gives the earliest of those that tie.
            result.append(max(probabilities, key=probabilities.get))
    return sorted(result)


def first_of_equals(indices: Sequence[int], words: Sequence[Sequence[str]]) -> list[int]:
    """The indices without those of sentences whose words an earlier sentence has; empty sentences all stay."""
    kept: list[int] = []
    earlier_sentences: list[Sequence[str]] = []
    for index in indices:
        if not words[index] or words[index] not in earlier_sentences:
            kept.append(index)
        earlier_sentences.append(words[index])
    return kept


def first_three_and(indices: Sequence[int], number: int) -> list[int]:
    """The first three of a number of sentences, and then those of the indices that come after them."""
    first_three = list(range(min(3, number)))
    return first_three + [index for index in indices if index > 2]


def keep_share(words: Sequence[Sequence[str]], share: Fraction) -> list[int]:
    """The first three, and the share of all with the highest scores."""
    ranked = first_of_equals(order(words, words), words)
    best = ranked[: math.ceil(share * len(words))]
    return sorted(first_of_equals(first_three_and(best, len(words)), words))


def keep_sentences(words: Sequence[Sequence[str]], costs: Sequence[int], budget: int) -> list[int]:
    """The first three, then the best, each that fits; the first alone if it does not fit."""
    if words and costs[0] > budget:
        return [0]
    kept: list[int] = []
    spent = 0
    ranked = first_three_and(order(words, words), len(words))
    for index in first_of_equals(ranked, words):
        if spent + costs[index] <= budget:
            kept.append(index)
            spent += costs[index]
    return sorted(kept)
