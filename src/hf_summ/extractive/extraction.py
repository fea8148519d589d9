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

# The oracle's measure is the sum of ROUGE-n F over these n.
_ORACLE_NGRAMS = (1, 2)
# LexRank does not link sentences with a lower cosine. This is the best value in Erkan and Radev 2004.
_THRESHOLD = 0.1
# The random walk follows links with this probability. It is TextRank's d, and LexRank's is 1 minus this.
_DAMPING = 0.85
# PageRank ends when a step changes the ranks of all sentences by this much on average.
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
    reference_counts = {n: Counter(_ngrams(reference, n)) for n in _ORACLE_NGRAMS}
    candidates = distinct(range(len(sentences)), sentences)
    chosen: list[int] = []
    best_score = 0.0
    while len(chosen) < number:
        best_trial = None
        for index in candidates:
            if index in chosen:
                continue
            trial = sorted([*chosen, index])
            words: list[str] = []
            for member in trial:
                words.extend(sentences[member])
            score = _summed_f(words, reference_counts)
            if score > best_score:
                best_score = score
                best_trial = trial
        if best_trial is None:
            break
        chosen = best_trial
    return chosen


def _summed_f(words: Sequence[str], reference_counts: dict[int, Counter]) -> float:
    """The sum of ROUGE-n F, each from 0 to 1, of `words` against a reference.

    Args:
        reference_counts: n -> how often the reference has each n-gram.
    """
    total = 0.0
    for n, counts in reference_counts.items():
        common = (Counter(_ngrams(words, n)) & counts).total()
        ngrams = max(len(words) - n + 1, 0)
        reference_ngrams = counts.total()
        # F is 2PR / (P + R), which is 2 common / (n-grams of both texts).
        total += 2 * common / max(ngrams + reference_ngrams, 1)
    return total


def _ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    shifted_words = [words[shift:] for shift in range(n)]
    return zip(*shifted_words, strict=False)


def lexrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """LexRank with threshold 0.1: PageRank over the sentences linked by `lexrank_similarities`: (sentences,).

    Erkan and Radev 2004, without their reranking. As there, a sentence is linked to itself.
    """
    links = lexrank_similarities(sentences) > _THRESHOLD
    return _pagerank(links.astype(float))


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
    # The idf of a word that occurs in n of the N sentences is log(N / n).
    sentences_of_words = (counts > 0).sum(axis=0)
    idf = np.log(counts.shape[0] / sentences_of_words)
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
    # Two sentences of one word each have logarithms of 0, by which nothing can be divided.
    similarities[scales == 0] = 0
    np.divide(similarities, scales, out=similarities, where=scales > 0)
    np.fill_diagonal(similarities, 0)
    return similarities


def _counts(sentences: Sequence[Sequence[str]]):
    """How often each word is in each sentence: a sparse array (sentences, words)."""
    text = import_extra("sklearn.feature_extraction.text", "lexrank and textrank need scikit-learn", "extractive")
    # SciPy is there if scikit-learn is, which needs it.
    from scipy import sparse

    # The sentences are already split into words, so the analyzer leaves them as they are.
    vectorizer = text.CountVectorizer(analyzer=lambda words: words, dtype=float)
    return sparse.csr_array(vectorizer.fit_transform(sentences))


def _pagerank(weights: np.ndarray) -> np.ndarray:
    """The stationary distribution of the random walk along weighted links: (sentences,), with sum 1."""
    number = len(weights)
    sums = weights.sum(axis=1)
    has_links = sums > 0
    ranks = np.full(number, 1 / number)
    change = np.inf
    # Each step shrinks the change to at most 0.85 of it, so this always ends.
    while change > number * _TOLERANCE:
        shares = np.divide(ranks, sums, out=np.zeros(number), where=has_links)
        # From a sentence without links, the walk continues at any sentence.
        jumping_share = ranks[sums == 0].sum() / number
        next_ranks = _DAMPING * (shares @ weights + jumping_share) + (1 - _DAMPING) / number
        change = np.abs(next_ranks - ranks).sum()
        ranks = next_ranks
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
    # Until they are checked, the texts may be of any type.
    sets: list[list[Any]] = []
    for document in documents:
        if is_list(document):
            sets.append(list(document))
        else:
            sets.append([document])
    check_texts("documents", list(chain.from_iterable(sets)))
    if settings.is_stage:
        joined_documents = [DOCUMENT_SEPARATOR.join(texts) for texts in sets]
        return consistent_extract(joined_documents, settings)
    summaries = []
    wordless_rows = []
    for row, selection in enumerate(choose(sets, settings, references)):
        summaries.append(selection.summary())
        if not selection.has_words:
            wordless_rows.append(row)
    if summaries:
        warn_of_wordless(wordless_rows, "documents", len(summaries), "get no summary", settings.language)
    return summaries


def choose(
    sets: Sequence[Sequence[str]], settings: ExtractiveSettings, references: Sequence[str] | None
) -> Iterator[Selection]:
    """The sentences that are chosen of each set of documents, counted through all of them, with a progress bar."""
    method = settings.method or "lead"
    language = settings.language
    numbers = _numbers_of_sentences(settings, len(sets))
    if method == "oracle":
        if references is None:
            raise ValueError("`method` oracle needs `references`, one per document")
        check_lengths(references=references, documents=sets)
        check_texts("references", references)
        references = list(references)
    for row, texts in enumerate(progress_bar(sets, method)):
        sentences: list[str] = []
        lengths = []
        for text in texts:
            text_sentences = split_sentences(text, language)
            sentences.extend(text_sentences)
            lengths.append(len(text_sentences))
        words = [split_words(sentence, language) for sentence in sentences]
        has_words = any(words)
        number = numbers[row]
        if not has_words:
            indices = []
        elif method == "oracle" and references is not None:
            reference_words = split_words(references[row], language)
            indices = greedy_oracle(words, reference_words, number)
        elif method in _CENTRALITIES:
            scores = _CENTRALITIES[method](words)
            ranked = distinct(best_first(scores), words)
            indices = sorted(ranked[:number])
        elif method == "consistent":
            # Each sentence costs 1, so that the budget is their number.
            costs = [1] * len(words)
            indices = keep_sentences(words, costs, number)
        else:
            indices = _first_or_last(method, lengths, number)
        yield Selection(DOCUMENT_SEPARATOR.join(texts), sentences, indices, has_words)


def _numbers_of_sentences(settings: ExtractiveSettings, documents: int) -> Sequence[int]:
    """The number of sentences for each of the documents."""
    numbers = settings.sentences
    if not isinstance(numbers, Sequence):
        return [numbers] * documents
    if len(numbers) != documents:
        raise ValueError(
            f"{len(numbers)} numbers of `sentences` but {documents} documents: give one each, or one for all"
        )
    return numbers


def _first_or_last(method: str, lengths: Sequence[int], number: int) -> list[int]:
    """The ascending indices of the first ("lead") or last sentences of each text, counted through all texts.

    Args:
        lengths: the number of sentences of each text.
    """
    chosen: list[int] = []
    start = 0
    for length in lengths:
        end = start + length
        indices = range(start, end)
        if method == "lead":
            chosen.extend(indices[:number])
        else:
            chosen.extend(indices[-number:])
        start = end
    return chosen
