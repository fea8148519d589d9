"""Vocabularies and key phrases fitted to the user's corpus, and BERT with the subwords that a corpus needs.

The units of a vocabulary are what its tokens are: subwords, words, ideographs or characters. A bare tokenizer is a
tokenizer of transformers without a processor of this package. A text is blank if it has only white space.
"""

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Regex, Tokenizer, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    ProcessorMixin,
)

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import check_choice, one_line, progress_bar
from hf_summ.common.pretrained import check_encoder, read_config, read_model
from hf_summ.data.scripts import check_script
from hf_summ.data.units import UNITS, character_tokenizer, subword_tokenizer, unit_trainer, word_tokenizer
from hf_summ.models.checks import check_integer, check_text
from hf_summ.models.processing_drgd import DrgdProcessor
from hf_summ.models.processing_gdlf import GdlfProcessor
from hf_summ.models.processing_highlight_transformer import HighlightTransformerProcessor
from hf_summ.models.text_documents import readable
from hf_summ.models.text_processing_gdlf import Tagger, default_tag_vocabulary, tag_vocabulary_of
from hf_summ.models.text_processing_recurrent import WASHINGS, washed

# The special tokens of fitted vocabularies, in the order of their ids.
SPECIAL_TOKENS = {
    "pad_token": "<pad>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "<sep>",
}
# With larger vocabularies, `tokenizers` exhausts the memory.
_MAX_SIZE = 10**7
# A thousand characters without white space. They are made a separate word, as the time to count pairs of subwords grows
# with the square of the length of a word.
_LONG_WORD = re.compile(r"\S{1000}")
# The number of texts, from the first text on, whose script is compared with the scripts of the tagger's language.
_TEXTS_CHECKED = 200


def fit_vocabulary(
    documents_and_summaries: Iterable[str],
    vocab_size: int = 30000,
    lowercase: bool = False,
    min_frequency: int = 2,
    show_progress: bool = True,
    units: str = "subwords",
    digits_as_hash: bool = False,
) -> PreTrainedTokenizerFast:
    """Fit a tokenizer to texts. Its vocabulary begins with `<pad>` `<s>` `</s>` `<unk>` `<sep>`, as ids 0 to 4.

    The units of the vocabulary may be:

    - `subwords`: a byte-level BPE (Sennrich et al. 2016; Radford et al. 2019), for which no text is unknown.
    - `words`: the most frequent words and punctuation marks.
    - `ideographs`, for Chinese: the most frequent single ideographs, punctuation marks, whole words of other scripts
      and whole numbers.
    - `characters`: the most frequent single characters of any script, so that `iphone` has six units.

    Units that are not in the vocabulary are read as `<unk>`.

    Encoding: texts are normalized to NFC, stripped and, with `lowercase`, lowercased. In subwords and words, the first
    word of a text is encoded like any other word. Every text gets `</s>` at its end. Special tokens in a text, such as
    `</s>`, are read as plain characters; only `<unk>` is read as itself, unless units are subwords. Offsets refer to
    the original text, and the offsets of subwords exclude the space before a word. `<sep>` is for the separation of the
    documents of an example.

    Decoding restores spaces, except runs of them and, with ideographs and characters, spaces beside ideographs.

    Equal texts always yield the same vocabulary.

    Args:
        documents_and_summaries: texts of both kinds, in any order; they are read once.
        vocab_size: maximum number of tokens, including special ones; a small corpus yields fewer.
        lowercase: whether texts are read in lower case.
        min_frequency: minimum number of occurrences of a merged pair of subwords, or of a word or character of the
            vocabulary.
        show_progress: whether to show the progress bars of `tokenizers`; they are shown only in a terminal.
        units: `subwords`, `words`, `ideographs` or `characters`.
        digits_as_hash: whether each digit is read as `#`, as in Gigaword's distribution.

    Raises:
        TypeError: `documents_and_summaries` are not texts, or a number is not an integer.
        ValueError: `units` is unknown; all texts are blank; all units are too rare; `min_frequency` is below 0; or
            `vocab_size` is too small for the special tokens and the least number of units: 256 bytes, or one word or
            character.
    """
    check_choice("`units`", units, UNITS)
    check_integer("min_frequency", min_frequency, 0, _MAX_SIZE)
    if units == "subwords":
        needed = len(pre_tokenizers.ByteLevel.alphabet())
        needed_units = f"{needed} bytes"
    else:
        needed = 1
        needed_units = units
    why = f", for {len(SPECIAL_TOKENS)} special tokens and {needed_units}"
    check_integer("vocab_size", vocab_size, len(SPECIAL_TOKENS) + needed, _MAX_SIZE, why)
    unknown = SPECIAL_TOKENS["unk_token"]
    if units == "subwords":
        tokenizer = subword_tokenizer()
    elif units == "words":
        tokenizer = word_tokenizer(unknown)
    else:
        tokenizer = character_tokenizer(unknown, whole_words=units == "ideographs")
    steps = [normalizers.NFC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if digits_as_hash:
        steps.append(normalizers.Replace(Regex(r"\d"), "#"))
    steps.append(tokenizer.normalizer)
    tokenizer.normalizer = normalizers.Sequence(steps)
    trainer = unit_trainer(
        tokenizer,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS.values()),
        # In a file, the progress bars would be blank lines.
        show_progress=show_progress and sys.stderr.isatty(),
    )
    texts = checked_texts(documents_and_summaries)
    if units == "subwords":
        # A space is put after each thousand characters of a long word, so that the trainer does not take too long.
        texts = (_LONG_WORD.sub(r"\g<0> ", text) for text in texts)
    else:
        # If a text has `<unk>` after a space, the trainer would add the word `▁<unk>` to the vocabulary.
        texts = (text.replace(unknown, " ") for text in texts)
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
        raise ValueError(f"the vocabulary is empty, as no {units} occur {min_frequency} times: lower `min_frequency`")
    tokenizer.post_processor = _ending(tokenizer, units)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **SPECIAL_TOKENS, clean_up_tokenization_spaces=False, split_special_tokens=True
    )


def fit_processor(
    documents_and_summaries: Iterable[str],
    vocab_size: int = 30000,
    lowercase: bool = False,
    min_frequency: int = 2,
    tags: str = "pos",
    tagger: Tagger = "en_core_web_sm",
    tag_vocabulary: Sequence[str] | None = None,
    units: str = "subwords",
    digits_as_hash: bool = False,
    washing: str | None = None,
    restore_case: bool = False,
    **lengths: int,
) -> GdlfProcessor | DrgdProcessor:
    """Make a processor whose vocabulary is fitted to texts: GDLF's processor or, with `washing`, DRGD's.

    Args:
        documents_and_summaries, vocab_size, lowercase, min_frequency, units, digits_as_hash: as for `fit_vocabulary`.
        tags, tagger: as for `GdlfProcessor`: which tags words get, and what assigns them. They are ignored with
            `washing`.
        tag_vocabulary: as for `GdlfProcessor`; by default all tags that the tagger assigns.
        washing: the name of a published preprocessing that deletes characters, as for `DrgdProcessor`. The vocabulary
            is then fitted to texts without these characters.
        restore_case: as for `GdlfProcessor`: whether the case of summaries in lower case is restored.
        lengths: `max_source_length` and `max_target_length`, in tokens, as for the processors.

    Raises:
        TypeError: as `fit_vocabulary`.
        ValueError: as `fit_vocabulary`; `washing` is unknown; `restore_case` is set, but the vocabulary is not in lower
            case; the texts are not in the script of the tagger's language; or the tags of the tagger are unknown.
        ImportError: the tagger, or spaCy, is not installed.
    """
    if washing is not None:
        check_choice("`washing`", washing, WASHINGS)
    if restore_case and not lowercase and washing is None:
        # The processor would refuse it as well, but only after the vocabulary is fitted, which takes long.
        raise ValueError("`restore_case` needs `lowercase` or `washing`")
    if washing is None and tags != "none" and tag_vocabulary is None:
        # This comes first, so that a missing tagger is reported before the vocabulary is fitted.
        texts = iter(documents_and_summaries)
        checked = list(islice(texts, _TEXTS_CHECKED))
        check_script(checked, tagger, tags)
        documents_and_summaries = chain(checked, texts)
        tag_vocabulary = tag_vocabulary_of(tagger, tags)
        # The vocabulary of English pipelines is the default of the processor, which need not store it.
        if tag_vocabulary == default_tag_vocabulary(tags):
            tag_vocabulary = None
    tokenizer = fit_vocabulary(
        (washed(text, washing) for text in documents_and_summaries),
        vocab_size,
        lowercase,
        min_frequency,
        units=units,
        digits_as_hash=digits_as_hash,
    )
    if washing is not None:
        return DrgdProcessor(tokenizer, washing=washing, restore_case=restore_case, **lengths)
    return GdlfProcessor(
        tokenizer, tags=tags, tagger=tagger, tag_vocabulary=tag_vocabulary, restore_case=restore_case, **lengths
    )


def _ending(tokenizer: Tokenizer, units: str) -> processors.PostProcessor:
    """The post-processor that adds the end token `</s>` to each text, and to both texts of a pair.

    With subwords, it also excludes the space before a word from the offsets.

    Args:
        tokenizer: a fitted tokenizer, whose vocabulary has the end token.
        units: as for `fit_vocabulary`.
    """
    end = SPECIAL_TOKENS["eos_token"]
    template = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, tokenizer.token_to_id(end))]
    )
    if units != "subwords":
        return template
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), template])


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts with U+FFFD in place of lone surrogates, which are halves of characters in UTF-16.

    Raises:
        TypeError: `texts` is a single text or no collection of texts, or contains anything else than texts.
        ValueError: all texts are blank, or there is none; this is raised after the last text.
    """
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        raise TypeError(f"`documents_and_summaries` must be texts, but is {type(texts).__name__}: {texts!r:.80}")
    are_all_blank = True
    for text in texts:
        check_text("documents_and_summaries", text)
        if text.strip():
            are_all_blank = False
        yield readable(text)
    if are_all_blank:
        raise ValueError("no text to fit a vocabulary to: the corpus is empty or blank")


def load_tokenizer(name: str) -> ProcessorMixin | PreTrainedTokenizerBase:
    """The processor in a folder or a Hub repository or, without a processor there, the bare tokenizer.

    Args:
        name: the path of the folder, or the name of the repository.

    Raises:
        ValueError: there is neither a processor nor a tokenizer, or its files cannot be read.
    """
    try:
        return AutoProcessor.from_pretrained(name)
    except Exception as error:
        # For broken files, transformers and tokenizers raise errors of any type.
        raise ValueError(f"{name}: cannot be read; make one with `hf-summ vocabulary`: {one_line(error)}") from error


def fit_phrases(
    examples: Iterable[str | list[str]],
    vocabulary: ProcessorMixin | PreTrainedTokenizerBase,
    max_frequencies: int | None = 200_000,
    **settings: int | None,
) -> HighlightTransformerProcessor:
    """Make a processor of Highlight-Transformer that knows how many of the examples contain each phrase.

    From these numbers, the processor finds the key phrases of other documents by tf-idf.

    Args:
        examples: for each example, its document or the list of its documents.
        vocabulary: a processor of this package or a bare tokenizer. The new processor gets this tokenizer, or the
            tokenizer of this processor with its maximum lengths, its separator of documents and `restore_case`.
        max_frequencies: the largest number of phrases to keep, the most frequent phrases; None keeps all phrases that
            occur in at least two examples.
        settings: settings of `HighlightTransformerProcessor`. A setting that is not None replaces the setting of
            `vocabulary`.

    Raises:
        TypeError: `max_frequencies` is not an integer, or `examples` are not texts.
        ValueError: `vocabulary` is a processor with `washing`; `max_frequencies` is below 1; or as
            `HighlightTransformerProcessor.fit`.
    """
    washing = getattr(vocabulary, "washing", None)
    if washing is not None:
        raise ValueError(
            f"the processor has the washing {washing!r}, which is only for DRGD: make one with `hf-summ vocabulary` "
            "without --washing"
        )
    new_settings: dict[str, Any] = {}
    for name in ("max_source_length", "max_target_length", "document_separator", "restore_case"):
        if hasattr(vocabulary, name):
            new_settings[name] = getattr(vocabulary, name)
    for name, value in settings.items():
        if value is not None:
            new_settings[name] = value
    # A processor has its tokenizer as an attribute, and a bare tokenizer has no such attribute.
    tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
    processor = HighlightTransformerProcessor(tokenizer, **new_settings)
    if max_frequencies is not None:
        check_integer("max_frequencies", max_frequencies, 1)
    processor.fit(examples, max_frequencies)
    return processor


def prune_bert(
    documents_and_summaries: Iterable[str], name: str, output: str | os.PathLike, min_frequency: int = 2
) -> tuple[int, int]:
    """Write a copy of a BERT and its tokenizer with only the subwords that texts need, as a folder for `bert_name`.

    The subwords that are kept are special tokens, subwords that occur at least `min_frequency` times in the texts, and
    the single characters of all subwords that occur. If the vocabulary lacks a character of a subword, all subwords of
    the words with this subword are kept too. The embeddings of the subwords that are kept are unchanged. Words with a
    subword that is removed are split into shorter subwords. All other words are split as before, and no word of the
    texts becomes unknown.

    Args:
        documents_and_summaries: as for `fit_vocabulary`.
        name: the checkpoint of a BERT with a WordPiece tokenizer: a folder, or a name on the Hub.
        output: the folder for the copy, new or empty.
        min_frequency: the least number of occurrences of a subword.

    Returns:
        The number of subwords of the copy, and the number of subwords of the checkpoint.

    Raises:
        TypeError: as `checked_texts`.
        ValueError: the checkpoint is not BERT, or has no WordPiece tokenizer; or all texts are blank.
    """
    output = Path(output)
    config = read_config("prune_bert", name)
    check_encoder("prune_bert", name, config)
    tokenizer = AutoTokenizer.from_pretrained(name)
    backend = tokenizer.backend_tokenizer
    # A saved tokenizer may truncate and pad texts, as in the training of the checkpoint. Here all subwords count.
    backend.no_truncation()
    backend.no_padding()
    state = json.loads(backend.to_str())
    if state["model"]["type"] != "WordPiece":
        raise ValueError(f"`prune_bert` is {name!r}, but has no WordPiece tokenizer: {state['model']['type']}")
    vocabulary = tokenizer.get_vocab()
    unsplit = _unsplit_subwords(vocabulary, state["model"]["continuing_subword_prefix"])
    counts: Counter[int] = Counter()
    # The ids of all subwords of words with a subword that cannot be split.
    fixed: set[int] = set()
    for text in progress_bar(checked_texts(documents_and_summaries), "Counting subwords", unit=" texts"):
        encoding = backend.encode(text, add_special_tokens=False)
        counts.update(encoding.ids)
        if not unsplit.isdisjoint(encoding.ids):
            fixed.update(_subwords_beside(unsplit, encoding))
    subwords = _needed_subwords(counts, fixed, vocabulary, state, min_frequency)
    _renumber(state, subwords)

    model = read_model(AutoModel, "prune_bert", name, config, unused=("pooler",))
    # The position of an id in this list is the new id of the subword.
    ids = [vocabulary[subword] for subword in subwords]
    embeddings = model.get_input_embeddings().weight
    embeddings.data = embeddings.data[ids]
    for key, value in config.to_dict().items():
        if key.endswith("_token_id"):
            new_id = ids.index(value) if value in ids else None
            model.config.update({key: new_id})
    model.config.vocab_size = len(ids)
    with moved_into_place(output) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    return len(subwords), len(vocabulary)


def _unsplit_subwords(vocabulary: dict[str, int], prefix: str) -> set[int]:
    """The ids of subwords of which the vocabulary lacks a character, so that they cannot be split.

    Args:
        vocabulary: subword -> its id.
        prefix: as for `_single_characters`.
    """
    ids = set()
    for subword, subword_id in vocabulary.items():
        if not _single_characters(subword, prefix) <= vocabulary.keys():
            ids.add(subword_id)
    return ids


def _subwords_beside(unsplit: set[int], encoding: Encoding) -> set[int]:
    """The ids of all subwords of words that have a subword in `unsplit`.

    Args:
        unsplit: ids of subwords.
        encoding: the subwords of a text.
    """
    subwords_of_words: defaultdict[int | None, set[int]] = defaultdict(set)
    for subword_id, word in zip(encoding.ids, encoding.word_ids, strict=True):
        subwords_of_words[word].add(subword_id)
    ids: set[int] = set()
    for subwords in subwords_of_words.values():
        if not subwords.isdisjoint(unsplit):
            ids.update(subwords)
    return ids


def _needed_subwords(
    counts: Counter[int], fixed: set[int], vocabulary: dict[str, int], state: dict[str, Any], min_frequency: int
) -> list[str]:
    """The subwords that texts need, as `prune_bert` describes them, in the order of their ids.

    Args:
        counts: id of a subword -> its number of occurrences in the texts.
        fixed: ids of subwords that are needed however rare they are.
        vocabulary: subword -> its id.
        state: the tokenizer as the content of tokenizer.json.
        min_frequency: the least number of occurrences of a subword.
    """
    prefix = state["model"]["continuing_subword_prefix"]
    needed = {token["content"] for token in state["added_tokens"]}
    for subword, subword_id in vocabulary.items():
        if subword_id not in counts:
            continue
        needed.update(_single_characters(subword, prefix) & vocabulary.keys())
        if counts[subword_id] >= min_frequency or subword_id in fixed:
            needed.add(subword)
    return sorted(needed, key=vocabulary.__getitem__)


def _single_characters(subword: str, prefix: str) -> set[str]:
    """The subwords of one character into which a subword of WordPiece can be split: `##a` and `##b` for `##ab`.

    Args:
        subword: a subword, not empty.
        prefix: the mark at the beginning of a subword that continues a word, such as `##`.
    """
    continues_word = subword.startswith(prefix) and subword != prefix
    if continues_word:
        letters = subword.removeprefix(prefix)
        return {prefix + letter for letter in letters}
    # Only the first letter begins a word.
    characters = {prefix + letter for letter in subword[1:]}
    characters.add(subword[0])
    return characters


def _renumber(state: dict[str, Any], subwords: list[str]) -> None:
    """Remove subwords from a tokenizer, and give new ids to the subwords that stay.

    Args:
        state: the tokenizer as the content of tokenizer.json, which is changed in place.
        subwords: the subwords to keep, among them all special tokens. Their new ids are their positions in this list.
    """
    ids = {subword: new_id for new_id, subword in enumerate(subwords)}
    state["model"]["vocab"] = {subword: ids[subword] for subword in state["model"]["vocab"] if subword in ids}
    for token in state["added_tokens"]:
        token["id"] = ids[token["content"]]
    post_processor = state["post_processor"] or {}
    for token in post_processor.get("special_tokens", {}).values():
        token["ids"] = [ids[subword] for subword in token["tokens"]]
    # The post-processor of BERT is not a template. It has two special tokens, each as a pair of the token and its id.
    for name in ("cls", "sep"):
        if name in post_processor:
            subword, _ = post_processor[name]
            post_processor[name] = [subword, ids[subword]]
