"""Processor of CopyTransformer: BERT's subwords, with `[CLS]` before the source."""

from .processing_base import SummarizationProcessor


class CopyTransformerProcessor(SummarizationProcessor):
    """Documents to `input_ids` and `attention_mask`; summaries to `labels`.

    With BERT's tokenizer a document begins with `[CLS]` and has no end token (thesis, section 5.1); summaries begin
    with `[CLS]` and end with `[SEP]`. A tokenizer without `[CLS]`, such as `hf-summ vocabulary` makes, ends both alike.

    Args:
        tokenizer: a fast tokenizer; BERT's where the model is built on BERT.
        max_source_length: subwords that a document is cut to, `[CLS]` included.
        max_target_length: the same for a summary and its end token.
        chat_template: transformers', which saves it; nothing here reads it.
    """

    def __init__(self, tokenizer, max_source_length=512, max_target_length=512, chat_template=None):
        for special, substitute in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
            if getattr(tokenizer, special) is None and getattr(tokenizer, substitute) is not None:
                setattr(tokenizer, special, getattr(tokenizer, substitute))
        if tokenizer.cls_token is not None:
            # WordPiece parts words from their punctuation: "it's" would come back as "it ' s"
            tokenizer.clean_up_tokenization_spaces = True
        # a text that spells out a special token holds no such token
        tokenizer.split_special_tokens = True
        super().__init__(tokenizer, max_source_length, max_target_length, chat_template=chat_template)

    def align(self, config) -> None:
        """Fit a fresh config to this processor: vocabulary, special tokens, and the mask of its language model.

        Raises:
            ValueError: the model is built on a BERT that has another vocabulary.
        """
        super().align(config)
        config.mask_token_id = self.tokenizer.mask_token_id
        config.check()

    def _source_row(self, row: list[int], length: int | None) -> list[int]:
        first = self.tokenizer.cls_token_id
        if first is None:
            return super()._source_row(row, length)
        return [first, *row[: None if length is None else length - 1]]


__all__ = ["CopyTransformerProcessor"]
