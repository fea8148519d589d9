"""ROUGE (Lin 2004) with the scores of Google's rouge-score or of the Perl script ROUGE-1.5.5, without the script."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain
from typing import Literal, get_args

import numpy as np

from hf_summ.common.flags import flag
from hf_summ.common.messages import check_choice, one_line
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.rouge_counts import (
    Measure,
    Scores,
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
from hf_summ.models.checks import check_integer
from hf_summ.models.text_documents import readable

_ROUGE_SCORE_MEASURES: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rougeL": sequence_lcs,
    "rougeLsum": summary_lcs,
}
_ROUGE155_MEASURES: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rouge3": ngrams(3),
    "rougeL": summary_lcs,
    "rougeSU4": skip_bigrams_4,
    "rougeSU*": skip_bigrams,
}
_MEASURES_OF_MODES: Mapping[str, dict[str, Measure]] = {
    "rouge_score": _ROUGE_SCORE_MEASURES,
    "rouge155": _ROUGE155_MEASURES,
}
ROUGE_MODES = tuple(_MEASURES_OF_MODES)
ROUGE_TYPES = tuple(_ROUGE_SCORE_MEASURES)
ROUGE155_TYPES = tuple(_ROUGE155_MEASURES)
# The types of both modes, each once.
ALL_TYPES = tuple(_ROUGE155_MEASURES | _ROUGE_SCORE_MEASURES)
RougeMode = Literal["rouge155", "rouge_score"]
Several = Literal["best", "pooled"]
_SPACE = re.compile(rb"\s+")


@dataclass(frozen=True)
class RougeSettings:
    """What ROUGE compares, and how; all but the last are flags of `hf-summ evaluate`.

    Args:
        language: English is split into words of a-z and 0-9, as in rouge-score and the script. Other languages are
            split into words of any script, and Chinese and Japanese into characters.
        sentences: "split" splits lines into sentences; "lines" treats each line as one, as rouge-score and the script
            do.
        rouge_mode: "rouge155" gives the numbers of the Perl script ROUGE-1.5.5, which papers report: rouge1, rouge2,
            rouge3, rougeL, rougeSU4, rougeSU*. Its rougeL compares sentence by sentence. rougeSU* skips any number of
            words; pyrouge prints it as SU4. rougeSU4 skips at most 4 words (`-2 4 -u`). As in the script, neither
            counts a text's last word as a unigram. "rouge_score" gives the numbers of Google's package: rouge1, rouge2,
            rougeL, which treats a summary as one sequence, and rougeLsum, which compares sentence by sentence.
        rouge_types: which of the mode's types to compute.
        units: the units of languages other than English: "words", or "lcsts" for the characters that DRGD's program
            compares, without most marks.
        rouge_tokenizer: the tokenizer whose subwords are compared in place of words.
        byte_limit: number of bytes to which predictions and references are truncated (`-b`), not counting line ends.
            For rougeL the script counts within each sentence instead.
        word_limit: number of words, separated by spaces, to which they are truncated (`-l`).
        several: how several references are combined. "best": the one with the highest F, for each type separately, as
            in rouge-score; "pooled": the matches with all, summed before dividing, as in the script (`-f A`).
        use_stemmer: whether inflected forms of an English word match: by NLTK's variant of Porter's stemmer in mode
            "rouge_score", by WordNet's exception lists and Porter's stemmer (`-m`) in "rouge155".

    Raises:
        ValueError: an unknown choice or language; both limits, a limit below 1, or one that the mode or the language
            does not have.
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
        check_choice("`rouge_mode`", self.rouge_mode, ROUGE_MODES)
        for rouge_type in self.rouge_types or ():
            if rouge_type == "rougeLsum" and self.rouge_mode == "rouge155":
                raise ValueError("ROUGE type rougeLsum of rouge-score is rougeL here, which compares sentences: use it")
            check_choice("ROUGE type", rouge_type, _MEASURES_OF_MODES[self.rouge_mode])
        check_choice("`sentences`", self.sentences, ("split", "lines"))
        check_choice("`several`", self.of_several, get_args(Several))
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
        """Whether texts are truncated, so that recall is the score, as at DUC."""
        return self.byte_limit is not None or self.word_limit is not None

    @property
    def of_several(self) -> str:
        """How several references are combined."""
        if self.several is not None:
            return self.several
        return "pooled" if self.rouge_mode == "rouge155" else "best"

    @property
    def stemming(self) -> str:
        """How the forms of a word are reduced to one."""
        if not self.use_stemmer or not is_english(self.language):
            return "none"
        if self.rouge_mode == "rouge_score":
            return "Porter (NLTK's)"
        return "Porter and WordNet's exceptions"


def rouge(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], settings: RougeSettings | None = None
) -> dict[str, Scores]:
    """ROUGE type -> precision, recall and F of each example, in points, 0 to 100. An empty prediction scores 0.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        settings: by default those of `RougeSettings`.

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, or
            references of which none has a word.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet; or they have no
            spaces between words and are not read by characters.
    """
    settings = settings or RougeSettings()
    rows = check_rows(predictions, references)
    if settings.rouge_tokenizer is not None:
        pieces = _pieces(settings.rouge_tokenizer)
        predictions = in_pieces(predictions, pieces, settings)
        rows = in_pieces(rows, pieces, settings)
        settings = replace(settings, sentences="lines")
    warn_of_script(chain.from_iterable(rows), settings.language)
    measures = _MEASURES_OF_MODES[settings.rouge_mode]
    if settings.rouge_types is not None:
        measures = {rouge_type: measures[rouge_type] for rouge_type in settings.rouge_types}
    counts_of_types = count_matches(predictions, rows, _reader(settings), measures, settings.language)
    sizes = np.array([len(row) for row in rows])
    scores = {}
    for rouge_type, counts in counts_of_types.items():
        scores[rouge_type] = combined_scores(counts, sizes, settings.of_several)
    return scores


def in_pieces(
    texts: Sequence[str | Sequence[str]], pieces: Callable[[str], list[str]], settings: RougeSettings
) -> list:
    """Texts, or lists of them, as subwords between spaces, with a sentence in each line, as subwords hide its end.

    Args:
        pieces: maps a text to its subwords.
    """
    texts_in_pieces: list[str | list] = []
    for text in texts:
        if isinstance(text, str):
            lines = [" ".join(pieces(sentence)) for sentence in _sentences(text, settings)]
            texts_in_pieces.append("\n".join(lines))
        else:
            texts_in_pieces.append(in_pieces(text, pieces, settings))
    return texts_in_pieces


def _sentences(text: str, settings: RougeSettings) -> list[str]:
    if settings.sentences == "lines":
        return text.split("\n")
    return split_sentences(text, settings.language)


@lru_cache(maxsize=1)
def _pieces(name: str) -> Callable[[str], list[str]]:
    """The function that splits a text into a tokenizer's subwords."""
    # It is imported here, as that is slow and rarely needed.
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name).tokenize
    except OSError as error:
        # This error does not name the tokenizer if the Hub is out of reach.
        raise ValueError(f"`rouge_tokenizer` is {name!r:.80}, but cannot be loaded: {one_line(error):.300}") from error


def _reader(settings: RougeSettings) -> Reader:
    """The reader of texts in the settings' language and mode."""
    split = sentence_splitter(settings.language, settings.sentences)
    if not is_english(settings.language):
        return foreign_reader(settings.language, settings.units, split)
    if settings.rouge_mode == "rouge_score":
        return Reader(_read_lowercased, _nltk_stemmer() if settings.use_stemmer else None, split)
    stemmer = stem if settings.use_stemmer else None
    if settings.word_limit is not None:
        return Reader(read_words, stemmer, _word_cutter(split, settings.word_limit))
    if settings.byte_limit is not None:
        cut_text = _byte_cutter(split, settings.byte_limit, is_limit_of_text=True)
        cut_sentences = _byte_cutter(split, settings.byte_limit, is_limit_of_text=False)
        return Reader(read_words, stemmer, cut_text, split_for_lcs=cut_sentences)
    return Reader(read_words, stemmer, split)


def _read_lowercased(text: str) -> list[bytes]:
    """The words of an English text as in rouge-score's tokenizer."""
    # A few letters outside ASCII become ASCII letters in lower case.
    return read_words(text.lower())


@cache
def _nltk_stemmer() -> Callable[[str], str]:
    # It is imported late, as NLTK imports SciPy and scikit-learn.
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(use_stemmer=True)

    @lru_cache(maxsize=1 << 18)
    def stem_word(word: str) -> str:
        return "".join(tokenizer.tokenize(word))

    return stem_word


def _byte_cutter(split: Splitter, limit: int, is_limit_of_text: bool) -> Splitter:
    """A splitter that keeps the text up to the byte that reaches the limit.

    Args:
        is_limit_of_text: whether bytes are counted from the start of the text, or from that of each sentence. In the
            second case too, the text ends with the first sentence that reaches the limit, as in the script.
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
    """A splitter that keeps the text up to the word that reaches the limit; an indent is a word, as in the script."""

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
    return [readable(line).encode() for line in split(text) if line]


def _decoded(line: bytes) -> str:
    """The line as ASCII, in which other letters, which count as bytes, separate words."""
    return line.decode("ascii", "replace")
