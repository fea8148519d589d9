"""Tokenizers that split texts into the units of a vocabulary, such as subwords or characters, and join units again.

Each function returns an untrained tokenizer of the library `tokenizers`: it has no units yet, and no special tokens.
Regular expressions are in the syntax of Oniguruma, which `tokenizers` uses: `\\p{L}` is a letter, `\\p{M}` a vowel sign
or accent, `\\p{N}` a digit, and `[a&&b]` a character that is in both classes.
"""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from hf_summ.models.text_documents import IDEOGRAPHS

# The kinds of units that `fit_vocabulary` offers.
UNITS = ("subwords", "words", "ideographs", "characters")
# This mark at the beginning of a unit stands for the space before the unit: ▁it is " it".
_SPACE = "▁"
# A letter or digit of a word, as a character class. In Gigaword, # stands for a digit.
_LETTER_OR_DIGIT = r"[\p{L}\p{M}\p{N}#]"
# A letter or digit that is not a Chinese or Japanese character, as a character class.
_NO_IDEOGRAPH = rf"[\p{{L}}\p{{M}}\p{{N}}#&&[^{IDEOGRAPHS}]]"
# A space after or before an ideograph, such as both spaces of 中 5 国.
_BESIDE_IDEOGRAPHS = f"(?<=[{IDEOGRAPHS}]) | (?=[{IDEOGRAPHS}])"


def subword_tokenizer() -> Tokenizer:
    """An untrained tokenizer of subwords: a byte-level BPE (Radford et al. 2019).

    White space around a text is removed. The first word of a text is encoded as if a space preceded it, so that a word
    has the same subwords at every place.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    # The decoder removes the space that was added before the first word.
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def word_tokenizer(unknown: str) -> Tokenizer:
    """An untrained tokenizer of words and punctuation marks; ▁ at the beginning of a unit marks a space before it.

    A word is a run of letters and digits, including joining characters inside (`4,000.5`, `mid-term`, `won't`), an
    abbreviation with its last period (`u.s.`), or a run of the same mark (`...`). In tokenized text, such as the Penn
    Treebank and Gigaword, a separate clitic (`'s`) and the name of a bracket (`-lrb-`) are also words.

    Args:
        unknown: the token of words that are not in the vocabulary.
    """
    # A character that is not a letter, digit or space, and its repetitions, such as ... or --
    run_of_marks = rf"{_SPACE}?([^\p{{L}}\p{{M}}\p{{N}}#{_SPACE}])\1*"
    words = f"{_word_pattern(_LETTER_OR_DIGIT)}|{run_of_marks}"
    return _unit_tokenizer(unknown, words, normalizers.Strip(), "always")


def character_tokenizer(unknown: str, whole_words: bool) -> Tokenizer:
    """An untrained tokenizer of single characters, or of ideographs and whole words of other scripts.

    Spaces beside an ideograph are removed, both in encoding and in decoding.

    Args:
        unknown: the token of units that are not in the vocabulary.
        whole_words: whether words without ideographs, including numbers, are units as in `word_tokenizer`. Otherwise
            each of their characters is a unit.
    """
    # Any character that is not a space, after a space or not.
    units = rf"{_SPACE}?[^{_SPACE}]"
    if whole_words:
        units = f"{_word_pattern(_NO_IDEOGRAPH)}|{units}"
    spacing = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(_BESIDE_IDEOGRAPHS), "")])
    return _unit_tokenizer(unknown, units, spacing, "never")


def unit_trainer(tokenizer: Tokenizer, **settings) -> trainers.Trainer:
    """The trainer for a tokenizer of this module.

    The trainer of subwords merges frequent pairs of subwords; the trainer of other units collects the most frequent
    units.

    Args:
        tokenizer: a tokenizer that a function of this module returned.
        settings: arguments of `BpeTrainer` or `WordLevelTrainer` of `tokenizers`, such as `vocab_size`.
    """
    if isinstance(tokenizer.model, models.BPE):
        return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **settings)
    return trainers.WordLevelTrainer(**settings)


def _word_pattern(letter: str) -> str:
    """A regular expression that matches a word and, if there is one, the mark of the space before it.

    The expression has no capturing group: it becomes a part of expressions that refer to their groups by number.

    Args:
        letter: a character class in brackets, which matches a letter or digit of a word.
    """
    # The name of a bracket in the Penn Treebank, such as -lrb- for a left round bracket.
    bracket = "-[lr][rcs]b-"
    # A clitic that is separate in tokenized text, such as 's in "it 's". In "it's" it is part of the run below.
    clitic = rf"['’](?:s|m|d|t|ll|re|ve)(?!{letter})"
    # At least two single letters with periods, and words that hyphens join to them, such as u.s. or u.s.-led
    abbreviation = rf"(?:[{letter}&&\p{{L}}]\.){{2,}}(?!{letter})(?:-{letter}+)*"
    # Letters and digits, with single joining marks between them, such as 4,000.5 or mid-term or it's
    run = rf"{letter}+(?:[.,:/'’&-]{letter}+)*"
    return rf"{_SPACE}?(?:{bracket}|{clitic}|{abbreviation}|{run})"


def _unit_tokenizer(unknown: str, units: str, spacing: normalizers.Normalizer, first: str) -> Tokenizer:
    """An untrained tokenizer of the units that a regular expression matches.

    Args:
        unknown: the token of units that are not in the vocabulary; in a text, it is encoded as itself.
        units: the regular expression, which may refer to its first capturing group as `\\1`.
        spacing: removes superfluous spaces; it runs after each run of white space has become a single space.
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
    # The spaces that decoding removes: the space at the beginning, which the first unit's mark becomes, and, in texts
    # of characters, spaces at the end and beside ideographs.
    superfluous = "^ "
    if first == "never":
        superfluous = rf"^ | $|{_BESIDE_IDEOGRAPHS}"
    tokenizer.decoder = decoders.Sequence(
        [decoders.Metaspace(prepend_scheme="never"), decoders.Fuse(), decoders.Replace(Regex(superfluous), "")]
    )
    return tokenizer
