"""ROUGE (Lin 2004) with the scores of Google's rouge-score or of the Perl script ROUGE-1.5.5, without the script.

A mode says which of the two programs gives the scores. A type of ROUGE, such as "rouge2", says which units are counted:
n-grams, skip-bigrams, or the words of longest common subsequences. "The script" is ROUGE-1.5.5, and a flag such as `-b`
in a docstring is one of the script's.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from hf_summ.common.flags import flag
from hf_summ.common.messages import check_choice, one_line
from hf_summ.data.languages import language_code
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.rouge_counts import (
    Scores,
    UnitCounter,
    combined_scores,
    count_matches,
    ngrams,
    skip_bigrams,
    skip_bigrams_4,
)
from hf_summ.evaluation.rouge_lcs import sequence_lcs, summary_lcs
from hf_summ.evaluation.rouge_words import Reader, Splitter, foreign_reader, read_words, sentence_splitter
from hf_summ.evaluation.stemming import stem
from hf_summ.evaluation.words import check_rows, check_units, is_english, warn_of_script
from hf_summ.models.checks import check_integer, check_list
from hf_summ.models.text_documents import readable

# In each mode, type of ROUGE -> the function that counts the units of the type.
_ROUGE_SCORE_COUNTERS: dict[str, UnitCounter] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rougeL": sequence_lcs,
    "rougeLsum": summary_lcs,
}
_ROUGE155_COUNTERS: dict[str, UnitCounter] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rouge3": ngrams(3),
    "rougeL": summary_lcs,
    "rougeSU4": skip_bigrams_4,
    "rougeSU*": skip_bigrams,
}
_COUNTERS_OF_MODES: Mapping[str, dict[str, UnitCounter]] = {
    "rouge_score": _ROUGE_SCORE_COUNTERS,
    "rouge155": _ROUGE155_COUNTERS,
}
ROUGE_MODES = tuple(_COUNTERS_OF_MODES)
ROUGE_TYPES = tuple(_ROUGE_SCORE_COUNTERS)
ROUGE155_TYPES = tuple(_ROUGE155_COUNTERS)
# The types of both modes. A type that both modes have stands here once.
ALL_TYPES = tuple(_ROUGE155_COUNTERS | _ROUGE_SCORE_COUNTERS)
RougeMode = Literal["rouge155", "rouge_score"]
Several = Literal["best", "pooled"]
_SPACE = re.compile(rb"\s+")
# The first of 256 letters that stand for the bytes of tokens which are parts of characters.
_FIRST_BYTE_LETTER = 0xA000


@dataclass(frozen=True)
class RougeSettings:
    """What ROUGE compares, and how. All fields but the last are flags of `hf-summ evaluate`.

    Args:
        language: ISO 639 code. English is split into words of a-z and 0-9, as in rouge-score and the script. Other
            languages are split into words of any script, and Chinese and Japanese into characters.
        sentences: "split" splits lines into sentences; "lines" treats each line as a sentence, as rouge-score and the
            script do.
        rouge_mode: "rouge155" gives the numbers of the Perl script ROUGE-1.5.5, which papers report: rouge1, rouge2,
            rouge3, rougeL, rougeSU4, rougeSU*. In this mode, rougeL compares sentence by sentence. rougeSU* skips any
            number of words; pyrouge prints it as SU4. rougeSU4 skips at most 4 words (`-2 4 -u`). As in the script,
            neither counts a text's last word as a unigram. "rouge_score" gives the numbers of Google's package: rouge1,
            rouge2, rougeL, which treats a summary as one sequence, and rougeLsum, which compares sentence by sentence.
        rouge_types: which of the mode's types to compute; None for all.
        units: the units of languages other than English: "words", or "lcsts" for the characters that DRGD's program
            compares, without most punctuation and digits.
        rouge_tokenizer: the tokenizer whose subwords are compared in place of words: a folder or a name on the Hub.
        byte_limit: number of bytes to which predictions and references are truncated (`-b`), not counting line ends.
            For rougeL the script counts within each sentence instead.
        word_limit: number of words, separated by spaces, to which predictions and references are truncated (`-l`).
        several: how several references of a row are combined. "best": the scores are those with the reference of the
            highest F, for each type separately, as in rouge-score. "pooled": the counts of all references are summed
            before dividing, as in the script (`-f A`). None means the way of the mode's program.
        use_stemmer: whether inflected forms of an English word match: by NLTK's variant of Porter's stemmer in mode
            "rouge_score", by WordNet's exception lists and Porter's stemmer (`-m`) in "rouge155".

    Raises:
        TypeError: `language` is not a string, or `rouge_types` is not a list or a tuple.
        ValueError: a choice or the language is unknown; both limits are set; a limit is below 1, or the mode or the
            language has no such limit.
    """

    language: str = flag("reporting", "ISO 639 code of the summaries' language", "en")
    sentences: Literal["split", "lines"] = flag("reporting", "Split lines into sentences, or read each as one", "split")
    rouge_mode: RougeMode = flag(
        "reporting",
        "Compute ROUGE as the Perl script ROUGE-1.5.5, which papers report, or as Google's rouge-score",
        "rouge155",
    )
    rouge_types: tuple[str, ...] | None = flag(
        "reporting", "Types such as rouge1 rouge2 rougeL", unset="the mode's", nargs="+", metavar="TYPE"
    )
    units: Literal["words", "lcsts"] = flag(
        "reporting",
        "Units of ROUGE in languages other than English: words, or characters for Chinese and Japanese (words), or the "
        "characters of DRGD's program, without most punctuation and digits (lcsts)",
        "words",
    )
    rouge_tokenizer: str | None = flag(
        "reporting",
        "Tokenizer whose subwords ROUGE compares, as in the thesis's tables: a folder or a name on the Hub",
        unset="words are compared",
        metavar="NAME",
    )
    byte_limit: int | None = flag(
        "reporting", "Truncate summaries to N bytes (rouge155)", unset="no limit", metavar="N"
    )
    word_limit: int | None = flag(
        "reporting", "Truncate summaries to N words (rouge155)", unset="no limit", metavar="N"
    )
    several: Several | None = flag(
        "reporting",
        "How to combine several references: the best score, or matches summed over all references before dividing",
        unset="best with rouge_score, pooled with rouge155",
    )
    use_stemmer: bool = True

    def __post_init__(self):
        """Check the settings; the class names the errors."""
        check_choice("`rouge_mode`", self.rouge_mode, ROUGE_MODES)
        if self.rouge_types is not None:
            check_list("rouge_types", self.rouge_types)
        for rouge_type in self.rouge_types or ():
            if rouge_type == "rougeLsum" and self.rouge_mode == "rouge155":
                raise ValueError(
                    "ROUGE type rougeLsum of rouge-score is rougeL here, which compares by sentence: use rougeL"
                )
            check_choice("ROUGE type", rouge_type, _COUNTERS_OF_MODES[self.rouge_mode])
        check_choice("`sentences`", self.sentences, ("split", "lines"))
        if self.several is not None:
            check_choice("`several`", self.several, get_args(Several))
        # This raises an error for an unknown language, which would otherwise appear only when texts are read.
        language_code(self.language)
        check_units(self.units, self.language)
        if self.byte_limit is not None and self.word_limit is not None:
            raise ValueError("`byte_limit` and `word_limit` exclude each other: set only one")
        for name in ("byte_limit", "word_limit"):
            limit = getattr(self, name)
            if limit is None:
                continue
            check_integer(name, limit, 1)
            if self.rouge_mode != "rouge155":
                raise ValueError(f"`rouge_mode` is 'rouge_score', which has no {name}: set it to 'rouge155'")
            if not is_english(self.language):
                raise ValueError(f"`{name}` needs English, as in ROUGE-1.5.5, but `language` is '{self.language}'")

    @property
    def is_truncating(self) -> bool:
        """Whether texts are truncated. Then recall is the score to report, as in the DUC competitions."""
        return self.byte_limit is not None or self.word_limit is not None

    @property
    def of_several(self) -> str:
        """How several references of a row are combined: "best" or "pooled", by default as in the mode's program."""
        if self.several is not None:
            return self.several
        return "pooled" if self.rouge_mode == "rouge155" else "best"

    @property
    def stemming(self) -> str:
        """How the inflected forms of a word are made equal, in words for a report."""
        if not self.use_stemmer or not is_english(self.language):
            return "none"
        if self.rouge_mode == "rouge_score":
            return "Porter (NLTK's)"
        return "Porter and WordNet's exceptions"


def rouge(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], settings: RougeSettings | None = None
) -> dict[str, Scores]:
    """ROUGE of each row, a prediction with one or several references. An empty prediction scores 0.

    With `settings.rouge_tokenizer`, the subwords of a text, written with spaces between them, are read like any other
    text. So subwords lose marks such as ##, English subwords are stemmed, limits count subwords, and warnings are about
    subwords.

    Args:
        predictions: (N,), one text per row.
        references: (N,), one or several texts per row.
        settings: `RougeSettings()` by default.

    Returns:
        Type of ROUGE, such as "rouge2" -> precision, recall and F of each row, (N,) each, in points, 0 to 100. The
        types are the settings' types, in the settings' order, or all types of the mode.

    Raises:
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, a value
            is not a string, no reference has any words, or the tokenizer cannot be loaded.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet; or they have no
            spaces between words and are not read by characters.
    """
    settings = settings or RougeSettings()
    reference_lists = check_rows(predictions, references)
    if settings.rouge_tokenizer is not None:
        split_into_subwords = subword_splitter(_load_tokenizer(settings.rouge_tokenizer), settings.language)
        predictions = in_subwords(predictions, split_into_subwords, settings)
        reference_lists = in_subwords(reference_lists, split_into_subwords, settings)
        # Each line of subwords is a sentence now.
        settings = replace(settings, sentences="lines")
    warn_of_script(chain.from_iterable(reference_lists), settings.language)
    counters = _COUNTERS_OF_MODES[settings.rouge_mode]
    if settings.rouge_types is not None:
        counters = {rouge_type: counters[rouge_type] for rouge_type in settings.rouge_types}
    counts_of_types = count_matches(predictions, reference_lists, _reader(settings), counters, settings.language)
    sizes = np.array([len(row_references) for row_references in reference_lists])
    scores = {}
    for rouge_type, counts in counts_of_types.items():
        scores[rouge_type] = combined_scores(counts, sizes, settings.of_several)
    return scores


def in_subwords(
    texts: Sequence[str | Sequence[str]], split_into_subwords: Callable[[str], list[str]], settings: RougeSettings
) -> list:
    """Write texts as subwords with spaces between them, a sentence in each line.

    Sentences are split before, because the ends of sentences cannot be seen in subwords.

    Args:
        texts: texts, or lists of texts, such as the references of each row.
        split_into_subwords: the function that splits a text into subwords.
        settings: the settings by which texts are split into sentences.

    Returns:
        A list with the shape of `texts`.
    """
    texts_in_subwords: list[str | list] = []
    for text in texts:
        if isinstance(text, str):
            lines = [" ".join(split_into_subwords(sentence)) for sentence in _sentences(text, settings)]
            texts_in_subwords.append("\n".join(lines))
        else:
            texts_in_subwords.append(in_subwords(text, split_into_subwords, settings))
    return texts_in_subwords


def _sentences(text: str, settings: RougeSettings) -> list[str]:
    """The sentences of a text: its lines, or what a splitter for the language finds."""
    if settings.sentences == "lines":
        return text.split("\n")
    return split_sentences(text, settings.language)


def subword_splitter(tokenizer: Any, language: str) -> Callable[[str], list[str]]:
    """The function that splits a text into the subwords that ROUGE compares.

    In English, ROUGE reads a-z and 0-9 of the tokens. In other languages, a subword is the text of a token, because the
    characters of byte-level tokens are bytes, of which some look like punctuation.

    Args:
        tokenizer: a tokenizer of transformers.
        language: ISO 639 code of the words that ROUGE compares.
    """
    if is_english(language):
        return tokenizer.tokenize

    @cache
    def text_of_token(token: str) -> str:
        # Decoders change the start of a text, so a letter is put before the token, and cut off from the text.
        text = tokenizer.convert_tokens_to_string(["a", token])[1:]
        # Decoders write U+FFFD for a part of a character, or leave the part out.
        is_part_of_character = "\ufffd" in text or (not text and token != "▁")
        if is_part_of_character:
            # Each byte of the token's spelling becomes a letter without case, of the Yi script, to be read as a word.
            return "".join([chr(_FIRST_BYTE_LETTER + byte) for byte in token.encode()])
        # A token of white space must not end the line.
        return " ".join(text.split())

    def split(text: str) -> list[str]:
        return [text_of_token(token) for token in tokenizer.tokenize(text)]

    return split


@lru_cache(maxsize=1)
def _load_tokenizer(name: str) -> Any:
    """Load a tokenizer, which is a folder or a name on the Hub.

    Raises:
        ValueError: the tokenizer cannot be loaded.
    """
    # transformers is imported here, as its import is slow and rarely needed.
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except OSError as error:
        # This error does not name the tokenizer if the Hub is out of reach.
        raise ValueError(f"`rouge_tokenizer` is {name!r}, but cannot be loaded: {one_line(error):.300}") from error


def _reader(settings: RougeSettings) -> Reader:
    """The reader that turns texts into ids of words, by the rules of the settings' mode and language."""
    split = sentence_splitter(settings.language, settings.sentences)
    if not is_english(settings.language):
        return foreign_reader(settings.language, settings.units, split)
    if settings.rouge_mode == "rouge_score":
        nltk_stemmer = _nltk_stemmer() if settings.use_stemmer else None
        return Reader(_read_lowercased, nltk_stemmer, split)
    stemmer = stem if settings.use_stemmer else None
    if settings.word_limit is not None:
        return Reader(read_words, stemmer, _word_cutter(split, settings.word_limit))
    if settings.byte_limit is not None:
        cut_text = _byte_cutter(split, settings.byte_limit, is_limit_of_text=True)
        cut_sentences = _byte_cutter(split, settings.byte_limit, is_limit_of_text=False)
        return Reader(read_words, stemmer, cut_text, split_for_lcs=cut_sentences)
    return Reader(read_words, stemmer, split)


def _read_lowercased(text: str) -> list[bytes]:
    """The words of an English text as in rouge-score's tokenizer, with `END` for each line end."""
    # A few letters outside ASCII, such as the Kelvin sign, become ASCII letters in lower case.
    return read_words(text.lower())


@cache
def _nltk_stemmer() -> Callable[[str], str]:
    """The function that maps a lowercased word to its stem as in rouge-score."""
    # rouge-score is imported late, as it imports NLTK, and NLTK imports SciPy and scikit-learn.
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(use_stemmer=True)

    @lru_cache(maxsize=1 << 18)
    def stem_word(word: str) -> str:
        return "".join(tokenizer.tokenize(word))

    return stem_word


def _byte_cutter(split: Splitter, limit: int, is_limit_of_text: bool) -> Splitter:
    """A splitter into sentences that truncates a text at the byte that reaches the limit.

    Args:
        split: splits a text into sentences.
        limit: number of bytes, not counting line ends.
        is_limit_of_text: whether bytes are counted from the start of the text. If not, they are counted from the start
            of each sentence, and the text still ends with the first sentence that reaches the limit, as in the script.
    """

    def first_bytes(text: str) -> list[str]:
        kept: list[str] = []
        used = 0
        for line in _lines_in_bytes(text, split):
            if used + len(line) >= limit:
                kept.append(_decoded(line[: limit - used]))
                break
            kept.append(_decoded(line))
            if is_limit_of_text:
                used += len(line)
        return kept

    return first_bytes


def _word_cutter(split: Splitter, limit: int) -> Splitter:
    """A splitter into sentences that truncates a text at the word that reaches the limit.

    Space at the start of a sentence counts as a word, as in the script.

    Args:
        split: splits a text into sentences.
        limit: number of words, separated by spaces.
    """

    def first_words(text: str) -> list[str]:
        kept: list[str] = []
        used = 0
        for line in _lines_in_bytes(text, split):
            words = []
            if line.strip():
                words = _SPACE.split(line.rstrip())
            if used + len(words) >= limit:
                kept.append(_decoded(b" ".join(words[: limit - used])))
                break
            kept.append(_decoded(line))
            used += len(words)
        return kept

    return first_words


def _lines_in_bytes(text: str, split: Splitter) -> list[bytes]:
    """The sentences of a text in UTF-8. Empty sentences are left out."""
    return [readable(line).encode() for line in split(text) if line]


def _decoded(line: bytes) -> str:
    """The sentence as text, in which each byte outside ASCII becomes U+FFFD, a sign that separates words."""
    return line.decode("ascii", "replace")
