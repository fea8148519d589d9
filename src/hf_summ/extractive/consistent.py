"""The consistent extractive stage, which shortens a document before a model reads it (Aksenov 2020, section 4.1)."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.data.sentences import pick_sentences, split_sentences
from hf_summ.evaluation.words import split_words, warn_of_wordless
from hf_summ.extractive.frequencies import (
    DocumentFrequencies,
    best_first,
    tfidf_scores,
    within_budget,
    without_same_words,
)
from hf_summ.extractive.settings import ExtractiveSettings, Judge, Pair
from hf_summ.models.checks import check_texts, is_list, is_number

# The judge accepts two sentences as neighbors if it gives the pair a probability above this.
_ACCEPTED = 0.5
# This many first sentences are kept, whatever their scores.
_FIRST_SENTENCES = 3
# The warning of a stage without a judge.
UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
# The number of documents whose pairs of sentences are judged together: a judge reads many pairs faster than few.
_DOCUMENTS_AT_ONCE = 256


@dataclass(frozen=True)
class Selection:
    """The sentences that are kept of a text.

    Args:
        text: the text.
        sentences: all sentences of the text.
        indices: the ascending indices of the sentences that are kept.
        has_words: whether any sentence has a word.
    """

    text: str
    sentences: list[str]
    indices: list[int]
    has_words: bool

    def summary(self) -> str:
        """The kept sentences, on one line."""
        return pick_sentences(self.text, self.sentences, self.indices)


def consistent_extract(documents: Sequence[str], settings: ExtractiveSettings) -> list[str]:
    """Shorten each document to some of its sentences, in their order, on one line, to fit a model's input.

    The first three sentences are kept, and the sentences with the highest mean tf-idf. A next-sentence model, if given,
    judges each two neighbors among the kept sentences. If it rejects two neighbors, a sentence between them is
    restored: the most probable sentence that the model accepts both after the first and before the second, if there is
    one. New neighbors are not judged again (Aksenov 2020, section 4.1).

    Args:
        documents: one text per document; the result for a blank document is empty.
        settings: what to keep, a `share` or a number of `tokens`, and how.

    Raises:
        TypeError: documents are not strings.
        ValueError: the settings have neither `share` nor `tokens`; a file or a model cannot be used; the document
            frequencies are of another language; the function that judges gives no probabilities; or as
            `split_sentences`.

    Warns:
        UserWarning: there is no next-sentence model, so no pairs were judged; or some documents have text but no words,
            and keep their first sentences.
    """
    check_texts("documents", documents)
    if not settings.is_stage:
        raise ValueError("the consistent extractive stage needs `share` or `tokens`, which say how much to keep")
    if settings.next_sentence_model is None:
        warnings.warn(UNCHECKED, stacklevel=2)
    stage = ConsistentStage.load(settings)
    summaries = []
    wordless_rows = []
    for row, selection in enumerate(stage.select(documents)):
        summaries.append(selection.summary())
        is_blank = not selection.sentences
        if not is_blank and not selection.has_words:
            wordless_rows.append(row)
    effect = "keep their first sentences"
    warn_of_wordless(wordless_rows, "documents", len(documents), effect, settings.language, required=False)
    return summaries


@dataclass(frozen=True)
class ConsistentStage:
    """The extractive stage, with everything that it needs loaded.

    The repair pass restores sentences between neighbors that the judge rejects; see `close_gaps`.

    Args:
        settings: what to keep.
        idf: document frequencies of a corpus; if None, the sentences of each document are the collection.
        judge: the judge of neighbors; if None, there is no repair pass.
    """

    settings: ExtractiveSettings
    idf: DocumentFrequencies | None
    judge: Judge | None

    @classmethod
    def load(cls, settings: ExtractiveSettings, **hub_settings: str | bool | None) -> "ConsistentStage":
        """Make a stage: read the file of document frequencies and the next-sentence model that the settings name.

        Args:
            settings: what to keep, and the names of the files.
            hub_settings: settings of the next-sentence model's download, such as `cache_dir`.

        Raises:
            ValueError: a file or a model cannot be used, or the document frequencies are of another language.
        """
        idf = settings.idf
        if idf is not None and not isinstance(idf, DocumentFrequencies):
            idf = DocumentFrequencies.load(idf)
        if idf is not None:
            idf.check_language(settings.language)
        judge = settings.next_sentence_model
        if isinstance(judge, str):
            # This imports torch and transformers, which the stage does not need otherwise.
            from hf_summ.evaluation.pair_models import NextSentenceModel

            judge = NextSentenceModel(judge, **hub_settings)
        return cls(settings, idf, judge)

    def select(self, documents: Sequence[str]) -> Iterator[Selection]:
        """Yield the sentences that are kept of each document, with a progress bar."""
        with progress_bar(None, "extracting", len(documents)) as bar:
            for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
                selections = []
                for document in documents[start : start + _DOCUMENTS_AT_ONCE]:
                    selections.append(self._select_before_repair(document))
                    bar.update()
                if self.judge is None:
                    yield from selections
                else:
                    yield from _repaired(selections, self.judge)

    def keep(self, words: Sequence[Sequence[str]], costs: Sequence[int], budget: int | None) -> list[int]:
        """The indices of the sentences of a document that are kept before the repair pass.

        If the settings have a share, this share of the sentences is kept, and costs and budget are ignored. Otherwise
        as many sentences are kept as fit into the budget.

        Args:
            words: the words of each sentence.
            costs: the cost of each sentence, such as its number of tokens.
            budget: the largest sum of costs; None only if the settings have a share.
        """
        if self.settings.share is not None:
            return keep_share(words, self.settings.share, self.idf)
        assert budget is not None
        return keep_sentences(words, costs, budget, self.idf)

    def _select_before_repair(self, document: str) -> Selection:
        """The sentences that are kept of a document before the repair pass."""
        settings = self.settings
        sentences = split_sentences(document, settings.language)
        words = [split_words(sentence, settings.language) for sentence in sentences]
        if settings.counter is None:
            costs = [len(sentence_words) for sentence_words in words]
        else:
            costs = settings.counter(sentences)
        indices = self.keep(words, costs, settings.tokens)
        return Selection(document, sentences, indices, any(words))


def _repaired(selections: Sequence[Selection], judge: Judge) -> Iterator[Selection]:
    """Yield the selections with the sentences that the repair pass restores."""
    sentences = []
    kept = []
    for selection in selections:
        sentences.append(selection.sentences)
        kept.append(selection.indices)
    closed = close_gaps(sentences, kept, judge)
    for selection, indices in zip(selections, closed, strict=True):
        yield replace(selection, indices=indices)


class _Gap(NamedTuple):
    """A place in a document where sentences are left out between two kept sentences.

    Attributes:
        document: the index of the document.
        first, second: the indices of the two kept sentences in the document.
    """

    document: int
    first: int
    second: int


class _Candidate(NamedTuple):
    """A sentence that may be restored in a gap.

    Attributes:
        gap: the gap.
        index: the index of the sentence in the document.
        probability: the judge's probability that the sentence follows the first sentence of the gap.
    """

    gap: _Gap
    index: int
    probability: float


def close_gaps(sentences: Sequence[Sequence[str]], kept: Sequence[Sequence[int]], judge: Judge) -> list[list[int]]:
    """The indices of the kept sentences, and of sentences that are restored between incoherent neighbors.

    The judge gives each pair of sentences a probability that the second follows the first. It rejects a pair whose
    probability is at most 0.5, and accepts other pairs. If two neighbors are rejected, a sentence between them is
    restored. The candidates are the sentences that are accepted both after the first neighbor and before the second.
    The candidate with the highest product of both probabilities is restored, and the earliest of several such
    candidates. Without candidates, nothing is restored. New neighbors are not judged again.

    Args:
        sentences: all sentences of each document.
        kept: the ascending indices of each document's kept sentences.
        judge: called at most three times, with distinct pairs of all documents at once.

    Returns:
        For each document, the ascending indices of its kept and its restored sentences.

    Raises:
        ValueError: the judge gives other values than a probability for each pair.
    """
    gaps = _rejected_gaps(sentences, kept, judge)
    candidates = _accepted_candidates(sentences, gaps, judge)
    closed = [list(indices) for indices in kept]
    for gap, index in _best_candidates(sentences, candidates, judge).items():
        closed[gap.document].append(index)
    for indices in closed:
        indices.sort()
    return closed


def _rejected_gaps(sentences: Sequence[Sequence[str]], kept: Sequence[Sequence[int]], judge: Judge) -> list[_Gap]:
    """The gaps whose two sentences the judge rejects as neighbors."""
    gaps = []
    pairs = []
    for document, indices in enumerate(kept):
        for first, second in pairwise(indices):
            # Adjacent sentences have nothing between them.
            if second > first + 1:
                gaps.append(_Gap(document, first, second))
                pairs.append((sentences[document][first], sentences[document][second]))
    probabilities = _probabilities(pairs, judge)
    rejected_gaps = []
    for gap, pair in zip(gaps, pairs, strict=True):
        if probabilities[pair] <= _ACCEPTED:
            rejected_gaps.append(gap)
    return rejected_gaps


def _accepted_candidates(sentences: Sequence[Sequence[str]], gaps: Sequence[_Gap], judge: Judge) -> list[_Candidate]:
    """The sentences within gaps that the judge accepts after the first sentence of their gap."""
    positions = []
    pairs = []
    for gap in gaps:
        document_sentences = sentences[gap.document]
        for index in range(gap.first + 1, gap.second):
            positions.append((gap, index))
            pairs.append((document_sentences[gap.first], document_sentences[index]))
    probabilities = _probabilities(pairs, judge)
    candidates = []
    for (gap, index), pair in zip(positions, pairs, strict=True):
        if probabilities[pair] > _ACCEPTED:
            candidates.append(_Candidate(gap, index, probabilities[pair]))
    return candidates


def _best_candidates(
    sentences: Sequence[Sequence[str]], candidates: Sequence[_Candidate], judge: Judge
) -> dict[_Gap, int]:
    """For each gap, the index of the best candidate, if the judge accepts any before the gap's second sentence."""
    pairs = []
    for candidate in candidates:
        document_sentences = sentences[candidate.gap.document]
        pairs.append((document_sentences[candidate.index], document_sentences[candidate.gap.second]))
    probabilities = _probabilities(pairs, judge)
    best_indices: dict[_Gap, int] = {}
    best_scores: dict[_Gap, float] = {}
    for candidate, pair in zip(candidates, pairs, strict=True):
        score = candidate.probability * probabilities[pair]
        # The earlier of equal candidates stays.
        if probabilities[pair] > _ACCEPTED and score > best_scores.get(candidate.gap, 0.0):
            best_scores[candidate.gap] = score
            best_indices[candidate.gap] = candidate.index
    return best_indices


def _probabilities(pairs: Sequence[Pair], judge: Judge) -> dict[Pair, float]:
    """Pair -> the judge's probability that the second sentence follows the first.

    Equal pairs are judged once, as a model's probabilities may differ slightly between batches. Without pairs, the
    judge is not called.

    Raises:
        ValueError: the judge gives other values than a probability for each pair.
    """
    distinct_pairs = list(dict.fromkeys(pairs))
    if not distinct_pairs:
        return {}
    output: Any = judge(distinct_pairs)
    # The output may also be an array or a tensor.
    values = output.tolist() if hasattr(output, "tolist") else output
    if not _are_probabilities(values, len(distinct_pairs)):
        raise ValueError(
            f"the next-sentence model must give {len(distinct_pairs)} probabilities, one per pair, but gives "
            f"{type(output).__name__}: {one_line(repr(output)):.80}"
        )
    probabilities = {}
    for pair, value in zip(distinct_pairs, values, strict=True):
        probabilities[pair] = float(value)
    return probabilities


def _are_probabilities(values: Sequence[float], pairs: int) -> bool:
    """Whether a judge's values are a list with a number from 0 to 1 for each pair.

    NaN is not such a number: it would silently reject a pair.

    Args:
        values: what the judge gave.
        pairs: the number of pairs.
    """
    if not is_list(values) or len(values) != pairs:
        return False
    return all(is_number(value) and 0 <= value <= 1 for value in values)


def keep_share(words: Sequence[Sequence[str]], share: float, idf: DocumentFrequencies | None = None) -> list[int]:
    """The ascending indices of the sentences with the highest mean tf-idf, and of the first three sentences.

    No two of these sentences have the same words.

    Args:
        words, idf: as for `keep_sentences`.
        share: the share of the sentences with the highest mean tf-idf, above 0 and at most 1. The number of sentences
            is rounded up.
    """
    # 0.07 of 100 sentences are 7 sentences, although the product in floating point is slightly above 7.
    kept_by_score = math.ceil(round(share * len(words), 6))
    ranked = without_same_words(best_first(tfidf_scores(words, idf)), words)
    order = _first_indices(words) + ranked[:kept_by_score]
    return sorted(without_same_words(order, words))


def keep_sentences(
    words: Sequence[Sequence[str]], costs: Sequence[int], budget: int, idf: DocumentFrequencies | None = None
) -> list[int]:
    """The ascending indices of the sentences to keep within a budget, without the repair pass.

    The first three sentences are tried first, then the others by falling mean tf-idf. Of sentences with equal tf-idf,
    the earlier is tried first. A sentence is kept if it fits in the rest of the budget and no kept sentence has the
    same words. If the first sentence does not fit in the budget, it is kept alone.

    Args:
        words: the words of each sentence, from `split_words` of `hf_summ.evaluation.words`.
        costs: the cost of each sentence, such as its number of tokens.
        budget: the largest sum of the costs of the kept sentences.
        idf: document frequencies of a corpus; if not given, the document's sentences are the collection.
    """
    order = _first_indices(words) + best_first(tfidf_scores(words, idf))
    return within_budget(without_same_words(order, words), costs, budget)


def _first_indices(words: Sequence[Sequence[str]]) -> list[int]:
    """The indices of the first sentences, which are kept whatever their scores."""
    return list(range(min(_FIRST_SENTENCES, len(words))))
