"""Extractive summaries, as references for abstractive ones and as a stage before them."""

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
