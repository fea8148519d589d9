"""Processor of CopyTransformer: BERT's subwords, with `[CLS]` before the source."""

from .processing_base import SummarizationProcessor


class CopyTransformerProcessor(SummarizationProcessor):
    """Converts documents to `input_ids` and `attention_mask`, and summaries to `labels`.

    With BERT's tokenizer, a document begins with `[CLS]` and has no end token (Aksenov 2020, section 5.1); summaries
    begin with `[CLS]` and end with `[SEP]`. With a tokenizer without `[CLS]`, such as those of `hf-summ vocabulary`,
    both get an end token.

    Args:
        tokenizer: a fast tokenizer; BERT's if the model is built on BERT.
        max_source_length: number of subwords to which documents are cut, including `[CLS]`.
        max_target_length: the same for summaries, including the end token.
        document_separator: as for `SummarizationProcessor`.
        chat_template: stored and saved as in every transformers processor, but not used.
    """

    def __init__(
        self,
        tokenizer,
        max_source_length=512,
        max_target_length=512,
        document_separator=None,
        chat_template=None,
    ):
        for special, substitute in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
            if getattr(tokenizer, special) is None and getattr(tokenizer, substitute) is not None:
                setattr(tokenizer, special, getattr(tokenizer, substitute))
        if tokenizer.cls_token is not None:
            # WordPiece separates words from punctuation: "it's" would be decoded as "it ' s"
            tokenizer.clean_up_tokenization_spaces = True
        # a special token spelled out in a text is plain text
        tokenizer.split_special_tokens = True
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, chat_template=chat_template
        )

    def align(self, config) -> None:
        """Set the vocabulary size, special tokens and mask token of a new config to this processor's.

        Raises:
            ValueError: the model is built on a BERT with another vocabulary.
        """
        super().align(config)
        if hasattr(config, "mask_token_id"):
            config.mask_token_id = self.tokenizer.mask_token_id
        config.check()

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return super()._special_ids() if first is None else ([first], [])


__all__ = ["CopyTransformerProcessor"]
