"""Extractive summaries, as baselines of abstractive models and as a stage before them."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.extractive.consistent import consistent_extract, consistent_sentences
    from hf_summ.extractive.extraction import METHODS, extract, extract_sentences
    from hf_summ.extractive.frequencies import DocumentFrequencies

__all__ = [
    "METHODS",
    "DocumentFrequencies",
    "consistent_extract",
    "consistent_sentences",
    "extract",
    "extract_sentences",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "consistent_extract": ".consistent",
        "consistent_sentences": ".consistent",
        "METHODS": ".extraction",
        "extract": ".extraction",
        "extract_sentences": ".extraction",
        "DocumentFrequencies": ".frequencies",
    },
)
