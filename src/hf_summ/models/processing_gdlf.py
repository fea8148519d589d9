"""Processor of GDLF: subwords and their tags."""

from collections.abc import Iterator
from typing import Any

from huggingface_hub.utils import tqdm
from transformers.utils import logging

from .checks import check_text, check_texts
from .processing_base import SummarizationProcessor
from .text_documents import JoinedRow
from .text_tagging import (
    ENGLISH_TAGGERS,
    PADDING_TAG_ID,
    SUBWORD_POSITIONS,
    TAGS,
    check_script,
    default_tag_vocabulary,
    subword_tag_ids,
    tag_vocabulary_of,
    tag_words,
    without_leading_space,
)

logger = logging.get_logger(__name__)

# number of characters after the truncation that the tagger reads, as a word's tag depends on the words after it
_CONTEXT = 200


class GdlfProcessor(SummarizationProcessor):
    """Converts documents to `input_ids`, `attention_mask` and, with tags, `tag_ids`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        tags: `pos`, `ner`, `pos+ner` or `none`.
        tagger: name of an installed spaCy pipeline, or the absolute path of one.
        tag_vocabulary: word tags in the order of their ids; by default those of spaCy's English pipelines.
        max_source_length: number of subwords to which documents are truncated, including the end token.
        max_target_length: the same for summaries.
        document_separator, restore_case, chat_template: as for `SummarizationProcessor`.

    Raises:
        ValueError: `tags` is unknown, or as `SummarizationProcessor`.
    """

    def __init__(
        self,
        tokenizer,
        tags="pos",
        tagger="en_core_web_sm",
        tag_vocabulary=None,
        max_source_length=500,
        max_target_length=150,
        document_separator=None,
        restore_case=False,
        chat_template=None,
    ):
        check_text("tagger", tagger)
        if tag_vocabulary is not None:
            check_texts("tag_vocabulary", tag_vocabulary)
        if tags not in TAGS:
            raise ValueError(f"`tags` is {tags!r:.80}, but must be one of {', '.join(TAGS)}")
        self.tags = tags
        self.tagger = tagger
        self.tag_vocabulary = None if tag_vocabulary is None else list(tag_vocabulary)
        super().__init__(
            tokenizer, max_source_length, max_target_length, document_separator, restore_case, chat_template
        )

    @property
    def model_input_names(self) -> list[str]:
        return super().model_input_names + ([] if self.tags == "none" else ["tag_ids"])

    @property
    def padding_values(self) -> dict[str, Any]:
        return {**super().padding_values, "tag_ids": PADDING_TAG_ID}

    @property
    def word_tags(self) -> list[str]:
        """The word tags in the order of their ids."""
        if self.tags == "none":
            return []
        return default_tag_vocabulary(self.tags) if self.tag_vocabulary is None else list(self.tag_vocabulary)

    def source_features(self, examples: list[list[str]], length: int | None, show_progress: bool) -> dict[str, list]:
        """The base's features, and rows of `tag_ids`.

        Raises:
            ValueError: the tagger is for another script than the documents'; see `check_script`.
        """
        if self.tags == "none":
            return super().source_features(examples, length, show_progress)
        rows, encoded = self._source_rows(examples, length, return_offsets_mapping=True)
        texts = [text for example in examples for text in example]
        numbers = [number for row in rows for _, number in row.spans]
        offsets = [
            without_leading_space(text, tokens[:number])
            for text, tokens, number in zip(texts, encoded["offset_mapping"], numbers, strict=True)
        ]
        read = [text[: tokens[-1][1] + _CONTEXT] if tokens else "" for text, tokens in zip(texts, offsets, strict=True)]
        check_script(read, self.tagger, self.tags)
        tagged = tqdm(
            tag_words(read, self.tagger, self.tags), desc="tagging", total=len(read), disable=not show_progress
        )
        ids = {tag: number for number, tag in enumerate(self.word_tags)}
        tag_ids = iter([subword_tag_ids(tokens, words, ids) for tokens, words in zip(offsets, tagged, strict=True)])
        return {**self._features(rows), "tag_ids": [self._tag_row(row, tag_ids) for row in rows]}

    @staticmethod
    def _tag_row(row: JoinedRow, tag_ids: Iterator[list[int]]) -> list[int]:
        """A row's tags, from the next documents' tags; special tokens get the padding tag."""
        tags = [PADDING_TAG_ID] * len(row.input_ids)
        for start, number in row.spans:
            tags[start : start + number] = next(tag_ids)
        return tags

    def align(self, config) -> None:
        """Fit a new config to this processor, and the processor's `tags` to the config."""
        super().align(config)
        if config.tags != self.tags:
            logger.warning(
                f'the processor has `tags="{self.tags}"`, which the model\'s configuration changes to '
                f'`tags="{config.tags}"`; set `tags` there to keep them'
            )
            self.tags = config.tags
            # a user's tagger has its own labels for other tags as well
            is_default = self.tags == "none" or self.tagger in ENGLISH_TAGGERS
            self.tag_vocabulary = None if is_default else tag_vocabulary_of(self.tagger, self.tags)
        config.tag_vocab_size = 1 + len(SUBWORD_POSITIONS) * len(self.word_tags)


__all__ = ["GdlfProcessor"]
