"""What the processors of DRGD and the pointer-generator do with texts, and unknown words replaced by source words.

The source is the row of ids that a model reads of an example. Shapes have B for documents, n for summaries of each
document, L for tokens of a summary, and S for tokens of the source.
"""

import re
from collections.abc import Sequence

import numpy as np

from .text_documents import FIRST_POINTER
from .text_processing_base import TextProcessor

# White space, ASCII digits and punctuation, and the Chinese marks that DRGD's program for LCSTS lists.
_LCSTS = r"\s!-@\[-`{-~·…‘’“”《》「」『』【】、（）：￥"
# Name of a washing -> the characters that it deletes from lower-case summaries, and from lower-case documents. DRGD's
# program also deletes the marks between a document's clauses, as it splits at them and joins the clauses again.
WASHINGS = {"lcsts": (re.compile(f"[{_LCSTS}]+"), re.compile(f"[{_LCSTS}。！？，；]+"))}


def washed(text: str, washing: str | None, is_document: bool = False) -> str:
    """Lower-case a text and delete characters, as a corpus's published preprocessing does; with None nothing changes.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` follows DRGD's program for LCSTS: the text is lower-cased, and
            white space, ASCII digits and punctuation and most Chinese punctuation are deleted. Latin words run
            together, and numbers are lost, but full-width digits and marks such as `％` and `—` remain.
        is_document: whether to delete `。！？，；` as well, which summaries keep.
    """
    if washing is None:
        return text
    summary_characters, document_characters = WASHINGS[washing]
    deleted = document_characters if is_document else summary_characters
    return deleted.sub("", text.lower())


def replace_unknown(
    sequences: np.ndarray, attentions: np.ndarray, source_ids: np.ndarray, unknown: int, special: Sequence[int]
) -> np.ndarray:
    """Replace unknown words of summaries by the source words with the most attention (Luong et al. 2015).

    If the source word is unknown as well, its id would not tell which word it is. A pointer then takes the place of the
    unknown word: `FIRST_POINTER` plus the position of the source word. Processors look pointers up in the document, and
    plain tokenizers omit them. If the source has no words, the unknown word is not replaced.

    Args:
        sequences: (B · n, L), the ids of the summaries; those of a document follow one another.
        attentions: (B · n, L - 1, S), the attention to the source of each token after the first; at least 0.
        source_ids: (B, S), the ids of the sources.
        unknown: the id of unknown words.
        special: ids that are not words, such as padding and the end.

    Returns:
        (B · n, L), the summaries with other ids in place of `unknown`; the first token of each is never replaced.
    """
    summaries_per_document = len(sequences) // len(source_ids)
    source_ids = source_ids.repeat(summaries_per_document, axis=0)
    is_word = ~np.isin(source_ids, special)
    # No attention is below 0, so the position is that of a word if there is any.
    positions = np.where(is_word[:, None], attentions, -1.0).argmax(-1)
    source_words = np.take_along_axis(source_ids, positions, 1)
    replacements = np.where(source_words == unknown, FIRST_POINTER + positions, source_words)
    first_tokens, tokens = sequences[:, :1], sequences[:, 1:]
    is_replaced = (tokens == unknown) & is_word.any(-1, keepdims=True)
    return np.concatenate((first_tokens, np.where(is_replaced, replacements, tokens)), axis=1)


class DrgdTextProcessor(TextProcessor):
    """The `TextProcessor` of DRGD; `DrgdProcessor` describes the settings.

    Raises:
        ValueError: `washing` is unknown, or as `TextProcessor`.
    """

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
        if washing is not None and washing not in WASHINGS:
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
        """Clean a document (`is_document`) or a summary as the base does, and then as `washed` does."""
        return washed(super().clean(text), self.washing, is_document)


class PointerGeneratorTextProcessor(TextProcessor):
    """The `TextProcessor` of the pointer-generator; `PointerGeneratorProcessor` describes the settings."""

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
            # Older checkpoints do not store this number of ids.
            self.unknown_ids = self.needed_unknown_ids()
