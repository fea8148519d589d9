"""Extractive summaries by any method; the oracle is that of Nallapati et al. 2017.

LexRank and TextRank score each document separately; its sentences are the collection for inverse document frequencies.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.data.sentences import pick_sentences, split_sentences
from hf_summ.evaluation.words import check_lengths, split_words, warn_of_wordless
from hf_summ.extractive.consistent import keep_sentences
from hf_summ.extractive.frequencies import best_first, distinct, fitting, tfidf_scores
from hf_summ.models.checks import check_integer, check_list, check_texts, is_list
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR

# the measure is the sum of ROUGE-n F over these n
MEASURES = {"rouge1": (1,), "rouge2": (2,), "rouge12": (1, 2)}
METHODS = ("lead", "tail", "oracle", "tfidf", "lexrank", "textrank", "consistent")
# LexRank's threshold: sentences with a lower cosine are not linked (the best value in Erkan and Radev 2004)
_THRESHOLD = 0.1
# share of the random walk that follows links: TextRank's d, one minus LexRank's
_DAMPING = 0.85
# most sentences of a document: the similarities of so many take 2 GB
MOST_SENTENCES = 10_000
# PageRank ends when a step changes the ranks of all sentences by this much on average
_TOLERANCE = 1e-9
# number of characters of a sentence that few writers reach
_LONG_SENTENCE = 300


def greedy_oracle(
    sentences: Sequence[Sequence[str]],
    reference: Sequence[str],
    number: int | None,
    measure: str,
    room: int | None = None,
) -> list[int]:
    """Indices of at most `number` sentences, in order; each step adds the one that raises the measure most.

    The search ends when no further sentence raises the measure, so there may be fewer, or none without common n-grams.
    The first sentence wins ties. N-grams cross the borders of chosen sentences, as in ROUGE. No two sentences have the
    same words.

    Args:
        sentences: words of each sentence.
        reference: words of the reference.
        measure: one of `MEASURES`.
        room: largest number of words of all chosen sentences; the first may exceed it.
    """
    sizes = MEASURES[measure]
    counts = {n: Counter(_ngrams(reference, n)) for n in sizes}
    candidates = {tuple(sentences[index]): index for index in distinct(range(len(sentences)), sentences)}
    chosen: list[int] = []
    best = 0.0
    while number is None or len(chosen) < number:
        if chosen and room is not None:
            budget = room - sum(len(sentences[index]) for index in chosen)
            candidates = {words: index for words, index in candidates.items() if len(words) <= budget}
        trials = (sorted([*chosen, index]) for index in sorted(candidates.values()) if index not in chosen)
        scored = ((_score(list(chain.from_iterable(sentences[i] for i in trial)), counts), trial) for trial in trials)
        # `max` returns the first of equals
        score, trial = max(scored, key=lambda pair: pair[0], default=(0.0, chosen))
        if score <= best:
            break
        best, chosen = score, trial
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
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    measure: str = "rouge12",
    language: str = "en",
    splitter: str = "sentencex",
    words: int | None = None,
) -> list[str]:
    """Summarize each document by some of its sentences, in their order, on one line.

    - "lead" and "tail": the first and the last sentences, of several documents those of each (the First-k of Fabbri et
      al. 2019). With each reference's number of sentences as `sentences`, these are the head and the tail of Aksenov et
      al. 2020, section 5.2. "lead" is `hf_summ.data.lead`, which training scores for comparison.
    - "oracle": the sentences with the highest ROUGE, chosen greedily (Nallapati et al. 2017); fewer than requested if
      more would lower it, and none without n-grams in common with the reference.
    - "tfidf", "lexrank" (Erkan and Radev 2004), "textrank" (Mihalcea and Tarau 2004): the sentences with the highest
      scores in their document; earlier ones win ties. The last two need the extra `extractive`, as does the splitter
      "spacy".
    - "consistent": the first three sentences, then those with the highest tf-idf, as in `consistent_extract`, which has
      more settings, without a next-sentence model.

    No method but "lead" and "tail" chooses two sentences with the same words.

    See `extract_sentences` for arguments and errors.
    """
    chosen = _choose(documents, method, sentences, references, measure, language, splitter, words)
    return [pick_sentences(DOCUMENT_SEPARATOR.join(texts), own, indices) for texts, own, indices in chosen]


def extract_sentences(
    documents: Sequence[str | Sequence[str]],
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    measure: str = "rouge12",
    language: str = "en",
    splitter: str = "sentencex",
    words: int | None = None,
) -> list[list[int]]:
    """The sentences that `extract` chooses: one list of ascending indices into `split_sentences` per document.

    Args:
        documents: one text per document, or several, whose sentences are counted through all of them.
        method: one of `METHODS`.
        sentences: number of sentences, for all documents or for each; a shorter document keeps all.
        references: one text per document, for "oracle"; other methods ignore them.
        measure: maximized by "oracle": F of "rouge1", of "rouge2", or their sum "rouge12", without stemming.
        language: as for `rouge_scores`.
        splitter: as for `split_sentences`.
        words: number of words, in place of `sentences`: whole sentences are taken while they fit; the first is taken
            alone if it does not fit. Of several documents, "lead" and "tail" take a sentence of each in turn.

    Raises:
        TypeError: documents or references that are not strings, or a number of sentences that is not an integer.
        ValueError: an unknown method, measure or splitter; fewer than 1 sentence or word; other numbers of sentence
            counts or references than of documents; "oracle" without references; no document with words; more sentences
            in a document than "lexrank" and "textrank" can compare.
        ImportError: the method or the splitter needs the extra `extractive`, which is not installed.

    Warns:
        UserWarning: some documents have no words and get no summary; or most are one long sentence.
    """
    chosen = _choose(documents, method, sentences, references, measure, language, splitter, words)
    return [indices for *_, indices in chosen]


def _choose(
    documents: Sequence[str | Sequence[str]],
    method: str,
    sentences: int | Sequence[int],
    references: Sequence[str] | None,
    measure: str,
    language: str,
    splitter: str,
    room: int | None,
) -> Iterator[tuple[list[str], list[str], list[int]]]:
    """Each document's texts and sentences, and the ascending indices of those chosen, with a progress bar."""
    check_choice("`method`", method, METHODS)
    check_choice("`measure`", measure, MEASURES)
    check_list("documents", documents)
    sets: list[list[Any]] = [[one] if isinstance(one, str) or not is_list(one) else [*one] for one in documents]
    check_texts("documents", [text for texts in sets for text in texts])
    numbers = list(sentences) if isinstance(sentences, Iterable) else [sentences] * len(sets)
    if len(numbers) != len(sets):
        raise ValueError(
            f"{len(numbers)} numbers of `sentences` but {len(sets)} documents: give one each, or one for all"
        )
    for number in numbers or [sentences]:
        check_integer("sentences", number, 1)
    if room is not None:
        check_integer("words", room, 1)
    if method == "oracle":
        if references is None:
            raise ValueError('`method="oracle"` needs `references`, one per document')
        check_lengths(references=references, documents=documents)
        check_texts("references", references)
    references = [] if references is None else list(references)
    wordless, unmarked = [], 0
    pairs = zip(sets, numbers, strict=True)
    for row, (texts, number) in enumerate(progress_bar(pairs, method, len(sets))):
        own = [split_sentences(text, language, splitter) for text in texts]
        flat = [sentence for of_text in own for sentence in of_text]
        unmarked += len(flat) == 1 and len(flat[0]) >= _LONG_SENTENCE
        words = [split_words(sentence, language) for sentence in flat]
        limit = number if room is None else None
        costs = [1] * len(words) if room is None else [max(len(sentence), 1) for sentence in words]
        budget = number if room is None else room
        if not any(words):
            wordless.append(row)
            yield texts, flat, []
        elif method == "oracle":
            yield texts, flat, greedy_oracle(words, split_words(references[row], language), limit, measure, room)
        elif method in _CENTRALITIES:
            if method != "tfidf" and len(words) > MOST_SENTENCES:
                raise ValueError(
                    f"row {row}: the document has {len(words):,} sentences, but lexrank and textrank compare at most "
                    f"{MOST_SENTENCES:,} with each other: choose tfidf or consistent, whose memory grows with the "
                    "length alone"
                )
            yield texts, flat, fitting(distinct(best_first(_CENTRALITIES[method](words)), words), costs, budget)
        elif method == "consistent":
            yield texts, flat, keep_sentences(words, costs, budget)
        else:
            yield texts, flat, _at_an_end(method, own, words, limit, room)
    if sets:
        warn_of_wordless(wordless, "documents", len(sets), "get no summary", language, stacklevel=5)
    if unmarked * 2 > len(sets):
        hint = "put each sentence in a line of its own, as Thai and transcripts of speech have no marks"
        warnings.warn(f"{unmarked} of {len(sets)} documents are one long sentence: {hint}", stacklevel=4)


def _at_an_end(
    method: str, own: Sequence[Sequence[str]], words: Sequence[Sequence[str]], limit: int | None, room: int | None
) -> list[int]:
    """The indices of the first or last sentences of each document: a number of each, or while their words fit."""
    ranked = []
    start = 0
    for of_text in own:
        indices = list(range(start, start + len(of_text)))
        ranked += [*enumerate(indices if method == "lead" else reversed(indices))]
        start += len(of_text)
    order = [index for rank, index in sorted(ranked) if limit is None or rank < limit]
    if room is None:
        return sorted(order)
    sizes = accumulate(len(words[index]) for index in order)
    return sorted(order[: max(sum(size <= room for size in sizes), 1)])
