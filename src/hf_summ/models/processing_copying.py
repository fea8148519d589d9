"""The base of the processors of Transformers that copy, which may read BERT's subwords."""

from .processing_base import SummarizationProcessor


class CopyingProcessor(SummarizationProcessor):
    """A `SummarizationProcessor` that also takes the tokenizer of a BERT.

    With it, a document begins with `[CLS]` and has no end token (Aksenov 2020, section 5.1); summaries begin with
    `[CLS]` and end with `[SEP]`. With a tokenizer without `[CLS]`, such as those of `hf-summ vocabulary`, both get an
    end token.
    """

    def __init__(self, tokenizer, *args, **kwargs):
        for special, substitute in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
            if getattr(tokenizer, special) is None and getattr(tokenizer, substitute) is not None:
                setattr(tokenizer, special, getattr(tokenizer, substitute))
        if tokenizer.cls_token is not None:
            # WordPiece separates words from punctuation: "it's" would be decoded as "it ' s"
            tokenizer.clean_up_tokenization_spaces = True
        # a special token spelled out in a text is plain text
        tokenizer.split_special_tokens = True
        super().__init__(tokenizer, *args, **kwargs)

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return super()._special_ids() if first is None else ([first], [])
