"""The settings of extractive summaries, which commands, the recipe, the pipeline and the papers' tables read."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_summ.common.flags import flag
from hf_summ.common.messages import check_choice
from hf_summ.extractive.frequencies import DocumentFrequencies
from hf_summ.models.checks import check_integer, is_number

METHODS = ("lead", "tail", "oracle", "tfidf", "lexrank", "textrank", "consistent")
Pair = tuple[str, str]
# A judge gives for each pair the probability that its second text continues the first.
Judge = Callable[[Sequence[Pair]], Sequence[float]]
# Flag of the recipe and the pipeline -> the setting of the extractive stage that it becomes. The stage shortens a
# document before a model reads it.
_STAGE_FLAGS = {
    "extract_share": "share",
    "extract_tokens": "tokens",
    "extract_idf": "idf",
    "next_sentence_model": "next_sentence_model",
}


@dataclass(frozen=True)
class ExtractiveSettings:
    """Which sentences of a document are kept. Most fields are flags of `hf-summ extract`.

    With `share` or `tokens`, the sentences are kept by the consistent stage of `consistent_extract`, and `sentences` is
    ignored.

    Args:
        method: one of `METHODS`, see `extract`.
        sentences: the number of sentences to keep, one for all documents or one for each. A shorter document keeps all
            its sentences.
        share: the share of the sentences that the consistent stage keeps, above 0 and at most 1, rounded up: the
            sentences with the highest mean tf-idf. The first three sentences are always kept.
        idf: document frequencies of a corpus for the stage, or a file written by `hf-summ idf`; if not given, a
            document's sentences are the collection.
        next_sentence_model: folder or Hub repository of a BERT with its next-sentence head, or a function from pairs of
            sentences to the probabilities that the second follows the first. Pairs of many documents are judged at
            once. If not given, the stage has no repair pass.
        language: ISO 639 code of the documents.
        tokens: the number of tokens that the stage keeps, in place of a share. The first three sentences are taken
            first, then the others by mean tf-idf, if they fit in the rest; the first is kept alone if it does not fit.
            Sentences that the repair pass restores come on top of this number.
        counter: a function from sentences to the number of tokens of each; if not given, words are counted.

    Raises:
        TypeError: a number has another type.
        ValueError: the method is unknown, a number is out of range, or settings exclude each other.
    """

    method: str | None = flag(
        "decoding",
        "Sentences to select: the first or last; the most central (lexrank, textrank: extra `extractive`); those with "
        "the highest tf-idf, or the first three and these (consistent); those closest to the rows' references (oracle)",
        unset="consistent with --share, otherwise lead",
        choices=METHODS,
    )
    sentences: int | Sequence[int] = flag(
        "decoding",
        "Maximum number of sentences per summary; with lead and tail, of each of several documents",
        3,
        unless=("share",),
        metavar="N",
    )
    share: float | None = flag(
        "decoding",
        "Share of each document's sentences instead, with consistent",
        unset="a number of sentences",
        metavar="S",
    )
    idf: str | os.PathLike | DocumentFrequencies | None = flag(
        "decoding",
        "Document frequencies that `hf-summ idf` wrote, for --share",
        unset="each document's own",
        needs=("share",),
        metavar="FILE",
    )
    next_sentence_model: str | Judge | None = flag(
        "decoding",
        "BERT with a next-sentence head, which restores sentences between incoherent ones, for --share: a folder or a "
        "Hub repository",
        unset="no sentences are restored",
        needs=("share",),
        metavar="MODEL",
    )
    language: str = flag("data", "ISO 639 code of the documents' language", "en")
    tokens: int | None = None
    counter: Callable[[Sequence[str]], Sequence[int]] | None = None

    def __post_init__(self):
        if self.method is not None:
            check_choice("`method`", self.method, METHODS)
        if isinstance(self.sentences, Sequence):
            for number in self.sentences:
                check_integer("sentences", number, 1)
        else:
            check_integer("sentences", self.sentences, 1)
        if self.share is not None:
            is_share = is_number(self.share) and 0 < self.share <= 1
            if not is_share:
                raise ValueError(f"`share` is {self.share!r:.80}, but must be above 0 and at most 1")
        if self.tokens is not None:
            check_integer("tokens", self.tokens, 1)
        if self.share is not None and self.tokens is not None:
            raise ValueError("`share` and `tokens` exclude each other: set only one")
        if self.is_stage and self.method not in (None, "consistent"):
            name = "share" if self.tokens is None else "tokens"
            raise ValueError(f"`{name}` has an effect only if `method` is consistent, but `method` is {self.method}")

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], **settings: Any) -> "ExtractiveSettings":
        """The settings of the stage before a model, from the flags of the recipe or the pipeline.

        Args:
            flags: name -> value, for each of `extract_share`, `extract_tokens`, `extract_idf` and `next_sentence_model`
                that is given.
            settings: further settings of the class, such as `language`.
        """
        for flag_name, name in _STAGE_FLAGS.items():
            settings[name] = flags.get(flag_name)
        return cls("consistent", **settings)

    @property
    def is_stage(self) -> bool:
        """Whether the consistent stage keeps a share of the sentences or a number of tokens."""
        return self.share is not None or self.tokens is not None
