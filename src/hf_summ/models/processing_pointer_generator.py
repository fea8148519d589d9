"""Processor of the pointer-generator."""

from .processing_base import SummarizationProcessor
from .text_processing_recurrent import PointerGeneratorTextProcessor


class PointerGeneratorProcessor(PointerGeneratorTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of tokens to which documents are truncated, including the end token.
        max_target_length: the same for summaries.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.

    Raises:
        ValueError: as `SummarizationProcessor`.
    """


__all__ = ["PointerGeneratorProcessor"]
