"""Scores of a document's sentences that need no reference: tf-idf, LexRank, TextRank.

Each document is scored on its own, with its sentences as the collection for inverse document frequencies.
"""

from collections.abc import Sequence
from importlib import import_module

import numpy as np

# LexRank's threshold: sentences with a lower cosine are not linked (the best value in Erkan and Radev 2004)
_THRESHOLD = 0.1
# share of the random walk that follows links: TextRank's d, one minus LexRank's
_DAMPING = 0.85


def tfidf_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Mean of tf(w) idf(w) over a sentence's words, where tf is the word's share of the document: (sentences,).

    The mean rather than the sum, which would mostly measure the length.

    Args:
        sentences: words of each sentence; at least one sentence has words.
    """
    counts = _counts(sentences)
    weights = counts.sum(axis=0) / counts.sum() * _idf(counts)
    return counts @ weights / np.maximum(counts.sum(axis=1), 1)


def lexrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """LexRank with threshold 0.1: PageRank over the sentences linked by `lexrank_similarities`: (sentences,).

    Erkan and Radev 2004, without their subsequent reranking. As there, a sentence is linked to itself.
    """
    return _pagerank((lexrank_similarities(sentences) > _THRESHOLD).astype(float))


def textrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """TextRank: PageRank over the sentences with links weighted by `textrank_similarities`: (sentences,).

    Mihalcea and Tarau 2004, equation 2.
    """
    return _pagerank(textrank_similarities(sentences))


def lexrank_similarities(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """idf-modified cosine of each pair (Erkan and Radev 2004): (sentences, sentences), 0 to 1.

    0 for a sentence without words, or only with words that occur in every sentence.
    """
    counts = _counts(sentences)
    vectors = counts * _idf(counts)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return vectors @ vectors.T


def textrank_similarities(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Common words divided by log lengths of each pair: (sentences, sentences), 0 on the diagonal.

    Mihalcea and Tarau 2004: |common words| / (log |a| + log |b|); 0 for two sentences of one word each, for which that
    is undefined.
    """
    present = (_counts(sentences) > 0).astype(float)
    logs = np.log([max(len(words), 1) for words in sentences])
    scales = logs[:, None] + logs[None, :]
    similarities = np.divide(present @ present.T, scales, out=np.zeros_like(scales), where=scales > 0)
    np.fill_diagonal(similarities, 0)
    return similarities


def _counts(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """How often each word is in each sentence: (sentences, words)."""
    text = _library("sklearn.feature_extraction.text")
    # the sentences are already split into words
    return text.CountVectorizer(analyzer=lambda words: words).fit_transform(sentences).toarray().astype(float)


def _idf(counts: np.ndarray) -> np.ndarray:
    """log(N / n) of each word, which occurs in n of the N sentences."""
    return np.log(len(counts) / (counts > 0).sum(axis=0))


def _pagerank(weights: np.ndarray) -> np.ndarray:
    """The stationary distribution of the random walk along weighted links: (sentences,), with sum 1."""
    networkx = _library("networkx")
    graph = networkx.from_numpy_array(weights)
    # 0.85 ** 200 is far below the tolerance, so this always converges
    ranks = networkx.pagerank(graph, alpha=_DAMPING, max_iter=200, tol=1e-9)
    return np.array([ranks[node] for node in range(len(weights))])


def _library(name: str):
    """Import a module of an optional library."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            "tfidf, lexrank and textrank need scikit-learn and networkx: pip install scikit-learn networkx; lead, tail "
            "and oracle do not"
        ) from error
