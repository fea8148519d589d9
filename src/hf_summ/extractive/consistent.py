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
from hf_summ.extractive.frequencies import DocumentFrequencies, best_first, distinct, fitting, tfidf_scores
from hf_summ.extractive.settings import ExtractiveSettings, Judge, Pair
from hf_summ.models.checks import check_texts, is_list, is_number

# The judge accepts two neighbors if their probability is above this.
_ACCEPTED = 0.5
# This many first sentences are kept, whatever their scores.
_ALWAYS = 3
UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
# The pairs of sentences of this many documents are judged together.
_DOCUMENTS_AT_ONCE = 256


@dataclass(frozen=True)
class Selection:
    """The sentences that are kept of a text.

    Args:
        sentences: all sentences of the text.
        indices: the ascending indices of the kept ones.
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

    The sentences with the highest mean tf-idf are kept, and the first three. A next-sentence model, if given, judges
    neighbors among them. Between two that it rejects, the most probable sentence that it accepts beside both is
    restored, if there is one. New neighbors are not judged again (Aksenov 2020, section 4.1).

    Args:
        documents: one text per document; the result for a blank one is empty.
        settings: what to keep, a `share` or a number of `tokens`, and how.

    Raises:
        TypeError: documents that are not strings.
        ValueError: neither `share` nor `tokens`; a file or a model that cannot be used, or is of another language; a
            function with another result; or as `split_sentences`.

    Warns:
        UserWarning: there is no next-sentence model, so no pairs were judged; or some documents have text but no words,
            and keep their first sentences.
    """
    check_texts("documents", documents)
    if not settings.is_stage:
        raise ValueError("the consistent extractive stage needs either `share` or `tokens`, what to keep")
    if settings.next_sentence_model is None:
        warnings.warn(UNCHECKED, stacklevel=2)
    stage = ConsistentStage.load(settings)
    summaries = []
    wordless_rows = []
    for row, selection in enumerate(stage.choose(documents)):
        summaries.append(selection.summary())
        is_blank = not selection.sentences
        if not is_blank and not selection.has_words:
            wordless_rows.append(row)
    effect = "keep their first sentences"
    warn_of_wordless(wordless_rows, "documents", len(documents), effect, settings.language, required=False)
    return summaries


@dataclass(frozen=True)
class ConsistentStage:
    """The stage with these settings, and the content of the files that they name.

    Args:
        judge: the judge of neighbors; if None, there is no repair pass.
    """

    settings: ExtractiveSettings
    idf: DocumentFrequencies | None
    judge: Judge | None

    @classmethod
    def load(cls, settings: ExtractiveSettings, **hub_settings: str | bool | None) -> "ConsistentStage":
        """Read the files that the settings name.

        Args:
            hub_settings: settings of the next-sentence model's download, such as `cache_dir`.
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

    def choose(self, documents: Sequence[str]) -> Iterator[Selection]:
        """The sentences that are kept of each document, with a progress bar."""
        with progress_bar(None, "extracting", len(documents)) as bar:
            for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
                selections = []
                for document in documents[start : start + _DOCUMENTS_AT_ONCE]:
                    selections.append(self._unrepaired(document))
                    bar.update()
                if self.judge is None:
                    yield from selections
                else:
                    yield from _repaired(selections, self.judge)

    def keep(self, words: Sequence[Sequence[str]], costs: Sequence[int], budget: int | None) -> list[int]:
        """The indices of the sentences kept before the repair pass: the share, or as many as fit into a budget."""
        if self.settings.share is not None:
            return keep_share(words, self.settings.share, self.idf)
        assert budget is not None
        return keep_sentences(words, costs, budget, self.idf)

    def _unrepaired(self, document: str) -> Selection:
        """What is kept of a document before the repair pass."""
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
    """The selections with the sentences that the repair pass restores."""
    sentences = []
    chosen = []
    for selection in selections:
        sentences.append(selection.sentences)
        chosen.append(selection.indices)
    closed = close_gaps(sentences, chosen, judge)
    for selection, indices in zip(selections, closed, strict=True):
        yield replace(selection, indices=indices)


class _Gap(NamedTuple):
    """A place between two chosen sentences of a document, where others are left out.

    `document` is the number of the document; `first` and `second` are the indices of the two sentences.
    """

    document: int
    first: int
    second: int


class _Candidate(NamedTuple):
    """A sentence that may be restored in a gap.

    `index` is its index in the document; `probability` is that with which it follows the gap's first sentence.
    """

    gap: _Gap
    index: int
    probability: float


def close_gaps(sentences: Sequence[Sequence[str]], chosen: Sequence[Sequence[int]], judge: Judge) -> list[list[int]]:
    """The indices of the chosen sentences, and of sentences that link incoherent neighbors.

    The judge rejects two neighbors with a probability of at most 0.5. One sentence between them is then restored: among
    those that it accepts after the first and before the second, the one with the highest product of both probabilities,
    the earlier of equal ones. There may be none. New neighbors are not judged again.

    Args:
        sentences: all sentences of each document.
        chosen: the ascending indices of each document's chosen sentences.
        judge: called at most three times, with distinct pairs of all documents at once.
    """
    gaps = _rejected_gaps(sentences, chosen, judge)
    candidates = _accepted_candidates(sentences, gaps, judge)
    closed = [list(indices) for indices in chosen]
    for gap, index in _best_candidates(sentences, candidates, judge).items():
        closed[gap.document].append(index)
    for indices in closed:
        indices.sort()
    return closed


def _rejected_gaps(sentences: Sequence[Sequence[str]], chosen: Sequence[Sequence[int]], judge: Judge) -> list[_Gap]:
    """The gaps whose two sentences the judge rejects as neighbors."""
    gaps = []
    pairs = []
    for document, indices in enumerate(chosen):
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
    """The sentences in these gaps that the judge accepts after the first sentence of their gap."""
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
    """The probability of each pair.

    Equal pairs are judged once, as a model's probabilities may differ slightly between batches.
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


def _are_probabilities(values: Sequence[float], number: int) -> bool:
    """Whether a judge's values are so many probabilities. NaN is not, as it would silently reject every pair."""
    if not is_list(values) or len(values) != number:
        return False
    return all(is_number(value) and 0 <= value <= 1 for value in values)


def keep_share(words: Sequence[Sequence[str]], share: float, idf: DocumentFrequencies | None = None) -> list[int]:
    """The ascending indices of a share of the sentences, those with the highest mean tf-idf, and of the first three.

    Args:
        words, idf: as for `keep_sentences`.
        share: above 0 and at most 1; the number of sentences is rounded up.
    """
    # 0.07 of 100 sentences are 7, although the product in floating point is above it.
    number = math.ceil(round(share * len(words), 6))
    ranked = distinct(best_first(tfidf_scores(words, idf)), words)
    order = _first_indices(words) + ranked[:number]
    return sorted(distinct(order, words))


def keep_sentences(
    words: Sequence[Sequence[str]], costs: Sequence[int], budget: int, idf: DocumentFrequencies | None = None
) -> list[int]:
    """The ascending indices of the sentences to keep within a budget, without the repair pass.

    The first three are tried first, then the others by mean tf-idf, the earlier of equal ones first. Each is kept if it
    fits in the rest of the budget, and no kept one has the same words. The first is kept alone if it does not fit.

    Args:
        words: the words of each sentence, from `split_words` of `hf_summ.evaluation.words`.
        costs: the cost of each sentence, such as its number of tokens.
        budget: the largest sum of the costs of the kept sentences.
        idf: document frequencies of a corpus; if not given, the document's sentences are the collection.
    """
    order = _first_indices(words) + best_first(tfidf_scores(words, idf))
    return fitting(distinct(order, words), costs, budget)


def _first_indices(words: Sequence[Sequence[str]]) -> list[int]:
    """The indices of the first sentences, which are kept whatever their scores."""
    return list(range(min(_ALWAYS, len(words))))
