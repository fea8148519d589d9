"""Extractive summaries, as references for abstractive ones."""

from hf_summ.extractive.extraction import METHODS, extract, extract_sentences

__all__ = ["METHODS", "extract", "extract_sentences"]
