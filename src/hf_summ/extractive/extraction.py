"""Extractive summaries, which consist of sentences of the document, by several methods.

The oracle is the greedy search of Nallapati et al. 2017. LexRank and TextRank score the sentences of a document by a
random walk on a graph, whose links are similarities of sentences.
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
from hf_summ.extractive.frequencies import best_first, tfidf_scores, without_same_words
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.checks import check_list, check_texts, is_list
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

# The oracle maximizes the sum of F of ROUGE-n over these n.
_ORACLE_NGRAMS = (1, 2)
# LexRank does not link sentences with a lower cosine. This is the best value in Erkan and Radev 2004.
_THRESHOLD = 0.1
# The random walk follows a link with this probability, and otherwise jumps to any sentence. The paper of TextRank calls
# this probability d. In the paper of LexRank, d is 1 minus this probability.
_DAMPING = 0.85
# PageRank ends when a step changes the ranks of sentences by at most this much on average.
_TOLERANCE = 1e-9


def greedy_oracle(sentences: Sequence[Sequence[str]], reference: Sequence[str], number: int) -> list[int]:
    """Choose sentences of a document that are together close to the reference (Nallapati et al. 2017).

    The measure is F of ROUGE-1 plus F of ROUGE-2 of the chosen sentences. Each step chooses the sentence that raises
    the measure most, and the earliest of several such sentences. The search ends when no further sentence raises the
    measure. N-grams may cross the borders of sentences, as in ROUGE. No two chosen sentences have the same words.

    Args:
        sentences: words of each sentence.
        reference: words of the reference.
        number: the largest number of sentences to choose.

    Returns:
        The ascending indices of the chosen sentences. There are none if the document has no word of the reference.
    """
    reference_counts = {n: Counter(_ngrams(reference, n)) for n in _ORACLE_NGRAMS}
    candidates = without_same_words(range(len(sentences)), sentences)
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
    """The sum of F of ROUGE-n over n = 1 and 2, each from 0 to 1, of a text against a reference.

    Args:
        words: the words of the text.
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
    """The n-grams of a text, in order. A text shorter than n has none."""
    shifted_words = [words[shift:] for shift in range(n)]
    return zip(*shifted_words, strict=False)


def lexrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """LexRank (Erkan and Radev 2004): the PageRank of each sentence, (sentences,), with sum 1.

    Two sentences are linked if their `lexrank_similarities` exceed 0.1. As in the paper, a sentence is linked to
    itself. The reranking of the paper is left out.

    Args:
        sentences: words of each sentence.
    """
    links = lexrank_similarities(sentences) > _THRESHOLD
    return _pagerank(links.astype(float))


def textrank_scores(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """TextRank (Mihalcea and Tarau 2004, equation 2): the PageRank of each sentence, (sentences,), with sum 1.

    The weight of the link of two sentences is their `textrank_similarities`.

    Args:
        sentences: words of each sentence.
    """
    return _pagerank(textrank_similarities(sentences))


def lexrank_similarities(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """The idf-modified cosine of each pair of sentences (Erkan and Radev 2004), 0 to 1: (sentences, sentences).

    The sentences of the document are the collection in which document frequencies are counted. The similarities of a
    sentence are 0 if it has no words, or if all of its words occur in every sentence.

    Args:
        sentences: words of each sentence.
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
    """The similarity of each pair of sentences (Mihalcea and Tarau 2004): (sentences, sentences), 0 on the diagonal.

    The similarity of sentences a and b is |common words| / (log |a| + log |b|). For two sentences of one word each, the
    divisor is 0, and the similarity is defined as 0.

    Args:
        sentences: words of each sentence.
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
    """The ranks of sentences, (N,), with sum 1: the stationary distribution of a random walk along links.

    Args:
        weights: (N, N), the weight of the link from a sentence (row) to another (column); 0 if there is no link.
    """
    sentences = len(weights)
    sums = weights.sum(axis=1)
    has_links = sums > 0
    ranks = np.full(sentences, 1 / sentences)
    change = np.inf
    # The change of a step is at most 0.85 times the change of the step before, so the loop ends.
    while change > sentences * _TOLERANCE:
        # A sentence passes its rank on along its links, in proportion to their weights.
        rank_per_weight = np.divide(ranks, sums, out=np.zeros(sentences), where=has_links)
        # From a sentence without links, the walk continues at any sentence.
        jumping_rank = ranks[sums == 0].sum() / sentences
        next_ranks = _DAMPING * (rank_per_weight @ weights + jumping_rank) + (1 - _DAMPING) / sentences
        change = np.abs(next_ranks - ranks).sum()
        ranks = next_ranks
    return ranks


# Method -> the function that scores the sentences of a document.
_CENTRALITIES = {"tfidf": tfidf_scores, "lexrank": lexrank_scores, "textrank": textrank_scores}


def extract(
    documents: Sequence[str | Sequence[str]],
    settings: ExtractiveSettings | None = None,
    references: Sequence[str] | None = None,
) -> list[str]:
    """Summarize each document by some of its sentences, in their order, on one line.

    The methods are:

    - "lead" and "tail": the first sentences, or the last sentences, of each document of an example (the First-k of
      Fabbri et al. 2019). If `sentences` is the number of sentences of each reference, the summaries are the head and
      the tail of Aksenov et al. 2020, section 5.2. "lead" is `hf_summ.data.lead`, which training scores for comparison.
    - "oracle": the sentences with the highest sum of ROUGE-1 and ROUGE-2, chosen greedily (Nallapati et al. 2017).
      There are fewer than requested if a further sentence would not raise the sum, and none without words in common
      with the reference.
    - "tfidf", "lexrank" (Erkan and Radev 2004), "textrank" (Mihalcea and Tarau 2004): the sentences with the highest
      scores in their document. Of sentences with equal scores, the earlier ones are chosen. "lexrank" and "textrank"
      need the extra `extractive`.
    - "consistent": the first three sentences, then the sentences with the highest tf-idf. If `settings` has a `share`
      or a number of `tokens`, the summaries are those of `consistent_extract`, which reads the documents of an example
      as one document.

    No method but "lead" and "tail" chooses two sentences with the same words.

    Args:
        documents: for each example, its document or the list of its documents.
        settings: by default three sentences of "lead".
        references: one text per example, for "oracle"; other methods ignore them.

    Raises:
        TypeError: documents or references are not strings.
        ValueError: the language is unknown; the numbers of references, or of numbers of sentences, and of examples
            differ; there are no references for "oracle"; no document has words; or as `consistent_extract`.
        ImportError: the method needs the extra `extractive`, which is not installed.

    Warns:
        UserWarning: some documents have no words and get no summary; or as `consistent_extract`.
    """
    settings = settings or ExtractiveSettings()
    check_list("documents", documents)
    # The documents of each example. Until they are checked, they may be of any type.
    document_lists: list[list[Any]] = []
    for document in documents:
        if is_list(document):
            document_lists.append(list(document))
        else:
            document_lists.append([document])
    check_texts("documents", list(chain.from_iterable(document_lists)))
    if settings.is_stage:
        joined_documents = [DOCUMENT_SEPARATOR.join(texts) for texts in document_lists]
        return consistent_extract(joined_documents, settings)
    summaries = []
    wordless_rows = []
    for row, selection in enumerate(choose(document_lists, settings, references)):
        summaries.append(selection.summary())
        if not selection.has_words:
            wordless_rows.append(row)
    if summaries:
        warn_of_wordless(wordless_rows, "documents", len(summaries), "get no summary", settings.language)
    return summaries


def choose(
    document_lists: Sequence[Sequence[str]], settings: ExtractiveSettings, references: Sequence[str] | None
) -> Iterator[Selection]:
    """Yield the sentences that are chosen of the documents of each example, with a progress bar.

    The documents of an example are read as one text. So the indices in a `Selection` go on from the last sentence of a
    document to the first sentence of the next.

    Args:
        document_lists: the documents of each example.
        settings: the method, the numbers of sentences and the language.
        references: the reference of each example, for "oracle"; other methods ignore them.

    Raises:
        TypeError: references are not strings.
        ValueError: there are no references for "oracle", or the numbers of references or of numbers of sentences differ
            from the number of examples. Errors are raised when the first example is asked for.
    """
    method = settings.method or "lead"
    language = settings.language
    numbers = _numbers_of_sentences(settings, len(document_lists))
    oracle_references: Sequence[str] = []
    if method == "oracle":
        oracle_references = _oracle_references(references, document_lists)
    for row, texts in enumerate(progress_bar(document_lists, method)):
        sentences: list[str] = []
        lengths = []
        for text in texts:
            text_sentences = split_sentences(text, language)
            sentences.extend(text_sentences)
            lengths.append(len(text_sentences))
        words = [split_words(sentence, language) for sentence in sentences]
        has_words = any(words)
        indices: list[int] = []
        if has_words and method == "oracle":
            reference_words = split_words(oracle_references[row], language)
            indices = greedy_oracle(words, reference_words, numbers[row])
        elif has_words and method in ("lead", "tail"):
            indices = _first_or_last(method, lengths, numbers[row])
        elif has_words:
            indices = _best_sentences(method, words, numbers[row])
        yield Selection(DOCUMENT_SEPARATOR.join(texts), sentences, indices, has_words)


def _oracle_references(references: Sequence[str] | None, document_lists: Sequence[Sequence[str]]) -> list[str]:
    """The texts with which the oracle compares sentences, checked.

    Args:
        references: the reference of each example, or None.
        document_lists: the documents of each example.

    Raises:
        TypeError: references are not strings.
        ValueError: there are no references, or not one for each example.
    """
    if references is None:
        raise ValueError("`method` oracle needs `references`, one per document")
    check_lengths(references=references, documents=document_lists)
    check_texts("references", references)
    # Rows of a Series would be looked up by its labels, and not by their positions.
    return list(references)


def _best_sentences(method: str, words: Sequence[Sequence[str]], number: int) -> list[int]:
    """The ascending indices of the sentences that a method chooses by its scores.

    Args:
        method: "tfidf", "lexrank", "textrank" or "consistent".
        words: the words of each sentence of an example.
        number: the largest number of sentences to choose.
    """
    if method == "consistent":
        # Each sentence costs 1, so that the budget is a number of sentences.
        costs = [1] * len(words)
        return keep_sentences(words, costs, number)
    scores = _CENTRALITIES[method](words)
    ranked = without_same_words(best_first(scores), words)
    return sorted(ranked[:number])


def _numbers_of_sentences(settings: ExtractiveSettings, documents: int) -> Sequence[int]:
    """The largest number of sentences to choose for each example.

    Args:
        settings: its field `sentences` is one number for all examples, or a number for each.
        documents: the number of examples.

    Raises:
        ValueError: the number of numbers differs from the number of examples.
    """
    numbers = settings.sentences
    if not isinstance(numbers, Sequence):
        return [numbers] * documents
    if len(numbers) != documents:
        raise ValueError(
            f"`sentences` has {len(numbers)} numbers, but there are {documents} documents: give a number for each "
            "document, or one for all"
        )
    return numbers


def _first_or_last(method: str, lengths: Sequence[int], number: int) -> list[int]:
    """The ascending indices of the first sentences of each document of an example ("lead"), or of the last ("tail").

    Args:
        method: "lead" or "tail".
        lengths: the number of sentences of each document. Indices are counted through all documents.
        number: the largest number of sentences to choose of each document.
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
