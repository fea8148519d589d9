"""The consistent extractive stage, which shortens a document before a model reads it (Aksenov 2020, section 4.1)."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.data.sentences import pick_sentences, split_sentences
from hf_summ.evaluation.words import split_words, warn_of_wordless
from hf_summ.extractive.frequencies import DocumentFrequencies, best_first, distinct, fitting, tfidf_scores
from hf_summ.extractive.settings import ExtractiveSettings, Judge, Pair
from hf_summ.models.checks import check_texts, is_list, is_number

_ACCEPTED = 0.5
# this many first sentences are kept, whatever their scores
_ALWAYS = 3
UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
# documents whose pairs of sentences are judged together
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
    summaries = []
    wordless = []
    for row, selection in enumerate(ConsistentStage.load(settings).choose(documents)):
        summaries.append(selection.summary())
        if selection.sentences and not selection.has_words:
            wordless.append(row)
    effect = "keep their first sentences"
    warn_of_wordless(wordless, "documents", len(documents), effect, settings.language, required=False)
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
    def load(cls, settings: ExtractiveSettings, **hub_settings: Any) -> "ConsistentStage":
        """Read the files that the settings name.

        Args:
            hub_settings: of the next-sentence model's download, such as `cache_dir`.
        """
        idf, judge = settings.idf, settings.next_sentence_model
        if idf is not None and not isinstance(idf, DocumentFrequencies):
            idf = DocumentFrequencies.load(idf)
        if idf is not None:
            idf.check_language(settings.language)
        if isinstance(judge, str):
            # imports torch and transformers, which the stage does not need otherwise
            from hf_summ.evaluation.pair_models import NextSentenceModel

            judge = NextSentenceModel(judge, **hub_settings)
        return cls(settings, idf, judge)

    def choose(self, documents: Sequence[str]) -> Iterator[Selection]:
        """The sentences that are kept of each document, with a progress bar."""
        with progress_bar(None, "extracting", len(documents)) as bar:
            for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
                selections = []
                for document in documents[start : start + _DOCUMENTS_AT_ONCE]:
                    selections.append(self._ranked(document))
                    bar.update()
                if self.judge is not None:
                    sentences = [kept.sentences for kept in selections]
                    indices = close_gaps(sentences, [kept.indices for kept in selections], self.judge)
                    selections = [replace(kept, indices=row) for kept, row in zip(selections, indices, strict=True)]
                yield from selections

    def keep(self, words: Sequence[Sequence[str]], costs: Sequence[int], budget: int | None) -> list[int]:
        """The indices of the sentences kept before the repair pass: the share, or as many as fit into a budget."""
        if self.settings.share is not None:
            return keep_share(words, self.settings.share, self.idf)
        assert budget is not None
        return keep_sentences(words, costs, budget, self.idf)

    def _ranked(self, document: str) -> Selection:
        """What is kept of a document before the repair pass."""
        settings = self.settings
        sentences = split_sentences(document, settings.language)
        words = [split_words(sentence, settings.language) for sentence in sentences]
        costs = [len(row) for row in words] if settings.counter is None else settings.counter(sentences)
        return Selection(document, sentences, self.keep(words, costs, settings.tokens), any(words))


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

    def pair(document: int, first: int, second: int) -> Pair:
        return sentences[document][first], sentences[document][second]

    # adjacent sentences have nothing between them
    gaps = [(document, *gap) for document, own in enumerate(chosen) for gap in pairwise(own) if gap[1] > gap[0] + 1]
    judged = _judged((pair(*gap) for gap in gaps), judge)
    rejected = [gap for gap in gaps if judged[pair(*gap)] <= _ACCEPTED]
    trials = [(document, start, middle, end) for document, start, end in rejected for middle in range(start + 1, end)]
    before = _judged((pair(document, start, middle) for document, start, middle, _ in trials), judge)
    trials = [trial for trial in trials if before[pair(*trial[:3])] > _ACCEPTED]
    after = _judged((pair(document, middle, end) for document, _, middle, end in trials), judge)
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for document, start, middle, end in trials:
        follows = after[pair(document, middle, end)]
        score = before[pair(document, start, middle)] * follows
        if follows > _ACCEPTED and score > best.get((document, start), (0.0, 0))[0]:
            best[document, start] = score, middle
    closed = [list(own) for own in chosen]
    for (document, _), (_, middle) in best.items():
        closed[document].append(middle)
    return list(map(sorted, closed))


def _judged(pairs: Iterable[Pair], judge: Judge) -> Mapping[Pair, float]:
    """The probability of each distinct pair: equal pairs have exactly the same one, regardless of their batch."""
    distinct = list(dict.fromkeys(pairs))
    return dict(zip(distinct, _probabilities(judge(distinct), len(distinct)) if distinct else (), strict=True))


def _probabilities(output: Any, number: int) -> list[float]:
    """The output of a judge for `number` pairs, checked to be probabilities: NaN would silently reject every pair."""
    # arrays and tensors
    values = output.tolist() if hasattr(output, "tolist") else output
    if not is_list(values) or len(values) != number or not all(is_number(one) and 0 <= one <= 1 for one in values):
        raise ValueError(
            f"the next-sentence model must give {number} probabilities, one per pair, but gives "
            f"{type(output).__name__}: {one_line(repr(output)):.80}"
        )
    return list(map(float, values))


def keep_share(words: Sequence[Sequence[str]], share: float, idf: DocumentFrequencies | None = None) -> list[int]:
    """The ascending indices of a share of the sentences, those with the highest mean tf-idf, and of the first three.

    Args:
        words, idf: as for `keep_sentences`.
        share: above 0 and at most 1; the number of sentences is rounded up.
    """
    # .07 of 100 is 7, although the product in floating point is above it
    number = math.ceil(round(share * len(words), 6))
    ranked = distinct(best_first(tfidf_scores(words, idf)), words)
    return sorted(distinct([*range(min(_ALWAYS, len(words))), *ranked[:number]], words))


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
    order = [*range(min(_ALWAYS, len(words))), *best_first(tfidf_scores(words, idf))]
    return fitting(distinct(order, words), costs, budget)
