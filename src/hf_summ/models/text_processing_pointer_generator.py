"""The text side of the pointer-generator's processor."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from .text_processing_base import TextProcessor
from .text_words import word_marks

# enough that two unknown words of a document rarely have the same
_UNKNOWN_IDS = 2**16


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
    ):
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    @property
    def unknown_ids(self) -> int:
        """The number of ids behind the vocabulary that tell unknown words apart; 0 for subwords."""
        unknown = self.tokenizer.unk_token_id
        return 0 if unknown is None or not word_marks(self.tokenizer).is_whole else _UNKNOWN_IDS

    def _tokenize(self, texts: list[str], **settings) -> Mapping[str, Any]:
        if not self.unknown_ids:
            return super()._tokenize(texts, **settings)
        encoded = super()._tokenize(texts, **{**settings, "return_offsets_mapping": True})
        unknown, size = self.tokenizer.unk_token_id, len(self.tokenizer)
        for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            for position, token in enumerate(ids):
                if token == unknown:
                    start, end = offsets[position]
                    word = self._normalized(text[start:end]).strip()
                    ids[position] = size + crc32(word.encode()) % _UNKNOWN_IDS
        return encoded
