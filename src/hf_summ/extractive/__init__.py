"""Extractive summaries, as baselines of abstractive models and as a stage before them."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.extractive.consistent import consistent_extract
    from hf_summ.extractive.extraction import extract
    from hf_summ.extractive.frequencies import DocumentFrequencies
    from hf_summ.extractive.settings import METHODS, ExtractiveSettings

__all__ = ["METHODS", "DocumentFrequencies", "ExtractiveSettings", "consistent_extract", "extract"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "consistent_extract": ".consistent",
        "extract": ".extraction",
        "DocumentFrequencies": ".frequencies",
        "ExtractiveSettings": ".settings",
        "METHODS": ".settings",
    },
)
