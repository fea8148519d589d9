"""Extracts with settings as keywords, and the indices of their sentences."""

from collections.abc import Sequence
from typing import Any

from hf_summ.extractive import ExtractiveSettings, consistent_extract, extract
from hf_summ.extractive.consistent import ConsistentStage
from hf_summ.extractive.extraction import choose


def extracts(
    documents: Sequence[str | Sequence[str]],
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    **settings: Any,
) -> list[str]:
    """The summaries by a method."""
    return extract(documents, ExtractiveSettings(method, sentences, **settings), references)


def extract_indices(
    documents: Sequence[str | Sequence[str]],
    method: str,
    sentences: int | Sequence[int] = 3,
    references: Sequence[str] | None = None,
    **settings: Any,
) -> list[list[int]]:
    """The ascending indices of each summary's sentences, counted through all texts of a document."""
    lists_of_texts = []
    for document in documents:
        if isinstance(document, str):
            lists_of_texts.append([document])
        else:
            lists_of_texts.append(document)
    chosen = choose(lists_of_texts, ExtractiveSettings(method, sentences, **settings), references)
    return [selection.indices for selection in chosen]


def stage_extracts(documents: Sequence[str], share: float | None = None, **settings: Any) -> list[str]:
    """The documents after the consistent stage."""
    return consistent_extract(documents, ExtractiveSettings(share=share, **settings))


def stage_indices(documents: Sequence[str], share: float | None = None, **settings: Any) -> list[list[int]]:
    """The ascending indices of the sentences that the consistent stage keeps of each document."""
    stage = ConsistentStage.load(ExtractiveSettings(share=share, **settings))
    return [selection.indices for selection in stage.select(documents)]
