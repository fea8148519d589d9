"""Processor of SAGCopy, which frames texts as the models that it starts from do."""

from .processing_copying import CopyingProcessor


class SagCopyProcessor(CopyingProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    Both end with the end token. With a tokenizer that has a token for the beginning of texts, such as BART's, both also
    begin with it. A summary is written after the end token (Lewis et al. 2019; MASS likewise).

    Args:
        tokenizer: a fast tokenizer.
        max_source_length: number of subwords to which documents are cut, including the special tokens.
        max_target_length: the same for summaries.
        document_separator: as for `SummarizationProcessor`.
        chat_template: stored and saved as in every transformers processor, but not used.
    """

    def __init__(
        self,
        tokenizer,
        max_source_length=500,
        max_target_length=150,
        document_separator=None,
        chat_template=None,
    ):
        # spelled out, as transformers saves the parameters that it finds here
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, chat_template=chat_template
        )

    def align(self, config) -> None:
        """Set the vocabulary size and special tokens of a new config to this processor's.

        Raises:
            ValueError: texts are cut to more tokens than the model has positions for.
        """
        super().align(config)
        config.decoder_start_token_id = config.eos_token_id
        for name in ("max_source_length", "max_target_length"):
            if config.positions == "learned" and getattr(self, name) > config.max_positions:
                raise ValueError(
                    f"`{name}` is {getattr(self, name)}, but the model has positions for {config.max_positions}: cut "
                    "texts to fewer tokens, or set `max_positions`"
                )

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return [] if first is None else [first], [self.eos_token_id]

    def _end(self, row: list[int], length: int | None) -> list[int]:
        first, _ = self._special_ids()
        return super()._end([*first, *row], length)


__all__ = ["SagCopyProcessor"]
