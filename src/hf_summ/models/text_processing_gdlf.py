"""The text side of GDLF's processor: subwords and their tags."""

from collections.abc import Iterator, Sequence
from typing import Any

from .checks import check_text, check_texts
from .text_documents import JoinedRow
from .text_processing_base import TextProcessor
from .text_tagging import (
    PADDING_TAG_ID,
    TAGS,
    align_tags,
    check_script,
    default_tag_vocabulary,
    subword_tag_ids,
    tag_words,
    tags_of_each,
    tags_within,
    without_leading_space,
)

# number of characters after the truncation that the tagger reads, as a word's tag depends on the words after it
_CONTEXT = 200


class GdlfTextProcessor(TextProcessor):
    """The `TextProcessor` of GDLF; see `GdlfProcessor`."""

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
        if tagger is not None and not callable(tagger):
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

    def source_features(
        self, examples: list[list[str]], length: int | None, show_progress: bool, word_tags: Any = None
    ) -> dict[str, list]:
        """The base's features, and rows of `tag_ids`.

        Args:
            word_tags: the tags of the words of each example, in place of the tagger's: see `align_tags`, and
                `tags_of_each` for several documents.

        Raises:
            ValueError: the tagger is for another script than the documents'; see `check_script`.
        """
        if self.tags == "none":
            if word_tags is not None:
                raise ValueError('`word_tags` are given, but the processor has `tags="none"`: omit them')
            return super().source_features(examples, length, show_progress)
        rows, encoded = self._source_rows(examples, length, return_offsets_mapping=True)
        texts = [text for example in examples for text in example]
        numbers = [number for row in rows for _, number in row.spans]
        offsets = [
            without_leading_space(text, tokens[:number])
            for text, tokens, number in zip(texts, encoded["offset_mapping"], numbers, strict=True)
        ]
        read = [text[: tokens[-1][1] + _CONTEXT] if tokens else "" for text, tokens in zip(texts, offsets, strict=True)]
        if word_tags is None:
            check_script(read, self.tagger, self.tags)
            tagged = tag_words(read, self.tagger, self.tags)
        else:
            tagged = map(align_tags, texts, tags_of_each(examples, word_tags))
        if show_progress:
            from huggingface_hub.utils import tqdm

            tagged = tqdm(tagged, desc="tagging", total=len(read), disable=False)
        ids = {tag: number for number, tag in enumerate(self.word_tags)}
        tag_ids = iter([subword_tag_ids(tokens, words, ids) for tokens, words in zip(offsets, tagged, strict=True)])
        return {**self._features(rows), "tag_ids": [self._tag_row(row, tag_ids) for row in rows]}

    @staticmethod
    def tags_within(document: str | list[str], word_tags: Any, ranges: Sequence[Sequence[Sequence[int]]]) -> list:
        """The `word_tags` of an example's words that start within [start, end) characters of each text, as pairs."""
        texts = [document] if isinstance(document, str) else document
        parts = zip(texts, tags_of_each([texts], [word_tags]), ranges, strict=True)
        tags = [tags_within(*part) for part in parts]
        return tags[0] if isinstance(document, str) else tags

    @staticmethod
    def _tag_row(row: JoinedRow, tag_ids: Iterator[list[int]]) -> list[int]:
        """A row's tags, from the next documents' tags; special tokens get the padding tag."""
        tags = [PADDING_TAG_ID] * len(row.input_ids)
        for start, number in row.spans:
            tags[start : start + number] = next(tag_ids)
        return tags
