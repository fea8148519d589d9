"""Base processor of Transformers that copy; it also accepts BERT's tokenizer."""

from .processing_base import SummarizationProcessor


class CopyingProcessor(SummarizationProcessor):
    """A `SummarizationProcessor` that also accepts BERT's tokenizer.

    With `[CLS]`, documents begin with it and have no end token (Aksenov 2020, section 5.1); summaries begin with
    `[CLS]` and end with `[SEP]`. Without it, as in the tokenizers of `hf-summ vocabulary`, both get an end token.
    """

    def __init__(self, tokenizer, *args, **kwargs):
        for special, substitute in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
            if getattr(tokenizer, special) is None and getattr(tokenizer, substitute) is not None:
                setattr(tokenizer, special, getattr(tokenizer, substitute))
        if tokenizer.cls_token is not None:
            # WordPiece separates words from punctuation: "it's" would be decoded as "it ' s"
            tokenizer.clean_up_tokenization_spaces = True
        # the name of a special token in a text is plain text
        tokenizer.split_special_tokens = True
        super().__init__(tokenizer, *args, **kwargs)

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return super()._special_ids() if first is None else ([first], [])
