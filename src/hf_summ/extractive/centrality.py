"""Centrality of the sentences of a document: LexRank, TextRank.

Each document is scored separately; its sentences are the collection for inverse document frequencies.
"""

from collections.abc import Sequence

import numpy as np

from hf_summ.common.lazy import import_extra

# LexRank's threshold: sentences with a lower cosine are not linked (the best value in Erkan and Radev 2004)
_THRESHOLD = 0.1
# share of the random walk that follows links: TextRank's d, one minus LexRank's
_DAMPING = 0.85
# most sentences of a document: the similarities of so many take 2 GB
MOST_SENTENCES = 10_000
# PageRank ends when a step changes the ranks of all sentences by this much on average
_TOLERANCE = 1e-9


def lexrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """LexRank with threshold 0.1: PageRank over the sentences linked by `lexrank_similarities`: (sentences,).

    Erkan and Radev 2004, without their reranking. As there, a sentence is linked to itself.
    """
    return _pagerank((lexrank_similarities(sentences) > _THRESHOLD).astype(float))


def textrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """TextRank: PageRank over the sentences with links weighted by `textrank_similarities`: (sentences,).

    Mihalcea and Tarau 2004, equation 2.
    """
    return _pagerank(textrank_similarities(sentences))


def lexrank_similarities(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """idf-modified cosine of each pair (Erkan and Radev 2004): (sentences, sentences), 0 to 1.

    0 for a sentence without words, or whose words all occur in every sentence.
    """
    counts = _counts(sentences)
    # log(N / n) of each word, which occurs in n of the N sentences
    idf = np.log(counts.shape[0] / (counts > 0).sum(axis=0))
    vectors = counts.multiply(idf).tocsr()
    norms = np.sqrt(vectors.multiply(vectors).sum(axis=1))
    scales = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    vectors = vectors.multiply(scales[:, None]).tocsr()
    return (vectors @ vectors.T).toarray()


def textrank_similarities(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Common words divided by log lengths of each pair: (sentences, sentences), 0 on the diagonal.

    Mihalcea and Tarau 2004: |common words| / (log |a| + log |b|); 0 for two sentences of one word each, for which that
    is undefined.
    """
    present = (_counts(sentences) > 0).astype(float)
    similarities = (present @ present.T).toarray()
    logs = np.log([max(len(words), 1) for words in sentences])
    scales = logs[:, None] + logs[None, :]
    # the quotient needs a logarithm above 0
    similarities[scales == 0] = 0
    np.divide(similarities, scales, out=similarities, where=scales > 0)
    np.fill_diagonal(similarities, 0)
    return similarities


def _counts(sentences: Sequence[Sequence[str]]):
    """How often each word is in each sentence: a sparse array (sentences, words)."""
    if len(sentences) > MOST_SENTENCES:
        raise ValueError(
            f"the document has {len(sentences):,} sentences, but lexrank and textrank compare at most "
            f"{MOST_SENTENCES:,} with each other: choose tfidf or consistent, whose memory grows with the length alone"
        )
    text = import_extra("sklearn.feature_extraction.text", "lexrank and textrank need scikit-learn", "extractive")
    # scikit-learn needs SciPy
    from scipy import sparse

    # the sentences are already split into words
    return sparse.csr_array(text.CountVectorizer(analyzer=lambda words: words, dtype=float).fit_transform(sentences))


def _pagerank(weights: np.ndarray) -> np.ndarray:
    """The stationary distribution of the random walk along weighted links: (sentences,), with sum 1."""
    number = len(weights)
    sums = weights.sum(axis=1)
    ranks = np.full(number, 1 / number)
    change = np.inf
    # each step shrinks the change to at most 0.85 of it, so this always ends
    while change > number * _TOLERANCE:
        # from a sentence without links, the walk continues at any
        shares = np.divide(ranks, sums, out=np.zeros(number), where=sums > 0)
        following = _DAMPING * (shares @ weights + ranks[sums == 0].sum() / number) + (1 - _DAMPING) / number
        change = np.abs(following - ranks).sum()
        ranks = following
    return ranks
