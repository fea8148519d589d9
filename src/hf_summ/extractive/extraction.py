"""Extractive summaries by any method; the oracle is that of Nallapati et al. 2017."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from hf_summ.common.messages import check_choice, progress_bar
from hf_summ.data.sentences import pick_sentences, split_sentences
from hf_summ.evaluation.words import check_pairs, split_words, warn_of_wordless
from hf_summ.extractive.centrality import lexrank_scores, textrank_scores
from hf_summ.extractive.consistent import keep_sentences
from hf_summ.extractive.frequencies import best_first, tfidf_scores
from hf_summ.models.checks import check_integer, check_texts

# the measure is the sum of ROUGE-n F over these n
MEASURES = {"rouge1": (1,), "rouge2": (2,), "rouge12": (1, 2)}
_CENTRALITIES = {"tfidf": tfidf_scores, "lexrank": lexrank_scores, "textrank": textrank_scores}
METHODS = ("lead", "tail", "oracle", *_CENTRALITIES, "consistent")


def greedy_oracle(sentences: Sequence[Sequence[str]], reference: Sequence[str], number: int, measure: str) -> list[int]:
    """Indices of at most `number` sentences, in order; each step adds the one that raises the measure most.

    The search ends when no further sentence raises the measure, so there may be fewer, or none without common n-grams.
    The first sentence wins ties. N-grams cross the borders of chosen sentences, as in ROUGE.

    Args:
        sentences: words of each sentence.
        reference: words of the reference.
        measure: one of `MEASURES`.
    """
    sizes = MEASURES[measure]
    counts = {n: Counter(_ngrams(reference, n)) for n in sizes}
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < number:
        trials = (sorted([*chosen, index]) for index in range(len(sentences)) if index not in chosen)
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


def extract(
    documents: Sequence[str],
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    measure: str = "rouge12",
    language: str = "en",
    splitter: str = "sentencex",
) -> list[str]:
    """Summarize each document by some of its sentences, in their order, on one line.

    - "lead" and "tail": the first and the last sentences. With each reference's number of sentences as `sentences`,
      these are the head and the tail of Aksenov et al. 2020, section 5.2. "lead" is `hf_summ.data.lead`, which training
      scores for comparison.
    - "oracle": the sentences with the highest ROUGE, chosen greedily (Nallapati et al. 2017); fewer than requested if
      more would lower it, and none without n-grams in common with the reference.
    - "tfidf", "lexrank" (Erkan and Radev 2004), "textrank" (Mihalcea and Tarau 2004): the sentences with the highest
      scores in their document; earlier ones win ties. The last two need the extra `extractive`, as does the splitter
      "spacy".
    - "consistent": the first three sentences, then those with the highest tf-idf, as in `consistent_extract`, which has
      more settings, without a next-sentence model.

    See `extract_sentences` for arguments and errors.
    """
    chosen = _choose(documents, method, sentences, references, measure, language, splitter)
    return [pick_sentences(document, *choice) for document, choice in zip(documents, chosen, strict=True)]


def extract_sentences(
    documents: Sequence[str],
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    measure: str = "rouge12",
    language: str = "en",
    splitter: str = "sentencex",
) -> list[list[int]]:
    """The sentences that `extract` chooses: one list of ascending indices into `split_sentences` per document.

    Args:
        documents: one text per document.
        method: one of `METHODS`.
        sentences: number of sentences, for all documents or for each; a shorter document keeps all.
        references: one text per document, for "oracle"; other methods ignore them.
        measure: maximized by "oracle": F of "rouge1", of "rouge2", or their sum "rouge12", without stemming.
        language: as for `rouge_scores`.
        splitter: as for `split_sentences`.

    Raises:
        TypeError: documents or references that are not strings, or a number of sentences that is not an integer.
        ValueError: an unknown method, measure or splitter; fewer than 1 sentence; other numbers of sentence counts or
            references than of documents; "oracle" without references; no document with words; more sentences in a
            document than "lexrank" and "textrank" can compare.
        ImportError: the method or the splitter needs the extra `extractive`, which is not installed.

    Warns:
        UserWarning: some documents have no words and get no summary.
    """
    return [indices for _, indices in _choose(documents, method, sentences, references, measure, language, splitter)]


def _choose(
    documents: Sequence[str],
    method: str,
    sentences: int | Sequence[int],
    references: Sequence[str] | None,
    measure: str,
    language: str,
    splitter: str,
) -> Iterator[tuple[list[str], list[int]]]:
    """Each document's sentences and the ascending indices of those chosen, with a progress bar."""
    check_choice("`method`", method, METHODS)
    check_choice("`measure`", measure, MEASURES)
    check_texts("documents", documents)
    numbers = sentences if isinstance(sentences, Sequence) else [sentences] * len(documents)
    if len(numbers) != len(documents):
        raise ValueError(
            f"{len(numbers)} numbers of `sentences` but {len(documents)} documents: give one each, or one for all"
        )
    for number in numbers or [sentences]:
        check_integer("sentences", number, 1)
    if method == "oracle":
        if references is None:
            raise ValueError('`method="oracle"` needs `references`, one per document')
        check_pairs(references=references, documents=documents)
    wordless = []
    pairs = zip(documents, numbers, strict=True)
    for row, (document, number) in enumerate(progress_bar(pairs, method, len(documents))):
        texts = split_sentences(document, language, splitter)
        words = [split_words(sentence, language) for sentence in texts]
        if not any(words):
            wordless.append(row)
            yield texts, []
        elif method == "oracle":
            assert references is not None
            yield texts, greedy_oracle(words, split_words(references[row], language), number, measure)
        elif method in _CENTRALITIES:
            try:
                scores = _CENTRALITIES[method](words)
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from error
            yield texts, sorted(best_first(scores)[:number])
        elif method == "consistent":
            yield texts, keep_sentences(words, [1] * len(words), number)
        else:
            indices = list(range(len(words)))
            yield texts, indices[:number] if method == "lead" else indices[-number:]
    if documents:
        warn_of_wordless(wordless, "documents", len(documents), "get no summary", language, stacklevel=5)
