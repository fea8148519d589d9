"""The consistent extractive stage, which shortens a document before a model reads it (Aksenov 2020, section 4.1)."""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.data.sentences import pick_sentences, split_sentences
from hf_summ.evaluation.words import split_words, warn_of_wordless
from hf_summ.extractive.frequencies import DocumentFrequencies, best_first, distinct, fitting, tfidf_scores
from hf_summ.models.checks import check_integer, check_texts, is_list, is_number
from hf_summ.models.text_documents import readable

Pair = tuple[str, str]
# the probability that the second text of each pair continues the first
Judge = Callable[[Sequence[Pair]], Sequence[float]]

_ACCEPTED = 0.5
# this many first sentences are kept, whatever their scores
_ALWAYS = 3
UNCHECKED = "no `next_sentence_model` is given, so the coherence of neighboring sentences is not checked"
# documents whose pairs of sentences are judged together
_DOCUMENTS_AT_ONCE = 256


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


@dataclass(frozen=True, kw_only=True)
class ConsistentStage:
    """The settings of the stage, and how it shortens documents.

    Args:
        judge: the judge of neighbors; if not given, there is no repair pass.
        share, tokens, counter, idf, language, splitter: as for `consistent_sentences`.
    """

    share: float | None = None
    tokens: int | None = None
    counter: Any = None
    idf: DocumentFrequencies | None = None
    judge: Judge | None = None
    language: str = "en"
    splitter: str = "sentencex"

    def __post_init__(self):
        if (self.share is None) == (self.tokens is None):
            raise ValueError("the consistent extractive stage needs either `share` or `tokens`, what to keep")
        if self.share is not None and not (is_number(self.share) and 0 < self.share <= 1):
            raise ValueError(f"`share` is {self.share!r:.80}, but must be above 0 and at most 1")
        if self.tokens is not None:
            check_integer("tokens", self.tokens, 1)
        if self.counter is not None and self.tokens is None:
            raise ValueError("`counter` needs `tokens`, the number to keep")
        if self.idf is not None:
            self.idf.check_language(self.language)
        # reports unknown names before the first document
        split_sentences("", self.language, self.splitter)

    def choose(
        self, documents: Sequence[str], wordless: list[int] | None = None
    ) -> Iterator[tuple[list[str], list[int]]]:
        """Each document's sentences, and the ascending indices of the kept ones.

        Args:
            wordless: list to extend by the rows of documents with text but no words, which are ranked by order alone.
        """
        with progress_bar(None, "extracting", len(documents)) as bar:
            for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
                sentences, chosen = [], []
                for row, document in enumerate(documents[start : start + _DOCUMENTS_AT_ONCE], start):
                    sentences.append(split_sentences(document, self.language, self.splitter))
                    words = [split_words(sentence, self.language) for sentence in sentences[-1]]
                    chosen.append(self.keep(words, self._costs(sentences[-1], words), self.tokens))
                    if wordless is not None and words and not any(words):
                        wordless.append(row)
                    bar.update()
                if self.judge is not None:
                    chosen = close_gaps(sentences, chosen, self.judge)
                yield from zip(sentences, chosen, strict=True)

    def keep(self, words: Sequence[Sequence[str]], costs: Sequence[int], budget: int | None) -> list[int]:
        """The indices of the sentences kept before the repair pass: the share, or as many as fit into a budget."""
        if self.share is not None:
            return keep_share(words, self.share, self.idf)
        assert budget is not None
        return keep_sentences(words, costs, budget, self.idf)

    def _costs(self, sentences: Sequence[str], words: Sequence[Sequence[str]]) -> list[int]:
        if self.counter is None:
            return [len(sentence) for sentence in words]
        if not hasattr(self.counter, "convert_ids_to_tokens"):
            return [_count(self.counter(sentence)) for sentence in sentences]
        # a tokenizer, which takes many texts at once, but rejects an empty list
        if not sentences:
            return []
        texts = [readable(sentence) for sentence in sentences]
        return [len(row) for row in self.counter(texts, add_special_tokens=False, verbose=False)["input_ids"]]


def _count(cost: Any) -> int:
    """The checked result of a user's function for a sentence."""
    if isinstance(cost, bool) or not isinstance(cost, Integral) or cost < 0:
        raise ValueError(f"`counter` gives {cost!r:.80} for a sentence, but must give its number of tokens")
    return int(cost)


def consistent_extract(
    documents: Sequence[str],
    share: float | None = None,
    tokens: int | None = None,
    counter: Any = None,
    idf: DocumentFrequencies | str | os.PathLike | None = None,
    next_sentence_model: Judge | str | None = None,
    language: str = "en",
    splitter: str = "sentencex",
) -> list[str]:
    """Shorten each document to some of its sentences, in their order, on one line, to fit a model's input.

    The sentences with the highest mean tf-idf are kept, and the first three. A next-sentence model, if given, judges
    neighbors among them. Between two that it rejects, the most probable sentence that it accepts beside both is
    restored, if there is one. New neighbors are not judged again (Aksenov 2020, section 4.1).

    See `consistent_sentences` for arguments and errors.
    """
    settings = {"share": share, "tokens": tokens, "counter": counter, "language": language, "splitter": splitter}
    chosen = _choose(documents, idf, next_sentence_model, settings)
    return [pick_sentences(document, *choice) for document, choice in zip(documents, chosen, strict=True)]


def consistent_sentences(
    documents: Sequence[str],
    share: float | None = None,
    tokens: int | None = None,
    counter: Any = None,
    idf: DocumentFrequencies | str | os.PathLike | None = None,
    next_sentence_model: Judge | str | None = None,
    language: str = "en",
    splitter: str = "sentencex",
) -> list[list[int]]:
    """The sentences that `consistent_extract` keeps: ascending indices into `split_sentences` per document.

    Args:
        documents: one text per document; the result for a blank one is empty.
        share: share of the sentences to keep, those with the highest mean tf-idf, above 0 and at most 1, rounded up.
            The first three are always kept.
        tokens: number of tokens to keep instead. The first three sentences are taken first, then the others by mean
            tf-idf, if they fit in the rest; the first is kept alone if it does not fit. Sentences that the repair pass
            restores are extra.
        counter: counts a sentence's tokens: a tokenizer, or a function from a sentence to a number; if not given, words
            are counted.
        idf: document frequencies of a corpus, or a file written by `hf-summ idf`; if not given, a document's sentences
            are the collection.
        next_sentence_model: folder or Hub repository of a BERT with its next-sentence head, or a function from pairs of
            sentences to the probabilities that the second follows the first. Pairs of many documents are judged at
            once. If not given, there is no repair pass.
        language: ISO 639 code of the documents.
        splitter: as for `split_sentences`.

    Raises:
        TypeError: documents that are not strings, or a value of another type.
        ValueError: a number out of range, both `share` and `tokens`, or neither; a file or a model that cannot be used,
            or is of another language; a function with another result; or as `split_sentences`.

    Warns:
        UserWarning: there is no next-sentence model, so no pairs were judged; or some documents have text but no words,
            and keep their first sentences.
    """
    settings = {"share": share, "tokens": tokens, "counter": counter, "language": language, "splitter": splitter}
    chosen = _choose(documents, idf, next_sentence_model, settings)
    return [indices for _, indices in chosen]


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


def load_judge(name: str, **hub_settings: Any) -> Judge:
    """The next-sentence model in a folder or a Hub repository; see `NextSentenceModel` for settings and errors."""
    # imports torch and transformers, which the stage does not need otherwise
    from hf_summ.evaluation.pair_models import NextSentenceModel

    return NextSentenceModel(name, **hub_settings)


def _choose(
    documents: Sequence[str],
    idf: DocumentFrequencies | str | os.PathLike | None,
    next_sentence_model: Judge | str | None,
    settings: Mapping[str, Any],
) -> list[tuple[list[str], list[int]]]:
    """Each document's sentences and the ascending indices of the kept ones, with all warnings."""
    check_texts("documents", documents)
    table = idf if isinstance(idf, DocumentFrequencies | None) else DocumentFrequencies.load(idf)
    stage = ConsistentStage(idf=table, **settings)
    if next_sentence_model is None:
        warnings.warn(UNCHECKED, stacklevel=3)
    else:
        # last, as it is slow
        judge = load_judge(next_sentence_model) if isinstance(next_sentence_model, str) else next_sentence_model
        stage = replace(stage, judge=judge)
    wordless: list[int] = []
    chosen = list(stage.choose(documents, wordless))
    texts = "documents", len(documents), "keep their first sentences"
    warn_of_wordless(wordless, *texts, stage.language, required=False, stacklevel=4)
    return chosen
