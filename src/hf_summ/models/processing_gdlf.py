"""Processor of GDLF: subwords and their tags."""

from typing import Any

from transformers.utils import logging

from .processing_base import SummarizationProcessor
from .text_processing_gdlf import ENGLISH_TAGGERS, SUBWORD_POSITIONS, GdlfTextProcessor, tag_vocabulary_of

logger = logging.get_logger(__name__)


class GdlfProcessor(GdlfTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids`, `attention_mask` and, with tags, `tag_ids`, and summaries to `labels`.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        tags: `pos`, `ner`, `pos+ner` or `none`.
        tagger: name of an installed spaCy pipeline, or the absolute path of one; a spaCy pipeline; or a function from a
            text to its pairs of a word and its tag. The latter two are not saved. Without a tagger, each call needs
            `word_tags`.
        tag_vocabulary: word tags in the order of their ids; by default those of spaCy's English pipelines.
        max_source_length: number of subwords to which documents are truncated, including the end token.
        max_target_length: the same for summaries.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.

    Raises:
        ValueError: `tags` is unknown, or as `SummarizationProcessor`.
    """

    def align(self, config) -> None:
        """Fit a new config to this processor, and the processor's `tags` to the config."""
        super().align(config)
        if config.tags != self.tags:
            logger.warning(
                f'the processor has `tags="{self.tags}"`, which the model\'s configuration changes to '
                f'`tags="{config.tags}"`; set `tags` there to keep them'
            )
            self.tags = config.tags
            # the ids are now those of the new tags
            if self.tagger in ENGLISH_TAGGERS or self.tags == "none":
                self.tag_vocabulary = None
            elif isinstance(self.tagger, str):
                # a user's pipeline has its own labels
                self.tag_vocabulary = tag_vocabulary_of(self.tagger, self.tags)
        config.tag_vocab_size = 1 + len(SUBWORD_POSITIONS) * len(self.word_tags)

    def to_dict(self) -> dict[str, Any]:
        settings = super().to_dict()
        if not isinstance(settings["tagger"], str):
            # a pipeline or a function cannot be saved
            settings["tagger"] = None
        return settings


__all__ = ["GdlfProcessor"]
