"""Extractive summaries by any method; the oracle is that of Nallapati et al. 2017.

LexRank and TextRank score each document separately; its sentences are the collection for inverse document frequencies.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import check_lengths, split_words, warn_of_wordless
from hf_summ.extractive.consistent import Selection, consistent_extract, keep_sentences
from hf_summ.extractive.frequencies import best_first, distinct, tfidf_scores
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.checks import check_list, check_texts, is_list
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

# the oracle's measure is the sum of ROUGE-n F over these n
_ORACLE_NGRAMS = (1, 2)
# LexRank's threshold: sentences with a lower cosine are not linked (the best value in Erkan and Radev 2004)
_THRESHOLD = 0.1
# share of the random walk that follows links: TextRank's d, one minus LexRank's
_DAMPING = 0.85
# PageRank ends when a step changes the ranks of all sentences by this much on average
_TOLERANCE = 1e-9


def greedy_oracle(sentences: Sequence[Sequence[str]], reference: Sequence[str], number: int) -> list[int]:
    """Indices of at most `number` sentences, in order; each step adds the one that raises ROUGE most.

    The measure is F of ROUGE-1 plus F of ROUGE-2. The search ends when no further sentence raises it, so there may be
    fewer sentences, or none without common n-grams. The first sentence wins ties. N-grams cross the borders of chosen
    sentences, as in ROUGE. No two sentences have the same words.

    Args:
        sentences: words of each sentence.
        reference: words of the reference.
    """
    counts = {n: Counter(_ngrams(reference, n)) for n in _ORACLE_NGRAMS}
    candidates = distinct(range(len(sentences)), sentences)
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < number:
        best_trial = None
        for index in candidates:
            if index in chosen:
                continue
            trial = sorted([*chosen, index])
            words = list(chain.from_iterable(sentences[member] for member in trial))
            score = _score(words, counts)
            if score > best:
                best, best_trial = score, trial
        if best_trial is None:
            break
        chosen = best_trial
    return chosen


def _score(words: Sequence[str], references: dict[int, Counter]) -> float:
    """Sum of ROUGE-n F, each from 0 to 1, of `words` against the n-gram counts of a reference."""
    total = 0.0
    for n, counts in references.items():
        common = (Counter(_ngrams(words, n)) & counts).total()
        # 2PR / (P + R) = 2 common / (n-grams of both)
        total += 2 * common / max(max(len(words) - n + 1, 0) + counts.total(), 1)
    return total


def _ngrams(words: Sequence[str], n: int):
    return zip(*(words[shift:] for shift in range(n)), strict=False)


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


_CENTRALITIES = {"tfidf": tfidf_scores, "lexrank": lexrank_scores, "textrank": textrank_scores}


def extract(
    documents: Sequence[str | Sequence[str]],
    settings: ExtractiveSettings | None = None,
    references: Sequence[str] | None = None,
) -> list[str]:
    """Summarize each document by some of its sentences, in their order, on one line.

    - "lead" and "tail": the first and the last sentences, of several documents those of each (the First-k of Fabbri et
      al. 2019). With each reference's number of sentences as `sentences`, these are the head and the tail of Aksenov et
      al. 2020, section 5.2. "lead" is `hf_summ.data.lead`, which training scores for comparison.
    - "oracle": the sentences with the highest sum of ROUGE-1 and ROUGE-2, chosen greedily (Nallapati et al. 2017);
      fewer than requested if more would lower it, and none without n-grams in common with the reference.
    - "tfidf", "lexrank" (Erkan and Radev 2004), "textrank" (Mihalcea and Tarau 2004): the sentences with the highest
      scores in their document; earlier ones win ties. The last two need the extra `extractive`.
    - "consistent": the first three sentences, then those with the highest tf-idf. With a `share` or a number of
      `tokens`, it is `consistent_extract`, which reads several documents as one.

    No method but "lead" and "tail" chooses two sentences with the same words.

    Args:
        documents: one text per document, or several.
        settings: by default three sentences of "lead".
        references: one text per document, for "oracle"; other methods ignore them.

    Raises:
        TypeError: documents or references that are not strings.
        ValueError: an unknown language; other numbers of sentence counts or references than of documents;
            "oracle" without references; no document with words; or as `consistent_extract`.
        ImportError: the method needs the extra `extractive`, which is not installed.

    Warns:
        UserWarning: some documents have no words and get no summary; or as `consistent_extract`.
    """
    settings = settings or ExtractiveSettings()
    check_list("documents", documents)
    sets: list[list[Any]] = [[row] if isinstance(row, str) or not is_list(row) else [*row] for row in documents]
    check_texts("documents", [text for texts in sets for text in texts])
    if settings.is_stage:
        return consistent_extract([DOCUMENT_SEPARATOR.join(texts) for texts in sets], settings)
    summaries = []
    wordless = []
    for row, selection in enumerate(choose(sets, settings, references)):
        summaries.append(selection.summary())
        if not selection.has_words:
            wordless.append(row)
    if summaries:
        warn_of_wordless(wordless, "documents", len(summaries), "get no summary", settings.language)
    return summaries


def choose(
    sets: Sequence[Sequence[str]], settings: ExtractiveSettings, references: Sequence[str] | None
) -> Iterator[Selection]:
    """The sentences that are chosen of each set of documents, counted through all of them, with a progress bar."""
    method, language = settings.method or "lead", settings.language
    numbers = settings.sentences if isinstance(settings.sentences, Sequence) else [settings.sentences] * len(sets)
    if len(numbers) != len(sets):
        raise ValueError(
            f"{len(numbers)} numbers of `sentences` but {len(sets)} documents: give one each, or one for all"
        )
    if method == "oracle":
        if references is None:
            raise ValueError("`method` oracle needs `references`, one per document")
        check_lengths(references=references, documents=sets)
        check_texts("references", references)
        references = list(references)
    for row, texts in enumerate(progress_bar(sets, method)):
        sentences_of_texts = [split_sentences(text, language) for text in texts]
        sentences = list(chain.from_iterable(sentences_of_texts))
        words = [split_words(sentence, language) for sentence in sentences]
        number = numbers[row]
        if not any(words):
            indices = []
        elif method == "oracle" and references is not None:
            indices = greedy_oracle(words, split_words(references[row], language), number)
        elif method in _CENTRALITIES:
            ranked = distinct(best_first(_CENTRALITIES[method](words)), words)
            indices = sorted(ranked[:number])
        elif method == "consistent":
            indices = keep_sentences(words, [1] * len(words), number)
        else:
            indices = _at_an_end(method, sentences_of_texts, number)
        yield Selection(DOCUMENT_SEPARATOR.join(texts), sentences, indices, any(words))


def _at_an_end(method: str, sentences_of_texts: Sequence[Sequence[str]], number: int) -> list[int]:
    """The ascending indices of the first ("lead") or last sentences of each text, counted through all texts."""
    chosen: list[int] = []
    start = 0
    for sentences in sentences_of_texts:
        indices = range(start, start + len(sentences))
        chosen.extend(indices[:number] if method == "lead" else indices[-number:])
        start += len(sentences)
    return chosen
