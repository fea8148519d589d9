"""ROUGE (Lin 2004) with the scores of Google's rouge-score or of the Perl script ROUGE-1.5.5, without the script."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from hf_summ.common.messages import check_choice
from hf_summ.data.lists import Lists
from hf_summ.evaluation.rouge_counts import (
    SEVERAL,
    Measure,
    Reader,
    Scores,
    Splitter,
    ngrams,
    other_reader,
    read_words,
    score_rows,
    sentence_splitter,
    sequence_lcs,
    skip_bigrams,
    skip_bigrams_4,
    summary_lcs,
    weighted_lcs,
)
from hf_summ.evaluation.stemming import stem
from hf_summ.evaluation.words import check_rows, check_units, is_english, warn_of_script
from hf_summ.models.checks import check_integer
from hf_summ.models.text_documents import readable

ROUGE_MODES = ("rouge_score", "rouge155")
_MEASURES = {"rouge1": ngrams(1), "rouge2": ngrams(2), "rougeL": sequence_lcs, "rougeLsum": summary_lcs}
ROUGE_TYPES = tuple(_MEASURES)
# computed only if they are named
_MEASURES |= {"rouge3": ngrams(3), "rouge4": ngrams(4)}
_MEASURES_155: dict[str, Measure] = {
    "rouge1": ngrams(1),
    "rouge2": ngrams(2),
    "rouge3": ngrams(3),
    "rougeL": summary_lcs,
    "rougeSU4": skip_bigrams_4,
    "rougeSU*": skip_bigrams,
}
ROUGE155_TYPES = tuple(_MEASURES_155)
_MEASURES_155 |= {"rouge4": ngrams(4), "rougeW": weighted_lcs}
ALL_TYPES = tuple(dict.fromkeys((*_MEASURES_155, *_MEASURES)))
# options of "rouge155" alone
_LIMITS = ("byte_limit", "word_limit")
_SPACE = re.compile(rb"\s+")


def rouge(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_mode: str = "rouge_score",
    **options: Any,
) -> dict[str, float]:
    """Macro mean of F over the examples for each ROUGE type, in points, 0 to 100, to 4 digits.

    Args:
        rouge_mode: "rouge_score" gives Google's numbers: rouge1, rouge2, rougeL, rougeLsum. rougeL treats a summary as
            one sequence; rougeLsum compares sentence by sentence. Papers on summaries of several sentences call the
            latter ROUGE-L. "rouge155" gives those of the Perl script ROUGE-1.5.5, which papers report: rouge1, rouge2,
            rouge3, rougeL (sentence by sentence), rougeSU4, rougeSU*. `rouge_types` may name more of them.
        options: `rouge_types`, `sentences`, `splitter`, `units` and `several`, and for "rouge155" also `byte_limit` and
            `word_limit`.

    See `rouge_scores` and `rouge155_scores` for the other arguments and errors.

    Raises:
        ValueError: an unknown mode, or an option that "rouge_score" does not have.

    Warns:
        UserWarning: several references of a row look like sentences; or as `rouge_scores`.
    """
    scores = rouge_scores_in_mode(rouge_mode, predictions, references, use_stemmer, language, **options)
    lists = Lists("summary", "")
    for row in references:
        if not isinstance(row, str):
            lists.add(row)
    if lists.meaning == "sentences":
        warnings.warn(
            "the references of a row look like the sentences of one summary, but each is scored as a reference: join "
            "them if they are",
            stacklevel=2,
        )
    return {metric: round(float(values.fmeasure.mean()), 4) for metric, values in scores.items()}


def rouge_scores_in_mode(
    rouge_mode: str,
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    **options: Any,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example; see `rouge` for the arguments and errors."""
    check_choice("`rouge_mode`", rouge_mode, ROUGE_MODES)
    if rouge_mode == "rouge155":
        return rouge155_scores(predictions, references, use_stemmer, language, **options)
    limits = [name for name in _LIMITS if options.pop(name, None) is not None]
    if limits:
        raise ValueError(f"`rouge_mode` is 'rouge_score', which has no {', '.join(limits)}: set it to 'rouge155'")
    return rouge_scores(predictions, references, use_stemmer, language, **options)


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_types: Sequence[str] = ROUGE_TYPES,
    sentences: str = "split",
    splitter: str = "sentencex",
    units: str = "words",
    several: str | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of rouge-score. An empty prediction scores 0.

    Args:
        predictions: one text per row.
        references: one or several texts per row.
        use_stemmer: whether to use NLTK's variant of Porter's stemmer; English only.
        language: ISO 639 code. English is split into words of a-z and 0-9, as in rouge-score. Other languages are split
            into words of any script, and Chinese and Japanese into characters.
        rouge_types: which of `ROUGE_TYPES`, rouge3 and rouge4.
        sentences: "split" splits lines into sentences; "lines" treats each line as one, as rouge-score does.
        splitter: what splits lines, as for `split_sentences`.
        units: the units of languages other than English: "words", "characters" (all of them), "lcsts" for those that
            DRGD's program compares, without most marks, or "spaced" for words separated by spaces.
        several: how several references are combined. "best": the one with the highest F, for each metric separately;
            "mean": the mean of the scores with each; "pooled": the matches with all, summed before dividing. By default
            "best", as in rouge-score (`RougeScorer.score_multi`).

    Raises:
        ValueError: different numbers of predictions and references, none at all, a row without a reference, references
            without words, or an unknown ROUGE type, splitter or value of `sentences`, `units` or `several`.

    Warns:
        UserWarning: the language is English, but the references are written in another alphabet; or they have no
            spaces between words and are not read by characters.
    """

    def reader(split: Splitter) -> Reader:
        # as in rouge-score's tokenizer; lowercased first, as a few letters outside ASCII become ASCII letters
        return Reader(lambda text: read_words(text.lower()), _stemmer() if use_stemmer else None, split)

    texts, options = (predictions, references), (language, rouge_types, sentences, splitter, units, several or "best")
    return _score("ROUGE", _MEASURES, reader, *texts, *options)


def rouge155_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    rouge_types: Sequence[str] = ROUGE155_TYPES,
    sentences: str = "split",
    splitter: str = "sentencex",
    units: str = "words",
    byte_limit: int | None = None,
    word_limit: int | None = None,
    several: str | None = None,
) -> dict[str, Scores]:
    """Metric -> precision, recall and F of each example, equal to those of ROUGE-1.5.5. An empty prediction scores 0.

    rougeL compares sentence by sentence, as the script does. rougeSU* skips any number of words; pyrouge prints it as
    SU4. rougeSU4 skips at most 4 words (`-2 4 -u`). As in the script, neither counts a text's last word as a unigram.

    Args:
        predictions, references, language, sentences, splitter, units: as for `rouge_scores`.
        use_stemmer: whether to use WordNet's exception lists and Porter's stemmer (`-m`); English only.
        rouge_types: which of `ROUGE155_TYPES`, rouge4 and rougeW (`-w 1.2`).
        byte_limit: number of bytes to which predictions and references are truncated (`-b`), not counting line ends.
            For rougeL the script counts within each sentence instead.
        word_limit: number of words, separated by spaces, to which they are truncated (`-l`).
        several: how several references are combined, as for `rouge_scores`; by default "pooled", as in the script
            (`-f A`).

    Raises:
        ValueError: as `rouge_scores`; both limits, a limit below 1, or a limit for a language other than English.

    Warns:
        UserWarning: as `rouge_scores`.
    """
    limits = {"byte_limit": byte_limit, "word_limit": word_limit}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    if len(limits) > 1:
        raise ValueError("`byte_limit` and `word_limit` exclude each other: set only one")
    for name, limit in limits.items():
        check_integer(name, limit, 1)
        if not is_english(language):
            raise ValueError(f"`{name}` needs English, as in ROUGE-1.5.5, but `language` is '{language}'")
    reader = partial(_reader155, use_stemmer, byte_limit, word_limit)
    texts, options = (predictions, references), (language, rouge_types, sentences, splitter, units, several or "pooled")
    return _score("ROUGE-1.5.5", _MEASURES_155, reader, *texts, *options)


def _score(
    title: str,
    measures: Mapping[str, Measure],
    english_reader: Callable[[Splitter], Reader],
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    language: str,
    rouge_types: Sequence[str],
    sentences: str,
    splitter: str,
    units: str,
    several: str,
) -> dict[str, Scores]:
    rows = check_rows(predictions, references)
    if not rouge_types:
        raise ValueError(f"`rouge_types` is empty: choose from {', '.join(measures)}")
    for rouge_type in rouge_types:
        if rouge_type == "rougeLsum" and rouge_type not in measures:
            raise ValueError("ROUGE type rougeLsum of rouge-score is rougeL here, which compares sentences: use rougeL")
        check_choice("ROUGE type", rouge_type, measures)
    check_choice("`sentences`", sentences, ("split", "lines"))
    check_choice("`several`", several, SEVERAL)
    check_units(units, language)
    warn_of_script((text for row in rows for text in row), language)
    split = sentence_splitter(language, sentences, splitter)
    reader = english_reader(split) if is_english(language) else other_reader(language, units, split)
    measures = {rouge_type: measures[rouge_type] for rouge_type in rouge_types}
    return score_rows(predictions, rows, reader, measures, title, language, several)


@cache
def _stemmer() -> Callable[[str], str]:
    # imported here: NLTK imports SciPy and scikit-learn
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(use_stemmer=True)
    return lru_cache(maxsize=1 << 18)(lambda word: "".join(tokenizer.tokenize(word)))


def _reader155(use_stemmer: bool, byte_limit: int | None, word_limit: int | None, split: Splitter) -> Reader:
    """The reader of English texts: other letters and surrogates become blanks, but count as bytes."""
    cuts: list[Callable[[list[bytes]], list[bytes]]] = []
    if byte_limit is not None:
        cuts = [
            partial(_cut, limit=byte_limit, units=bytes, joined=bytes, running=running) for running in (True, False)
        ]
    elif word_limit is not None:
        cuts = [partial(_cut, limit=word_limit, units=_words_of, joined=b" ".join)]

    def cut_lines(cut: Callable, text: str) -> list[str]:
        lines = cut([readable(line).encode() for line in split(text) if line])
        return [line.decode("ascii", "replace") for line in lines]

    return Reader(read_words, stem if use_stemmer else None, *([partial(cut_lines, cut) for cut in cuts] or [split]))


def _cut(lines: list[bytes], limit: int, units: Callable, joined: Callable, running: bool = True) -> list[bytes]:
    """The lines up to the unit that reaches the limit, counted from the first line (`running`) or within a line."""
    within, used = [], 0
    for line in lines:
        content = units(line)
        if used + len(content) >= limit:
            return [*within, joined(content[: limit - used])]
        within.append(line)
        used += len(content) if running else 0
    return within


def _words_of(line: bytes) -> list[bytes]:
    """The words between spaces; an indent counts as a word, as in the script."""
    return _SPACE.split(line.rstrip()) if line.strip() else []
