"""Processor of SAGCopy, with special tokens as in BART and MASS."""

from .processing_base import SummarizationProcessor
from .text_processing_sagcopy import SagCopyTextProcessor


class SagCopyProcessor(SagCopyTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Both end with the end token, and begin with `cls_token` if the tokenizer has one, as BART's does. Decoding starts
    from the end token (Lewis et al. 2019; MASS likewise).

    Args:
        tokenizer: a fast tokenizer.
        max_source_length: number of subwords to which documents are truncated, including the special tokens.
        max_target_length: the same for summaries.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.
    """

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config to this processor's.

        Raises:
            ValueError: a maximum length exceeds the model's positions.
        """
        super().align(config)
        config.decoder_start_token_id = config.eos_token_id
        if config.positions == "learned":
            for name in ("max_source_length", "max_target_length"):
                length = getattr(self, name)
                if length > config.max_positions:
                    raise ValueError(f"`{name}` is {length}, but `max_positions` is {config.max_positions}")

    def _end(self, row: list[int], length: int | None) -> list[int]:
        first_ids, _ = self._special_ids()
        return super()._end(first_ids + row, length)


__all__ = ["SagCopyProcessor"]
