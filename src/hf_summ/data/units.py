"""Units of a vocabulary, such as subwords and characters: splitting texts into them, and joining them again."""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from hf_summ.models.text_documents import IDEOGRAPHS

UNITS = ("subwords", "words", "ideographs", "characters")
# This mark at the beginning of a unit stands for the space before it.
_SPACE = "▁"
# A character within a word; in Gigaword, # stands for a digit.
_INNER = r"[\p{L}\p{M}\p{N}#]"
_INNER_NOT_IDEOGRAPHS = rf"[\p{{L}}\p{{M}}\p{{N}}#&&[^{IDEOGRAPHS}]]"
# A space beside an ideograph.
_BESIDE_IDEOGRAPHS = f"(?<=[{IDEOGRAPHS}]) | (?=[{IDEOGRAPHS}])"


def subword_tokenizer() -> Tokenizer:
    """A byte-level BPE without merges (Radford et al. 2019)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    # The decoder removes the space that was added before the first word.
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def word_tokenizer(unknown: str) -> Tokenizer:
    """An untrained tokenizer of words, whose units have a mark where a space precedes the word.

    A word is a run of letters and digits, including joining characters inside (`4,000.5`, `mid-term`, `won't`), an
    abbreviation with its last period (`u.s.`), or a run of one other character. As in the Penn Treebank and Gigaword,
    `'s` and similar clitics, and brackets such as `-lrb-`, are also words.
    """
    words = rf"{_word(_INNER)}|{_SPACE}?([^\p{{L}}\p{{M}}\p{{N}}#{_SPACE}])\1*"
    return _unit_tokenizer(unknown, words, normalizers.Strip(), "always")


def character_tokenizer(unknown: str, whole_words: bool) -> Tokenizer:
    """An untrained tokenizer of characters; with `whole_words`, of ideographs, and of whole numbers and other words.

    Space beside an ideograph is removed, both in encoding and in decoding.
    """
    characters = rf"{_SPACE}?[^{_SPACE}]"
    if whole_words:
        characters = rf"{_word(_INNER_NOT_IDEOGRAPHS)}|{characters}"
    spacing = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(_BESIDE_IDEOGRAPHS), "")])
    return _unit_tokenizer(unknown, characters, spacing, "never")


def unit_trainer(tokenizer: Tokenizer, **settings) -> trainers.Trainer:
    """The tokenizer's trainer, which merges frequent pairs or collects the most frequent words or characters.

    Args:
        settings: of the trainer of `tokenizers`.
    """
    if isinstance(tokenizer.model, models.BPE):
        return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **settings)
    return trainers.WordLevelTrainer(**settings)


def _word(inner: str) -> str:
    """The pattern of words whose letters and digits match `inner`."""
    clitic = rf"['’](?:s|m|d|t|ll|re|ve)(?!{inner})"
    abbreviation = rf"(?:[{inner}&&\p{{L}}]\.){{2,}}(?!{inner})(?:-{inner}+)*"
    run = rf"{inner}+(?:[.,:/'’&-]{inner}+)*"
    return rf"{_SPACE}?(?:-[lr][rcs]b-|{clitic}|{abbreviation}|{run})"


def _unit_tokenizer(unknown: str, units: str, spacing: normalizers.Normalizer, first: str) -> Tokenizer:
    """An untrained tokenizer of units that a pattern matches.

    Args:
        unknown: the token of units that are not in the vocabulary; in a text, it is encoded as itself.
        units: the pattern.
        spacing: the normalizer of spaces, after each run of white space has become a single space.
        first: whether the first unit of a text is marked as if a space preceded it: `always` or `never`.
    """
    tokenizer = Tokenizer(models.WordLevel(unk_token=unknown))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(rf"[\s{_SPACE}]+"), " "), spacing])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme=first, split=first == "always"),
            pre_tokenizers.Split(Regex(rf"{_SPACE}?{unknown}|{units}"), "isolated"),
        ]
    )
    # The spaces that decoding removes.
    superfluous = "^ "
    if first == "never":
        superfluous = rf"^ | $|{_BESIDE_IDEOGRAPHS}"
    tokenizer.decoder = decoders.Sequence(
        [decoders.Metaspace(prepend_scheme="never"), decoders.Fuse(), decoders.Replace(Regex(superfluous), "")]
    )
    return tokenizer
