"""The consistent extractive stage, which shortens a document before a model reads it (Aksenov 2020, section 4.1)."""

from collections.abc import Sequence

from hf_summ.extractive.frequencies import DocumentFrequencies
from hf_summ.extractive.tfidf import best_first, tfidf_scores

# the first sentences, which are kept whatever their score
_ALWAYS = 3


def keep_sentences(
    words: Sequence[Sequence[str]], costs: Sequence[int], budget: int, idf: DocumentFrequencies | None = None
) -> list[int]:
    """The ascending indices of the sentences to keep within a budget, without a look at their consistency.

    First come the first three, then the others by their mean tf-idf, earlier ones first if these are equal; each is
    kept that fits in what is left of the budget. The first sentence is kept alone if it does not fit.

    Args:
        words: of each sentence, as `split_words` of `hf_summ.evaluation.words` has them.
        costs: of each sentence, such as its number of tokens.
        budget: what the costs of the kept sentences may add up to.
        idf: document frequencies of a corpus; if not given, the document's sentences are the collection.

    Raises:
        ValueError: a budget below 1, or not a cost for each sentence.
    """
    if budget < 1:
        raise ValueError(f"`budget` is {budget}, but must be at least 1")
    if len(costs) != len(words):
        raise ValueError(f"{len(costs)} costs but {len(words)} sentences: each needs its counterpart")
    if words and costs[0] > budget:
        return [0]
    kept, left = [], budget
    for index in _by_importance(words, idf):
        if costs[index] <= left:
            kept.append(index)
            left -= costs[index]
    return sorted(kept)


def _by_importance(words: Sequence[Sequence[str]], idf: DocumentFrequencies | None) -> list[int]:
    """All indices: the first three, then the others by mean tf-idf."""
    first = range(min(_ALWAYS, len(words)))
    return [*first, *(index for index in best_first(tfidf_scores(words, idf)) if index not in first)]
