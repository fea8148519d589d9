"""Vocabularies fitted to the user's own corpus."""

from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from hf_summ.models import GdlfProcessor
from hf_summ.models.text_cleaning import readable
from hf_summ.models.text_tagging import default_tag_vocabulary, tag_vocabulary_of

# their ids follow this order
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def fit_vocabulary(
    documents_and_summaries: Iterable[str],
    vocab_size: int = 30000,
    lowercase: bool = False,
    min_frequency: int = 2,
    show_progress: bool = True,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) with `<pad>` `<s>` `</s>` `<unk>` as ids 0 to 3.

    Every byte has a token, so nothing is unknown. Texts are normalized to NFC, stripped and, with `lowercase`,
    lowercased; the first word is encoded like any other. Every text ends in `</s>`; special tokens such as `</s>` that
    occur in a text are read as plain characters. Offsets refer to the original text and exclude the space before a
    word. The same texts always give the same vocabulary.

    Args:
        documents_and_summaries: texts of both kinds, in any order; they are read once.
        vocab_size: maximum number of tokens, including special ones; a small corpus gives fewer.
        min_frequency: how often a pair must occur to be merged.
        show_progress: whether to show the progress bars of `tokenizers`.

    Raises:
        ValueError: the corpus has no text, or `vocab_size` has no room for the special tokens and 256 bytes.
    """
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    smallest = len(SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < smallest:
        raise ValueError(
            f"`vocab_size` is {vocab_size}, but must be at least {smallest}, for {len(SPECIAL_TOKENS)} special tokens "
            f"and {len(alphabet)} bytes"
        )
    tokenizer = Tokenizer(models.BPE())
    steps = [normalizers.NFC(), normalizers.Strip(), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    # remove the space that was added before the first word
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=alphabet,
        show_progress=show_progress,
    )
    tokenizer.train_from_iterator(_texts(documents_and_summaries), trainer)
    end = SPECIAL_TOKENS["eos_token"]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, tokenizer.token_to_id(end))]
            ),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **SPECIAL_TOKENS,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )


def fit_processor(
    documents_and_summaries: Iterable[str],
    vocab_size: int = 30000,
    lowercase: bool = False,
    min_frequency: int = 2,
    tags: str = "pos",
    tagger: str = "en_core_web_sm",
    **lengths: int,
) -> GdlfProcessor:
    """A processor with a vocabulary fitted to the texts, and the tagger's tags.

    Args:
        documents_and_summaries, vocab_size, lowercase, min_frequency: as for `fit_vocabulary`.
        tags, tagger, lengths: as for `GdlfProcessor`.

    Raises:
        ValueError: as `fit_vocabulary`.
        ImportError: the tagger is not installed.
    """
    tag_vocabulary = None
    if tags != "none":
        # first, to find out that the tagger is not installed before the long part
        tag_vocabulary = tag_vocabulary_of(tagger, tags)
        if tag_vocabulary == default_tag_vocabulary(tags):
            tag_vocabulary = None
    tokenizer = fit_vocabulary(documents_and_summaries, vocab_size, lowercase, min_frequency)
    return GdlfProcessor(tokenizer, tags=tags, tagger=tagger, tag_vocabulary=tag_vocabulary, **lengths)


def _texts(texts: Iterable[str]) -> Iterator[str]:
    empty = True
    for text in texts:
        empty = empty and not text.strip()
        yield readable(text)
    if empty:
        raise ValueError("no text to fit a vocabulary to: the corpus is empty or blank")
