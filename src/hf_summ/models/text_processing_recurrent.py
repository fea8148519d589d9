"""The text side of the processors of DRGD and the pointer-generator, and words in place of unknown ones."""

from collections.abc import Sequence

import numpy as np

from .text_documents import FIRST_POINTER, WASHINGS, washed
from .text_processing_base import TextProcessor


def replace_unknown(
    sequences: np.ndarray, attentions: np.ndarray, source_ids: np.ndarray, unknown: int, special: Sequence[int]
) -> np.ndarray:
    """Replace unknown words by the source words with the most attention (Luong et al. 2015).

    A source word that is unknown as well has a text, but no id: `FIRST_POINTER` plus its position replaces it, which
    processors look up in the document and plain tokenizers omit. If the source has no words, `unknown` stays.

    Args:
        sequences: (R, L), R = B · n.
        attentions: (R, L - 1, S), the attention of each token after the first.
        source_ids: (B, S).
        unknown, special: the id of unknown words, and ids that are not words, such as padding and the end.
    """
    source_ids = source_ids.repeat(len(sequences) // len(source_ids), axis=0)
    is_word = ~np.isin(source_ids, special)
    positions = np.where(is_word[:, None], attentions, -1.0).argmax(-1)
    words = np.take_along_axis(source_ids, positions, 1)
    words = np.where(words == unknown, FIRST_POINTER + positions, words)
    is_replaced = (sequences[:, 1:] == unknown) & is_word.any(-1, keepdims=True)
    return np.concatenate((sequences[:, :1], np.where(is_replaced, words, sequences[:, 1:])), axis=1)


class DrgdTextProcessor(TextProcessor):
    """The `TextProcessor` of DRGD; see `DrgdProcessor`."""

    def __init__(
        self,
        tokenizer,
        max_source_length=100,
        max_target_length=50,
        washing=None,
        document_separator=None,
        restore_case=False,
        chat_template=None,
        unknown_ids=0,
    ):
        if washing not in (None, *WASHINGS):
            raise ValueError(f"`washing` is {washing!r:.80}, but must be None or one of {', '.join(WASHINGS)}")
        self.washing = washing
        super().__init__(
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )

    def clean(self, text: str, is_document: bool = False) -> str:
        """Clean and wash `text`, a document (`is_document`) or a summary."""
        return washed(super().clean(text), self.washing, is_document)


class PointerGeneratorTextProcessor(TextProcessor):
    """The `TextProcessor` of the pointer-generator; see `PointerGeneratorProcessor`."""

    def __init__(
        self,
        tokenizer,
        max_source_length=400,
        max_target_length=100,
        document_separator=None,
        restore_case=False,
        chat_template=None,
        unknown_ids=None,
    ):
        super().__init__(
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )
        if unknown_ids is None:
            # older checkpoints do not say how many
            self.unknown_ids = self.needed_unknown_ids()
