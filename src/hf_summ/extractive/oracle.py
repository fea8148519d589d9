"""The sentences that ROUGE would choose if it knew the reference (Nallapati et al. 2017)."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

# the n whose ROUGE-n F are added
MEASURES = {"rouge1": (1,), "rouge2": (2,), "rouge12": (1, 2)}


def greedy_oracle(sentences: Sequence[Sequence[str]], reference: Sequence[str], number: int, measure: str) -> list[int]:
    """Indices of at most `number` sentences, in order, adding each time the one that raises the measure most.

    There may be fewer, as this ends when no further sentence raises the measure, and none if nothing is in common. The
    first sentence wins ties. N-grams run across the chosen sentences, as ROUGE reads a summary.

    Args:
        sentences: words of each sentence.
        reference: words of the reference.
        measure: one of `MEASURES`.
    """
    sizes = MEASURES[measure]
    wanted = {n: Counter(_ngrams(reference, n)) for n in sizes}
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < number:
        trials = (sorted([*chosen, index]) for index in range(len(sentences)) if index not in chosen)
        scored = ((_score(list(chain.from_iterable(sentences[i] for i in trial)), wanted), trial) for trial in trials)
        # `max` returns the first of equals
        score, trial = max(scored, key=lambda pair: pair[0], default=(0.0, chosen))
        if score <= best:
            break
        best, chosen = score, trial
    return chosen


def _score(words: Sequence[str], wanted: dict[int, Counter]) -> float:
    """Sum of ROUGE-n F, each from 0 to 1, of `words` against the n-gram counts of a reference."""
    total = 0.0
    for n, counts in wanted.items():
        found = Counter(ngram for ngram in _ngrams(words, n) if ngram in counts)
        common = sum(min(count, counts[ngram]) for ngram, count in found.items())
        # 2PR / (P + R) = 2 common / (n-grams of both)
        total += 2 * common / max(max(len(words) - n + 1, 0) + counts.total(), 1)
    return total


def _ngrams(words: Sequence[str], n: int):
    return zip(*(words[shift:] for shift in range(n)), strict=False)
